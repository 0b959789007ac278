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
from tests.daemon.importing.formats import test_codex, test_gemini, test_opencode
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


def write(path: Path, lines: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize("program", [claude_code, codex, gemini, opencode])
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
