"""Priors: what speaks for a candidate beside its match with the question, added to the learned score.

A prior moves, and never drops: what it says nothing of keeps its score. The unit is that of the learned score, log
odds: on the dev sets neighbours among the best twelve lie .16 apart, the first is .8 before the second and 3.3 before
the tenth (medians).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import numpy as np

from ..index.catalog import Said
from ..settings import PriorSettings
from ..text.dates import (
    Event,
    Resolved,
    asks_for_newest,
    asks_for_time_alone,
    event_in,
    find_asked,
    format_span,
    names_one_of,
)
from ..text.words import query_terms, stems_of
from .features import READ, Found, Values

LONGEST_CHARS = 300
"""Beyond this length a text is pasted rather than asked, and the dates in it are not what is asked about."""

Priors = dict[str, Values]


MOST_WORDS = 400
"""The distinct words of a text in which an event is looked for."""

LOOKED_UP_TERMS, FEW_HOLD_IT = 2, 20
"""A question of so few terms looks them up; so few candidates that hold one, or
stand beside one that does, make it a name rather than a subject."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The form of a question: the number of its terms, and the spans of time or the event that it asks about.

    `newest`: it asks for what is newest; `nothing_else`: it asks about these times, or the newest, and no thing.
    """

    terms: int = 0
    spans: Sequence[Resolved] = ()
    event: Event | None = None
    newest: bool = False
    nothing_else: bool = False


NOTHING_ASKED = Asked()


def asked_by(question: str, terms: int, now: datetime) -> Asked:
    """Read what a question says of itself."""
    spans = find_asked(question[:LONGEST_CHARS], now.date())
    is_short = len(question) <= LONGEST_CHARS
    newest = is_short and not spans and asks_for_newest(question)
    has_begun = all(one.first <= now.date() for one in spans)
    return Asked(
        terms,
        spans,
        None if spans else event_in(question),
        newest=newest,
        nothing_else=is_short and has_begun and asks_for_time_alone(question, spans),
    )


def priors_of(found: Found, trust: Values, asked: Asked, settings: PriorSettings) -> Priors:
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


def _newness(said: Sequence[Said], keyword: Values, settings: PriorSettings) -> Values:
    """Return how new each candidate is beside the newest that holds a word of the question, 0 to 1."""
    days = [_day_of(one) if held or not keyword.any() else None for one, held in zip(said, keyword, strict=True)]
    newest = max((day for day in days if day is not None), default=date.min)
    ages = [np.inf if day is None else (newest - day).days for day in days]
    return np.exp(-np.array(ages, np.float64) / settings.days_after)


def note_of_time(told: Sequence[tuple[date | None, str]], asked: Asked) -> list[str]:
    """Return a note where a question asks for a time, and nothing of what is told was said then or names it.

    `told` are texts, each with its day.
    """
    dated = [(day, text) for day, text in told if day is not None]
    if not told or not asked.spans or any(span.first <= day <= span.last for day, _ in dated for span in asked.spans):
        return []
    if any(names_one_of(text, day, asked.spans) for day, text in dated):
        return []
    return [
        f"none of this is from {' or '.join(map(format_span, asked.spans))}; a filter of the time looks there alone"
    ]


def _time_fits(said: Sequence[Said], spans: Sequence[Resolved], settings: PriorSettings) -> Values:
    """Return how the time of each candidate fits that of the question, 0 to 1: 1 within, e^(-days / softness) beside.

    What is said after a time often tells of it, so the end is softer than the beginning.
    """
    days = list(map(_day_of, said))
    fits = {day: max(_fit(day, span, settings) for span in spans) for day in {*days} if day is not None}
    return np.array([0.0 if day is None else fits[day] for day in days])


def _fit(day: date, span: Resolved, settings: PriorSettings) -> float:
    early = max(span.first - day, timedelta()).days
    late = max(day - span.last, timedelta()).days
    return float(np.exp(-early / settings.days_before - late / settings.days_after))


def day_of_event(event: Event, found: Found) -> date | None:
    """Return the day of the candidate that tells of an event: the one with most of its words, the best by keyword."""
    found_by_it = min(READ, int(np.count_nonzero(found.keyword)))
    by_keyword: list[int] = np.argsort(-found.keyword, kind="stable")[:found_by_it].tolist()
    texts = found.texts([found.units[place] for place in by_keyword])
    held = {
        place: len(event.stems & stems_of(query_terms(texts.get(found.units[place], ""), MOST_WORDS)))
        for place in by_keyword
    }
    best = max(by_keyword, key=lambda place: held[place], default=None)
    return _day_of(found.said[best]) if best is not None and held[best] else None


def _side_fits(said: Sequence[Said], day: date, event: Event, settings: PriorSettings) -> Values:
    """Return how the time of each candidate fits the one before or after a day, 0 to 1; the day itself is both."""
    span = Resolved(0, 0, date.min, day) if event.is_before else Resolved(0, 0, day, date.max)
    return _time_fits(said, [span], settings)


def _day_of(said: Said) -> date | None:
    return None if said.time_s is None else datetime.fromtimestamp(said.time_s, UTC).date()
