"""Judgements of a person that search ranks by: the trust in memories that helped or did not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..ledger.ledger import Ledger
from ..model import GAIN, MOST_TRUST, NodeId, trust
from .search import Search


class Judgements:
    """Gives search the trust in the memories that the ledger has feedback on. Any thread may call it."""

    def __init__(self, ledger: Ledger, search: Search) -> None:
        self._ledger = ledger
        self._search = search
        self.version = 0
        """Counts the changes: what was ranked before one may be ranked otherwise after it."""

    def read(self) -> None:
        """Read all judgements, at the start and after a person's own."""
        self._use(trusted(self._ledger.feedback()))

    def on_used(self, node_ids: Iterable[NodeId]) -> None:
        """Count memories as used, before the ledger has it."""
        known = dict(self._search.trusted)
        for node_id in node_ids:
            known[node_id] = min(MOST_TRUST - 1.0, known.get(node_id, 0.0) + GAIN["used"])
        self._use(known)

    def _use(self, known: Mapping[NodeId, float]) -> None:
        self._search.trusted = known
        self.version += 1


def trusted(feedback: Mapping[NodeId, Mapping[str, int]]) -> dict[NodeId, float]:
    """Return by how much the trust in each memory differs from that in one without feedback: -1 to 1, without 0."""
    differences = {node_id: trust(said) - 1.0 for node_id, said in feedback.items()}
    return {node_id: difference for node_id, difference in differences.items() if difference}
