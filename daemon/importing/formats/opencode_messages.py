"""The messages of opencode's sessions, in whichever store they are kept, as turns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....store import session_id, without_element
from ....store.channel import channel_of_folder
from ....store.model import NewTurn, SessionHead
from ....store.roles import Role
from ..reading.agent_tools import LOOKS_ONLY, as_known
from ..reading.batches import Batches, by_first_words
from ..reading.contents import Contents
from ..reading.foreign_tools import brings_foreign_words
from ..reading.items import SessionRead, Skipped
from ..reading.line_reading import guarded
from ..reading.sanitize import tidy
from ..reading.timestamps import instant
from ..reading.tool_calls import is_our_own

USER, ASSISTANT, TOOL = Role.USER.value, Role.ASSISTANT.value, Role.TOOL.value

_WRITTEN_BY_THE_PROGRAM = ("system-reminder", "hook_context")


@dataclass(frozen=True, slots=True)
class Message:
    """A message with its parts, as both stores have them."""

    message_id: str
    data: Mapping[str, Any]
    parts: Sequence[tuple[str, Mapping[str, Any]]]


def head_of(given: str, directory: object, title: object, at: object, path: Path) -> SessionHead:
    """Return a session's head."""
    cwd = directory if isinstance(directory, str) and directory else None
    return SessionHead(
        session_id=session_id(given),
        channel=channel_of_folder(Path(cwd) if cwd else path.parent),
        title=tidy(title) if isinstance(title, str) and not title.startswith("New session - ") else "",
        started_at=instant(at),
        agent_id="opencode",
        cwd=cwd,
    )


def session_of(head: SessionHead, messages: Iterable[Message], path: Path) -> Iterator[SessionRead | Skipped]:
    """Yield a session from its messages, the oldest first; the last one only if it is finished."""
    batches = Batches(by_first_words)
    batches.open(head)
    contents, found = Contents(), False
    for message in _finished(messages):
        for turn in guarded(turns_of(message, contents, head.cwd), path):
            found = True
            if isinstance(turn, Skipped):
                yield turn
                continue
            yield from batches.add(head.session_id, turn, contents.left_out())
    yield from batches.rest()
    if not found:
        yield Skipped(path, None, "no turn in it")


def _finished(messages: Iterable[Message]) -> Iterator[Message]:
    held = None
    for message in messages:
        if held is not None:
            yield held
        held = message
    if held is not None and is_finished(held):
        yield held


def is_finished(message: Message) -> bool:
    """Say whether nothing will be added to a message."""
    time = message.data.get("time")
    if message.data.get("role") == USER:
        return any(part.get("type") in ("text", "file") for _, part in message.parts)
    return (isinstance(time, dict) and "completed" in time) or "error" in message.data


def turns_of(message: Message, contents: Contents, folder: str | None) -> Iterator[NewTurn]:
    """Yield what a message says, and what its tools answered."""
    role = message.data.get("role")
    if role not in (USER, ASSISTANT) or message.data.get("summary") is True:
        return
    time = message.data.get("time")
    at = instant(time.get("created")) if isinstance(time, dict) else None
    said, answered, foreign = [], [], False
    for part_id, part in message.parts:
        match part:
            case {"type": "text", "text": str(text)} if not part.get("synthetic") and not part.get("ignored"):
                said.append(_plain(text))
            case {"type": "file", "mime": str(mime)} if mime.startswith("image/"):
                said.append("[image]")
            case {"type": "tool", "tool": str(name), "state": dict(state)}:
                call, result, is_foreign = _of_call(name, state, contents, folder)
                said.append(call)
                answered.append((part_id, result))
                foreign = foreign or is_foreign
    if text := "\n".join(part for part in said if part):
        yield NewTurn(role, text, at, message.message_id, foreign)
    for part_id, text in answered:
        if text:
            yield NewTurn(TOOL, text, at, part_id, foreign)


def _of_call(name: str, state: Mapping[str, Any], contents: Contents, folder: str | None) -> tuple[str, str, bool]:
    """Return the notes of a call and of its result, and whether it may bring a stranger's words."""
    known, inputs = as_known(name, state.get("input"))
    foreign, ours = brings_foreign_words(known, inputs), is_our_own(name, inputs)
    if (ours or name in LOOKS_ONLY) and not foreign:
        return "", "", False
    failed = state.get("status") == "error"
    metadata = state.get("metadata")
    code = metadata.get("exit") if isinstance(metadata, dict) else None
    text = state.get("error" if failed else "output")
    note, line = contents.note_of_call(known, inputs, folder)
    note = f"[{known}]" if ours else note
    text = text if isinstance(text, str) and not ours else ""
    return note, tidy(contents.note_of_result(known, text, line, is_error=failed or code not in (None, 0))), foreign


def _plain(text: str) -> str:
    for tag in _WRITTEN_BY_THE_PROGRAM if "<" in text else ():
        text = without_element(text, tag)
    return tidy(text)
