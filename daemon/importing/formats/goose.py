"""Goose's sessions: its database (`sessions.db`), or a file of lines for each session, as before version 1.10.

A file's first line is its head, the others are messages. A row of the database is a message too; a tool's answer
comes in a message of the person's role. Left out: messages that the program shows to its model alone (`userVisible`),
thinking, sub-agents' sessions, and answers of our own memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ....store import beginning
from ....store.roles import Role
from ..foreign_database import HEADER, LONGEST_BYTES, ForeignDatabase, json_object
from ..items import SUB_AGENT, SessionRead, Skipped
from ..json_lines import dicts_in, guarded, parse, read_through
from ..turns import Conversation

AGENT = "goose"
DATABASE_NAME = re.compile(r"sessions\.db")
TABLES = frozenset({"sessions", "messages"})
# Rows: an answer comes right after its call.
OVERLAP = 20
MOVED = "a session that is in the database beside it"

_NOT_A_PERSONS = frozenset({"sub_agent", "hidden"})
_UNNAMED = frozenset({"", "New session", "New Chat", "CLI Session"})
_EDITOR = "text_editor"


def recognises(value: object) -> bool:
    """Return True if a line's value is the head of a session, or one of its messages."""
    match value:
        case {"working_dir": str(), "description": str()}:
            return True
        case {"role": "user" | "assistant", "created": int(), "content": list()}:
            return True
        case _:
            return False


def read(path: Path) -> Iterator[SessionRead | Skipped]:
    """Yield every session of a database, the oldest first, or that of a file of lines."""
    if beginning(path, len(HEADER)) != HEADER:
        yield from read_through(path, GooseReading(path))
        return
    try:
        yield from changed_since(path, 0)
    except OSError as error:
        yield Skipped(path, None, str(error.strerror))


class GooseReading:
    """The state in the middle of a file of lines."""

    def __init__(self, path: Path) -> None:
        self._session = Conversation(AGENT, path)
        self._session.given = f"{AGENT}-{path.stem}"
        self._session.left_out = MOVED if _is_moved(path) else ""

    def take(self, number: int, value: Any) -> Iterator[SessionRead | Skipped]:
        """Yield the items that one line completes."""
        if not recognises(value):
            yield self._session.unknown(number, "not a line of Goose: no head of a session and no message")
        elif "role" not in value:
            self._session.cwd = value["working_dir"]
            self._session.started_at = value.get("created_at")
            self._session.title = _title(value["description"])
        else:
            given = value.get("id")
            named = given if isinstance(given, str) and given else f"line {number}"
            yield from _turns_of(self._session, value["role"], value, value["created"], named)

    def rest(self) -> Iterator[SessionRead | Skipped]:
        """Yield the items that are still gathered."""
        return self._session.rest()


def _turns_of(
    session: Conversation, role: str, message: Mapping[str, Any], at: object, named: str
) -> Iterator[SessionRead]:
    metadata = message.get("metadata")
    if isinstance(metadata, dict) and metadata.get("userVisible") is False:
        return
    said, answers = [], []
    for part in dicts_in(message.get("content")):
        match part:
            case {"type": "text", "text": str(text)}:
                said.append(text)
            case {"type": "image"}:
                said.append("[image]")
            case {"type": "toolRequest" | "frontendToolRequest", "toolCall": {"value": {"name": str(name)} as call}}:
                said.append(session.called(*_as_meant(name, call.get("arguments")), part.get("id"), name))
            case {"type": "toolResponse", "toolResult": dict(result)}:
                answers.append((part.get("id"), *_result_of(result)))
    speaker = Role.USER if role == Role.USER.value else Role.ASSISTANT
    yield from session.add(speaker, "\n".join(text for text in said if text), at, named)
    for place, (call_id, text, is_error) in enumerate(answers):
        answer = session.calls.answered(call_id, text, is_error=is_error)
        yield from session.add(Role.TOOL, answer, at, f"{named}/{place}")


def _as_meant(name: str, arguments: object) -> tuple[str, object]:
    """Return a call's name and arguments; the editor's name says nothing of whether it only shows a file."""
    if name.endswith(_EDITOR) and isinstance(arguments, dict) and arguments.get("command") == "view":
        return "view", arguments
    return name.removeprefix("developer__"), arguments


def _result_of(result: Mapping[str, Any]) -> tuple[str, bool]:
    """Return a result's text, and True if the call failed. Older results are the bare list of contents."""
    if result.get("status") == "error":
        return str(result.get("error") or ""), True
    value = result.get("value")
    contents = value.get("content") if isinstance(value, dict) else value
    texts = [
        part["text"]
        for part in dicts_in(contents)
        if isinstance(part.get("text"), str) and _is_for_a_person_too(part.get("annotations"))
    ]
    return "\n".join(texts), isinstance(value, dict) and value.get("isError") is True


def _is_for_a_person_too(annotations: object) -> bool:
    """Return False for a copy of the result that is meant for the person's eyes alone, beside the model's own."""
    audience = annotations.get("audience") if isinstance(annotations, dict) else None
    return not (isinstance(audience, list) and audience == ["user"])


def _title(given: object) -> str:
    return given if isinstance(given, str) and given not in _UNNAMED else ""


# ---- the database


def changed_since(path: Path, since: int) -> Iterator[SessionRead | Skipped]:
    """Yield the sessions with messages from a row on, with these messages. Raises OSError where it cannot be read now.

    Goose writes a conversation anew as a whole when it compacts it: its rows are then new, their messages are not.
    """
    with ForeignDatabase(path) as database:
        columns = database.columns("sessions")
        kept = [name if name in columns else "''" for name in ("name", "description", "session_type")]
        sql = (
            f"SELECT id, working_dir, created_at, {', '.join(kept)} FROM sessions"
            " WHERE id IN (SELECT session_id FROM messages WHERE id >= ?) ORDER BY created_at, id"
        )
        for row in database.rows(sql, since):
            yield from guarded(_session_of(database, row, since, path), path)


def latest_change(path: Path, now_ms: int) -> int:
    """Return the last row's number, 0 for none. Raises OSError where the database cannot be read now."""
    with ForeignDatabase(path) as database:
        return int(database.rows("SELECT max(id) FROM messages")[0][0] or 0)


def counts(path: Path) -> tuple[int, int]:
    """Return the numbers of sessions and of messages. Raises OSError where the database cannot be read now."""
    with ForeignDatabase(path) as database:
        found = database.rows("SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM messages)")
    return int(found[0][0]), int(found[0][1])


def _is_moved(path: Path) -> bool:
    """Return True if a file's session is in the database too, where its messages have other ids."""
    beside = path.with_name("sessions.db")
    try:
        with ForeignDatabase(beside) as database:
            return bool(database.rows("SELECT 1 FROM sessions WHERE id = ?", path.stem))
    except OSError:
        return False


def _session_of(
    database: ForeignDatabase, row: tuple[Any, ...], since: int, path: Path
) -> Iterator[SessionRead | Skipped]:
    given, folder, created, name, description, kind = row
    if kind in _NOT_A_PERSONS:
        yield Skipped(path, None, SUB_AGENT)
        return
    session = Conversation(AGENT, path)
    # Its ids are a day and a number.
    session.given, session.cwd, session.started_at = f"{AGENT}-{given}", folder, created
    session.title = _title(name) or _title(description)
    columns = database.columns("messages")
    message_id = "message_id" if "message_id" in columns else "NULL"
    metadata = "metadata_json" if "metadata_json" in columns else "NULL"
    sql = (
        f"SELECT {message_id}, role, content_json, created_timestamp, {metadata} FROM messages"
        " WHERE session_id = ? AND id >= ? AND length(content_json) <= ? ORDER BY id"
    )
    seen: dict[object, int] = {}
    for given_id, role, content, at, shown in database.rows(sql, given, since, LONGEST_BYTES):
        # Older versions give no id: then it is the message's second, and its place in it.
        seen[at] = seen.get(at, -1) + 1
        named = given_id if isinstance(given_id, str) and given_id else f"{at}/{role}/{seen[at]}"
        yield from guarded(_of_row(session, role, content, at, shown, named), path)
    yield from session.rest()


def _of_row(
    session: Conversation, role: object, content: object, at: object, metadata: object, named: str
) -> Iterator[SessionRead]:
    if not isinstance(role, str) or not isinstance(content, str):
        return
    message = {"content": parse(content.encode("utf-8", "replace")), "metadata": json_object(metadata)}
    yield from _turns_of(session, role, message, at, named)
