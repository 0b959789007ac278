"""Content words: what of a text carries substance."""

from __future__ import annotations

from ...store.text.normal_form import words
from ...store.text.stems import stem, without_possessive
from ...store.text.word_lists import lexicon


def content_words(text: str) -> list[str]:
    """Return the words of a text that are no stop words, in order."""
    return _outside(lexicon("stop_words"), words(text))


def content_stems(text: str) -> list[str]:
    """Return the stems of the content words, in order."""
    return [stem(word) for word in content_words(text)]


def salient_words(text: str) -> list[str]:
    """Return the content words that are not mere praise, thanks or reaction either, in order."""
    return _outside(lexicon("light_words"), content_words(text))


def _outside(listed: frozenset[str], said: list[str]) -> list[str]:
    return [word for word in said if word not in listed and without_possessive(word) not in listed]
