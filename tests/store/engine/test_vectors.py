"""Vectors in memory against those that were given."""

from __future__ import annotations

import numpy as np
import pytest
from dreamd.store.engine import vectors as module
from dreamd.store.engine.vectors import QuantizedVectors, quantized, unit
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

DIMENSION, ROWS = 96, 30
KEPT_TO = 0.004


def _given(count: int, seed: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((count, DIMENSION)).astype(np.float32)


puts = st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=9, unique=True)


@given(st.lists(puts, max_size=12), st.integers(0, 99))
def test_a_row_is_what_was_last_put(steps: list[list[int]], seed: int) -> None:
    held, expected = QuantizedVectors(DIMENSION), np.zeros((ROWS, DIMENSION), np.float32)
    capacity = 0
    for number, rows in enumerate(steps):
        if max(rows) >= capacity:
            held.grow(capacity := max(rows) + 1)
        expected[rows] = _given(len(rows), seed + number)
        held.put(np.array(rows), quantized(expected[rows]))
    held.grow(ROWS)
    asked = unit(_given(1, seed + 1000)[0])
    assert np.abs(held.cosines(np.arange(ROWS), asked) - unit(expected) @ asked).max() < KEPT_TO


@given(st.integers(0, 99), st.floats(1e-3, 1e3))
def test_cosines_are_those_of_the_whole_numbers(seed: int, length: float) -> None:
    vectors = np.float32(length) * _given(ROWS, seed)
    held = QuantizedVectors(DIMENSION)
    held.grow(ROWS)
    held.put(np.arange(ROWS), quantized(vectors))
    whole = unit(np.rint(vectors * (127 / np.abs(vectors).max(axis=1, keepdims=True))))
    asked = unit(_given(1, seed + 1)[0])
    assert np.allclose(held.cosines(np.arange(ROWS), asked), whole @ asked, atol=1e-5)
    itself = np.array([held.cosines(np.array([row]), unit(vectors[row]))[0] for row in range(ROWS)])
    assert (itself > 1 - KEPT_TO).all()
    assert (itself < 1 + 1e-5).all()


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    held, asked = QuantizedVectors(DIMENSION), unit(_given(1, 3)[0])
    held.grow(ROWS)
    held.put(np.arange(ROWS), quantized(_given(ROWS, 4)))
    rows = np.array([7, 3, 3, 29, 0, 12])
    whole = held.cosines(rows, asked)
    monkeypatch.setattr(module, "AT_ONCE", 4)
    assert np.allclose(held.cosines(rows, asked), whole, atol=1e-6)
    assert len(held.cosines(rows[:0], asked)) == 0


def test_no_direction_is_near_nothing() -> None:
    held = QuantizedVectors(DIMENSION)
    held.grow(3)
    held.put(np.array([1]), quantized(np.zeros((1, DIMENSION), np.float32)))
    assert held.cosines(np.arange(3), unit(_given(1, 3)[0])).tolist() == [0.0, 0.0, 0.0]


def test_what_was_kept_is_restored() -> None:
    held, other, asked = QuantizedVectors(DIMENSION), QuantizedVectors(DIMENSION), unit(_given(1, 3)[0])
    held.grow(ROWS)
    held.put(np.arange(20), quantized(_given(20, 4)))
    other.restore(held.arrays(20))
    other.grow(ROWS)
    assert np.array_equal(other.cosines(np.arange(ROWS), asked), held.cosines(np.arange(ROWS), asked))
