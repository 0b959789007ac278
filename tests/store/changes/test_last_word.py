"""Whatever was said, forgotten, undone, restored or decided before: after `remember(x)` settles, recall finds x.

Or what says the same in other words, or a decision that waits names it.
"""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from unittest import mock

import hypothesis.strategies as st
from dreamd.store import okf
from dreamd.store.changes.decisions import Choice
from dreamd.store.changes.links import SAME_AS, is_over, last_successor
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import Verdict
from dreamd.store.settings import StoreSettings
from dreamd.store.text.words import normal_form
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.examples import examples

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
SETTLED_S = 60.0
TEXTS = (
    *("My office is in Berlin", "My office is really in Berlin.", "My office is in Berlin now"),
    *("My office is in Madrid now", "My office is in Rome now"),
    *("I submitted my cover letter to Greg for a review.", "I have never submitted my cover letter to Greg."),
    *("The deadline of the review is April 20.", "The deadline of the review was moved to April 25."),
)  # fmt: skip


class LastWord(RuleBasedStateMachine):
    """A person who changes their mind, on a real store whose clock moves an hour at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="dreamd-last-word-")
        self.patience = mock.patch("dreamd.store.core.BUSY_FOR_S", 0.0)
        self.patience.start()
        root, hours = Path(self.folder.name), count()
        paths = StorePaths(root / "vault", root / "l.db", root / "i.db", root / "e.db", root / "runs")
        self.store = MemoryStore.open(
            paths, StoreSettings(), StubEmbedder(), lambda: NOW + next(hours) * timedelta(hours=1)
        )
        self.said: dict[str, str] = {}

    def teardown(self) -> None:
        try:
            live = {node.node_id: node.live for node in self.store.catalog.listing()}
            self.store.rebuild()
            assert {node.node_id: node.live for node in self.store.catalog.listing()} == live
            self.restore_all()
        finally:
            self.store.close()
            self.patience.stop()
            self.folder.cleanup()

    @rule(text=st.sampled_from(TEXTS))
    def remember(self, text: str) -> None:
        node_id = self.store.remember(text).result()
        assert self.store.settle_links(SETTLED_S)
        self.said[node_id] = text
        hits = self.store.recall(text, limit=100).hits
        known_as = {node_id, *self.same_as(node_id)}
        is_found = any(hit.node_id in known_as or normal_form(hit.text) == normal_form(text) for hit in hits)
        named = {side.node_id for decision in self.store.decisions() for side in (decision.older, decision.newer)}
        assert is_found or node_id in named

    def same_as(self, node_id: str) -> list[str]:
        """Return what a memory was found to say the same as: one memory with two witnesses."""
        node = self.store.catalog.node(node_id)
        meta = okf.parse(self.store.vault.read(node.path)).meta if node else {}
        return [str(other) for other in meta.get(SAME_AS) or ()]

    @precondition(lambda self: self.said)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        node_id = data.draw(st.sampled_from(sorted(self.said)))
        if self.store.catalog.node(node_id):
            self.store.forget(node_id)

    @precondition(lambda self: self.said)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        node_id = data.draw(st.sampled_from(sorted(self.said)))
        if (node := self.store.catalog.node(node_id)) and not node.live:
            restored = self.store.restore(node_id)
            assert self.store.show(node_id).live
            assert restored.beside is None or self.store.show(restored.beside).live

    @precondition(lambda self: self.said)
    @rule(data=st.data(), verdict=st.sampled_from(["useful", "not-useful", "rejected"]))
    def judge(self, data: st.DataObject, verdict: Verdict) -> None:
        node_id = data.draw(st.sampled_from(sorted(self.said)))
        if self.store.catalog.node(node_id):
            self.store.feedback(node_id, verdict)

    @rule(data=st.data(), choice=st.sampled_from(["newer", "older", "both", "edit"]))
    def decide(self, data: st.DataObject, choice: Choice) -> None:
        if waiting := self.store.decisions():
            decision = data.draw(st.sampled_from([decision.decision_id for decision in waiting]))
            self.store.decide(decision, choice, "ann", "I asked Greg myself." if choice == "edit" else "")

    @precondition(lambda self: self.store.runs(1))
    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        run_id = data.draw(st.sampled_from([run.run_id for run in self.store.runs(100)]))
        self.store.undo(run_id)

    @invariant()
    def nothing_is_hidden_by_what_is_not_there(self) -> None:
        assert self.store.settle(SETTLED_S)
        for node in self.store.catalog.listing():
            meta = okf.parse(self.store.vault.read(node.path)).meta
            successor = last_successor(node.node_id, self.store.core.lookup.read)
            put_away = is_over({**meta, "superseded_by": None})
            assert node.live == (not put_away and successor is None), (node.node_id, meta)

    def restore_all(self) -> None:
        """Whatever is hidden comes back at once."""
        for node in [node for node in self.store.catalog.listing() if not node.live]:
            self.store.restore(node.node_id)
            assert self.store.show(node.node_id).live


QUICKLY = tuple(phase for phase in Phase if phase is not Phase.explain)
LastWord.TestCase.settings = settings(
    max_examples=examples(30),
    stateful_step_count=14,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=QUICKLY,
)
TestLastWord = LastWord.TestCase
