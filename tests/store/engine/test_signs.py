"""The scan of signs against a plain one."""

from __future__ import annotations

import numpy as np
import pytest
from dreamd.store.engine import vectors as engine_vectors
from dreamd.store.engine.interface import Vector
from dreamd.store.engine.vectors import Signs
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

DIMENSION = 448  # seven words: two bytes of three, and one


def _vectors(count: int, seed: int = 1) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((count, DIMENSION)).astype(np.float32)


def _held(vectors: NDArray[np.float32], capacity: int) -> Signs:
    held = Signs(DIMENSION)
    held.grow(capacity)
    held.put(np.arange(len(vectors)), vectors)
    return held


def _plain(vectors: NDArray[np.float32], asked: Vector, keep: int, mask: NDArray[np.bool_]) -> list[int]:
    """The rows of the mask as near as the one at place `keep`, in their order; of those that tie, not too many."""
    distances = np.count_nonzero((vectors > 0) != (asked > 0), axis=1)
    rows = np.flatnonzero(mask[: len(vectors)])
    last = sorted(distances[rows])[min(keep, len(rows)) - 1]
    inside = [int(row) for row in rows if distances[row] < last]
    ties = [int(row) for row in rows if distances[row] == last]
    return sorted(inside + ties[: 4 * keep - len(inside)])


@given(keep=st.integers(1, 300), share=st.floats(0.02, 1.0), seed=st.integers(0, 9))
def test_the_nearest_are_those_of_a_plain_scan(keep: int, share: float, seed: int) -> None:
    vectors, asked = _vectors(700), _vectors(1, seed + 2)[0]
    mask = np.zeros(1000, bool)
    mask[:700] = np.random.default_rng(seed).random(700) < share
    mask[0] = True
    found = _held(vectors, 1000).nearest(asked, keep, mask, int(mask.sum()))
    assert sorted(found.tolist()) == _plain(vectors, asked, keep, mask)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, asked = _vectors(500), _vectors(1, 5)[0]
    held, mask = _held(vectors, 500), np.ones(500, bool)
    whole = held.nearest(asked, 20, mask, 500)
    monkeypatch.setattr(engine_vectors, "BLOCK_ROWS", 64)
    assert held.nearest(asked, 20, mask, 500).tolist() == whole.tolist()


@given(keep=st.integers(1, 60), seed=st.integers(0, 9))
def test_the_least_of_many_are_those_of_a_sort(keep: int, seed: int) -> None:
    distances = np.random.default_rng(seed).integers(0, 400, 9000).astype(np.uint16)
    last = np.sort(distances)[keep - 1]
    found = engine_vectors._least(distances, keep)
    assert len(found) == min(4 * keep, np.count_nonzero(distances <= last))
    assert set(np.flatnonzero(distances < last)) <= set(found.tolist())
    assert distances[found].max() == last


def test_of_many_that_tie_some_are_returned() -> None:
    same = np.repeat(_vectors(1), 500, axis=0)
    found = _held(same, 500).nearest(same[0], 20, np.ones(500, bool), 500)
    assert found.tolist() == list(range(80))
