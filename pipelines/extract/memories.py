"""Memories read again as what they say: the kind, the tense and the worth of a fact, or of a note that was remembered.

A note has no turn, so it is read by its words, as a person's turn with nothing before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ...store.model import Kind, Memory, Turn
from ...store.roles import Role
from ...store.text.quotes import read_reply
from .classify import by_words
from .places import places_of

WORTH = "worth"
"""The key under which a fact keeps its worth when it was drawn, 0 to 1."""

REMEMBERED_WORTH, UNKNOWN_WORTH = 1.0, 0.5
"""Worth of a note, which was asked for, and of a fact that was drawn before its worth was kept."""

SAID_AGAIN_WORTH = 1.0
"""Worth of each further session in which it was said."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The kind and tense of what a memory says, and its worth beside that of others."""

    kind: Kind
    tense: str
    worth: float


def read_memory(memory: Memory) -> Reading | None:
    """Read a fact or a note; None for a text of which nothing is left without its secrets.

    The kind and the tense that it has already stand, but for those of a note or fact that no turn is behind.
    """
    words, _ = read_reply(memory.text)
    found = _alone(words, memory.said_by or Role.USER)
    if found is None:
        return None
    sessions = {source.partition("#")[0] for source in memory.sources}
    known = memory.extra.get(WORTH)
    worth = REMEMBERED_WORTH if not sessions else float(known) if isinstance(known, int | float) else UNKNOWN_WORTH
    kind, tense = found
    is_unread = not sessions and memory.kind in {Kind.NOTE, Kind.FACT}
    return Reading(
        kind if is_unread and kind is not Kind.FACT else memory.kind,
        memory.tense or (tense if is_unread else ""),
        worth + SAID_AGAIN_WORTH * max(0, len(sessions) - 1),
    )


@lru_cache(maxsize=4096)
def _alone(words: str, role: str) -> tuple[Kind, str] | None:
    places = places_of([Turn("", 1, role, words, None, None)])
    if not places or not places[0].sentences:
        return None
    found = by_words(" ".join(places[0].sentences), places[0])
    return found.kind, found.tense
