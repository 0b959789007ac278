from __future__ import annotations

import pytest
from dreamd.store.search.gathering import fuse_by_reciprocal_rank, fuse_by_score
from hypothesis import given
from hypothesis import strategies as st

ids = st.text("abcdefgh", min_size=1, max_size=2)
rankings = st.lists(st.lists(ids, unique=True, max_size=8), max_size=4)
arms = st.lists(st.dictionaries(ids, st.floats(-1e6, 1e6), max_size=8), min_size=1, max_size=4)


def test_reciprocal_ranks_are_cormacks() -> None:
    fused = fuse_by_reciprocal_rank([["a", "b"], ["b", "c"]])
    assert fused == [("b", 1 / 61 + 1 / 62), ("a", 1 / 61), ("c", 1 / 62)]
    assert fuse_by_reciprocal_rank([["a"]], k=1) == [("a", 0.5)]
    assert fuse_by_reciprocal_rank([]) == []


@given(rankings)
def test_ranks_fuse_within_bounds_and_ties_go_by_id(ranked: list[list[str]]) -> None:
    fused = fuse_by_reciprocal_rank(ranked)
    assert {node_id for node_id, _ in fused} == {node_id for ranking in ranked for node_id in ranking}
    assert all(0.0 < score <= len(ranked) / 61 for _, score in fused)
    assert fused == sorted(fused, key=lambda scored: (-scored[1], scored[0]))


@given(st.lists(ids, unique=True, max_size=8), st.integers(1, 4))
def test_rankings_that_agree_are_the_answer(ranking: list[str], times: int) -> None:
    assert [node_id for node_id, _ in fuse_by_reciprocal_rank([ranking] * times)] == ranking


def test_scores_are_scaled_arm_by_arm() -> None:
    fused = dict(fuse_by_score([{"a": 10.0, "b": 5.0, "c": 0.0}, {"b": 0.9, "d": 0.7}], [1.0, 2.0]))
    assert fused == {"a": 1.0, "b": 2.5, "c": 0.0, "d": 0.0}


def test_a_floor_keeps_the_weakest_match_above_no_match() -> None:
    assert dict(fuse_by_score([{"a": 4.0, "b": 1.0}], [1.0], [0.0])) == {"a": 1.0, "b": 0.25}
    assert dict(fuse_by_score([{"a": 4.0}], [1.0], [9.0])) == {"a": 1.0}


def test_an_arm_of_equal_scores_says_that_they_are_equal() -> None:
    assert dict(fuse_by_score([{"a": 0.3, "b": 0.3}, {"b": 0.1}, {}], [1.0, 1.0, 1.0])) == {"a": 1.0, "b": 2.0}


def test_each_arm_has_a_weight() -> None:
    with pytest.raises(ValueError, match="weight"):
        fuse_by_score([{}], [])
    with pytest.raises(ValueError, match="floor"):
        fuse_by_score([{}, {}], [1.0, 1.0], [0.0])


@given(arms)
def test_scores_fuse_within_bounds_and_ties_go_by_id(scored: list[dict[str, float]]) -> None:
    fused = fuse_by_score(scored, [1.0] * len(scored))
    assert {node_id for node_id, _ in fused} == {node_id for arm in scored for node_id in arm}
    assert all(0.0 <= score <= len(scored) for _, score in fused)
    assert fused == sorted(fused, key=lambda pair: (-pair[1], pair[0]))


@given(st.dictionaries(ids, st.integers(-100, 100).map(float), max_size=8), st.integers(1, 50), st.integers(-50, 50))
def test_an_arms_unit_does_not_matter(arm: dict[str, float], scale: int, shift: int) -> None:
    moved = {node_id: score * scale + shift for node_id, score in arm.items()}
    assert dict(fuse_by_score([moved], [1.0])) == pytest.approx(dict(fuse_by_score([arm], [1.0])))
