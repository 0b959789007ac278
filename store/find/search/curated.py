"""Curated memories: short lines that stand first in every envelope of their channel, whatever is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ...model import Envelope, Slot
from ...text.chunking import estimate_tokens
from ...text.fence import fenced, speaker_name, unmarked
from ..index.projection import Node
from .packing import NOTE

SHARE: Final = 0.2
"""The part of an envelope's budget that curated memories may take."""

ALWAYS: Final = "always"


def curated_slots(nodes: Sequence[Node], budget_tokens: int) -> tuple[Slot, ...]:
    """Return a line for each node, in their order, while their share of a budget lasts; one too long is left out."""
    left = int(budget_tokens * SHARE)
    slots = []
    for node in nodes:
        text = f"{ALWAYS}, {speaker_name(node.role) or NOTE}: {unmarked(node.text)}"
        tokens = estimate_tokens(text)
        if tokens <= left:
            left -= tokens
            slots.append(Slot(node.node_id, text, (), tokens, words=" ".join(node.text.split())))
    return tuple(slots)


def with_curated(envelope: Envelope, curated: tuple[Slot, ...]) -> Envelope:
    """Return an envelope with curated lines before its own; one that abstains still says that it does."""
    if not curated:
        return envelope
    slots = (*curated, *envelope.slots)
    text = fenced("\n".join(slot.text for slot in slots))
    tokens = max(estimate_tokens(text), envelope.tokens + sum(slot.tokens for slot in curated))
    return replace(envelope, text=text, tokens=tokens, slots=slots)
