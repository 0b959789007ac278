"""OpenClaw's sessions, in the database that 2026.9.6 writes and in the files of lines of before."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dreamd.daemon.importing.detect import read
from dreamd.daemon.importing.formats.openclaw import changed_since, counts, latest_change

from tests.daemon.importing.conftest import sessions, skipped, texts

TABLES = """
CREATE TABLE session_windows (session_id TEXT PRIMARY KEY, session_key TEXT, spawned_by TEXT,
    created_at INTEGER) STRICT;
CREATE TABLE transcript_events (session_id TEXT NOT NULL, seq INTEGER NOT NULL, event_json TEXT,
    created_at INTEGER NOT NULL, event_zstd BLOB, PRIMARY KEY (session_id, seq)) STRICT;
"""
AT = "2026-11-22T10:00:00.000Z"
Event = dict[str, Any]


def head(folder: str = "/nowhere/workspace") -> Event:
    return {"type": "session", "version": 4, "id": "claw-1", "timestamp": AT, "cwd": folder}


def message(role: str, content: Any, event_id: str = "e", **more: Any) -> Event:
    return {"type": "message", "id": event_id, "timestamp": AT, "message": {"role": role, "content": content} | more}


def call(name: str, call_id: str = "c", **arguments: Any) -> Event:
    return message(
        "assistant", [{"type": "toolCall", "id": call_id, "name": name, "arguments": arguments}], f"a{call_id}"
    )


def answer(text: str, call_id: str = "c", code: int = 0, **more: Any) -> Event:
    given = {"toolCallId": call_id, "details": {"exitCode": code}, "isError": False} | more
    return message("toolResult", [{"type": "text", "text": text}], f"r{call_id}", **given)


EVENTS = [
    head(),
    {"type": "model_change", "id": "m", "timestamp": AT},
    message("user", "Oil the hinge.", "u1"),
    {"type": "custom", "customType": "model-snapshot", "id": "x", "timestamp": AT},
    message("assistant", [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "I try."}], "a1"),
    call("exec", command="make"),
    answer("3 passed"),
    call("exec", "d", command="false"),
    answer("oops", "d", 3),
    call("tool_call", "f", id="dreamd__recall", args={"query": "hinge"}),
    answer("The hinge is brass.", "f"),
    message("user", "Read HEARTBEAT.md if it exists (workspace context). Follow it.", "u2"),
    message("user", "An agent's message.", "u3", provenance={"kind": "inter_session"}),
    message("user", "[WhatsApp +49 170 2026-11-22 10:00 UTC] Go on.\n[message_id: 7]", "u4"),
    message("custom", "", "n", customType="openclaw.nested-tool.v1"),
]
SAID = [
    "Oil the hinge.",
    "I try.",
    "[Bash: make]",
    "[Bash result]\n3 passed",
    "[Bash: false]",
    "[Bash failed]\noops",
    "Go on.",
]


def database(
    path: Path, events: list[Event], key: str = "agent:main:main", spawned_by: str | None = None
) -> sqlite3.Connection:
    one = sqlite3.connect(path)
    one.execute("PRAGMA journal_mode = WAL")
    one.executescript(TABLES)
    one.execute("INSERT INTO session_windows VALUES ('claw-1', ?, ?, 1000)", (key, spawned_by))
    for seq, event in enumerate(events):
        row = (seq, json.dumps(event), 1000 + seq)
        one.execute("INSERT INTO transcript_events VALUES ('claw-1', ?, ?, ?, NULL)", row)
    one.commit()
    return one


@pytest.mark.parametrize("is_open", [True, False])
def test_a_database_is_read_beside_its_program_and_after_it(tmp_path: Path, is_open: bool) -> None:
    path = tmp_path / "openclaw-agent.sqlite"
    program = database(path, EVENTS)
    if not is_open:
        program.close()
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir() if not file.name.endswith("-shm")}
    (session,) = sessions(read(path))
    assert [turn.text for turn in session.turns] == SAID
    assert (session.head.session_id, session.head.cwd) == ("claw-1", "/nowhere/workspace")
    assert (session.turns[0].external_id, session.turns[3].external_id) == ("u1", "rc")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir() if not file.name.endswith("-shm")} == before
    assert counts(path) == (1, len(EVENTS))
    assert latest_change(path, now_ms=10_000) == 1000 + len(EVENTS) - 1
    (late,) = sessions(changed_since(path, 1012))
    assert [turn.text for turn in late.turns] == ["Go on."]
    assert late.head.cwd == "/nowhere/workspace"
    program.close()


@pytest.mark.parametrize(
    ("key", "spawned_by", "reason"),
    [
        ("agent:main:subagent:1", None, "a sub-agent's own conversation"),
        ("agent:main:x", "agent:main:main", "a sub-agent's own conversation"),
        ("agent:main:cron:1", None, "a session that a schedule began"),
    ],
)
def test_a_session_that_its_person_did_not_begin(tmp_path: Path, key: str, spawned_by: str | None, reason: str) -> None:
    database(tmp_path / "openclaw-agent.sqlite", EVENTS, key, spawned_by).close()
    items = list(read(tmp_path / "openclaw-agent.sqlite"))
    assert [one.reason for one in skipped(items)] == [reason]
    assert not sessions(items)


def test_events_that_were_packed_are_named(tmp_path: Path) -> None:
    program = database(tmp_path / "openclaw-agent.sqlite", EVENTS)
    program.execute("UPDATE transcript_events SET event_json = NULL, event_zstd = x'28b52ffd' WHERE seq = 4")
    program.commit()
    program.close()
    items = list(read(tmp_path / "openclaw-agent.sqlite"))
    assert texts(items) == [SAID[0], *SAID[2:]]
    assert [one.reason for one in skipped(items)] == ["cannot be read: 1 events of claw-1, which OpenClaw has packed"]


def test_a_file_of_before_says_the_same(jsonl: Callable[..., Path]) -> None:
    items = list(read(jsonl(*EVENTS, name="claw-1.jsonl")))
    assert texts(items) == SAID
    assert not skipped(items)


def test_the_index_beside_a_file_says_who_began_it(jsonl: Callable[..., Path], tmp_path: Path) -> None:
    path = jsonl(*EVENTS, name="claw-1.jsonl")
    (tmp_path / "sessions.json").write_text(json.dumps({"agent:main:cron:9": {"sessionId": "claw-1"}}))
    assert not sessions(read(path))
    (tmp_path / "sessions.json").write_text("{")
    assert texts(read(path)) == SAID


def test_copies_from_before_a_compaction_are_left_out(jsonl: Callable[..., Path]) -> None:
    items = list(read(jsonl(*EVENTS, name="claw-1.checkpoint.11111111-2222.jsonl")))
    assert [one.reason for one in skipped(items)] == ["a copy of a session from before it was compacted"]
    assert not sessions(items)


def test_what_a_channel_puts_round_a_message_is_taken_off(jsonl: Callable[..., Path]) -> None:
    said = 'Sender (untrusted metadata):\n```json\n{"id": "7"}\n```\n\nSystem: [now] A node joined.\nOil it.'
    inside = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nNot said.\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"
    path = jsonl(head(), message("user", [{"type": "text", "text": f"{inside}\n{said}"}]))
    assert texts(read(path)) == ["Oil it."]
