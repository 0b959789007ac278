"""opencode's sessions: its database (`opencode.db`), or the JSON files of before (`storage/session/…/ses_*.json`).

A message is a turn once it is finished: an assistant's when it has ended or another follows it. What a tool answered
is a turn of its own. Left out: what plugins and the program added (`synthetic`), thinking, summaries of what was said
before, sub-agents' sessions, and what came from our own memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ....store import beginning
from ..reading.items import SessionRead, Skipped
from ..reading.json_lines import json_document
from . import opencode_db
from .opencode_messages import Message, head_of, session_of

PIECE = "a piece of an opencode session, which is read with its session"
SUB_AGENT = "a sub-agent's own conversation"


def recognises(document: object) -> bool:
    """Say whether a file's value is a session of the JSON storage."""
    return _is_piece(document, "ses_") and isinstance(document, dict) and "projectID" in document


def is_piece(document: object) -> bool:
    """Say whether a file's value is a message or a part, which its session's file brings along."""
    return (
        (_is_piece(document, "msg_") or _is_piece(document, "prt_"))
        and isinstance(document, dict)
        and ("sessionID" in document)
    )


def read(path: Path) -> Iterator[SessionRead | Skipped]:
    """Yield every session of a database, or that of a file of the JSON storage; its messages lie in folders beside."""
    if beginning(path, len(opencode_db.HEADER)) == opencode_db.HEADER:
        yield from opencode_db.read(path)
        return
    try:
        session = json_document(path)
    except ValueError as error:
        yield Skipped(path, None, str(error))
        return
    if not recognises(session):
        piece = is_piece(session)
        yield Skipped(path, None, PIECE if piece else "no session of opencode: no id and project")
        return
    if session.get("parentID"):
        yield Skipped(path, None, SUB_AGENT)
        return
    storage = path.parents[2] if len(path.parents) > 2 else path.parent
    head = head_of(session["id"], session.get("directory"), session.get("title"), _created(session), path)
    yield from session_of(head, _messages(storage, session["id"]), path)


def _messages(storage: Path, session: str) -> Iterator[Message]:
    found = []
    for message_id, data in _pieces(storage / "message" / session):
        found.append(Message(message_id, data, list(_pieces(storage / "part" / message_id))))
    yield from sorted(found, key=lambda message: (_number(_created(message.data)), message.message_id))


def _pieces(folder: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the objects of a folder in the order of their ids, which is the order in which they were made."""
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".json" and not path.is_symlink())
    except OSError:
        return
    for path in paths:
        try:
            value = json_document(path)
        except (OSError, ValueError):
            continue  # half written, or gone: a session is read again
        if isinstance(value, dict):
            yield path.stem, value


def _is_piece(value: object, prefix: str) -> bool:
    return isinstance(value, dict) and isinstance(value.get("id"), str) and value["id"].startswith(prefix)


def _created(value: Mapping[str, Any]) -> object:
    time = value.get("time")
    return time.get("created") if isinstance(time, dict) else None


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
