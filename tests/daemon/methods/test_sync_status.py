"""What `sync status` says is wrong, and what to do about it."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest
from dreamd.daemon.dreaming.dreamer import Dreamer
from dreamd.daemon.methods.sync_methods import (
    MOST_AHEAD_MINUTES,
    SyncInitParams,
    SyncMethods,
    SyncSetParams,
    SyncStatus,
)
from dreamd.ipc.call import Call
from dreamd.ipc.params import NoParams
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.settings import StoreSettings

NewDaemon = Callable[[str], tuple[SyncMethods, MemoryStore]]
CALL = cast(Call, None)


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[NewDaemon]:
    """Give a function that begins the sync of a machine with one folder, in plain text."""
    with ExitStack() as stack:

        def new(host: str) -> tuple[SyncMethods, MemoryStore]:
            root = tmp_path / host
            paths = StorePaths(root / "v", root / "l.db", root / "i.db", root / "e.db", root / "runs")
            store = MemoryStore.open(paths, StoreSettings(), StubEmbedder(), lambda: datetime.now(UTC))
            stack.callback(store.close)
            methods = SyncMethods(store, cast(Dreamer, None), root / "sync", host)
            stack.callback(lambda: asyncio.run(methods.set(SyncSetParams(setting="off"), CALL)))
            store.remember(f"The kiln of {host} burns at 1240 degrees.").result()
            asyncio.run(methods.init(SyncInitParams(remote=str(tmp_path / "remote.git"), plain=True), CALL))
            return methods, store

        yield new


def synced(methods: SyncMethods) -> SyncStatus:
    """Sync, and return the status after it."""
    asyncio.run(methods.sync(NoParams(), CALL))
    return asyncio.run(methods.status(NoParams(), CALL))


@pytest.mark.parametrize(("minutes", "is_named"), [(60, True), (MOST_AHEAD_MINUTES - 1, False), (-60, False)])
def test_a_machine_whose_clock_is_ahead_is_named(
    begun: NewDaemon, monkeypatch: pytest.MonkeyPatch, minutes: int, is_named: bool
) -> None:
    here, _ = begun("attic")
    with monkeypatch.context() as there:
        there.setenv("GIT_COMMITTER_DATE", (datetime.now(UTC) + timedelta(minutes=minutes)).isoformat())
        begun("cellar")
    status = synced(here)
    assert {one.host for one in status.machines} == {"attic", "cellar"}
    told = {one.name: one.reason for one in status.aside}
    assert told == ({"clock of cellar": "it is ahead of this machine's: set the one that is wrong"} if is_named else {})


def damaged(remote: Path) -> None:
    """Cut every object of a remote short."""
    for path in (one for one in (remote / "objects").rglob("*") if one.is_file()):
        path.chmod(0o600)
        path.write_bytes(path.read_bytes()[:20])


def emptied(remote: Path) -> None:
    shutil.rmtree(remote)
    remote.mkdir()


@pytest.mark.parametrize(
    ("damage", "advice"),
    [
        (
            damaged,
            "It is damaged: move it away; `git init --bare {0}` makes an empty one, which the machines fill again.",
        ),
        (
            emptied,
            "If it is on another disk, plug that in; if it is lost, `git init --bare {0}` makes an empty one, "
            "which the machines fill again.",
        ),
    ],
)
def test_a_folder_that_is_no_repository_any_more_is_named_and_the_advice_mends_it(
    begun: NewDaemon, tmp_path: Path, damage: Callable[[Path], None], advice: str
) -> None:
    (here, _), (there, kept), remote = begun("attic"), begun("cellar"), tmp_path / "remote.git"
    before = len(synced(here).machines)
    damage(remote)
    kept.remember("The clay comes on Tuesdays.").result()
    status = synced(there)
    assert status.trouble is not None
    assert status.trouble.startswith("The remote cannot be used: ")
    assert status.trouble.endswith(advice.format(remote))
    remote.rename(tmp_path / "away.git")
    subprocess.run(["git", "init", "--bare", "--quiet", str(remote)], check=True)
    assert synced(there).trouble is None
    assert synced(here).trouble is None
    assert len(begun("shed")[1].replica.memories()) == 4
    assert len(synced(here).machines) == before + 1
