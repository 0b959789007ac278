"""The search for traces of what was purged, in every byte that is kept: also in what is compressed."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from ..regular_files import opened
from ..text.words import ALPHANUMERIC

READ_BYTES: Final = 2**17
OVERLAP_BYTES: Final = 2**10
"""The bytes that are read at once, and those of them that are read again with the next: no word is longer."""

LARGEST_BYTES: Final = 2**35
"""A sparse file of a vault may be endless; no database of ours is so large."""

SHORTEST_IN_BINARY: Final = 6
"""The length of a word that counts as a trace among other bytes: vectors spell shorter ones by chance."""

_ZLIB: Final = b"\x78\x01"
"""The beginning of what zlib compressed at level 1, as all images are."""

_FED_BYTES: Final = 512
_TEXT_ENDINGS: Final = frozenset({".md", ".html", ".json", ".log", ".txt"})


@dataclass(frozen=True, slots=True)
class Trace:
    """A file in which traces were found, and how many of its pieces and words they are."""

    path: Path
    times: int


class Search:
    """Looks through files for traces; `rest` is called between two pieces of one, and may raise to end it.

    `missed` names what could not be read, or not to its end.
    """

    def __init__(self, is_trace: Callable[[str], bool], rest: Callable[[], None]) -> None:
        self._is_trace = is_trace
        self._rest = rest
        self.missed: list[Path] = []

    def through(self, files: Iterable[Path]) -> list[Trace]:
        """Return the files that hold traces."""
        found = []
        for path in files:
            times = 0
            for data in self._pieces(path):
                times += _times(data, self._is_trace, is_text=path.suffix in _TEXT_ENDINGS)
                self._rest()
            if times:
                found.append(Trace(path, times))
        return found

    def _pieces(self, path: Path) -> Iterator[bytes]:
        try:
            with opened(path) as file:
                yield from pieces_of(file)
                if file.read(1):
                    self.missed.append(path)
        except FileNotFoundError:
            return
        except OSError:  # it cannot be read, or a pipe or a link took its place
            self.missed.append(path)


def pieces_of(file: BinaryIO) -> Iterator[bytes]:
    """Yield what a file holds, up to LARGEST_BYTES, in pieces that overlap."""
    before = b""
    while (data := file.read(READ_BYTES)) and file.tell() <= LARGEST_BYTES:
        yield before + data
        before = data[-OVERLAP_BYTES:]


def _times(data: bytes, is_trace: Callable[[str], bool], *, is_text: bool) -> int:
    words = _words(data)
    if not is_text:
        words = _after_a_byte(words) | _words(b" ".join(_unpacked(data)))
    return sum(map(is_trace, words))


def _words(data: bytes) -> set[str]:
    return set(ALPHANUMERIC.findall(data.decode("utf-8", "replace").casefold()))


def _after_a_byte(words: set[str]) -> set[str]:
    """Return the words of a database's bytes, also as they are without a byte or two that only look like letters."""
    long = {word for word in words if len(word) >= SHORTEST_IN_BINARY or not word.isascii()}
    return long | {word[lead:] for word in long for lead in (1, 2) if len(word) - lead >= SHORTEST_IN_BINARY}


def _unpacked(data: bytes) -> Iterator[bytes]:
    start = data.find(_ZLIB)
    while start >= 0:
        yield unpacked_from(data, start)
        start = data.find(_ZLIB, start + 1)


def unpacked_from(data: bytes, start: int) -> bytes:
    """Return what zlib compressed from here on, as far as it goes: a page of a database may end in its midst."""
    unpacking = zlib.decompressobj()
    parts = []
    try:
        for position in range(start, len(data), _FED_BYTES):
            parts.append(unpacking.decompress(data[position : position + _FED_BYTES]))
            if unpacking.eof:
                break
    except zlib.error:
        pass
    return b"".join(parts)
