"""The `filter` of a question on the wire: tests of fields and groups of them, made into the store's normalised form."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from ..store.filters import FOREVER, Clause, Condition, Filter, Group, fold, fold_tag
from ..store.model import Kind, Level
from ..store.names import MAX_CHARACTERS

FilterField = Literal["level", "kind", "channel", "agent", "session", "task", "user", "tags", "time", "entity"]

MOST_TESTS, MOST_DEPTH, MOST_VALUES = 64, 5, 100
"""Tests in a filter, groups within groups, and values of one `in`: a scan stays a scan."""

Value = Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS)]

_KNOWN = {"level": [level.value for level in Level], "kind": [kind.value for kind in Kind]}
_FOLDED = {"tags": fold_tag, "entity": fold, "user": str.casefold}


_EPOCH, _DAY_S = datetime(1970, 1, 1, tzinfo=UTC), 86_400


def _bound(value: object) -> date | datetime:
    """Read a day or an instant in ISO 8601."""
    try:
        text = str(value)
        return date.fromisoformat(text) if len(text) == len("2026-11-01") else datetime.fromisoformat(text)
    except ValueError:
        raise _wrong("it is no day like 2026-11-01, and no instant like 2026-11-01T09:00:00+01:00") from None


Bound = Annotated[date | datetime, BeforeValidator(_bound)]


class RangeParams(BaseModel):
    """Bounds of a time: an instant, or a whole day; without an offset they are UTC."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    gte: Bound | None = None
    gt: Bound | None = None
    lte: Bound | None = None
    lt: Bound | None = None

    @model_validator(mode="after")
    def _has_a_bound(self) -> Self:
        if not any((self.gte, self.gt, self.lte, self.lt)):
            raise _wrong("give it at least one of gte, gt, lte and lt")
        return self

    def conditions(self, field: str) -> Iterator[Condition]:
        """Yield the tests of the field in whole seconds since the epoch, the form of payloads."""
        for bound, after in ((self.gte, False), (self.gt, True)):
            if bound is not None:
                yield Condition(field, "gte", (_first_second(bound, after=after),))
        for bound, after in ((self.lte, True), (self.lt, False)):
            if bound is not None:
                yield Condition(field, "lt", (_first_second(bound, after=after),))


class FilterParams(BaseModel):
    """One test, of `field` by one of `eq`, `in`, `range` and `exists`; or a group of `must`, `should`, `must_not`.

    A group holds if all of `must` do, at least one of `should` where there are any, and none of `must_not`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    field: FilterField | None = None
    eq: Value | None = None
    in_: Annotated[tuple[Value, ...] | None, Field(alias="in", min_length=1, max_length=MOST_VALUES)] = None
    range: RangeParams | None = None
    exists: Annotated[bool, Field(strict=True)] | None = None
    must: Annotated[tuple[FilterParams, ...], Field(max_length=MOST_TESTS)] | None = None
    should: Annotated[tuple[FilterParams, ...], Field(max_length=MOST_TESTS)] | None = None
    must_not: Annotated[tuple[FilterParams, ...], Field(max_length=MOST_TESTS)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _is_an_object(cls, given: object) -> object:
        if not isinstance(given, dict | FilterParams):
            raise _wrong('it is an object, such as {"field": "kind", "eq": "decision"}')
        return given

    @model_validator(mode="after")
    def _is_a_test_or_a_group(self) -> Self:
        tests = [test for test in (self.eq, self.in_, self.range, self.exists) if test is not None]
        if self.field is None:
            if tests:
                raise _wrong("say which `field` is tested")
            if self._is_no_group:
                raise _wrong("give it a `field` and one of eq, in, range and exists, or must, should or must_not")
        elif not self._is_no_group:
            raise _wrong("it is a test and a group: put the test into `must`")
        elif len(tests) != 1:
            raise _wrong(f"test `{self.field}` by exactly one of eq, in, range and exists")
        else:
            self._fits(self.field)
        return self

    def _fits(self, field: FilterField) -> None:
        values = [value for value in (self.eq, *(self.in_ or ())) if value is not None]
        if field == "time" and values:
            raise _wrong('test `time` by range, such as {"gte": "2026-11-01", "lt": "2026-12-01"}, or by exists')
        if field != "time" and self.range is not None:
            raise _wrong(f"`{field}` has no order: test it by eq, in or exists")
        if field in _KNOWN and (unknown := [value for value in values if value not in _KNOWN[field]]):
            raise _wrong(f"there is no {field} {unknown[0][:64]!r}; there are {', '.join(_KNOWN[field])}")

    @property
    def _is_no_group(self) -> bool:
        return self.must is None and self.should is None and self.must_not is None

    def normalised(self) -> Filter:
        """Return the store's form of the filter."""
        return (self._clause(),)

    def _clause(self) -> Clause:
        if self.field is None:
            parts = ([one._clause() for one in part or ()] for part in (self.must, self.should, self.must_not))
            return Group(*map(tuple, parts))
        if self.range is not None:
            return Group(must=tuple(self.range.conditions(self.field)))
        if self.exists is not None:
            # The engines know `is_null` alone, so `exists: true` is its negation.
            is_null = Condition(self.field, "is_null")
            return Group(must_not=(is_null,)) if self.exists else is_null
        values = self.in_ if self.in_ is not None else (self.eq or "",)
        return Condition(self.field, "in", tuple(map(_FOLDED.get(self.field, str), values)))

    def count(self) -> int:
        """Return the number of tests."""
        parts = (*(self.must or ()), *(self.should or ()), *(self.must_not or ()))
        return sum(one.count() for one in parts) + (self.field is not None)


class BoundedFilter(FilterParams):
    """A whole filter, within bounds."""

    @model_validator(mode="before")
    @classmethod
    def _is_shallow(cls, given: object) -> object:
        # Checked on the raw value: validation recurses, and 300 levels of groups would exhaust the stack first.
        if _is_deeper(given, MOST_DEPTH):
            raise _wrong(f"its groups lie deeper than {MOST_DEPTH} within each other")
        return given

    @model_validator(mode="after")
    def _is_small(self) -> Self:
        if (tests := self.count()) > MOST_TESTS:
            raise _wrong(f"it has {tests} tests; at most {MOST_TESTS} are allowed: one `in` takes many values")
        return self


def _is_deeper(given: object, depth: int) -> bool:
    """Return True if groups are nested deeper; a test is no group."""
    if not isinstance(given, dict):
        return False
    parts = [part for name in ("must", "should", "must_not") if isinstance(part := given.get(name), list | tuple)]
    if depth == 0:
        return bool(parts)
    return any(_is_deeper(one, depth - 1) for part in parts for one in part)


def _first_second(bound: date | datetime, *, after: bool) -> int:
    """Return the first second at or after a bound; `after`: the first later one, of a day that of the next day.

    It is FOREVER after the last day of the calendar.
    """
    # Payloads have whole seconds. A `gt` bound within a second is passed by the next whole one, a `gte` bound too; they
    # differ only on the second itself: gt 09:00:00 begins at 09:00:01, gte 09:00:00 at 09:00:00.
    if isinstance(bound, datetime):
        seconds = ((bound if bound.tzinfo else bound.replace(tzinfo=UTC)) - _EPOCH).total_seconds()
        return math.floor(seconds) + 1 if after else math.ceil(seconds)
    days = (bound - _EPOCH.date()).days + after
    return min(days * _DAY_S, FOREVER)


def _wrong(message: str) -> PydanticCustomError:
    return PydanticCustomError("filter", "{message}", {"message": message})
