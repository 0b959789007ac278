"""The learned default on conversations that it was not learned from: its shipped weights know these sets' answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..ranking.listwise import cross_validated, learn
from .gathering import HITS, Asked


def held_out(asked: Sequence[Asked]) -> list[tuple[str, ...]] | None:
    """Return each question's first turns by weights learned without its conversation; None if nothing is learned.

    The questions of each set count the same together, as where the shipped weights are learned.
    """
    learned = [one.example for one in asked if one.example is not None]
    if len({example.group for example in learned}) < 2:
        return None
    sizes = Counter(example.dataset for example in learned)
    weighed = [replace(example, weight=1.0 / sizes[example.dataset]) for example in learned]
    scores = iter(cross_validated(weighed, learn))
    return [
        one.candidates[:HITS]
        if one.example is None
        else tuple(one.candidates[place] for place in np.argsort(-next(scores), kind="stable")[:HITS])
        for one in asked
    ]
