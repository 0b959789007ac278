"""Short answers: replies that do not stand without their question ("Where did you go? – To Sweden.")."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...store.model import Turn
from ...store.text.normal_form import words
from ...store.text.sentences import Sentence, split
from ...store.text.word_lists import phrases
from ..language.content import content_words
from .salience import is_question
from .trimming import plain, trim

SHORT_WORDS = 4
LONGEST_QUESTION_WORDS = 25
LEANS = re.compile(
    r"^(?:it|it's|its|that|that's|this|they|they're|them|he|he's|she|she's|her|his|their|these|those|there|both|and|but"
    r"|so|also|plus|then|because|which|especially|even)\b",
    re.IGNORECASE,
)
"""Openings of a sentence that point back to the one before."""
_HAS_VERB = re.compile(
    r"\b(?:I|we|you|he|she|they|my|our|here)\b|'s\b|\b(?:is|are|was|were|has|have|had|will|can|check)\b", re.IGNORECASE
)
_PLEASANTRY = re.compile(rf"^(?:.{{0,24}}[,!.] )?{phrases('pleasantries')}", re.IGNORECASE)
_YES_OR_NO = re.compile(
    r"(?:yes|yeah|yep|yup|no|nope|nah|never|not (?:really|yet|at all)|definitely|absolutely|of course)\b\W*(?:\w+\W*)?",
    re.IGNORECASE,
)
_KIND_WORDS = re.compile(
    r"^(?:thank|glad|happy|sorry|congrat|you|that's (?:great|awesome|cool|nice|so)|sounds)", re.IGNORECASE
)


def question_of(turn: Turn, answerer: str) -> str | None:
    """Return the last question of a turn, if it is no pleasantry and short enough to be carried along."""
    asked = [sentence.text for sentence in split(turn.text) if is_question(sentence.text)]
    if not asked or len(words(asked[-1])) > LONGEST_QUESTION_WORDS:
        return None
    if not content_words(asked[-1]) or _PLEASANTRY.match(asked[-1].replace("’", "'")):
        return None
    return trim(plain(asked[-1]), answerer)


def short_answer(sentences: Sequence[Sentence], asker: str | None) -> str | None:
    """Return the first sentence, trimmed, if it has no verb of its own or points back."""
    for sentence in sentences:
        trimmed = trim(plain(sentence.text), asker)
        weight = len(content_words(trimmed))
        if not trimmed or not weight or is_question(trimmed) or _KIND_WORDS.match(trimmed):
            continue
        bare = weight <= SHORT_WORDS and not _HAS_VERB.search(trimmed)
        return trimmed if bare or LEANS.match(trimmed) else None
    return None


def yes_or_no(sentences: Sequence[Sentence]) -> str | None:
    """Return the first sentence if it says yes or no and hardly more."""
    said = sentences[0].text if sentences else ""
    return said if _YES_OR_NO.fullmatch(said) else None
