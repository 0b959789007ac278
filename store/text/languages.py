"""Languages: the words of each, as data in one file a language (`data/languages/`); a new file adds a language."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent / "data" / "languages"
DEFAULT = "en"
"""The language of a text without function words of any."""


@cache
def languages() -> tuple[str, ...]:
    """Return the codes of the languages that have a file, ISO 639-1."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


def name_of(language: str) -> str:
    """Return the English name of a language."""
    return str(_section(language, "name"))


@cache
def entries(language: str, section: str) -> tuple[str, ...]:
    """Return the entries of a section ("months", "change.now") in one language; () where it has none."""
    return tuple(_section(language, section))


@cache
def table(language: str, section: str) -> dict[str, Any]:
    """Return the keys and values of a section ("days.units") in one language; {} where it has none."""
    return dict(_section(language, section))


def _section(language: str, section: str) -> Any:
    # A language may lack a section; its words then match nothing.
    found: Any = _read(language)
    for key in section.split("."):
        found = found.get(key, {})
    return found


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


@cache
def first_names() -> dict[str, str]:
    """Return the first names of many countries, folded, and how often each is a word: `rare`, `sure` or `common`.

    Those that are among the most common words of a language are left out.
    """
    listed = tomllib.loads((_FOLDER.parent / "first_names.toml").read_text(encoding="utf-8"))
    return {name: how for how, names in listed.items() for name in names.split()}


@cache
def _read(language: str) -> dict[str, Any]:
    return tomllib.loads((_FOLDER / f"{language}.toml").read_text(encoding="utf-8"))
