"""Words: the small lists of the lexicon folder, stems, and what of a text carries substance."""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path

import snowballstemmer

from ...store.text.normal_form import words

_FOLDER = Path(__file__).parent / "lexicon"


@cache
def lexicon(name: str) -> frozenset[str]:
    """The words of one list, lower case."""
    return frozenset(word for line in _lines(f"{name}.txt") for word in line.lower().split())


@cache
def phrases(name: str) -> str:
    """The lines of one list of patterns as one alternation, for a regular expression."""
    return "(?:" + "|".join(_lines(f"{name}.phrases")) + ")"


def _lines(name: str) -> list[str]:
    text = (_FOLDER / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """The Snowball stem of a lower-case word, its possessive dropped."""
    stemmer = snowballstemmer.stemmer("english")  # one of its own: threads may not share it
    return str(stemmer.stemWord(word.removesuffix("'s")))


def content_words(text: str) -> list[str]:
    """The words of a text that are no stop words, in order."""
    stop = lexicon("stop_words")
    return [word for word in words(text) if word not in stop and word.removesuffix("'s") not in stop]


def content_stems(text: str) -> list[str]:
    """The stems of the content words, in order."""
    return [stem(word) for word in content_words(text)]


def weighty_words(text: str) -> list[str]:
    """The content words that are not mere praise, thanks or reaction either, in order."""
    light = lexicon("light_words")
    return [word for word in content_words(text) if word not in light and word.removesuffix("'s") not in light]
