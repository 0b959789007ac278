"""The YAML that we write: plain scalars, flow lists, lists of flat mappings; the same bytes for the same values."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import date, datetime
from functools import lru_cache
from typing import Any

from ..model import InvalidInput

_UNSAFE_IN_QUOTES = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_SURROGATES = re.compile("[\ud800-\udfff]")

# Letters first, then nothing that any YAML (1.1 or 1.2, block or flow) could take for something else.
PLAIN = re.compile(r"[A-Za-z_/](?:[A-Za-z0-9_/.+@()-]|,? (?=[A-Za-z0-9_/(])|'(?=[a-z])|:(?=[A-Za-z]))*")
PLAIN_IN_FLOW = re.compile(r"[A-Za-z_/](?:[A-Za-z0-9_/.+@-]| (?=[A-Za-z0-9_/])|:(?=[A-Za-z]))*")
NOT_A_STRING = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})

_SHORT = 40
_MAX_KEY = 500  # YAML's bound is 1,024, quotes and escapes included
_quote = json.JSONEncoder(ensure_ascii=False).encode


def entry(key: str, value: Any, newline: str = "\n") -> str:
    """Return the line or lines of one key. Raises InvalidInput for what frontmatter cannot hold."""
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
    """Return a value as it will be read back. Raises InvalidInput for what frontmatter cannot hold."""
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
    """Return what follows a key's colon: one line, or a list of flat mappings on lines of their own."""
    if isinstance(value, list) and value and all(_is_flat(item) for item in value):
        return "".join(f"{newline}  - {_block_item(item, newline)}" for item in value)
    return f" {_flow(value)}"


def _is_flat(item: Any) -> bool:
    return isinstance(item, dict) and bool(item) and not any(isinstance(inner, (dict, list)) for inner in item.values())


def _block_item(item: Mapping[str, Any], newline: str) -> str:
    return f"{newline}    ".join(f"{scalar(key)}: {scalar(inner)}" for key, inner in item.items())


def _flow(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_flow_item(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{ {_flow_pairs(value)} }}" if value else "{}"
    return scalar(value)


def _flow_item(value: Any) -> str:
    return _flow(value) if isinstance(value, (list, dict)) else scalar(value, PLAIN_IN_FLOW)


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
