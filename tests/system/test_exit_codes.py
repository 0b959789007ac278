"""Exit codes that a script goes by, of the real command on a real daemon."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.bench.daemon_under_test import DaemonUnderTest
from tests.system.commands import typed

pytestmark = pytest.mark.system

Make = Callable[..., DaemonUnderTest]
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("limit", ["0", "abc", "1001", "-1", ""])
def test_a_bound_that_cannot_be_meant_is_2_with_a_daemon_and_without(
    shared: DaemonUnderTest, make: Make, limit: str
) -> None:
    for daemon in (shared, make()):
        done = typed(daemon, "recall", "x", f"--limit={limit}")
        assert done.returncode == 2
        assert "--limit" in done.stderr


def test_each_code_of_the_readme_is_what_it_says(shared: DaemonUnderTest, make: Make, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    node = json.loads(typed(shared, "remember", "The ladder is in the attic.", "--json").stdout)["node_id"]
    codes = {
        typed(daemon, *words).returncode
        for daemon, words in (
            (shared, ["status"]),
            (shared, ["link", node, node]),
            (shared, ["recal"]),
            (make(), ["status"]),
            (shared, ["recall", "zzyzx quux"]),
            (shared, ["import", tmp_path / "empty"]),
            (shared, ["import", tmp_path / "nowhere"]),
        )
    }
    (said,) = re.findall(r"Exit codes: ([^.]*)\.", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert [*map(int, re.findall(r"\b\d+\b", said))] == [*sorted(codes), 130]
    assert interrupted(shared) == 130


def interrupted(daemon: DaemonUnderTest) -> int:
    """Follow the log until it says something, and leave it with Ctrl-C."""
    command = [sys.executable, "-P", "-m", "dreamd.daemon.cli.main", "log", "--follow"]
    environ = daemon.environ | {"DREAMD_LOG__FILE": str(daemon.log)}
    hears = partial(
        signal.signal, signal.SIGINT, signal.SIG_DFL
    )  # where these tests are a shell's job in the background
    with subprocess.Popen(
        command, env=environ, cwd=daemon.folder, stdout=subprocess.PIPE, text=True, preexec_fn=hears
    ) as following:
        assert following.stdout is not None
        assert following.stdout.readline()
        following.send_signal(signal.SIGINT)
        following.stdout.read()
        return following.wait(60)


def test_undo_twice_says_so_and_is_4(shared: DaemonUnderTest) -> None:
    node = json.loads(typed(shared, "remember", "The wheelbarrow is in the shed.", "--json").stdout)["node_id"]
    run = json.loads(typed(shared, "forget", node, "--json").stdout)["run_id"]
    first, second = typed(shared, "undo", run), typed(shared, "undo", run)
    assert (first.returncode, first.stdout) == (0, f"Run {run} is undone: 1 file as before.\n")
    assert (second.returncode, second.stdout) == (4, f"Run {run} was undone before; nothing was changed.\n")
    assert typed(shared, "undo", "no-such-run").returncode == 4


def test_a_dry_run_is_0_whether_there_is_something_to_do_or_not(make: Make, tmp_path: Path) -> None:
    with make() as daemon:
        empty = typed(daemon, "dream", "--dry-run")
        assert (empty.returncode, empty.stdout) == (0, "A dream would change nothing now.\n")
        turns = ["I prefer pnpm over npm in this repository.", "We decided to use Postgres 16 for the billing service."]
        lines = [json.dumps({"role": "user", "content": turn, "session": "s"}) for turn in turns]
        (tmp_path / "chat.jsonl").write_text("\n".join(lines))
        assert typed(daemon, "import", tmp_path / "chat.jsonl").returncode == 0
        planned = typed(daemon, "dream", "--dry-run")
        assert planned.returncode == 0
        assert "nothing was changed" in planned.stdout
        typed(daemon, "pause")
        assert typed(daemon, "dream", "--dry-run").returncode == 0
