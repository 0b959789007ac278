"""Changing single keys of a frontmatter: the lines of the others, the comments and the order stay as they are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from .frontmatter import Loader, Malformed, compose, key_text, load
from .frontmatter_dump import PLAIN, PLAIN_IN_FLOW, after_colon, entry, scalar, written


def edit(text: str, changes: Mapping[str, Any], newline: str) -> str:
    """Set or (None) remove top-level keys. Raises Malformed when that cannot be done without touching others."""
    before = load(text)
    wanted = {key: written(value) for key, value in changes.items()}
    changed = {
        key: value
        for key, value in wanted.items()
        if (key in before if value is None else key not in before or not _same(value, before[key]))
    }
    if not changed:
        return text
    after = {key: value for key, value in (before | wanted).items() if key not in wanted or value is not None}
    for keep_style in (True, False):
        edited = _splice(text, changed, newline, keep_style=keep_style)
        try:
            if _same(load(edited), after):
                return edited
        except Malformed:
            continue
    raise Malformed("its layout is too unusual to change one key alone")


@dataclass(frozen=True, slots=True)
class _Entry:
    """Where a top-level key is: [start, end) without the rest of its last line, which ends at `line_end`."""

    key: str
    start: int
    end: int
    line_end: int
    key_end: int
    value: yaml.Node


def _splice(text: str, changed: Mapping[str, Any], newline: str, *, keep_style: bool) -> str:
    root = compose(text)
    if root is not None and root.flow_style:
        raise Malformed("its frontmatter is one flow mapping")
    entries = list(_entries(text, root)) if root is not None else []
    pieces: list[str] = []
    position = 0
    done: set[str] = set()
    for found in entries:
        if found.key not in changed:
            continue
        value = changed[found.key]
        pieces.append(text[position : found.start])
        if value is None or found.key in done:
            position = found.line_end
            continue
        done.add(found.key)
        pieces.append(text[found.start : found.key_end])
        pieces.append(_replacement(text, found, value, newline) if keep_style else after_colon(value, newline))
        position = found.end
    pieces.append(text[position:])
    indent = " " * root.start_mark.column if root is not None else ""
    for key, value in changed.items():
        if value is not None and key not in done:
            pieces.append(indent + entry(key, value, newline).replace("\n", "\n" + indent).removesuffix(indent))
    return "".join(pieces)


def _entries(text: str, root: yaml.MappingNode) -> Iterator[_Entry]:
    for key, value in root.value:
        start = text.rfind("\n", 0, key.start_mark.index) + 1 if key.start_mark.column else key.start_mark.index
        if value.start_mark.index < key.end_mark.index:  # an alias: the node stands elsewhere
            end = value_start = text.index("\n", key.end_mark.index)
        else:
            end, value_start = max(_end_of(text, value), key.end_mark.index), value.start_mark.index
        colon = text.index(":", key.end_mark.index)
        line_end = text.find("\n", end)
        yield _Entry(
            key=key_text(key.value) if not isinstance(key.value, str) else key.value,
            start=start,
            end=max(end, colon + 1),
            line_end=len(text) if line_end < 0 else line_end + 1,
            key_end=colon + 1,
            value=value if value_start == value.start_mark.index else yaml.ScalarNode("", ""),
        )


def _end_of(text: str, node: yaml.Node) -> int:
    """Where a value really ends; the loader's own mark of a block lies behind the comments that follow it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return max(_end_of(text, part) for part in (last if isinstance(last, tuple) else (last,)))
    end: int = node.end_mark.index
    if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
        kept = text[node.start_mark.index : end].split("\n")
        while len(kept) > 1 and not kept[-1].strip():
            kept.pop()
        end = node.start_mark.index + len("\n".join(kept).removesuffix("\r"))
    return end


def _replacement(text: str, found: _Entry, value: Any, newline: str) -> str:
    """Return the text after the colon, in the style of the old value."""
    node = found.value
    gap = text[found.key_end : node.start_mark.index] if node.start_mark else " "
    gap = gap if gap and not gap.strip(" ") else " "
    if isinstance(value, str) and isinstance(node, yaml.ScalarNode):
        return gap + _styled(value, node.style, in_flow=False)
    if isinstance(value, list) and isinstance(node, yaml.SequenceNode) and value and not _holds_collections(value):
        if node.flow_style:
            return (
                f"{gap}[{', '.join(_styled(item, _style_at(node, n), in_flow=True) for n, item in enumerate(value))}]"
            )
        indent = " " * max(node.start_mark.column, 0)
        styles = (_style_at(node, n) for n in range(len(value)))
        return "".join(
            f"{newline}{indent}- {_styled(item, style, in_flow=False)}"
            for item, style in zip(value, styles, strict=True)
        )
    if isinstance(value, dict) and isinstance(node, yaml.MappingNode) and node.flow_style and value:
        styles_of = {key.value: inner.style for key, inner in node.value if isinstance(inner, yaml.ScalarNode)}
        if not _holds_collections(list(value.values())):
            pad = " " if text[node.start_mark.index + 1] == " " else ""
            pairs = (
                f"{scalar(key, PLAIN_IN_FLOW)}: {_styled(item, styles_of.get(key), in_flow=True)}"
                for key, item in value.items()
            )
            return f"{gap}{{{pad}{', '.join(pairs)}{pad}}}"
    return after_colon(value, newline)


def _holds_collections(values: list[Any]) -> bool:
    return any(isinstance(value, (list, dict)) for value in values)


def _style_at(node: yaml.SequenceNode, index: int) -> str | None:
    item = node.value[min(index, len(node.value) - 1)] if node.value else None
    return item.style if isinstance(item, yaml.ScalarNode) else None


def _styled(value: Any, style: str | None, *, in_flow: bool) -> str:
    if not isinstance(value, str):
        return scalar(value)
    if style == "'" and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    if not style and _reads_plain(value, in_flow=in_flow):
        return value
    if style == '"':
        return scalar(value, _NEVER)
    return scalar(value, PLAIN_IN_FLOW if in_flow else PLAIN)


_NEVER = re.compile(r"(?!)")


def _reads_plain(value: str, *, in_flow: bool) -> bool:
    """Return True if the YAML loader reads these characters, unquoted, as this very string."""
    if not value or not value.isprintable():
        return False
    try:
        node = yaml.compose(f"[{value}]" if in_flow else f"k: {value}", Loader=Loader)
    except yaml.YAMLError:
        return False
    if not isinstance(node, yaml.CollectionNode):
        return False
    items = node.value if in_flow else node.value[0][1:]
    return (
        len(items) == 1
        and isinstance(items[0], yaml.ScalarNode)
        and not items[0].style
        and items[0].tag == "tag:yaml.org,2002:str"
        and items[0].value == value
    )


def _same(a: Any, b: Any) -> bool:
    """Compare so that 1, 1.0 and true differ, and one NaN equals another."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)
