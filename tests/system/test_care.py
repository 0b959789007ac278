"""A person looks after the memory: import, dream, read the digest, decide, bring back, undo; on the real daemon."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from dreamd.store import okf
from dreamd.store.model import Memory
from dreamd.store.vault.vault import is_kept

from tests import memories
from tests.bench.daemon_under_test import DaemonUnderTest
from tests.system.chats import chat
from tests.system.waiting import until

pytestmark = pytest.mark.system

LONG_AGO = datetime.now(UTC) - timedelta(days=400)
SAID = (
    "I prefer pnpm over npm in this repository.",
    "We decided to use Postgres 16 for the billing service.",
    "The deploy to staging takes nine minutes on a good day.",
)


def type_in(daemon: DaemonUnderTest, *words: str, code: int = 0) -> str:
    """Run one command as a person would; what it printed."""
    command = [sys.executable, "-P", "-m", "dreamd.daemon.cli.main", *words]
    done = subprocess.run(command, env=daemon.environ, cwd=daemon.folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stderr
    return done.stdout


def answer(daemon: DaemonUnderTest, *words: str) -> Any:
    return json.loads(type_in(daemon, *words, "--json"))


def vault(daemon: DaemonUnderTest) -> dict[str, bytes]:
    """Every kept file; what is derived is no part of what is undone."""
    root = daemon.folder / "data" / "vault"
    files = {path.relative_to(root).as_posix(): path for path in root.rglob("*.md")}
    return {name: path.read_bytes() for name, path in files.items() if is_kept(name)}


def put(daemon: DaemonUnderTest, *memories: Memory) -> None:
    """Write files into the vault, as an editor would, and wait until they are seen."""
    for memory in memories:
        path = daemon.folder / "data" / "vault" / memory.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(okf.from_memory(memory))
    known = {memory.node_id for memory in memories}
    until(lambda: known <= {each["node_id"] for each in daemon.call("list", level="L1", limit=1000)["memories"]})


def fact(text: str, at: datetime = LONG_AGO, **fields: Any) -> Memory:
    learned = {"learned_at": at.isoformat()}
    return memories.fact(text, "shop", created_at=at, certainty=0.95, extra=learned, **fields)


def test_import_dream_review_undo(daemon: DaemonUnderTest) -> None:
    type_in(daemon, "import", str(chat(daemon.folder, SAID)), "--format", "chat-jsonl", "--channel", "shop")
    imported = vault(daemon)
    first = answer(daemon, "dream", "weekly", "--wait")
    assert first["state"] == "applied"
    assert "dreamctl undo" in type_in(daemon, "digest")
    dreamt = vault(daemon)

    # Two facts contradict each other; one has been forgotten by everybody.
    older, newer = fact("The shop opens at nine."), fact("The shop opens at ten.", datetime.now(UTC))
    older, newer = (
        fact(older.text, contradicts=(newer.node_id,)),
        fact(newer.text, datetime.now(UTC), contradicts=(older.node_id,)),
    )
    faint = fact("The old till is in the cellar.")
    put(daemon, older, newer, faint)
    with_them = vault(daemon)
    assert faint.node_id in type_in(daemon, "decay", "--preview")

    # The next dream lets the one fade, asks about the others, and keeps the first account of the day.
    second = answer(daemon, "dream", "daily", "--wait")
    assert second["actions"].get("decay") == 1
    assert daemon.call("show", node_id=faint.node_id)["live"] is False
    digest = answer(daemon, "digest")
    assert digest["text"].count("<!-- dream ") == 2
    page = Path(digest["page"]).read_text()
    for told in ("Decisions waiting", "The shop opens at ten", "The old till is in the cellar", first["run_id"]):
        assert told in digest["text"]
        assert told in page

    # A person decides, changes their mind, and decides again.
    (decision,) = answer(daemon, "review", "--list")["decisions"]
    assert (decision["older"]["node_id"], decision["newer"]["node_id"]) == (older.node_id, newer.node_id)
    decided = answer(daemon, "review", decision["decision_id"], "--keep", "newer", "--by", "ann")
    assert answer(daemon, "review")["decisions"] == []
    assert daemon.call("show", node_id=older.node_id)["live"] is False
    assert b"human:ann" in vault(daemon)[newer.path]
    type_in(daemon, "undo", decided["run_id"])
    assert len(answer(daemon, "review")["decisions"]) == 1
    type_in(daemon, "review", decision["decision_id"], "--keep", "both")
    assert "No decision waits." in type_in(daemon, "review")
    type_in(daemon, "review", decision["decision_id"], "--keep", "newer", code=4)

    # What faded comes back, and does not fade again the next night.
    type_in(daemon, "restore", faint.node_id)
    assert daemon.call("show", node_id=faint.node_id)["live"] is True
    assert answer(daemon, "dream", "daily", "--wait")["actions"].get("decay") is None
    assert "Nothing would fade" in type_in(daemon, "decay", "--preview")

    # Everything can be taken back, the latest first, byte for byte.
    for run in answer(daemon, "runs", "--limit", "50")["runs"]:
        if run["run_id"] != first["run_id"] and run["state"] == "applied":
            assert answer(daemon, "undo", run["run_id"])["conflicts"] == []
    assert vault(daemon) == with_them
    for memory in (older, newer, faint):
        (daemon.folder / "data" / "vault" / memory.path).unlink()
    assert vault(daemon) == dreamt
    assert answer(daemon, "undo", first["run_id"])["conflicts"] == []
    assert vault(daemon) == imported


def test_what_was_undone_does_not_fade_again(daemon: DaemonUnderTest) -> None:
    faint = fact("The old till is in the attic.")
    put(daemon, faint)
    faded = answer(daemon, "dream", "daily", "--wait")
    assert faded["actions"] == {"decay": 1}
    assert answer(daemon, "digest")["undone"] == []
    assert answer(daemon, "undo", faded["run_id"])["restored"] == 1
    assert answer(daemon, "digest")["undone"] == [faded["run_id"]]
    assert answer(daemon, "dream", "daily", "--wait")["actions"].get("decay") is None
    assert daemon.call("show", node_id=faint.node_id)["live"] is True


def test_a_digest_without_a_browser_says_where_it_lies(daemon: DaemonUnderTest) -> None:
    type_in(daemon, "import", str(chat(daemon.folder, SAID)), "--format", "chat-jsonl", "--channel", "shop")
    type_in(daemon, "dream", "daily", "--wait")
    daemon.environ["PATH"] = str(daemon.folder)
    path = Path(type_in(daemon, "digest", "--open").strip())
    assert path.suffix == ".html"
    assert path.read_text().startswith("<!doctype html>")
