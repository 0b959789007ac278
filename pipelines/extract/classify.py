"""Classification of a quote: the kind, tense, certainty and provenance of its fact."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...store.model import Kind
from ...store.text.languages import phrases
from .denials import denied_by
from .own_words import without_marked
from .places import Place, Speaker
from .proposals import Reply
from .signs import signs_of

EXPLICIT, IMPLIED, INFERRED = 0.95, 0.85, 0.70

_BY_WORDS = (
    ("kind.decided", Kind.DECISION),
    ("kind.rule", Kind.PREFERENCE),
    ("worth.preference", Kind.PREFERENCE),
    ("worth.decision", Kind.DECISION),
)
"""The words by which a statement is of a kind, outside quotation marks and code, the surest first."""

_CODE = re.compile(r"`[^`]*`")


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
    kind = _kind(quote, signs, tense, place, reply)
    hedged = "doubt.idle" in signs
    certainty = INFERRED if hedged else IMPLIED if place.speaker is Speaker.ASSISTANT else EXPLICIT
    return FactAttributes(kind, tense, INFERRED if place.after_web else certainty, _provenance(kind, place))


def _kind(quote: str, signs: frozenset[str], tense: str, place: Place, reply: Reply | None) -> Kind:
    if reply is not None and reply is not Reply.ANSWERED:
        return _kind_of_reply(quote, reply)
    if "steps" in signs:
        return Kind.FACT if place.after_web else Kind.PROCEDURE
    if place.speaker is not Speaker.ASSISTANT:
        own = _CODE.sub(" ", without_marked(quote))
        if place.speaker is Speaker.USER and "opens speech.reject" in signs:
            return Kind.CORRECTION if "after a statement" in signs else Kind.PREFERENCE
        for section, kind in _BY_WORDS:
            if phrases(section).search(own):
                return kind
        if denied_by(place):
            return Kind.CORRECTION
    return Kind.EPISODE if place.speaker is Speaker.PEER and tense == "past" else Kind.FACT


def _kind_of_reply(quote: str, reply: Reply) -> Kind:
    """Return a refusal's kind by what follows it: "no redis" refuses, "no, the other one" puts right."""
    if reply is not Reply.REFUSED:
        return Kind.DECISION
    says_otherwise = re.match(rf"(?:(?:{phrases('speech.reject').pattern})\s*)+[,.:;–-]+\W*\w", quote, re.IGNORECASE)
    return Kind.CORRECTION if says_otherwise else Kind.NEGATIVE


def _tense(quote: str) -> str:
    if phrases("tense.future").search(quote):
        return "future"
    return "past" if phrases("tense.past").search(quote) and not phrases("worth.state").search(quote) else "current"


def _provenance(kind: Kind, place: Place) -> str:
    """Return where it comes from: what an assistant tells after it read the web is no more than inferred."""
    if place.speaker is Speaker.ASSISTANT:
        return "inferred" if place.after_web else "observed"
    return "user_corrected" if kind is Kind.CORRECTION else "user_stated"
