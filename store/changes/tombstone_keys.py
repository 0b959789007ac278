"""Keys under which a tombstone forbids dreams a memory, an edit, or a link between two memories."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from .. import okf
from ..model import Level, Memory, NodeId
from ..okf.memory_file import BY_HAND, EDITED_AT
from ..text.words import folded_words

_TIMES: Final = frozenset(
    {"timestamp", "generated", "valid_from", "valid_to", "archived_at", "learned_at", EDITED_AT, "at"}
)
_OF_THE_RUN: Final = frozenset({"run", BY_HAND})


def fingerprint(memory: Memory) -> str:
    """Return the key under which a tombstone forbids a memory: of a fact by its words, of a page by its sources.

    Case, punctuation, spacing and formatting do not count; channel and level do.
    """
    if memory.level in {Level.SESSION, Level.FACT} or not memory.sources:
        words = folded_words(memory.text)
    else:
        words = [memory.kind.value, *sorted(set(memory.sources))]
    return f"{memory.level.value}:{_digest(memory.channel, *words)}"


def pair_key(one: NodeId, other: NodeId) -> str:
    """Return the key of a decision about two memories, in either order."""
    return "pair:" + "+".join(sorted((one, other)))


def edit_key(path: str, before: bytes | None, after: bytes | None) -> str | None:
    """Return the key of an edit by the words, evidence and status that it changes, not by the times that it sets.

    None for a new file, which has a fingerprint of its own.
    """
    if before is None:
        return None
    if after is None:
        return f"edit:{_digest(path, 'delete')}"
    old, new = okf.parse(before), okf.parse(after)
    parts = sorted(_changes(old.meta, new.meta))
    if folded_words(old.body) != folded_words(new.body):
        parts.append(f"says {folded_words(new.body)}")
    return f"edit:{_digest(path, *parts)}" if parts else None


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for key in (old.keys() | new.keys()) - _TIMES - _OF_THE_RUN:
        was, is_ = _items(old.get(key)), _items(new.get(key))
        if was != is_:
            yield f"{key} + {sorted(is_ - was)} - {sorted(was - is_)}"


def _items(value: Any) -> set[str]:
    """Return the items of a value as JSON, without their times."""
    listed = value if isinstance(value, list) else [] if value is None else [value]
    return {json.dumps(_timeless(item), sort_keys=True, default=str) for item in listed}


def _timeless(item: Any) -> Any:
    if isinstance(item, dict):
        return item.get("title") or {key: value for key, value in item.items() if key not in _TIMES | {"id"}}
    return item


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]
