"""Fusion of several ranked lists into one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...model import NodeId


def fuse_by_reciprocal_rank(rankings: Sequence[Sequence[NodeId]], k: int = 60) -> list[tuple[NodeId, float]]:
    """Fuse ranked lists, best first, by reciprocal rank (Cormack 2009, k = 60).

    Ids are unique within a list. Scores lie in (0, len(rankings) / (k + 1)]; ties go by node id, so the order is
    the same on every machine.
    """
    scores: dict[NodeId, float] = {}
    for ranking in rankings:
        for rank, node_id in enumerate(ranking, start=1):
            scores[node_id] = scores.get(node_id, 0.0) + 1.0 / (k + rank)
    return _best_first(scores)


def fuse_by_score(
    arms: Sequence[Mapping[NodeId, float]], weights: Sequence[float], floors: Sequence[float | None] = ()
) -> list[tuple[NodeId, float]]:
    """Fuse scored answers: each arm scaled to [0, 1] (min-max), then the weighted sum.

    An id that an arm did not return counts 0 there. What scales to 0 is the arm's lowest score, or its floor where one
    is given (0.0 for bm25: a weak match is still better than none). An arm whose scores are all alike gives 1 to each.
    Ties go by node id. Raises ValueError when `weights` or `floors` do not match the arms.
    """
    if len(weights) != len(arms) or (floors and len(floors) != len(arms)):
        raise ValueError("one weight, and one floor if any, for each arm")
    scores: dict[NodeId, float] = {}
    for arm, weight, floor in zip(arms, weights, floors or [None] * len(arms), strict=True):
        for node_id, scaled in _scaled(arm, floor).items():
            scores[node_id] = scores.get(node_id, 0.0) + weight * scaled
    return _best_first(scores)


def _scaled(arm: Mapping[NodeId, float], floor: float | None) -> dict[NodeId, float]:
    if not arm:
        return {}
    high = max(arm.values())
    low = min(arm.values()) if floor is None else min(floor, high)
    spread = high - low
    if spread <= 0.0:
        return dict.fromkeys(arm, 1.0)
    return {node_id: max(0.0, (score - low) / spread) for node_id, score in arm.items()}


def _best_first(scores: Mapping[NodeId, float]) -> list[tuple[NodeId, float]]:
    return sorted(scores.items(), key=lambda scored: (-scored[1], scored[0]))
