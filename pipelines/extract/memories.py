"""Memories read again as what they say: the kind, the tense and the worth of a fact, or of a note that was remembered.

A note has no turn, so it is read as a person's turn with nothing before it: the rules are those of sessions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ...store.model import Kind, Memory, Turn
from ...store.roles import Role
from ...store.text.replies import read_reply
from .classify import classify
from .facts import REPLY_WORTH
from .places import places_of
from .worth import worth_of

REMEMBERED_WORTH = 1.0
"""Worth of a note beside its words: it was asked for, as a reply was."""

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
    words, reply_to = read_reply(memory.text)
    found = _alone(words, memory.said_by or Role.USER)
    if found is None:
        return None
    sessions = {source.partition("#")[0] for source in memory.sources}
    asked_for = REPLY_WORTH if reply_to else 0.0 if sessions else REMEMBERED_WORTH
    worth = found.worth + asked_for + SAID_AGAIN_WORTH * max(0, len(sessions) - 1)
    is_unread = not sessions and memory.kind in {Kind.NOTE, Kind.FACT}
    return Reading(
        found.kind if is_unread and found.kind is not Kind.FACT else memory.kind,
        memory.tense or (found.tense if is_unread else ""),
        worth,
    )


@lru_cache(maxsize=4096)
def _alone(words: str, role: str) -> Reading | None:
    places = places_of([Turn("", 1, role, words, None, None)])
    if not places or not places[0].sentences:
        return None
    said = " ".join(places[0].sentences)
    attributes = classify(said, places[0])
    return Reading(attributes.kind, attributes.tense, worth_of(said, places[0]))
