"""The tombstones of the ledger, in memory: every write and every hit looks them up."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Future

from ..ledger.ledger import Ledger
from ..model import NodeId
from .indexer import Indexer
from .opening import OpenIndex

# The prefix of a turn's tombstone: a forgotten turn stays in its session's file, and is hidden.
TURN = "turn:"


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
            indexer.submit(lambda: _follow(opened, opened.index.told_among(hidden)))


def _follow(opened: OpenIndex, node_ids: Collection[NodeId]) -> None:
    drawn_from_them = [fact for node_id in node_ids for fact in opened.catalog.cited_by(node_id)]
    opened.index.reread([*node_ids, *drawn_from_them])
