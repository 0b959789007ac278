"""What an ignored file holds is not kept, whichever agent's transcript shows it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from dreamd.daemon.cli.write_commands import import_in_words
from dreamd.daemon.formatting import Look
from dreamd.daemon.importing.detect import read
from dreamd.daemon.importing.following.tail import Tail
from dreamd.daemon.importing.importer import Importer
from dreamd.daemon.importing.items import SessionRead
from dreamd.ipc.call import Call
from dreamd.store import MemoryStore

from tests.daemon.importing.conftest import sessions, texts
from tests.daemon.importing.following.conftest import store
from tests.daemon.importing.formats import (
    test_cline,
    test_codex,
    test_copilot,
    test_cursor,
    test_gemini,
    test_goose,
    test_openclaw,
    test_opencode,
    test_qwen,
)
from tests.daemon.importing.formats.test_claude_code import call, line, refusal, result
from tests.ipc.methods import as_answered
from tests.system.waiting import until

__all__ = ["store"]

NOW = datetime(2026, 11, 22, tzinfo=UTC)
# An ordinary value, which no rule of redaction knows.
HELD = "GREETING=the blue harbour wall"
NOT_KEPT = "[contents of .env.local not kept: named in .gitignore]"
COMMANDS = ["cat .env.local", f"echo '{HELD}' > .env.local", "pytest -q"]
KEPT = [
    "[Bash: cat .env.local]",
    NOT_KEPT,
    NOT_KEPT,
    NOT_KEPT,
    "[Bash: pytest -q]",
    f"[Bash result]\n{HELD}",
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (root / ".gitignore").write_text(".env*\n*.key\n")
    return root


def claude_code(folder: Path, cwd: str) -> Path:
    lines = []
    for number, command in enumerate(COMMANDS):
        lines += [call("Bash", f"t{number}", command=command), result(HELD, f"t{number}")]
    path = folder / "session.jsonl"
    path.write_text("".join(json.dumps(one | {"cwd": cwd}) + "\n" for one in lines))
    return path


def codex(folder: Path, cwd: str) -> Path:
    lines = [test_codex.meta(cwd=cwd)]
    for number, command in enumerate(COMMANDS):
        given = {"call_id": str(number), "name": "exec_command", "arguments": json.dumps({"cmd": command})}
        answered = {"call_id": str(number), "output": f"Chunk ID: 1\nProcess exited with code 0\nOutput:\n{HELD}"}
        lines += [
            test_codex.item({"type": "function_call", **given}),
            test_codex.item({"type": "function_call_output", **answered}),
        ]
    path = folder / "rollout-1.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return path


def gemini(folder: Path, cwd: str) -> Path:
    context = f"<session_context>\n- **Workspace Directories:**\n  - {cwd}\n</session_context>"
    lines = [test_gemini.HEAD, test_gemini.said("0", "user", [{"text": context}])]
    for number, command in enumerate(COMMANDS):
        given = test_gemini.call(output=HELD) | {"args": {"command": command}}
        lines.append(test_gemini.said(f"m{number}", "gemini", "", toolCalls=[given]))
    path = folder / "session-1.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return path


def opencode(folder: Path, cwd: str) -> Path:
    calls = [test_opencode.tool("bash", output=HELD, input={"command": command}) for command in COMMANDS]
    messages = [({"role": "assistant", "time": {"created": 1, "completed": 2}}, [one]) for one in calls]
    path = folder / "opencode.db"
    database = test_opencode.database(path, messages)
    database.execute("UPDATE session SET directory = ?", (cwd,))
    database.commit()
    database.close()
    return path


def copilot(folder: Path, cwd: str) -> Path:
    lines = [test_copilot.start(cwd)]
    for number, command in enumerate(COMMANDS):
        lines.append(test_copilot.called("bash", str(number), command=command))
        lines.append(test_copilot.answered(HELD, call_id=str(number)))
    return as_lines(folder / "events.jsonl", lines)


def cursor(folder: Path, cwd: str) -> Path:
    bubbles = [test_cursor.call("run_terminal_cmd", HELD, command=command) for command in COMMANDS]
    test_cursor.database(folder / "state.vscdb", bubbles, folder=cwd).close()
    return folder / "state.vscdb"


def cline(folder: Path, cwd: str) -> Path:
    messages = []
    for number, command in enumerate(COMMANDS):
        call = test_cline.use("run_commands", str(number), commands=[command])
        messages.append(test_cline.said(call, message_id=f"a{number}"))
        answer = test_cline.answered(test_cline.ran(HELD), call_id=str(number), message_id=f"r{number}")
        messages.append(answer)
    return test_cline.session_file(folder, messages, cwd)


def qwen(folder: Path, cwd: str) -> Path:
    lines = []
    for command in COMMANDS:
        lines.append(test_qwen.said(test_qwen.call(command=command), cwd=cwd))
        lines.append(test_qwen.answered(output=test_qwen.printed(HELD, 0)))
    return as_lines(folder / "chat-1.jsonl", [line | {"cwd": cwd} for line in lines])


def goose(folder: Path, cwd: str) -> Path:
    messages: list[test_goose.Message] = []
    for number, command in enumerate(COMMANDS):
        messages.append(("assistant", [test_goose.call("developer__shell", str(number), command=command)], {}))
        messages.append(("user", [test_goose.answer(HELD, str(number))], {}))
    test_goose.database(folder / "sessions.db", messages, folder=cwd).close()
    return folder / "sessions.db"


def openclaw(folder: Path, cwd: str) -> Path:
    events = [test_openclaw.head(cwd)]
    for number, command in enumerate(COMMANDS):
        events.append(test_openclaw.call("exec", str(number), command=command))
        events.append(test_openclaw.answer(HELD, str(number)))
    return as_lines(folder / "claw-1.jsonl", events)


def as_lines(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return path


Write = Callable[[Path, str], Path]
PROGRAMS = [claude_code, codex, gemini, opencode, copilot, cursor, cline, qwen, goose, openclaw]
formats = pytest.mark.parametrize("write", PROGRAMS)


@formats
def test_a_command_that_shows_or_writes_an_ignored_file(write: Write, project: Path, tmp_path: Path) -> None:
    items = list(read(write(tmp_path, str(project))))
    assert texts(items) == KEPT
    assert sum(one.contents_left_out for one in sessions(items)) == 3


@formats
def test_a_session_of_a_folder_that_is_not_here_is_kept(write: Write, tmp_path: Path) -> None:
    items = list(read(write(tmp_path, "/nowhere/shop")))
    assert sum(one.contents_left_out for one in sessions(items)) == 0
    assert sum(HELD in text for text in texts(items)) == 4


@formats
def test_an_import_counts_what_it_left_out(write: Write, store: MemoryStore, project: Path, tmp_path: Path) -> None:
    path = write(tmp_path, str(project))
    answer = Importer(store, Call(None, "import")).take([path], None).answer()
    assert answer.contents_left_out == 3
    said = " ".join(import_in_words(as_answered(answer), Look(200, colour=False, now=NOW)))
    assert "The contents of ignored files were left out 3 times (.gitignore, .secretsignore)." in said
    kept = until(lambda: b"".join(file.read_bytes() for file in store.paths.vault.rglob("*.md")))
    assert kept.count(HELD.encode()) == 1  # what pytest printed


def test_a_file_that_is_followed_begins_between_call_and_result(project: Path, tmp_path: Path) -> None:
    path = claude_code(tmp_path, str(project))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0])
    tail = Tail(path, None)
    tail.step()
    path.write_bytes(b"".join(lines))
    items, _ = Tail(path, tail.read_up_to).step()
    assert texts([item for item in items if isinstance(item, SessionRead)]) == KEPT[1:]


def seen(tmp_path: Path, project: Path, *lines: dict[str, Any]) -> list[str]:
    path = tmp_path / "one.jsonl"
    path.write_text("".join(json.dumps({**one, "cwd": str(project)}) + "\n" for one in lines))
    return texts(read(path))


def test_what_a_failed_edit_quotes(tmp_path: Path, project: Path) -> None:
    edit = call("Edit", file_path=str(project / ".env.local"), old_string=HELD, new_string="x")
    failed = result(f"<tool_use_error>String to replace not found.\nString: {HELD}</tool_use_error>", is_error=True)
    assert seen(tmp_path, project, edit, failed) == [f"[Edit {project}/.env.local]", NOT_KEPT]


def test_a_foreign_tool_that_writes_one(tmp_path: Path, project: Path) -> None:
    wrote = call("mcp__files__write", content=HELD, path=".env.local")
    assert seen(tmp_path, project, wrote, result("written")) == [NOT_KEPT]


def test_what_a_person_ran_themselves(tmp_path: Path, project: Path) -> None:
    ran = [
        line("user", "<bash-input>cat .env.local</bash-input>"),
        line("user", f"<bash-stdout>{HELD}</bash-stdout><bash-stderr></bash-stderr>"),
        line("user", "<bash-input>date</bash-input>"),
        line("user", "<bash-stdout>Monday</bash-stdout><bash-stderr></bash-stderr>"),
        line("user", f"<bash-input>echo '{HELD}' > .env.local</bash-input>"),
    ]
    assert seen(tmp_path, project, *ran) == [
        "[ran: cat .env.local]",
        NOT_KEPT,
        "[ran: date]",
        "[it printed]\nMonday",
        NOT_KEPT,
    ]


def test_an_answer_of_the_person_is_theirs(tmp_path: Path, project: Path) -> None:
    said = refusal("Use the vault instead.")
    assert seen(tmp_path, project, call("Bash", command="cat .env.local"), result(said, is_error=True)) == [
        "[Bash: cat .env.local]",
        "Use the vault instead.",
    ]


def test_every_file_of_a_patch_is_looked_at(project: Path, tmp_path: Path) -> None:
    patch = f"*** Begin Patch\n*** Update File: a.py\n+x\n*** Update File: .env.local\n-{HELD}\n*** End Patch"
    lines = [
        test_codex.meta(cwd=str(project)),
        test_codex.item({"type": "custom_tool_call", "name": "apply_patch", "input": patch, "call_id": "3"}),
        test_codex.item(
            {"type": "custom_tool_call_output", "call_id": "3", "output": {"content": HELD, "success": False}}
        ),
    ]
    path = tmp_path / "rollout-2.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    assert texts(read(path)) == ["[Edit: a.py]", NOT_KEPT]
