"""Outdated facts: those that a later fact of the same subject probably replaces.

Two logistic regressions over a pair of facts, learned from labelled people by `python -m tests.train.fit_outdated`. One
reads the words alone and leaves lines out of a page of few lines, for which a repetition counts too: a line left out
costs little. The other knows how near the two are in meaning, and marks memories.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Final

from ...store.model import Kind, Memory
from ...store.text.quotes import read_reply
from ...store.text.statements import LONGEST_ENDING, SHORTEST_BEGINNING, Statement, read
from ..extract.attributes import REPLY
from .current_facts import in_time

BIAS: Final = -6.98
WEIGHTS: Final[Mapping[str, float]] = {
    "shared": 0.95,
    "rarest": 1.60,
    "rare": 2.01,
    "of the newer": 1.36,
    "of the older": 0.96,
    "now": 0.75,
    "one kind": 1.27,
    "newer is procedure": -1.34,
    "newer is person": 0.85,
    "newer is value": 0.76,
    "older is value": 0.83,
    "newer opens": 0.56,
}
"""Weights of the reasons, each of which lies in 0 to 1."""

LEAST: Final = 0.35
"""Probability from which a fact is outdated: of people left out 71 % of such facts are, a third of all that are."""

OF_WORDS: Final = frozenset({"shared", "rarest", "rare", "of the newer", "of the older"})
LEAST_SHARED: Final = (
    math.log(LEAST / (1 - LEAST))
    - BIAS
    - sum(max(0.0, weight) for name, weight in WEIGHTS.items() if name not in OF_WORDS)
)
"""The weight of the words in common below which no other reason reaches LEAST."""

BIAS_OF_CHANGE: Final = -7.02
WEIGHTS_OF_CHANGE: Final[Mapping[str, float]] = {
    "shared": 0.69,
    "rarest": 1.36,
    "rare": 1.31,
    "of the newer": 0.76,
    "of the older": 0.52,
    "now": 0.71,
    "one kind": 1.18,
    "newer is procedure": -1.13,
    "newer is person": 0.96,
    "newer is value": 0.92,
    "older is value": 0.92,
    "newer opens": 0.42,
    "cosine": 1.38,
    "nearest": 1.16,
    "one day": -2.25,
}
"""Weights of the reasons for a change, and of the nearness of the two; each lies in 0 to 1."""

CHANGED: Final = 0.65
CHANGED_IN_WORDS: Final = 0.1
"""Probabilities from which a change replaces the older fact: by itself, and where the words say that it is one. Of
people left out 49 of 64 such pairs are labelled as changes, and a reader found a third of the others right too; by
words alone it was 16 of 31."""

MOST_SHARED: Final = 4
ONE_DAY: Final = timedelta(days=1)


def without_outdated(facts: Sequence[Memory], others: Sequence[Memory] = ()) -> list[Memory]:
    """Return the facts, in the order of speaking, that no later one of them or of `others` probably replaces."""
    asked = {fact.node_id for fact in facts}
    ordered = in_time([*facts, *others])
    compared = Compared(ordered)
    return [
        older
        for place, older in enumerate(ordered)
        if older.node_id in asked
        and not any(compared.is_outdated(older, newer) for newer in compared.sharing(older, ordered[place + 1 :]))
    ]


class Compared:
    """Facts of one channel, each as the set of its words, so that many pairs are compared in little time."""

    def __init__(self, facts: Sequence[Memory]) -> None:
        stems = sorted({stem for fact in facts for stem in _read(fact.text).content})
        first = _by_beginning(stems)
        self._said = {fact.node_id: frozenset(first[stem] for stem in _read(fact.text).content) for fact in facts}
        commonness = Counter(word for words in self._said.values() for word in words)
        self._rarity = {word: 1 / max(1, number - 1) for word, number in commonness.items()}

    def sharing(self, fact: Memory, others: Sequence[Memory]) -> Iterator[Memory]:
        """Yield those of other facts with a word in common: one in six, so the rest is passed over at once."""
        words, said = self._said[fact.node_id], self._said
        return (other for other in others if not words.isdisjoint(said[other.node_id]))

    def is_outdated(self, older: Memory, newer: Memory) -> bool:
        """Check that the newer fact probably replaces or repeats the older; most pairs share too little for it."""
        shared = self._shared(older, newer)
        if shared is None or sum(WEIGHTS[name] * value for name, value in shared.items()) < LEAST_SHARED:
            return False
        return self.probability(older, newer) >= LEAST

    def probability(self, older: Memory, newer: Memory) -> float:
        """Return how likely it is that the newer fact replaces or repeats the older, 0 to 1."""
        found = self.reasons(older, newer)
        return 0.0 if found is None else _probability(found, BIAS, WEIGHTS)

    def change_probability(self, older: Memory, newer: Memory, cosine: float, *, is_nearest: bool) -> float:
        """Return how likely it is that the newer fact replaces the older, 0 to 1.

        `is_nearest`: of all older facts that still hold, this one is the nearest to the newer in meaning.
        """
        found = self.reasons(older, newer)
        if found is None:
            return 0.0
        return _probability(found | nearness(older, newer, cosine, is_nearest), BIAS_OF_CHANGE, WEIGHTS_OF_CHANGE)

    def reasons(self, older: Memory, newer: Memory) -> dict[str, float] | None:
        """Return the reasons for it, None for two of one turn, or without a word in common."""
        shared = self._shared(older, newer)
        if shared is None:
            return None
        return {
            **shared,
            "now": _read(newer.text).is_now,
            "one kind": older.kind == newer.kind,
            **{f"newer is {kind}": newer.kind == kind for kind in (Kind.PROCEDURE, Kind.PERSON, Kind.VALUE)},
            "older is value": older.kind == Kind.VALUE,
            "newer opens": newer.extra.get(REPLY) == "new",
        }

    def _shared(self, older: Memory, newer: Memory) -> dict[str, float] | None:
        was, said = self._said[older.node_id], self._said[newer.node_id]
        common = was & said
        if not common or (older.sources and older.sources[:1] == newer.sources[:1]):
            return None
        rarity = [self._rarity[word] for word in common]
        return {
            "shared": min(len(common), MOST_SHARED) / MOST_SHARED,
            "rarest": max(rarity),
            "rare": min(1.0, sum(rarity) / MOST_SHARED),
            "of the newer": len(common) / len(said),
            "of the older": len(common) / len(was),
        }


def nearness(older: Memory, newer: Memory, cosine: float, is_nearest: bool) -> dict[str, float]:
    """Return the reasons that need vectors and times: a person seldom changes a value on the day of its naming."""
    days_apart = newer.since - older.since >= ONE_DAY if newer.since and older.since else True
    return {"cosine": cosine, "nearest": is_nearest, "one day": not days_apart}


def _probability(reasons: Mapping[str, float], bias: float, weights: Mapping[str, float]) -> float:
    return 1 / (1 + math.exp(-bias - sum(weights[name] * value for name, value in reasons.items())))


def _by_beginning(stems: Sequence[str]) -> Mapping[str, str]:
    """Map sorted stems to the first of those that begin alike: other languages' endings are left on by the stemmer."""
    first, found = "", {}
    for stem in stems:
        is_ending = stem.startswith(first) and len(stem) - len(first) <= LONGEST_ENDING
        if len(first) < SHORTEST_BEGINNING or not is_ending:
            first = stem
        found[stem] = first
    return found


@lru_cache(maxsize=2048)
def _read(text: str) -> Statement:
    words, reply_to = read_reply(text)
    return read(f"{reply_to} {words}" if reply_to else words)
