"""The words of a question that can find something."""

from __future__ import annotations

import re

WORD = re.compile(r"[^\W_]+(?:[-_./:'’][^\W_]+)*", re.UNICODE)
"""A word with what may stand inside one: identifiers, paths, versions and error codes stay whole."""

STOP_WORDS = frozenset(
    "a about after all also an and any are as at be because been before being between both but by can could did do "
    "does doing don for from had has have having he her here hers him his how i if in into is it its itself just me "
    "more most my no nor not of off on once only or other our out over own please s same she should so some such t "
    "tell than that the their them then there these they this those through to too under up us very was we were what "
    "when where which while who whom whose why will with would you your yours".split()  # noqa: SIM905
)
"""English words that say how a question is asked, not what it asks for."""


def query_terms(text: str, limit: int = 64) -> list[str]:
    """The distinct words of a question in their order, without stop words; all of them if nothing else is left."""
    words = list(dict.fromkeys(match.group().lower() for match in WORD.finditer(text)))
    telling = [word for word in words if _bare(word) not in STOP_WORDS]
    return (telling or words)[:limit]


def _bare(word: str) -> str:
    return word.replace("’", "'").split("'")[0]
