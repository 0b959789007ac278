"""Text on its way out, to an agent or a person: once more without secrets, and without what commands a terminal.

What agents ask for hit by hit stands in no fence: there the marks that could command an agent are broken as inside one.

What came in through the door holds neither; an older version's rules, or a person's own file, may have let it by.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ..model import Envelope, Hit, Slot
from ..redaction import redact
from ..text.controls import plain
from ..text.fence import fenced, unmarked, unmarked_lines

HITS_KEPT = 1024
"""Titles and texts of hits that are kept as they were shown last: 2 MB at most, since a hit is a section."""


def outgoing(text: str) -> str:
    """Return a text as it may be shown."""
    return redact(plain(text)).text


def outgoing_hit(hit: Hit) -> Hit:
    """Return a hit as it may be shown."""
    title, text = _shown(hit.title, hit.text)
    return hit if title == hit.title and text == hit.text else replace(hit, title=title, text=text)


@lru_cache(HITS_KEPT)
def _shown(title: str, text: str) -> tuple[str, str]:
    """Return the title and text of a hit as they may be shown. Kept for the next question: what is asked is near."""
    clean = outgoing(text)  # what is part of a clean text is clean, and costs no second look
    if clean != text or not clean.startswith(title.removesuffix("…")):  # a turn's title is its text, cut
        title = outgoing(title)
    return unmarked(title), unmarked_lines(clean)


def outgoing_envelope(envelope: Envelope) -> Envelope:
    """Return an envelope as it may be shown."""
    slots = tuple(_outgoing_slot(slot) for slot in envelope.slots)
    if slots == envelope.slots:
        return envelope
    return replace(envelope, text=fenced("\n".join(slot.text for slot in slots)), slots=slots)


def _outgoing_slot(slot: Slot) -> Slot:
    text = outgoing(slot.text)
    words = slot.words if text == slot.text and slot.words in text else outgoing(slot.words)
    return replace(slot, text=text, words=unmarked_lines(words))
