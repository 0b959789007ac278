"""Cascade: what the best candidates are linked to is a candidate too, the weaker the longer the way."""

from __future__ import annotations

from collections import defaultdict, deque

import numpy as np

from ....score_stages import Cascade
from .pool import Pool, Scores, best_first


def cascade(scores: Scores, pool: Pool, settings: Cascade) -> Scores:
    """Return scores of which each is at least what a walk from a seed brings it (jcode).

    A walk of links l1, l2, … brings seed · w(l1) · step · w(l2) · step² · …: the n-th link counts step^n, as published.
    A candidate is entered from the first walk that reaches it, breadth first, the best seeds first.
    """
    weights = settings.model_dump()
    beside: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for one, other, kind in pool.edges:
        weight = float(weights.get(kind, settings.other))
        beside[one].append((other, weight))
        beside[other].append((one, weight))
    near = np.nan_to_num(pool.cosine, nan=-2.0) >= settings.least_cosine
    seeds = [int(place) for place in best_first(scores) if near[place]][: settings.seeds]
    result = scores.copy()
    queue = deque((place, float(scores[place]), 0) for place in seeds)
    visited: set[int] = set()
    while queue:
        place, score, depth = queue.popleft()
        if place in visited:
            continue
        visited.add(place)
        if depth == settings.depth:
            continue
        for other, weight in beside[place]:
            brought = score * weight * settings.step ** (depth + 1)
            if other not in visited and brought > result[other]:
                result[other] = brought
                queue.append((other, brought, depth + 1))
    return result
