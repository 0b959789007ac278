"""The followed files, read on from the last position: those that grow by lines, databases, and files of one value.

A file of lines is identified by a hash of its part before the position. One that was cut, replaced, rotated or
rewritten has another hash and is read from its start. No turn is learned twice by that, since a turn is identified by
its session and its own id. A reader that begins in the middle first gets the file's first lines, for the session's
head, and the lines before the position, for calls whose results may follow.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from errno import EIO
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from ....store import opened
from ....store.model import ReadUpTo
from ..detect import BY_LINE, LINES, DatabaseFormat, database_named, detect_format, formats
from ..foreign_database import has_tables
from ..items import UNREADABLE, SessionRead, Skipped
from ..json_lines import MAX_LINE_BYTES, LineReading, guarded, json_line, json_lines

STEP_BYTES = 2**20
# A shorter part is hashed as a whole; of a longer one, evenly spaced pieces.
WHOLE_BYTES = 2**19
_PIECES, _PIECE_BYTES = 64, 2**12
_DIGEST_DIGITS = 32
_REWRITTEN = ":rewritten"
_LINES_TRIED = 50
_FIRST_LINES = 20
_BEFORE_BYTES = 2**18

Items = list[SessionRead | Skipped]


class Tail:
    """One followed file. `read_up_to` is the position, which `step` moves and the caller stores.

    `changed_ns` is the file's last change, as of the last step. `is_rewritten`: the file held other content before.
    """

    def __init__(self, path: Path, read: ReadUpTo | None) -> None:
        self.path = path
        self.read_up_to = read or ReadUpTo(0, 0, "")
        self._reading: LineReading | None = None
        self._is_overlong = False
        self.changed_ns = 0
        self.is_rewritten = self.read_up_to.mark.endswith(_REWRITTEN)

    def step(self) -> tuple[Items, bool]:
        """Read on by about a megabyte; return the items, and True if the file goes on. Raises OSError as opening does.

        A last line without a line break is left for later.
        """
        with opened(self.path) as file:
            known = os.fstat(file.fileno())
            size, self.changed_ns = known.st_size, known.st_mtime_ns
            # Shorter than what was read, or with another beginning.
            if not self._is_same(file, size):
                self.is_rewritten = True
                self.read_up_to, self._reading, self._is_overlong = ReadUpTo(0, 0, ""), None, False
            if size <= self.read_up_to.size_bytes:
                self._move(file, self.read_up_to.size_bytes, self.read_up_to.lines)
                return [], False
            reading = self._reading = self._reading or self._begin(file)
            if reading is None:  # not recognised yet, or of no agent
                return [], False
            before = self.read_up_to.size_bytes
            items = [item for line in self._lines(file) for item in _items_of(reading, self.path, line)]
            items += [item for item in reading.rest() if isinstance(item, SessionRead)]
            return items, self.read_up_to.size_bytes - before >= STEP_BYTES

    def _is_same(self, file: BinaryIO, size: int) -> bool:
        read = self.read_up_to
        return size >= read.size_bytes and (
            not read.mark or read.mark.partition(":")[0] == _digest(file, read.size_bytes)
        )

    def _move(self, file: BinaryIO, size: int, lines: int) -> None:
        mark = f"{_digest(file, size)}:{self.changed_ns}{_REWRITTEN if self.is_rewritten else ''}"
        self.read_up_to = ReadUpTo(size, lines, mark if size or self.is_rewritten else "")

    def _begin(self, file: BinaryIO) -> LineReading | None:
        """Make the reader of the file's format, in its state at the position; None if the format is not recognised."""
        first = [line for line in islice(json_lines(self.path), _LINES_TRIED) if not isinstance(line, Skipped)]
        found = (one for one in BY_LINE.values() if any(one.recognises(value) for _, value in first))
        reading = next((one.reading(self.path) for one in found), None)
        if reading is not None and self.read_up_to.lines:
            # The items of these lines are known, and dropped.
            for line in first[:_FIRST_LINES]:
                list(guarded(reading.take(*line), self.path, line[0]))
            for before in self._before(file):
                list(_items_of(reading, self.path, before))
            list(reading.rest())
        return reading

    def _before(self, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
        """Yield the whole lines right before the position, with their numbers."""
        end = self.read_up_to.size_bytes
        start = max(0, end - _BEFORE_BYTES)
        file.seek(start)
        lines = file.read(end - start).splitlines(keepends=True)
        lines = lines if start == 0 else lines[1:]
        return enumerate(lines, start=self.read_up_to.lines - len(lines) + 1)

    def _lines(self, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
        """Yield whole lines with their numbers, then move the position behind them.

        An overlong line is read in pieces, over several steps if need be (`_is_overlong`), and not yielded.
        """
        offset, number = self.read_up_to.size_bytes, self.read_up_to.lines
        until = offset + STEP_BYTES
        file.seek(offset)
        while offset < until:
            line = file.readline(MAX_LINE_BYTES + 1)
            ends = line.endswith(b"\n")
            # Half a line: the program is still writing it.
            if not ends and len(line) <= MAX_LINE_BYTES and not (self._is_overlong and line):
                break
            offset += len(line)
            number += ends
            if ends and not self._is_overlong:
                yield number, line
            self._is_overlong = not ends
        self._move(file, offset, number)


def _items_of(reading: LineReading, path: Path, line: tuple[int, bytes]) -> Iterator[SessionRead | Skipped]:
    read: Any = json_line(path, *line)
    if isinstance(read, Skipped):
        yield read
    elif read is not None:
        yield from guarded(reading.take(*read), path, read[0])


def was_changed(read: ReadUpTo, size_bytes: int, changed_ns: int) -> bool:
    """Return True if a file's size or time differ from those of its last reading, without opening it."""
    at = read.mark.removesuffix(_REWRITTEN).partition(":")[2]
    return read.size_bytes != size_bytes or (at.isdecimal() and len(at) < 20 and int(at) != changed_ns)


def _digest(file: BinaryIO, size: int) -> str:
    """Hash the first `size` bytes: all of them, or, of many, evenly spaced pieces and the end."""
    digest = hashlib.sha256()
    if size <= WHOLE_BYTES:
        digest.update(os.pread(file.fileno(), size, 0))
    else:
        for piece in range(_PIECES + 1):
            # Evenly spaced: an edit anywhere in a long file is likely to change a piece.
            start = (size - _PIECE_BYTES) * piece // _PIECES
            digest.update(os.pread(file.fileno(), _PIECE_BYTES, start))
    return digest.hexdigest()[:_DIGEST_DIGITS]


STEP_TURNS = 500


class Database:
    """One followed database. The size in `read_up_to` is the number of its last change that was read."""

    def __init__(self, path: Path, form: DatabaseFormat, read: ReadUpTo | None) -> None:
        self.path = path
        self.read_up_to = read or ReadUpTo(0, 0, "")
        self.changed_ns = 0
        self.is_rewritten = False
        self._form = form
        self._latest = 0
        self._items: Iterator[SessionRead | Skipped] | None = None

    def step(self) -> tuple[Items, bool]:
        """Read on by some turns; return the items, and True if more follow. Raises OSError if it is missing."""
        if not self.path.is_file():
            raise FileNotFoundError(self.path)
        if self._items is None:
            # Another program's database may have the same name.
            if not has_tables(self.path, self._form.tables):
                return [], False
            self.changed_ns = time.time_ns()
            self._latest = self._form.latest_change(self.path, int(time.time() * 1000))
            since = max(0, self.read_up_to.size_bytes - self._form.overlap)
            self._items = self._form.changed_since(self.path, since)
        items: Items = []
        turns = 0
        for item in self._items:
            items.append(item)
            turns += len(item.turns) if isinstance(item, SessionRead) else 0
            if turns >= STEP_TURNS:
                return items, True
        self._items = None
        if self._latest:
            self.read_up_to = ReadUpTo(self._latest, 0, "")
        return items, False


class WholeFile:
    """One followed file of one value, which its program writes anew. Turns that were read before are left out.

    Such a file is read whole, so that after a restart all of its turns are read once more; the store knows them.
    """

    def __init__(self, path: Path, read: ReadUpTo | None) -> None:
        self.path = path
        self.read_up_to = read or ReadUpTo(0, 0, "")
        self.changed_ns = 0
        self.is_rewritten = True
        self._given: set[tuple[str | None, int]] = set()

    def step(self) -> tuple[Items, bool]:
        """Read the file if it changed; return the items. Raises OSError where it cannot be read, or is half written."""
        with opened(self.path) as file:
            known = os.fstat(file.fileno())
            self.changed_ns = known.st_mtime_ns
            mark = f"{_digest(file, known.st_size)}:{known.st_mtime_ns}"
        if mark == self.read_up_to.mark:
            return [], False
        items = [
            one for one in formats()[detect_format(self.path)](self.path) if isinstance(one, SessionRead | Skipped)
        ]
        if any(isinstance(one, Skipped) and one.reason.startswith(UNREADABLE) for one in items):
            raise OSError(EIO, "not JSON, or half written")
        self.read_up_to = ReadUpTo(known.st_size, 0, mark)
        return [new for one in items if (new := self._new(one)) is not None], False

    def _new(self, item: SessionRead | Skipped) -> SessionRead | Skipped | None:
        if isinstance(item, Skipped):
            return item
        named = {turn: (turn.external_id, hash(turn.text)) for turn in item.turns}
        turns = tuple(turn for turn in item.turns if named[turn] not in self._given)
        self._given.update(named.values())
        return replace(item, turns=turns) if turns else None


def source_of(path: Path, read: ReadUpTo | None) -> Tail | Database | WholeFile:
    """Return a followed file, at its last position."""
    if form := database_named(path):
        return Database(path, form, read)
    return Tail(path, read) if path.suffix.lower() == LINES else WholeFile(path, read)
