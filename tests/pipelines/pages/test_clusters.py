"""Clusters of points whose groups are known."""

from __future__ import annotations

import numpy as np
import pytest
from dreamd.pipelines.pages import clusters
from dreamd.pipelines.pages.clusters import LARGEST, SMALLEST, cluster
from dreamd.pipelines.workspace.view import Vectors


def around(seed: int, count: int, spread: float = 0.01) -> Vectors:
    """Return unit vectors near one random direction."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal(64) / 8 + spread * rng.standard_normal((count, 64))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def test_groups_are_found() -> None:
    vectors = np.concatenate([around(1, 5), around(2, 6), around(5, 7)])
    assert cluster(vectors) == [[*range(5)], [*range(5, 11)], [*range(11, 18)]]


def test_too_few_rows_are_no_cluster() -> None:
    assert cluster(np.concatenate([around(1, 2 * SMALLEST), around(4, SMALLEST - 1)])) == []


def test_the_order_of_the_rows_makes_no_difference() -> None:
    vectors = np.concatenate([around(1, 5), around(2, 6), around(5, 7)])
    order = np.random.default_rng(0).permutation(len(vectors))
    found = {frozenset(order[group].tolist()) for group in cluster(vectors[order])}
    assert found == {frozenset(group) for group in cluster(vectors)}


def test_one_group_is_no_cluster_and_two_are() -> None:
    one, other = around(1, 9), around(2, 4)
    assert cluster(np.repeat(one[:1], 9, axis=0)) == []
    assert cluster(np.concatenate([one[:4], other])) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_equal_rows_are_one_group_and_a_large_one_is_bounded() -> None:
    vectors = np.concatenate([np.repeat(around(1, 1), LARGEST + 20, axis=0), np.repeat(around(2, 1), 5, axis=0)])
    large, small = cluster(vectors)
    assert len(large) == LARGEST
    assert small == [*range(LARGEST + 20, LARGEST + 25)]


def test_clusters_are_bounded_and_the_same_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    centres = rng.normal(size=(6, 64))
    points = np.repeat(centres, 30, axis=0) + 0.25 * rng.normal(size=(180, 64))
    vectors = np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True), np.float32)[rng.permutation(180)]
    found = clusters.cluster(vectors)
    assert found == clusters.cluster(vectors)
    assert len(found) >= 6
    rows = [row for group in found for row in group]
    assert len(rows) == len(set(rows))
    monkeypatch.setattr(clusters, "MOST_POINTS", 90)
    bounded = clusters.cluster(vectors)
    assert any(row >= 90 for group in bounded for row in group)
    assert all(clusters.SMALLEST <= len(group) <= clusters.LARGEST for group in [*found, *bounded])
    assert clusters.cluster(vectors[:5]) == []
