"""Content words: what of a text carries substance, in every language with a file."""

from __future__ import annotations

from functools import cache

from ...store.text.languages import words_in
from ...store.text.words import stem, without_possessive, words


def content_words(text: str) -> list[str]:
    """Return the words of a text that do not carry grammar alone, in order."""
    return [word for word in words(text) if not {word, without_possessive(word)} & _empty()]


def content_stems(text: str) -> list[str]:
    """Return the stems of the content words, in order."""
    return [stem(word) for word in content_words(text)]


@cache
def empty_stems() -> frozenset[str]:
    """Return the stems of the words that carry grammar."""
    return frozenset(map(stem, _empty()))


@cache
def _empty() -> frozenset[str]:
    return words_in("function_words") | words_in("state.particles")
