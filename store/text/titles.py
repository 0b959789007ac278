"""Titles: the beginning of a text on one line."""

from __future__ import annotations

from .replies import read_reply
from .sentences import FEWEST_WORDS, GAP

FACT_CHARS = 72


def title_of(text: str, limit: int) -> str:
    """Return a text on one line; beyond `limit` characters it is cut at a word, and GAP put after it."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[:limit].rsplit(" ", 1)[0].rstrip(" ,;:–-") + GAP


def title_of_fact(text: str) -> str:
    """Return the beginning of a fact's own words; where these say too little alone, and what they reply to."""
    words, reply_to = read_reply(text)
    alone = not reply_to or len(words.split()) >= FEWEST_WORDS
    return title_of(words if alone else f"{words} {GAP} {reply_to}", FACT_CHARS).rstrip(".!")
