"""The YAML of a file's head, loaded without surprises.

It follows YAML 1.2's core rules, not 1.1's: `no` is a word, `12:30` and `2026-11-21` are strings. What is loaded
is plain (str, int, float, bool, None, list, dict with str keys), bounded in size and depth.
"""

from __future__ import annotations

import base64
import re
from typing import Any

import yaml

from ..model import InvalidInput
from .frontmatter_fast import load_ours

# PyYAML's C loader recurses on the C stack: 65,000 open brackets end the process. No metadata is as deep as this.
MAX_DEPTH = 50
MAX_BYTES = 1 << 20
MAX_VALUES = 50_000  # bounds what a few nested aliases can grow into

_MAY_BE_DEEP = re.compile(rf"(?:[-?:][ \t]+){{{MAX_DEPTH}}}|^[ \t]{{{MAX_DEPTH}}}", re.M)


class Malformed(InvalidInput):
    """The text is no frontmatter; the message says why, with a line where one is known."""


class Loader(yaml.CSafeLoader):
    """PyYAML's loader with the resolvers of YAML 1.2's core schema."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own shape


for _tag, _pattern, _firsts in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+."),
):
    Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})$"), list(_firsts))


def load(text: str) -> dict[str, Any]:
    """Read frontmatter without its fences. Raises Malformed."""
    if len(text) > MAX_BYTES:
        raise Malformed("its frontmatter is larger than 1 MiB")
    ours = load_ours(text)
    return load_yaml(text) if ours is None else ours


def load_yaml(text: str) -> dict[str, Any]:
    """Read any frontmatter, ours or not. Raises Malformed."""
    root = compose(text)
    if root is None:
        return {}
    loader = Loader("")
    try:
        value = loader.construct_document(root)
    except _REFUSALS as refused:
        raise Malformed(_reason(refused)) from refused
    finally:
        loader.dispose()
    return _plain_mapping(value)


_REFUSALS = (yaml.YAMLError, ValueError, KeyError, AttributeError, TypeError, OverflowError, RecursionError)


def compose(text: str) -> yaml.MappingNode | None:
    """Return the nodes of a frontmatter with their places, or None for an empty one. Raises Malformed."""
    try:
        if text.count("[") + text.count("{") > MAX_DEPTH or _MAY_BE_DEEP.search(text):
            _check_depth(text)
        node = yaml.compose(text, Loader=Loader)
    except _REFUSALS as refused:
        raise Malformed(_reason(refused)) from refused
    if node is not None and not isinstance(node, yaml.MappingNode):
        raise Malformed("its frontmatter is not a mapping of keys to values")
    return node


def _check_depth(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:  # at once: the scanner's own time is quadratic in the depth
            raise Malformed("its frontmatter is nested too deeply")


def _reason(refused: Exception) -> str:
    if isinstance(refused, yaml.MarkedYAMLError):
        mark = refused.problem_mark
        where = f" in line {mark.line + 2}" if mark is not None else ""  # the fence is line 1
        return f"its frontmatter is not YAML: {refused.problem or 'unreadable'}{where}"
    return "its frontmatter is not YAML"


def _plain_mapping(value: Any) -> dict[str, Any]:
    left = MAX_VALUES

    def plain(item: Any, depth: int) -> Any:
        nonlocal left
        left -= 1
        if left < 0 or depth > MAX_DEPTH:
            raise Malformed("its frontmatter is too large once its aliases are followed")
        if item is None or isinstance(item, (str, bool, int, float)):
            return item
        if isinstance(item, dict):
            return {key_text(key): plain(inner, depth + 1) for key, inner in item.items()}
        if isinstance(item, (list, tuple, set)):
            return [plain(inner, depth + 1) for inner in item]
        return base64.b64encode(item).decode() if isinstance(item, bytes) else str(item)

    result: dict[str, Any] = plain(value, 0)
    return result


def key_text(key: object) -> str:
    """Return a key as the string that it is for us."""
    if isinstance(key, str):
        return key
    if isinstance(key, bool) or key is None:
        return {True: "true", False: "false", None: "null"}[key]
    return str(key)
