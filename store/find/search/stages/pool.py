"""The candidates of one question as arrays: what stages read, and nothing that they change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....model import NodeId

Scores = NDArray[np.float64]
Order = NDArray[np.intp]

PAST, NO_TENSE, CURRENT = -1, 0, 1
NO_SESSION = -1


class Edge(NamedTuple):
    """A link between two candidates by their place; it is followed both ways."""

    one: int
    other: int
    kind: str


@dataclass(frozen=True, slots=True)
class Pool:
    """Arrays over n candidates, in the order of their ids.

    `keyword` (bm25) and `cosine` are nan where an arm has no score: what only a link brought in has neither. `said_at`
    is in seconds of the epoch, nan where unknown. `session` is a number, or NO_SESSION; `ordinal` a turn's place in it.
    `certainty` is 1 where none was given. `vectors` are unit vectors (n × dimension), zeros where there is none.
    """

    units: tuple[NodeId, ...]
    keyword: Scores
    cosine: Scores
    said_at: Scores
    chars: Scores
    session: NDArray[np.int64]
    ordinal: NDArray[np.int64]
    is_assistant: NDArray[np.bool_]
    certainty: Scores
    tense: NDArray[np.int64]
    vectors: NDArray[np.float32]
    edges: tuple[Edge, ...] = field(default=())

    def __len__(self) -> int:
        """Return n."""
        return len(self.units)

    def age_days(self, now_s: float) -> Scores:
        """Return the ages at a moment, at least 0; nan where unknown."""
        return np.maximum(0.0, now_s - self.said_at) / 86_400.0


def best_first(scores: Scores) -> Order:
    """Return the places of all that has a score, the best first; ties by place. -inf and nan are no scores."""
    usable = np.flatnonzero(np.isfinite(scores))
    return np.asarray(usable[np.argsort(-scores[usable], kind="stable")], np.intp)
