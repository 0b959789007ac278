"""Classification of a sentence: the kind, tense, certainty and provenance of its fact, by cheap, readable rules."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...store.model import Kind
from ...store.text.word_lists import phrases
from .salience import Speaker, is_standing

EXPLICIT, IMPLIED, INFERRED, UNCERTAIN = 0.95, 0.85, 0.70, 0.50

_RULES = tuple(
    (kind, re.compile(rf"(?<!\w){phrases(kind.value)}(?!\w)", re.IGNORECASE))
    for kind in (Kind.CORRECTION, Kind.NEGATIVE, Kind.DECISION, Kind.PREFERENCE, Kind.PROCEDURE)
)
"""The words of each kind; the first that match decide."""

_PAST = re.compile(
    r"\b(?:was|were|had|did|went|got|made|took|saw|came|found|met|bought|won|lost|started|finished|joined|visited|moved"
    r"|used to|ago|yesterday|last (?:night|week|weekend|month|year)|\w{3,}ed)\b",
    re.IGNORECASE,
)
_FUTURE = re.compile(
    r"\b(?:will|won't|i'll|we'll|going to|gonna|plan(?:s|ning)? (?:to|on|for)|tomorrow|soon|upcoming"
    r"|next (?:week|month|year|weekend)|hop(?:e|ing) to|look(?:ing)? forward|can't wait)\b",
    re.IGNORECASE,
)
_PRESENT = re.compile(
    r"\b(?:am|is|are|'m|'re|i've|have|has|i (?:love|like|prefer|use|want|need|live|work))\b|'s\b", re.IGNORECASE
)
_WANTED = re.compile(r"\?|\b(?:trying to|want to|not sure|help me|how to|asked|need to)\b", re.IGNORECASE)
_HEDGE = re.compile(
    r"\b(?:maybe|perhaps|might|not sure|i think|i guess|probably|possibly|could be|i believe|seems?|likely)\b", re.I
)
_IN_THE_PAST_DONE = re.compile(
    r"\b(?:yesterday|ago|last (?:night|week|weekend|month|year|\w+day)|this (?:morning|weekend)|just \w+ed)\b", re.I
)


@dataclass(frozen=True, slots=True)
class FactAttributes:
    """The attributes of a fact, for its frontmatter."""

    kind: Kind
    tense: str
    certainty: float
    provenance: str


def classify(text: str, speaker: Speaker) -> FactAttributes:
    """Classify an original sentence, before it is decontextualized."""
    tense = _tense(text)
    standing = speaker is Speaker.USER and is_standing(text)
    kind = Kind.PREFERENCE if standing else _kind(text, tense)
    if kind is Kind.CORRECTION and speaker is Speaker.PEER and text.lower().startswith("actually"):
        kind = Kind.EPISODE if tense == "past" else Kind.FACT  # among people it is a filler
    return FactAttributes(kind, tense, _certainty(text, speaker), _provenance(kind, speaker))


def _kind(text: str, tense: str) -> Kind:
    for kind, pattern in _RULES:
        if kind is Kind.PROCEDURE and _WANTED.search(text):
            continue
        if pattern.search(text):
            return kind
    return Kind.EPISODE if tense == "past" else Kind.FACT


def _tense(text: str) -> str:
    if _FUTURE.search(text):
        return "future"
    if _IN_THE_PAST_DONE.search(text) or (_PAST.search(text) and not _PRESENT.search(text)):
        return "past"
    return "current"


def _certainty(text: str, speaker: Speaker) -> float:
    if _HEDGE.search(text):
        return UNCERTAIN if text.rstrip().endswith("?") else INFERRED
    return IMPLIED if speaker is Speaker.ASSISTANT or text.rstrip().endswith("?") else EXPLICIT


def _provenance(kind: Kind, speaker: Speaker) -> str:
    if speaker is Speaker.ASSISTANT:
        return "observed"
    return "user_corrected" if kind is Kind.CORRECTION else "user_stated"
