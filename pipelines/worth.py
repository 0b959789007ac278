"""Worth: which sentences say something that lasts, and why the others do not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from .trimming import request_weight
from .words import content_words, lexicon, weighty_words, words


class Speaker(StrEnum):
    """Who is speaking: a person to a person, a person to an assistant, or the assistant."""

    PEER = "peer"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a sentence is kept, and the rule that said so."""

    kept: bool
    reason: str


_FIRST_PERSON = frozenset("i i'm i've i'll i'd im my me mine myself we we're we've we'll us our ours".split())
_SECOND_PERSON = frozenset("you you're you've you'll you'd your yours yourself ya u ur".split())
_SPECIFIC = re.compile(r"\d|(?<=[a-z,;] )(?!I\b)[A-Z][a-z]{2,}|[\"“`]|\b[A-Z]{2,}\b")
_STANDING = re.compile(r"^(?:please )?(?:always|never|don't ever|from now on|remember (?:that|to)|make sure (?:to|you) always)\b", re.I)
_CONCLUSION = re.compile(
    r"\b(?:fixed|resolved|root cause|the (?:problem|issue|bug|error|reason|cause|fix|solution) (?:is|was)|because|turns? out|"
    r"decided|created|added|updated|removed|renamed|changed|moved|installed|committed|merged|deployed|implemented|refactored|"
    r"configured|passes|passed|fail(?:s|ed)|now (?:works|uses|returns|passes)|works now|done|completed|recommend(?:ed)?|"
    r"suggest(?:ed)?|should use|instead of|conclusion|in summary|result(?:s|ed)?|verified|confirmed|found)\b",
    re.IGNORECASE,
)
_BOILERPLATE = re.compile(
    r"^(?:certainly|sure|of course|absolutely|great question|i'?d be happy|i can help|i'?ll help|let'?s|let me|here(?:'s| is| are)|"
    r"below (?:is|are)|feel free|if you (?:have|need|want|would|could|'d)|would you like|do you (?:want|need|have)|i hope|"
    r"don'?t hesitate|happy (?:coding|to)|good luck|by following|with these|by (?:implementing|using|doing)|to (?:achieve|help|ensure|do) "
    r"(?:this|that|these|you)|this (?:will|should|approach|setup|ensures|helps)|you'?re welcome|thank you for|please (?:let|provide|share)|"
    r"i understand|i'?m (?:sorry|here)|as an ai|note that this|remember to|now,? (?:let|i'?ll))",
    re.IGNORECASE,
)


def judge(text: str, speaker: Speaker, names: frozenset[str] = frozenset()) -> Verdict:
    """Judge one trimmed sentence. `names` are the lower-case names of the two who talk: naming them adds nothing."""
    said = [word for word in words(text)]
    weight = sum(word.removesuffix("'s") not in names for word in weighty_words(text))
    if not said or _is_blank(said):
        return Verdict(False, "nothing said")
    if speaker is Speaker.ASSISTANT:
        return _judge_assistant(text, weight)
    if _STANDING.match(text):
        return Verdict(True, "standing instruction")
    if text.rstrip().endswith("?"):
        return _judge_question(text, speaker, said, weight)
    return _judge_statement(text, said, weight)


def is_question(text: str) -> bool:
    """Whether a sentence asks."""
    return text.rstrip().rstrip("\"')*_ ").endswith("?")


def _is_blank(said: list[str]) -> bool:
    return all(len(word) == 1 and not word.isalnum() for word in said)


def _judge_question(text: str, speaker: Speaker, said: list[str], weight: int) -> Verdict:
    if speaker is Speaker.USER:
        kept = request_weight(text) >= 2
        return Verdict(kept, "asked the assistant" if kept else "a request without substance")
    own = any(word in _FIRST_PERSON for word in said)
    kept = own and weight >= 3
    return Verdict(kept, "tells while asking" if kept else "question")


def _judge_statement(text: str, said: list[str], weight: int) -> Verdict:
    first = any(word in _FIRST_PERSON for word in said)
    second = any(word in _SECOND_PERSON for word in said)
    specific = bool(_SPECIFIC.search(text))
    if weight == 0 and not (specific and first):
        return Verdict(False, "reaction")
    if second and not first and weight < 3:
        return Verdict(False, "kind words")
    if not first and not specific and weight < 2 and len(content_words(text)) < 4:
        return Verdict(False, "reaction")
    return Verdict(True, "statement")


def _judge_assistant(text: str, weight: int) -> Verdict:
    if _BOILERPLATE.match(text) or text.rstrip().endswith((":", "?")):
        return Verdict(False, "boilerplate")
    if weight < 3:
        return Verdict(False, "too little")
    if _CONCLUSION.search(text):
        return Verdict(True, "conclusion")
    return Verdict(False, "explanation")


def names_of(*people: str | None) -> frozenset[str]:
    """The lower-case words of some names, stop words aside."""
    return frozenset(word for name in people if name for word in words(name) if word not in lexicon("stop_words"))
