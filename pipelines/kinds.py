"""Kinds: what sort of thing a sentence states, when it holds, and how sure it is, by cheap rules that can be read."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..store.model import Kind
from .worth import Speaker

EXPLICIT, IMPLIED, INFERRED, UNCERTAIN = 0.95, 0.85, 0.70, 0.50

_RULES: tuple[tuple[Kind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        (
            Kind.CORRECTION,
            r"^(?:actually|no,|correction|sorry, i meant|i meant|not .{1,40}, but\b)|\b(?:i was wrong|i misspoke|that'?s (?:wrong|not right|"
            r"incorrect)|instead of what i said|scratch that|to correct)\b",
        ),
        (
            Kind.NEGATIVE,
            r"\b(?:(?:does|did|do)(?:n't| not) work|never (?:use|do|commit|push|run|touch|edit|delete)|do(?:n't| not) (?:use|commit|push|touch|edit|"
            r"delete|ever)|dead end|gave up on|ruled out|is broken|avoid (?:using|the))\b",
        ),
        (
            Kind.DECISION,
            r"\b(?:decided|decision|(?:we|i)(?:'ll| will) (?:use|go with|stick (?:with|to)|switch)|went with|going with|chose|chosen|settled on|"
            r"agreed (?:to|on|that)|opted|switch(?:ed|ing) (?:from|to)|made up my mind)\b",
        ),
        (
            Kind.PREFERENCE,
            r"\b(?:prefer\w*|favou?rite|i (?:really |absolutely |also |just )?(?:love|like|enjoy|hate|dislike|adore)|i(?:'d| would) rather|"
            r"i can'?t stand|i'?m (?:a (?:big |huge )?fan of|into|keen on|allergic|passionate)|not a fan|always (?:use|format|include|give|"
            r"provide|show|write|respond|answer|mention|add|list|explain)|my style)\b|^(?:please )?always\b",
        ),
        (
            Kind.PROCEDURE,
            r"\b(?:to (?:run|deploy|build|test|release|install|start|set up|configure|fix|debug|reproduce)\b.{0,60}\b(?:run|use|do|type|call|set)|"
            r"the (?:fix|solution|workaround|trick) (?:is|was)|how (?:we|i) (?:deploy|release|test|build)|make sure (?:to|you)|first .{3,80} then|"
            r"(?:recipe|steps?) (?:is|are|for)|fixed (?:it |this |that )?by)\b",
        ),
    )
)
_PAST = re.compile(
    r"\b(?:was|were|had|did|went|got|made|took|saw|came|found|met|bought|won|lost|started|finished|joined|visited|moved|used to|ago|"
    r"yesterday|last (?:night|week|weekend|month|year)|\w{3,}ed)\b",
    re.IGNORECASE,
)  # fmt: skip
_FUTURE = re.compile(
    r"\b(?:will|won't|i'll|we'll|going to|gonna|plan(?:s|ning)? (?:to|on|for)|tomorrow|next (?:week|month|year|weekend)|soon|upcoming|"
    r"hop(?:e|ing) to|look(?:ing)? forward|can't wait)\b",
    re.IGNORECASE,
)
_PRESENT = re.compile(r"\b(?:am|is|are|'m|'re|i've|have|has|i (?:love|like|prefer|use|want|need|live|work))\b|'s\b", re.IGNORECASE)
_HEDGE = re.compile(r"\b(?:maybe|perhaps|might|not sure|i think|i guess|probably|possibly|could be|i believe|seems?|likely)\b", re.I)
_IN_THE_PAST_DONE = re.compile(r"\b(?:yesterday|ago|last (?:night|week|weekend|month|year|\w+day)|this (?:morning|weekend)|just \w+ed)\b", re.I)


@dataclass(frozen=True, slots=True)
class Nature:
    """What a sentence is: the frontmatter that its fact will carry."""

    kind: Kind
    tense: str
    certainty: float
    provenance: str


def nature(text: str, speaker: Speaker) -> Nature:
    """Tell what an original, not yet rewritten, sentence is."""
    tense = _tense(text)
    kind = _kind(text, tense)
    return Nature(kind, tense, _certainty(text, speaker), _provenance(kind, speaker))


def _kind(text: str, tense: str) -> Kind:
    for kind, pattern in _RULES:
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
