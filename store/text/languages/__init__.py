"""Languages: what a memory must know of each, as data, one file a language; another is added by adding its file."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from ..words import words

_FOLDER = Path(__file__).parent
DEFAULT = "en"

ENGLISH_WORDS = 0.1
"""The share of function words from which a text is English: of the turns of the seven labelled people who write English
.72 to .99 have so many, of the fifteen who do not .02 to .46."""


@cache
def languages() -> tuple[str, ...]:
    """Return the codes of the languages that have a file, ISO 639-1."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


@cache
def entries(language: str, section: str) -> tuple[str, ...]:
    """Return the entries of a section ("months", "change.now") in one language; () where it has none."""
    found: Any = _read(language)
    for key in section.split("."):
        found = found.get(key, {})
    return tuple(found)


@cache
def table(language: str, section: str) -> dict[str, Any]:
    """Return the keys and values of a section ("days.units") in one language; {} where it has none."""
    found: Any = _read(language)
    for key in section.split("."):
        found = found.get(key, {})
    return dict(found)


@cache
def words_in(section: str) -> frozenset[str]:
    """Return the words of a section in every language."""
    return frozenset(word for language in languages() for word in entries(language, section))


@cache
def phrases(section: str) -> re.Pattern[str]:
    """Return a pattern that finds an entry of a section, in any language, as whole words.

    Entries are regular expressions; case does not count. A section without entries matches nothing.
    """
    listed = [entry for language in languages() for entry in entries(language, section)]
    return re.compile(rf"(?<!\w)(?:{'|'.join(listed)})(?!\w)" if listed else r"(?!)", re.IGNORECASE)


def language_of(text: str) -> str:
    """Return the language whose function words a text holds most of, English where none stands out."""
    said = words(text)
    number = {code: sum(word in _function_words(code) for word in said) for code in languages()}
    return max(number, key=lambda code: (number[code], code == DEFAULT))


def is_english(text: str) -> bool:
    """Return True where enough of a text's words are function words of English."""
    said = words(text)
    return sum(word in _function_words(DEFAULT) for word in said) >= ENGLISH_WORDS * len(said)


@cache
def _function_words(language: str) -> frozenset[str]:
    return frozenset(entries(language, "function_words"))


@cache
def _read(language: str) -> dict[str, Any]:
    return tomllib.loads((_FOLDER / f"{language}.toml").read_text(encoding="utf-8"))
