"""Stems: "prefers" and "preferred" are one word."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import snowballstemmer

LONGEST_STEMMED = 64
"""Characters; what is longer is a hash or a path, and has no stem."""

REMEMBERED = 50_000
"""Words of each algorithm whose stem is kept; making one is 26 µs."""


def without_possessive(word: str) -> str:
    """Drop the "'s" at the end of a word, with either apostrophe."""
    return word.removesuffix("'s").removesuffix("’s")


@lru_cache(maxsize=REMEMBERED)
def stem(word: str) -> str:
    """Return the Snowball English stem of a lower-case word, its possessive dropped."""
    if len(word) > LONGEST_STEMMED:
        return word
    # A stemmer keeps the word in itself while it works, so threads may not share one; making it is 2 of 26 µs.
    return str(snowballstemmer.stemmer("english").stemWord(without_possessive(word)))


def stems_of(words: Iterable[str]) -> frozenset[str]:
    """Return the stems of words."""
    return frozenset(stem(word) for word in words)


@lru_cache(maxsize=REMEMBERED)
def index_stem(word: str) -> str:
    """Return the Porter stem of a word, which FTS5's `porter` tokenizer gives it in the index.

    As there, words of two letters and of other scripts stay as they are.
    """
    if len(word) <= 2 or not word.isascii():
        return word
    return str(snowballstemmer.stemmer("porter").stemWord(word))
