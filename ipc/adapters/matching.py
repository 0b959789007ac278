"""LangGraph's filters: values compared as they are, or by an operator; of objects only the named fields count."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def matches(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return True for a value whose fields are what a filter wants.

    Raises ValueError for an unknown operator, and TypeError or ValueError where a comparison has no number.
    """
    return all(_is_as(value.get(name), test) for name, test in wanted.items())


def _is_as(given: Any, test: Any) -> bool:
    if isinstance(test, Mapping):
        if any(name.startswith("$") for name in test):
            return all(_holds(given, name, bound) for name, bound in test.items())
        return isinstance(given, Mapping) and matches(given, test)
    if isinstance(test, list | tuple):
        is_as_long = isinstance(given, list | tuple) and len(given) == len(test)
        return is_as_long and all(_is_as(one, other) for one, other in zip(given, test, strict=True))
    return bool(given == test)


def _holds(given: Any, name: str, bound: Any) -> bool:
    if name == "$eq":
        return bool(given == bound)
    if name == "$ne":
        return bool(given != bound)
    if name not in COMPARISONS:
        raise ValueError(f"Unsupported operator: {name}")
    return COMPARISONS[name](float(given), float(bound))
