"""The files of an agent program that we write into, each with its way in and its way out."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from . import json_text


class NotToml(ValueError):
    """A text that is not TOML."""


class Unwritable(Exception):
    """A file in which our part can be neither put nor taken without touching others'."""

    def __init__(self, path: Path, part: str) -> None:
        super().__init__(f"{part} cannot be written into {path} without changing what else is there.")
        self.hint = f"Open {path} and change {part} by hand."


class ConfigFile(Protocol):
    """One file of a program's settings. Texts are whole files; a file that is not there is ""."""

    @property
    def path(self) -> Path:
        """The place of the file, as the program names it."""
        ...

    def holds_ours(self, text: str) -> bool:
        """Return True if the text holds our entries, exactly."""
        ...

    def with_ours(self, text: str) -> str:
        """Return the text with our entries, which it does not hold."""
        ...

    def without_ours(self, text: str) -> str:
        """Return the text without any entry of ours."""
        ...

    def is_empty(self, text: str) -> bool:
        """Return True if nothing but brackets is left in a text."""
        ...


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an object that is ours."""

    path: json_text.Path
    value: Any


@dataclass(frozen=True, slots=True)
class Item:
    """An item of an array that is ours, beside others'."""

    path: json_text.Path
    value: Any


@dataclass(frozen=True, slots=True)
class JsonFile:
    """A JSON file, with comments or not. `is_ours` recognises an item of ours, of this version or another.

    `required` is what the program wants to find in its file, whoever writes into it. `last`: items go behind others',
    whose places in their arrays mean something.
    """

    path: Path
    members: Sequence[Member] = ()
    items: Sequence[Item] = ()
    is_ours: Callable[[Any], bool] = lambda _: False
    required: Mapping[str, Any] = field(default_factory=dict)
    last: bool = False

    def holds_ours(self, text: str) -> bool:
        """Return True if each member and each item is there as it should be, and no other of ours."""
        if any(json_text.value_at(text, one.path) != one.value for one in self.members):
            return False
        return all(
            [item for item in json_text.value_at(text, one.path) or () if self.is_ours(item)] == [one.value]
            for one in self.items
        )

    def with_ours(self, text: str) -> str:
        """Put ours in, each first in its place."""
        for item in reversed(self.items):
            text = json_text.with_item(text, item.path, item.value, last=self.last)
        for member in self.members:
            text = json_text.with_member(text, member.path, member.value)
        for key, value in self.required.items():
            if json_text.value_at(text, (key,)) is None:
                text = json_text.with_member(text, (key,), value)
        return text

    def without_ours(self, text: str) -> str:
        """Take ours out, and what it leaves empty."""
        for member in self.members:
            if json_text.value_at(text, member.path) is not None:
                text = json_text.without(text, member.path)
                text = _without_empty_parents(text, member.path[:-1])
        for item in self.items:
            if any(self.is_ours(one) for one in json_text.value_at(text, item.path) or ()):
                text = json_text.without(text, item.path, self.is_ours)
                text = _without_empty_parents(text, item.path)
        return text

    def is_empty(self, text: str) -> bool:
        """Return True for a file without a comment, and with no member but those that are required."""
        for key in self.required:
            text = json_text.without(text, (key,))
        return text.strip() in ("", "{}")


@dataclass(frozen=True, slots=True)
class TomlFile:
    """A TOML file in which one table is ours: the lines of its header and its keys, at the end of the file.

    The text is written line by line, and read by the library afterwards: tomlkit, which was tried, moves other lines.
    """

    path: Path
    table: tuple[str, str]
    value: Mapping[str, str | list[str] | dict[str, str]]

    def holds_ours(self, text: str) -> bool:
        """Return True if the table is there as it should be."""
        return _toml(text).get(self.table[0], {}).get(self.table[1]) == self.value  # type: ignore[no-any-return]

    def with_ours(self, text: str) -> str:
        """Write the table at the end, after a blank line. Raises Unwritable where the text leaves no place for it."""
        between = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        keys = "".join(f"{key} = {_toml_value(value)}\n" for key, value in self.value.items())
        written = f"{text}{between}{self._header}\n{keys}"
        if _without(_toml(written), self.table) != _without(_toml(text), self.table) or not self.holds_ours(written):
            raise Unwritable(self.path, self._header)
        return written

    def without_ours(self, text: str) -> str:
        """Take out the table's lines and the blank one before. Raises Unwritable where more would go with them."""
        wanted = _without(_toml(text), self.table)
        if _toml(text) == wanted:
            return text
        kept: list[str] = []
        is_inside = False
        for line in text.splitlines(keepends=True):
            if line.rstrip() == self._header:
                is_inside = True
                if kept and kept[-1] in ("\n", "\r\n"):
                    kept.pop()
            elif is_inside and (not line.strip() or line.lstrip().startswith(("#", "["))):
                is_inside = False
            if not is_inside:
                kept.append(line)
        left = "".join(kept)
        if _toml(left) != wanted:
            raise Unwritable(self.path, self._header)
        return left

    def is_empty(self, text: str) -> bool:
        """Return True for a file of blanks."""
        return not text.strip()

    @property
    def _header(self) -> str:
        return f"[{'.'.join(self.table)}]"


@dataclass(frozen=True, slots=True)
class OwnFile:
    """A file that is ours as a whole."""

    path: Path
    content: str

    def holds_ours(self, text: str) -> bool:
        """Return True if it says what it should."""
        return text == self.content

    def with_ours(self, text: str) -> str:
        """Return its content."""
        return self.content

    def without_ours(self, text: str) -> str:
        """Return nothing: the file goes."""
        return ""

    def is_empty(self, text: str) -> bool:
        """Return True if nothing is left."""
        return not text


def _without_empty_parents(text: str, path: json_text.Path) -> str:
    while path:
        shorter = json_text.without_empty(text, path)
        if shorter == text:
            break
        text, path = shorter, path[:-1]
    return text


def _toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise NotToml(str(error)) from None


def _toml_value(value: str | list[str] | dict[str, str]) -> str:
    """Write a value as TOML: of texts and lists of them that is JSON, but for the table's equals signs."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {json.dumps(one)}" for key, one in value.items()) + " }"
    return json.dumps(value)


def _without(document: dict[str, Any], table: tuple[str, str]) -> dict[str, Any]:
    """Return a document without one table, and without the outer one where nothing else is in it."""
    outer = {key: value for key, value in document.get(table[0], {}).items() if key != table[1]}
    rest = {key: value for key, value in document.items() if key != table[0]}
    return rest | ({table[0]: outer} if outer else {})
