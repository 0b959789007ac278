"""Fitting to one person: a small change of known weights, from that person's questions, and its test by days left out.

Few questions say little, so the L2 penalty is on the change, of features of unit variance, and each weight is bounded.
What a change gains is measured by weights that were learned without the question's days, and decides nothing but
whether the change is proposed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .listwise import Example, Values, cross_validated, learn

L2 = 0.1
"""Of the change: ten times what the shipped weights are learned with, from some 1,500 questions."""

SHARE, LEAST = 0.5, 0.5
"""A weight may change by this share of its size, and by LEAST besides, so that a small one can gain a meaning."""

FOLDS = 5
ROUNDS = 2000
LOWER = 0.025
"""The quantile of the bootstrap above which the gain must be: it is real at 95 %, both sides counted."""


@dataclass(frozen=True, slots=True)
class Gain:
    """Mean reciprocal rank of the best gold candidate before and after, and the lower bound of the difference."""

    before: float
    after: float
    lower: float

    @property
    def is_real(self) -> bool:
        """True if it is above 0 at 95 %."""
        return self.lower > 0.0


def fit(examples: Sequence[Example], shipped: Values) -> Values:
    """Return weights near the shipped ones that rank the gold of these examples higher."""
    most = SHARE * np.abs(shipped) + LEAST
    return np.asarray(np.clip(learn(examples, L2, shipped), shipped - most, shipped + most), np.float64)


def gain_by_days_left_out(
    examples: Sequence[Example], shipped: Values, in_use: Values, rng: np.random.Generator
) -> Gain:
    """Return what fitting gains over the weights in use; the group of an example is its day, and there are several."""
    days = sorted({one.group for one in examples})
    fold_of = {day: f"fold {place % FOLDS}" for place, day in enumerate(days)}
    folded = [replace(one, group=fold_of[one.group]) for one in examples]
    after = ranks(examples, cross_validated(folded, lambda some: fit(some, shipped)))
    before = ranks(examples, [one.features @ in_use for one in examples])
    drawn = rng.integers(0, len(examples), (ROUNDS, len(examples)))
    means = (after - before)[drawn].mean(axis=1)
    return Gain(float(before.mean()), float(after.mean()), float(np.quantile(means, LOWER)))


def ranks(examples: Sequence[Example], scores: Sequence[Values]) -> Values:
    """Return the reciprocal rank of each example's best gold candidate; each has one."""
    best = (one.gold[np.argsort(-score, kind="stable")] for one, score in zip(examples, scores, strict=True))
    return np.array([1.0 / (1 + int(np.argmax(gold))) for gold in best])
