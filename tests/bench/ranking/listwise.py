"""Listwise learning of a linear score: a question's gold candidates against all others of it (Cao et al. 2007).

The loss of a question is the cross entropy of softmax(scores) with the gold candidates in equal shares; the mean over
the questions plus an L2 penalty on weights of features of unit variance. It is convex, and Newton's method ends in a
dozen steps, the same on every machine but for rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

L2 = 0.01
STEPS = 25
ENOUGH = 1e-7
"""A step that lowers the loss by less is the last."""


@dataclass(frozen=True, slots=True)
class Example:
    """One question: its candidates' features (a row each), which of them are gold, and how many gold turns there are.

    `group` is its conversation, which is learned from whole or not at all; `weight` is that of its set's questions.
    `prior` is added to the score of each candidate, and not learned.
    """

    dataset: str
    group: str
    features: Values
    gold: NDArray[np.bool_]
    wanted: int
    weight: float = 1.0
    prior: Values | float = 0.0


def learn(examples: Sequence[Example], l2: float = L2) -> Values:
    """Return the weight of each feature; questions without a gold candidate teach nothing."""
    useful = [one for one in examples if one.gold.any()]
    rows = np.concatenate([one.features for one in useful])
    spread = rows.std(axis=0) + 1e-9
    spread[spread < 1e-6] = np.inf  # a feature that never differs has no weight
    problem = _Problem(useful, (rows - rows.mean(axis=0)) / spread, l2)
    return np.asarray(problem.solve() / spread, np.float64)


class _Problem:
    """Finds the weights of rows of unit variance by Newton's method."""

    def __init__(self, examples: Sequence[Example], rows: Values, l2: float) -> None:
        sizes = [len(one.gold) for one in examples]
        share = np.array([one.weight for one in examples])
        self._share = share / share.sum()
        self._rows, self._l2 = rows, l2
        self._question = np.repeat(np.arange(len(sizes)), sizes)
        self._starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        self._wanted = np.concatenate([one.gold / one.gold.sum() for one in examples])

    def solve(self) -> Values:
        weights = np.zeros(self._rows.shape[1])
        loss, chances = self._loss(weights)
        for _ in range(STEPS):
            step = self._step(weights, chances)
            for halved in range(12):
                tried = weights - step / 2**halved
                new_loss, new_chances = self._loss(tried)
                if new_loss < loss:
                    break
            else:
                return weights
            gain, weights, loss, chances = loss - new_loss, tried, new_loss, new_chances
            if gain < ENOUGH:
                break
        return weights

    def _loss(self, weights: Values) -> tuple[float, Values]:
        scores = self._rows @ weights
        scores -= np.maximum.reduceat(scores, self._starts)[self._question]
        powers = np.exp(scores)
        sums = np.add.reduceat(powers, self._starts)
        terms = self._wanted * (np.log(sums)[self._question] - scores)
        penalty = self._l2 / 2 * float(weights @ weights)
        return float(self._share[self._question] @ terms) + penalty, powers / sums[self._question]

    def _step(self, weights: Values, chances: Values) -> Values:
        share = self._share[self._question]
        slope = self._rows.T @ (share * (chances - self._wanted)) + self._l2 * weights
        means = np.add.reduceat(self._rows * chances[:, None], self._starts, axis=0)
        curve = (self._rows * (share * chances)[:, None]).T @ self._rows - (means * self._share[:, None]).T @ means
        return np.asarray(np.linalg.solve(curve + self._l2 * np.eye(len(weights)), slope), np.float64)


def cross_validated(examples: Sequence[Example], learned: Callable[[Sequence[Example]], Values]) -> list[Any]:
    """Return the scores of each question's candidates by weights that were learned without its conversation."""
    weights = {
        group: learned([one for one in examples if one.group != group]) for group in {one.group for one in examples}
    }
    return [one.features @ weights[one.group] + one.prior for one in examples]
