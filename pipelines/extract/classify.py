"""Attributes of a quote: the kind, tense, certainty and provenance of its fact."""

from __future__ import annotations

from dataclasses import dataclass

from ...store.judges.judge import Judgement
from ...store.model import Kind
from ...store.text.controls import plain
from ...store.text.languages import phrases
from ...store.text.words import CODE_SPAN
from ...store.working.awaiting import STEERING
from .own_words import quotes_another, without_marked
from .places import Place, Speaker
from .signs import signs_of

EXPLICIT, IMPLIED, INFERRED = 0.95, 0.85, 0.70

_BY_WORDS = (
    ("kind.decided", Kind.DECISION),
    ("kind.rule", Kind.PREFERENCE),
    ("worth.preference", Kind.PREFERENCE),
    ("worth.decision", Kind.DECISION),
)
"""The words by which a statement is of a kind, outside quotation marks and code, the surest first."""

DONE = "done"
"""The judge's word for a change that an assistant made: the work itself tells of it, and it makes no fact."""


@dataclass(frozen=True, slots=True)
class FactAttributes:
    """The attributes of a fact, for its frontmatter."""

    kind: Kind
    tense: str
    certainty: float
    provenance: str


def attributes_of(quote: str, place: Place, judgement: Judgement) -> FactAttributes:
    """Return the attributes of what a turn says, in its place; what a stranger may have said is nobody's rule."""
    kind = Kind(judgement.kind)
    is_a_strangers = place.after_web if place.speaker is Speaker.ASSISTANT else quotes_another(plain(place.turn.text))
    if is_a_strangers and kind in STEERING:
        kind = Kind.FACT
    certainty = IMPLIED if place.speaker is Speaker.ASSISTANT else EXPLICIT
    return FactAttributes(kind, _tense(quote), INFERRED if place.after_web else certainty, _provenance(kind, place))


def by_words(quote: str, place: Place) -> FactAttributes:
    """Return the attributes of what people say to each other, or ask to remember: the judge has seen neither."""
    tense = _tense(quote)
    kind = _kind_by_words(quote, tense, place)
    return FactAttributes(kind, tense, EXPLICIT, _provenance(kind, place))


def _kind_by_words(quote: str, tense: str, place: Place) -> Kind:
    signs = signs_of(quote, place)
    if "steps" in signs:
        return Kind.PROCEDURE
    if place.speaker is Speaker.USER and "opens speech.reject" in signs:
        return Kind.PREFERENCE
    own = CODE_SPAN.sub(" ", without_marked(quote))
    found = next((kind for section, kind in _BY_WORDS if phrases(section).search(own)), None)
    return found or (Kind.EPISODE if place.speaker is Speaker.PEER and tense == "past" else Kind.FACT)


def _tense(quote: str) -> str:
    if phrases("tense.future").search(quote):
        return "future"
    return "past" if phrases("tense.past").search(quote) and not phrases("worth.state").search(quote) else "current"


def _provenance(kind: Kind, place: Place) -> str:
    """Return where it comes from: what an assistant tells after it read the web is no more than inferred."""
    if place.speaker is Speaker.ASSISTANT:
        return "inferred" if place.after_web else "observed"
    return "user_corrected" if kind is Kind.CORRECTION else "user_stated"
