"""What a large memory is made of: sentences that were said, each with the vector of the turn that it stood in."""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from dreamd.store.find.backends.vectors import unit
from dreamd.store.find.embedding.embedding import Embedder
from dreamd.store.keep.redaction import FileMask
from numpy.typing import NDArray

from ..datasets import Question, beam, locomo, many_queries

SOURCES = 1500
"""Turns that are embedded; all others are made of their sentences and of their vectors."""

NOISE = 0.5
"""Length of the noise beside a unit vector: two turns of the same sentences have a cosine of about .8."""

LONGEST_CHARS, MOST_PARTS = 400, 3


class Saying(NamedTuple):
    """A text, and the sources that its sentences were taken from."""

    text: str
    sources: tuple[int, ...]


class Sentences:
    """Sentences to make turns of. `kept` is the folder of what was embedded before."""

    def __init__(self, data: Path, embedder: Embedder, kept: Path, count: int = SOURCES, seed: int = 13) -> None:
        turns = sorted(set(map(_masked, _said(data))))
        turns = random.Random(seed).sample(turns, min(count, len(turns)))
        self._vectors = _embedded(turns, embedder, kept)
        self._said = [Saying(text, (place,)) for place, turn in enumerate(turns) for text in _split(turn)]

    def turn(self, number: int) -> Saying:
        """Return a turn of some sentences; the same for the same number, whatever the memory's size."""
        rng = random.Random(number)
        parts = rng.choices(self._said, k=rng.randint(1, MOST_PARTS))
        texts = [part.text for part in parts]
        if number % 10 == 0:  # rare words grow with a memory, as names and numbers do in real ones
            texts.append(f"That is ticket {rng.choice('ABCDEFGH')}{number // 10}.")
        return Saying(" ".join(texts), tuple(place for part in parts for place in part.sources))

    def fact(self, turn: int) -> Saying:
        """Return the first sentence of a turn."""
        return random.Random(turn).choices(self._said)[0]

    def vectors(self, sayings: Sequence[Saying], rng: np.random.Generator) -> NDArray[np.float32]:
        """Return unit vectors near the middle of each one's sources, perturbed: a row each."""
        weights = np.zeros((len(sayings), len(self._vectors)), np.float32)
        for row, saying in enumerate(sayings):
            weights[row, list(saying.sources)] = 1.0
        noise: NDArray[np.float32] = rng.standard_normal((len(sayings), self._vectors.shape[1]), dtype=np.float32)
        middles = np.asarray(weights @ self._vectors, np.float32)
        return unit(np.asarray(unit(middles) + NOISE * unit(noise), np.float32))


def questions(count: int, data: Path, scratch: Path, sentences: Sentences, rng: random.Random) -> list[str]:
    """Return distinct questions: those of the data sets, then questions for words of turns."""
    asked = list(dict.fromkeys(question.text for question in _asked(data, scratch)))
    rng.shuffle(asked)
    turns = [sentences.turn(rng.randrange(10**6)).text for _ in range(count)]
    return (asked + many_queries(max(0, count - len(asked)), turns, rng))[:count]


def short_hash(text: str) -> str:
    """Return some digits that stand for a text in a file's name."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _asked(data: Path, scratch: Path) -> Iterator[Question]:
    yield from locomo(data / "locomo" / "dev.json", scratch).questions
    yield from beam(data / "beam-100k").questions


def _said(data: Path) -> Iterator[str]:
    for sample in json.loads((data / "locomo" / "dev.json").read_text()):
        for session in sample["conversation"].values():
            yield from (turn["text"] for turn in session if isinstance(session, list))
    for chat in sorted((data / "beam-100k").glob("*/chat.json")):
        yield from re.findall(r'"content": "([^"\\]{40,400})', chat.read_text())


def _masked(turn: str) -> str:
    """Mask secrets as the store does: its own reading of the files finds none then."""
    return FileMask().over(turn.encode()).decode()


def _split(turn: str) -> list[str]:
    return [part[:LONGEST_CHARS] for part in re.split(r"(?<=[.!?])\s+", turn) if len(part) > 8]


def _embedded(turns: Sequence[str], embedder: Embedder, kept: Path) -> NDArray[np.float32]:
    file = kept / f"sources-{short_hash(embedder.model_id + chr(10).join(turns))}.npy"
    if not file.exists():
        kept.mkdir(parents=True, exist_ok=True)
        np.save(file, np.stack(embedder.embed_passages(turns)))
    return np.asarray(np.load(file), np.float32)
