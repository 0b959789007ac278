"""Stages that choose: each takes an order, best first, and returns one with some left out or put elsewhere."""

from __future__ import annotations

import numpy as np

from .... import score_stages as values
from .pool import NO_SESSION, Order, Pool, Scores


def hard_minimum(scores: Scores, settings: values.HardMinimum) -> Scores:
    """Return scores with those below the minimum as -inf."""
    return np.where(scores < settings.score, -np.inf, scores)


def mmr(order: Order, scores: Scores, pool: Pool, settings: values.Mmr) -> Order:
    """Return an order by maximal marginal relevance (Carbonell and Goldstein 1998): share · relevance - (1 - share) ·
    the highest cosine with what is already chosen.

    Relevance is the score scaled to [0, 1] over the `best` candidates; the others follow as they were.
    """
    head = order[: settings.best]
    if not len(head):
        return order
    vectors = pool.vectors[head]
    relevance = scores[head] - scores[head].min()
    relevance = relevance / (relevance.max() or 1.0)
    likeness = np.zeros(len(head))
    left = list(range(len(head)))
    chosen: list[int] = []
    while left:
        gain = settings.share * relevance[left] - (1 - settings.share) * likeness[left]
        best = left.pop(int(np.argmax(gain)))
        chosen.append(best)
        near = vectors @ vectors[best]
        likeness = near if len(chosen) == 1 else np.maximum(likeness, near)
    return np.concatenate([head[chosen], order[settings.best :]])


def near_duplicates(order: Order, pool: Pool, settings: values.NearDuplicates) -> Order:
    """Return an order with those behind all others that are too near to a better one that is not (Aleph)."""
    kept: list[int] = []
    behind: list[int] = []
    for place in map(int, order):
        near = pool.vectors[kept] @ pool.vectors[place]
        (behind if bool(np.any(near > settings.cosine)) else kept).append(place)
    return np.array([*kept, *behind], np.intp)


def session_cap(order: Order, pool: Pool, settings: values.SessionCap) -> Order:
    """Return an order without what is beyond the allowed number of its session (agentx)."""
    seen: dict[int, int] = {}
    kept = []
    for place in map(int, order):
        session = int(pool.session[place])
        seen[session] = seen.get(session, 0) + 1
        if session == NO_SESSION or seen[session] <= settings.hits:
            kept.append(place)
    return np.array(kept, np.intp)
