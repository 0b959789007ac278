"""Calibration: what is fitted says of hits how often they are right."""

from __future__ import annotations

import numpy as np
import pytest

from .calibration import fitted


def test_the_fit_finds_how_often_hits_are_right() -> None:
    rng = np.random.default_rng(24)
    odds = rng.normal(0.0, 2.0, 20_000)
    right = (rng.random(20_000) < 1 / (1 + np.exp(-(0.4 * odds - 2.3)))).astype(float)
    assert fitted(odds, right) == pytest.approx([0.4, -2.3], abs=0.1)
