"""Edits of JSON with comments, as a person wrote it: parts are inserted and removed, and the rest keeps its bytes.

A new member or item is one piece of text, inserted first where the order is free: the comma of no other line changes,
and removing it restores the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Path = tuple[str, ...]

# Blanks and comments, of both kinds. Matches the empty text, so that it never fails.
_BLANK = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SCALAR = re.compile(r"[^\s,\[\]{}/]+")
DEEPEST = 100


class NotJson(ValueError):
    """A text that is neither JSON nor JSON with comments."""


@dataclass(slots=True)
class JsonNode:
    """A value and its span, [start, end), in the text. `parts` are those of an object or array: key, start, value."""

    start: int
    end: int
    value: Any
    parts: list[tuple[str, int, JsonNode]] = field(default_factory=list)

    def member(self, key: str) -> JsonNode | None:
        """Return an object's member, None without one; of equal keys the last, as JSON parsers do."""
        return next((node for name, _, node in reversed(self.parts) if name == key), None)


def read(text: str) -> Any:
    """Return the value of a text; an empty text is an empty object. Raises NotJson."""
    return _parse(text).value


def with_member(text: str, path: Path, value: Any) -> str:
    """Set a member, and make the objects of its path; an existing member is replaced where it is."""
    root = _parse(text)
    if not text.strip():
        return _dump(_nested(path, value), "", _unit(text, root)) + "\n"
    node, depth = _deepest(root, path)
    if depth == len(path):
        return text[: node.start] + _dump(value, _indent_at(text, node.start), _unit(text, root)) + text[node.end :]
    if not isinstance(node.value, dict):
        raise NotJson(f"{'.'.join(path[:depth])} is no object")
    return _with_first(text, root, node, path[depth], _nested(path[depth + 1 :], value))


def with_item(text: str, path: Path, item: Any, *, last: bool = False) -> str:
    """Insert an item into an array, first or last, and make the array if it is missing."""
    root = _parse(text)
    node, depth = _deepest(root, path)
    if depth < len(path):
        return with_member(text, path, [item])
    if not isinstance(node.value, list):
        raise NotJson(f"{'.'.join(path)} is no array")
    if last and node.parts:
        return _with_last(text, root, node, item)
    return _with_first(text, root, node, None, item)


def without(text: str, path: Path, unwanted: Callable[[Any], bool] | None = None) -> str:
    """Remove a member; with `unwanted` remove from the array there each item for which it returns True."""
    node, depth = _deepest(_parse(text), path)
    if depth < len(path):
        return text
    if unwanted is None:
        parent, _ = _deepest(_parse(text), path[:-1])
        return _cut(text, parent, next(part for part in reversed(parent.parts) if part[0] == path[-1]))
    # Each cut moves the spans of the items behind it, so the text is parsed again.
    while isinstance(node.value, list) and (found := next((p for p in node.parts if unwanted(p[2].value)), None)):
        text = _cut(text, node, found)
        node, _ = _deepest(_parse(text), path)
    return text


def without_empty(text: str, path: Path) -> str:
    """Remove a member that is an empty object or array."""
    return without(text, path) if value_at(text, path) in ({}, []) else text


def value_at(text: str, path: Path) -> Any:
    """Return the value at a path, None where there is none."""
    node, depth = _deepest(_parse(text), path)
    return node.value if depth == len(path) else None


# ---- reading


def _parse(text: str) -> JsonNode:
    at = _skip(text, 0)
    if at == len(text):
        return JsonNode(0, len(text), {})
    node = _value(text, at, 0)
    if _skip(text, node.end) != len(text):
        raise NotJson(f"there is more after the end, at character {node.end}")
    return node


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    assert found is not None
    return found.end()


def _value(text: str, at: int, depth: int) -> JsonNode:
    # Each level is a call: Python's own limit would end in a RecursionError, in any frame.
    if depth > DEEPEST:
        raise NotJson("it is nested too deeply")
    match text[at : at + 1]:
        case "{":
            return _parts(text, at, "}", depth)
        case "[":
            return _parts(text, at, "]", depth)
        case '"':
            found = _STRING.match(text, at)
        case _:
            found = _SCALAR.match(text, at)
    if found is None:
        raise NotJson(f"no value at character {at}")
    try:
        return JsonNode(at, found.end(), json.loads(found[0], strict=False))
    except ValueError as error:
        raise NotJson(f"no value at character {at}: {error}") from None


def _parts(text: str, start: int, closing: str, depth: int) -> JsonNode:
    """Parse an object or an array from its opening bracket; a comma after the last part is allowed."""
    node = JsonNode(start, start, {} if closing == "}" else [])
    at = _skip(text, start + 1)
    while text[at : at + 1] != closing:
        key, key_start = "", at
        if closing == "}":
            name = _value(text, at, depth + 1)
            if not isinstance(name.value, str):
                raise NotJson(f"no name at character {at}")
            key, at = name.value, _skip(text, name.end)
            if text[at : at + 1] != ":":
                raise NotJson(f"no colon at character {at}")
            at = _skip(text, at + 1)
        part = _value(text, at, depth + 1)
        node.parts.append((key, key_start, part))
        at = _skip(text, part.end)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        elif text[at : at + 1] != closing:
            raise NotJson(f"no comma at character {at}")
    node.end = at + 1
    node.value = (
        {key: part.value for key, _, part in node.parts} if closing == "}" else [p.value for *_, p in node.parts]
    )
    return node


def _deepest(root: JsonNode, path: Path) -> tuple[JsonNode, int]:
    """Return the deepest existing node on a path, and the number of names that lead to it."""
    node = root
    for depth, key in enumerate(path):
        below = node.member(key) if isinstance(node.value, dict) else None
        if below is None:
            return node, depth
        node = below
    return node, len(path)


# ---- writing


def _with_first(text: str, root: JsonNode, node: JsonNode, key: str | None, value: Any) -> str:
    """Insert a part first into an object or array, formatted like the first part there."""
    name = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    opening, unit = node.start + 1, _unit(text, root)
    if not node.parts:
        indent = _indent_at(text, node.start)
        inside = f"\n{indent}{unit}{name}{_dump(value, indent + unit, unit)}"
        rest = text[opening:]
        # A comment or line break behind the bracket stays where it is; other text gets a line of its own.
        return text[:opening] + inside + (rest if rest.lstrip(" \t").startswith(("\n", "/")) else f"\n{indent}{rest}")
    first = node.parts[0][1]
    if "\n" not in text[opening:first]:
        return f"{text[:opening]}{name}{json.dumps(value, ensure_ascii=False)}, {text[opening:]}"
    indent = _indent_at(text, first)
    return f"{text[:opening]}\n{indent}{name}{_dump(value, indent, unit)},{text[opening:]}"


def _with_last(text: str, root: JsonNode, node: JsonNode, item: Any) -> str:
    """Insert an item behind the last one, formatted like that one."""
    _, start, before = node.parts[-1]
    if "\n" not in text[node.start : start]:
        return f"{text[: before.end]}, {json.dumps(item, ensure_ascii=False)}{text[before.end :]}"
    indent = _indent_at(text, start)
    return f"{text[: before.end]},\n{indent}{_dump(item, indent, _unit(text, root))}{text[before.end :]}"


def _cut(text: str, node: JsonNode, part: tuple[str, int, JsonNode]) -> str:
    """Cut a part with its comma and the blanks before it; empty brackets close up."""
    number = next(number for number, one in enumerate(node.parts) if one is part)
    start, end = part[1], part[2].end
    # On one line, `[a, b]` without `a` is `[b]`: the space behind the comma goes with it.
    is_inline = number == 0 and "\n" not in text[node.start : start]
    while text[start - 1].isspace():
        start -= 1
    # The comma may follow a comment, which stays: only the part and the comma are cut.
    comma = _skip(text, end)
    if text[comma : comma + 1] == ",":
        text = text[:start] + text[end:comma] + text[comma + 1 :]
        if is_inline and text[start : start + 1] == " ":
            text = text[:start] + text[start + 1 :]
    elif number > 0:
        # The last part has no comma behind it, so the one before it would be left over.
        previous = text.index(",", node.parts[number - 1][2].end)
        text = text[:previous] + text[previous + 1 : start] + text[end:]
    else:
        text = text[:start] + text[end:]
    # `[\n]` becomes `[]`, as it was before our item was inserted.
    left = _skip_spaces(text, node.start + 1)
    return text[: node.start + 1] + text[left:] if len(node.parts) == 1 and text[left : left + 1] in "]}" else text


def _skip_spaces(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _dump(value: Any, indent: str, unit: str) -> str:
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", f"\n{indent}")


def _nested(path: Path, value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _unit(text: str, root: JsonNode) -> str:
    """Return the indentation of one level: that of the root's first part, two spaces if that has no line of its own."""
    return (_indent_at(text, root.parts[0][1]) if root.parts else "") or "  "


def _indent_at(text: str, at: int) -> str:
    """Return the indentation of the line at a position."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]
