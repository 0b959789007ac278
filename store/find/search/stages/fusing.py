"""Fusion of both arms over a pool, scaled to [0, 1]."""

from __future__ import annotations

import numpy as np

from ....score_stages import Fusion
from .fusion import fuse_by_reciprocal_rank, fuse_by_score
from .pool import Pool, Scores, best_first

LEAST_RRF_K = 20
"""The constant of reciprocal ranks for short lists, where it follows their length (aquifer)."""


def fuse(pool: Pool, values: Fusion, limit: int) -> Scores:
    """Return the fused score of each candidate, times `share`; -inf where no arm of some weight has it.

    `limit` is the number of hits that are asked for, by which `over_fetch` cuts the arms.
    """
    most = max(values.over_fetch * limit, values.least) if values.over_fetch else len(pool)
    weights = (values.keyword_weight, values.vector_weight)
    keyword = _cut(pool.keyword, most if weights[0] else 0)
    cosine = _cut(pool.cosine, most if weights[1] else 0)
    total = sum(weights) or 1.0
    if values.method == "rrf":
        fused = _reciprocal_ranks(keyword, cosine, weights, values.rrf_k)
    elif values.method == "weighted":
        best = max(float(np.nan_to_num(keyword).max(initial=0.0)), 1e-12)
        fused = (weights[0] * np.nan_to_num(keyword) / best + weights[1] * np.nan_to_num(cosine).clip(0, 1)) / total
    else:
        fused = _scaled_sum(pool, keyword, cosine, weights) / total
    fused[np.isnan(keyword) & np.isnan(cosine)] = -np.inf
    return np.asarray(values.share * fused, np.float64)


def _cut(scores: Scores, most: int) -> Scores:
    """Return an arm with its best candidates alone, nan elsewhere."""
    kept = np.full_like(scores, np.nan)
    order = best_first(scores)[:most]
    kept[order] = scores[order]
    return kept


def _reciprocal_ranks(keyword: Scores, cosine: Scores, weights: tuple[float, float], k: int | None) -> Scores:
    """Return weighted reciprocal ranks (Cormack 2009) over the best that there could be."""
    rankings = [best_first(keyword), best_first(cosine)]
    if k is None:
        k = max(LEAST_RRF_K, max(map(len, rankings)) // 2)
    fused = np.zeros(len(keyword))
    for ranking, weight in zip(rankings, weights, strict=True):
        for place, score in fuse_by_reciprocal_rank([[str(place) for place in ranking]], k):
            fused[int(place)] += weight * score
    return fused * (k + 1) / (sum(weights) or 1.0)


def _scaled_sum(pool: Pool, keyword: Scores, cosine: Scores, weights: tuple[float, float]) -> Scores:
    arms = [{str(place): float(arm[place]) for place in best_first(arm)} for arm in (keyword, cosine)]
    fused = np.zeros(len(pool))
    for place, score in fuse_by_score(arms, weights, [0.0, None]):
        fused[int(place)] = score
    waiting = np.isnan(pool.cosine) & ~np.isnan(keyword)  # for their vector: words speak for both arms
    if weights[0] and weights[1]:
        fused[waiting] *= sum(weights) / weights[0]
    return fused
