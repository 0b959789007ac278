"""Curated memories: short lines that stand first in every envelope of their channel, whatever is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ..index.projection import Node
from ..model import Envelope, Slot
from ..text.fence import fenced, speaker_name, unmarked
from ..text.token_count import estimate_tokens
from .packing import NOTE, SPECIAL_TOKENS, TOO_SMALL

SHARE: Final = 0.2
"""The part of an envelope's budget that curated memories may take."""

ALWAYS: Final = "always"

NOTHING_ELSE: Final = "nothing else that is remembered answers this"


def curated_slots(nodes: Sequence[Node], budget_tokens: int) -> tuple[Slot, ...]:
    """Return a line for each node, in their order, while their share of a budget lasts; one too long is left out."""
    left = int(budget_tokens * SHARE)
    slots = []
    for node in nodes:
        text = f"{ALWAYS}, {speaker_name(node.role) or NOTE}: {unmarked(node.text)}"
        tokens = estimate_tokens(text) - SPECIAL_TOKENS  # they are the fence's
        if tokens <= left:
            left -= tokens
            slots.append(Slot(node.node_id, text, (), tokens, words=" ".join(node.text.split())))
    return tuple(slots)


def with_curated(envelope: Envelope, curated: tuple[Slot, ...], asked_tokens: int = 0) -> Envelope:
    """Return an envelope with curated lines before its own; one that abstains still says that it does.

    Its text says so too, where this fits into `asked_tokens`, the budget of a question; 0: nobody asked.
    """
    if not curated:
        return envelope
    slots = (*curated, *envelope.slots)
    lines = [slot.text for slot in slots]
    if envelope.abstained:
        rest = f"- {TOO_SMALL if TOO_SMALL in envelope.notes else NOTHING_ELSE}"
        lines += [rest] if estimate_tokens(fenced("\n".join([*lines, rest]))) <= asked_tokens else []
    text = fenced("\n".join(lines))
    tokens = max(estimate_tokens(text), envelope.tokens + sum(slot.tokens for slot in curated))
    return replace(envelope, text=text, tokens=tokens, slots=slots)
