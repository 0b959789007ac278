"""Terms: the words of a question that can find something."""

from __future__ import annotations

import re

from .languages import words_in
from .stems import stems_of

WORD = re.compile(r"[^\W_]+(?:[-_./:'’][^\W_]+)*", re.UNICODE)
"""A word with what may stand inside one: identifiers, paths, versions and error codes stay whole."""


def query_terms(text: str, limit: int = 64) -> list[str]:
    """Return the distinct words of a question in order without question words, or all of them if no other is left."""
    words = list(dict.fromkeys(match.group().lower() for match in WORD.finditer(text)))
    asked = words_in("question_words")
    terms = [word for word in words if word.replace("’", "'").partition("'")[0] not in asked]
    return (terms or words)[:limit]


def term_stems(text: str) -> frozenset[str]:
    """Return the stems of a text's terms."""
    return stems_of(query_terms(text))
