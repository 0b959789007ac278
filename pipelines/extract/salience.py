"""Salience: the sentences that are worth keeping, and the reasons against the others."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from ...store.text.normal_form import words
from ...store.text.word_lists import lexicon, phrases
from ..language.content import content_words, salient_words
from .trimming import ASKED, request_weight


class Speaker(StrEnum):
    """The kind of a speaker: a person to a person, a person to an assistant, or the assistant."""

    PEER = "peer"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class KeepDecision:
    """The decision to keep a sentence or not, and the rule behind it."""

    kept: bool
    reason: str


_SPECIFIC = re.compile(r"\d|(?<=[a-z,;] )(?!I\b)[A-Z][a-z]{2,}|[\"“`]|\b[A-Z]{2,}\b")
_TAG_QUESTION = re.compile(
    r",\s*(?:right|huh|eh|no|you know|correct"
    r"|(?:is|are|was|were|do|does|did|have|has|can|wo|ca|would|should)n'?t \w+)\?$",
    re.IGNORECASE,
)
_APPLAUSE = re.compile(rf"^{phrases('applause')}\b", re.IGNORECASE)
_STANDING = re.compile(
    r"^(?:please )?(?:always|never|don't ever|from now on|remember (?:that|to)|make sure (?:to|you) always)\b", re.I
)
_CONCLUSION = re.compile(rf"\b{phrases('conclusions')}\b", re.IGNORECASE)
_BOILERPLATE = re.compile(rf"^{phrases('boilerplate')}", re.IGNORECASE)


def judge(text: str, speaker: Speaker, names: frozenset[str] = frozenset()) -> KeepDecision:
    """Judge one trimmed sentence. `names` are the lower-case names of the two who talk: naming them adds nothing."""
    said = words(text)
    weight = sum(word.removesuffix("'s") not in names for word in salient_words(text))
    if not said or _is_blank(said):
        return KeepDecision(False, "nothing said")
    if speaker is Speaker.ASSISTANT:
        return _judge_assistant(text, weight)
    if speaker is Speaker.USER and is_standing(text):
        return KeepDecision(True, "standing instruction")
    if speaker is Speaker.USER and text.startswith(ASKED):
        kept = request_weight(text.removeprefix(ASKED)) >= 2
        return KeepDecision(kept, "asked the assistant" if kept else "a request without substance")
    if speaker is Speaker.USER and text.rstrip().endswith(":") and weight < 2:
        return KeepDecision(False, "leads to code")
    if is_question(text):
        return _judge_question(text, speaker, said, weight)
    return _judge_statement(text, said, weight)


def is_standing(text: str) -> bool:
    """Check for a standing instruction to an assistant."""
    return bool(_STANDING.match(text))


def is_question(text: str) -> bool:
    """Check for a question; "…, right?" is a statement."""
    bare = text.rstrip().rstrip("\"')*_ ")
    return bare.endswith("?") and not _TAG_QUESTION.search(bare)


def _is_blank(said: list[str]) -> bool:
    return all(len(word) == 1 and not word.isalnum() for word in said)


def _judge_question(text: str, speaker: Speaker, said: list[str], weight: int) -> KeepDecision:
    if speaker is Speaker.USER:
        kept = request_weight(text) >= 2
        return KeepDecision(kept, "asked the assistant" if kept else "a request without substance")
    own = any(word in lexicon("first_person") for word in said)
    kept = own and weight >= 3
    return KeepDecision(kept, "tells while asking" if kept else "question")


def _judge_statement(text: str, said: list[str], weight: int) -> KeepDecision:
    first = any(word in lexicon("first_person") for word in said)
    second = any(word in lexicon("second_person") for word in said)
    specific = bool(_SPECIFIC.search(text))
    if said[0] in lexicon("third_person") and content_words(text):
        return KeepDecision(True, "about others")
    if weight == 0 and not (specific and first):
        return KeepDecision(False, "reaction")
    if _APPLAUSE.match(text) and not (first and weight >= 3):
        return KeepDecision(False, "kind words")
    if second and not first and weight < 3:
        return KeepDecision(False, "kind words")
    if not first and not specific and weight < 2 and len(content_words(text)) < 4:
        return KeepDecision(False, "reaction")
    return KeepDecision(True, "statement")


def _judge_assistant(text: str, weight: int) -> KeepDecision:
    if _BOILERPLATE.match(text) or text.rstrip().endswith((":", "?")):
        return KeepDecision(False, "boilerplate")
    if weight < 3:
        return KeepDecision(False, "too little")
    if _CONCLUSION.search(text):
        return KeepDecision(True, "conclusion")
    return KeepDecision(False, "explanation")


def names_of(*people: str | None) -> frozenset[str]:
    """Return the lower-case words of some names, without stop words."""
    return frozenset(word for name in people if name for word in words(name) if word not in lexicon("stop_words"))
