"""`docs/protocol.md` against what the daemon's handlers declare: every method, parameter and field, both ways."""

from __future__ import annotations

import re
import typing
from collections.abc import Awaitable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, NotRequired, get_origin, get_type_hints, is_typeddict

import pytest
from dreamd.daemon.methods.control import ControlMethods
from dreamd.ipc import answers, typed_calls
from dreamd.ipc.answers import ANSWERS

from tests.answer_types import typed_dicts, within

DOC = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")
METHODS = DOC.partition("\n## Methods\n")[2]
NOTATION = re.compile(r"[a-z_]+\??|[{}\[\]:,]")


class Field(NamedTuple):
    """A documented field: whether it may be left out, and its own fields where they are named."""

    optional: bool
    fields: dict[str, Any] | None


class Documented(NamedTuple):
    """What the docs say of a method."""

    params: dict[str, Field]
    answer: dict[str, Field]


def fields_of(tokens: Iterator[str]) -> dict[str, Field]:
    """Read `name, name?, name: {…}, name: [{…}]` up to the closing brace."""
    fields: dict[str, Field] = {}
    name = ""
    for token in tokens:
        if token == "}":
            return fields
        if token == "{":
            fields[name] = Field(fields[name].optional, fields_of(tokens))
        elif token[0].isalpha():
            name = token.rstrip("?")
            fields[name] = Field(token.endswith("?"), None)
    raise AssertionError("a brace is not closed")


def notation(text: str) -> dict[str, Field]:
    tokens = iter(NOTATION.findall(text))
    assert next(tokens) == "{"
    return fields_of(tokens)


def documented() -> Iterator[tuple[str, Documented]]:
    for section in re.split(r"^### ", METHODS, flags=re.MULTILINE)[1:]:
        for method in re.finditer(r"`(\w+) (\{[^`]*\})`", section.partition("\n")[0]):
            answer = re.compile(r"→\s+`(\{[^`]*\})`").search(section, method.end())
            assert answer, f"{method[1]} has no answer"
            yield method[1], Documented(notation(method[2]), notation(answer[1]))


DOCUMENTED = dict(documented())


@pytest.fixture(scope="module")
def handlers() -> Any:
    """Give every handler of the daemon; none of them is called."""
    part: Any = object()
    settings: Any = SimpleNamespace(vault=Path())
    return ControlMethods(
        part, part, part, part, part, part, settings, started_s=0.0, stop=lambda: None, socket_problem=str
    ).handlers()


def test_every_method_has_a_type_and_a_section(handlers: Any) -> None:
    assert set(DOCUMENTED) == set(ANSWERS) == {*handlers, "cancel"}


@pytest.mark.parametrize("method", sorted(set(DOCUMENTED) - {"cancel"}))
def test_the_documented_parameters_are_those_that_are_taken(handlers: Any, method: str) -> None:
    taken = handlers[method].params.model_fields
    assert {name: field.optional for name, field in DOCUMENTED[method].params.items()} == {
        field.alias or name: not field.is_required() for name, field in taken.items()
    }


@pytest.mark.parametrize("method", sorted(DOCUMENTED))
def test_the_documented_answer_is_the_declared_one(method: str) -> None:
    differences = list(differing(DOCUMENTED[method].answer, ANSWERS[method], method))
    assert not differences


def test_every_method_has_the_type_of_its_answer_for_a_type_checker() -> None:
    spaces = {**vars(typing), **vars(answers), "Awaitable": Awaitable, "Params": Any, "OnProgress": Any}
    declared: dict[str, type[Any]] = {}
    for overload in typing.get_overloads(typed_calls.AsyncCall.__call__):
        hints = get_type_hints(overload, spaces)
        if hints["method"] is not str:
            declared |= dict.fromkeys(typing.get_args(hints["method"]), typing.get_args(hints["return"])[0])
    assert declared == dict(ANSWERS), "give the method an overload in ipc/typed_calls.py"


def test_every_type_is_spelled_out_somewhere() -> None:
    spelled: set[type] = set()
    for method, said in DOCUMENTED.items():
        collect(said.answer, ANSWERS[method], spelled)
    every = {part for answer in ANSWERS.values() for part in typed_dicts(answer)}
    assert {part.__name__ for part in every} == {part.__name__ for part in spelled}


def differing(fields: dict[str, Field], declared: Any, place: str) -> Iterator[str]:
    hints = get_type_hints(declared, include_extras=True)
    for name in sorted(fields.keys() ^ hints.keys()):
        yield f"{place}.{name} is {'documented' if name in fields else 'declared'} alone"
    for name in fields.keys() & hints.keys():
        if fields[name].optional != (get_origin(hints[name]) is NotRequired):
            yield f"{place}.{name} may be left out in one of them"
        if (own := fields[name].fields) is not None:
            inner = within(hints[name])
            if is_typeddict(inner):
                yield from differing(own, inner, f"{place}.{name}")
            else:
                yield f"{place}.{name} has no fields of its own"


def collect(fields: dict[str, Field], declared: Any, spelled: set[type]) -> None:
    spelled.add(declared)
    hints = get_type_hints(declared)
    for name, field in fields.items():
        if field.fields is not None:
            collect(field.fields, within(hints[name]), spelled)
