from __future__ import annotations

from pathlib import Path

import pytest

from .simulation import cut_at_random_point


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
