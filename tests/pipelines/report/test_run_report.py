"""The report of a run: the decisions that wait for a person, and the questions without an answer."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from dreamd.pipelines.report.run_report import open_pairs, recurring_gaps
from dreamd.pipelines.workspace.snapshot import History
from dreamd.store import okf
from dreamd.store.index.tombstones import pair_key
from dreamd.store.ledger.questions import Gap
from dreamd.store.model import Status

from tests.pipelines.fakes import NOW, FakeSource
from tests.pipelines.report.reports import fact


def test_open_pairs_are_contradictions_without_a_decision() -> None:
    a, b = fact("It is red", contradicts=("x",)), fact("It is blue")
    a = replace(a, contradicts=(b.node_id,))
    source = FakeSource()
    source.files |= {memory.path: okf.from_memory(memory) for memory in (a, b)}
    assert [{m.node_id for m in pair} for pair in open_pairs(source.view())] == [{a.node_id, b.node_id}]
    decided = History(tombstones=frozenset({pair_key(b.node_id, a.node_id)}))
    assert open_pairs(source.view(decided)) == []
    source.files[b.path] = okf.from_memory(replace(b, superseded_by=a.node_id, status=Status.DEPRECATED))
    assert open_pairs(source.view()) == []


def test_similar_questions_are_one_gap() -> None:
    gaps = [
        Gap("Where is the spare key?", None, 2, NOW),
        Gap("Where is the spare key?", "proj", 3, NOW - timedelta(days=1)),
        Gap("Who owns the boat?", None, 1, NOW - timedelta(days=2)),
    ]
    told = recurring_gaps(FakeSource().view(), gaps)
    assert told == [("Where is the spare key?", 5), ("Who owns the boat?", 1)]
    assert recurring_gaps(FakeSource().view(), []) == []
