"""Denials: what a person says, right after an assistant's claim, to put it right.

A turn that begins with a refusal, or with a word on what was said before it ("that's wrong"), takes back all of it.
Another denies a sentence where it speaks of the same and negates: "IT contact: Ada." – "Ada has nothing to do with it."
"""

from __future__ import annotations

from ...store.text.languages import phrases
from ...store.text.sentences import sentences_of
from ...store.text.stems import stems_of
from .own_words import without_marked
from .places import Place, Speaker
from .proposals import replied_to
from .signs import content_words, is_question, opens, points_back, signs_of

FEWEST_SHARED = 2
"""Words of meaning that a turn shares with the sentence that it denies; one of them where it negates."""


def denied_by(place: Place) -> tuple[str, ...]:
    """Return the sentences of an assistant's turn that the person's next turn denies; () for none."""
    claim = place.before
    if place.speaker is not Speaker.USER or claim is None or claim.speaker is not Speaker.ASSISTANT:
        return ()
    if not place.sentences or replied_to(place):
        return ()
    if opens("speech.reject", place.text) or _says_wrong(place.sentences[0]):
        return claim.sentences
    if "pasted" in signs_of(place.text, place):
        return ()
    own = without_marked(place.text)
    said = _meant(own)
    negated = [_meant(sentence) for sentence in sentences_of(own) if phrases("grounding.negation").search(sentence)]
    return tuple(sentence for sentence in claim.sentences if _is_denied(sentence, said, negated))


def _says_wrong(sentence: str) -> bool:
    return points_back(sentence) and bool(phrases("state.wrong").search(sentence)) and not is_question(sentence)


def _is_denied(sentence: str, said: frozenset[str], negated: list[frozenset[str]]) -> bool:
    claimed = _meant(sentence)
    return len(claimed & said) >= FEWEST_SHARED and any(claimed & words for words in negated)


def _meant(text: str) -> frozenset[str]:
    """Return the stems of the words with a meaning of their own, without those that only negate."""
    return stems_of(content_words(phrases("grounding.negation").sub(" ", text)))
