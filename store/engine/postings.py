"""Postings in memory: the rows that the inverted index listed for a word, for the next question that has it.

Listing a row takes 100 ns and scoring it 30. At a million points a question's words are in 350,000 texts and contexts
together, nearly all of them for words that many questions have. So lists are kept in memory: as bits where a word is in
more than one row of 32, else as row numbers. What was not asked for longest is let go.

A change of some rows is noted by their words, which then stand in for what is held of these rows; after a change of
many, nothing is held. Example: "kayak" is held with rows 3, 7 and 9. Row 7 gets another text, "a canoe", row 12 is
new, "two kayaks": 7 is taken out of the list, 12 is put in. `stems` says that "kayaks" is "kayak".
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .vectors import Mask, Rows

HELD_BYTES = 64 * 2**20
"""At a million points the words of some 300 questions; at 100,000 those of all that are ever asked."""

ENTRY_BYTES = 500
"""A word's own, beside its rows: a rare one is held too, since looking it up takes .05 ms."""

CHANGED_AT_MOST = 256
"""Rows whose change is noted: their words are read, .05 ms a row."""


class Word(NamedTuple):
    """A stem, and whether contexts are searched for it."""

    stem: str
    in_contexts: bool


class Listed(NamedTuple):
    """The rows that have a word in their text and in their context, each once."""

    in_text: Rows
    in_context: Rows

    def within(self, mask: Mask) -> Listed:
        """Return the rows of a mask."""
        return Listed(_within(self.in_text, mask), _within(self.in_context, mask))


class Stems(NamedTuple):
    """The stems of a row's text and of its context."""

    text: frozenset[str]
    context: frozenset[str]


GONE = Stems(frozenset(), frozenset())
"""The stems of a row that is gone."""


class Postings:
    """The held lists of the words of one collection. Any thread may read; the owner says when it may be written."""

    def __init__(self, size_bytes: int = HELD_BYTES) -> None:
        self.is_prepared = False
        """True once the words that are often said were listed, which takes seconds at a million points: they are not
        listed again after a change of many rows, but when a question asks for them."""
        self._size_bytes = size_bytes
        self._used_bytes = 0
        self._held: dict[Word, tuple[_Packed, _Packed]] = {}  # the one asked for last is last
        self._changed: dict[int, Stems] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return the number of words."""
        return len(self._held)

    def __contains__(self, word: object) -> bool:
        """Return True if a word is held."""
        return word in self._held

    def get(self, word: Word, mask: Mask) -> Listed | None:
        """Return the rows of a mask that have a word now, None if it is not held."""
        with self._lock:
            packed = self._held.pop(word, None)
            if packed is None:
                return None
            self._held[word] = packed
            changed = dict(self._changed)
        in_text, in_context = (one.rows(mask) for one in packed)
        if changed:
            gone = np.array(sorted(changed), np.int64)
            in_text = _exchanged(in_text, gone, [row for row, stems in changed.items() if word.stem in stems.text])
            if word.in_contexts:
                new = [row for row, stems in changed.items() if word.stem in stems.context]
                in_context = _exchanged(in_context, gone, new)
            return Listed(in_text, in_context).within(mask)
        return Listed(in_text, in_context)

    def hold(self, word: Word, listed: Listed) -> None:
        """Hold a word's rows, as they are now and in ascending order."""
        packed = _packed(listed.in_text), _packed(listed.in_context)
        with self._lock:
            if word in self._held:
                return
            self._held[word] = packed
            self._used_bytes += _size(packed)
            while self._used_bytes > self._size_bytes:
                self._used_bytes -= _size(self._held.pop(next(iter(self._held))))

    def change(self, words: Mapping[int, Stems]) -> None:
        """Note the words of rows that changed; GONE for a row that is gone."""
        with self._lock:
            self._changed |= words
            if len(self._changed) <= CHANGED_AT_MOST:
                return
        self.clear()

    def clear(self) -> None:
        """Hold nothing."""
        with self._lock:
            self._held, self._changed, self._used_bytes = {}, {}, 0


class _Packed(NamedTuple):
    """Rows as numbers, or as a bit for each row below a number."""

    numbers: NDArray[np.uint32] | None
    bits: NDArray[np.uint8] | None

    def rows(self, mask: Mask) -> Rows:
        if self.bits is not None:
            bits = np.unpackbits(self.bits)[: len(mask)].view(bool)
            return np.flatnonzero(np.logical_and(bits, mask[: len(bits)], out=bits))
        return np.zeros(0, np.int64) if self.numbers is None else _within(self.numbers.astype(np.int64), mask)


def _within(rows: Rows, mask: Mask) -> Rows:
    if len(rows) and rows.max() >= len(mask):
        rows = rows[rows < len(mask)]
    return rows[mask[rows]]


def _packed(rows: Rows) -> _Packed:
    if not len(rows):
        return _Packed(None, None)
    if 32 * len(rows) < rows[-1]:
        return _Packed(rows.astype(np.uint32), None)
    mask = np.zeros(rows[-1] + 1, bool)
    mask[rows] = True
    return _Packed(None, np.packbits(mask))


def _size(packed: tuple[_Packed, _Packed]) -> int:
    return ENTRY_BYTES + sum(array.nbytes for one in packed for array in one if array is not None)


def _exchanged(rows: Rows, gone: Rows, new: list[int]) -> Rows:
    """Return rows, which ascend, without those that are gone and with those that are new, which do not."""
    places = np.searchsorted(rows, gone)
    places = places[places < len(rows)]
    rows = np.delete(rows, places[np.isin(rows[places], gone)])
    return np.concatenate([rows, np.array(new, np.int64)]) if new else rows
