"""What a reader yields: pieces of sessions, notes, and what it had to leave out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ...store.model import GLOBAL_CHANNEL, InvalidInput, Kind, NewTurn, SessionHead


class UnsupportedFile(InvalidInput):
    """Nothing here can be read as a conversation or a note; the hint says what can."""


@dataclass(frozen=True, slots=True)
class SessionRead:
    """A session, or the next piece of one: long sessions come in several, in order, under the same head."""

    head: SessionHead
    turns: tuple[NewTurn, ...]


@dataclass(frozen=True, slots=True)
class NoteRead:
    """One note: a memory in its own right, not a session. `text` names the title if the body does not."""

    title: str
    text: str
    tags: tuple[str, ...] = ()
    created_at: datetime | None = None
    channel: str = GLOBAL_CHANNEL
    kind: Kind = Kind.NOTE


@dataclass(frozen=True, slots=True)
class Skipped:
    """What was not taken: one line of a file, a whole file (no line), or a group of files under a folder (`path`)."""

    path: Path
    line: int | None
    reason: str


Item = SessionRead | NoteRead | Skipped
Reader = Callable[[Path], Iterator[Item]]
