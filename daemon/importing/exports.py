"""The exports of chat programs: one list of conversations, in a file or in the archive that was sent."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from ...store import opened
from .items import Skipped
from .json_lines import parse

NAME = "conversations.json"
ARCHIVE = b"PK\x03\x04"
SNIFFED_BYTES = 2**16
# Unpacked: years of chats, of which one is in memory at a time.
MAX_EXPORT_BYTES = 512 * 2**20
# The longest part of the list in memory at a time; `parse` bounds its parsed values.
MAX_CONVERSATION_BYTES = 32 * 2**20

TOO_LONG = f"a conversation longer than {MAX_CONVERSATION_BYTES // 2**20} MiB"
_PIECE_BYTES = 2**16
# The compressions that are unpacked piece by piece: in others a few bytes may become gigabytes at once.
_PACKINGS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})

_TEXT = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_FLAT = rb'(?:[^"\[\]{}]++|' + _TEXT + rb")*+"
_STRING = re.compile(_TEXT, re.DOTALL)
# A part of a value that is skipped at once: texts, numbers, and objects and arrays of only these.
# Linear, since every quantifier is possessive.
_RUN = re.compile(rb'(?:[^"\[\]{}]++|' + _TEXT + rb"|\{" + _FLAT + rb"\}|\[" + _FLAT + rb"\])*+", re.DOTALL)

_IN_STRING = re.compile(rb'["\\]')
_MARK = re.compile(rb'["\[\]{},]')


def conversations(path: Path) -> Iterator[Any | Skipped]:
    """Yield every conversation of an export, one in memory at a time; unreadable ones come as Skipped."""
    try:
        for number, content in enumerate(_Values(_pieces(path)).each(), start=1):
            try:
                yield (parse(content) if content is not None else Skipped(path, None, f"{TOO_LONG} (number {number})"))
            except ValueError as error:
                yield Skipped(path, None, f"conversation {number}: {error}")
    except ValueError as error:
        yield Skipped(path, None, str(error))


def kind_of(path: Path) -> str | None:
    """Return the format of an export, by the keys near its beginning; None for other files."""
    try:
        head = b"".join(islice(_pieces(path), SNIFFED_BYTES // _PIECE_BYTES))
    except ValueError:
        return None
    if head.lstrip().startswith(b"["):
        if b'"mapping"' in head and b'"title"' in head:
            return "chatgpt"
        if b'"chat_messages"' in head:
            return "claude-ai"
    return None


class _Values:
    """The values of a JSON list, or a single other value, cut out of a stream of bytes without parsing them.

    Only depth and strings are tracked. Values are separated at commas of depth 1; a string may be cut by the end of a
    piece, even behind its backslash (`_skips_one`).
    """

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._depth = 0
        self._outer = 1
        self._in_string = self._skips_one = self._ends = False
        self._kept: bytearray | None = bytearray()

    def each(self) -> Iterator[bytes | None]:
        """Yield the bytes of every value; None for one that is too long. Raises ValueError for an unclosed list."""
        is_first = True
        for piece in self._pieces:
            # The first piece decides: a list is cut at its commas, another value is handed on as a whole.
            piece = piece.removeprefix(b"\xef\xbb\xbf").lstrip() if is_first else piece
            if is_first and piece:
                is_first, self._outer = False, int(piece.startswith(b"["))
            yield from self._in(piece)
        if not self._outer:
            yield from self._value()
        elif not is_first and not self._ends:
            raise ValueError("not JSON: the list has no end")

    def _in(self, piece: bytes) -> Iterator[bytes | None]:
        at = start = 0
        while at < len(piece) and not self._ends:
            if self._in_string:
                at = self._through_string(piece, at)
                continue
            if self._depth > self._outer:
                run = _RUN.match(piece, at)
                at = run.end() if run else at
            found = _MARK.search(piece, at)
            if found is None:
                break
            mark, at = found[0], found.end()
            if mark == b'"':
                # A string that ends in this piece is skipped at once; a longer one is followed into the next pieces.
                whole = _STRING.match(piece, found.start())
                self._in_string = whole is None
                at = whole.end() if whole else at
            elif mark in b"[{":
                self._depth += 1
                # The list's own bracket belongs to no value.
                start = at if self._depth == self._outer else start
            else:
                self._depth -= mark != b","
                self._ends = self._outer == 1 and self._depth == 0
                if self._ends or (mark == b"," and self._depth == self._outer == 1):
                    self._keep(piece[start : at - 1])
                    yield from self._value()
                    start = at
        if not self._ends:
            self._keep(piece[start:])

    def _through_string(self, piece: bytes, at: int) -> int:
        if self._skips_one:
            self._skips_one = False
            return at + 1
        found = _IN_STRING.search(piece, at)
        if found is None:
            return len(piece)
        self._in_string, self._skips_one = found[0] != b'"', found[0] != b'"'
        return found.end()

    def _keep(self, part: bytes) -> None:
        if self._kept is not None:
            self._kept += part
            # Its end is still looked for, so that the next conversation is found.
            if len(self._kept) > MAX_CONVERSATION_BYTES:
                self._kept = None

    def _value(self) -> Iterator[bytes | None]:
        kept, self._kept = self._kept, bytearray()
        if kept is None or kept.strip():
            yield None if kept is None else bytes(kept)


def _pieces(path: Path) -> Iterator[bytes]:
    """Yield the list's bytes, unpacked. Raises ValueError, with a reason for a person, also when it is too long."""
    with opened(path) as file:
        is_archive = file.read(len(ARCHIVE)) == ARCHIVE
        file.seek(0)
        read = 0
        for piece in _unpacked(file) if is_archive else iter(lambda: file.read(_PIECE_BYTES), b""):
            yield piece
            read += len(piece)
            if read > MAX_EXPORT_BYTES:
                raise ValueError(f"longer than {MAX_EXPORT_BYTES // 2**20} MiB")


def _unpacked(file: BinaryIO) -> Iterator[bytes]:
    try:
        with zipfile.ZipFile(file) as archive:
            found = next((one for one in archive.infolist() if one.filename.rpartition("/")[2] == NAME), None)
            if found is None:
                raise ValueError(f"an archive without {NAME}")
            # Checked before the first byte is unpacked.
            if found.compress_type not in _PACKINGS:
                raise ValueError("an archive that is packed in a way that is not known")
            with archive.open(found) as member:
                yield from iter(lambda: member.read(_PIECE_BYTES), b"")
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise ValueError(f"an archive that cannot be read: {type(error).__name__}") from error
