"""The YAML of a file's head: loaded without surprises, written by a small emitter, edited key by key.

Loading follows YAML 1.2's core rules, not 1.1's: `no` is a word, `12:30` and `2026-11-21` are strings. What is loaded
is plain (str, int, float, bool, None, list, dict with str keys), bounded in size and depth.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import yaml

from ..model import InvalidInput

# PyYAML's C loader recurses on the C stack: 65,000 open brackets end the process. No metadata is as deep as this.
MAX_DEPTH = 50
MAX_BYTES = 1 << 20
MAX_VALUES = 50_000  # bounds what a few nested aliases can grow into

_MAY_BE_DEEP = re.compile(rf"(?:[-?:][ \t]+){{{MAX_DEPTH}}}|^[ \t]{{{MAX_DEPTH}}}", re.M)
_UNSAFE_IN_QUOTES = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_SURROGATES = re.compile("[\ud800-\udfff]")

# Letters first, then nothing that any YAML (1.1 or 1.2, block or flow) could take for something else.
_PLAIN = re.compile(r"[A-Za-z_/](?:[A-Za-z0-9_/.+@()-]|,? (?=[A-Za-z0-9_/(])|'(?=[a-z])|:(?=[A-Za-z]))*")
_PLAIN_IN_FLOW = re.compile(r"[A-Za-z_/](?:[A-Za-z0-9_/.+@-]| (?=[A-Za-z0-9_/])|:(?=[A-Za-z]))*")
_NOT_A_STRING = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


class Malformed(InvalidInput):
    """The text is no frontmatter; the message says why, with a line where one is known."""


class _Loader(yaml.CSafeLoader):
    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own shape


for _tag, _pattern, _firsts in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", "-+."),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})$"), list(_firsts))


def load(text: str) -> dict[str, Any]:
    """Read frontmatter without its fences. Raises Malformed."""
    root = _compose(text)
    if root is None:
        return {}
    loader = _Loader("")
    try:
        value = loader.construct_document(root)
    except _REFUSALS as refused:
        raise Malformed(_reason(refused)) from refused
    finally:
        loader.dispose()
    return _plain_mapping(value)


def entry(key: str, value: Any, newline: str = "\n") -> str:
    """Return the line or lines of one key."""
    return f"{_scalar(key)}:{_after_colon(written(value), newline)}{newline}"


def encode(text: str) -> bytes:
    """Return UTF-8; half of a surrogate pair becomes U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text).encode()


def written(value: Any) -> Any:
    """Return a value as it will be read back. Raises InvalidInput for what frontmatter cannot hold."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return _SURROGATES.sub("\ufffd", str(value))
    if isinstance(value, date):  # a datetime too
        return value.isoformat()
    if isinstance(value, Mapping):
        return {_SURROGATES.sub("\ufffd", str(key)): written(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [written(item) for item in value]
    raise InvalidInput(f"a {type(value).__name__} cannot be written into frontmatter")


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


_REFUSALS = (yaml.YAMLError, ValueError, KeyError, AttributeError, TypeError, OverflowError, RecursionError)


def _compose(text: str) -> yaml.MappingNode | None:
    if len(text) > MAX_BYTES:
        raise Malformed("its frontmatter is larger than 1 MiB")
    try:
        if text.count("[") + text.count("{") > MAX_DEPTH or _MAY_BE_DEEP.search(text):
            _check_depth(text)
        node = yaml.compose(text, Loader=_Loader)
    except _REFUSALS as refused:
        raise Malformed(_reason(refused)) from refused
    if node is not None and not isinstance(node, yaml.MappingNode):
        raise Malformed("its frontmatter is not a mapping of keys to values")
    return node


def _check_depth(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
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
            return {key if isinstance(key, str) else _key(key): plain(inner, depth + 1) for key, inner in item.items()}
        if isinstance(item, (list, tuple, set)):
            return [plain(inner, depth + 1) for inner in item]
        return base64.b64encode(item).decode() if isinstance(item, bytes) else str(item)

    result: dict[str, Any] = plain(value, 0)
    return result


def _key(key: object) -> str:
    if isinstance(key, bool) or key is None:
        return {True: "true", False: "false", None: "null"}[key]
    return str(key)


# --- writing


def _after_colon(value: Any, newline: str) -> str:
    if isinstance(value, list) and value and all(_is_flat(item) for item in value):
        return "".join(f"{newline}  - {_block_item(item, newline)}" for item in value)
    return f" {_flow(value)}"


def _is_flat(item: Any) -> bool:
    return isinstance(item, dict) and bool(item) and not any(isinstance(inner, (dict, list)) for inner in item.values())


def _block_item(item: Mapping[str, Any], newline: str) -> str:
    return f"{newline}    ".join(f"{_scalar(key)}: {_scalar(inner)}" for key, inner in item.items())


def _flow(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_flow_item(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{ {_flow_pairs(value)} }}" if value else "{}"
    return _scalar(value)


def _flow_item(value: Any) -> str:
    return _flow(value) if isinstance(value, (list, dict)) else _scalar(value, _PLAIN_IN_FLOW)


def _flow_pairs(value: Mapping[str, Any]) -> str:
    return ", ".join(f"{_scalar(key, _PLAIN_IN_FLOW)}: {_flow_item(inner)}" for key, inner in value.items())


def _scalar(value: Any, plain: re.Pattern[str] = _PLAIN) -> str:
    if isinstance(value, str):
        if plain.fullmatch(value) and value.lower() not in _NOT_A_STRING:
            return value
        return _UNSAFE_IN_QUOTES.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float(value)
    return str(value)


def _float(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    mantissa, e, exponent = repr(value).partition("e")
    return mantissa if not e else f"{mantissa}{'' if '.' in mantissa else '.0'}e{exponent}"


# --- editing


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
    root = _compose(text)
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
        pieces.append(_replacement(text, found, value, newline) if keep_style else _after_colon(value, newline))
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
            key=_key(key.value) if not isinstance(key.value, str) else key.value,
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
    """What follows the colon, in the style of what stood there."""
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
                f"{_scalar(key, _PLAIN_IN_FLOW)}: {_styled(item, styles_of.get(key), in_flow=True)}"
                for key, item in value.items()
            )
            return f"{gap}{{{pad}{', '.join(pairs)}{pad}}}"
    return _after_colon(value, newline)


def _holds_collections(values: list[Any]) -> bool:
    return any(isinstance(value, (list, dict)) for value in values)


def _style_at(node: yaml.SequenceNode, index: int) -> str | None:
    item = node.value[min(index, len(node.value) - 1)] if node.value else None
    return item.style if isinstance(item, yaml.ScalarNode) else None


def _styled(value: Any, style: str | None, *, in_flow: bool) -> str:
    if not isinstance(value, str):
        return _scalar(value)
    if style == "'" and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    if not style and _reads_plain(value, in_flow=in_flow):
        return value
    if style == '"':
        return _scalar(value, _NEVER)
    return _scalar(value, _PLAIN_IN_FLOW if in_flow else _PLAIN)


_NEVER = re.compile(r"(?!)")


def _reads_plain(value: str, *, in_flow: bool) -> bool:
    """Whether the loader itself reads these characters, unquoted, as this very string."""
    if not value or not value.isprintable():
        return False
    try:
        node = yaml.compose(f"[{value}]" if in_flow else f"k: {value}", Loader=_Loader)
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
    """Equality that tells 1 from 1.0 and from true, and not one NaN from another."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)
