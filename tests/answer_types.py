"""JSON answers against the dataclasses that the table of methods declares for them."""

from __future__ import annotations

from collections import abc
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from dreamd.daemon.methods.table import METHODS
from dreamd.ipc.server.server import CancelAnswer

ANSWERS: Mapping[str, type] = {method.name: method.result for method in METHODS} | {"cancel": CancelAnswer}
LISTS, TABLES = (list, tuple, abc.Sequence), (dict, abc.Mapping)


@cache
def sent(declared: Any) -> Mapping[str, tuple[Any, bool]]:
    """Return the type of each field of a dataclass that goes over the wire, and whether it may be left out."""
    hints = get_type_hints(declared)
    marks = {field.name: field.metadata.get("sent", True) for field in fields(declared)}
    return {name: (hints[name], mark == "unless None") for name, mark in marks.items() if mark}


def within(declared: Any) -> Any:
    """Return what a type is a list of, a table of, or null besides; else the type itself."""
    origin, args = collection(declared), get_args(declared)
    if origin is list:
        return within(args[0])
    if origin is dict:
        return within(args[1])
    if origin in (Union, UnionType):
        return within(next(arg for arg in args if arg is not NoneType))
    return declared


def collection(declared: Any) -> Any:
    """Return the origin of a type, `list` and `dict` for whatever is a list or an object in JSON."""
    origin = get_origin(declared)
    return list if origin in LISTS else dict if origin in TABLES else origin


def dataclasses_in(declared: Any) -> Iterator[type]:
    """Yield a dataclass and those within it."""
    declared = within(declared)
    if is_dataclass(declared) and isinstance(declared, type):
        yield declared
        for hint, _ in sent(declared).values():
            yield from dataclasses_in(hint)


def faults(value: Any, declared: Any, place: str = "") -> Iterator[str]:
    """Yield where a value is not what its type says: a field missing, unknown or of another type."""
    origin, args = collection(declared), get_args(declared)
    if declared is Any:
        return
    if origin in (Union, UnionType):
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
    elif is_dataclass(declared):
        yield from _faults_of_fields(value, declared, place)
    elif not is_json_of(value, declared):
        yield f"{place} is no {declared.__name__}: {value!r}"


def is_json_of(value: Any, declared: type) -> bool:
    """Check for the form that JSON has of a value of a plain type."""
    if declared is float:
        return type(value) in (int, float)
    if issubclass(declared, StrEnum):
        return value in list(declared)
    if declared is datetime:
        return type(value) is str and datetime.fromisoformat(value).tzinfo is not None
    return type(value) is (str if declared is Path else declared)


def seen(value: Any, declared: Any) -> Iterator[str]:
    """Yield each field of each dataclass that a value has, like `Hit.title`."""
    declared = within(declared)
    if isinstance(value, list):
        for item in value:
            yield from seen(item, declared)
    elif is_dataclass(declared) and isinstance(declared, type) and value is not None:
        for name, item in value.items():
            yield f"{declared.__name__}.{name}"
            yield from seen(item, sent(declared)[name][0])


def _faults_of_fields(value: Any, declared: Any, place: str) -> Iterator[str]:
    if type(value) is not dict:
        yield f"{place} is no object: {value!r}"
        return
    for name in sorted(value.keys() - sent(declared).keys()):
        yield f"{place}.{name} is not declared"
    for name, (hint, optional) in sent(declared).items():
        if name in value:
            yield from faults(value[name], hint, f"{place}.{name}")
        elif not optional:
            yield f"{place}.{name} is missing"
