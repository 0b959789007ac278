"""What `dreamctl learn` keeps at once, what not, and what its undo takes back; on the real daemon."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.bench.daemon_under_test import DaemonUnderTest, Refused
from tests.system.chats import chat
from tests.system.commands import plain, typed

pytestmark = pytest.mark.system

WRITTEN_AT = 1_775_000_000  # 31 March 2026
DIARY = """---
date: 2026-01-05
---
# House

## 2026-03-02

We moved the orders service to Postgres 16 because SQLite locked under load.

- 2026-03-04: The rent of the flat is now 950 euros a month.
- Milk.
"""
SAID = ["We keep the backups on the blue disk, since 3 March 2026.", "I prefer tea to coffee."]
BEFORE = "The rent of the flat is 900 euros a month."


@pytest.fixture
def diary(tmp_path: Path) -> Path:
    """Write a diary that was last changed on 31 March 2026."""
    path = tmp_path / "notes" / "diary.md"
    path.parent.mkdir()
    path.write_text(DIARY)
    os.utime(path, (WRITTEN_AT, WRITTEN_AT))
    return path


def unread(daemon: DaemonUnderTest) -> int:
    """The turns that no dream has read."""
    return int(re.findall(r'dreamd_waiting{queue="unread_turns"} (\d+)', daemon.call("metrics")["text"])[0])


def days(learned: Any) -> dict[str, str]:
    return {fact["text"]: fact["at"][:10] for fact in learned["kept"]}


def test_a_note_is_facts_of_their_days_at_once_and_undo_takes_them_back(daemon: DaemonUnderTest, diary: Path) -> None:
    daemon.call("import", paths=[str(chat(diary.parent.parent, SAID))])
    waiting = unread(daemon)
    learned = daemon.call("learn", paths=[str(diary)], channel="house")
    assert learned["state"] == "applied"
    assert days(learned) == {
        "We moved the orders service to Postgres 16 because SQLite locked under load.": "2026-03-02",
        "The rent of the flat is now 950 euros a month.": "2026-03-04",
    }
    assert [(one["text"], one["reason"]) for one in learned["left"]] == [
        ("Milk.", "nothing in it is worth keeping for months")
    ]
    shown = daemon.call("show", node_id=learned["kept"][0]["node_id"])
    assert [turn["node_id"].partition("#")[0] for turn in shown["evidence"]] == [learned["left"][0]["node_id"][:-2]]
    # The chat waits for its dream as before.
    assert all(fact["channel"] == "house" for fact in daemon.call("list", level="L1", limit=100)["memories"])
    assert unread(daemon) == waiting > 0
    (run,) = daemon.call("runs", kind="learn")["runs"]
    assert (run["run_id"], run["created"]) == (learned["run_id"], 2)

    daemon.call("undo", run_id=learned["run_id"])
    assert daemon.call("list", level="L1", limit=100)["memories"] == []
    found = daemon.call("recall", query="rent of the flat", channel="house")["hits"]
    assert [hit["level"] for hit in found][:1] == ["L0"]
    again = daemon.call("learn", paths=[str(diary)], channel="house")
    assert (again["run_id"], again["kept_total"], again["read_before"]) == (None, 0, 3)


def test_a_file_learned_again_adds_only_what_it_gained(daemon: DaemonUnderTest, diary: Path) -> None:
    said = plain(typed(daemon, "learn", diary).stdout)
    assert "Kept 2 facts in notes-" in said
    assert "No fact was made of 1 passage: nothing in it is worth keeping for months. - 2026-03-02 Milk." in said
    assert plain(typed(daemon, "learn", diary.parent).stdout).startswith("Nothing is new: 3 passages of it were read")
    vault = {path: path.read_bytes() for path in (daemon.folder / "data" / "vault").rglob("*.md")}
    assert typed(daemon, "learn", diary).returncode == 0
    assert {path: path.read_bytes() for path in (daemon.folder / "data" / "vault").rglob("*.md")} == vault

    diary.write_text(f"{DIARY}\n6 March 2026: We decided to keep the backups on the blue disk.\n")
    grown = daemon.call("learn", paths=[str(diary)])
    assert days(grown) == {"We decided to keep the backups on the blue disk.": "2026-03-06"}
    assert (grown["turns"], grown["read_before"]) == (4, 3)


def test_a_fact_that_is_learned_replaces_what_it_changes(daemon: DaemonUnderTest, diary: Path) -> None:
    old = diary.with_name("old.txt")
    old.write_text(f"2026-02-01: {BEFORE}\n")
    (before,) = daemon.call("learn", paths=[str(old)], channel="house")["kept"]
    learned = daemon.call("learn", paths=[str(diary)], channel="house")
    assert learned["changed"] >= 1
    replaced = daemon.call("show", node_id=before["node_id"], linked=True)
    assert replaced["superseded_by"] or replaced["later"]
    daemon.call("undo", run_id=learned["run_id"])
    restored = daemon.call("show", node_id=before["node_id"], linked=True)
    assert not restored["superseded_by"]
    assert not restored["later"]


def test_a_chat_is_learned_and_what_cannot_be_is_named(daemon: DaemonUnderTest, tmp_path: Path) -> None:
    learned = daemon.call("learn", paths=[str(chat(tmp_path, SAID)), str(tmp_path / "nowhere.md")])
    assert learned["kept_total"] == len(learned["kept"]) > 0
    assert [one["refused"] for one in learned["skipped"]] == ["unreadable"]
    assert typed(daemon, "learn", tmp_path / "nowhere.md").returncode == 66
    daemon.call("dream")
    with pytest.raises(Refused, match="is running"):
        daemon.call("learn", paths=[str(tmp_path / "chat.jsonl")])
    daemon.call("pause")
    with pytest.raises(Refused, match="paused"):
        daemon.call("learn", paths=[str(tmp_path / "chat.jsonl")])


def test_notes_that_an_agent_has_learned_are_its_own_words(daemon: DaemonUnderTest, diary: Path) -> None:
    assert typed(daemon, "learn", diary, "--channel", "house", CLAUDECODE="1").returncode == 0
    (hit, *_) = daemon.call("recall", query="orders service Postgres 16", levels=["L0"], channel="house")["hits"]
    assert hit["speaker"] == "assistant"
