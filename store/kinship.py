"""Kinship: what was just remembered is set beside what is known, at once and behind everybody's back.

What says the same as something older reinforces it and steps back; what changes something older takes its place; what
contradicts it is linked to it and waits for a person. Who remembers never waits for this, and what a crash or a flood
leaves undone the next dream does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Any, Final

from .decisions import mark_of
from .errands import Errands
from .find.backends.seam import Condition, VectorStore
from .find.catalog import Catalog
from .find.index import COLLECTION
from .find.projection import Node
from .find.search import node_of_chunk
from .find.statements import Relation, relate
from .find.terms import query_terms
from .find.wording import normal_form
from .keep.vault import Vault
from .model import Changeset, Level, NodeId
from .ties import TieEdits

LINK: Final = "link"
"""The kind of run that this makes."""

SAME_CALL: Final = timedelta(seconds=1)
"""Remembered later than this after its own date, it was there: it is said again."""

COMPARED: Final = 20
TERMS: Final = 16
BREADCRUMBS: Final = 20


class Kinship:
    """Finds what a remembered statement is kin to. `remembered` may be called from any thread.

    `apply` makes a changeset real; `forbidden` are the tombstones; `is_busy` says that somebody waits for an answer.
    """

    def __init__(
        self,
        catalog: Catalog,
        backend: VectorStore,
        vault: Vault,
        apply: Callable[[Changeset, str], Any],
        forbidden: Callable[[], Collection[str]],
        is_busy: Callable[[], bool],
        now: Callable[[], datetime],
    ) -> None:
        self._catalog = catalog
        self._backend = backend
        self._vault = vault
        self._apply = apply
        self._forbidden = forbidden
        self._now = now
        self._errands = Errands("dreamd-kinship", is_busy)
        self._not_yet: set[NodeId] = set()

    def start(self) -> None:
        """Begin to work."""
        self._errands.start()

    def stop(self) -> None:
        """End after what is at hand."""
        self._errands.stop()

    def remembered(self, node_id: NodeId) -> None:
        """Something was remembered, new or again; what finds no place in the queue, or fails, the next dream finds."""
        at = self._now()
        self._not_yet.add(node_id)
        if not self._errands.put(lambda: self._consider(node_id, at)):
            self._not_yet.discard(node_id)

    def settle(self, timeout_s: float) -> bool:
        """Wait until what was remembered so far is set beside what is known; False when that takes longer."""
        return self._errands.settle(timeout_s)

    def _consider(self, node_id: NodeId, at: datetime) -> None:
        self._not_yet.discard(node_id)
        node = self._catalog.node(node_id)
        if node is None or not node.live:
            return
        again = node.created_at is not None and at - node.created_at > SAME_CALL
        ties = TieEdits(self._vault.read_if_any, LINK)
        if again:
            self._reinforce(ties, node)
        for older in () if again else self._older(node):
            mark = mark_of(older.node_id, node.node_id)
            if mark in self._forbidden():
                continue
            if normal_form(older.text) == normal_form(node.text):
                self._reinforce(ties, older)
                ties.edit(node, {"superseded_by": older.node_id}, "it was known, in other words", mark)
                break
            relation = relate(older.text, node.text)
            if relation is Relation.UPDATES:
                ties.supersede(older, node, mark)
            elif relation is Relation.CONTRADICTS:
                ties.contradict(older, node, mark)
        if actions := ties.actions():
            run_id = f"{self._now():%Y%m%d-%H%M%S-%f}-{LINK}"
            self._apply(Changeset(run_id=run_id, actions=tuple(actions)), f"set {node_id} beside what was known")

    def _reinforce(self, ties: TieEdits, node: Node) -> None:
        """Note that it was said again: from now on it fades."""
        listed = ties.standing(node).extra.get("reinforced")
        crumbs = [*(listed if isinstance(listed, list) else ()), {"at": self._now().isoformat()}]
        ties.edit(node, {"reinforced": crumbs[-BREADCRUMBS:]}, "said again")

    def _older(self, node: Node) -> list[Node]:
        """The living facts of the same channel that share most words with it, those that were there before."""
        where = (
            Condition("level", "in", (Level.FACT.value,)),
            Condition("channel", "in", (node.channel,)),
            Condition("live", "in", (1,)),
        )
        terms = query_terms(node.text, TERMS)
        matches = self._backend.search_keyword(COLLECTION, terms, COMPARED, where)
        found = self._catalog.nodes([node_of_chunk(match.id) for match in matches])
        return [other for other in found.values() if self._was_before(other, node)]

    def _was_before(self, other: Node, node: Node) -> bool:
        if other.node_id == node.node_id or other.node_id in self._not_yet or not other.path.startswith("facts/"):
            return False
        return other.created_at is None or node.created_at is None or other.created_at <= node.created_at
