"""Vectors in memory: their signs for a coarse scan, and a byte a number to rank the rows that the scan leaves.

**Signs.** A vector's code has one bit a dimension, set where the number is above 0; the more bits two codes share, the
smaller the angle between the vectors (random hyperplanes, Charikar 2002).

Codes are stored column-major: `_codes[w]` holds word w (64 dimensions) of every row. A scan takes a block of rows that
stays in the processor's cache through all words, `popcount(column ^ word of the query)`, and sums: three words in bytes
(at most 192), all of them in 16 bits. Every byte read from memory is read once: 7 ms for a million rows of 384
dimensions (6 columns, 48 MB), 10 without blocks, where vec0's scan took 125.

Example, with words of 4 bits: the query has code 1010 0110, row 0 has 1011 0110, row 1 has 0010 1001.
  word 0: 1011 ^ 1010 = 0001, distance 1; 0010 ^ 1010 = 1000, distance 1; distances [1, 1]
  word 1: 0110 ^ 0110 = 0000, distance 0; 1001 ^ 0110 = 1111, distance 4; distances [1, 5]
Row 0 is the nearest and, with keep=1, returned alone; if row 1 had distance 1 too, both would be, for rescoring.

**Numbers.** A number is kept as a whole one from -127 to 127, in parts of its vector's largest. So each vector uses
the whole range, whatever the model: with one scale for all, the few large numbers of some vectors would cost the others
a digit. A row's factor is 1 over the length of its whole numbers, so that a row has length 1 again as the vector had.

Of 384 dimensions, cosines are off by .0002 (their standard deviation; at most .002 of some hundred thousand). A row
takes 384 bytes and its factor: a quarter of its floats.

Example, of two dimensions: (.6, -.8) is kept as (95, -127) and the factor 1/158.6; its cosine with (1, 0) is .599.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .interface import Vector

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]

LARGEST = 127

AT_ONCE = 256
"""Rows that are compared at a time: their floats, 400 kB, stay in the cache of a core."""


class QuantizedVectors:
    """Vectors by row. One thread writes; others may read meanwhile, and see a row as it was or as it is."""

    def __init__(self, dimension: int) -> None:
        self._numbers = np.zeros((0, dimension), np.int8)
        self._factors = np.zeros(0, np.float32)

    def grow(self, capacity: int) -> None:
        """Make room for rows below `capacity`; new ones have no direction."""
        numbers = np.zeros((capacity, self._numbers.shape[1]), np.int8)  # the system gives memory where it is written
        numbers[: len(self._numbers)] = self._numbers
        factors = np.zeros(capacity, np.float32)
        factors[: len(self._factors)] = self._factors
        self._numbers, self._factors = numbers, factors

    def put(self, rows: Rows, numbers: NDArray[np.int8]) -> None:
        """Set the whole numbers of rows."""
        self._numbers[rows] = numbers
        self._factors[rows] = factors_of(numbers)

    def cosines(self, rows: Rows, vector: Vector) -> NDArray[np.float32]:
        """Return the cosines of rows with a unit vector; 0 for a row without a direction."""
        numbers, factors = self._numbers, self._factors
        cosines = np.empty(len(rows), np.float32)
        gathered = np.empty((min(AT_ONCE, len(rows)), numbers.shape[1]), np.int8)
        floats = gathered.astype(np.float32)
        for start in range(0, len(rows), AT_ONCE):
            some = rows[start : start + AT_ONCE]
            block = floats[: len(some)]
            block[:] = np.take(numbers, some, axis=0, out=gathered[: len(some)], mode="clip")  # all rows are held
            np.dot(block, vector, out=cosines[start : start + AT_ONCE])
        return cosines * factors[rows]

    def arrays(self, rows: int) -> dict[str, NDArray[Any]]:
        """Return the arrays of the rows below a number, by name."""
        return {"numbers": self._numbers[:rows].reshape(-1), "factors": self._factors[:rows]}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the arrays that `arrays` returned."""
        self._numbers = arrays["numbers"].reshape(-1, self._numbers.shape[1])
        self._factors = arrays["factors"]


def quantized(vectors: NDArray[np.float32]) -> NDArray[np.int8]:
    """Return the whole numbers, -127 to 127, of vectors of any length; one of zeros has no direction."""
    largest = np.abs(vectors).max(axis=1, keepdims=True)
    return np.rint(vectors * (LARGEST / np.where(largest > 0.0, largest, 1.0))).astype(np.int8)


def factors_of(numbers: NDArray[np.int8]) -> NDArray[np.float32]:
    """Return 1 over the length of each row of whole numbers, 0 for a row of zeros."""
    lengths = np.linalg.norm(numbers.astype(np.float32), axis=1)
    return np.where(lengths > 0.0, 1.0 / np.maximum(lengths, 1.0), 0.0).astype(np.float32)


def cosines_of(numbers: NDArray[np.int8], vector: Vector) -> NDArray[np.float32]:
    """Return the cosines of rows of whole numbers with a unit vector; 0 for a row without a direction."""
    held = QuantizedVectors(numbers.shape[1])
    held.grow(len(numbers))
    rows = np.arange(len(numbers))
    held.put(rows, numbers)
    return held.cosines(rows, vector)


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale vectors to unit length; zeros stay zeros."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(norms > 0.0, norms, 1.0), np.float32)


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


def codes_of(vectors: NDArray[np.float32] | NDArray[np.int8]) -> NDArray[np.uint64]:
    """Return the signs of vectors, a row each: one bit a dimension, padded to whole 64-bit words."""
    bits = np.packbits(vectors > 0, axis=1)
    codes = np.zeros((len(bits), -(-bits.shape[1] // 8)), np.uint64)
    codes.view(np.uint8)[:, : bits.shape[1]] = bits
    return codes


class Signs:
    """The codes of rows. One thread writes; others may scan meanwhile, and see a row as it was or as it is."""

    def __init__(self, dimension: int) -> None:
        self._codes = np.zeros((-(-dimension // 64), 0), np.uint64)

    def grow(self, capacity: int) -> None:
        """Make room for rows below `capacity`; new ones have no code."""
        codes = np.zeros((len(self._codes), capacity), np.uint64)
        codes[:, : self._codes.shape[1]] = self._codes
        self._codes = codes

    def put(self, rows: Rows, vectors: NDArray[np.float32] | NDArray[np.int8]) -> None:
        """Set the codes of rows by their vectors, or by the whole numbers of these."""
        self._codes[:, rows] = codes_of(vectors).T

    def arrays(self, rows: int) -> dict[str, NDArray[Any]]:
        """Return each word of the rows below a number, by name."""
        return {f"word {n}": word[:rows] for n, word in enumerate(self._codes)}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the arrays that `arrays` returned."""
        self._codes = np.empty((len(self._codes), len(arrays["word 0"])), np.uint64)
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
