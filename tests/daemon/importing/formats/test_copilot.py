"""Copilot CLI's sessions; the events are made in the form that 1.0.102 writes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dreamd.daemon.importing.detect import read

from tests.daemon.importing.conftest import sessions, skipped, texts

AT = "2026-11-22T10:00:00.000Z"
_numbers = itertools.count()


def event(kind: str, event_id: str = "", **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data, "id": event_id or f"e{next(_numbers)}", "timestamp": AT, "parentId": None}


def start(cwd: str = "/nowhere/loom") -> dict[str, Any]:
    return event("session.start", sessionId="chat-1", version=1, startTime=AT, context={"cwd": cwd})


def asked(text: str, event_id: str = "", recalled: str = "") -> dict[str, Any]:
    shown = f"<current_datetime>{AT}</current_datetime>\n\n{text}\n\n<system_reminder>\n{recalled}\n</system_reminder>"
    return event("user.message", event_id, content=text, transformedContent=shown, delivery="idle")


def called(name: str = "bash", call_id: str = "c", server: str = "", **arguments: Any) -> dict[str, Any]:
    data = {"toolCallId": call_id, "toolName": name, "arguments": arguments, "mcpServerName": server or None}
    return event("tool.execution_start") | {"data": data}


def answered(text: str, code: int = 0, call_id: str = "c", **more: Any) -> dict[str, Any]:
    done = {"toolCallId": call_id, "success": True, "result": {"content": text}, "shellExecution": {"exitCode": code}}
    return event("tool.execution_complete") | {"data": done | more}


def test_prompts_as_they_were_typed_and_each_call_with_its_outcome(jsonl: Callable[..., Path]) -> None:
    recalled = "<dreamd-memory id=1>The loom is oak.</dreamd-memory>"
    path = jsonl(
        start(),
        event("hook.end", hookType="sessionStart", output={"additionalContext": recalled}),
        event("system.message", role="system", content="You are the GitHub Copilot CLI."),
        asked("Warp it.", "u1", recalled),
        event("user.message", content="A skill's text.", source="skill-pdf"),
        event("assistant.message", content="", toolRequests=[{"toolCallId": "c", "name": "bash"}]),
        called(command="make"),
        answered("3 passed"),
        called("edit", "d", path="/nowhere/loom/a.py", old_str="x", new_str="y"),
        answered("", call_id="d", success=False, error={"message": "No match found"}),
        called("bash", "e", command="false"),
        answered("oops", 3, "e"),
        called("dreamd-recall", "f", "dreamd", query="loom"),
        answered("The loom is oak.", call_id="f"),
        event("assistant.message", "a1", content="Done."),
        event("session.shutdown", shutdownType="routine"),
    )
    items = list(read(path))
    assert [(turn.role, turn.text) for turn in sessions(items)[0].turns] == [
        ("user", "Warp it."),
        ("assistant", "[Bash: make]"),
        ("tool", "[Bash result]\n3 passed"),
        ("assistant", "[Edit /nowhere/loom/a.py]"),
        ("tool", "[Edit failed]\nNo match found"),
        ("assistant", "[Bash: false]"),
        ("tool", "[Bash failed]\noops"),
        ("assistant", "Done."),
    ]
    head = sessions(items)[0].head
    assert (head.session_id, head.cwd, head.title, head.agent_id) == ("chat-1", "/nowhere/loom", "Warp it.", "copilot")
    assert (sessions(items)[0].turns[0].external_id, sessions(items)[0].turns[-1].external_id) == ("u1", "a1")
    assert not skipped(items)


def test_a_sub_agents_events_in_the_same_file_are_left_out(jsonl: Callable[..., Path]) -> None:
    nested = event("assistant.message", content="I look.", parentToolCallId="t")
    path = jsonl(start(), asked("Go."), nested, event("assistant.message", content="x") | {"agentId": "explore"})
    assert texts(read(path)) == ["Go."]


def test_a_line_of_another_kind_is_named(jsonl: Callable[..., Path]) -> None:
    items = list(read(jsonl(start(), {"what": 1}, asked("Go."), b'{"type": "user.mess')))
    assert texts(items) == ["Go."]
    assert [one.line for one in skipped(items)] == [2, 4]
