"""Charts draw any data within their bounds."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from dreamd.pipelines.report import charts
from dreamd.pipelines.report.charts import Life, Series

from tests.pipelines.fakes import NOW


@pytest.mark.parametrize("count", [0, 1, 2, 5000])
def test_a_curve_of_any_length_is_drawn(count: int) -> None:
    points = [(NOW + timedelta(hours=n), n) for n in range(count)]
    drawn = charts.over_time("t", [Series("facts", points)])
    assert bool(drawn) == bool(points)
    assert len(drawn) < 12_000
    assert "nan" not in drawn


def test_a_lifetime_of_zero_length_is_drawn() -> None:
    assert "<circle" in charts.lives("t", [Life("a", NOW, None, NOW)])
    assert charts.lives("t", []) == ""


@pytest.mark.parametrize("share", [-1.0, 0.0, 1.0, 2.0])
def test_a_share_outside_0_to_1_is_drawn_within_bounds(share: float) -> None:
    for x in re.findall(r'cx="([\d.-]+)"', charts.before_and_after("t", share, share)):
        assert charts.LABELS <= float(x) <= charts.WIDTH
