"""Features of candidates, which the scorer weighs: an array for each, without an object a candidate.

The arms' scores are scaled among the candidates. A turn stands among other turns: an answer follows a question, and
what is said beside it is found as well. So a feature is also what the arms say of the turns beside a candidate, and of
its whole session, as far as these were found. The texts of the best are read for phrases of the question.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..index.catalog import Said
from ..model import NodeId
from ..roles import Role
from ..text.words import TERM, WORD_CHARACTERS, query_terms

Values = NDArray[np.float64]

BEST = 10
"""The candidates, best by the arms alone, whose neighbours are said to be beside the best."""

FULL = 20
"""The candidates, best by the arms alone, that count for the weight of a session."""

ASSISTANT_WEIGHT = 0.83
"""The weight of an assistant's words where the best are chosen whose neighbours gain."""

SHORT_BYTES = 60
"""A turn below this length says little alone."""

LONG_BYTES = 1500
"""From this length on, more text is a worse sign instead of a better one."""

STEPS = (-3, -2, -1, 1, 2, 3)
"""The turns beside a candidate that are looked at, in order."""

READ = 40
"""The candidates, best by the arms alone, whose texts are read. Of all candidates it gains no more."""

READ_CHARS = 1_500
"""The characters of each text that are read. 4,000 gain no more and take .3 ms longer."""

MOST_PHRASES = 24
"""The phrases that are looked for: those of a question of one long sentence."""

Texts = Callable[[Collection[NodeId]], Mapping[NodeId, str]]
"""Reads the first READ_CHARS of texts; units that are gone are left out."""


@dataclass(frozen=True, slots=True)
class Found:
    """The candidates: units, bm25 (0 where not found by keyword), cosine (nan while waiting for a vector), speakers.

    `texts` reads what some of them say.
    """

    units: Sequence[NodeId]
    keyword: Values
    cosine: Values
    said: Sequence[Said]
    texts: Texts


def features_of(found: Found, question: str) -> dict[str, Values]:
    """Return each feature of all candidates by name.

    All lie about 0 to 1. There is at least one candidate.
    """
    places = _Places(found.units)
    keyword = found.keyword / max(float(found.keyword.max()), 1e-9)
    vector = _scaled(found.cosine, keyword)
    both = (keyword + vector) / 2
    roles = np.array([one.role for one in found.said])
    assistant, tool = (roles == Role.ASSISTANT) * 1.0, (roles == Role.TOOL) * 1.0
    order = np.argsort(-both * np.where(assistant, ASSISTANT_WEIGHT, 1.0), kind="stable")
    is_best = np.zeros(len(both))
    is_best[order[:BEST]] = 1.0
    asks = np.array([one.asks for one in found.said]) * 1.0
    sizes = np.array([one.size_bytes for one in found.said], np.float64)
    beside = {step: places.beside(both, step) for step in STEPS}
    around = {
        "before": beside[-1],
        "after": beside[1],
        "beside": np.maximum(beside[-1], beside[1]),
        "after the best": places.beside(is_best, -1),
        "answers": places.beside(asks * both, -1),
        "window": np.sum([values**2 for values in beside.values()], axis=0),
        "session best": places.of_session(both, np.maximum.at),
        "session's best": _share(places.of_session(np.where(_is_in(order[:FULL], len(both)), both, 0.0), np.add.at)),
        "session": _share(places.of_session(both**3, np.add.at)),
    }
    features = {
        "keyword": keyword,
        "vector": vector,
        "keyword and vector": keyword * vector,
        "keyword rank": _reciprocal_rank(keyword),
        "phrases": _phrases_held(found, order[:READ], question),
        **{name: places.typical_alone(values, order[:BEST]) for name, values in around.items()},
        "asks": asks,
        "assistant": assistant,
        "tool": tool,
        "assistant, found": assistant * both,
        "tool, found": tool * both,
        **_speakers(roles, WORD_CHARACTERS.findall(question.lower())),
        "length": (np.log(sizes + 20.0) - 5.0) / 2.0,
        "short": (sizes < SHORT_BYTES) * 1.0,
        "long": np.log(np.maximum(sizes, LONG_BYTES) / LONG_BYTES),
    }
    return {name: np.asarray(values, np.float64) for name, values in features.items()}


class _Places:
    """The places of units: each turn's session and ordinal, found by one sorted key."""

    def __init__(self, units: Sequence[NodeId]) -> None:
        codes: dict[str, int] = {}
        keys = []
        alone = []
        for unit in units:
            session, _, ordinal = unit.rpartition("#")
            is_turn = bool(session) and ordinal.isdecimal() and len(ordinal) < 9
            code = codes.setdefault(session if is_turn else unit, len(codes))
            keys.append((code << 32) + (int(ordinal) + 8 if is_turn else 0))  # 8: no step leads to another session
            alone.append(not is_turn)
        self._keys = np.array(keys, np.int64)
        self._alone = np.array(alone, bool)
        self._sessions = self._keys >> 32
        order = np.argsort(self._keys, kind="stable")
        in_order = self._keys[order]
        wanted = np.add.outer(STEPS, self._keys)
        at = np.minimum(np.searchsorted(in_order, wanted), len(order) - 1)
        self._beside = order[at]
        self._is_found = (in_order[at] == wanted) * 1.0

    def beside(self, values: Values, step: int) -> Values:
        """Return the value of the turn `step` turns later, one of STEPS; 0 where it is no candidate."""
        row = STEPS.index(step)
        return np.asarray(values[self._beside[row]] * self._is_found[row], np.float64)

    def of_session(self, values: Values, gather: Callable[[Values, Any, Values], None]) -> Values:
        """Return the values of a whole session gathered, for each of its turns."""
        gathered = np.zeros(int(self._sessions.max()) + 1)
        gather(gathered, self._sessions, values)
        return np.asarray(gathered[self._sessions], np.float64)

    def typical_alone(self, values: Values, best: NDArray[np.int64]) -> Values:
        """Return values of neighbours: a memory that has none gets those of the best turns, and is judged by itself."""
        turns = best[~self._alone[best]]
        if not self._alone.any() or not len(turns):
            return values
        return np.where(self._alone, values[turns].mean(), values)


def _scaled(cosine: Values, waiting: Values) -> Values:
    """Scale cosines to 0 to 1; for what has none yet, the words speak."""
    known = ~np.isnan(cosine)
    if not known.any():
        return waiting
    low, high = float(cosine[known].min()), float(cosine[known].max())
    scaled = (cosine - low) / (high - low) if high > low else np.ones(len(cosine))
    return np.where(known, scaled, waiting)


def _share(values: Values) -> Values:
    return np.asarray(values / max(float(values.max()), 1e-9), np.float64)


def _reciprocal_rank(values: Values) -> Values:
    ranks = np.empty(len(values))
    ranks[np.argsort(-values, kind="stable")] = np.arange(1, len(values) + 1)
    return np.asarray(1.0 / ranks, np.float64)


def _is_in(places: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
    mask = np.zeros(count, bool)
    mask[places] = True
    return mask


def _speakers(roles: NDArray[Any], words: Sequence[str]) -> dict[str, Values]:
    """Return the features of the question's names: the speaker of a turn is named, named first, or another one is."""
    first_at = {word: place for place, word in reversed([*enumerate(words)])}
    parts = {role: WORD_CHARACTERS.findall(role.lower()) for role in set(roles.tolist()) - _PARTS}
    at = {
        role: min((first_at[part] for part in of_it if part in first_at), default=-1) for role, of_it in parts.items()
    }
    if max(at.values(), default=-1) < 0:
        return dict.fromkeys(("speaker named", "speaker named first", "another named"), np.zeros(len(roles)))
    places = np.array([at.get(role, -1) for role in roles.tolist()])
    named = np.asarray(places >= 0, np.float64)
    first = min((place for place in at.values() if place >= 0), default=0)
    other = np.array([role in at for role in roles.tolist()]) * (1.0 - named) * float(named.any())
    return {"speaker named": named, "speaker named first": (places == first) * named, "another named": other}


def _phrases_held(found: Found, read: NDArray[np.int64], question: str) -> Values:
    """Return log(1 + n) of the n phrases of the question that each text holds, read for these places alone."""
    held = np.zeros(len(found.units))
    if phrases := _phrases_of(question):
        places: list[int] = read.tolist()
        units = [found.units[place] for place in places]
        texts = found.texts(units)
        read_texts = [texts.get(unit, "").lower() for unit in units]
        held[read] = [sum(phrase in text for phrase in phrases) for text in read_texts]
    return np.asarray(np.log1p(held), np.float64)


def _phrases_of(question: str) -> list[str]:
    """Return the distinct pairs of adjacent words of a question of which one at least is a term, lower-cased."""
    terms = set(query_terms(question))
    words = [match.group().lower() for match in TERM.finditer(question)]
    pairs = dict.fromkeys(pair for pair in pairwise(words) if not terms.isdisjoint(pair))
    return [" ".join(pair) for pair in pairs][:MOST_PHRASES]


_PARTS = frozenset({"", *(role.value for role in Role)})
"""Roles that are nobody's name."""
