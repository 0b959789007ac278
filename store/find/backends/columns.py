"""Columns of a collection in memory, for scans: codes of vectors, sizes, and the fields that filters test.

The coarse vector scan (`Columns.nearest`) compares signs instead of floats. A vector's code has one bit a dimension,
set where the number is above 0; the more bits two codes share, the smaller the angle between the vectors (random
hyperplanes, Charikar 2002). The engine then rescores the few rows that are left by their exact cosines.

Codes are stored column-major: `_codes[w]` holds word w (64 dimensions) of every row. A scan makes one pass over each
column, `popcount(column ^ word of the query)`, and sums. Every byte read from memory is used, and numpy does the rest
in vector instructions: 10 ms for a million rows of 384 dimensions (6 columns, 48 MB), where vec0's scan took 125 ms.

Example, with words of 4 bits: the query has code 1010 0110, row 0 has 1011 0110, row 1 has 0010 1001.
  word 0: 1011 ^ 1010 = 0001, distance 1; 0010 ^ 1010 = 1000, distance 1; distances [1, 1]
  word 1: 0110 ^ 0110 = 0000, distance 0; 1001 ^ 0110 = 1111, distance 4; distances [1, 5]
Row 0 is the nearest and, with keep=1, returned alone; if row 1 had distance 1 too, both would be, for rescoring.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .interface import Condition, Scalar, Vector
from .vectors import Mask, Rows, VectorCache

SCOPES_KEPT = 16
"""Filters whose rows are cached between two changes: an agent asks with the same one again and again."""


def code_of(vector: Vector) -> bytes:
    """Return the vector's signs, one bit a dimension, padded to whole 64-bit words."""
    bits = np.packbits(vector > 0.0)
    return bits.tobytes() + bytes(-len(bits) % 8)


class FieldColumn:
    """One payload field: numbers as numbers, text by its place in a list of distinct texts."""

    def __init__(self) -> None:
        self._numbers = np.zeros(0, np.float64)
        self._places = np.zeros(0, np.int32)
        self._texts: dict[str, int] = {}

    def grow(self, capacity: int) -> None:
        """Make room for rows below `capacity`; new ones are null."""
        self._numbers = _grown(self._numbers, capacity, np.nan)
        self._places = _grown(self._places, capacity, -1)

    def put(self, rows: Rows, values: Sequence[Scalar]) -> None:
        """Set the field of many rows."""
        texts = self._texts
        self._numbers[rows] = [np.nan if value is None or isinstance(value, str) else value for value in values]
        self._places[rows] = [texts.setdefault(value, len(texts)) if isinstance(value, str) else -1 for value in values]

    def test(self, condition: Condition) -> Mask:
        """Return a mask of the rows for which the condition holds."""
        if condition.op == "is_null":
            return self._null()
        if condition.op == "in":
            return self._among(condition.values)
        if condition.op == "not_in":
            return ~self._among(condition.values)
        holds = self._compared(condition.values[0], lte=condition.op == "lte")
        return holds | self._null() if None in condition.values else holds

    def _null(self) -> Mask:
        return np.isnan(self._numbers) & (self._places < 0)

    def _among(self, values: Sequence[Scalar]) -> Mask:
        found = np.zeros(len(self._places), bool)
        for value in values:
            if value is None:
                found |= self._null()
            elif isinstance(value, str):
                found |= self._places == self._texts.get(value, -2)
            else:
                found |= self._numbers == value
        return found

    def _compared(self, bound: Scalar, *, lte: bool) -> Mask:
        if bound is None:
            return np.zeros(len(self._places), bool)
        if isinstance(bound, str):
            # One comparison a distinct text; the entry behind the last is what place -1, "no text", reads.
            table = np.array([*((text <= bound) is lte for text in self._texts), False])
            return table[self._places]
        return self._numbers <= bound if lte else self._numbers > bound


class IdColumn:
    """The id of each row, as bytes one after the other: at a million rows 60 MB, as texts of Python 110."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._starts = np.zeros(0, np.int64)
        self._ends = np.zeros(0, np.int64)

    def grow(self, capacity: int) -> None:
        """Make room for rows below `capacity`; new ones have the id ""."""
        self._starts = _grown(self._starts, capacity, 0)
        self._ends = _grown(self._ends, capacity, 0)

    def put(self, rows: Rows, ids: Sequence[str]) -> None:
        """Set the ids of many rows. A row keeps its id until it is removed, so those that have one are passed over."""
        new = np.flatnonzero(self._ends[rows] == self._starts[rows])
        encoded = [ids[place].encode() for place in new.tolist()]
        ends = len(self._bytes) + np.cumsum([len(one) for one in encoded], dtype=np.int64)
        self._bytes += b"".join(encoded)
        self._ends[rows[new]] = ends
        self._starts[rows[new]] = ends - [len(one) for one in encoded]

    def remove(self, rows: Rows) -> None:
        """Forget the ids of rows; their bytes stay until the columns are read anew."""
        self._starts[rows] = self._ends[rows] = 0

    def of(self, rows: Rows) -> list[str]:
        """Return the ids of rows."""
        held = self._bytes
        return [
            held[start:end].decode()
            for start, end in zip(self._starts[rows].tolist(), self._ends[rows].tolist(), strict=True)
        ]


class Scope(NamedTuple):
    """The rows that pass a filter, their number and their mean size."""

    mask: Mask
    points: int
    mean_size: float


class Columns:
    """A collection's columns, indexed by row number; about 190 bytes a row. Not locked: the owner locks.

    `vectors` are those of some rows: the ones that were compared lately.
    """

    def __init__(self, dimension: int, fields: Sequence[str]) -> None:
        self.stamp = 0
        self.count = 0
        self.sizes = np.zeros(0, np.int32)
        self._alive = np.zeros(0, bool)
        self._coded = np.zeros(0, bool)
        self._codes = np.zeros((-(-dimension // 64), 0), np.uint64)  # column-major: one pass a word, all in cache lines
        self._fields = {name: FieldColumn() for name in fields}
        self._ids = IdColumn()
        self.vectors = VectorCache(dimension)
        self._scopes: dict[tuple[Condition, ...], Scope] = {}

    @property
    def capacity(self) -> int:
        """Rows below this number can be held."""
        return len(self._alive)

    def holds(self, fields: Sequence[str]) -> bool:
        """Return True if these are the fields held, in this order."""
        return list(self._fields) == list(fields)

    def rows_mask(self, rows: Rows) -> Mask:
        """Return a mask of these rows."""
        mask = np.zeros(self.capacity, bool)
        mask[rows[rows < self.capacity]] = True
        return mask

    def knows(self, field: str) -> bool:
        """Return True if filters on this payload field can be tested here."""
        return field in self._fields

    def remove(self, rows: Rows) -> None:
        """Forget rows; unknown ones are passed over."""
        rows = rows[rows < self.capacity]
        self._alive[rows] = False
        self._coded[rows] = False
        self.sizes[rows] = 0
        self._ids.remove(rows)
        self.vectors.drop(rows)
        self._changed()

    def ids(self, rows: Rows) -> list[str]:
        """Return the ids of rows below the capacity, "" for those that are not held."""
        return self._ids.of(rows)

    def put(
        self,
        rows: Rows,
        ids: Sequence[str],
        sizes: Sequence[int],
        codes: Sequence[bytes | None],
        payloads: Sequence[Mapping[str, Scalar]],
    ) -> None:
        """Hold rows as they are now."""
        if not len(rows):
            return
        self._grow(int(rows.max()) + 1)
        self._alive[rows] = True
        self._ids.put(rows, ids)
        self.vectors.drop(rows)
        self.sizes[rows] = sizes
        for name, column in self._fields.items():
            column.put(rows, [payload.get(name) for payload in payloads])
        coded = np.array([code is not None for code in codes], bool)
        self._coded[rows] = coded
        if coded.any():
            packed = np.frombuffer(b"".join([code for code in codes if code is not None]), np.uint64)
            self._codes[:, rows[coded]] = packed.reshape(-1, len(self._codes)).T
        self._changed()

    def scope(self, where: tuple[Condition, ...]) -> Scope:
        """Return the rows for which all conditions hold; cached until a change."""
        known = self._scopes.get(where)
        if known is None:
            mask = self._alive.copy()
            for condition in where:
                mask &= self._fields[condition.field].test(condition)
            if len(self._scopes) >= SCOPES_KEPT:
                self._scopes.clear()
            known = self._scopes[where] = self.measured(mask)
        return known

    def measured(self, mask: Mask) -> Scope:
        """Return a mask with its figures; whole numbers are summed, so the order of rows does not matter."""
        count = int(np.count_nonzero(mask))
        return Scope(mask, count, int(self.sizes[mask].sum(dtype=np.int64)) / count if count else 1.0)

    def nearest(self, code: bytes, keep: int, mask: Mask) -> Rows:
        """Return the rows of the mask whose signs differ least from the code, at least `keep` of them.

        Rows as near as the last one are returned too, up to four times `keep`: only their vectors can rank them.
        The module's docstring has the method and an example.
        """
        distances = np.zeros(self.capacity, np.uint16)
        for column, word in zip(self._codes, np.frombuffer(code, np.uint64), strict=True):
            distances += np.bitwise_count(column ^ word)
        rows = np.flatnonzero(mask & self._coded)
        if len(rows) <= keep:
            return rows
        distances = distances[rows]
        last = np.partition(distances, keep - 1)[keep - 1]
        inside = rows[distances < last]
        ties = rows[distances == last][: 4 * keep - len(inside)]
        return np.concatenate([inside, ties])

    def _grow(self, needed: int) -> None:
        if needed <= self.capacity:
            return
        capacity = max(1024, needed + needed // 2)
        self._alive = _grown(self._alive, capacity, False)
        self._coded = _grown(self._coded, capacity, False)
        self.sizes = _grown(self.sizes, capacity, 0)
        self._ids.grow(capacity)
        for column in self._fields.values():
            column.grow(capacity)
        codes = np.zeros((len(self._codes), capacity), np.uint64)
        codes[:, : self._codes.shape[1]] = self._codes
        self._codes = codes

    def _changed(self) -> None:
        self.count = int(np.count_nonzero(self._alive))
        self._scopes.clear()


def _grown(array: Any, capacity: int, fill: object) -> Any:
    grown = np.full(capacity, fill, array.dtype)
    grown[: len(array)] = array
    return grown
