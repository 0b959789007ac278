"""Goose's sessions, in its database and in the files of before, in the form that 1.34.0 writes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dreamd.daemon.importing.detect import read
from dreamd.daemon.importing.formats.goose import changed_since, counts, latest_change

from tests.daemon.importing.conftest import sessions, skipped, texts

TABLES = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT NOT NULL DEFAULT '', description TEXT NOT NULL DEFAULT '',
    session_type TEXT NOT NULL DEFAULT 'user', working_dir TEXT NOT NULL, created_at TIMESTAMP, updated_at TIMESTAMP);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT, session_id TEXT NOT NULL,
    role TEXT NOT NULL, content_json TEXT NOT NULL, created_timestamp INTEGER NOT NULL, metadata_json TEXT);
"""
Message = tuple[str, list[dict[str, Any]], dict[str, Any]]


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(name: str, call_id: str = "c", **arguments: Any) -> dict[str, Any]:
    made = {"status": "success", "value": {"name": name, "arguments": arguments}}
    return {"type": "toolRequest", "id": call_id, "toolCall": made}


def answer(words: str, call_id: str = "c", *, is_error: bool = False) -> dict[str, Any]:
    value = {"content": [text(words), text("shown") | {"annotations": {"audience": ["user"]}}], "isError": is_error}
    return {"type": "toolResponse", "id": call_id, "toolResult": {"status": "success", "value": value}}


MESSAGES: list[Message] = [
    ("user", [text("Oil the hinge.")], {}),
    (
        "assistant",
        [{"type": "thinking", "thinking": "Hm."}, text("I try."), call("developer__shell", command="make")],
        {},
    ),
    ("user", [answer("3 passed")], {}),
    ("assistant", [call("developer__text_editor", "d", command="view", path="/x"), call("dreamd__recall", "e")], {}),
    ("user", [answer("x = 1", "d"), answer("The hinge is brass.", "e")], {}),
    ("assistant", [call("developer__text_editor", "f", command="write", path="/x/a.py", file_text="y")], {}),
    ("user", [{"type": "toolResponse", "id": "f", "toolResult": {"status": "error", "error": "No such folder"}}], {}),
    ("user", [text("What was said so far.")], {"userVisible": False, "agentVisible": True}),
    ("user", [text("Go on.")], {}),
]
SAID = [
    "Oil the hinge.",
    "I try.\n[Bash: make]",
    "[Bash result]\n3 passed",
    "[Edit /x/a.py]",
    "[Edit failed]\nNo such folder",
    "Go on.",
]


def database(
    path: Path, messages: list[Message], *, wal: bool = False, folder: str = "/nowhere/door"
) -> sqlite3.Connection:
    one = sqlite3.connect(path)
    one.execute(f"PRAGMA journal_mode = {'WAL' if wal else 'DELETE'}")
    one.executescript(TABLES)
    rows = [("20261122_1", "Hinges", "user"), ("20261122_2", "Sub", "sub_agent")]
    for session, name, kind in rows:
        row = (session, name, kind, folder, "2026-11-22 10:00:00", "2026-11-22 10:00:00")
        one.execute("INSERT INTO sessions VALUES (?, ?, '', ?, ?, ?, ?)", row)
    add(one, messages)
    add(one, [("user", [text("A sub-agent's task.")], {})], "20261122_2")
    one.commit()
    return one


def add(one: sqlite3.Connection, messages: list[Message], session: str = "20261122_1", named: str = "m") -> None:
    for number, (role, content, metadata) in enumerate(messages):
        row = (f"{named}{number}", session, role, json.dumps(content), 1_795_000_000 + number, json.dumps(metadata))
        one.execute(
            "INSERT INTO messages (message_id, session_id, role, content_json, created_timestamp, metadata_json)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            row,
        )


@pytest.mark.parametrize("wal", [True, False])
@pytest.mark.parametrize("is_open", [True, False])
def test_a_database_is_read_beside_its_program_and_after_it(tmp_path: Path, is_open: bool, wal: bool) -> None:
    path = tmp_path / "sessions.db"
    program = database(path, MESSAGES, wal=wal)
    if not is_open:
        program.close()
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir() if not file.name.endswith("-shm")}
    (session,) = sessions(read(path))
    assert [turn.text for turn in session.turns] == SAID
    assert [turn.role for turn in session.turns] == ["user", "assistant", "tool", "assistant", "tool", "user"]
    assert session.turns[2].external_id == "m2/0"
    head = session.head
    assert (head.session_id, head.title, head.cwd) == ("goose-20261122_1", "Hinges", "/nowhere/door")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir() if not file.name.endswith("-shm")} == before
    assert counts(path) == (2, 10)
    assert latest_change(path, now_ms=0) == 10
    assert texts(changed_since(path, 9)) == ["Go on."]
    program.close()


def test_while_it_is_read_its_program_writes(tmp_path: Path) -> None:
    """A database without a write-ahead log would keep its writer waiting for as long as a query is open."""
    path = tmp_path / "sessions.db"
    program = database(path, MESSAGES)
    program.execute("PRAGMA busy_timeout = 0")
    reading = changed_since(path, 0)
    next(reading)
    add(program, [("user", [text("Meanwhile.")], {})], named="n")
    program.commit()
    list(reading)
    program.close()


def test_a_compacted_conversation_is_written_anew_and_its_messages_are_known(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    program = database(path, MESSAGES)
    before = [turn.external_id for turn in sessions(changed_since(path, 0))[0].turns]
    program.execute("DELETE FROM messages WHERE session_id = '20261122_1'")
    add(program, MESSAGES)
    program.commit()
    program.close()
    assert [turn.external_id for turn in sessions(changed_since(path, 11))[0].turns] == before


def test_an_older_database_without_ids_and_names(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    one = sqlite3.connect(path)
    one.executescript(
        "CREATE TABLE sessions (id TEXT PRIMARY KEY, description TEXT, working_dir TEXT, created_at TIMESTAMP);"
        "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT,"
        " created_timestamp INTEGER);"
    )
    one.execute("INSERT INTO sessions VALUES ('1', 'Hinges', '/nowhere', '2026-01-01')")
    for words in ("Oil it.", "Again."):
        one.execute("INSERT INTO messages VALUES (NULL, '1', 'user', ?, 7)", (json.dumps([text(words)]),))
    one.commit()
    one.close()
    (session,) = sessions(read(path))
    assert session.head.title == "Hinges"
    assert [turn.external_id for turn in session.turns] == ["7/user/0", "7/user/1"]


def test_a_file_of_before_says_the_same(jsonl: Callable[..., Path]) -> None:
    head = {"description": "Hinges", "working_dir": "/nowhere/door", "created_at": "2026-01-01T00:00:00Z"}
    lines = [
        {"id": f"m{number}", "role": role, "created": 1_795_000_000, "content": content, "metadata": metadata}
        for number, (role, content, metadata) in enumerate(MESSAGES)
    ]
    path = jsonl(head, *lines, name="20261122_1.jsonl")
    items = list(read(path))
    assert texts(items) == SAID
    assert sessions(items)[0].head.session_id == "goose-20261122_1"
    assert not skipped(items)


def test_a_file_whose_session_was_moved_into_the_database_is_left_out(
    jsonl: Callable[..., Path], tmp_path: Path
) -> None:
    head = {"description": "Hinges", "working_dir": "/nowhere/door", "created_at": "2026-01-01T00:00:00Z"}
    said = {"role": "user", "created": 1_795_000_000, "content": [text("Oil the hinge.")]}
    path, other = jsonl(head, said, name="20261122_1.jsonl"), jsonl(head, said, name="20250101_1.jsonl")
    database(tmp_path / "sessions.db", MESSAGES).close()
    assert [one.reason for one in skipped(read(path))] == ["a session that is in the database beside it"]
    assert texts(read(other)) == ["Oil the hinge."]


def test_a_damaged_database_is_named_and_no_error(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    database(path, MESSAGES).close()
    path.write_bytes(path.read_bytes()[:4096] + b"\xff" * 8192)
    items = list(read(path, "goose"))
    assert not sessions(items)
    assert len(skipped(items)) == 1
