"""The signs of vectors in memory, for a coarse scan: the nearest by signs are then compared exactly.

A vector's code has one bit a dimension, set where the number is above 0; the more bits two codes share, the smaller the
angle between the vectors (random hyperplanes, Charikar 2002). The engine ranks the few rows that are left by their
cosines.

Codes are stored column-major: `_codes[w]` holds word w (64 dimensions) of every row. A scan takes a block of rows that
stays in the processor's cache through all words, `popcount(column ^ word of the query)`, and sums: three words in bytes
(at most 192), all of them in 16 bits. Every byte read from memory is read once: 7 ms for a million rows of 384
dimensions (6 columns, 48 MB), 10 without blocks, where vec0's scan took 125.

Example, with words of 4 bits: the query has code 1010 0110, row 0 has 1011 0110, row 1 has 0010 1001.
  word 0: 1011 ^ 1010 = 0001, distance 1; 0010 ^ 1010 = 1000, distance 1; distances [1, 1]
  word 1: 0110 ^ 0110 = 0000, distance 0; 1001 ^ 0110 = 1111, distance 4; distances [1, 5]
Row 0 is the nearest and, with keep=1, returned alone; if row 1 had distance 1 too, both would be, for rescoring.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .interface import Vector
from .vectors import Mask, Rows

BLOCK_ROWS = 32_768
"""256 kB of a column, within the cache of a core; 16,384 took a third longer, 65,536 as long."""

WORDS_A_BYTE = 3
"""Words of 64 bits whose distances add up to no more than a byte holds."""

FEW = 8
"""Where no more than this part of all rows is asked for, their codes are gathered instead of all being scanned."""

SAMPLE_OF, SAMPLED = 16, 4
"""One distance of so many is looked at first, where there are at least so many times `keep` to be looked at."""

OUTSIDE = np.uint16(2**15)
"""Added to the distance of rows that are not asked for."""

Distances = NDArray[np.uint16]


def codes_of(vectors: NDArray[np.float32]) -> NDArray[np.uint64]:
    """Return the signs of vectors, a row each: one bit a dimension, padded to whole 64-bit words."""
    bits = np.packbits(vectors > 0.0, axis=1)
    codes = np.zeros((len(bits), -(-bits.shape[1] // 8)), np.uint64)
    codes.view(np.uint8)[:, : bits.shape[1]] = bits
    return codes


class Signs:
    """The codes of rows. One thread writes; others may scan meanwhile, and see a row as it was or as it is."""

    def __init__(self, dimension: int) -> None:
        self.held = np.zeros(0, bool)
        """A mask of the rows that have a code."""
        self._codes = np.zeros((-(-dimension // 64), 0), np.uint64)

    def grow(self, capacity: int) -> None:
        """Make room for rows below `capacity`; new ones have no code."""
        codes = np.zeros((len(self._codes), capacity), np.uint64)
        codes[:, : self._codes.shape[1]] = self._codes
        held = np.zeros(capacity, bool)
        held[: len(self.held)] = self.held
        self._codes, self.held = codes, held

    def put(self, rows: Rows, vectors: NDArray[np.float32]) -> None:
        """Set the codes of rows by their vectors."""
        self._codes[:, rows] = codes_of(vectors).T
        self.held[rows] = True

    def remove(self, rows: Rows) -> None:
        """Forget the codes of rows."""
        self.held[rows] = False

    def arrays(self, rows: int) -> dict[str, NDArray[Any]]:
        """Return what is held of the rows below a number, by name: a mask, and each word."""
        return {"held": self.held[:rows], **{f"word {n}": word[:rows] for n, word in enumerate(self._codes)}}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Hold what `arrays` returned."""
        self.held = arrays["held"]
        self._codes = np.empty((len(self._codes), len(self.held)), np.uint64)
        for number in range(len(self._codes)):
            self._codes[number] = arrays[f"word {number}"]

    def nearest(self, vector: Vector, keep: int, mask: Mask, count: int) -> Rows:
        """Return the rows of a mask, of `count` rows, whose signs differ least from a vector's, at least `keep`.

        Rows as near as the last one are returned too, up to four times `keep`: only their vectors can rank them. Every
        row of the mask has a code. The module's docstring has the method and an example.
        """
        words = codes_of(vector[np.newaxis])[0]
        if count <= keep:
            return np.flatnonzero(mask)
        if FEW * count <= len(mask):
            rows = np.flatnonzero(mask)
            distances = _distances(self._codes[:, rows], words)
            return rows[_least(distances, keep)]
        return _least(_distances(self._codes[:, : len(mask)], words, mask), keep)


def _distances(codes: NDArray[np.uint64], words: NDArray[np.uint64], mask: Mask | None = None) -> Distances:
    """Return how many bits of each row differ from the words; OUTSIDE and more for rows that are not in the mask."""
    count = codes.shape[1]
    distances = np.zeros(count, np.uint16)
    differing, bits, total = (np.empty(min(BLOCK_ROWS, count), kind) for kind in (np.uint64, np.uint8, np.uint8))
    for start in range(0, count, BLOCK_ROWS):
        block = distances[start : start + BLOCK_ROWS]
        size = len(block)
        if mask is not None:
            np.multiply(~mask[start : start + size], OUTSIDE, out=block)
        for word in range(len(words)):
            np.bitwise_xor(codes[word, start : start + size], words[word], out=differing[:size])
            if word % WORDS_A_BYTE == 0:
                np.bitwise_count(differing[:size], out=total[:size])
            else:
                np.bitwise_count(differing[:size], out=bits[:size])
                np.add(total[:size], bits[:size], out=total[:size])
            if word % WORDS_A_BYTE == WORDS_A_BYTE - 1 or word == len(words) - 1:
                np.add(block, total[:size], out=block)
    return distances


def _least(distances: Distances, keep: int) -> Rows:
    """Return the places of the `keep` least distances, and of those that tie with the last, up to four times `keep`.

    Of many, a sample says how near the last of them is about; only those as near as that are sorted.
    """
    near = None
    if len(distances) > SAMPLED * SAMPLE_OF * (keep + 8):
        sample = distances[::SAMPLE_OF]
        place = 2 * keep // SAMPLE_OF + 8
        near = np.flatnonzero(distances <= np.partition(sample, place)[place])
    if near is None or len(near) < keep:
        near = np.arange(len(distances))
    distances = distances[near]
    last = np.partition(distances, keep - 1)[keep - 1]
    inside = near[distances < last]
    ties = near[distances == last][: 4 * keep - len(inside)]
    return np.concatenate([inside, ties])
