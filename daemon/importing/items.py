"""The items that a reader yields: batches of sessions, notes, skipped parts and remarks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from ...store.model import InvalidInput, Kind, NewTurn, SessionHead


class UnsupportedFile(InvalidInput):
    """A file that is no conversation and no note; the hint names the supported formats.

    `kinds` is the plural of the file's format, where that is known.
    """

    def __init__(self, message: str, hint: str = "", kinds: str = "") -> None:
        super().__init__(message, hint)
        self.kinds = kinds


class UnreadableFile(UnsupportedFile):
    """A file that is missing, or may not be read."""


# First words of the reason for a part on which a reader failed.
UNREADABLE = "cannot be read"

NO_TURN = "no turn in it"
SUB_AGENT = "a sub-agent's own conversation"

# Why nothing of a named path was imported: missing or not allowed; or neither a conversation nor a note.
Refusal = Literal["", "unreadable", "unsupported"]


@dataclass(frozen=True, slots=True)
class SessionRead:
    """A session, or the next piece of one: long sessions come in several, in order, with the same head.

    `contents_left_out` counts the contents of ignored files in these turns. `found_in` is the file of a session whose
    format was detected by its content in a named folder: nobody has said what it is.
    """

    head: SessionHead
    turns: tuple[NewTurn, ...]
    contents_left_out: int = 0
    found_in: Path | None = None


@dataclass(frozen=True, slots=True)
class NoteRead:
    """One note: a memory in its own right, not a session. `text` holds the title if the body does not.

    `channel` and `kind` are those of its frontmatter, which are followed only if the importer trusts it.
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
    """A part that was left out: one line of a file, a whole file (no line), or a group of files in a folder (`path`).

    `refused` is set, with its hint, where a path that the person named was left out as a whole.
    """

    path: Path
    line: int | None
    reason: str
    refused: Refusal = ""
    hint: str = ""

    @property
    def is_fault(self) -> bool:
        """Return True if content is lost by it; a file without a turn, or of another kind, loses none."""
        return self.line is not None or self.reason.startswith(UNREADABLE)


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark for the person on an item that was imported. Equal sentences are counted together."""

    path: Path
    text: str


Item = SessionRead | NoteRead | Skipped | Remark
Reader = Callable[[Path], Iterator[Item]]
