"""The report of a run: the decisions that wait for a person."""

from __future__ import annotations

from dataclasses import replace

from dreamd.pipelines.report.run_report import open_pairs
from dreamd.pipelines.workspace.view import History
from dreamd.store import okf
from dreamd.store.changes.tombstone_keys import pair_key
from dreamd.store.model import Status

from tests.pipelines.fakes import FakeSource
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
