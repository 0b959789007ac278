"""Linking of a remembered statement to older ones, in the background and right after it was acknowledged.

A statement that repeats an older one reinforces it and is archived; one that changes it supersedes it, or is named in
it as a later one where that is only likely; one that contradicts it is linked to it and waits for a person. `remember`
never waits for this, and the next dream does what a crash or a flood leaves undone.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any

from ..changes.decisions import pair_key
from ..changes.link_edits import LinkEdits
from ..changes.runs import new_run_id
from ..index.catalog import Catalog
from ..index.projection import Node
from ..ledger.records import LINK
from ..model import Changeset, NodeId
from ..text.judging import Relation, judge
from ..vault.vault import Vault
from .candidates import Candidates
from .worker import WorkQueue

SETTLE_S = 5.0
"""The longest wait until a statement is found that was remembered a moment ago."""


class Linker:
    """Compares remembered statements with older facts and links them. `on_remembered` may be called from any thread.

    `apply` applies a changeset; `say_again` reinforces a known memory, or revives it where it held no more.
    `forbidden` are the tombstones; `is_busy` says that a request is in flight; `settle` waits so many seconds until
    what was acknowledged is found.
    """

    def __init__(
        self,
        catalog: Catalog,
        candidates: Candidates,
        vault: Vault,
        apply: Callable[[Changeset, str], Any],
        say_again: Callable[[NodeId], Any],
        forbidden: Callable[[], Collection[str]],
        is_busy: Callable[[], bool],
        settle: Callable[[float], Any],
        now: Callable[[], datetime],
    ) -> None:
        self._settle = settle
        self._catalog = catalog
        self._candidates = candidates
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

    def later(self, job: Callable[[], None]) -> None:
        """Queue other work that follows from a statement; dropped where there is no place."""
        self._work.put(job)

    def settle(self, timeout_s: float) -> bool:
        """Wait until what was remembered so far is linked; False after the timeout."""
        return self._work.settle(timeout_s)

    def _link(self, node_id: NodeId, known: bool) -> None:
        self._count_down(node_id)
        node = None if known else self._found(node_id)
        if node is not None and node.live:
            self._compare(node)

    def _found(self, node_id: NodeId) -> Node | None:
        """Return a node; the index is behind what was acknowledged where many write at once."""
        node = self._catalog.node(node_id)
        if node is None:
            self._settle(SETTLE_S)
            node = self._catalog.node(node_id)
        return node

    def _count_down(self, node_id: NodeId) -> None:
        with self._counting:
            self._not_yet[node_id] -= 1
            if not self._not_yet[node_id]:
                del self._not_yet[node_id]

    def _compare(self, node: Node) -> None:
        edits = LinkEdits(self._vault.read_if_any, LINK)
        waiting = self._catalog.waiting()  # their person has not accepted them: nothing is compared with them
        candidates = {key: one for key, one in self._candidates.of(node).items() if key not in waiting}
        older = {key: one for key, one in candidates.items() if self._is_older(one[0], node)}
        judged = judge(node.text, [candidate for _, candidate in older.values()])
        for found in judged:
            edits.link(found.relation, older[found.node_id][0], node, self._now())
        if actions := edits.actions():
            changeset = Changeset(run_id=new_run_id(self._now(), LINK), actions=tuple(actions))
            self._apply(changeset, f"linked {node.node_id} to what was known")
        for found in judged:
            # a replaced one may have been said again meanwhile, after what has just taken its place
            replaced_too_soon = found.relation is Relation.UPDATES and found.node_id in self._not_yet
            if found.relation is Relation.SAME or replaced_too_soon:
                self._say_again(found.node_id)

    def _is_older(self, other: Node, node: Node) -> bool:
        if other.node_id in self._not_yet or not other.path.startswith("facts/"):
            return False
        if pair_key(other.node_id, node.node_id) in self._forbidden():
            return False
        return other.since is None or node.since is None or other.since <= node.since
