"""Classification of a quote: the kind, tense, certainty and provenance of its fact."""

from __future__ import annotations

from dataclasses import dataclass

from ...store.model import Kind
from ...store.text.languages import phrases
from .places import Place, Speaker
from .proposals import Reply
from .signs import signs_of

EXPLICIT, IMPLIED, INFERRED = 0.95, 0.85, 0.70


@dataclass(frozen=True, slots=True)
class FactAttributes:
    """The attributes of a fact, for its frontmatter."""

    kind: Kind
    tense: str
    certainty: float
    provenance: str


def classify(quote: str, place: Place, reply: Reply | None = None) -> FactAttributes:
    """Classify what a turn says, in its place."""
    signs = signs_of(quote, place)
    tense = _tense(quote)
    kind = _kind(signs, tense, place, reply)
    hedged = "doubt.idle" in signs
    certainty = INFERRED if hedged else IMPLIED if place.speaker is Speaker.ASSISTANT else EXPLICIT
    return FactAttributes(kind, tense, INFERRED if place.after_web else certainty, _provenance(kind, place))


def _kind(signs: frozenset[str], tense: str, place: Place, reply: Reply | None) -> Kind:
    if reply is not None and reply is not Reply.ANSWERED:
        return Kind.NEGATIVE if reply is Reply.REFUSED else Kind.DECISION
    if "steps" in signs:
        return Kind.FACT if place.after_web else Kind.PROCEDURE
    if place.speaker is Speaker.USER and "opens speech.reject" in signs:
        return Kind.CORRECTION if "after a statement" in signs else Kind.NEGATIVE
    if place.speaker is not Speaker.ASSISTANT:
        for sign, kind in (("standing", Kind.PREFERENCE), ("preference", Kind.PREFERENCE), ("decision", Kind.DECISION)):
            if f"worth.{sign}" in signs:
                return kind
    return Kind.EPISODE if tense == "past" else Kind.FACT


def _tense(quote: str) -> str:
    if phrases("tense.future").search(quote):
        return "future"
    return "past" if phrases("tense.past").search(quote) and not phrases("worth.state").search(quote) else "current"


def _provenance(kind: Kind, place: Place) -> str:
    """Return where it comes from: what an assistant tells after it read the web is no more than inferred."""
    if place.speaker is Speaker.ASSISTANT:
        return "inferred" if place.after_web else "observed"
    return "user_corrected" if kind is Kind.CORRECTION else "user_stated"
