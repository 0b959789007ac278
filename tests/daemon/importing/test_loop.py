"""What is handed to an agent is written into its transcript, and read there: in twenty rounds nothing of it is learned.

Each format in the form in which its program writes a hook's or a plugin's text, with our tag around it or without.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import pytest
from dreamd.daemon.importing.importer import Importer
from dreamd.ipc.call import Call
from dreamd.store import MemoryStore

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
from tests.system.waiting import until

__all__ = ["store"]

ROUNDS = 20
SECRET = "The sundial stands behind the barn."
QUESTION = "Where is it, number {}?"
AT = "2026-11-22T10:00:00.000Z"

Write = Callable[[Path, list[str]], None]


def claude_code(folder: Path, recalled: list[str]) -> None:
    head = {"sessionId": "s", "cwd": "/nowhere", "timestamp": AT}
    lines: list[dict[str, Any]] = []
    for number, text in enumerate(recalled):
        context = {"type": "hook_additional_context", "content": [text]}
        lines.append(head | {"type": "attachment", "uuid": f"h{number}", "attachment": context})
        said = {"role": "user", "content": QUESTION.format(number)}
        lines.append(head | {"type": "user", "uuid": f"u{number}", "message": said})
        asked = {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": f"t{number}", "name": "mcp__dreamd__recall"}],
        }
        lines.append(head | {"type": "assistant", "uuid": f"a{number}", "message": asked})
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": SECRET}
        lines.append(head | {"type": "user", "uuid": f"r{number}", "message": {"role": "user", "content": [result]}})
    write(folder / "s.jsonl", lines)


def codex(folder: Path, recalled: list[str]) -> None:
    lines = [test_codex.meta()]
    for number, text in enumerate(recalled):
        lines.append(test_codex.message("developer", text, of="harness", id=f"h{number}"))
        lines.append(test_codex.message("user", text, of="harness", id=f"k{number}"))
        lines.append(test_codex.message("user", QUESTION.format(number), id=f"u{number}"))
        lines.append({"timestamp": AT, "type": "event_msg", "payload": {"type": "agent_message", "message": text}})
        call = {"type": "function_call", "namespace": "mcp__dreamd", "name": "recall", "call_id": f"c{number}"}
        lines.append(test_codex.item(call))
        lines.append(test_codex.item({"type": "function_call_output", "call_id": f"c{number}", "output": SECRET}))
    write(folder / "rollout-1.jsonl", lines)


def gemini(folder: Path, recalled: list[str]) -> None:
    lines: list[dict[str, Any]] = [test_gemini.HEAD]
    for number, text in enumerate(recalled):
        context = f"<hook_context>{escape(text)}</hook_context>"
        said = [{"text": f"{context}\n\n{QUESTION.format(number)}"}, {"text": context}]
        lines.append(test_gemini.said(f"u{number}", "user", said))
        call = test_gemini.call(name="mcp_dreamd_recall", output=SECRET)
        lines.append(test_gemini.said(f"a{number}", "gemini", "", toolCalls=[call]))
    write(folder / "session-1.jsonl", lines)


def opencode(folder: Path, recalled: list[str]) -> None:
    messages: list[tuple[dict[str, Any], test_opencode.Parts]] = []
    for number, text in enumerate(recalled):
        parts: test_opencode.Parts = [
            {"type": "text", "text": text, "synthetic": True},
            {"type": "text", "text": QUESTION.format(number)},
        ]
        messages.append(({"role": "user"}, parts))
        done = {"role": "assistant", "time": {"created": number, "completed": number}}
        messages.append((done, [test_opencode.tool("dreamd_recall", output=SECRET, input={})]))
    (folder / "opencode.db").unlink(missing_ok=True)
    test_opencode.database(folder / "opencode.db", messages).close()


def copilot(folder: Path, recalled: list[str]) -> None:
    lines = [test_copilot.start()]
    for number, text in enumerate(recalled):
        lines.append(test_copilot.event("hook.end", hookType="userPromptSubmitted", output={"additionalContext": text}))
        lines.append(test_copilot.asked(QUESTION.format(number), f"u{number}", text))
        lines.append(test_copilot.called("dreamd-recall", f"c{number}", "dreamd", query="it"))
        lines.append(test_copilot.answered(SECRET, call_id=f"c{number}"))
    write(folder / "events.jsonl", lines)


def cursor(folder: Path, recalled: list[str]) -> None:
    bubbles: list[dict[str, Any]] = []
    for number, text in enumerate(recalled):
        context = f"<system_reminder>{text}</system_reminder>"
        bubbles.append({"type": 1, "text": f"{QUESTION.format(number)}\n{context}"})
        bubbles.append(test_cursor.call("mcp_dreamd_recall", SECRET, query="it"))
    (folder / "state.vscdb").unlink(missing_ok=True)
    test_cursor.database(folder / "state.vscdb", bubbles).close()


def cursor_transcript(folder: Path, recalled: list[str]) -> None:
    lines: list[dict[str, Any]] = []
    for number, text in enumerate(recalled):
        context = f"<system_reminder>{text}</system_reminder>"
        lines.append(test_cursor.asked(QUESTION.format(number), at=context))
        lines.append(test_cursor.said(test_cursor.use("CallMcpTool", server="user-dreamd", toolName="recall")))
    write(folder / "c1.jsonl", lines)


def cline(folder: Path, recalled: list[str]) -> None:
    messages: list[dict[str, Any]] = []
    for number, text in enumerate(recalled):
        context = f'<hook_context source="UserPromptSubmit">\n{text}\n</hook_context>'
        messages.append(test_cline.asked(f"{QUESTION.format(number)}\n{context}", f"u{number}"))
        call = test_cline.use("use_mcp_tool", f"c{number}", server_name="dreamd", tool_name="recall", arguments={})
        messages.append(test_cline.said(call, message_id=f"a{number}"))
        messages.append(test_cline.answered({"type": "text", "text": SECRET}, call_id=f"c{number}"))
    test_cline.session_file(folder, messages)


def qwen(folder: Path, recalled: list[str]) -> None:
    lines: list[dict[str, Any]] = []
    for number, text in enumerate(recalled):
        context = f"<qwen:user-prompt-submit-context>\n{escape(text)}\n</qwen:user-prompt-submit-context>"
        lines.append(test_qwen.asked(QUESTION.format(number), context, uuid=f"u{number}"))
        call = test_qwen.call("tool_call", name="mcp__dreamd__recall", arguments={"query": "it"})
        lines.append(test_qwen.said(call, uuid=f"a{number}"))
        lines.append(test_qwen.answered(output=SECRET) | {"uuid": f"r{number}"})
    write(folder / "chat-1.jsonl", lines)


def goose(folder: Path, recalled: list[str]) -> None:
    messages: list[test_goose.Message] = []
    for number, text in enumerate(recalled):
        context = test_goose.text(f"<info-msg>\n{text}\n</info-msg>")
        messages.append(("user", [context], {"userVisible": False}))
        messages.append(("user", [test_goose.text(QUESTION.format(number))], {}))
        messages.append(("assistant", [test_goose.call("dreamd__recall", f"c{number}", query="it")], {}))
        messages.append(("user", [test_goose.answer(SECRET, f"c{number}")], {}))
    (folder / "sessions.db").unlink(missing_ok=True)
    test_goose.database(folder / "sessions.db", messages).close()


def openclaw(folder: Path, recalled: list[str]) -> None:
    events = [test_openclaw.head()]
    for number, text in enumerate(recalled):
        events.append(test_openclaw.message("user", f"{text}\n\n{QUESTION.format(number)}", f"u{number}"))
        events.append(test_openclaw.call("tool_call", f"c{number}", id="dreamd__recall", args={"query": "it"}))
        nested = {"toolName": "dreamd__recall", "result": {"content": [{"type": "text", "text": SECRET}]}}
        events.append(test_openclaw.message("custom", "", f"n{number}", details=nested))
        events.append(test_openclaw.answer(SECRET, f"c{number}"))
    (folder / "openclaw-agent.sqlite").unlink(missing_ok=True)
    test_openclaw.database(folder / "openclaw-agent.sqlite", events).close()


def write(path: Path, lines: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


PROGRAMS = [claude_code, codex, gemini, opencode, copilot, cursor, cursor_transcript, cline, qwen, goose, openclaw]


@pytest.mark.parametrize("program", PROGRAMS)
def test_twenty_rounds_teach_nothing_but_the_questions(tmp_path: Path, store: MemoryStore, program: Write) -> None:
    folder = tmp_path / "agent"
    folder.mkdir()
    recalled: list[str] = []
    for number in range(ROUNDS):
        recalled.append(f'<dreamd-memory id="{number:06x}">{SECRET} {" ".join(recalled)[:500]}</dreamd-memory>')
        program(folder, recalled)
        account = Importer(store, Call(None, "import")).take([folder], None)
        assert (account.turns_added, account.turns_known) == (1, number)
    until(lambda: QUESTION.format(ROUNDS - 1) in kept(store))
    assert "sundial" not in kept(store)


def kept(store: MemoryStore) -> str:
    return "".join(path.read_text() for path in store.paths.vault.rglob("*.md"))
