"""OpenClaw's sessions: its database (`openclaw-agent.sqlite`), or a file of lines for each session, as before 2026.

Both hold the same events, those of the agent runtime pi; in a file the first is the session's head. Left out: thinking,
the sessions that another one or a schedule began, texts that the program put in, and answers of our own memory. What a
channel put before a message is taken off.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ....store import beginning
from ....store.roles import Role
from ..foreign_database import DAY_MS, HEADER, LONGEST_BYTES, ForeignDatabase, json_object
from ..items import SUB_AGENT, UNREADABLE, SessionRead, Skipped
from ..json_lines import dicts_in, guarded, json_document, read_through
from ..turns import Conversation

AGENT = "openclaw"
DATABASE_NAME = re.compile(r"openclaw-agent\.sqlite")
TABLES = frozenset({"transcript_events", "session_windows"})
# Events are written in their order; a call's answer may come minutes later.
OVERLAP = 10 * 60 * 1000

CHECKPOINT = "a copy of a session from before it was compacted"
BY_SCHEDULE = "a session that a schedule began"

_EVENTS = frozenset(
    {
        *("session", "message", "model_change", "thinking_level_change", "compaction", "branch_summary", "custom"),
        *("custom_message", "label", "session_info", "leaf"),
    }
)
_COPIES = (".checkpoint.", ".trajectory.")
_UNTRUSTED = re.compile(r"\A(?:[^\n]{1,80}\(untrusted[^\n]{0,80}\):\n```json\n.*?\n```\s*)+", re.DOTALL)
_INTERNAL = re.compile(r"<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>.*?(?:<<<END_OPENCLAW_INTERNAL_CONTEXT>>>|\Z)", re.DOTALL)
# `[WhatsApp +49 … 2026-02-06 07:49 UTC]` before a message, `[message_id: …]` behind it, `System: [time] …` lines.
_ENVELOPE = re.compile(r"\A\[[^\]\n]{0,120}\d{4}-\d\d-\d\d[^\]\n]{0,60}\]\s*")
_MESSAGE_ID = re.compile(r"^\[message_id: [^\]\n]*\]\s*$", re.MULTILINE)
_SYSTEM = re.compile(r"^System: \[[^\]\n]*\].*$\n?", re.MULTILINE)
_HEARTBEAT = "Read HEARTBEAT.md if it exists"


def recognises(value: object) -> bool:
    """Return True if a line's value is an event of the runtime."""
    match value:
        case {"type": "session", "version": int(), "id": str()}:
            return True
        case {"type": "message", "id": str(), "message": {"role": str()}}:
            return True
        case _:
            return False


def read(path: Path) -> Iterator[SessionRead | Skipped]:
    """Yield every session of a database, the oldest first, or that of a file of lines."""
    if beginning(path, len(HEADER)) != HEADER:
        yield from read_through(path, OpenclawReading(path))
        return
    try:
        yield from changed_since(path, 0)
    except OSError as error:
        yield Skipped(path, None, str(error.strerror))


class OpenclawReading:
    """The state in the middle of a file of lines."""

    def __init__(self, path: Path) -> None:
        self._session = Conversation(AGENT, path)
        self._path = path
        self._session.left_out = (
            CHECKPOINT if any(mark in path.name for mark in _COPIES) else _not_a_persons(_key_of(path))
        )

    def take(self, number: int, value: Any) -> Iterator[SessionRead | Skipped]:
        """Yield the items that one line completes."""
        if not isinstance(value, dict) or value.get("type") not in _EVENTS:
            yield self._session.unknown(number, "not a line of OpenClaw: no event of a kind that is known")
            return
        given = value.get("id")
        yield from take_event(self._session, value, given if isinstance(given, str) and given else f"line {number}")

    def rest(self) -> Iterator[SessionRead | Skipped]:
        """Yield the items that are still gathered."""
        return self._session.rest()


def take_event(session: Conversation, event: Mapping[str, Any], named: str) -> Iterator[SessionRead]:
    """Take one event of a session; yield the pieces that it completes."""
    match event:
        case {"type": "session"}:
            session.given = session.given or event.get("id")
            session.cwd = event.get("cwd") or session.cwd
            session.started_at = session.started_at or event.get("timestamp")
        case {"type": "session_info", "name": str(title)}:
            session.title = title
        case {"type": "message", "message": dict(message)}:
            role, text = _text_of(session, message)
            yield from session.add(role, text, event.get("timestamp") or message.get("timestamp"), named)


def _text_of(session: Conversation, message: Mapping[str, Any]) -> tuple[Role, str]:
    content = message.get("content")
    match message.get("role"):
        case "user" if _is_a_persons(message):
            return Role.USER, "" if _said(content).startswith(_HEARTBEAT) else _of_person(_said(content))
        case "assistant":
            calls = [
                session.called(part.get("name"), part.get("arguments"), part.get("id"))
                for part in dicts_in(content)
                if part.get("type") == "toolCall"
            ]
            return Role.ASSISTANT, "\n".join(part for part in (_said(content), *calls) if part)
        case "toolResult":
            details = message.get("details")
            code = details.get("exitCode") if isinstance(details, dict) else None
            failed = message.get("isError") is True or code not in (None, 0)
            return Role.TOOL, session.calls.answered(message.get("toolCallId"), _said(content), is_error=failed)
        case _:
            return Role.SYSTEM, ""


def _is_a_persons(message: Mapping[str, Any]) -> bool:
    provenance = message.get("provenance")
    return not isinstance(provenance, dict) or provenance.get("kind") in (None, "external_user")


def _said(content: object) -> str:
    """Return the text of a content: a string, or a list of parts."""
    if isinstance(content, str):
        return content
    parts = ("[image]" if part.get("type") == "image" else part.get("text") for part in dicts_in(content))
    return "\n".join(part for part in parts if isinstance(part, str))


def _of_person(text: str) -> str:
    """Return a person's words without the texts of a channel and of the program round them."""
    text = _UNTRUSTED.sub("", _INTERNAL.sub("", text).lstrip())
    return _ENVELOPE.sub("", _MESSAGE_ID.sub("", _SYSTEM.sub("", text)).lstrip())


def _key_of(path: Path) -> str:
    """Return the key of a file's session, which says who began it, from the index beside it."""
    try:
        index = json_document(path.with_name("sessions.json"))
    except (OSError, ValueError):
        return ""
    known = index.items() if isinstance(index, dict) else ()
    found = (key for key, entry in known if isinstance(entry, dict) and entry.get("sessionId") == path.stem)
    return next(found, "")


def _not_a_persons(key: object, spawned_by: object = None) -> str:
    """Return the reason why a session is not its person's, by its key, "" if it is."""
    parts = key.split(":") if isinstance(key, str) else []
    return SUB_AGENT if spawned_by or "subagent" in parts else BY_SCHEDULE if "cron" in parts else ""


# ---- the database


def changed_since(path: Path, since_ms: int) -> Iterator[SessionRead | Skipped]:
    """Yield the sessions that changed since an instant, with these events. Raises OSError where it cannot be read."""
    sql = (
        "SELECT session_id, session_key, spawned_by FROM session_windows WHERE session_id IN"
        " (SELECT session_id FROM transcript_events WHERE created_at >= ?) ORDER BY created_at, session_id"
    )
    with ForeignDatabase(path) as database:
        for row in database.rows(sql, since_ms):
            yield from guarded(_session_of(database, row, since_ms, path), path)


def latest_change(path: Path, now_ms: int) -> int:
    """Return the instant of the last event, 0 for none. Raises OSError where the database cannot be read now."""
    with ForeignDatabase(path) as database:
        found = database.rows("SELECT max(created_at) FROM transcript_events WHERE created_at <= ?", now_ms + DAY_MS)
    return int(found[0][0] or 0)


def counts(path: Path) -> tuple[int, int]:
    """Return the numbers of sessions and of events. Raises OSError where the database cannot be read now."""
    with ForeignDatabase(path) as database:
        found = database.rows("SELECT count(DISTINCT session_id), count(*) FROM transcript_events")
    return int(found[0][0]), int(found[0][1])


def _session_of(
    database: ForeignDatabase, row: tuple[Any, ...], since_ms: int, path: Path
) -> Iterator[SessionRead | Skipped]:
    given, key, spawned_by = row
    session = Conversation(AGENT, path)
    session.given, session.left_out = given, _not_a_persons(key, spawned_by)
    if "event_zstd" in database.columns("transcript_events"):
        packed = (
            "SELECT count(*) FROM transcript_events WHERE session_id = ? AND created_at >= ? AND event_json IS NULL"
        )
        if found := database.rows(packed, given, since_ms)[0][0]:
            yield Skipped(path, None, f"{UNREADABLE}: {found} events of {given}, which OpenClaw has packed")
    # The head is the first event, whenever the session changed.
    sql = (
        "SELECT seq, event_json FROM transcript_events WHERE session_id = ? AND (seq = 0 OR created_at >= ?)"
        " AND length(event_json) <= ? ORDER BY seq"
    )
    for seq, content in database.rows(sql, given, since_ms, LONGEST_BYTES):
        event = json_object(content)
        named = event.get("id")
        yield from guarded(take_event(session, event, named if isinstance(named, str) and named else f"{seq}"), path)
    yield from session.rest()
