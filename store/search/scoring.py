"""Scoring: which of a question's candidates answers it, by a weighted sum of features, and by priors.

The features are arrays over the candidates, without an object for each. The arms' scores are scaled among the
candidates. A turn is one of a session: an answer follows a question, and related turns are found together. So a feature
is also what the arms say of the turns beside a candidate, and of its whole session, as far as these were found. The
texts of the best are read for phrases of the question.

The weights are learned listwise (softmax over a question's candidates, Cao et al. 2007) from the dev sets, by
`python -m tests.bench.ranking`, which also prints what they are worth on conversations that they were not learned from.

A prior is added to the learned score: the time that a question names, feedback, a word that few memories have. It
moves a candidate and never drops it; one of which it says nothing keeps its score. The unit is that of the learned
score, log odds: on the dev sets neighbours among the best twelve lie .16 apart, the first is .8 before the second and
3.3 before the tenth (medians).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..index.catalog import TurnForm
from ..model import NodeId
from ..roles import Role
from ..settings import PriorSettings
from ..text.dates import Event, Resolved, format_span, names_one_of
from ..text.words import TERM, WORD_CHARACTERS, query_terms, stems_of
from .question import Asked

Values = NDArray[np.float64]

# Written by `python -m tests.bench.ranking --write`, not by hand.
WEIGHTS = {
    "keyword": 2.077,
    "vector": 5.533,
    "keyword and vector": -1.831,
    "keyword rank": 0.057,
    "phrases": 0.950,
    "before": 1.351,
    "after": 0.376,
    "beside": 0.706,
    "after the best": 0.185,
    "answers": 0.561,
    "window": 0.211,
    "session best": 1.646,
    "session's best": -0.169,
    "session": -0.263,
    "asks": -0.413,
    "assistant": -1.240,
    "tool": -1.953,
    "assistant, found": 0.225,
    "tool, found": -4.558,
    "speaker named": 0.000,
    "speaker named first": 0.000,
    "another named": 0.000,
    "length": 0.823,
    "short": -0.602,
    "long": -1.471,
}


def scores_of(features: Mapping[str, Values], weights: Mapping[str, float] = WEIGHTS) -> Values:
    """Return the score of each candidate; only their differences within a question say anything.

    A feature without a weight counts for nothing. There is at least one weight.
    """
    return np.asarray(np.sum([weight * features[name] for name, weight in weights.items()], axis=0), np.float64)


# The number of candidates, best by the arms alone, that count as the best.
BEST = 10

# The candidates, best by the arms alone, that count for the weight of a session.
FULL = 20

# The weight of an assistant's words where the best are chosen whose neighbours gain.
ASSISTANT_WEIGHT = 0.83

# A turn below this length says little alone.
SHORT_BYTES = 60

# From this length on, more text is a worse sign instead of a better one.
LONG_BYTES = 1500

# The turns beside a candidate that are looked at, in order.
STEPS = (-3, -2, -1, 1, 2, 3)

# The candidates, best by the arms alone, whose texts are read. Of all candidates it gains no more.
READ = 40

# The characters of each text that are read. 4,000 gain no more and take .3 ms longer.
READ_CHARS = 1_500

# The phrases that are looked for: those of a question of one long sentence.
MOST_PHRASES = 24

# Reads the first READ_CHARS of texts; units that are gone are left out.
Texts = Callable[[Collection[NodeId]], Mapping[NodeId, str]]


@dataclass(frozen=True, slots=True)
class CandidateArrays:
    """The candidates: units, bm25 (0 where not found by keyword), cosine (nan while waiting for a vector), speakers.

    `texts` reads what some of them say.
    """

    units: Sequence[NodeId]
    keyword: Values
    cosine: Values
    said: Sequence[TurnForm]
    texts: Texts


def features_of(found: CandidateArrays, question: str) -> dict[str, Values]:
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


def _phrases_held(found: CandidateArrays, read: NDArray[np.int64], question: str) -> Values:
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


# Roles that are nobody's name.
_PARTS = frozenset({"", *(role.value for role in Role)})


Priors = dict[str, Values]


# The distinct words of a text in which an event is looked for.
MOST_WORDS = 400

# A question of so few terms looks them up; so few candidates that hold one, or stand beside one that does, make it a
# name rather than a subject.
LOOKED_UP_TERMS, FEW_HOLD_IT = 2, 20


def priors_of(found: CandidateArrays, trust: Values, asked: Asked, settings: PriorSettings) -> Priors:
    """Return what each prior adds to the candidates' scores, by name; only those that say something.

    `trust` is how much more or less than usual each is trusted, -1 to 1.
    """
    said, keyword = found.said, found.keyword
    priors: Priors = {"trust": np.clip(settings.trust * trust, -settings.most_trust, settings.most_trust)}
    if settings.words and 0 < asked.terms <= LOOKED_UP_TERMS and 0 < np.count_nonzero(keyword) <= FEW_HOLD_IT:
        priors["words"] = settings.words * keyword / keyword.max()
    if settings.time and asked.spans:
        priors["time"] = settings.time * _time_fits(said, asked.spans, settings)
    if settings.newest and asked.newest:
        priors["newest"] = settings.newest * _newness(said, keyword, settings)
    if settings.event and asked.event and (day := day_of_event(asked.event, found)) is not None:
        priors["event"] = settings.event * _side_fits(said, day, asked.event, settings)
    return {name: added for name, added in priors.items() if added.any()}


def _newness(said: Sequence[TurnForm], keyword: Values, settings: PriorSettings) -> Values:
    """Return how new each candidate is beside the newest that holds a word of the question, 0 to 1."""
    days = [_day_of(one) if held or not keyword.any() else None for one, held in zip(said, keyword, strict=True)]
    newest = max((day for day in days if day is not None), default=date.min)
    ages = [np.inf if day is None else (newest - day).days for day in days]
    return np.exp(-np.array(ages, np.float64) / settings.days_after)


def note_of_time(shown: Sequence[tuple[date | None, str]], asked: Asked) -> list[str]:
    """Return a note where a question asks for a time, and none of the texts shown is of that time or names it.

    `shown` are the texts, each with its day.
    """
    dated = [(day, text) for day, text in shown if day is not None]
    if not shown or not asked.spans or any(span.first <= day <= span.last for day, _ in dated for span in asked.spans):
        return []
    if any(names_one_of(text, day, asked.spans) for day, text in dated):
        return []
    return [
        f"none of this is from {' or '.join(map(format_span, asked.spans))}; a filter of the time looks there alone"
    ]


def _time_fits(said: Sequence[TurnForm], spans: Sequence[Resolved], settings: PriorSettings) -> Values:
    """Return how the time of each candidate fits that of the question, 0 to 1: 1 within, e^(-days / softness) beside.

    Turns after a time often speak of it, so the end is softer than the beginning.
    """
    days = list(map(_day_of, said))
    fits = {day: max(_fit(day, span, settings) for span in spans) for day in {*days} if day is not None}
    return np.array([0.0 if day is None else fits[day] for day in days])


def _fit(day: date, span: Resolved, settings: PriorSettings) -> float:
    early = max(span.first - day, timedelta()).days
    late = max(day - span.last, timedelta()).days
    return float(np.exp(-early / settings.days_before - late / settings.days_after))


def day_of_event(event: Event, found: CandidateArrays) -> date | None:
    """Return the day of an event: of the candidate with most of its words, the best by keyword among equals."""
    found_by_it = min(READ, int(np.count_nonzero(found.keyword)))
    by_keyword: list[int] = np.argsort(-found.keyword, kind="stable")[:found_by_it].tolist()
    texts = found.texts([found.units[place] for place in by_keyword])
    held = {
        place: len(event.stems & stems_of(query_terms(texts.get(found.units[place], ""), MOST_WORDS)))
        for place in by_keyword
    }
    best = max(by_keyword, key=lambda place: held[place], default=None)
    return _day_of(found.said[best]) if best is not None and held[best] else None


def _side_fits(said: Sequence[TurnForm], day: date, event: Event, settings: PriorSettings) -> Values:
    """Return how the time of each candidate fits the one before or after a day, 0 to 1; the day itself is both."""
    span = Resolved(0, 0, date.min, day) if event.is_before else Resolved(0, 0, day, date.max)
    return _time_fits(said, [span], settings)


def _day_of(said: TurnForm) -> date | None:
    return None if said.time_s is None else datetime.fromtimestamp(said.time_s, UTC).date()
