"""The followed files, read from where the last reading ended: those that grow by lines, and opencode's database.

A file of lines is known again by the hash of what was read: one that was cut, replaced, rotated or written anew in its
place is another file, and read from its start. Nothing is learned twice by that, since a turn is known by its session
and its own id. A reader that begins in the middle is first given the file's first lines, for the session's head, and
those before the place, for the calls whose results may follow.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from ....store import opened
from ....store.model import ReadUpTo
from ..formats import claude_code, codex, gemini, opencode
from ..items import SessionRead, Skipped
from ..json_lines import MAX_LINE_BYTES, LineReading, guarded, json_line, json_lines

READINGS: Mapping[str, tuple[Callable[[object], bool], Callable[[Path], LineReading]]] = {
    "claude-code": (claude_code.recognises, claude_code.ClaudeCodeReading),
    "codex": (codex.recognises, codex.CodexReading),
    "gemini": (gemini.recognises, gemini.GeminiReading),
}
STEP_BYTES = 2**20
WHOLE_BYTES = 2**19
"""As much of what was read is looked at as a whole when it is known again; of more, pieces all over it."""
_PIECES, _PIECE_BYTES = 64, 2**12
_DIGEST_DIGITS = 32
_REWRITTEN = ":rewritten"
_LINES_TRIED = 50
_FIRST_LINES = 20
_BEFORE_BYTES = 2**18

Items = list[SessionRead | Skipped]


class Tail:
    """One followed file. `read_up_to` is where the next step begins; it is moved by `step` and kept by its caller.

    `changed_ns` is when it was changed last, as of the last step; `is_rewritten`: other content was read there before.
    """

    def __init__(self, path: Path, read: ReadUpTo | None) -> None:
        self.path = path
        self.read_up_to = read or ReadUpTo(0, 0, "")
        self._reading: LineReading | None = None
        self._is_overlong = False
        self.changed_ns = 0
        self.is_rewritten = self.read_up_to.mark.endswith(_REWRITTEN)

    def step(self) -> tuple[Items, bool]:
        """Read about a megabyte on; return what was read, and whether more is there. Raises OSError as opening does.

        A last line without its end is left for later.
        """
        with opened(self.path) as file:
            known = os.fstat(file.fileno())
            size, self.changed_ns = known.st_size, known.st_mtime_ns
            if not self._is_same(file, size):
                self.is_rewritten = True
                self.read_up_to, self._reading, self._is_overlong = ReadUpTo(0, 0, ""), None, False
            if size <= self.read_up_to.size_bytes:
                self._move(file, self.read_up_to.size_bytes, self.read_up_to.lines)
                return [], False
            reading = self._reading = self._reading or self._begin(file)
            if reading is None:  # not known yet for what it is, or of no agent
                return [], False
            before = self.read_up_to.size_bytes
            items = [item for line in self._lines(file) for item in _taken(reading, self.path, line)]
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
        """Make the reader of the file's format, and bring it to the place; None where no agent's lines are seen."""
        first = [line for line in islice(json_lines(self.path), _LINES_TRIED) if not isinstance(line, Skipped)]
        found = (make for recognises, make in READINGS.values() if any(recognises(value) for _, value in first))
        reading = next((make(self.path) for make in found), None)
        if reading is not None and self.read_up_to.lines:
            for line in first[:_FIRST_LINES]:
                list(guarded(reading.take(*line), self.path, line[0]))
            for before in self._before(file):
                list(_taken(reading, self.path, before))
            list(reading.rest())
        return reading

    def _before(self, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
        """Yield the whole lines right before the place, with their numbers."""
        end = self.read_up_to.size_bytes
        start = max(0, end - _BEFORE_BYTES)
        file.seek(start)
        lines = file.read(end - start).splitlines(keepends=True)
        lines = lines if start == 0 else lines[1:]
        return enumerate(lines, start=self.read_up_to.lines - len(lines) + 1)

    def _lines(self, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
        """Yield whole lines, and move on past each."""
        offset, number = self.read_up_to.size_bytes, self.read_up_to.lines
        until = offset + STEP_BYTES
        file.seek(offset)
        while offset < until:
            line = file.readline(MAX_LINE_BYTES + 1)
            ends = line.endswith(b"\n")
            if not ends and len(line) <= MAX_LINE_BYTES and not (self._is_overlong and line):
                break
            offset += len(line)
            number += ends
            if ends and not self._is_overlong:
                yield number, line
            self._is_overlong = not ends
        self._move(file, offset, number)


def _taken(reading: LineReading, path: Path, line: tuple[int, bytes]) -> Iterator[SessionRead | Skipped]:
    read: Any = json_line(path, *line)
    if isinstance(read, Skipped):
        yield read
    elif read is not None:
        yield from guarded(reading.take(*read), path, read[0])


def was_changed(read: ReadUpTo, size_bytes: int, changed_ns: int) -> bool:
    """Say whether a file differs from what is known of it, without opening it."""
    at = read.mark.removesuffix(_REWRITTEN).partition(":")[2]
    return read.size_bytes != size_bytes or (at.isdecimal() and len(at) < 20 and int(at) != changed_ns)


def _digest(file: BinaryIO, size: int) -> str:
    """Hash the first `size` bytes: all of them, or of many the end, and pieces that lie evenly before it."""
    held = hashlib.sha256()
    if size <= WHOLE_BYTES:
        held.update(os.pread(file.fileno(), size, 0))
    else:
        for piece in range(_PIECES + 1):
            start = (size - _PIECE_BYTES) * piece // _PIECES
            held.update(os.pread(file.fileno(), _PIECE_BYTES, start))
    return held.hexdigest()[:_DIGEST_DIGITS]


STEP_TURNS = 500
# A message is finished a while after it was begun, and its session is marked at both.
OVERLAP_MS = 10 * 60 * 1000


class Database:
    """One followed database. Of `read_up_to` the size is an instant: of the latest change that was read."""

    def __init__(self, path: Path, read: ReadUpTo | None) -> None:
        self.path = path
        self.read_up_to = read or ReadUpTo(0, 0, "")
        self.changed_ns = 0
        self.is_rewritten = False
        self._latest_ms = 0
        self._items: Iterator[SessionRead | Skipped] | None = None

    def step(self) -> tuple[Items, bool]:
        """Read some turns on; return what was read, and whether more is there. Raises OSError where it is away."""
        if not self.path.is_file():
            raise FileNotFoundError(self.path)
        if self._items is None:
            self.changed_ns = time.time_ns()
            self._latest_ms = opencode.latest_change_ms(self.path, int(time.time() * 1000))
            self._items = opencode.changed_since(self.path, max(0, self.read_up_to.size_bytes - OVERLAP_MS))
        items: Items = []
        turns = 0
        for item in self._items:
            items.append(item)
            turns += len(item.turns) if isinstance(item, SessionRead) else 0
            if turns >= STEP_TURNS:
                return items, True
        self._items = None
        if self._latest_ms:
            self.read_up_to = ReadUpTo(self._latest_ms, 0, "")
        return items, False
