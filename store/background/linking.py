"""Linking of a remembered statement to older ones, in the background and right after it was acknowledged.

A statement that repeats an older one reinforces it and is superseded by it; one that changes it supersedes it; one
that contradicts it is linked to it and waits for a person. `remember` never waits for this, and the next dream does
what a crash or a flood leaves undone.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any, Final

from ..changes.decisions import pair_key
from ..changes.link_edits import LinkEdits
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
from .worker import WorkQueue

COMPARED: Final = 20
"""Older facts compared with a new one: those that keyword search finds first."""

TERMS: Final = 16
"""Terms of the new statement that are searched for."""


class Linker:
    """Compares remembered statements with older facts and links them. `on_remembered` may be called from any thread.

    `apply` applies a changeset; `say_again` reinforces a known memory, or revives it where it held no more.
    `forbidden` are the tombstones; `is_busy` says that a request is in flight.
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
        self._work = WorkQueue("dreamd-linking", is_busy)
        self._not_yet: Counter[NodeId] = Counter()  # remembered, and still in the queue
        self._counting = threading.Lock()

    def start(self) -> None:
        """Start the thread."""
        self._work.start()

    def stop(self) -> None:
        """End after the statement that is being compared."""
        self._work.stop()

    def on_remembered(self, node_id: NodeId, *, known: bool = False) -> None:
        """Queue a statement for linking; the next dream links one that finds no place in the queue, or fails.

        A `known` statement is compared with nothing; but until it is taken up, none remembered before it supersedes it.
        """
        with self._counting:
            self._not_yet[node_id] += 1
        if not self._work.put(lambda: self._link(node_id, known)):
            self._count_down(node_id)

    def settle(self, timeout_s: float) -> bool:
        """Wait until what was remembered so far is linked; False after the timeout."""
        return self._work.settle(timeout_s)

    def _link(self, node_id: NodeId, known: bool) -> None:
        self._count_down(node_id)
        node = None if known else self._catalog.node(node_id)
        if node is not None and node.live:
            self._compare(node)

    def _count_down(self, node_id: NodeId) -> None:
        with self._counting:
            self._not_yet[node_id] -= 1
            if not self._not_yet[node_id]:
                del self._not_yet[node_id]

    def _compare(self, node: Node) -> None:
        edits = LinkEdits(self._vault.read_if_any, LINK)
        replaced: list[NodeId] = []
        repeated: NodeId | None = None
        for older in self._older(node):
            tombstone_key = pair_key(older.node_id, node.node_id)
            if tombstone_key in self._forbidden():
                continue
            if normal_form(older.text) == normal_form(node.text):
                edits.edit(
                    node, {"superseded_by": older.node_id}, "it repeats an older fact in other words", tombstone_key
                )
                repeated = older.node_id
                break
            comparison = compare(older.text, node.text)
            if comparison is Comparison.UPDATES:
                edits.supersede(older, node, tombstone_key)
                replaced.append(older.node_id)
            elif comparison is Comparison.CONTRADICTS:
                edits.contradict(older, node, tombstone_key)
        if actions := edits.actions():
            changeset = Changeset(run_id=new_run_id(self._now(), LINK), actions=tuple(actions))
            self._apply(changeset, f"linked {node.node_id} to what was known")
        for node_id in replaced:
            if node_id in self._not_yet:  # it was said again meanwhile, after what has just taken its place
                self._say_again(node_id)
        if repeated is not None:
            self._say_again(repeated)

    def _older(self, node: Node) -> list[Node]:
        """Return the live facts of the same channel that share most words with the node and are older than it."""
        where = (
            Condition("level", "in", (Level.FACT.value,)),
            Condition("channel", "in", (node.channel,)),
            Condition("live", "in", (1,)),
        )
        terms = query_terms(node.text, TERMS)
        matches = self._backend.search_keyword(COLLECTION, terms, COMPARED, where)
        found = self._catalog.nodes([node_of_chunk(match.id) for match in matches])
        return [other for other in found.values() if self._is_older(other, node)]

    def _is_older(self, other: Node, node: Node) -> bool:
        if other.node_id == node.node_id or other.node_id in self._not_yet or not other.path.startswith("facts/"):
            return False
        return other.since is None or node.since is None or other.since <= node.since
