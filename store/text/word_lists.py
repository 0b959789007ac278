"""Word lists: the small lists of the lexicon folder, each in a file that says what it is for."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "lexicon"


@cache
def lexicon(name: str) -> frozenset[str]:
    """Return the words of one list, lower case."""
    return frozenset(word for line in _lines(f"{name}.txt") for word in line.lower().split())


@cache
def phrases(name: str) -> str:
    """Return the lines of one list of patterns as one alternation, for a regular expression."""
    return "(?:" + "|".join(_lines(f"{name}.phrases")) + ")"


def _lines(name: str) -> list[str]:
    text = (_FOLDER / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
