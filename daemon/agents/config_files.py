"""The settings files of agent programs: our entries are added and removed, all others keep their bytes."""

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
    """A file whose other entries would change with ours."""

    def __init__(self, path: Path, part: str) -> None:
        super().__init__(f"{part} cannot be written into {path} without changing what else is there.")
        self.hint = f"Open {path} and change {part} by hand."


class ConfigFile(Protocol):
    """One file of a program's settings. Texts are whole files; a missing file is ""."""

    @property
    def path(self) -> Path:
        """The file's path, as the program names it."""
        ...

    def holds_ours(self, text: str) -> bool:
        """Return True if the text holds our entries exactly."""
        ...

    def with_ours(self, text: str) -> str:
        """Return a text that does not hold our entries with them."""
        ...

    def without_ours(self, text: str) -> str:
        """Return the text without our entries, of this version or another."""
        ...

    def is_empty(self, text: str) -> bool:
        """Return True if nothing but brackets is left."""
        ...


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """An entry of ours in a JSON file: a member, or with `is_item` one item of an array that others use too."""

    path: json_text.Path
    value: Any
    is_item: bool = False


@dataclass(frozen=True, slots=True)
class JsonFile:
    """A JSON file, perhaps with comments. `is_ours` recognises an item of ours, of this version or another.

    The arrays of our items lie in one object, in which another version may have used others too. `required` are members
    that the program needs, whoever writes the file. `last`: our items go behind others, whose positions have a meaning.
    """

    path: Path
    entries: Sequence[ConfigEntry]
    is_ours: Callable[[Any], bool] = lambda _: False
    required: Mapping[str, Any] = field(default_factory=dict)
    last: bool = False

    def holds_ours(self, text: str) -> bool:
        """Return True if each entry has its value, and no array another item of ours."""
        members = [entry for entry in self.entries if not entry.is_item]
        if any(json_text.value_at(text, entry.path) != entry.value for entry in members):
            return False
        wanted = {entry.path: [entry.value] for entry in self.entries if entry.is_item}
        found = {path: items for path in self._arrays(text) if (items := self._ours_at(text, path))}
        return found == wanted

    def with_ours(self, text: str) -> str:
        """Add the entries, each first in its object or array, in their order."""
        # Each is inserted first, so the last entry goes in first.
        for entry in reversed(self.entries):
            if entry.is_item:
                text = json_text.with_item(text, entry.path, entry.value, last=self.last)
            else:
                text = json_text.with_member(text, entry.path, entry.value)
        for key, value in self.required.items():
            if json_text.value_at(text, (key,)) is None:
                text = json_text.with_member(text, (key,), value)
        return text

    def without_ours(self, text: str) -> str:
        """Remove the entries, and the objects and arrays that they leave empty."""
        for entry in self.entries:
            if not entry.is_item:
                text = _without_empty(json_text.without(text, entry.path), text, entry.path[:-1])
        for path in self._arrays(text):
            text = _without_empty(json_text.without(text, path, self.is_ours), text, path)
        return text

    def is_empty(self, text: str) -> bool:
        """Return True for a file without a comment, and without members other than the required ones."""
        for key in self.required:
            text = json_text.without(text, (key,))
        return text.strip() in ("", "{}")

    def _arrays(self, text: str) -> list[json_text.Path]:
        """Return the paths of the arrays that may hold items of ours, in the entries' order."""
        own = [entry.path for entry in self.entries if entry.is_item]
        around = dict.fromkeys(path[:-1] for path in own)
        objects = [(path, value) for path in around if isinstance(value := json_text.value_at(text, path), dict)]
        return list(dict.fromkeys([*own, *((*path, key) for path, value in objects for key in value)]))

    def _ours_at(self, text: str, path: json_text.Path) -> list[Any]:
        value = json_text.value_at(text, path)
        return [item for item in value if self.is_ours(item)] if isinstance(value, list) else []


@dataclass(frozen=True, slots=True)
class TomlFile:
    """A TOML file in which one table is ours: its header and keys, at the end of the file.

    The text is edited by lines, and the result is parsed and compared: tomlkit, which was tried, moves other lines.
    """

    path: Path
    table: tuple[str, str]
    value: Mapping[str, str | list[str] | dict[str, str]]

    def holds_ours(self, text: str) -> bool:
        """Return True if the table has our value."""
        return _toml(text).get(self.table[0], {}).get(self.table[1]) == self.value  # type: ignore[no-any-return]

    def with_ours(self, text: str) -> str:
        """Add the table at the end, after a blank line. Raises Unwritable if the result differs in other tables."""
        # After a blank line, also where the last line of the file has no line break.
        between = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        keys = "".join(f"{key} = {_toml_value(value)}\n" for key, value in self.value.items())
        written = f"{text}{between}{self._header}\n{keys}"
        if _without_table(_toml(written), self.table) != _without_table(_toml(text), self.table):
            raise Unwritable(self.path, self._header)
        if not self.holds_ours(written):
            raise Unwritable(self.path, self._header)
        return written

    def without_ours(self, text: str) -> str:
        """Remove the table's lines and the blank line before. Raises Unwritable if the result differs elsewhere."""
        wanted = _without_table(_toml(text), self.table)
        if _toml(text) == wanted:
            return text
        kept: list[str] = []
        is_inside = False
        for line in text.splitlines(keepends=True):
            if line.rstrip() == self._header:
                is_inside = True
                if kept and kept[-1] in ("\n", "\r\n"):
                    kept.pop()
            # Our table ends at a blank line, a comment, or the next header: all of them are others' lines.
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
        """Return True if it has our content."""
        return text == self.content

    def with_ours(self, text: str) -> str:
        """Return our content."""
        return self.content

    def without_ours(self, text: str) -> str:
        """Return "": the file is removed."""
        return ""

    def is_empty(self, text: str) -> bool:
        """Return True if nothing is left."""
        return not text


def _without_empty(left: str, text: str, path: json_text.Path) -> str:
    """Remove from `left`, which was `text`, the object or array at a path and those around it, if they became empty."""
    while left != text and path:
        text, left, path = left, json_text.without_empty(left, path), path[:-1]
    return left


def _toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise NotToml(str(error)) from None


def _toml_value(value: str | list[str] | dict[str, str]) -> str:
    """Format a value as TOML: for texts and lists of texts that is JSON, for an inline table not quite."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {json.dumps(one)}" for key, one in value.items()) + " }"
    return json.dumps(value)


def _without_table(document: dict[str, Any], table: tuple[str, str]) -> dict[str, Any]:
    """Return a document without one table, and without the outer table if nothing else is in it."""
    outer = {key: value for key, value in document.get(table[0], {}).items() if key != table[1]}
    rest = {key: value for key, value in document.items() if key != table[0]}
    return rest | ({table[0]: outer} if outer else {})
