"""Vectors of every row in memory, a byte a number: what a scan of signs leaves is ranked by them.

A number is kept as a whole one from -127 to 127, in parts of the largest of its vector. So each vector uses the whole
range, whatever the model: with one scale for all, the few large numbers of some vectors would cost the others a digit.
A row's factor is 1 over the length of its whole numbers, so that what is kept has length 1 as the vector had.

Of 384 dimensions, cosines are off by .0002 (their standard deviation; at most .002 of some hundred
thousand). A row takes 384 bytes and its factor: a quarter of its floats, which stay in the database.

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

    def put(self, rows: Rows, vectors: NDArray[np.float32]) -> None:
        """Set the vectors of rows, of any length; a vector of zeros has no direction."""
        largest = np.abs(vectors).max(axis=1, keepdims=True)
        numbers = np.rint(vectors * (LARGEST / np.where(largest > 0.0, largest, 1.0))).astype(np.int8)
        lengths = np.linalg.norm(numbers.astype(np.float32), axis=1)
        self._numbers[rows] = numbers
        self._factors[rows] = np.where(lengths > 0.0, 1.0 / np.maximum(lengths, 1.0), 0.0)

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
        """Return what is held of the rows below a number, by name."""
        return {"numbers": self._numbers[:rows].reshape(-1), "factors": self._factors[:rows]}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Hold what `arrays` returned."""
        self._numbers = arrays["numbers"].reshape(-1, self._numbers.shape[1])
        self._factors = arrays["factors"]


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale vectors to unit length; zeros stay zeros."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(norms > 0.0, norms, 1.0), np.float32)
