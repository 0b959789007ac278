"""opencode's sessions: its database (`opencode.db`), or the JSON files of before (`storage/session/…/ses_*.json`).

A message is a turn once it is finished: an assistant's when it has ended or another follows it. A tool's answer is a
turn of its own. `opencode run` puts its prompt in quotation marks, which are taken off. Left out: text that plugins and
the program added (`synthetic`), thinking, summaries of earlier messages, sub-agents' sessions, and answers of our own
memory. The database is read beside the program that writes it: nothing is written, and no lock is held for long.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....store import beginning
from ....store.model import NewTurn, SessionHead
from ....store.roles import Role
from ..foreign_database import DAY_MS, HEADER, LONGEST_BYTES, ForeignDatabase, json_object
from ..ignore_files import CallNotes
from ..items import NO_TURN, SUB_AGENT, SessionRead, Skipped
from ..json_lines import dicts_in, guarded, json_document
from ..sanitize import instant, tidy, without_elements
from ..tool_calls import LOOKS_ONLY, as_known, brings_foreign_words, is_our_own
from ..turns import Batches, head_of_agent

USER, ASSISTANT, TOOL = Role.USER.value, Role.ASSISTANT.value, Role.TOOL.value
PIECE = "a piece of an opencode session, which is read with its session"
DATABASE_NAME = re.compile(r"opencode[\w-]*\.db")

_WRITTEN_BY_THE_PROGRAM = ("system-reminder", "hook_context")
_QUOTED = re.compile(r'\s*"((?:[^"\\]|\\.)*)"\s*', re.DOTALL)
TABLES = frozenset({"session", "message", "part"})
# A message is finished a while after it was begun, and its session's time of change is set at both.
OVERLAP = 10 * 60 * 1000


def read(path: Path) -> Iterator[SessionRead | Skipped]:
    """Yield every session of a database, the oldest first, or that of a file of the JSON storage."""
    if beginning(path, len(HEADER)) != HEADER:
        yield from _read_file(path)
        return
    try:
        yield from changed_since(path, 0)
    except OSError as error:
        yield Skipped(path, None, str(error.strerror))


# ---- messages, in whichever store they are


@dataclass(frozen=True, slots=True)
class OpencodeMessage:
    """A message with its parts, as both stores have them."""

    message_id: str
    data: Mapping[str, Any]
    parts: Sequence[tuple[str, Mapping[str, Any]]]


def head_of(given: str, directory: object, title: object, at: object, path: Path) -> SessionHead:
    """Return a session's head."""
    named = tidy(title) if isinstance(title, str) and not title.startswith("New session - ") else ""
    return head_of_agent("opencode", given, directory, path, instant(at), named)


def session_of(head: SessionHead, messages: Iterable[OpencodeMessage], path: Path) -> Iterator[SessionRead | Skipped]:
    """Yield a session from its messages, the oldest first; the last one only if it is finished."""
    batches, notes, found = Batches(), CallNotes(), False
    batches.open(head)
    for message in _finished(messages):
        for turn in guarded(turns_of(message, notes, head.cwd), path):
            found = True
            if isinstance(turn, Skipped):
                yield turn
                continue
            yield from batches.add(head.session_id, turn, notes.left_out())
    yield from batches.rest()
    if not found:
        yield Skipped(path, None, NO_TURN)


def turns_in(messages: str, folder: str) -> list[NewTurn]:
    """Return the turns of messages as opencode's own API gives them, in JSON; none for another text."""
    try:
        found = dicts_in(json.loads(messages)) if messages else ()
    except (ValueError, RecursionError):
        return []
    notes = CallNotes()
    return [
        turn
        for message in found
        if isinstance(info := message.get("info"), dict)
        for turn in guarded(turns_of(_message_in(info, message), notes, folder or None), Path(str(info.get("id"))))
        if isinstance(turn, NewTurn)
    ]


def _message_in(info: Mapping[str, Any], message: Mapping[str, Any]) -> OpencodeMessage:
    parts = [(str(part.get("id")), part) for part in dicts_in(message.get("parts"))]
    return OpencodeMessage(str(info.get("id")), info, parts)


def without_quotation_marks(text: str) -> str:
    """Return a prompt without the quotation marks that `opencode run` puts round one of several words."""
    quoted = _QUOTED.fullmatch(text)
    return text if quoted is None else quoted[1].replace('\\"', '"')


def _finished(messages: Iterable[OpencodeMessage]) -> Iterator[OpencodeMessage]:
    last = None
    for message in messages:
        if last is not None:
            yield last
        last = message
    if last is not None and is_finished(last):
        yield last


def is_finished(message: OpencodeMessage) -> bool:
    """Return True if nothing will be added to a message."""
    time = message.data.get("time")
    if message.data.get("role") == USER:
        return any(part.get("type") in ("text", "file") for _, part in message.parts)
    return (isinstance(time, dict) and "completed" in time) or "error" in message.data


def turns_of(message: OpencodeMessage, notes: CallNotes, folder: str | None) -> Iterator[NewTurn]:
    """Yield a message's own text as a turn, then the answers of its tools."""
    role = message.data.get("role")
    if role not in (USER, ASSISTANT) or message.data.get("summary") is True:
        return
    at = instant(_created(message.data))
    texts, answers, foreign = [], [], False
    for part_id, part in message.parts:
        match part:
            case {"type": "text", "text": str(text)} if not part.get("synthetic") and not part.get("ignored"):
                text = without_quotation_marks(text) if role == USER else text
                texts.append(tidy(without_elements(text, _WRITTEN_BY_THE_PROGRAM)))
            case {"type": "file", "mime": str(mime)} if mime.startswith("image/"):
                texts.append("[image]")
            case {"type": "tool", "tool": str(name), "state": dict(state)}:
                call, result, is_foreign = _of_call(name, state, notes, folder)
                texts.append(call)
                answers.append((part_id, result))
                foreign = foreign or is_foreign
    if text := "\n".join(part for part in texts if part):
        yield NewTurn(role, text, at, message.message_id, foreign)
    for part_id, text in answers:
        if text:
            yield NewTurn(TOOL, text, at, part_id, foreign)


def _of_call(name: str, state: Mapping[str, Any], notes: CallNotes, folder: str | None) -> tuple[str, str, bool]:
    """Return the notes of a call and of its result, and True if the result may be foreign text."""
    known, inputs = as_known(name, state.get("input"))
    foreign, ours = brings_foreign_words(known, inputs), is_our_own(name, inputs)
    if (ours or name in LOOKS_ONLY) and not foreign:
        return "", "", False
    failed = state.get("status") == "error"
    metadata = state.get("metadata")
    code = metadata.get("exit") if isinstance(metadata, dict) else None
    text = state.get("error" if failed else "output")
    note, placeholder = notes.of_call(known, inputs, folder)
    note = f"[{known}]" if ours else note
    text = text if isinstance(text, str) and not ours else ""
    result = notes.of_result(known, text, placeholder, is_error=failed or code not in (None, 0))
    return note, tidy(result), foreign


def _created(value: Mapping[str, Any]) -> object:
    time = value.get("time")
    return time.get("created") if isinstance(time, dict) else None


# ---- the JSON storage: a session's file, and beside its folder those of its messages and of their parts


def recognises(document: object) -> bool:
    """Return True if a file's value is a session of the JSON storage."""
    return _has_id(document, "ses_", "projectID")


def is_piece(document: object) -> bool:
    """Return True if a file's value is a message or a part, which is read with its session."""
    return _has_id(document, "msg_", "sessionID") or _has_id(document, "prt_", "sessionID")


def _has_id(value: object, prefix: str, other_key: str) -> bool:
    return isinstance(value, dict) and str(value.get("id")).startswith(prefix) and other_key in value


def _read_file(path: Path) -> Iterator[SessionRead | Skipped]:
    try:
        session = json_document(path)
    except ValueError as error:
        yield Skipped(path, None, str(error))
        return
    if not recognises(session):
        yield Skipped(path, None, PIECE if is_piece(session) else "no session of opencode: no id and project")
        return
    if session.get("parentID"):
        yield Skipped(path, None, SUB_AGENT)
        return
    storage = path.parents[2] if len(path.parents) > 2 else path.parent
    head = head_of(session["id"], session.get("directory"), session.get("title"), _created(session), path)
    yield from session_of(head, _messages(storage, session["id"]), path)


def _messages(storage: Path, session: str) -> Iterator[OpencodeMessage]:
    found = []
    for message_id, data in _pieces(storage / "message" / session):
        found.append(OpencodeMessage(message_id, data, list(_pieces(storage / "part" / message_id))))
    yield from sorted(found, key=lambda message: (_number(_created(message.data)), message.message_id))


def _pieces(folder: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the objects of a folder by their ids, which is the order in which they were made."""
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".json" and not path.is_symlink())
    except OSError:
        return
    for path in paths:
        try:
            value = json_document(path)
        except (OSError, ValueError):
            # Half written, or gone: a session is read again.
            continue
        if isinstance(value, dict):
            yield path.stem, value


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


# ---- the database


def changed_since(path: Path, since_ms: int) -> Iterator[SessionRead | Skipped]:
    """Yield the sessions that changed at or after an instant of the database's own clock, with their changed messages.

    Raises OSError where the database cannot be read now.
    """
    sql = (
        "SELECT id, directory, title, time_created FROM session"
        " WHERE parent_id IS NULL AND time_updated >= ? ORDER BY time_created, id"
    )
    with ForeignDatabase(path) as database:
        for row in database.rows(sql, since_ms):
            yield from guarded(_session_of_row(database, row, since_ms, path), path)


def latest_change(path: Path, now_ms: int) -> int:
    """Return the instant of the latest change, 0 for none. Raises OSError where the database cannot be read now.

    Values that are no numbers are not counted, nor instants after tomorrow: today's changes would not be read then.
    """
    sql = "SELECT max(time_updated) FROM session WHERE typeof(time_updated) IN ('integer', 'real')"
    with ForeignDatabase(path) as database:
        found = database.rows(f"{sql} AND time_updated <= ?", now_ms + DAY_MS)
    return int(found[0][0] or 0)


def counts(path: Path) -> tuple[int, int]:
    """Return the numbers of sessions and of messages. Raises OSError where the database cannot be read now."""
    with ForeignDatabase(path) as database:
        sql = "SELECT (SELECT count(*) FROM session WHERE parent_id IS NULL), (SELECT count(*) FROM message)"
        found = database.rows(sql)
    return int(found[0][0]), int(found[0][1])


def _session_of_row(
    database: ForeignDatabase, row: Sequence[Any], since_ms: int, path: Path
) -> Iterator[SessionRead | Skipped]:
    given, directory, title, created = row
    head = head_of(str(given), directory, title, created, path)
    sql = (
        "SELECT id, data FROM message WHERE session_id = ? AND time_updated >= ? AND length(data) <= ?"
        " ORDER BY time_created, id"
    )
    listed = database.rows(sql, given, since_ms, LONGEST_BYTES)
    yield from session_of(head, (_message_of_row(database, *row) for row in listed), path)


def _message_of_row(database: ForeignDatabase, message_id: object, data: object) -> OpencodeMessage:
    sql = "SELECT id, data FROM part WHERE message_id = ? AND length(data) <= ? ORDER BY id"
    rows = database.rows(sql, message_id, LONGEST_BYTES)
    return OpencodeMessage(
        str(message_id), json_object(data), [(str(part_id), json_object(text)) for part_id, text in rows]
    )
