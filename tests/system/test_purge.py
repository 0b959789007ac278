"""A person erases something for good: the real daemon, its commands, a dream on its way, and a kill."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from tests.bench.daemon_under_test import DaemonUnderTest
from tests.store.purge.purging import places_with
from tests.system.chats import chat
from tests.system.commands import plain, typed
from tests.system.waiting import until

pytestmark = pytest.mark.system

SAID = (
    "We decided to use Quasarine 16 for the billing service in Zephyrhall.",
    "I prefer pnpm over npm in this repository.",
    "The deploy to staging takes nine minutes, says Marbelline.",
)
WORDS = ("Quasarine", "Zephyrhall")

Make = Callable[..., DaemonUnderTest]


@pytest.fixture
def dreamt(make: Make) -> DaemonUnderTest:
    """One that has dreamt of a conversation."""
    daemon = make()
    daemon.start()
    daemon.wait_until_it_answers()
    daemon.call("import", paths=[str(chat(daemon.folder, SAID))], channel="shop")
    daemon.call("dream", kind="daily", wait=True)
    assert places_with(daemon.folder / "data", WORDS)
    return daemon


def turn(daemon: DaemonUnderTest) -> str:
    (session,) = daemon.call("list", kind="session")["memories"]
    return f"{session['node_id']}#1"


def test_a_purge_shows_what_it_removes_asks_and_leaves_nothing(dreamt: DaemonUnderTest) -> None:
    refused = typed(dreamt, "purge", turn(dreamt))
    assert (refused.returncode, "--yes" in refused.stderr) == (4, True)
    shown = plain(typed(dreamt, "purge", turn(dreamt), "--dry-run").stdout)
    assert shown.startswith("This erases 1 turn and 1 memory for good, everywhere:")
    assert "Quasarine" in shown
    assert places_with(dreamt.folder / "data", WORDS)
    done = typed(dreamt, "purge", turn(dreamt), "--yes")
    assert done.returncode == 0
    assert "Nothing of it is left in any byte that dreamd keeps." in plain(done.stdout)
    assert places_with(dreamt.folder / "data", WORDS) == []
    assert "purged for good; turns: 1, memories: 1" in plain(typed(dreamt, "runs").stdout)


def test_at_a_terminal_a_purge_is_asked_for(dreamt: DaemonUnderTest) -> None:
    assert answered(dreamt, b"n\n", "purge", turn(dreamt)) == 4
    assert places_with(dreamt.folder / "data", WORDS)
    assert answered(dreamt, b"y\n", "purge", turn(dreamt)) == 0
    assert places_with(dreamt.folder / "data", WORDS) == []


def answered(daemon: DaemonUnderTest, said: bytes, *words: str) -> int:
    """Run a command at a terminal, and answer its question."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-P", "-m", "dreamd.daemon.cli.main", *words]
    try:
        os.write(ours, said)
        return subprocess.run(command, env=daemon.environ, stdin=theirs, capture_output=True, timeout=120).returncode
    finally:
        os.close(ours)
        os.close(theirs)


def test_what_was_purged_stays_away_after_dreams_undos_and_imports(dreamt: DaemonUnderTest) -> None:
    (first,) = [run["run_id"] for run in dreamt.call("runs", kind="daily")["runs"]]
    dreamt.call("purge", nodes=[turn(dreamt)])
    dreamt.call("import", paths=[str(dreamt.folder / "chat.jsonl")], channel="shop")
    dreamt.call("dream", kind="daily", wait=True)
    dreamt.call("undo", run_id=first)
    dreamt.call("dream", kind="daily", wait=True)
    dreamt.stop()
    assert places_with(dreamt.folder / "data", WORDS) == []
    assert places_with(dreamt.folder / "data", ["Marbelline"])


def test_a_dream_that_has_read_it_does_not_land(make: Make) -> None:
    daemon = make()
    daemon.start()
    daemon.wait_until_it_answers()
    daemon.call("import", paths=[str(chat(daemon.folder, SAID))], channel="shop")
    daemon.call("dream", kind="daily")
    until(lambda: daemon.call("status")["dream"])
    daemon.call("purge", nodes=[turn(daemon)])
    (dream,) = daemon.call("runs", kind="daily")["runs"]
    assert (dream["state"], dream["note"]) == ("cancelled", "a purge is under way")
    assert places_with(daemon.folder / "data", WORDS) == []


def test_a_purge_that_a_kill_interrupts_is_finished_by_the_next_start(dreamt: DaemonUnderTest) -> None:
    intent = dreamt.folder / "data" / "purge.json"
    node = turn(dreamt)

    def purge() -> None:
        with suppress(OSError, RuntimeError, ValueError):
            dreamt.call("purge", nodes=[node])

    asking = threading.Thread(target=purge)
    asking.start()
    until(intent.exists, every_s=0.001)
    dreamt.kill()
    asking.join()
    assert intent.exists()
    assert not any(word.encode() in intent.read_bytes() for word in WORDS)
    dreamt.start()
    dreamt.wait_until_it_answers()
    until(lambda: not intent.exists(), timeout_s=60)
    assert places_with(dreamt.folder / "data", WORDS) == []
    found: Any = dreamt.call("recall", query="Marbelline deploy staging minutes", channel="shop")
    assert any("Marbelline" in hit["text"] for hit in found["hits"])
