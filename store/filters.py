"""The one normalised form of a filter, which every engine and the catalogue understand: tests and groups of tests.

A leaf tests one field of a memory's payload. A group holds if all of `must` hold, at least one of `should` where there
are any, and none of `must_not`. A filter is a tuple of clauses that must all hold.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Scalar = str | int | float | None
Payload = Scalar | tuple[str, ...]
"""The value of a payload field: one, or several texts, of which () is null."""

Op = Literal["in", "not_in", "is_null", "lte", "lt", "gte", "gt"]


SHORTEST_PLURAL = 4
"""Letters of a tag from which an `s` at its end makes a plural: "aws" is none."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One test on a payload field, which is null where the payload does not have it.

    `in`: equals one of `values`, where None is null; `not_in`: equals none of them; `is_null`. `lte`, `lt`, `gte` and
    `gt` compare with the first of `values`, text with text and number with number; null does not hold, unless None is
    among them. Of a field with several texts it is enough that one of them equals or compares.
    """

    field: str
    op: Op
    values: tuple[Scalar, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """Clauses together: all of `must`, at least one of `should` where there are any, and none of `must_not`."""

    must: tuple[Clause, ...] = ()
    should: tuple[Clause, ...] = ()
    must_not: tuple[Clause, ...] = ()


Clause = Condition | Group

ALWAYS, FOREVER = 0, 253_402_300_800
"""The values of valid_from and valid_to that filters see where a file has none: the epoch, the end of year 9999."""

Filter = tuple[Clause, ...]
"""Clauses that must all hold; () matches everything."""

OWN_FIELDS = frozenset({"level", "kind", "tags", "entity"})
"""The fields in which a fact differs from the turn that it was drawn from."""


def fold(name: str) -> str:
    """Return a tag or the name of an entity as it is compared: without case, with single spaces."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def fold_tag(tag: str) -> str:
    """Return a tag as it is compared: `#Build_Tools`, `build-tools` and "build tool" are one."""
    words = re.sub(r"[-_/\s]+", " ", fold(tag).lstrip("#")).strip()
    if len(words) < SHORTEST_PLURAL or words.endswith(("ss", "us", "is")) or not words.endswith("s"):
        return words
    return f"{words[:-3]}y" if words.endswith("ies") else words[:-1]


def conditions_of(where: Filter) -> Iterator[Condition]:
    """Yield every test of a filter."""
    for clause in where:
        if isinstance(clause, Condition):
            yield clause
        else:
            yield from conditions_of((*clause.must, *clause.should, *clause.must_not))


def wanted_fields(where: Filter) -> frozenset[str]:
    """Return the fields that a filter asks something of, rather than only rules something out."""
    found: frozenset[str] = frozenset()
    for clause in where:
        # `must_not` only rules out, and so asks for no field.
        if isinstance(clause, Group):
            found |= wanted_fields((*clause.must, *clause.should))
        else:
            found |= {clause.field}
    return found


def holds(payload: Mapping[str, object], where: Filter) -> bool:
    """Return True if a payload meets all clauses."""
    return all(_holds(payload, clause) for clause in where)


def _holds(payload: Mapping[str, object], clause: Clause) -> bool:
    if isinstance(clause, Condition):
        return _TESTS[clause.op](values_of(payload.get(clause.field)), clause.values)
    return (
        all(_holds(payload, one) for one in clause.must)
        and (not clause.should or any(_holds(payload, one) for one in clause.should))
        and not any(_holds(payload, one) for one in clause.must_not)
    )


def unmet(payload: Mapping[str, object], where: Filter) -> tuple[str, ...]:
    """Return the fields by which a payload fails a filter, each once; () if it passes."""
    return tuple(dict.fromkeys(field for clause in where for field in _failed(payload, clause)))


def _failed(payload: Mapping[str, object], clause: Clause) -> Iterator[str]:
    if _holds(payload, clause):
        return
    if isinstance(clause, Condition):
        yield clause.field
        return
    # Of a group the fields of each part by which it fails, not of all its parts.
    yield from unmet(payload, clause.must)
    if clause.should and not any(_holds(payload, one) for one in clause.should):
        yield from unmet(payload, clause.should)
    held = tuple(one for one in clause.must_not if _holds(payload, one))
    yield from (condition.field for condition in conditions_of(held))


def values_of(value: Any) -> tuple[Scalar, ...]:
    """Return the values of a payload field, () for null."""
    if value is None:
        return ()
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def compares(value: Scalar, op: Op, bound: Scalar) -> bool:
    """Return True if a value is on the side of the bound that the operator names; text never compares with numbers."""
    if value is None or bound is None or isinstance(value, str) is not isinstance(bound, str):
        return False
    return _COMPARED[op](value, bound)


def _among(held: tuple[Scalar, ...], values: tuple[Scalar, ...]) -> bool:
    return any(value in values for value in held) if held else None in values


def _compared(op: Op) -> Callable[[tuple[Scalar, ...], tuple[Scalar, ...]], bool]:
    def test(held: tuple[Scalar, ...], values: tuple[Scalar, ...]) -> bool:
        return any(compares(value, op, values[0]) for value in held) if held else None in values

    return test


_COMPARED: Mapping[str, Callable[[object, object], bool]] = {
    "lte": lambda value, bound: value <= bound,  # type: ignore[operator]  # alike in type, as `compares` tested
    "lt": lambda value, bound: value < bound,  # type: ignore[operator]
    "gte": lambda value, bound: value >= bound,  # type: ignore[operator]
    "gt": lambda value, bound: value > bound,  # type: ignore[operator]
}

_TESTS: Mapping[str, Callable[[tuple[Scalar, ...], tuple[Scalar, ...]], bool]] = {
    "in": _among,
    "not_in": lambda held, values: not _among(held, values),
    "is_null": lambda held, values: not held,
    "lte": _compared("lte"),
    "lt": _compared("lt"),
    "gte": _compared("gte"),
    "gt": _compared("gt"),
}
