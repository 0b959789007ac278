"""The tombstones of the ledger, in memory: they are looked up at every write and for every hit."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Future

from ..index.indexer import Indexer
from ..index.opening import OpenIndex
from ..ledger.ledger import Ledger
from ..model import NodeId

TURN = "turn:"
"""Before a turn's id: a forgotten turn stays in its session's file, so its tombstone hides it."""


class Tombstones:
    """Holds what was forgotten or undone. The sets are replaced, never changed: other threads read them meanwhile."""

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
        """Return whether a turn was forgotten."""
        return node_id in self.hidden

    def read_and_follow(self, opened: OpenIndex, indexer: Indexer, node_ids: Collection[NodeId]) -> Future[None]:
        """Read them again, and have these nodes and what cites them indexed by what is hidden now.

        What is hidden is told no more when this returns, whether the index has followed or not.
        """
        self.read()
        indexer.following = indexer.submit(lambda: _follow(opened, node_ids))
        return indexer.following

    def follow_if_behind(self, opened: OpenIndex, indexer: Indexer) -> None:
        """Have the index follow where a crash came between: it has forgotten turns among those that are found."""
        hidden = self.hidden
        if hidden:
            indexer.submit(lambda: _follow(opened, opened.index.told_among(hidden)))


def _follow(opened: OpenIndex, node_ids: Collection[NodeId]) -> None:
    drawn_from_them = [fact for node_id in node_ids for fact in opened.catalog.cited_by(node_id)]
    opened.index.reread([*node_ids, *drawn_from_them])
