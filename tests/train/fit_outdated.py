"""Fit the judgements of outdated facts: `python -m tests.train.fit_outdated`.

The facts are those that a dream would draw from each labelled life; a pair of them, of one project, is outdated where
its turns are labelled as replaced or said again, and changed where they are labelled as replaced or contradicted. Of
changes only those pairs are examples that drift compares: the nearest in meaning, and those that share rare words.
Printed are precision and recall by weights fitted without the fact's person, and then the weights, fitted on those that
the shipped judge has seen. Some minutes.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from dreamd.pipelines.grounding.verify import SharedWords
from dreamd.pipelines.pages.current_facts import in_time
from dreamd.pipelines.pages.outdated import Compared, nearness
from dreamd.pipelines.stages.consolidate import facts_of
from dreamd.pipelines.stages.drift import BY_WORDS, NEAREST
from dreamd.store.embedding.embedding import Embedder, embedder_for
from dreamd.store.model import Memory, Turn
from dreamd.store.roles import MACHINES
from dreamd.store.settings import EmbeddingSettings
from numpy.typing import NDArray

from tests.train.examples import People, fold_of_people

RIDGE = 3.0
OUTDATED = frozenset(("updates", "same", "contradicts"))
CHANGED = OUTDATED - {"same"}
THRESHOLDS = (0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6)

Array = NDArray[np.float64]
Fact = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Example:
    """A person, the fact that is decided on, the reasons, and whether the newer of a pair outdates the older.

    For a page that is each older fact; drift decides for each newer one.
    """

    person: str
    fact: Fact
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


def changes_of(
    person: str, life: Mapping[str, object], by_project: Mapping[str, Sequence[Memory]], embedder: Embedder
) -> Iterator[Example]:
    """Yield the pairs of facts that drift compares, with the nearness of the two."""
    pairs = life["pairs"]
    related = {(one["earlier"], one["later"]) for one in pairs if one["relation"] in CHANGED}  # type: ignore[attr-defined]
    for facts in map(in_time, by_project.values()):
        vectors = np.asarray(embedder.embed_passages([fact.text for fact in facts]))
        compared, words = Compared(facts), SharedWords([fact.text for fact in facts])
        for place, newer in enumerate(facts):
            cosines = vectors[:place] @ vectors[place]
            others = [old for old in range(place) if facts[old].sources[0] != newer.sources[0]]
            nearest = sorted(others, key=lambda old: (-cosines[old], old))[:NEAREST]
            alike = [old for old in words.shared_with(place) if old in others][:BY_WORDS]
            words.add(place)
            for old in dict.fromkeys([*nearest, *alike]):
                older = facts[old]
                if (found := compared.reasons(older, newer)) is None:
                    continue
                found |= nearness(older, newer, float(cosines[old]), is_nearest=old == nearest[0])
                is_changed = (older.sources[0], newer.sources[0]) in related
                yield Example(person, (person, newer.node_id), found, is_changed)


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


def report(examples: Sequence[Example], scores: Array, *, by_pair: bool) -> Iterator[str]:
    """Yield precision and recall over the facts named by the examples, a line for each threshold.

    `by_pair`: right is a fact whose most probable pair is; else one of which any pair is.
    """
    best: dict[Fact, tuple[float, bool]] = {}
    for one, score in zip(examples, scores, strict=True):
        best[one.fact] = max(best.get(one.fact, (0.0, False)), (float(score), one.is_outdated))
    outdated = {one.fact for one in examples if one.is_outdated}
    for least in THRESHOLDS:
        taken = [is_right if by_pair else fact in outdated for fact, (p, is_right) in best.items() if p >= least]
        precision, recall = sum(taken) / max(1, len(taken)), sum(taken) / len(outdated)
        yield f"{least:.2f}: {len(taken)} of {len(best)} facts, precision {precision:.2f}, recall {recall:.2f}"


def print_fit(name: str, examples: Sequence[Example], *, by_pair: bool) -> None:
    """Print the figures of people left out, and the weights."""
    names = list(examples[0].reasons)
    inputs = np.array([[1.0, *one.reasons.values()] for one in examples], float)
    outdated = np.array([one.is_outdated for one in examples], float)
    people = np.array([one.person for one in examples])
    scores = np.zeros(len(examples))
    for person in dict.fromkeys(people):
        out = people == person
        scores[out] = 1 / (1 + np.exp(-inputs[out] @ fit(inputs[~out], outdated[~out])))
    print(name, *report(examples, scores, by_pair=by_pair), sep="\n")
    folds = fold_of_people(list(dict.fromkeys(people)))
    seen = np.array([bool(folds[person]) for person in people])
    bias, *weights = fit(inputs[seen], outdated[seen])
    print(f"bias {bias:.2f}")
    print("\n".join(f'    "{name}": {weight:.2f},' for name, weight in zip(names, weights, strict=True)))


def main() -> None:
    """Print the figures of both regressions."""
    outdated: list[Example] = []
    changed: list[Example] = []
    with TemporaryDirectory() as folder:
        embedder = embedder_for(EmbeddingSettings(), Path(folder))
        embedder.start()
        for name, life in People().lives.items():
            by_project = facts_by_project(life)
            outdated += examples_of(name, life, by_project)
            changed += changes_of(name, life, by_project, embedder)
            print(f"{name}: {len(outdated)} and {len(changed)} pairs so far", file=sys.stderr)
    print_fit("outdated, by words alone", outdated, by_pair=False)
    print_fit("changed", changed, by_pair=True)


if __name__ == "__main__":
    main()
