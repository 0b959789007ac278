"""The items that a reader yields: batches of sessions, notes, and what it had to leave out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from ....store.model import InvalidInput, Kind, NewTurn, SessionHead


class UnsupportedFile(InvalidInput):
    """Nothing here can be read as a conversation or a note; the hint says what can.

    `kinds` is the plural of what the file is, where that is known.
    """

    def __init__(self, message: str, hint: str = "", kinds: str = "") -> None:
        super().__init__(message, hint)
        self.kinds = kinds


class UnreadableFile(UnsupportedFile):
    """It is not there, or may not be read."""


UNREADABLE = "cannot be read"
"""The beginning of the reason for what a reader failed at."""

Refusal = Literal["", "unreadable", "unsupported"]
"""Why nothing of a named path was taken: it is not there or may not be read; or it is no conversation or note."""


@dataclass(frozen=True, slots=True)
class SessionRead:
    """A session, or the next piece of one: long sessions come in several, in order, under the same head.

    `contents_left_out` counts what ignored files held in these turns. `found_in` is the file where nobody said what is
    in it: it was found by its content, in a folder that was named.
    """

    head: SessionHead
    turns: tuple[NewTurn, ...]
    contents_left_out: int = 0
    found_in: Path | None = None


@dataclass(frozen=True, slots=True)
class NoteRead:
    """One note: a memory in its own right, not a session. `text` names the title if the body does not.

    `channel` and `kind` are what its frontmatter asks for, which only who trusts it follows.
    """

    path: Path
    title: str
    text: str
    tags: tuple[str, ...] = ()
    created_at: datetime | None = None
    channel: str | None = None
    kind: Kind | None = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something left out: one line of a file, a whole file (no line), or a group of files under a folder (`path`).

    `refused` is set where it is all of a path that was named, with the hint that goes with it.
    """

    path: Path
    line: int | None
    reason: str
    refused: Refusal = ""
    hint: str = ""

    @property
    def is_fault(self) -> bool:
        """Say whether something is lost by it; a file without a turn, or of another kind, loses nothing."""
        return self.line is not None or self.reason.startswith(UNREADABLE)


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark for the person on something that was taken. Equal sentences are counted together."""

    path: Path
    text: str


Item = SessionRead | NoteRead | Skipped | Remark
Reader = Callable[[Path], Iterator[Item]]
