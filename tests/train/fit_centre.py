"""Fit the centre of the multilingual model's vectors: `python -m tests.train.fit_centre FILE`.

Its vectors share most of their direction: two turns of one person have a cosine of .85 with each other, whatever they
say. What is subtracted is SHARE of the mean of all turns, so that cosines lie where the shipped model's do and every
threshold holds for both; the quantiles of both are printed. People of fold 0 are left out.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from dreamd.store.embedding.embedding import BATCH_TOKENS, batches_by_length
from dreamd.store.embedding.fastembed_loading import load_minilm
from dreamd.store.embedding.multilingual import centred, load_multilingual
from dreamd.store.embedding.quantized_model import HIDDEN
from numpy.typing import NDArray

from tests.train.examples import People, fold_of_people, turns_of

SHARE = 0.8
TRIED = (0.0, 0.7, SHARE, 0.9, 1.0)
QUANTILES = (0.05, 0.5, 0.95, 0.99, 0.999)
CHARS = 600

Vectors = NDArray[np.float32]


def learned_from() -> list[list[str]]:
    """Return the turns of each person that is not left out."""
    people = People()
    folds = fold_of_people(list(people.lives))
    return [
        [turn["text"][:CHARS] for turn in turns_of(life).values()] for name, life in people.lives.items() if folds[name]
    ]


def vectors_of(embed: Callable[[list[str]], Vectors], people: Sequence[Sequence[str]]) -> list[Vectors]:
    """Return the vectors of each person's turns."""
    found = []
    for turns in people:
        batches = list(batches_by_length(turns, BATCH_TOKENS))
        vectors = np.concatenate([embed([turns[place] for place in batch]) for batch in batches])
        found.append(vectors)
    return found


def quantiles(people: Sequence[Vectors]) -> str:
    """Describe the cosines of all pairs of one person's turns, the mean over the people."""
    of_people = [np.quantile((one @ one.T)[np.triu_indices(len(one), 1)], QUANTILES) for one in people]
    return " ".join(f"{value:.2f}" for value in np.mean(of_people, axis=0))


def main() -> None:
    """Fit, print the cosines of both models, and write the centre."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    given = parser.parse_args()
    turns = learned_from()
    with tempfile.TemporaryDirectory() as folder:
        model, shipped = (
            replace(load_multilingual(Path(folder), 1), centre=np.zeros(HIDDEN, np.float32)),
            load_minilm(Path(folder), 1),
        )
        plain = vectors_of(lambda texts: model.embed([f"passage: {text}" for text in texts]), turns)
        theirs = vectors_of(shipped.embed, turns)
    mean = np.mean([one.mean(axis=0) for one in plain], axis=0)
    print(f"cosines at {QUANTILES}: shipped {quantiles(theirs)}")
    for share in TRIED:
        print(f"less {share} of the mean: {quantiles([centred(one, share * mean) for one in plain])}")
    np.save(given.file, (SHARE * mean).astype(np.float32), allow_pickle=False)


if __name__ == "__main__":
    main()
