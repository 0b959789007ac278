"""Generic chats: one message a line, `{"role", "content" or "text", "timestamp"?, "id"?, "session"?, "channel"?}`.

`content` may be OpenAI's list of parts. A message without an id is identified by its file and line, so that reading
the same file again, or a longer one, adds no turn twice. Instructions (`system`, `developer`) are no turns.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ....store import session_id
from ....store.model import GLOBAL_CHANNEL, NewTurn, SessionHead
from ....store.names import as_channel, as_name
from ....store.roles import Role, role_of
from ..items import SessionRead, Skipped
from ..json_lines import read_through
from ..sanitize import first_line, instant, shorten, tidy
from ..turns import Batches

_TOOL_CHARS = (300, 500)
_CALL_CHARS = 160
_HASH_DIGITS = 6
# Types of parts that hold a message's text; a message of the role `user` may also hold a tool's answer.
_TEXT_TYPES = (None, "text", "input_text", "output_text")


def recognises(value: object) -> bool:
    """Return True if a line's value is a message."""
    return isinstance(value, dict) and isinstance(value.get("role"), str) and ("content" in value or "text" in value)


def read(path: Path) -> Iterator[SessionRead | Skipped]:
    """Yield every session of one file; lines without a message come as Skipped."""
    return read_through(path, ChatJsonlReading(path))


class ChatJsonlReading:
    """The state in the middle of a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._batches = Batches()
        self._file_id = f"{path.stem}-{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:_HASH_DIGITS]}"

    def take(self, number: int, value: Any) -> Iterator[SessionRead | Skipped]:
        """Yield the items that one line completes."""
        if not recognises(value):
            yield Skipped(self._path, number, "no message: an object with a role and a content or text")
        elif role_of(value["role"]) == Role.SYSTEM:
            yield Skipped(self._path, number, f"a {value['role']} message: an instruction to the model, not a turn")
        elif not (text := _text(value)):
            yield Skipped(self._path, number, "a message without text")
        else:
            head = _head(value, self._file_id)
            if not self._batches.knows(head.session_id):
                self._batches.open(head)
            external_id = _scalar(value.get("id")) or f"{self._file_id}:{number}"
            yield from self._batches.add(head.session_id, NewTurn(value["role"], text, head.started_at, external_id))

    def rest(self) -> Iterator[SessionRead | Skipped]:
        """Yield the items that are still gathered."""
        yield from self._batches.rest()


def _head(value: dict[str, Any], file_id: str) -> SessionHead:
    channel = as_channel(_scalar(value.get("channel")))
    session = _scalar(value.get("session")) or _scalar(value.get("session_id"))
    # Equal session names in two channels are two sessions.
    named = "-".join(part for part in (channel, session) if part) if session else file_id
    at = next((at for key in ("timestamp", "created_at", "at") if (at := instant(value.get(key)))), None)
    return SessionHead(session_id=session_id(named), channel=channel or GLOBAL_CHANNEL, started_at=at)


def _text(value: dict[str, Any]) -> str:
    content = value["content"] if value.get("content") is not None else value.get("text")
    parts = content if isinstance(content, list) else [content]
    text = tidy("\n".join(text for part in parts if (text := _part(part))))
    if role_of(value["role"]) == Role.TOOL:
        return shorten(text, *_TOOL_CHARS)
    calls = value.get("tool_calls")
    notes = [_note_of_call(call) for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    return "\n".join(part for part in (text, *notes) if part)


def _part(part: object) -> str:
    """Return the text of one part of OpenAI's content lists, "" for other parts."""
    match part:
        case str():
            return part
        case {"type": "image_url" | "input_image" | "image"}:
            return "[image]"
        case {"type": "input_audio", "input_audio": {"transcript": str(text)}}:
            return text
        case {"text": str(text), **others} if others.get("type") in _TEXT_TYPES:
            return text
        case _:
            return ""


def _note_of_call(call: dict[str, Any]) -> str:
    match call.get("function"):
        case {"name": str(name), "arguments": arguments}:
            given = arguments if isinstance(arguments, str) else json.dumps(arguments)
            return tidy(f"[{name}: {first_line(given, _CALL_CHARS)}]")
        case _:
            return ""


def _scalar(value: object) -> str:
    return as_name(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else ""
