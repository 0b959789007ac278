"""Kinship: what was just remembered is set beside what is known, at once and behind everybody's back.

What says the same as something older reinforces it and steps back; what changes something older takes its place; what
contradicts it is linked to it and waits for a person. Who remembers never waits for this, and what a crash or a flood
leaves undone the next dream does.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any, Final

from ..changes.decisions import mark_of
from ..changes.link_edits import TieEdits
from ..changes.runs import new_run_id
from ..find.backends.interface import Condition, VectorStore
from ..find.index.catalog import Catalog
from ..find.index.index import COLLECTION
from ..find.index.projection import Node
from ..find.search.search import node_of_chunk
from ..keep.files.vault import Vault
from ..keep.ledger.records import LINK
from ..model import Changeset, Level, NodeId
from ..text.comparison import Comparison, compare
from ..text.normal_form import normal_form
from ..text.terms import query_terms
from .worker import Errands

COMPARED: Final = 20
TERMS: Final = 16


class Kinship:
    """Finds what a remembered statement is kin to. `remembered` may be called from any thread.

    `apply` makes a changeset real; `say_again` has a memory that is known said again: it is counted, or holds again.
    `forbidden` are the tombstones; `is_busy` says that somebody waits for an answer.
    """

    def __init__(
        self,
        catalog: Catalog,
        backend: VectorStore,
        vault: Vault,
        apply: Callable[[Changeset, str], Any],
        say_again: Callable[[NodeId], Any],
        forbidden: Callable[[], Collection[str]],
        is_busy: Callable[[], bool],
        now: Callable[[], datetime],
    ) -> None:
        self._catalog = catalog
        self._backend = backend
        self._vault = vault
        self._apply = apply
        self._say_again = say_again
        self._forbidden = forbidden
        self._now = now
        self._errands = Errands("dreamd-kinship", is_busy)
        self._not_yet: Counter[NodeId] = Counter()  # said, and not taken up yet
        self._counting = threading.Lock()

    def start(self) -> None:
        """Begin to work."""
        self._errands.start()

    def stop(self) -> None:
        """End after what is at hand."""
        self._errands.stop()

    def remembered(self, node_id: NodeId, *, known: bool = False) -> None:
        """Something was remembered; what finds no place in the queue, or fails, the next dream finds.

        What was `known` and held is compared with nothing; but what was said before it takes its place no more.
        """
        with self._counting:
            self._not_yet[node_id] += 1
        if not self._errands.put(lambda: self._take_up(node_id, known)):
            self._let_go(node_id)

    def settle(self, timeout_s: float) -> bool:
        """Wait until what was remembered so far is set beside what is known; False when that takes longer."""
        return self._errands.settle(timeout_s)

    def _take_up(self, node_id: NodeId, known: bool) -> None:
        self._let_go(node_id)
        node = None if known else self._catalog.node(node_id)
        if node is not None and node.live:
            self._consider(node)

    def _let_go(self, node_id: NodeId) -> None:
        with self._counting:
            self._not_yet[node_id] -= 1
            if not self._not_yet[node_id]:
                del self._not_yet[node_id]

    def _consider(self, node: Node) -> None:
        ties = TieEdits(self._vault.read_if_any, LINK)
        replaced: list[NodeId] = []
        told_by: NodeId | None = None
        for older in self._older(node):
            mark = mark_of(older.node_id, node.node_id)
            if mark in self._forbidden():
                continue
            if normal_form(older.text) == normal_form(node.text):
                ties.edit(node, {"superseded_by": older.node_id}, "it was known, in other words", mark)
                told_by = older.node_id
                break
            relation = compare(older.text, node.text)
            if relation is Comparison.UPDATES:
                ties.supersede(older, node, mark)
                replaced.append(older.node_id)
            elif relation is Comparison.CONTRADICTS:
                ties.contradict(older, node, mark)
        if actions := ties.actions():
            changeset = Changeset(run_id=new_run_id(self._now(), LINK), actions=tuple(actions))
            self._apply(changeset, f"set {node.node_id} beside what was known")
        for node_id in replaced:
            if node_id in self._not_yet:  # it was said again meanwhile, after what has just taken its place
                self._say_again(node_id)
        if told_by is not None:
            self._say_again(told_by)

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
        return other.since is None or node.since is None or other.since <= node.since
