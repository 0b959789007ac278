"""Spreading: a question about the whole conversation is answered from many of its sessions, not only the nearest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ....model import NodeId
from .pool import Scores

SPREAD = 40
"""The best candidates that are spread: as many as are ever read for an answer."""

LOWERED = 0.6
"""The log odds that a candidate loses for each of its session that stands before it. From .4 to .8 evidence recall@10
of BEAM's dev conversations is the same."""


def spread_over_sessions(best_first: Sequence[int], scores: Scores, units: Sequence[NodeId]) -> list[int]:
    """Return the places of candidates in a new order: the best next, less LOWERED for each of its session so far."""
    left = list(best_first[:SPREAD])
    session_of = {place: units[place].partition("#")[0] for place in left}
    number: Counter[NodeId] = Counter()
    spread = []
    while left:
        place = max(left, key=lambda one: scores[one] - LOWERED * number[session_of[one]])
        left.remove(place)
        number[session_of[place]] += 1
        spread.append(place)
    return [*spread, *best_first[SPREAD:]]
