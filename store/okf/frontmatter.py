"""The YAML of a file's head, read without surprises and written in one form.

It follows YAML 1.2's core rules, not 1.1's: `no` is a word, `12:30` and `2026-11-21` are strings. Values read are plain
(str, int, float, bool, None, list, dict with str keys), bounded in size and depth. Values are written as plain scalars,
flow lists, and lists of flat mappings; the same values give the same bytes.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping
from datetime import date, datetime
from functools import lru_cache
from typing import Any

import yaml

from ..model import InvalidInput

# PyYAML's C loader recurses on the C stack: 65,000 open brackets end the process. No metadata is as deep as this.
MAX_DEPTH = 50
MAX_BYTES = 1 << 20
MAX_VALUES = 50_000  # a few nested aliases could grow into millions

_MAY_BE_DEEP = re.compile(rf"(?:[-?:][ \t]+){{{MAX_DEPTH}}}|^[ \t]{{{MAX_DEPTH}}}", re.M)

_UNSAFE_IN_QUOTES = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_SURROGATES = re.compile("[\ud800-\udfff]")

# Letters first, then nothing that any YAML (1.1 or 1.2, block or flow) could take for something else.
PLAIN = re.compile(r"[A-Za-z_/](?:[A-Za-z0-9_/.+@()-]|,? (?=[A-Za-z0-9_/(])|'(?=[a-z])|:(?=[A-Za-z]))*")
PLAIN_IN_FLOW = re.compile(r"[A-Za-z_/](?:[A-Za-z0-9_/.+@-]| (?=[A-Za-z0-9_/])|:(?=[A-Za-z]))*")
NOT_A_STRING = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})

_SHORT = 40
_MAX_KEY = 500  # YAML's bound is 1,024, quotes and escapes included
_quote = json.JSONEncoder(ensure_ascii=False).encode


class MalformedFrontmatter(InvalidInput):
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
    """Read frontmatter without its fences. Raises MalformedFrontmatter."""
    if len(text) > MAX_BYTES:
        raise MalformedFrontmatter("its frontmatter is larger than 1 MiB")
    ours = load_ours(text)
    return load_yaml(text) if ours is None else ours


def load_yaml(text: str) -> dict[str, Any]:
    """Read any frontmatter, ours or not. Raises MalformedFrontmatter."""
    root = compose(text)
    if root is None:
        return {}
    loader = Loader("")
    try:
        value = loader.construct_document(root)
    except _REFUSALS as refused:
        raise MalformedFrontmatter(_reason(refused)) from refused
    finally:
        loader.dispose()
    return _plain_mapping(value)


_REFUSALS = (yaml.YAMLError, ValueError, KeyError, AttributeError, TypeError, OverflowError, RecursionError)


def compose(text: str) -> yaml.MappingNode | None:
    """Return the nodes of a frontmatter with their places, or None for an empty one. Raises MalformedFrontmatter."""
    try:
        if text.count("[") + text.count("{") > MAX_DEPTH or _MAY_BE_DEEP.search(text):
            _check_depth(text)
        node = yaml.compose(text, Loader=Loader)
    except _REFUSALS as refused:
        raise MalformedFrontmatter(_reason(refused)) from refused
    if node is not None and not isinstance(node, yaml.MappingNode):
        raise MalformedFrontmatter("its frontmatter is not a mapping of keys to values")
    return node


def _check_depth(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:  # at once: the scanner's own time is quadratic in the depth
            raise MalformedFrontmatter("its frontmatter is nested too deeply")


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
            raise MalformedFrontmatter("its frontmatter is too large once its aliases are followed")
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


# ---- the frontmatter that we write ourselves, read ten times faster than by YAML's loader

# One line at a time, and only lines that mean the same to every YAML reader; for any other the reader declines. A
# rebuild of the index reads every file of the vault, and nearly all of them are ours.
# Not \ud800 to \udfff: half of a surrogate pair in an escape reads differently in JSON and YAML.
_QUOTED = r'"(?:[^"\\]|\\(?:["\\bfnrt]|u(?![dD])[0-9A-Fa-f]{4}))*"'
_NUMBER = r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?"
_ITEM = rf"(?:{_QUOTED}|{_NUMBER}|{PLAIN_IN_FLOW.pattern})"
_KEY = r"[a-z_]{1,64}"
_PAIR = rf"{_KEY}: {_ITEM}"

_SCALAR = rf"({_QUOTED}|{_NUMBER}|{PLAIN.pattern})"
_LINE = re.compile(
    rf"({_KEY}):(?: {_SCALAR}| \[((?:{_ITEM}(?:, {_ITEM})*)?)\]| \{{ ({_PAIR}(?:, {_PAIR})*) \}}|((?=\n  - )))\n"
)
_INNER_LINE = re.compile(rf"  (- |  )({_KEY}): {_SCALAR}\n")
_ITEMS = re.compile(_ITEM)
_FLOW_LINE = re.compile(rf"({_KEY}): (?=[\[{{])")
_FLOW_KEY = re.compile(rf"({_KEY}): ")
_MOST_NESTED = 6
_PAIRS = re.compile(rf"({_KEY}): ({_ITEM})")


class _Unknown(Exception):
    pass


def load_ours(text: str) -> dict[str, Any] | None:
    """Read frontmatter as `frontmatter.load` would, or return None when it is not plainly of our own writing."""
    # YAML forbids some characters unquoted and folds others (NEL, LS): leave any such text to the real reader.
    if not text.isascii() and not text.replace("\n", "").isprintable():
        return None
    meta: dict[str, Any] = {}
    position = 0
    try:
        while position < len(text):
            line = _LINE.match(text, position)
            if line is None:
                key, meta[key], position = _flow_line(text, position)
                continue
            key, scalar, items, pairs, _ = line.groups()
            position = line.end()
            if scalar is not None:
                meta[key] = _value(scalar)
            elif items is not None:
                meta[key] = [_value(item) for item in _ITEMS.findall(items)]
            elif pairs is not None:
                meta[key] = {name: _value(item) for name, item in _PAIRS.findall(pairs)}
            else:
                meta[key], position = _list(text, position)
    except _Unknown:
        return None
    return meta


def _flow_line(text: str, position: int) -> tuple[str, Any, int]:
    """Read a line whose value is a list or mapping that holds others."""
    opening = _FLOW_LINE.match(text, position)
    if opening is None:
        raise _Unknown
    value, position = _flow_value(text, opening.end(), 0)
    if not text.startswith("\n", position):
        raise _Unknown
    return opening[1], value, position + 1


def _flow_value(text: str, position: int, depth: int) -> tuple[Any, int]:
    """Read a value in the one form in which `flow` writes it."""
    for empty in ("[]", "{}"):
        if text.startswith(empty, position):
            return ([] if empty == "[]" else {}), position + 2
    if depth > _MOST_NESTED:
        raise _Unknown
    if text.startswith("[", position):
        items: list[Any] = []
        while not items or text.startswith(", ", position):
            item, position = _flow_value(text, position + (2 if items else 1), depth + 1)
            items.append(item)
        return items, _after(text, position, "]")
    if text.startswith("{ ", position):
        pairs: dict[str, Any] = {}
        while not pairs or text.startswith(", ", position):
            key = _FLOW_KEY.match(text, position + 2)
            if key is None or key[1] in pairs:
                raise _Unknown
            pairs[key[1]], position = _flow_value(text, key.end(), depth + 1)
        return pairs, _after(text, position, " }")
    item = _ITEMS.match(text, position)
    if item is None:
        raise _Unknown
    return _value(item[0]), item.end()


def _after(text: str, position: int, end: str) -> int:
    if not text.startswith(end, position):
        raise _Unknown
    return position + len(end)


def _list(text: str, position: int) -> tuple[list[dict[str, Any]], int]:
    entries: list[dict[str, Any]] = []
    while (line := _INNER_LINE.match(text, position)) is not None:
        if line[1] == "- ":
            entries.append({})
        elif not entries:
            raise _Unknown
        entries[-1][line[2]] = _value(line[3])
        position = line.end()
    return entries, position


def _value(token: str) -> Any:
    first = token[0]
    if first == '"':
        if "\\" in token:
            return _decoded(token)
        if not token.isprintable():
            raise _Unknown
        return token[1:-1]
    if first in "-0123456789":
        return float(token) if "." in token else int(token)
    if token.lower() in NOT_A_STRING:
        raise _Unknown
    return token


def _decoded(token: str) -> Any:
    if not token.isprintable():
        raise _Unknown
    return json.loads(token)


# ---- writing


_IN_ONE_LINE = frozenset({"sources", "verified"})
"""The lists of mappings that are written in one line: a person reads the text below them."""


def entry(key: str, value: Any, newline: str = "\n", *, is_flat: bool = False) -> str:
    """Return the line or lines of one key. Raises InvalidInput for a value that frontmatter cannot hold."""
    if key in _IN_ONE_LINE and not is_flat:
        return f"{key}: {flow(written(value))}{newline}"
    if isinstance(value, str) and len(value) <= _SHORT:
        return _short_entry(key, str(value), newline)
    if isinstance(value, datetime):
        return f'{key}: "{value.isoformat()}"{newline}' if key.isidentifier() else _entry(key, value, newline)
    return _entry(key, value, newline)


@lru_cache(maxsize=2048)
def _short_entry(key: str, value: str, newline: str) -> str:
    """Remembered, because most lines of most files are the same: types, levels, kinds, channels."""
    return _entry(key, value, newline)


def _entry(key: str, value: Any, newline: str) -> str:
    if len(key) > _MAX_KEY:
        raise InvalidInput("a key of the frontmatter is longer than 500 characters")
    return f"{scalar(key)}:{after_colon(written(value), newline)}{newline}"


def encode(text: str) -> bytes:
    """Return UTF-8; half of a surrogate pair becomes U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text).encode()


def written(value: Any) -> Any:
    """Return a value as it will be read back. Raises InvalidInput for one that frontmatter cannot hold."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return str(value) if value.isascii() else _SURROGATES.sub("\ufffd", str(value))
    if isinstance(value, date):  # a datetime too
        return value.isoformat()
    if isinstance(value, Mapping):
        return {_SURROGATES.sub("\ufffd", str(key)): written(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [written(item) for item in value]
    raise InvalidInput(f"a {type(value).__name__} cannot be written into frontmatter")


def after_colon(value: Any, newline: str) -> str:
    """Return the text behind a key's colon: one line, or a list of flat mappings on lines of their own."""
    if isinstance(value, list) and value and all(_is_flat(item) for item in value):
        return "".join(f"{newline}  - {_block_item(item, newline)}" for item in value)
    return f" {flow(value)}"


def _is_flat(item: Any) -> bool:
    return isinstance(item, dict) and bool(item) and not any(isinstance(inner, (dict, list)) for inner in item.values())


def _block_item(item: Mapping[str, Any], newline: str) -> str:
    return f"{newline}    ".join(f"{scalar(key)}: {scalar(inner)}" for key, inner in item.items())


def flow(value: Any) -> str:
    """Return a value in one line."""
    if isinstance(value, list):
        return f"[{', '.join(_flow_item(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{ {_flow_pairs(value)} }}" if value else "{}"
    return scalar(value)


def _flow_item(value: Any) -> str:
    return flow(value) if isinstance(value, (list, dict)) else scalar(value, PLAIN_IN_FLOW)


def _flow_pairs(value: Mapping[str, Any]) -> str:
    return ", ".join(f"{scalar(key, PLAIN_IN_FLOW)}: {_flow_item(inner)}" for key, inner in value.items())


def scalar(value: Any, plain: re.Pattern[str] = PLAIN) -> str:
    """Return a single value: unquoted when no reader could mistake it, else in double quotes."""
    if isinstance(value, str):
        if plain.fullmatch(value) and value.lower() not in NOT_A_STRING:
            return value
        return _UNSAFE_IN_QUOTES.sub(lambda found: f"\\u{ord(found[0]):04x}", _quote(value))
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
