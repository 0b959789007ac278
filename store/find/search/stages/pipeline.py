"""The pipeline: fusion, then every stage that is switched on, in one fixed order."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import numpy as np

from ....model import NodeId
from ....score_stages import Stages
from . import choosing, weighing
from .cascade import cascade
from .fusing import fuse
from .pool import Order, Pool, Scores, best_first


class Scored(NamedTuple):
    """A candidate with its score."""

    unit: NodeId
    score: float


def run(pool: Pool, stages: Stages, now: datetime, limit: int) -> list[Scored]:
    """Return what the stages leave of a pool, best first, ties by id; scores fall or stay from one to the next.

    `now` is the moment from which ages are counted, `limit` the number of hits that are asked for.
    """
    with np.errstate(invalid="ignore"):  # a factor of 0 on what is no candidate
        scores = _weighed(fuse(pool, stages.fusion, limit), pool, stages, now.timestamp())
    scores = np.where(np.isnan(scores), -np.inf, scores)
    if stages.minimum is not None:
        scores = choosing.hard_minimum(scores, stages.minimum)
    if stages.cascade is not None:
        scores = cascade(scores, pool, stages.cascade)
    order = _chosen(best_first(scores), scores, pool, stages)
    falling = np.minimum.accumulate(scores[order]) if len(order) else scores[order]
    return [Scored(pool.units[place], float(score)) for place, score in zip(order, falling, strict=True)]


def _weighed(scores: Scores, pool: Pool, stages: Stages, now_s: float) -> Scores:
    if stages.cosine_rerank is not None:
        scores = weighing.cosine_rerank(scores, pool, stages.cosine_rerank)
    if stages.recency is not None:
        scores = weighing.recency_boost(scores, pool, stages.recency, now_s)
    if stages.importance is not None:
        scores = weighing.importance(scores, pool, stages.importance)
    if stages.tense is not None:
        scores = weighing.tense(scores, pool, stages.tense)
    if stages.speakers is not None:
        scores = weighing.speakers(scores, pool, stages.speakers)
    if stages.session_prior is not None:
        scores = weighing.session_prior(scores, pool, stages.session_prior)
    if stages.neighbours is not None:
        scores = weighing.neighbours(scores, pool, stages.neighbours)
    if stages.length is not None:
        scores = weighing.length_normalisation(scores, pool, stages.length)
    if stages.time_decay is not None:
        scores = weighing.time_decay(scores, pool, stages.time_decay, now_s)
    return scores


def _chosen(order: Order, scores: Scores, pool: Pool, stages: Stages) -> Order:
    if stages.mmr is not None:
        order = choosing.mmr(order, scores, pool, stages.mmr)
    if stages.near_duplicates is not None:
        order = choosing.near_duplicates(order, pool, stages.near_duplicates)
    if stages.session_cap is not None:
        order = choosing.session_cap(order, pool, stages.session_cap)
    return order
