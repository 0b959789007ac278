"""Dreams whose daemon is gone: nothing of them stays but a line in the history."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from dreamd.daemon.dreaming.child import remove_orphans, write_run_marker
from dreamd.pipelines.messages import SPENT, RunRequest

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)


def marked(folder: Path, pid: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    request = SimpleNamespace(run_id=folder.name, kind="weekly", now=NOW, dry_run=False, folder=folder)
    write_run_marker(cast(RunRequest, request), pid)
    return folder


def sleeper(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(99)"], cwd=folder, start_new_session=True)


def test_an_orphan_is_read_from_its_run_marker(tmp_path: Path) -> None:
    marked(tmp_path / "runs" / "r1", 2**22 + 1)
    (orphan,) = remove_orphans(tmp_path / "runs")
    assert (orphan.run_id, orphan.kind, orphan.began_at, orphan.dry_run) == ("r1", "weekly", NOW, False)
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.parametrize(
    ("said", "spent"),
    [('{"calls": 3, "tokens": 700}', {"calls": 3, "tokens": 700}), ('{"calls": 3', {}), ("[]", {}), (None, {})],
)
def test_calls_of_an_orphan_count_for_the_day(tmp_path: Path, said: str | None, spent: dict[str, int]) -> None:
    folder = marked(tmp_path / "runs" / "r1", 2**22 + 1)
    if said is not None:
        (folder / SPENT).write_text(said)
    (orphan,) = remove_orphans(tmp_path / "runs")
    assert orphan.spent == spent


@pytest.mark.parametrize("said", ["", "{", "[]", '{"run_id": 3}', '{"pid": "x"}'])
def test_a_folder_without_a_readable_marker_is_removed_too(tmp_path: Path, said: str) -> None:
    folder = tmp_path / "runs" / "r1"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(said)
    assert list(remove_orphans(tmp_path / "runs")) == []
    assert not folder.exists()


def test_without_a_runs_folder_there_are_no_orphans(tmp_path: Path) -> None:
    assert list(remove_orphans(tmp_path / "runs")) == []


def test_only_the_orphan_s_process_is_killed(tmp_path: Path) -> None:
    first, second = tmp_path / "runs" / "r1", tmp_path / "runs" / "r2"
    first.mkdir(parents=True)
    second.mkdir()
    ours, other = sleeper(first), sleeper(tmp_path)  # the other got the number of a dream that is long over
    try:
        marked(first, ours.pid)
        marked(second, other.pid)
        assert {orphan.run_id for orphan in remove_orphans(tmp_path / "runs")} == {"r1", "r2"}
        assert ours.wait(10) == -9
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
