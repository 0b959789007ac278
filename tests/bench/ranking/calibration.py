"""Calibration of confidence: how probably a hit answers, by its relevance, fitted to the sets that it is not told of.

A hit's confidence is a logistic function of the logarithm of its relevance's odds (Platt 1999). The sets are those that
the ranking is learned from; the hits are the first ten, whether the question has an answer or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from dreamd.store.limits import CANDIDATES_BESIDE, CANDIDATES_READ
from dreamd.store.search.gathering import fetch
from dreamd.store.search.question import Question as Asked
from dreamd.store.search.relevance import passages_of
from numpy.typing import NDArray

from ..datasets import Question
from ..in_process import DaemonInProcess
from ..table import say
from .gathering import before_it, sets

HITS = 10
STEPS = 10
EDGES = (0.0, 0.02, 0.05, 0.1, 0.2, 1.0)
"""Bounds of the confidences that are told of together."""

Values = NDArray[np.float64]
Hits = tuple[Values, Values]
"""Of each hit the logarithm of its relevance's odds, and 1.0 if it answers, else 0.0."""


def hits_of(name: str, folder: Path, data: Path) -> Hits:
    """Import a set into a store of its own, and ask its questions as an agent would."""
    with DaemonInProcess(folder) as daemon:
        questions = sets()[name](daemon, data, folder)
        daemon.wait_until_embedded()
        say(f"{name}: {len(questions)} questions")
        found = [hit for question in questions for hit in _hits(daemon, question)]
    odds, right = np.array(found, np.float64).T
    return odds, right


def _hits(daemon: DaemonInProcess, question: Question) -> list[tuple[float, float]]:
    ranking = daemon.store.operations.search.rank(
        Asked(text=question.text, channel=question.channel, where=before_it(question))
    )
    first = {one.unit for one in ranking.candidates[:HITS]}
    passages = passages_of(
        ranking,
        fetch(ranking, daemon.store.core.catalog, CANDIDATES_READ, beside=CANDIDATES_BESIDE),
        CANDIDATES_READ,
        CANDIDATES_BESIDE,
    )
    return [
        (float(np.log(relevance / (1 - relevance))), float(passages.nodes[unit].external_id in question.gold))
        for unit, relevance in passages.relevances().items()
        if unit in first and 0.0 < relevance < 1.0
    ]


def fitted(odds: Values, right: Values) -> Values:
    """Return slope and bias by Newton's method."""
    rows = np.column_stack([odds, np.ones_like(odds)])
    found = np.zeros(2)
    for _ in range(STEPS):
        said = _said(odds, found)
        curvature = (rows * (said * (1 - said))[:, None]).T @ rows
        found -= np.linalg.solve(curvature, rows.T @ (said - right))
    return found


def _said(odds: Values, found: Values) -> Values:
    return np.asarray(1 / (1 + np.exp(-(found[0] * odds + found[1]))))


def show(hits: Mapping[str, Hits]) -> None:
    """Print of each set, by a fit to the others, how often hits of some confidence are right; then the fit to all."""
    for name, (odds, right) in hits.items():
        said = _said(odds, _fitted_to([hits[other] for other in hits if other != name]))
        print(f"{name:12} {_reliability(said, right)}")
    slope, bias = _fitted_to(list(hits.values()))
    print(f"slope {slope:.3f}, bias {bias:.3f}, of {sum(len(odds) for odds, _ in hits.values())} hits")


def _fitted_to(hits: Sequence[Hits]) -> Values:
    return fitted(np.concatenate([odds for odds, _ in hits]), np.concatenate([right for _, right in hits]))


def _reliability(said: Values, right: Values) -> str:
    """Return of each range of confidences the mean of what is said and of what is so, with the number of hits."""
    place = np.digitize(said, EDGES[1:-1])
    told = (
        f"{said[place == at].mean():.3f} is {right[place == at].mean():.3f} ({np.sum(place == at)})"
        for at in range(len(EDGES) - 1)
        if np.any(place == at)
    )
    return f"said {said.mean():.3f}, is {right.mean():.3f}: " + ", ".join(told)
