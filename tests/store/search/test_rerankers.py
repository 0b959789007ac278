"""Score stages: what each does on a few candidates, and what holds of any pool and any pipeline."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal, get_args

import numpy as np
import pytest
from dreamd.store import settings as values
from dreamd.store.search import rerankers
from dreamd.store.search.rerankers import (
    CURRENT,
    NO_SESSION,
    NO_TENSE,
    PAST,
    Pool,
    best_first,
    cascade,
    fuse,
    run,
)
from dreamd.store.settings import PRESETS, Fusion, StageName, Stages
from hypothesis import given
from hypothesis import strategies as st

Method = Literal["rrf", "min_max", "weighted"]
METHODS: tuple[Method, ...] = get_args(Method)
NONE = math.nan


def pool_of(*cosines: float, keyword: tuple[float, ...] = ()) -> Pool:
    """Return candidates a, b, … of one session each, of now, with vectors at right angles."""
    n = len(cosines)
    return Pool(
        units=tuple(chr(97 + number) for number in range(n)),
        keyword=np.array(keyword or [NONE] * n, np.float64),
        cosine=np.array(cosines, np.float64),
        age_days=np.zeros(n),
        chars=np.full(n, 100.0),
        session=np.arange(n, dtype=np.int64),
        certainty=np.ones(n),
        tense=np.full(n, NO_TENSE, np.int64),
        vectors=np.eye(n, dtype=np.float32),
    )


def aged(pool: Pool, *days: float) -> Pool:
    return replace(pool, age_days=np.array(days, np.float64))


def scored(*scores: float) -> np.ndarray:
    return np.array(scores, np.float64)


# -- fusion


def test_an_arm_that_found_nothing_leaves_the_order_to_the_other() -> None:
    pool = pool_of(0.2, 0.9, 0.4)
    for method in METHODS:
        assert list(best_first(fuse(pool, Fusion(method=method), 10))) == [1, 2, 0]


def test_reciprocal_ranks_are_over_the_best_that_there_could_be() -> None:
    pool = pool_of(0.9, 0.5, keyword=(3.0, 9.0))
    assert fuse(pool, Fusion(method="rrf", rrf_k=60), 10).tolist() == pytest.approx([(1 + 61 / 62) / 2] * 2)
    weighted = fuse(pool, Fusion(method="rrf", keyword_weight=0.3, vector_weight=0.7), 10)
    assert weighted.tolist() == pytest.approx([0.3 * 61 / 62 + 0.7, 0.3 + 0.7 * 61 / 62])


def test_cosines_and_scaled_keyword_scores_are_summed() -> None:
    pool = pool_of(0.5, -0.2, keyword=(2.0, 8.0))
    fused = fuse(pool, Fusion(method="weighted", keyword_weight=0.3, vector_weight=0.7), 10)
    assert fused.tolist() == pytest.approx([0.7 * 0.5 + 0.3 * 0.25, 0.3])


def test_over_fetch_cuts_each_arm() -> None:
    pool = pool_of(0.9, 0.8, 0.7, keyword=(1.0, NONE, NONE))
    fused = fuse(pool, Fusion(method="rrf", over_fetch=2), limit=1)
    assert np.isfinite(fused).tolist() == [True, True, False]
    assert np.isfinite(fuse(pool, Fusion(method="rrf", over_fetch=2, least=3), limit=1)).all()


def test_an_arm_without_weight_takes_no_part() -> None:
    pool = pool_of(0.9, 0.8, NONE, keyword=(NONE, 1.0, 2.0))
    for method in METHODS:
        assert np.isfinite(fuse(pool, Fusion(method=method, vector_weight=0), 10)).tolist() == [False, True, True]
        assert np.isfinite(fuse(pool, Fusion(method=method, keyword_weight=0), 10)).tolist() == [True, True, False]


# -- stages that weigh


def test_a_blend_leaves_what_has_no_cosine() -> None:
    blended = rerankers.cosine_rerank(scored(0.5, 0.5), pool_of(1.0, NONE), values.CosineRerank(blend=0.3))
    assert blended.tolist() == pytest.approx([0.65, 0.5])


def test_youth_is_added_and_age_divides() -> None:
    pool = aged(pool_of(0.5, 0.5, 0.5), 0, 14, 5e5)
    boosted = rerankers.recency(scored(0, 0, 0), pool, values.RecencyBoost())
    assert boosted.tolist() == pytest.approx([0.1, 0.05, 0.0])
    decayed = rerankers.time_decay(scored(1, 1, 1), pool, values.TimeDecay(half_life_days=14))
    assert decayed.tolist() == pytest.approx([1.0, 0.75, 0.5])


def test_a_logistic_boost_is_half_at_its_middle_and_where_the_age_is_unknown() -> None:
    pool = aged(pool_of(0.5, 0.5), 45, 0)
    settings = values.RecencyBoost(shape="logistic", weight=0.25, half_life_days=45, steepness=0.05)
    boosted = rerankers.recency(scored(0, 0), pool, settings)
    assert boosted.tolist() == pytest.approx([0.125, 0.25 / (1 + math.exp(-2.25))])
    unknown = replace(pool, age_days=np.array([NONE, NONE]))
    assert rerankers.recency(scored(0, 0), unknown, settings).tolist() == [0.125, 0.125]
    assert rerankers.time_decay(scored(1, 1), unknown, values.TimeDecay()).tolist() == [1, 1]


def test_long_texts_are_divided_by_their_doublings() -> None:
    pool = replace(pool_of(0, 0, 0), chars=np.array([20.0, 500.0, 2000.0]))
    assert rerankers.length(scored(1, 1, 1), pool, values.LengthNormalisation()).tolist() == [1, 1, 0.5]


def test_facts_that_hold_rise_and_those_that_held_fall() -> None:
    pool = replace(pool_of(0, 0, 0), tense=np.array([CURRENT, NO_TENSE, PAST]))
    assert rerankers.tense(scored(1, 1, 1), pool, values.Tense()).tolist() == [1.2, 1.0, 0.7]


def test_certainty_scales() -> None:
    pool = replace(pool_of(0, 0), certainty=np.array([0.0, 1.0]))
    assert rerankers.importance(scored(1, 1), pool, values.Importance()).tolist() == pytest.approx([0.7, 1.0])


# -- stages that choose


def test_what_is_below_the_minimum_is_left_out() -> None:
    assert rerankers.minimum(scored(0.34, 0.35), pool_of(0, 0), values.HardMinimum()).tolist() == [-math.inf, 0.35]


def test_mmr_takes_the_other_before_the_like() -> None:
    pool = replace(pool_of(0, 0, 0), vectors=np.array([[1, 0], [1, 0], [0, 1]], np.float32))
    order, scores = np.array([0, 1, 2]), scored(1.0, 0.9, 0.0)
    assert rerankers.mmr(order, scores, pool, values.Mmr(share=0.5)).tolist() == [0, 2, 1]
    assert rerankers.mmr(order, scores, pool, values.Mmr(share=1.0)).tolist() == [0, 1, 2]
    assert rerankers.mmr(order, scores, pool, values.Mmr(share=0.5, best=2)).tolist() == [0, 1, 2]


def test_near_duplicates_go_behind_all_others() -> None:
    pool = replace(pool_of(0, 0, 0), vectors=np.array([[1, 0], [1, 0], [0, 1]], np.float32))
    assert rerankers.near_duplicates(np.array([0, 1, 2]), pool, values.NearDuplicates()).tolist() == [0, 2, 1]


def test_a_session_has_no_more_hits_than_its_cap() -> None:
    pool = replace(pool_of(0, 0, 0, 0), session=np.array([0, 0, NO_SESSION, 0]))
    assert rerankers.session_cap(np.arange(4), pool, values.SessionCap(hits=1)).tolist() == [0, 2]


def test_a_cascade_brings_what_is_linked_the_weaker_the_further() -> None:
    links = ((0, 1, "supersedes"), (1, 2, "tag"), (2, 3, "related"))
    pool = replace(pool_of(0.9, NONE, NONE, NONE), edges=links)
    start = scored(1.0, -math.inf, -math.inf, -math.inf)
    assert cascade(start, pool, values.Cascade()).tolist() == pytest.approx(
        [1.0, 0.9 * 0.7, 0.9 * 0.7 * 0.8 * 0.49, -math.inf]
    )
    assert cascade(start, pool, values.Cascade(least_cosine=0.95)).tolist() == start.tolist()


# -- any pool

numbers = st.floats(-1.0, 1.0, width=32)
maybe = st.one_of(numbers, st.just(NONE))


@st.composite
def pools(draw: st.DrawFn) -> Pool:
    n = draw(st.integers(0, 8))

    def column(elements: st.SearchStrategy[float]) -> np.ndarray:
        return np.array(draw(st.lists(elements, min_size=n, max_size=n)), np.float64)

    whole = st.integers(-1, 3)
    vectors = np.array([draw(st.lists(numbers, min_size=3, max_size=3)) for _ in range(n)], np.float32).reshape(n, 3)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    place = st.integers(0, max(0, n - 1))
    kinds = st.sampled_from(["tag", "page", "related", "supersedes", "cites", "other"])
    links = draw(st.lists(st.tuples(place, place, kinds), max_size=6)) if n else []
    return Pool(
        units=tuple(f"u{number}" for number in range(n)),
        keyword=np.abs(column(maybe)),
        cosine=column(maybe),
        age_days=np.maximum(0.0, 1e8 * column(maybe)) / 86_400.0,
        chars=np.abs(column(numbers)) * 5000,
        session=np.array(column(whole), np.int64),
        certainty=np.abs(column(numbers)),
        tense=np.array(column(st.sampled_from([PAST, NO_TENSE, CURRENT])), np.int64),
        vectors=np.asarray(vectors / np.where(norms > 0, norms, 1.0), np.float32),
        edges=tuple(links),
    )


EVERY_STAGE = Stages(
    cosine_rerank=values.CosineRerank(),
    recency=values.RecencyBoost(),
    importance=values.Importance(),
    tense=values.Tense(),
    length=values.LengthNormalisation(),
    time_decay=values.TimeDecay(),
    cascade=values.Cascade(),
    mmr=values.Mmr(),
    near_duplicates=values.NearDuplicates(),
)
STAGE_NAMES: tuple[StageName, ...] = get_args(StageName)
pipelines = st.builds(
    lambda stages, off: stages.without(*off),
    st.sampled_from([EVERY_STAGE, *PRESETS.values()]),
    st.lists(st.sampled_from(STAGE_NAMES), max_size=4),
)


@given(pools(), pipelines, st.integers(1, 20))
def test_a_pipeline_returns_candidates_once_with_scores_that_fall(pool: Pool, stages: Stages, limit: int) -> None:
    found = run(pool, stages, limit)
    assert len({unit for unit, _ in found}) == len(found)
    assert {unit for unit, _ in found} <= set(pool.units)
    assert all(math.isfinite(score) for _, score in found)
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    assert found == run(pool, stages, limit)


@given(pools())
def test_all_that_an_arm_found_is_returned_unless_a_stage_leaves_it_out(pool: Pool) -> None:
    found = {n for n in range(len(pool)) if not (math.isnan(pool.keyword[n]) and math.isnan(pool.cosine[n]))}
    assert {unit for unit, _ in run(pool, EVERY_STAGE, 10)} >= {pool.units[n] for n in found}


@given(pools(), st.sampled_from(METHODS))
def test_fused_scores_lie_between_nought_and_one(pool: Pool, method: Method) -> None:
    fused = fuse(pool, Fusion(method=method), 10)
    assert all(-1e-9 <= score <= 1 + 1e-9 for score in fused[np.isfinite(fused)])


@given(pools())
def test_a_decay_never_raises_a_score_and_keeps_its_floor(pool: Pool) -> None:
    scores = np.ones(len(pool))
    decayed = rerankers.time_decay(scores, pool, values.TimeDecay(floor=0.5))
    assert all(0.5 <= score <= 1.0 for score in decayed)
    assert all(rerankers.length(scores, pool, values.LengthNormalisation()) <= 1.0)


@given(pools(), st.integers(1, 3))
def test_no_session_passes_its_cap(pool: Pool, hits: int) -> None:
    kept = rerankers.session_cap(np.arange(len(pool)), pool, values.SessionCap(hits=hits))
    counts = [int(pool.session[place]) for place in kept if pool.session[place] != NO_SESSION]
    assert all(counts.count(session) <= hits for session in counts)


@given(pools(), st.floats(0, 1))
def test_mmr_and_near_duplicates_only_change_the_order(pool: Pool, share: float) -> None:
    scores = np.linspace(1.0, 0.0, len(pool))
    order = np.arange(len(pool))
    for found in (
        rerankers.mmr(order, scores, pool, values.Mmr(share=share, best=5)),
        rerankers.near_duplicates(order, pool, values.NearDuplicates()),
    ):
        assert sorted(found.tolist()) == order.tolist()
        assert found.tolist()[:1] == order.tolist()[:1]
