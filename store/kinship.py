"""Kinship: what was just remembered is set beside what is known, at once and behind everybody's back.

What says the same as something older reinforces it and steps back; what changes something older takes its place; what
contradicts it is linked to it and waits for a person. Who remembers never waits for this, and what a crash or a flood
leaves undone the next dream does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
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
from .keep import okf
from .keep.journal import sha256
from .keep.vault import Vault
from .model import Action, ActionKind, Changeset, Level, NodeId, NotFound

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
        edits = _Edits(self._vault, self._now())
        if again:
            edits.reinforce(node)
        for older in () if again else self._older(node):
            mark = mark_of(older.node_id, node.node_id)
            if mark in self._forbidden():
                continue
            if normal_form(older.text) == normal_form(node.text):
                edits.reinforce(older)
                edits.step_back(node, older, mark)
                break
            edits.tie(older, node, relate(older.text, node.text), mark)
        if actions := edits.actions():
            run_id = f"{self._now():%Y%m%d-%H%M%S-%f}-{LINK}"
            self._apply(Changeset(run_id=run_id, actions=tuple(actions)), f"set {node_id} beside what was known")

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


class _Edits:
    """What changes in the frontmatter of each file."""

    def __init__(self, vault: Vault, now: datetime) -> None:
        self._vault = vault
        self._now = now
        self._before: dict[NodeId, tuple[Node, bytes]] = {}
        self._after: dict[NodeId, bytes] = {}
        self._said: dict[NodeId, tuple[str, str | None]] = {}

    def reinforce(self, node: Node) -> None:
        """Note that it was said again: from now on it fades."""
        meta = self._meta(node)
        listed = meta.get("reinforced")
        crumbs = [*(listed if isinstance(listed, list) else ()), {"at": self._now.isoformat()}]
        self._edit(node, {"reinforced": crumbs[-BREADCRUMBS:]}, "said again", None)

    def step_back(self, node: Node, older: Node, mark: str) -> None:
        """Let the older of two that say the same stand for both."""
        self._edit(node, {"superseded_by": older.node_id}, "it was known, in other words", mark)

    def tie(self, older: Node, newer: Node, relation: Relation, mark: str) -> None:
        """Let the newer take the older's place, or link two that contradict each other."""
        if relation is Relation.UPDATES:
            at = newer.valid_from or newer.created_at or self._now
            self._edit(older, {"superseded_by": newer.node_id, "valid_to": at.isoformat()}, "changed since", mark)
            self._edit(newer, {"supersedes": self._with(newer, "supersedes", older)}, "it changes an older one", mark)
        elif relation is Relation.CONTRADICTS:
            self._edit(older, {"contradicts": self._with(older, "contradicts", newer)}, "contradicted", mark)
            self._edit(newer, {"contradicts": self._with(newer, "contradicts", older)}, "it contradicts another", mark)

    def actions(self) -> list[Action]:
        """One replacement a file."""
        return [
            Action(
                kind=ActionKind.REPLACE,
                path=node.path,
                node_id=node_id,
                stage=LINK,
                reason=self._said[node_id][0],
                pre_sha256=sha256(before),
                content=self._after[node_id],
                fingerprint=self._said[node_id][1],
            )
            for node_id, (node, before) in self._before.items()
            if node_id in self._after and self._after[node_id] != before
        ]

    def _with(self, node: Node, key: str, other: Node) -> Sequence[str]:
        listed = self._meta(node).get(key)
        return list(dict.fromkeys([*(listed if isinstance(listed, list) else ()), other.node_id]))

    def _meta(self, node: Node) -> dict[str, Any]:
        return dict(okf.parse(self._now_of(node)).meta)

    def _now_of(self, node: Node) -> bytes:
        if node.node_id not in self._before:
            try:
                self._before[node.node_id] = (node, self._vault.read(node.path))
            except NotFound:
                return b""
        return self._after.get(node.node_id, self._before[node.node_id][1])

    def _edit(self, node: Node, changes: dict[str, Any], reason: str, mark: str | None) -> None:
        data = self._now_of(node)
        if okf.parse(data).meta:  # a person's file without frontmatter stays as it is
            self._after[node.node_id] = okf.edit(data, changes)
            self._said[node.node_id] = (reason, mark)
