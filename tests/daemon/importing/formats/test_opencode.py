"""opencode's sessions, in its database and in the files of before, in the form that 1.18.33 writes."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from dreamd.daemon.importing.detect import read
from dreamd.daemon.importing.formats.opencode import (
    changed_since,
    counts,
    latest_change,
    turns_in,
    without_quotation_marks,
)

from tests.daemon.importing.conftest import sessions, skipped, texts

TABLES = """
CREATE TABLE session (id TEXT PRIMARY KEY, parent_id TEXT, directory TEXT, title TEXT,
    time_created INTEGER, time_updated INTEGER);
CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, time_updated INTEGER, data TEXT);
CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER,
    time_updated INTEGER, data TEXT);
"""
Parts = list[dict[str, Any]]


def tool(name: str, status: str = "completed", output: str = "3 passed", **state: Any) -> dict[str, Any]:
    return {"type": "tool", "tool": name, "callID": "c", "state": {"status": status, "output": output, **state}}


MESSAGES: list[tuple[dict[str, Any], Parts]] = [
    ({"role": "user"}, [{"type": "text", "text": "Oil the hinge."}, {"type": "text", "text": "x", "synthetic": True}]),
    (
        {"role": "assistant", "time": {"created": 2000, "completed": 2001}},
        [
            {"type": "step-start"},
            {"type": "reasoning", "text": "Hm."},
            {"type": "text", "text": "I try it."},
            tool("bash", input={"command": "make"}, metadata={"exit": 0}),
            tool("dreamd_recall", output="The hinge is brass.", input={}),
            tool("read", input={"filePath": "/x"}),
        ],
    ),
    ({"role": "assistant", "summary": True, "time": {"completed": 1}}, [{"type": "text", "text": "What was said."}]),
    ({"role": "assistant", "time": {"created": 3000}}, [{"type": "text", "text": "It broke off"}]),
    ({"role": "user"}, [{"type": "text", "text": "Go on."}]),
    ({"role": "assistant", "time": {"created": 4000}}, [{"type": "text", "text": "I am stil"}]),
]
SAID = ["Oil the hinge.", "I try it.\n[Bash: make]", "[Bash result]\n3 passed", "It broke off", "Go on."]


def database(path: Path, messages: list[tuple[dict[str, Any], Parts]]) -> sqlite3.Connection:
    one = sqlite3.connect(path)
    one.execute("PRAGMA journal_mode = WAL")
    one.executescript(TABLES)
    one.execute("INSERT INTO session VALUES ('ses_1', NULL, '/nowhere/door', 'Hinges', 1000, 9000)")
    one.execute("INSERT INTO session VALUES ('ses_2', 'ses_1', '/nowhere/door', 'Sub', 1000, 9000)")
    one.execute("INSERT INTO message VALUES ('msg_x', 'ses_2', 1, 1, '{\"role\": \"user\"}')")
    for number, (data, parts) in enumerate(messages):
        row = (f"msg_{number}", "ses_1", 1000 * number, 1000 * number, json.dumps(data))
        one.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", row)
        for place, part in enumerate(parts):
            one.execute(
                "INSERT INTO part VALUES (?, ?, 'ses_1', 0, 0, ?)",
                (f"prt_{number}_{place}", f"msg_{number}", json.dumps(part)),
            )
    one.commit()
    return one


def storage(root: Path, messages: list[tuple[dict[str, Any], Parts]]) -> Path:
    def put(place: str, value: dict[str, Any]) -> None:
        (root / place).parent.mkdir(parents=True, exist_ok=True)
        (root / place).write_text(json.dumps(value, indent=2))

    session = {"id": "ses_1", "projectID": "global", "directory": "/nowhere/door", "title": "Hinges"}
    put("session/global/ses_1.json", session | {"time": {"created": 1000, "updated": 9000}})
    for number, (data, parts) in enumerate(messages):
        time = {"created": 1000 * number} | data.get("time", {})
        put(f"message/ses_1/msg_{number}.json", data | {"id": f"msg_{number}", "sessionID": "ses_1", "time": time})
        for place, part in enumerate(parts):
            named = {"id": f"prt_{number}_{place}", "messageID": f"msg_{number}", "sessionID": "ses_1"}
            put(f"part/msg_{number}/prt_{number}_{place}.json", part | named)
    return root


@pytest.mark.parametrize("is_open", [True, False])
def test_a_database_is_read_beside_its_program_and_after_it(tmp_path: Path, is_open: bool) -> None:
    path = tmp_path / "opencode.db"
    program = database(path, MESSAGES)
    if not is_open:
        program.close()
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir() if not file.name.endswith("-shm")}
    (session,) = sessions(read(path))
    assert [turn.text for turn in session.turns] == SAID
    assert session.turns[2].external_id == "prt_1_3"
    assert session.head.session_id == "ses_1"
    assert session.head.title == "Hinges"
    assert session.head.cwd == "/nowhere/door"
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir() if not file.name.endswith("-shm")} == before
    assert counts(path) == (1, 7)
    assert latest_change(path, now_ms=10_000) == 9000
    assert texts(changed_since(path, 4000)) == ["Go on."]
    assert not sessions(changed_since(path, 9001))
    program.close()


def test_a_folder_brings_its_database(tmp_path: Path) -> None:
    database(tmp_path / "opencode.db", MESSAGES).close()
    assert texts(read(tmp_path)) == SAID


def test_the_files_of_before_say_the_same(tmp_path: Path) -> None:
    items = list(read(storage(tmp_path / "storage", MESSAGES)))
    assert texts(items) == SAID
    assert [one.reason for one in skipped(items)] == [
        "18 × a piece of an opencode session, which is read with its session"
    ]


def test_a_damaged_database_is_named_and_no_error(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    database(path, MESSAGES).close()
    path.write_bytes(path.read_bytes()[:4096] + b"\xff" * 8192)
    items = list(read(path, "opencode"))
    assert not sessions(items)
    assert len(skipped(items)) == 1


def test_messages_as_the_program_itself_gives_them_are_the_same_turns(tmp_path: Path) -> None:
    told = []
    for number, (data, parts) in enumerate(MESSAGES[:5]):
        given = [{"id": f"prt_{number}_{place}"} | part for place, part in enumerate(parts)]
        told.append({"info": {"id": f"msg_{number}"} | data, "parts": given})
    database(tmp_path / "opencode.db", MESSAGES[:5]).close()
    (session,) = sessions(read(tmp_path / "opencode.db"))
    turns = turns_in(json.dumps(told), "/nowhere/door")
    assert [(turn.role, turn.text, turn.external_id) for turn in turns] == [
        (turn.role, turn.text, turn.external_id) for turn in session.turns
    ]
    for nonsense in ("", "no", "[1]", '{"a": 1}', '[{"info": 1}]', '[{"info": {"role": "user"}, "parts": {}}]'):
        assert turns_in(nonsense, "") == []


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ('"We take MQTT, not AMQP."', "We take MQTT, not AMQP."),
        (r'"Call it \"heron\", please."', 'Call it "heron", please.'),
        ('fix "the tests"', 'fix "the tests"'),
        ('"a" and "b"', '"a" and "b"'),
        ("plain", "plain"),
    ],
)
def test_the_quotation_marks_of_a_run_are_taken_off(kept: str, said: str) -> None:
    assert without_quotation_marks(kept) == said
