"""The learned scorer: which of a question's candidates answers it, by a weighted sum of their features.

The weights are learned listwise (softmax over a question's candidates, Cao et al. 2007) from the dev sets, by
`python -m tests.bench.ranking`, which also prints what they are worth on conversations that they were not learned from.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from hashlib import sha256

import numpy as np

from ..model import FittedRanking
from .features import Values
from .weights import WEIGHTS


def scores_of(features: Mapping[str, Values], weights: Mapping[str, float] = WEIGHTS) -> Values:
    """Return the score of each candidate; only their differences within a question say anything.

    A feature without a weight counts for nothing. There is at least one weight.
    """
    return np.asarray(np.sum([weight * features[name] for name, weight in weights.items()], axis=0), np.float64)


def name_of(weights: Mapping[str, float]) -> str:
    """Return the name of a set of weights: a hash of its features and of their values."""
    return sha256(json.dumps(weights, sort_keys=True).encode()).hexdigest()[:16]


SCORER = name_of(WEIGHTS)
"""The name of the shipped weights. What was fitted to others, or to other features, is not used with them."""


def weights_in_use(fitted: FittedRanking | None) -> Mapping[str, float]:
    """Return fitted weights, or the shipped ones where there are none that belong to them."""
    if fitted is None or fitted.scorer != SCORER or fitted.weights.keys() != WEIGHTS.keys():
        return WEIGHTS
    return fitted.weights if all(map(math.isfinite, fitted.weights.values())) else WEIGHTS
