"""Fit the judgement of outdated facts: `python -m tests.train.fit_outdated`.

The facts are those that a dream would draw from each labelled life; a pair of them, of one project, is outdated where
its turns are labelled as replaced or said again. Printed are precision and recall over facts by weights fitted without
the fact's person, and then the weights, fitted on those that the shipped judge has seen. Some minutes.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations

import numpy as np
from dreamd.pipelines.pages.current_facts import in_time
from dreamd.pipelines.pages.outdated import Compared
from dreamd.pipelines.stages.consolidate import facts_of
from dreamd.store.model import Memory, Turn
from dreamd.store.roles import MACHINES
from numpy.typing import NDArray

from tests.train.examples import People, fold_of_people

RIDGE = 3.0
OUTDATED = frozenset(("updates", "same", "contradicts"))
THRESHOLDS = (0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6)

Array = NDArray[np.float64]
Fact = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Example:
    """A person, the older fact of a pair, the reasons, and whether the newer replaces or repeats it."""

    person: str
    older: Fact
    reasons: Mapping[str, float]
    is_outdated: bool


def facts_by_project(life: Mapping[str, object]) -> Mapping[str, list[Memory]]:
    """Return the facts that a person's own turns give, by project."""
    found: dict[str, list[Memory]] = defaultdict(list)
    for session in life["sessions"]:  # type: ignore[attr-defined]
        at = datetime.fromisoformat(session["at"])
        said = [turn for turn in session["turns"] if turn["role"] != "tool"]
        turns = [Turn(session["id"], turn["n"], turn["role"], turn["text"], at, None) for turn in said]
        facts = facts_of(session["id"], session["project"], turns, 1, at)
        found[session["project"]] += [fact for fact in facts if fact.said_by not in MACHINES]
    return found


def examples_of(
    person: str, life: Mapping[str, object], by_project: Mapping[str, Sequence[Memory]]
) -> Iterator[Example]:
    """Yield every pair of facts of one project that has a word in common."""
    pairs = life["pairs"]
    related = {(one["earlier"], one["later"]) for one in pairs if one["relation"] in OUTDATED}  # type: ignore[attr-defined]
    for facts in by_project.values():
        compared = Compared(facts)
        for older, newer in combinations(in_time(facts), 2):
            if (found := compared.reasons(older, newer)) is not None:
                is_outdated = (older.sources[0], newer.sources[0]) in related
                yield Example(person, (person, older.node_id), found, is_outdated)


def fit(inputs: Array, outdated: Array) -> Array:
    """Return bias and weights of the logistic regression with a ridge, by Newton's method."""
    ridge = RIDGE * np.eye(inputs.shape[1])
    ridge[0, 0] = 1e-3
    weights = np.zeros(inputs.shape[1])
    for _ in range(30):
        p = 1 / (1 + np.exp(-inputs @ weights))
        slope = inputs.T @ (p - outdated) + ridge @ weights
        weights -= np.linalg.solve((inputs * (p * (1 - p))[:, None]).T @ inputs + ridge, slope)
    return weights


def report(examples: Sequence[Example], scores: Array) -> Iterator[str]:
    """Yield precision and recall over the older facts, a line for each threshold."""
    best: dict[Fact, float] = defaultdict(float)
    for one, score in zip(examples, scores, strict=True):
        best[one.older] = max(best[one.older], float(score))
    outdated = {one.older for one in examples if one.is_outdated}
    for least in THRESHOLDS:
        taken = {fact for fact, score in best.items() if score >= least}
        right = len(taken & outdated)
        precision, recall = right / max(1, len(taken)), right / len(outdated)
        yield f"{least:.2f}: {len(taken)} of {len(best)} facts, precision {precision:.2f}, recall {recall:.2f}"


def main() -> None:
    """Print the figures of people left out, and the weights."""
    lives = People().lives
    examples: list[Example] = []
    for name, life in lives.items():
        examples += examples_of(name, life, facts_by_project(life))
        print(f"{name}: {len(examples)} pairs so far", file=sys.stderr)
    names = list(examples[0].reasons)
    inputs = np.array([[1.0, *one.reasons.values()] for one in examples], float)
    outdated = np.array([one.is_outdated for one in examples], float)
    people = np.array([one.person for one in examples])
    scores = np.zeros(len(examples))
    for name in lives:
        out = people == name
        scores[out] = 1 / (1 + np.exp(-inputs[out] @ fit(inputs[~out], outdated[~out])))
    print("\n".join(report(examples, scores)))
    folds = fold_of_people(list(lives))
    seen = np.array([bool(folds[person]) for person in people])
    bias, *weights = fit(inputs[seen], outdated[seen])
    print(f"BIAS: Final = {bias:.2f}")
    print("\n".join(f'    "{name}": {weight:.2f},' for name, weight in zip(names, weights, strict=True)))


if __name__ == "__main__":
    main()
