from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tests.store.disks.simulation import PumpedWriter, Simulation, cut_at_random_point


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_nothing_acknowledged_is_lost(tmp_path: Path, first: int) -> None:
    """Ten cuts at a time; `tests/bench/power_loss.py` makes five hundred."""
    wrong = {}
    for seed in range(first, first + 10):
        _, verdict = cut_at_random_point(tmp_path / str(seed), seed)
        if verdict is not None:
            wrong[seed] = verdict
    assert not wrong


@pytest.mark.parametrize("layer", ["ledger", "vault"])
def test_a_layer_that_does_not_sync_is_found_out(tmp_path: Path, layer: str) -> None:
    """The simulation has teeth: without fsync it must find losses within a few cuts."""
    verdicts = (cut_at_random_point(tmp_path / str(seed), seed, frozenset({layer}))[1] for seed in range(30))
    assert any(verdict is not None for verdict in verdicts)


class HastyWriter(PumpedWriter):
    """The planted defect: it promises, and commits afterwards."""

    def _commit(
        self, entries: Any, writes: Any, answers: Sequence[tuple[Future[Any], Any]], *more: Any, **named: Any
    ) -> None:
        for future, result in answers:
            future.set_result(result)
        super()._commit(entries, writes, [], *more, **named)


class HastyLife(Simulation):
    writer_type = HastyWriter


def test_a_promise_that_comes_before_its_commit_is_found_out(tmp_path: Path) -> None:
    verdicts = (cut_at_random_point(tmp_path / str(seed), seed, life=HastyLife)[1] for seed in range(30))
    assert any(verdict is not None for verdict in verdicts)
