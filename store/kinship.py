"""Kinship: what was just remembered is set beside what is known, at once and behind everybody's back.

What says the same as something older reinforces it and steps back; what changes something older takes its place; what
contradicts it is linked to it and waits for a person. Who remembers never waits for this, and what a crash or a flood
leaves undone the next dream does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from queue import SimpleQueue
from typing import Any, Final

from .decisions import mark_of
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
from .ties import Ties

LINK: Final = "link"
"""The kind of run that this makes."""

SAME_CALL: Final = timedelta(seconds=1)
"""Remembered later than this after its own date, it was there: it is said again."""

COMPARED: Final = 20
MOST_WAITING: Final = 1000
TERMS: Final = 16
GIVE_WAY_S, GLANCE_S = 2.0, 0.05
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
        self._is_busy = is_busy
        self._now = now
        self._waiting: SimpleQueue[tuple[NodeId, datetime] | threading.Event | None] = SimpleQueue()
        self._not_yet: set[NodeId] = set()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dreamd-kinship", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def stop(self) -> None:
        """End after what is at hand."""
        self._stopping.set()
        self._waiting.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def remembered(self, node_id: NodeId) -> None:
        """Something was remembered, new or again; beyond MOST_WAITING the next dream finds it."""
        if self._waiting.qsize() < MOST_WAITING:
            self._not_yet.add(node_id)
            self._waiting.put((node_id, self._now()))

    def settle(self, timeout_s: float) -> bool:
        """Wait until what was remembered so far is set beside what is known; False when that takes longer."""
        reached = threading.Event()
        self._waiting.put(reached)
        return reached.wait(timeout_s)

    def _run(self) -> None:
        while True:
            next_ = self._waiting.get()
            if isinstance(next_, threading.Event):
                next_.set()
            elif self._stopping.is_set() and self._waiting.empty():
                return
            elif next_ is not None and not self._stopping.is_set():
                self._give_way()
                self._not_yet.discard(next_[0])
                self._consider(*next_)

    def _give_way(self) -> None:
        until = time.monotonic() + GIVE_WAY_S
        while self._is_busy() and time.monotonic() < until and not self._stopping.wait(GLANCE_S):
            pass

    def _consider(self, node_id: NodeId, at: datetime) -> None:
        node = self._catalog.node(node_id)
        if node is None or not node.live:
            return
        again = node.created_at is not None and at - node.created_at > SAME_CALL
        ties = Ties(self._vault.read_if_any, LINK)
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

    def _reinforce(self, ties: Ties, node: Node) -> None:
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
