"""BM25: the words of a text and the weight of a match, the same for every engine, so that they answer alike.

Identifiers are split whole and in parts, scripts without spaces in pairs.

**Postings in memory.** The rows that the inverted index listed for a word are held for the next question that has it.
Listing a row takes 100 ns and scoring it 30. At a million points a question's words are in 350,000 texts and contexts
together, nearly all of them for words that many questions have. So lists are kept in memory: as bits where a word is in
more than one row of 32, else as row numbers. What was not asked for longest is let go.

A change of some rows is noted by their words, which then stand in for what is held of these rows; after a change of
many, nothing is held. Example: "kayak" is held with rows 3, 7 and 9. Row 7 gets another text, "a canoe", row 12 is
new, "two kayaks": 7 is taken out of the list, 12 is put in. `stems` says that "kayaks" is "kayak".
"""

from __future__ import annotations

import hashlib
import math
import re
import threading
import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..text.words import ALPHANUMERIC, index_stem
from .vectors import Mask, Rows

K1 = 1.5
B = 0.9
CONTEXT_WEIGHT = 0.4
"""Swept on the LoCoMo and BEAM dev sets. A context is a neighbour's words, so it counts for less."""

MEAN_SIZE = 650
"""Characters of text and context of a usual point, for weights that are worked out when it is written: 750 in work of
several people, 470 in a person's notes."""


def idf(count: float, found: float) -> float:
    """Return the rarity of a word that `found` of `count` points have (Robertson, kept above zero as in Lucene)."""
    return math.log(1.0 + (count - found + 0.5) / (found + 0.5))


def weight(frequency: Any, sizes: NDArray[np.int32], mean_size: float) -> NDArray[np.float32]:
    """Return BM25's weight of a word in points of some sizes (characters of text and context together).

    `frequency` says whether a point has the word, not how often: 1 in its text, CONTEXT_WEIGHT more in its context.
    Counting repetitions gave the same on LoCoMo (evidence recall@10 .720) and less on BEAM (any@10 .587, presence
    .637): a text that repeats a word is a list or an essay more often than an answer.
    """
    below: NDArray[np.float32] = sizes.astype(np.float32)
    below *= np.float32(K1 * B / max(mean_size, 1.0))
    below += np.float32(K1 * (1.0 - B))
    below += frequency
    np.divide(frequency * np.float32(K1 + 1.0), below, out=below)
    return below


LONGEST_WORD = 64
"""Characters of a fused identifier; a longer one is a hash or a path that is found by its parts."""

_COMPOUND = re.compile(r"(?<![^\W_])[^\W_]++(?:[-._/\\:@#+~]++[^\W_]++)+")
_LEVEL = re.compile(r"[/\\:@#]+")
_JOINT = re.compile(r"[^\w]+|_+")
_CAMEL = re.compile(r"(?<![^\W_])(?=[^\W_]*?(?:[a-z][A-Z]|[A-Z][A-Z][a-z]))[A-Za-z0-9]++")
_HUMP = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SPACELESS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\U00020000-\U000323af]+"
)
"""Thai, Lao, Burmese, Khmer, kana, Han, Hangul: scripts in which a space does not end a word."""


def spell_out(text: str, *, query: bool = False) -> str:
    """Append the words to a text that a splitter at spaces and marks would miss.

    `foo_bar.py` gains `foobarpy`, `MemoryStore` gains `memory store`, runs of a spaceless script become their pairs
    and (not in a query of two or more) their single characters. Linear in the text.
    """
    if not text.isascii():
        text = _SPACELESS.sub(_pairs if query else _singles_and_pairs, unicodedata.normalize("NFKC", text))
    pieces = text.split()  # most words are plain: the expressions see only those that might not be
    marked = " ".join([piece for piece in pieces if not piece.isalpha()])
    mixed = " ".join([piece for piece in pieces if not piece[1:].islower()])
    extra = [*_fused(marked), *_humps(mixed)]
    return f"{text}\n{' '.join(extra)}" if extra else text


def words(text: str, *, query: bool = False) -> list[str]:
    """Return the stemmed words of a text, in order, as FTS5's `porter unicode61 remove_diacritics 2` would split it."""
    spelled = spell_out(text, query=query)
    if not spelled.isascii():
        spelled = "".join(c for c in unicodedata.normalize("NFKD", spelled) if not unicodedata.combining(c))
    return [index_stem(word) for word in ALPHANUMERIC.findall(spelled.lower())]


@lru_cache(maxsize=2**16)
def number_of(word: str) -> int:
    """Return the number, of 32 bits, by which a server knows a word: two of a million have the same in some runs."""
    return int.from_bytes(hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=4).digest(), "big")


def _fused(text: str) -> Iterator[str]:
    for compound in _COMPOUND.findall(text):
        whole = _JOINT.sub("", compound)
        if len(whole) <= LONGEST_WORD:
            yield whole
        levels = _LEVEL.split(compound)
        if len(levels) > 1:
            for level in levels:
                fused = _JOINT.sub("", level)
                if fused != level and len(fused) <= LONGEST_WORD:
                    yield fused


def _humps(text: str) -> Iterator[str]:
    for word in _CAMEL.findall(text):
        if len(word) <= LONGEST_WORD:
            yield from _HUMP.findall(word)


def _pairs(run: re.Match[str]) -> str:
    letters = run.group()
    if len(letters) == 1:
        return f" {letters} "
    return f" {' '.join(map(''.join, pairwise(letters)))} "


def _singles_and_pairs(run: re.Match[str]) -> str:
    letters = run.group()
    return f" {' '.join(letters)}{_pairs(run) if len(letters) > 1 else ' '}"


# ---- postings in memory

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
