"""Losses: what a night may take from the memory, and what its stages have taken so far."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

ARCHIVED_SHARE, ARCHIVED_AT_LEAST = 0.01, 10
"""What may fade in a night, of the living memories: the design's own bound."""

REPLACED_SHARE, REPLACED_AT_LEAST = 0.05, 20
"""What may give way to something newer in a night: a person changes their mind about a few things a day."""

PAGES_SHARE, PAGES_AT_LEAST = 0.2, 10
"""What of the scenarios and profiles may go: they are made again of what they rest on."""


@dataclass(slots=True)
class Losses:
    """What tonight's stages took so far, of what was there before."""

    living: int
    pages: int
    archived: int = 0
    replaced: int = 0
    pages_gone: int = 0

    def beyond(self) -> Iterator[str]:
        """Say of what they are too many for one night."""
        for what, lost, of, share, at_least in (
            ("archives too much", self.archived, self.living, ARCHIVED_SHARE, ARCHIVED_AT_LEAST),
            ("replaces too much", self.replaced, self.living, REPLACED_SHARE, REPLACED_AT_LEAST),
            ("takes away too many pages", self.pages_gone, self.pages, PAGES_SHARE, PAGES_AT_LEAST),
        ):
            if lost > max(at_least, share * of):
                yield f"it {what} for one night ({lost})"
