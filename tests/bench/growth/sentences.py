"""What a large memory is made of: clauses that were said, each with the vector of its turn.

A memory that grows gains new words, as those of real people do: of the 5,142 turns that are read here one word in a
hundred was said once, so about as many of the next turn's are new (Good and Turing 1953). Where only what was said is
recombined, the words of a million turns are those of five thousand, and no word is rare. So one rare word in three
is drawn by its rank instead, by the law that the sources themselves follow: the frequency falls with the square of the
rank. The first ranks are the sources' own rare words, those behind them are coined names: one in four turns has a
new one.
`python -m tests.bench.growth.frequencies` prints how frequent words are, in what was said and in what is made of it.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from dreamd.store.embedding.embedding import Embedder
from dreamd.store.engine.vectors import unit
from dreamd.store.redaction import FileMask
from numpy.typing import NDArray

from ..datasets import Question, beam, locomo, many_queries

SOURCES = 6000
"""Turns that are embedded, at most; all others are made of their clauses and of their vectors."""

RARE = 1 / 300
"""A word that fewer of the sources have is rare: it is no longer among the thousand most frequent."""

DRAWN = 1 / 3
"""The share of rare words that are drawn by their rank; see the module's docstring."""

CONSONANTS, VOWELS = "bcdfghjklmnpqrstvwxz", "aiou"
SYLLABLES = 3

NOISE = 0.5
"""Length of the noise beside a unit vector: two turns of the same sentences have a cosine of about .8."""

LONGEST_CHARS, MOST_PARTS, MOST_CLAUSES = 400, 3, 4


class Saying(NamedTuple):
    """A text, and the sources that its clauses were taken from."""

    text: str
    sources: tuple[int, ...]


class Sentences:
    """Clauses to make turns of. `kept` is the folder of what was embedded before."""

    def __init__(self, data: Path, embedder: Embedder, kept: Path, count: int = SOURCES, seed: int = 13) -> None:
        turns = said_in(data)
        turns = random.Random(seed).sample(turns, min(count, len(turns)))
        self._vectors = _embedded(turns, embedder, kept)
        self._words = _Words(turns)
        clauses = [[self._words.around_rare(clause) for clause in _split(turn)] for turn in turns]
        self._said = [(place, of_turn) for place, of_turn in enumerate(clauses) if of_turn]

    def turn(self, number: int) -> Saying:
        """Return a turn of some clauses of some sources; the same for the same number, whatever the memory's size."""
        rng = random.Random(number)
        parts = [self._part(rng) for _ in range(rng.randint(1, MOST_PARTS))]
        return Saying(" ".join(part.text for part in parts), tuple(place for part in parts for place in part.sources))

    def fact(self, turn: int) -> Saying:
        """Return the first part of a turn."""
        rng = random.Random(turn)
        rng.randint(1, MOST_PARTS)
        return self._part(rng)

    def _part(self, rng: random.Random) -> Saying:
        """Return some clauses that stood beside each other in one source."""
        place, clauses = rng.choice(self._said)
        first = rng.randrange(len(clauses))
        said = clauses[first : first + rng.randint(1, MOST_CLAUSES)]
        return Saying(" ".join(self._words.filled_in(clause, rng) for clause in said), (place,))

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


def said_in(data: Path) -> list[str]:
    """Return the turns that were said, each once, in an order of their own."""
    return sorted(set(map(_masked, _said(data))))


def _masked(turn: str) -> str:
    """Mask secrets as the store does: its own reading of the files finds none then."""
    return FileMask().over(turn.encode()).decode()


def _split(turn: str) -> list[str]:
    """Split a turn at the marks and words that part clauses."""
    parts = re.split(r"(?<=[.!?,;:])\s+|\s+(?=(?:and|but|because|so|when|while|which|who)\s)", turn)
    return [part[:LONGEST_CHARS] for part in parts if len(part) > 8]


class _Words:
    """The words of the sources by their rank: the place of a word when they are ordered by how many sources have it."""

    def __init__(self, turns: Sequence[str]) -> None:
        having = Counter(word for turn in turns for word in {word.lower() for word in _WORD.findall(turn)})
        self._ranked = [word for word, _ in having.most_common()]
        self._rare = {word for word, count in having.items() if count < RARE * len(turns)}
        self._first = len(self._ranked) - len(self._rare)

    def around_rare(self, clause: str) -> list[str]:
        """Split a clause at its rare words; these have the odd places."""
        parts = [""]
        for part in re.split(r"([A-Za-z]{4,})", clause):
            if part.lower() in self._rare:
                parts += [part, ""]
            else:
                parts[-1] += part
        return parts

    def filled_in(self, parts: Sequence[str], rng: random.Random) -> str:
        """Return a clause in which some of the rare words are others."""
        return "".join(
            self._drawn(rng) if place % 2 and rng.random() < DRAWN else part for place, part in enumerate(parts)
        )

    def _drawn(self, rng: random.Random) -> str:
        """Return a word by its rank: half of them are of twice the first rank or more, a third of thrice."""
        rank = int(self._first * rng.paretovariate(1.0))
        return self._ranked[rank] if rank < len(self._ranked) else coined(rank)


_WORD = re.compile(r"[A-Za-z]{4,}")


def coined(number: int) -> str:
    """Return a name that can be spoken, another for each number: the digits of the number as syllables."""
    name = ""
    while number or len(name) < 2 * SYLLABLES:
        number, syllable = divmod(number, len(CONSONANTS) * len(VOWELS))
        name += CONSONANTS[syllable // len(VOWELS)] + VOWELS[syllable % len(VOWELS)]
    return name.capitalize()


def _embedded(turns: Sequence[str], embedder: Embedder, kept: Path) -> NDArray[np.float32]:
    file = kept / f"sources-{short_hash(embedder.model_id + chr(10).join(turns))}.npy"
    if not file.exists():
        kept.mkdir(parents=True, exist_ok=True)
        np.save(file, np.stack(embedder.embed_passages(turns)))
    return np.asarray(np.load(file), np.float32)
