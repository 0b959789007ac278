"""The learned scorer: which of a question's candidates answers it, by a weighted sum of their features.

The weights are learned listwise (softmax over a question's candidates, Cao et al. 2007) from the dev sets, by
`python -m tests.bench.ranking`, which also prints what they are worth on conversations that they were not learned from.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .features import Values
from .weights import WEIGHTS


def scores_of(features: Mapping[str, Values], weights: Mapping[str, float] = WEIGHTS) -> Values:
    """Return the score of each candidate; only their differences within a question say anything.

    A feature without a weight counts for nothing. There is at least one weight.
    """
    return np.asarray(np.sum([weight * features[name] for name, weight in weights.items()], axis=0), np.float64)
