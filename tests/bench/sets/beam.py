"""BEAM's chats (Tavakoli et al. 2025): `N/chat.json`, batches of turns between a person and an assistant.

A chat is a channel, named by its folder; a batch is a session; a turn's external id is its number. A time anchor
holds for its turn and those after it in the batch, which are set half a minute apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from dreamd.daemon.importing.items import SessionRead, Skipped
from dreamd.daemon.importing.json_lines import guarded, json_document
from dreamd.daemon.importing.sanitize import tidy
from dreamd.store import session_id
from dreamd.store.model import NewTurn, SessionHead
from dreamd.store.names import as_channel

from .dates import anchor_instant

_BETWEEN_TURNS = timedelta(seconds=30)
_MARK = "->->"
_LONGEST_MARK = 20  # " ->-> 12,34", " ->-> 8,N/A" and the like, left by what generated the chats


def recognises(document: object) -> bool:
    """Say whether a file's value is a chat."""
    return isinstance(document, list) and any(_is_batch(batch) for batch in document)


def read(path: Path) -> Iterator[SessionRead | Skipped]:
    """Yield every batch of one chat, as a session."""
    try:
        document = json_document(path)
    except ValueError as error:
        yield Skipped(path, None, str(error))
        return
    if not recognises(document):
        yield Skipped(path, None, "no BEAM chat in it")
        return
    channel = as_channel(f"beam-{path.resolve().parent.name.removeprefix('beam-')}")
    for position, batch in enumerate(document, start=1):
        if _is_batch(batch):
            yield from guarded(_batch(path, channel, batch, batch.get("batch_number") or position), path)
        else:
            yield Skipped(path, None, f"batch {position}: no turns")


def _is_batch(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("turns"), list)


def _batch(path: Path, channel: str, batch: dict[str, Any], number: object) -> Iterator[SessionRead | Skipped]:
    at = anchor_instant(batch.get("time_anchor"))
    turns: list[NewTurn] = []
    for position, entry in enumerate(_flat(batch["turns"]), start=1):
        at = _next_instant(at, anchor_instant(entry.get("time_anchor") if isinstance(entry, dict) else None))
        turn = _turn(entry, at)
        if turn is None:
            yield Skipped(path, None, f"batch {number}, turn {position}: no role, id or content")
        else:
            turns.append(turn)
    if turns:
        head = SessionHead(
            session_id=session_id(f"{channel}-batch-{number}"),
            channel=channel,
            title=f"{channel}, batch {number}",
            started_at=next((turn.at for turn in turns if turn.at), None),
        )
        yield SessionRead(head, tuple(turns))


def _flat(entries: list[Any]) -> Iterator[Any]:
    """Yield the turns of groups: a question, its answer and what followed."""
    for entry in entries:
        if isinstance(entry, list):
            yield from entry
        else:
            yield entry


def _next_instant(last: datetime | None, anchor: datetime | None) -> datetime | None:
    """Return the anchor where there is a new one; after the last turn where it repeats, or where there is none."""
    if anchor is not None and (last is None or anchor.date() != last.date()):
        return anchor
    return last + _BETWEEN_TURNS if last else None


def _turn(entry: object, at: datetime | None) -> NewTurn | None:
    match entry:
        case {"role": str(role), "id": int() | str() as number, "content": str(content)} if text := _said(content):
            return NewTurn(role, text, at, str(number))
        case _:
            return None


def _said(content: str) -> str:
    mark = content.rfind(_MARK)
    return tidy(content[:mark] if mark >= 0 and len(content) - mark <= _LONGEST_MARK else content)
