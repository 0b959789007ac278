"""Columns of a collection in memory: vectors and their signs, sizes, ids, and the payload fields that filters test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..filters import Condition, Filter, Group, Op, Payload, Scalar, compares, conditions_of, values_of
from .bm25 import Postings
from .interface import Vector
from .vectors import Mask, QuantizedVectors, Rows, Signs, unit

SCOPES_KEPT = 16
"""Filters whose rows are cached between two changes: an agent asks with the same one again and again."""


COSINE_DIGITS = 6
"""Digits of a cosine that are the same however many are computed at a time."""

NO_VECTOR = -2.0
"""Below every cosine: the score of a row that has no vector."""

GROWTH = 4
"""Room is made for a fourth more rows than are needed: each row is copied five times at most, on the average."""


class IdColumn:
    """The id of each row, as bytes one after the other: at a million rows 60 MB, as texts of Python 110."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._starts = np.zeros(0, np.int64)
        self._ends = np.zeros(0, np.int64)

    def grow(self, capacity: int) -> None:
        """Make room for rows below `capacity`; new ones have the id ""."""
        self._starts = grown(self._starts, capacity, 0)
        self._ends = grown(self._ends, capacity, 0)

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

    def arrays(self, rows: int) -> dict[str, NDArray[Any]]:
        """Return the arrays of the rows below a number, by name."""
        held = np.frombuffer(bytes(self._bytes), np.uint8)
        return {"bytes": held, "starts": self._starts[:rows], "ends": self._ends[:rows]}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the arrays that `arrays` returned."""
        self._bytes = bytearray(arrays["bytes"])
        self._starts, self._ends = arrays["starts"], arrays["ends"]

    def of(self, rows: Rows) -> list[str]:
        """Return the ids of rows."""
        held = self._bytes
        return [
            held[start:end].decode()
            for start, end in zip(self._starts[rows].tolist(), self._ends[rows].tolist(), strict=True)
        ]


class RowScope(NamedTuple):
    """The rows that pass a filter, their number and their mean size, and those of them that have a vector."""

    mask: Mask
    points: int
    mean_size: float
    with_vector: Mask
    vectors: int


class Columns:
    """A collection's columns, indexed by row number; about 520 bytes a row, 90 of them without `holds_vectors`.

    One thread changes them or asks for a scope: the owner locks. What was read of a scope may be scanned meanwhile.
    """

    def __init__(self, dimension: int, fields: Sequence[str], *, holds_vectors: bool = True) -> None:
        self.holds_vectors = holds_vectors
        """False: the vectors are on the disk alone, and `signs` and `cosines` are not to be asked."""
        self.stamp = 0
        self.count = 0
        self.unkept = 0
        """Changes of rows since the snapshot that the database has."""
        self._dimension = dimension
        self.sizes = np.zeros(0, np.int32)
        self._alive = np.zeros(0, bool)
        self._has_vector = np.zeros(0, bool)
        self.signs = Signs(dimension)
        self._fields = {name: FieldColumn() for name in fields}
        self._ids = IdColumn()
        self._vectors = QuantizedVectors(dimension)
        self.postings = Postings()
        """The lists of words of these rows that were asked for."""
        self._scopes: dict[Filter, RowScope] = {}

    @property
    def capacity(self) -> int:
        """Rows below this number can be held."""
        return len(self._alive)

    @property
    def vectors(self) -> int:
        """The number of rows that have a vector."""
        return int(np.count_nonzero(self._has_vector))

    def holds(self, fields: Sequence[str]) -> bool:
        """Return True if these are the fields held, in this order."""
        return list(self._fields) == list(fields)

    def is_like(self, about: Mapping[str, Any]) -> bool:
        """Return True if `about` describes columns of the same dimension, fields and kind."""
        mine = self.about()
        return all(about[key] == mine[key] for key in ("dimension", "holds_vectors")) and self.holds([*about["texts"]])

    def rows_mask(self, rows: Rows) -> Mask:
        """Return a mask of these rows."""
        mask = np.zeros(self.capacity, bool)
        mask[rows[rows < self.capacity]] = True
        return mask

    def knows(self, where: Filter) -> bool:
        """Return True if a filter can be tested here: all its fields are held."""
        return all(condition.field in self._fields for condition in conditions_of(where))

    def remove(self, rows: Rows) -> None:
        """Forget rows; unknown ones are passed over."""
        rows = rows[rows < self.capacity]
        self._alive[rows] = False
        self._has_vector[rows] = False
        self.sizes[rows] = 0
        self._ids.remove(rows)
        self._changed(len(rows))

    def ids(self, rows: Rows) -> list[str]:
        """Return the ids of rows, "" for those that are not held."""
        if (rows >= self.capacity).any():
            return ["" if row >= self.capacity else self._ids.of(np.array([row]))[0] for row in rows.tolist()]
        return self._ids.of(rows)

    def has(self, fields: Sequence[str]) -> bool:
        """Return True if all these fields are held."""
        return all(field in self._fields for field in fields)

    def fields(self, rows: Rows, fields: Sequence[str]) -> list[tuple[Payload, ...]]:
        """Return the values of some fields of rows."""
        return list(zip(*(self._fields[field].of(rows) for field in fields), strict=True))

    def put(
        self,
        rows: Rows,
        ids: Sequence[str],
        sizes: Sequence[int],
        vectors: Sequence[bytes | None],
        payloads: Sequence[Mapping[str, Payload]],
    ) -> None:
        """Hold rows as they are now; a vector as the bytes of its whole numbers."""
        if not len(rows):
            return
        if (needed := int(rows.max()) + 1) > self.capacity:
            self.reserve(max(1024, needed + needed // GROWTH))
        self._alive[rows] = True
        self._ids.put(rows, ids)
        self.sizes[rows] = sizes
        for name, column in self._fields.items():
            column.put(rows, [payload.get(name) for payload in payloads])
        has_one = np.array([vector is not None for vector in vectors], bool)
        if self.holds_vectors and has_one.any():
            numbers = np.frombuffer(b"".join([vector for vector in vectors if vector is not None]), np.int8)
            self._vectors.put(rows[has_one], numbers.reshape(-1, self._dimension))
            self.signs.put(rows[has_one], numbers.reshape(-1, self._dimension))
        self._has_vector[rows] = has_one
        self._changed(len(rows))

    def cosines(self, rows: Rows, vector: Vector) -> NDArray[np.float32]:
        """Return the cosines of rows with a vector, NO_VECTOR for those that have none or are not held.

        They are rounded, so that they do not depend on the other rows of the call.
        """
        cosines = np.full(len(rows), NO_VECTOR, np.float32)
        known = rows < self.capacity
        known[known] = self._has_vector[rows[known]]
        cosines[known] = np.round(self._vectors.cosines(rows[known], unit(vector)), COSINE_DIGITS)
        return cosines

    def scope(self, where: Filter) -> RowScope:
        """Return the rows for which a filter holds, all of whose fields are held; cached until a change."""
        known = self._scopes.get(where)
        if known is None:
            known = self.measured(self.mask(where, self._test))
            if len(self._scopes) >= SCOPES_KEPT:
                self._scopes.clear()
            self._scopes[where] = known
        return known

    def mask(self, where: Filter, test: Callable[[Condition], Mask]) -> Mask:
        """Return a mask of the rows for which a filter holds by the masks of its conditions."""
        mask = self._alive.copy()
        for clause in where:
            mask &= self._group(clause, test) if isinstance(clause, Group) else test(clause)
        return mask

    def test(self, condition: Condition, other: Callable[[Condition], Rows]) -> Mask:
        """Return a mask of the rows for which a condition holds; of a field not held by the rows that `other` names."""
        return self._test(condition) if condition.field in self._fields else self.rows_mask(other(condition))

    def _test(self, condition: Condition) -> Mask:
        return self._fields[condition.field].test(condition)

    def _group(self, group: Group, test: Callable[[Condition], Mask]) -> Mask:
        mask = self.mask(group.must, test)
        if group.should:
            some = np.zeros(self.capacity, bool)
            for clause in group.should:
                some |= self.mask((clause,), test)
            mask &= some
        for clause in group.must_not:
            mask &= ~self.mask((clause,), test)
        return mask

    def measured(self, mask: Mask) -> RowScope:
        """Return a mask with its figures; whole numbers are summed, so the order of rows does not matter."""
        points = int(np.count_nonzero(mask))
        mean_size = int(self.sizes[mask].sum(dtype=np.int64)) / points if points else 1.0
        with_vector = mask & self._has_vector
        vectors = int(np.count_nonzero(with_vector))
        return RowScope(mask, points, mean_size, mask if vectors == points else with_vector, vectors)

    def reserve(self, capacity: int) -> None:
        """Make room for rows below `capacity`."""
        if capacity <= self.capacity:
            return
        self._alive = grown(self._alive, capacity, False)
        self._has_vector = grown(self._has_vector, capacity, False)
        if self.holds_vectors:
            self.signs.grow(capacity)
            self._vectors.grow(capacity)
        self.sizes = grown(self.sizes, capacity, 0)
        self._ids.grow(capacity)
        for column in self._fields.values():
            column.grow(capacity)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays, by name; most are views of arrays that change."""
        rows = int(np.max(np.flatnonzero(self._alive), initial=-1)) + 1
        parts: dict[str, Mapping[str, NDArray[Any]]] = {"ids": self._ids.arrays(rows)}
        if self.holds_vectors:
            parts |= {"signs": self.signs.arrays(rows), "vectors": self._vectors.arrays(rows)}
        parts |= {f"field {name}": column.arrays(rows) for name, column in self._fields.items()}
        named = {f"{part}/{name}": array for part, held in parts.items() for name, array in held.items()}
        masks = {"alive": self._alive[:rows], "has_vector": self._has_vector[:rows]}
        return {**masks, "sizes": self.sizes[:rows], **named}

    def about(self) -> dict[str, Any]:
        """Return the description, as JSON, that `restore` needs beside `arrays`."""
        texts = {name: column.texts() for name, column in self._fields.items()}
        kinds = {name: (array.dtype.str, len(array)) for name, array in self.arrays().items()}
        held = {"dimension": self._dimension, "holds_vectors": self.holds_vectors}
        return {"stamp": self.stamp, **held, "texts": texts, "arrays": kinds}

    def restore(self, about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore empty columns from the results of `about` and `arrays`."""
        parts: dict[str, dict[str, NDArray[Any]]] = {}
        for name, array in arrays.items():
            part, _, own = name.partition("/")
            parts.setdefault(part, {})[own] = array
        self._alive, self._has_vector, self.sizes = arrays["alive"], arrays["has_vector"], arrays["sizes"]
        self._ids.restore(parts["ids"])
        if self.holds_vectors:
            self.signs.restore(parts["signs"])
            self._vectors.restore(parts["vectors"])
        for name, column in self._fields.items():
            column.restore(self.capacity, parts.get(f"field {name}", {}), about["texts"][name])
        self.stamp = about["stamp"]
        self._changed(0)

    def _changed(self, rows: int) -> None:
        self.unkept += rows
        self.count = int(np.count_nonzero(self._alive))
        self._scopes.clear()


class FieldColumn:
    """One payload field: numbers as numbers, text by the code of each distinct text or set of texts.

    A field takes 8 bytes a row if it has numbers, and as many bytes as its codes need, 1, 2 or 4, if it has texts.
    """

    def __init__(self) -> None:
        self._capacity = 0
        self._numbers: NDArray[np.float64] | None = None
        self._codes: NDArray[np.signedinteger[Any]] | None = None
        self._texts: dict[str | tuple[str, ...], int] = {}  # each distinct value and its code, counted from 0
        self._sets: dict[str, list[int]] = {}  # each text and the codes of the sets that it is in

    def grow(self, capacity: int) -> None:
        """Make room for rows below `capacity`; new ones are null."""
        self._capacity = capacity
        if self._numbers is not None:
            self._numbers = grown(self._numbers, capacity, np.nan)
        if self._codes is not None:
            self._codes = grown(self._codes, capacity, -1)

    def put(self, rows: Rows, values: Sequence[Payload]) -> None:
        """Set the field of many rows."""
        numbers = [np.nan if value is None or isinstance(value, str | tuple | list) else value for value in values]
        if self._numbers is None and not np.isnan(numbers).all():
            self._numbers = np.full(self._capacity, np.nan, np.float64)
        if self._numbers is not None:
            self._numbers[rows] = numbers
        codes = [self._code(value) for value in values]
        if self._codes is None and max(codes, default=-1) >= 0:
            self._codes = np.full(self._capacity, -1, np.int8)
        if self._codes is not None:
            if len(self._texts) > np.iinfo(self._codes.dtype).max:
                self._codes = self._codes.astype(np.min_scalar_type(-len(self._texts)))
            self._codes[rows] = codes

    def of(self, rows: Rows) -> list[Payload]:
        """Return the values of rows. Takes a moment more the more distinct texts there are."""
        found: list[Payload] = [None] * len(rows)
        if self._numbers is not None:
            found = [
                None if value != value else int(value) if value.is_integer() else value
                for value in self._numbers[rows].tolist()
            ]
        if self._codes is not None:
            texts = list(self._texts)
            coded = self._codes[rows].tolist()
            found = [value if code < 0 else texts[code] for value, code in zip(found, coded, strict=True)]
        return found

    def arrays(self, rows: int) -> dict[str, NDArray[Any]]:
        """Return the arrays of the rows below a number, by name."""
        held = {"numbers": self._numbers, "codes": self._codes}
        return {name: array[:rows] for name, array in held.items() if array is not None}

    def texts(self) -> list[str | tuple[str, ...]]:
        """Return the distinct values, in the order of their codes."""
        return list(self._texts)

    def restore(self, capacity: int, arrays: Mapping[str, NDArray[Any]], texts: Sequence[Payload]) -> None:
        """Restore the results of `arrays` and `texts`, of all rows below `capacity`."""
        self._capacity = capacity
        self._numbers, self._codes = arrays.get("numbers"), arrays.get("codes")
        for value in texts:
            self._code(value)

    def test(self, condition: Condition) -> Mask:
        """Return a mask of the rows for which the condition holds."""
        if condition.op == "is_null":
            return self._null()
        if condition.op == "in":
            return self._among(condition.values)
        if condition.op == "not_in":
            return ~self._among(condition.values)
        found = self._compared(condition.op, condition.values[0])
        return found | self._null() if None in condition.values else found

    def _code(self, value: Payload) -> int:
        if isinstance(value, str):
            return self._texts.setdefault(value, len(self._texts))
        if not isinstance(value, tuple | list) or not value:
            return -1
        texts = tuple(value)
        code = self._texts.get(texts)
        if code is None:
            code = self._texts[texts] = len(self._texts)
            for text in set(texts):
                self._sets.setdefault(text, []).append(code)
        return code

    def _null(self) -> Mask:
        null = np.ones(self._capacity, bool)
        if self._numbers is not None:
            null &= np.isnan(self._numbers)
        if self._codes is not None:
            null &= self._codes < 0
        return null

    def _among(self, values: Sequence[Scalar]) -> Mask:
        found = np.zeros(self._capacity, bool)
        texts = [value for value in values if isinstance(value, str)]
        if texts and self._codes is not None:
            single = {self._texts[text] for text in texts if text in self._texts}
            found |= self._coded(single.union(*(self._sets.get(text, ()) for text in texts)))
        for value in values:
            if value is None:
                found |= self._null()
            elif not isinstance(value, str) and self._numbers is not None:
                found |= self._numbers == value
        return found

    def _coded(self, codes: Set[int]) -> Mask:
        """Return a mask of the rows that have one of some codes."""
        if self._codes is None or not codes:
            return np.zeros(self._capacity, bool)
        if len(codes) == 1:
            return np.asarray(self._codes == next(iter(codes)), np.bool_)
        table = np.zeros(len(self._texts) + 1, bool)  # code -1, "no text", reads the entry behind the last
        table[list(codes)] = True
        return np.asarray(table[self._codes], np.bool_)

    def _compared(self, op: Op, bound: Scalar) -> Mask:
        if isinstance(bound, str):
            return self._coded(
                {
                    code
                    for value, code in self._texts.items()
                    if any(compares(one, op, bound) for one in values_of(value))
                }
            )
        if bound is None or self._numbers is None:
            return np.zeros(self._capacity, bool)
        return np.asarray(_COMPARED[op](self._numbers, bound), np.bool_)


_COMPARED: Mapping[str, Callable[[Any, Any], Any]] = {
    "lte": np.less_equal,
    "lt": np.less,
    "gte": np.greater_equal,
    "gt": np.greater,
}


def grown(array: Any, capacity: int, fill: object) -> Any:
    """Return an array with room for so many rows; new ones hold `fill`."""
    longer = np.full(capacity, fill, array.dtype)
    longer[: len(array)] = array
    return longer
