"""Fit of the weights by which a later statement is taken for a change: `python -m tests.bench.state_fit DATA`.

DATA is a folder with the readers' pairs.json. Rows are the pairs, each alone, and all of them in one channel, where the
right earlier one is among hundreds; negatives of the latter count a third. The logistic regression has a ridge of a
half. What is printed is out of fold, ten folds by the later statement: of the pairs alone precision and recall, of the
channel how many best candidates reach the score, and how many of those are the pair's own earlier statement. Several of
the others are right, too, since pairs speak of each other's subjects; they count as wrong here.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from dreamd.store import embedder_for
from dreamd.store.settings import StoreSettings
from dreamd.store.text.judging import CERTAIN, LIKELY, EarlierStatement, change_reasons, rarity_of
from dreamd.store.text.statements import read
from dreamd.store.text.words import term_stems
from numpy.typing import NDArray

FOLDS, RIDGE, NEGATIVES_OF_CHANNEL = 10, 0.5, 0.3
NEAREST, BY_WORDS = 5, 10
SCORES = (LIKELY, 0.4, 0.5, 0.6, CERTAIN, 0.7, 0.8)

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Example:
    """An earlier and a later statement, the reasons for a change, and whether it is one."""

    earlier: str
    later: str
    reasons: Mapping[str, float]
    is_change: bool
    is_alone: bool


class Channel:
    """Statements with their vectors, in the order in which they were said."""

    def __init__(self, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        self._vectors = vectors
        self._said: list[str] = []

    def add(self, text: str) -> None:
        if text not in self._said:
            self._said.append(text)

    def candidates(self, later: str) -> list[EarlierStatement]:
        """Return the nearest statements by meaning, and those that share its rarest words."""
        cosines = np.array([self._vectors[text] @ self._vectors[later] for text in self._said])
        stems = [term_stems(later) & term_stems(text) for text in self._said]
        spread = Counter(stem for shared in stems for stem in shared)
        weights = np.array([sum(np.log(1 + len(stems) / spread[stem]) for stem in shared) for shared in stems])
        near = [int(n) for n in np.argsort(-cosines, kind="stable")[:NEAREST]]
        alike = [int(n) for n in np.argsort(-weights, kind="stable")[:BY_WORDS] if weights[n] > 0]
        return [
            EarlierStatement(self._said[n], self._said[n], float(cosines[n]))
            for n in dict.fromkeys([*near, *alike])
            if self._said[n] != later
        ]


def examples(pairs: Sequence[Mapping[str, str]], vectors: Mapping[str, NDArray[np.float32]]) -> Iterator[Example]:
    """Yield what speaks of a change: each pair alone, then each later statement among all that were said before it."""
    changes = {(pair["earlier"], pair["later"]) for pair in pairs if pair["relation"] == "updates"}
    channel = Channel(vectors)
    for pair in pairs:
        old, new = pair["earlier"], pair["later"]
        reasons = change_reasons(read(old), read(new), float(vectors[old] @ vectors[new]), {})
        if reasons is not None:
            yield Example(old, new, reasons, (old, new) in changes, is_alone=True)
        channel.add(old)
    for pair in pairs:
        new = pair["later"]
        found = channel.candidates(new)
        rarity = rarity_of(new, found)
        for one in found:
            reasons = change_reasons(read(one.text), read(new), one.cosine, rarity)
            if reasons is not None:
                yield Example(one.text, new, reasons, (one.text, new) in changes, is_alone=False)
        channel.add(new)


def fit(found: Sequence[Example]) -> Array:
    """Return bias and weights of the logistic regression with a ridge, by Newton's method."""
    x, y = _inputs(found), np.array([one.is_change for one in found], float)
    counts = np.array([1.0 if one.is_alone or one.is_change else NEGATIVES_OF_CHANNEL for one in found])
    ridge = RIDGE * np.eye(x.shape[1])
    ridge[0, 0] = 1e-3
    weights = np.zeros(x.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-x @ weights))
        slope = x.T @ (counts * (p - y)) + ridge @ weights
        weights -= np.linalg.solve((x * (counts * p * (1 - p))[:, None]).T @ x + ridge, slope)
    return weights


def out_of_fold(found: Sequence[Example]) -> Array:
    """Return each example's score by weights that were fitted without its later statement."""
    places = {later: n for n, later in enumerate(dict.fromkeys(one.later for one in found))}
    folds = np.array([places[one.later] % FOLDS for one in found])
    scores = np.zeros(len(found))
    for fold in range(FOLDS):
        weights = fit([one for one, of in zip(found, folds, strict=True) if of != fold])
        here = folds == fold
        scores[here] = 1 / (1 + np.exp(-_inputs(found)[here] @ weights))
    return scores


def report(found: Sequence[Example], scores: Array, changes: int) -> Iterator[str]:
    """Yield one line for each score of interest."""
    for least in SCORES:
        alone = [one.is_change for one, score in zip(found, scores, strict=True) if one.is_alone and score >= least]
        best: dict[str, tuple[float, bool]] = {}
        for one, score in zip(found, scores, strict=True):
            if not one.is_alone and score >= max(least, best.get(one.later, (0.0, False))[0]):
                best[one.later] = (float(score), one.is_change)
        right = sum(is_change for _, is_change in best.values())
        precision, recall = sum(alone) / max(1, len(alone)), sum(alone) / changes
        told = f"score {least:.2f}: alone precision {precision:.2f} recall {recall:.2f}"
        yield f"{told}; in one channel {len(best)}, of these {right} right"


def _inputs(found: Sequence[Example]) -> Array:
    return np.array([[1.0, *map(float, one.reasons.values())] for one in found])


def main() -> None:
    """Print the error out of fold, and the weights for evidence.py."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    given = parser.parse_args()
    if not (given.data / "pairs.json").is_file():
        parser.error(f"there is no {given.data}/pairs.json: name the folder of the pairs")
    pairs = json.loads((given.data / "pairs.json").read_text())
    texts = list(dict.fromkeys(pair[side] for pair in pairs for side in ("earlier", "later")))
    embedder = embedder_for(StoreSettings().embedding, Path("/var/tmp/dreamd-bench"))
    found = list(examples(pairs, dict(zip(texts, embedder.embed_passages(texts), strict=True))))
    changes = sum(pair["relation"] == "updates" for pair in pairs)
    print("\n".join(report(found, out_of_fold(found), changes)))
    bias, *weights = fit(found)
    print(f"BIAS = {bias:.2f}")
    for name, weight in zip(found[0].reasons, weights, strict=True):
        print(f'    "{name}": {weight:.2f},')


if __name__ == "__main__":
    main()
