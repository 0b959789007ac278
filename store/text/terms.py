"""The words of a question that can find something."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

import snowballstemmer

WORD = re.compile(r"[^\W_]+(?:[-_./:'’][^\W_]+)*", re.UNICODE)
"""A word with what may stand inside one: identifiers, paths, versions and error codes stay whole."""

STOP_WORDS = frozenset(
    "a about after all also an and any are as at be because been before being between both but by can could did do "
    "does doing don for from had has have having he her here hers him his how i if in into is it its itself just me "
    "more most my no nor not of off on once only or other our out over own please s same she should so some such t "
    "tell than that the their them then there these they this those through to too under up us very was we were what "
    "when where which while who whom whose why will with would you your yours".split()
)
"""English words that say how a question is asked, not what it asks for."""


LONGEST_STEMMED = 64
"""Characters; what is longer is a hash or a path, and has no stem."""


def query_terms(text: str, limit: int = 64) -> list[str]:
    """The distinct words of a question in their order, without stop words; all of them if nothing else is left."""
    words = list(dict.fromkeys(match.group().lower() for match in WORD.finditer(text)))
    telling = [word for word in words if _bare(word) not in STOP_WORDS]
    return (telling or words)[:limit]


def _bare(word: str) -> str:
    return word.replace("’", "'").split("'")[0]


def stems_of(words: Iterable[str]) -> frozenset[str]:
    """Their stems, so that "prefers" and "preferred" are one word."""
    return frozenset(_stem(word) for word in words)


def words_of(text: str) -> frozenset[str]:
    """The stems of a text's telling words."""
    return stems_of(query_terms(text))


@lru_cache(maxsize=20_000)
def _stem(word: str) -> str:
    if len(word) > LONGEST_STEMMED:
        return word
    # A stemmer keeps the word in itself while it works, so threads may not share one; making it is 2 of 26 µs.
    return str(snowballstemmer.stemmer("english").stemWord(_bare(word)))
