"""Answers against the types that `ipc.answers` declares for them."""

from __future__ import annotations

from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict


def within(declared: Any) -> Any:
    """Return what a type is a list of, a table of, or null besides; else the type itself."""
    origin, args = get_origin(declared), get_args(declared)
    if origin is NotRequired or origin is list:
        return within(args[0])
    if origin is dict:
        return within(args[1])
    if origin in (Union, UnionType):
        return within(next(arg for arg in args if arg is not NoneType))
    return declared


def typed_dicts(declared: Any) -> Iterator[type]:
    """Return a typed dictionary and those within it."""
    declared = within(declared)
    if is_typeddict(declared):
        yield declared
        for hint in get_type_hints(declared).values():
            yield from typed_dicts(hint)


def faults(value: Any, declared: Any, place: str = "") -> Iterator[str]:
    """Return where a value is not what its type says: a field missing, unknown or of another type."""
    origin, args = get_origin(declared), get_args(declared)
    if declared is Any:
        return
    if origin is NotRequired:
        yield from faults(value, args[0], place)
    elif origin in (Union, UnionType):
        if all(list(faults(value, arg, place)) for arg in args):
            yield f"{place} is no {declared}: {value!r}"
    elif origin is Literal:
        if value not in args:
            yield f"{place} is none of {args}: {value!r}"
    elif origin is list:
        if type(value) is not list:
            yield f"{place} is no list: {value!r}"
        else:
            for number, item in enumerate(value):
                yield from faults(item, args[0], f"{place}[{number}]")
    elif origin is dict:
        if type(value) is not dict:
            yield f"{place} is no table: {value!r}"
        else:
            for name, item in value.items():
                yield from faults(item, args[1], f"{place}[{name}]")
    elif is_typeddict(declared):
        yield from _faults_of_fields(value, declared, place)
    elif declared is float:
        if type(value) not in (int, float):
            yield f"{place} is no number: {value!r}"
    elif type(value) is not declared:
        yield f"{place} is no {declared.__name__}: {value!r}"


def seen(value: Any, declared: Any) -> Iterator[str]:
    """Return each field of each typed dictionary that a value has, like `HitAnswer.title`."""
    declared = within(declared)
    if isinstance(value, list):
        for item in value:
            yield from seen(item, declared)
    elif is_typeddict(declared) and value is not None:
        hints = get_type_hints(declared)
        for name, item in value.items():
            yield f"{declared.__name__}.{name}"
            yield from seen(item, hints[name])


def _faults_of_fields(value: Any, declared: Any, place: str) -> Iterator[str]:
    if type(value) is not dict:
        yield f"{place} is no object: {value!r}"
        return
    hints = get_type_hints(declared, include_extras=True)
    for name in sorted(value.keys() - hints.keys()):
        yield f"{place}.{name} is not declared"
    for name, hint in hints.items():
        if name in value:
            yield from faults(value[name], hint, f"{place}.{name}")
        elif get_origin(hint) is not NotRequired:
            yield f"{place}.{name} is missing"
