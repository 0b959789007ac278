"""Linking of a remembered statement to older ones, in the background, right after it was acknowledged.

A statement that repeats an older one reinforces it and is archived. One that changes it supersedes it, or is listed in
it as a likely successor if that is not sure. One that contradicts it is linked to it, and waits for a person.
`remember` never waits for this, and the next dream does what a crash or a flood of statements leaves undone.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection
from typing import Final

import numpy as np

from ..changes.links import LinkEdits
from ..changes.remembering import REMEMBER, Reviving
from ..changes.run_kinds import new_run_id
from ..changes.runs import Runs
from ..channel import of_one_project
from ..core import Core
from ..embedding.embedding import ModelUnavailable
from ..engine.interface import Vector, VectorStore
from ..filters import Condition, Filter
from ..index.catalog import Catalog
from ..index.index import COLLECTION
from ..index.projection import Node
from ..index.tombstones import pair_key
from ..ledger.records import LINK
from ..model import Changeset, Level, NodeId
from ..search.gathering import CHUNK_MARK, node_of_chunk
from ..text.judging import EarlierStatement, Relation, judge
from ..text.words import query_terms
from ..vault.layout import is_ours
from ..writer.pending import PendingFiles
from ..writer.writer import Planned
from .embed_queue import EmbedQueue
from .worker import WorkQueue

# Older facts by cosine: the one that a statement changes is among them for 80 % of the readers' pairs.
NEAREST: Final = 5

# Older facts by keyword search.
BY_WORDS: Final = 10

# Terms of the new statement that are searched for.
TERMS: Final = 16

# The longest wait until a statement is found that was remembered a moment ago.
SETTLE_S: Final = 5.0


class OlderFacts:
    """Finds the few older facts of its project that a statement may repeat, replace or contradict.

    `embed_now` embeds the chunks of some nodes before all others.
    """

    def __init__(
        self, catalog: Catalog, backend: VectorStore, embed_now: Callable[[Collection[NodeId]], object]
    ) -> None:
        self._catalog = catalog
        self._backend = backend
        self._embed_now = embed_now

    def of(self, node: Node) -> dict[NodeId, tuple[Node, EarlierStatement]]:
        """Return the candidates by id, without the node itself; by words alone while no model can embed."""
        where = _facts_of(node.channel)
        terms = query_terms(node.text, TERMS)
        chunks = [match.id for match in self._backend.search_keyword(COLLECTION, terms, BY_WORDS, where)]
        vector = self._vector(node, chunks)
        if vector is not None:
            # One more than wanted: the statement itself is the nearest.
            near = self._backend.search_vector(COLLECTION, vector, NEAREST + 1, where)
            chunks += [match.id for match in near]
        cosines = {} if vector is None else self._backend.cosines(COLLECTION, vector, set(chunks))
        nearest: dict[NodeId, float] = {}
        for chunk in chunks:
            other = node_of_chunk(chunk)
            nearest[other] = max(nearest.get(other, 0.0), cosines.get(chunk, 0.0))
        found = self._catalog.nodes([other for other in nearest if other != node.node_id])
        return {
            node_id: (other, EarlierStatement(node_id, other.text, nearest[node_id]))
            for node_id, other in sorted(found.items())
        }

    def _vector(self, node: Node, chunks: Collection[str]) -> Vector | None:
        try:
            self._embed_now({node.node_id, *map(node_of_chunk, chunks)})
        except ModelUnavailable:  # the next dream compares it by meaning
            return None
        points = self._backend.get(COLLECTION, [node.node_id, f"{node.node_id}{CHUNK_MARK}1"])
        return next((np.asarray(point.vector) for point in points if point.vector is not None), None)


def _facts_of(channel: str) -> Filter:
    return (
        Condition("level", "in", (Level.FACT.value,)),
        Condition("channel", "in", of_one_project(channel)),
        Condition("live", "in", (1,)),
    )


class Linker:
    """Compares remembered statements with older facts and links them. `on_remembered` may be called from any thread."""

    def __init__(self, core: Core, queue: EmbedQueue, runs: Runs) -> None:
        self._core = core
        self._catalog = core.catalog
        self._now = core.now
        self._older_facts = OlderFacts(core.catalog, core.index.backend, queue.embed_now)
        self._runs = runs
        self._reviving = Reviving(core.lookup.path_of)
        self._work = WorkQueue("dreamd-linking", core.is_busy)
        self._not_yet: Counter[NodeId] = Counter()  # remembered, and still queued
        self._counting = threading.Lock()

    def start(self) -> None:
        """Start the thread."""
        self._work.start()

    def stop(self) -> None:
        """End after the statement that is being compared."""
        self._work.stop()

    def on_remembered(self, node_id: NodeId, *, known: bool = False) -> None:
        """Queue a statement for linking; if the queue is full or the job fails, the next dream links it.

        A `known` statement is not compared; but while it is queued, no statement remembered before supersedes it.
        """
        with self._counting:
            self._not_yet[node_id] += 1
        if not self._work.put(lambda: self._link(node_id, known)):
            self._count_down(node_id)

    def later(self, job: Callable[[], None]) -> None:
        """Queue other work that follows from a statement; dropped if the queue is full."""
        self._work.put(job)

    def settle(self, timeout_s: float) -> bool:
        """Wait until the statements so far are linked; False after the timeout."""
        return self._work.settle(timeout_s)

    def _link(self, node_id: NodeId, known: bool) -> None:
        self._count_down(node_id)
        node = None if known else self._found(node_id)
        if node is not None and node.live:
            self._compare(node)

    def _found(self, node_id: NodeId) -> Node | None:
        """Return a node, after a wait if the index is behind the acknowledged writes."""
        node = self._catalog.node(node_id)
        if node is None:
            self._core.settle(SETTLE_S)
            node = self._catalog.node(node_id)
        return node

    def _count_down(self, node_id: NodeId) -> None:
        with self._counting:
            self._not_yet[node_id] -= 1
            if not self._not_yet[node_id]:
                del self._not_yet[node_id]

    def link_accepted(self, node: Node, edits: LinkEdits) -> None:
        """Link a memory that a person accepts to the facts that it replaces or disputes, as a part of that run.

        It stays where it repeats one. A fact that was said after it is not replaced, but disputed.
        """
        others = self._comparable(node)
        for found in judge(node.text, [statement for _, statement in others.values()]):
            other, relation = others[found.node_id][0], found.relation
            if relation is Relation.UPDATES and not self._is_older(other, node):
                relation = Relation.CONTRADICTS
            if relation is Relation.CONTRADICTS or (relation is not Relation.SAME and self._is_older(other, node)):
                edits.link(relation, other, node, self._now(), leaves_tombstone=False)

    def _compare(self, node: Node) -> None:
        edits = LinkEdits(self._core.vault.read_if_any, LINK)
        older = {key: one for key, one in self._comparable(node).items() if self._is_older(one[0], node)}
        judged = judge(node.text, [candidate for _, candidate in older.values()])
        for found in judged:
            edits.link(found.relation, older[found.node_id][0], node, self._now())
        if actions := edits.actions():
            changeset = Changeset(run_id=new_run_id(self._now(), LINK), actions=tuple(actions))
            self._core.settle()
            self._runs.apply(changeset, kind=LINK, summary={"note": f"linked {node.node_id} to what was known"})
        for found in judged:
            # The older one was stated again after the newer: its own job is still queued. So it is revived.
            replaced_too_soon = found.relation is Relation.UPDATES and found.node_id in self._not_yet
            if found.relation is Relation.SAME or replaced_too_soon:
                self._say_again(found.node_id)

    def _say_again(self, node_id: NodeId) -> None:
        """Count a memory as stated again, if its file is still there; wait until that is acknowledged."""
        now = self._now()
        run_id = new_run_id(now, REMEMBER)

        def plan(files: PendingFiles) -> Planned[NodeId]:
            path = self._core.lookup.path_of(node_id)
            if path is None or not files.exists(path):
                return Planned(node_id)
            return self._reviving.plan(files, node_id, path, run_id, now)

        self._core.writer.submit(plan).result()

    def _comparable(self, node: Node) -> dict[NodeId, tuple[Node, EarlierStatement]]:
        """Return the candidates that no person parted from the node, and that do not wait for review themselves."""
        waiting, parted = self._catalog.waiting(), self._core.tombstones.names
        return {
            key: one
            for key, one in self._older_facts.of(node).items()
            if key not in waiting and is_ours(one[0].path) and pair_key(key, node.node_id) not in parted
        }

    def _is_older(self, other: Node, node: Node) -> bool:
        # A statement that is still queued was remembered after this one, whatever its date.
        if other.node_id in self._not_yet:
            return False
        return other.since is None or node.since is None or other.since <= node.since
