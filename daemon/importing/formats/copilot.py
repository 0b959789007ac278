"""Copilot CLI's sessions: `~/.copilot/session-state/ID/events.jsonl`, one event a line.

A prompt is kept as it was typed: hooks' text is in another field, and in events of its own. Left out:
instructions, thinking, sub-agents' events, texts that the program put in (a skill's), and answers of our own memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ....store.roles import Role
from ..items import SessionRead, Skipped
from ..json_lines import read_through
from ..sanitize import without_elements
from ..turns import Conversation

AGENT = "copilot"

_WRITTEN_BY_THE_PROGRAM = ("system_reminder", "system-reminder", "current_datetime", "skill-context")
_OF_A_PERSON: tuple[object, ...] = (None, "", "user")


def recognises(value: object) -> bool:
    """Return True if a line's value is an event of Copilot CLI."""
    match value:
        case {"type": str(kind), "data": dict(), "id": str(), "timestamp": str(), "parentId": _}:
            return "." in kind
        case _:
            return False


def read(path: Path) -> Iterator[SessionRead | Skipped]:
    """Yield the session of one file; unreadable lines come as Skipped."""
    return read_through(path, CopilotReading(path))


class CopilotReading:
    """The state in the middle of a session."""

    def __init__(self, path: Path) -> None:
        self._session = Conversation(AGENT, path)
        self._session.given = path.parent.name if path.stem == "events" else path.stem

    def take(self, number: int, value: Any) -> Iterator[SessionRead | Skipped]:
        """Yield the items that one line completes."""
        if not recognises(value):
            yield self._session.unknown(number, "not a line of Copilot CLI: no event with a type, an id and data")
            return
        data = value["data"]
        if value["type"] in ("session.start", "session.resume"):
            self._open(data)
        # The work of a sub-agent is in the same file.
        elif not (value.get("agentId") or data.get("parentToolCallId")):
            role, text = self._text_of(value["type"], data)
            yield from self._session.add(role, text, value["timestamp"], value["id"])

    def rest(self) -> Iterator[SessionRead | Skipped]:
        """Yield the items that are still gathered."""
        return self._session.rest()

    def _open(self, data: Mapping[str, Any]) -> None:
        context = data.get("context")
        self._session.cwd = (context.get("cwd") if isinstance(context, dict) else None) or self._session.cwd
        self._session.given = data.get("sessionId") or self._session.given
        self._session.started_at = self._session.started_at or data.get("startTime")

    def _text_of(self, kind: str, data: Mapping[str, Any]) -> tuple[Role, str]:
        match kind, data:
            case "user.message", {"content": str(text)} if data.get("source") in _OF_A_PERSON:
                return Role.USER, without_elements(text, _WRITTEN_BY_THE_PROGRAM)
            case "assistant.message", {"content": str(text)}:
                return Role.ASSISTANT, text
            case "tool.execution_start", {"toolName": str(name)}:
                server = data.get("mcpServerName")
                full = f"{server}__{name}" if isinstance(server, str) else name
                return Role.ASSISTANT, self._session.called(name, data.get("arguments"), data.get("toolCallId"), full)
            case "tool.execution_complete", _:
                text, is_error = _result_of(data)
                return Role.TOOL, self._session.calls.answered(data.get("toolCallId"), text, is_error=is_error)
            case _:
                return Role.SYSTEM, ""


def _result_of(data: Mapping[str, Any]) -> tuple[str, bool]:
    """Return a call's result, and True if it failed: of a command also by its exit code."""
    result, error, shell = data.get("result"), data.get("error"), data.get("shellExecution")
    code = shell.get("exitCode") if isinstance(shell, dict) else None
    if data.get("success") is False:
        text = error.get("message") if isinstance(error, dict) else error
        if isinstance(text, str) and text:
            return text, True
    text = result.get("content") if isinstance(result, dict) else result
    return text if isinstance(text, str) else "", data.get("success") is False or code not in (None, 0)
