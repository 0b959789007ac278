"""Qwen Code's chats: `~/.qwen/projects/PROJECT/chats/ID.jsonl`, one record a line; its messages are Gemini CLI's.

Left out: hooks' text (`<qwen:user-prompt-submit-context>`), contents of files that a prompt names, thoughts,
sub-agents' records, notifications and other texts of the program, and answers of our own memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ....store.roles import Role
from ..items import SUB_AGENT, SessionRead, Skipped
from ..json_lines import dicts_in, read_through
from ..sanitize import without_elements
from ..turns import Conversation
from . import gemini

AGENT = "qwen"

_KINDS = frozenset({"user", "assistant", "tool_result", "system"})
_HOOKS = ("qwen:user-prompt-submit-context", "qwen:session-start-context")
# The subtypes of a person's own messages.
_TYPED = (None, "mid_turn_user_message")
_FROM_A_PERSON = (None, "real_user")


def recognises(value: object) -> bool:
    """Return True if a line's value is a record of Qwen Code."""
    match value:
        case {"type": str(kind), "sessionId": str(), "message": {"parts": list()}}:
            return kind in _KINDS
        case {"type": "system", "sessionId": str(), "subtype": str(), "systemPayload": _}:
            return True
        case _:
            return False


def read(path: Path) -> Iterator[SessionRead | Skipped]:
    """Yield the session of one chat; unreadable lines come as Skipped."""
    return read_through(path, QwenReading(path))


class QwenReading:
    """The state in the middle of a chat."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._session = Conversation(AGENT, path)
        self._is_nested = False

    def take(self, number: int, value: Any) -> Iterator[SessionRead | Skipped]:
        """Yield the items that one line completes."""
        if not isinstance(value, dict) or value.get("type") not in _KINDS or "sessionId" not in value:
            yield self._session.unknown(number, "not a line of Qwen Code: no record with a type and a session")
            return
        session, message = self._session, value.get("message")
        session.given = session.given or value["sessionId"]
        session.cwd = value.get("cwd") or session.cwd
        session.started_at = session.started_at or value.get("timestamp")
        if value.get("isSidechain") is True:
            self._is_nested = True
            return
        if value["type"] == "system":
            self._note_title(value)
            return
        if not isinstance(message, dict):
            yield session.unknown(number, f"a {value['type']} record without a message")
            return
        given = value.get("uuid")
        named = given if isinstance(given, str) and given else f"line {number}"
        for role, text, name in self._texts_of(value, message, named):
            yield from session.add(role, text, value.get("timestamp"), name)

    def rest(self) -> Iterator[SessionRead | Skipped]:
        """Yield the items that are still gathered."""
        if self._is_nested and not self._session.has_turns:
            yield Skipped(self._path, None, SUB_AGENT)
        else:
            yield from self._session.rest()

    def _note_title(self, value: Mapping[str, Any]) -> None:
        match value:
            case {"subtype": "custom_title", "systemPayload": {"customTitle": str(title)}}:
                self._session.title = title

    def _texts_of(
        self, value: Mapping[str, Any], message: Mapping[str, Any], named: str
    ) -> Iterator[tuple[Role, str, str]]:
        """Yield the role, text and id of each turn of a record; several tools may answer in one."""
        parts = message.get("parts")
        match value["type"]:
            case "user":
                if value.get("subtype") in _TYPED and value.get("provenance") in _FROM_A_PERSON:
                    yield Role.USER, _of_person(parts), named
            case "assistant":
                calls = [
                    self._session.called(call.get("name"), call.get("args"), call.get("id"))
                    for part in dicts_in(parts)
                    if isinstance(call := part.get("functionCall"), dict)
                ]
                said = gemini.plain(gemini.text_of(parts))
                yield Role.ASSISTANT, "\n".join(part for part in (said, *calls) if part), named
            case _:
                answers = [one for part in dicts_in(parts) if isinstance(one := part.get("functionResponse"), dict)]
                for place, answer in enumerate(answers):
                    yield Role.TOOL, self._answer(answer, value.get("toolCallResult")), f"{named}/{place}"

    def _answer(self, answer: Mapping[str, Any], outcome: object) -> str:
        text, is_error = gemini.output_of({"functionResponse": answer})
        is_error = is_error or (isinstance(outcome, dict) and outcome.get("status") == "error")
        return self._session.calls.answered(answer.get("id"), text, is_error=is_error)


def _of_person(parts: object) -> str:
    text = gemini.text_of(parts).partition(gemini.REFERENCED)[0]
    return gemini.plain(without_elements(text, _HOOKS))
