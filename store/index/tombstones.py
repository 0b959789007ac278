"""The tombstones of the ledger, in memory: every write and every hit looks them up.

Their keys forbid dreams a memory, an edit, or a link between two memories.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, Final

from .. import okf
from ..ledger.ledger import Ledger
from ..model import Level, Memory, NodeId
from ..okf.memory_file import BY_HAND, EDITED_AT
from ..text.words import folded_words
from .indexer import Indexer
from .open_index import OpenIndex

# The prefix of a turn's tombstone: a forgotten turn stays in its session's file, and is hidden.
TURN = "turn:"

# The prefix of the tombstone of a turn whose fact was forgotten: no page of a person or a thing quotes it for that.
UNTOLD = "untold:"


class Tombstones:
    """The keys of forgotten memories and undone edits. Sets are replaced, never changed: other threads read them."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.names: Collection[str] = ()
        self.hidden: frozenset[NodeId] = frozenset()
        """The forgotten turns."""
        self.version = 0
        """Another number after each read."""
        self.read()

    def read(self) -> None:
        """Read them from the ledger again."""
        self.names = self._ledger.tombstones()
        self.version += 1
        self.hidden = frozenset(name.removeprefix(TURN) for name in self.names if name.startswith(TURN))

    def is_hidden(self, node_id: NodeId) -> bool:
        """Return True if a turn was forgotten."""
        return node_id in self.hidden

    def read_and_follow(self, opened: OpenIndex, indexer: Indexer, node_ids: Collection[NodeId]) -> Future[None]:
        """Read them again, and have these nodes, and the facts that cite them, indexed anew.

        Hidden turns are in no answer when this returns, although the index follows later.
        """
        self.read()
        indexer.following = indexer.submit(lambda: _follow(opened, node_ids))
        return indexer.following

    def follow_if_behind(self, opened: OpenIndex, indexer: Indexer) -> None:
        """Have the index follow after a crash in between: it still finds turns that were forgotten."""
        hidden = self.hidden
        if hidden:
            indexer.submit(lambda: _follow(opened, opened.index.live_among(hidden)))


def _follow(opened: OpenIndex, node_ids: Collection[NodeId]) -> None:
    drawn_from_them = [fact for node_id in node_ids for fact in opened.catalog.cited_by(node_id)]
    opened.index.reread([*node_ids, *drawn_from_them])


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
