"""Secrets out of what people paste, before it is kept."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without its secrets, and the kind of each that was found."""

    text: str
    found: tuple[str, ...] = ()


def redact(text: str) -> Redacted:
    """Replace secrets by `[redacted:KIND]`."""
    return Redacted(text)
