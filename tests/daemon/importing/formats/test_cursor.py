"""Cursor's sessions, in the editor's database and in transcripts, in the forms that were seen of it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from dreamd.daemon.importing.detect import read
from dreamd.daemon.importing.formats.cursor import changed_since, counts, latest_change

from tests.daemon.importing.conftest import sessions, skipped, texts

AT = "2026-07-28T10:06:00.000Z"
STAMP = "<timestamp>Tuesday, Jul 28, 2026, 12:06 PM (UTC+2)</timestamp>"
Bubble = dict[str, Any]


def asked(text: str, at: str = STAMP) -> dict[str, Any]:
    return {
        "role": "user",
        "message": {"content": [{"type": "text", "text": f"{at}\n<user_query>\n{text}\n</user_query>"}]},
    }


def said(*blocks: str | dict[str, Any]) -> dict[str, Any]:
    content = [{"type": "text", "text": one} if isinstance(one, str) else one for one in blocks]
    return {"role": "assistant", "message": {"content": content}}


def use(name: str, **inputs: Any) -> dict[str, Any]:
    return {"type": "tool_use", "name": name, "input": inputs}


def call(name: str, result: Any = "", status: str = "completed", **arguments: Any) -> Bubble:
    done = result if isinstance(result, str) else json.dumps(result)
    data = {"toolCallId": "t", "name": name, "status": status, "params": json.dumps(arguments), "result": done}
    return {"type": 2, "text": "", "toolFormerData": data}


BUBBLES: list[Bubble] = [
    {"type": 1, "text": "Oil the hinge."},
    {"type": 2, "text": "", "thinking": {"text": "Hm."}},
    {"type": 2, "text": "I try."},
    call("run_terminal_command_v2", {"output": "3 passed", "exitCode": 0}, command="make"),
    call("run_terminal_command_v2", {"output": "oops", "exitCode": 3}, command="false"),
    call("mcp_dreamd_recall", "The hinge is brass.", query="hinge"),
    call("read_file_v2", {"contents": "x"}, targetFile="/x"),
    {"type": 1, "text": "<system_notification>A task ended.</system_notification>"},
    {"type": 2, "text": "Done."},
]
SAID = [
    "Oil the hinge.",
    "I try.",
    "[Bash: make]",
    "[Bash result]\n3 passed",
    "[Bash: false]",
    "[Bash failed]\noops",
    "Done.",
]
LINES = [
    asked("Oil the hinge."),
    said("I try.", use("Shell", command="make"), use("Shell", command="false"), use("Read", path="/x")),
    {"type": "turn_ended", "status": "success"},
    said("Done."),
]


def database(
    path: Path, bubbles: list[Bubble], *, headers: bool = False, folder: str = "/nowhere/door", **more: Any
) -> sqlite3.Connection:
    one = sqlite3.connect(path)
    one.execute("PRAGMA journal_mode = WAL")
    one.execute("CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
    if headers:
        one.execute(
            "CREATE TABLE composerHeaders (composerId TEXT PRIMARY KEY, createdAt INTEGER, lastUpdatedAt INTEGER)"
        )
        one.execute("INSERT INTO composerHeaders VALUES ('c1', 1000, 9000)")
    listed = [{"bubbleId": f"b{number}", "type": bubble["type"]} for number, bubble in enumerate(bubbles)]
    head = {"composerId": "c1", "name": "Hinges", "createdAt": 1000, "lastUpdatedAt": 9000, "status": "completed"}
    head |= {"workspaceIdentifier": {"uri": {"fsPath": folder}}, "fullConversationHeadersOnly": listed}
    put(one, "composerData:c1", head | more)
    for number, bubble in enumerate(bubbles):
        put(one, f"bubbleId:c1:b{number}", {"createdAt": AT} | bubble)
    put(one, "bubbleId:c2:b0", {"type": 1, "text": "Of another session."})
    one.execute("INSERT INTO cursorDiskKV VALUES ('composerData:c3', '{\"half'), ('composerData:c4', NULL)")
    one.commit()
    return one


def put(one: sqlite3.Connection, key: str, value: Any) -> None:
    one.execute("INSERT INTO cursorDiskKV VALUES (?, ?)", (key, json.dumps(value)))


@pytest.mark.parametrize("headers", [True, False])
@pytest.mark.parametrize("is_open", [True, False])
def test_a_database_is_read_beside_its_program_and_after_it(tmp_path: Path, is_open: bool, headers: bool) -> None:
    path = tmp_path / "state.vscdb"
    program = database(path, BUBBLES, headers=headers)
    if not is_open:
        program.close()
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir() if not file.name.endswith("-shm")}
    (session,) = sessions(read(path))
    assert [turn.text for turn in session.turns] == SAID
    assert [turn.role for turn in session.turns] == [
        "user",
        *["assistant"] * 2,
        "tool",
        "assistant",
        "tool",
        "assistant",
    ]
    assert session.turns[0].at == datetime(2026, 7, 28, 10, 6, tzinfo=UTC)
    assert (session.head.session_id, session.head.title, session.head.cwd) == ("c1", "Hinges", "/nowhere/door")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir() if not file.name.endswith("-shm")} == before
    assert counts(path)[1] == len(BUBBLES) + 1
    assert latest_change(path, now_ms=10_000) == 9000
    assert texts(changed_since(path, 9000)) == SAID
    assert not sessions(changed_since(path, 9001))
    program.close()


def test_the_same_session_in_both_places_is_learned_once(tmp_path: Path, jsonl: Callable[..., Path]) -> None:
    database(tmp_path / "state.vscdb", BUBBLES).close()
    (edited,) = sessions(read(tmp_path / "state.vscdb"))
    (written,) = sessions(read(jsonl(*LINES, name="c1.jsonl")))
    assert written.head.session_id == edited.head.session_id
    assert [turn.text for turn in written.turns] == [
        "Oil the hinge.",
        "I try.",
        "[Bash: make]",
        "[Bash: false]",
        "Done.",
    ]
    assert {turn.external_id for turn in written.turns} < {turn.external_id for turn in edited.turns}


def test_the_same_words_said_again_are_another_turn(jsonl: Callable[..., Path]) -> None:
    lines = [
        asked("Yes."),
        said("Shall I oil it?"),
        asked("Yes."),
        said(use("Shell", command="make"), use("Shell", command="make")),
    ]
    (session,) = sessions(read(jsonl(*lines)))
    assert len({turn.external_id for turn in session.turns}) == len(session.turns) == 5


def test_a_transcript_says_when_in_its_prompts(jsonl: Callable[..., Path]) -> None:
    (session,) = sessions(read(jsonl(*LINES)))
    assert {turn.at for turn in session.turns} == {datetime(2026, 7, 28, 10, 6, tzinfo=UTC)}
    path = jsonl(asked("Oil it.", at=""), name="other.jsonl")
    (session,) = sessions(read(path))
    assert session.turns[0].at == datetime.fromtimestamp(path.stat().st_mtime, UTC)


def test_a_transcripts_project_is_named_by_its_folder(tmp_path: Path) -> None:
    work = tmp_path / "my_work" / "door.api"
    work.mkdir(parents=True)
    encoded = "-".join(part.replace("_", "-").replace(".", "-") for part in work.parts[1:])
    project = tmp_path / "projects" / encoded
    folder = project / "agent-transcripts" / "c1"
    folder.mkdir(parents=True)
    (folder / "c1.jsonl").write_text(json.dumps(asked("Oil it.")) + "\n")
    (session,) = sessions(read(folder / "c1.jsonl"))
    assert session.head.cwd == str(work)
    (project / ".workspace-trusted").write_text(json.dumps({"workspacePath": "/nowhere/door"}))
    (session,) = sessions(read(folder / "c1.jsonl"))
    assert session.head.cwd == "/nowhere/door"
    nested = folder / "subagents"
    nested.mkdir()
    (nested / "c2.jsonl").write_text(json.dumps(asked("Look.")) + "\n")
    assert [one.reason for one in skipped(read(nested / "c2.jsonl"))] == ["a sub-agent's own conversation"]


def test_what_is_being_written_waits_for_its_end(tmp_path: Path) -> None:
    half = [
        BUBBLES[0],
        call("run_terminal_command_v2", status="loading", command="make"),
        {"type": 2, "text": "I am stil"},
    ]
    database(tmp_path / "state.vscdb", half, status="generating").close()
    assert texts(read(tmp_path / "state.vscdb")) == ["Oil the hinge."]


def test_an_older_session_has_its_messages_in_it(tmp_path: Path) -> None:
    database(tmp_path / "state.vscdb", [], conversation=[BUBBLES[0], BUBBLES[2]]).close()
    assert texts(read(tmp_path / "state.vscdb")) == ["Oil the hinge.", "I try."]


def test_a_damaged_database_is_named_and_no_error(tmp_path: Path) -> None:
    path = tmp_path / "state.vscdb"
    database(path, BUBBLES).close()
    path.write_bytes(path.read_bytes()[:4096] + b"\xff" * 8192)
    items = list(read(path, "cursor"))
    assert not sessions(items)
    assert len(skipped(items)) == 1
