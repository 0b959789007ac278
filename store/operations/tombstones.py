"""The tombstones of the ledger, in memory: they are looked up at every write and for every hit."""

from __future__ import annotations

from collections.abc import Collection

from ..find.index.opening import OpenIndex
from ..keep.ledger.ledger import Ledger
from ..model import NodeId

TURN = "turn:"
"""Before a turn's id: a forgotten turn stays in its session's file, so its tombstone hides it."""


class Tombstones:
    """Holds what was forgotten or undone. The sets are replaced, never changed: other threads read them meanwhile."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.names: Collection[str] = ()
        self._hidden: frozenset[NodeId] = frozenset()
        self.read()

    def read(self) -> None:
        """Read them from the ledger again."""
        self.names = self._ledger.tombstones()
        self._hidden = frozenset(name.removeprefix(TURN) for name in self.names if name.startswith(TURN))

    def is_hidden(self, node_id: NodeId) -> bool:
        """Return whether a turn was forgotten."""
        return node_id in self._hidden

    def read_and_hide(self, opened: OpenIndex, node_ids: Collection[NodeId]) -> None:
        """Read them again, and index these nodes and what cites them by what is hidden now."""
        self.read()
        drawn_from_them = [fact for node_id in node_ids for fact in opened.catalog.cited_by(node_id)]
        opened.index.reread([*node_ids, *drawn_from_them])
