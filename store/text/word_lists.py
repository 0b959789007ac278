"""Word lists: the small lists of the lexicon folder, each in a file that says what it is for."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "lexicon"


@cache
def lexicon(name: str) -> frozenset[str]:
    """Return the words of one list, lower case."""
    return frozenset(word for line in _lines(f"{name}.txt") for word in line.lower().split())


def _lines(name: str) -> list[str]:
    text = (_FOLDER / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
