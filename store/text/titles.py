"""Titles: the beginning of a text on one line."""

from __future__ import annotations


def title_of(text: str, limit: int) -> str:
    """Return a text on one line; beyond `limit` characters it is cut at a word, and "…" put after it."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[:limit].rsplit(" ", 1)[0].rstrip(" ,;:–-") + "…"
