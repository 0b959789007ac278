"""One payload field of every row in memory, as filters test it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..filters import Condition, Op, Payload, Scalar, compares, values_of
from .vectors import Mask, Rows


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
        """Return what is held of the rows below a number, by name."""
        held = {"numbers": self._numbers, "codes": self._codes}
        return {name: array[:rows] for name, array in held.items() if array is not None}

    def texts(self) -> list[str | tuple[str, ...]]:
        """Return the distinct values, in the order of their codes."""
        return list(self._texts)

    def restore(self, capacity: int, arrays: Mapping[str, NDArray[Any]], texts: Sequence[Payload]) -> None:
        """Hold what `arrays` and `texts` returned, of all rows below `capacity`."""
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
        table = np.zeros(len(self._texts) + 1, bool)  # the entry behind the last is what code -1, "no text", reads
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
