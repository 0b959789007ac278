"""Content words: what of a text carries substance."""

from __future__ import annotations

from ...store.text.normal_form import words
from ...store.text.stems import stem, without_possessive
from ...store.text.word_lists import lexicon


def content_words(text: str) -> list[str]:
    """Return the words of a text that are no stop words, in order."""
    empty = lexicon("stop_words")
    return [word for word in words(text) if word not in empty and without_possessive(word) not in empty]


def content_stems(text: str) -> list[str]:
    """Return the stems of the content words, in order."""
    return [stem(word) for word in content_words(text)]
