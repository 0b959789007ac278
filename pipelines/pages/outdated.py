"""Outdated facts: those that a later fact of the same subject probably replaces.

Two logistic regressions over a pair of facts, learned from labelled people by `python -m tests.train.fit_outdated`. One
reads the words alone and leaves lines out of a page of few lines, for which a repetition counts too: a line left out
costs little. The other knows how near the two are in meaning, and marks memories.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from operator import mul
from typing import Final

from ...store.model import Kind, Memory, NodeId
from ...store.text.quotes import read_reply
from ...store.text.sentences import sentences_of
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

OF_WORDS: Final = ("shared", "rarest", "rare", "of the newer", "of the older")
_WEIGHTS_OF_WORDS: Final = tuple(WEIGHTS[name] for name in OF_WORDS)
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

MOST_OF_UNIT: Final = 3
"""The facts that name a thing which is counted anew; a commoner word ("minutes") counts many things."""

MOST_SHARED: Final = 4
ONE_DAY: Final = timedelta(days=1)
_SETS: Final = frozenset({Kind.VALUE, Kind.DECISION, Kind.CORRECTION, Kind.PREFERENCE})
"""The kinds that set a number; a fact of another may count what is there."""


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


def replaced_sentences(facts: Sequence[Memory]) -> dict[NodeId, frozenset[str]]:
    """Map facts to those of their sentences whose number a later fact gives anew.

    It counts the same rare thing ("8 attempts", then "attempts: cut down to 6"), or names the number as past ("max
    20 connections", then "pool_max from 20 to 35"). Where that is the first sentence, the others rest on it.
    """
    read_facts = [(fact, _numbers_in(fact.text)) for fact in in_time(facts)]
    commonness = Counter(stem for _, one in read_facts for stem in one.content)
    told = [(fact, one) for fact, one in read_facts if one.numbers]
    found: dict[NodeId, set[str]] = {}
    for place, (older, was) in enumerate(told, 1):
        for newer, now in told[place:]:
            anew = {unit for unit in was.units & now.content if commonness[unit] <= MOST_OF_UNIT}
            if not (anew or was.numbers & now.ended) or (older.sources and older.sources[:1] == newer.sources[:1]):
                continue
            counted = anew if older.kind in _SETS and newer.kind in _SETS else set[str]()
            over = {said for said, one in was.sentences for _, new in now.sentences if _is_over(one, new, counted)}
            if over:
                found.setdefault(older.node_id, set()).update(over)
    return {node_id: frozenset(over) for node_id, over in found.items()}


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The numbers that a text names, the things that they count, and its sentences where it names any."""

    content: frozenset[str]
    numbers: frozenset[str]
    units: frozenset[str]
    ended: frozenset[str]
    sentences: Sequence[tuple[str, Statement]]


@lru_cache(maxsize=2048)
def _numbers_in(text: str) -> _Numbers:
    said = read_reply(text)[0]
    whole, plain = read(said), said.lower()
    numbers = [value for value in whole.values if value.sort == "number"]
    # "8087, thats what the ingress has" counts nothing.
    units = {
        value.unit
        for value in numbers
        if value.unit and re.search(rf"\b{re.escape(value.word)} {re.escape(value.unit)}", plain)
    }
    sentences = [(sentence, read(sentence)) for sentence in sentences_of(said)] if numbers else []
    words = frozenset(value.word for value in numbers)
    return _Numbers(frozenset(whole.content), words, frozenset(units), whole.ended, sentences)


def _is_over(old: Statement, new: Statement, counted: Collection[str]) -> bool:
    """Check that a later sentence gives another number in place of one of the earlier; `counted` both may count."""
    before = [value for value in old.values if value.sort == "number"]
    after = [value for value in new.values if value.sort == "number"]
    said = {value.word for value in after}
    is_ended = any(value.word in new.ended & said for value in before) and bool(_parts(old) & _parts(new))
    again = {value.unit for value in before if value.word not in said} & {*counted} & {*new.content}
    return not new.is_open and (is_ended or bool(after and again))


def _parts(statement: Statement) -> set[str]:
    """Return the words of a statement that are no numbers, a name by its parts: `pool_max` has "max"."""
    return {part for stem in statement.content for part in stem.split("_") if part and not part.isdigit()}


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
        if shared is None or sum(map(mul, _WEIGHTS_OF_WORDS, shared.values())) < LEAST_SHARED:
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
