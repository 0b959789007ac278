"""The store's values in the wire's own shape, no larger than a line can carry."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import starmap
from typing import TYPE_CHECKING, Any, cast

from .. import __version__
from ..store.model import ALL_CHANNELS, GLOBAL_CHANNEL, Evidence, Hit, Level, Slot
from .answers import (
    ElsewhereAnswer,
    EvidenceAnswer,
    HelloAnswer,
    HitAnswer,
    RecallAnswer,
    ShowAnswer,
    SlotAnswer,
    TraceAnswer,
    WhyNotAnswer,
)
from .params import RecallParams
from .protocol import PROTOCOL_VERSION

if TYPE_CHECKING:
    from ..store.results import Elsewhere, Shown

# Half a line for the texts of an answer: escapes and everything beside the texts fit into the other half.
MAX_TEXT_BYTES = 2**19
LONGEST_ESCAPE = len("\\u0000")


def hello_answer() -> HelloAnswer:
    """Return the daemon's version, process and protocol."""
    return {"version": __version__, "pid": os.getpid(), "protocol": PROTOCOL_VERSION}


def evidence(turns: Iterable[Evidence]) -> list[EvidenceAnswer]:
    """Return turns as the wire names them."""
    return [{"node_id": turn.node_id, "external_id": turn.external_id} for turn in turns]


def hit_answer(hit: Hit) -> HitAnswer:
    """Return one hit in the wire's form."""
    return {
        "node_id": hit.node_id,
        "level": str(hit.level),
        "kind": str(hit.kind),
        "title": hit.title,
        "text": hit.text,
        "score": hit.score,
        "channel": hit.channel,
        "created_at": instant(hit.created_at),
        "evidence": evidence(hit.evidence),
        "contradicts": list(hit.contradicts),
        "newer": list(hit.newer),
        "superseded_by": list(hit.superseded_by),
        "stale_after": instant(hit.stale_after),
        "confidence": hit.confidence,
    }


def slot_answer(slot: Slot) -> SlotAnswer:
    """Return one piece of an envelope in the wire's form."""
    return {
        "node_id": slot.node_id,
        "text": slot.text,
        "tokens": slot.tokens,
        "evidence": evidence(slot.evidence),
        "contradicts": list(slot.contradicts),
    }


def show_answer(shown: Shown, offset: int) -> ShowAnswer:
    """Return one memory with as much of its text, from an offset, as a line can carry."""
    page = cut_to_bytes(shown.text[offset:])
    end = offset + len(page)
    paged = {"text": page, "offset": offset, "next": end if end < len(shown.text) else None}
    return cast("ShowAnswer", {**plain(shown), **paged})


def trace_answer(trace: Mapping[str, Any]) -> TraceAnswer:
    """Return the steps by which an answer came about."""
    return cast("TraceAnswer", plain(trace))


def why_not(
    node: Shown,
    asked: RecallParams,
    answer: RecallAnswer,
    trace: Mapping[str, Any],
    ruled_out_by: Mapping[str, Sequence[str]],
    session: str | None = None,
) -> WhyNotAnswer:
    """Return the place of a memory in the search, from 1, or the reason why it was not in it.

    `ruled_out_by` are the fields by which the filter leaves it out, with its own values. The `session` asks.
    """
    candidates: Sequence[Mapping[str, Any]] = trace.get("candidates") or ()
    turn = _unit_of(node)
    is_found_by_turn = node.live and not asked.levels and asked.filter is None
    ids = {node.node_id, turn} if is_found_by_turn else {node.node_id}
    place = next((i for i, one in enumerate(candidates, 1) if not ids.isdisjoint((one["unit"], *one["nodes"]))), None)
    if place is not None:
        found = candidates[place - 1]
        it = "it" if node.node_id in (found["unit"], *found["nodes"]) else f"{turn}, which it was drawn from,"
        reason = f"the limit was {asked.limit}" if place > asked.limit else f"{it} is among the answers"
        reason = "nothing that was found is near enough to answer" if answer["abstained"] else reason
        reason += _by_feedback(found["priors"])
    elif not node.live and not asked.include_archived:
        reason = "it is archived, or a newer one has taken its place (include_archived looks there too)"
    elif asked.levels and node.level not in asked.levels:
        reason = f"its level is {node.level}"
    elif answer["channel"] not in (ALL_CHANNELS, node.channel) and node.channel != GLOBAL_CHANNEL:
        reason = f"its channel is {node.channel}"
    elif session and session == turn.partition("#")[0]:
        reason = "it was said in the session that asks, which has it"
    elif ruled_out_by:
        reason = f"the filter leaves it out: {', '.join(starmap(_held, ruled_out_by.items()))}"
    else:
        reason = f"neither its words nor its meaning were among the nearest; {len(candidates)} others were looked at"
    return {"node_id": node.node_id, "place": place, "reason": reason}


def _unit_of(node: Shown) -> str:
    """Return the turn that a fact was drawn from, and stands for it in a search, or a node's own id."""
    return node.evidence[0].node_id if node.level is Level.FACT and node.evidence else node.node_id


def _by_feedback(priors: Mapping[str, float]) -> str:
    """Say what feedback on a memory, or on a fact drawn from it, did to its score; "" for nothing."""
    return f"; feedback moved its score by {priors['trust']:+.2f}" if priors.get("trust") else ""


def _held(field: str, values: Sequence[str]) -> str:
    """Say what a memory has in a field: "its kind is note", "it has no tags"."""
    if not values:
        return f"it has no {field}"
    shown = [datetime.fromtimestamp(int(value), UTC).isoformat() for value in values] if field == "time" else values
    return f"its {field} {'is' if len(shown) == 1 else 'are'} {', '.join(shown)}"


def instant(at: datetime | None) -> str | None:
    """Format an instant in ISO 8601 with its offset."""
    return at.isoformat() if at is not None else None


def plain(value: Any) -> Any:
    """Convert a dataclass or a container of them to JSON's types: instants in ISO 8601, enums by value, sets sorted."""
    if value is None or isinstance(value, bool | int | float | str):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(plain(item) for item in value)
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    if (fields := getattr(value, "__dataclass_fields__", None)) is not None:
        return {name: plain(getattr(value, name)) for name in fields}
    return str(value)


def cut_to_bytes(text: str, size_bytes: int | None = None) -> str:
    """Return the longest beginning of a text that takes at most so many bytes inside a JSON string."""
    size_bytes = MAX_TEXT_BYTES if size_bytes is None else size_bytes
    if len(text) * LONGEST_ESCAPE <= size_bytes:
        return text
    size = 0
    for end, character in enumerate(text):
        size += (
            LONGEST_ESCAPE if character < " " else 2 if character in '"\\' else len(character.encode(errors="replace"))
        )
        if size > size_bytes:
            return text[:end]
    return text


def hits_that_fit(hits: Iterable[Hit]) -> tuple[list[HitAnswer], int]:
    """Return the hits whose texts fit into one answer, the first cut if it must be, and how many are left out."""
    fit: list[HitAnswer] = []
    left_out, left = 0, MAX_TEXT_BYTES
    for hit in hits:
        text = cut_to_bytes(hit.text, left)
        if left_out or (fit and len(text) < len(hit.text)):
            left_out += 1
            continue
        answer = hit_answer(hit)
        answer["text"] = text
        fit.append(answer)
        left -= len(text.encode(errors="replace"))
    return fit, left_out


def elsewhere_that_fits(found: Iterable[Elsewhere]) -> list[ElsewhereAnswer]:
    """Return the hits of other channels, as many as fit into one answer."""
    fit, _ = hits_that_fit(hit for place in found for hit in place.hits)
    places: dict[str, list[HitAnswer]] = {}
    for hit in fit:
        places.setdefault(hit["channel"], []).append(hit)
    return [{"channel": channel, "hits": hits} for channel, hits in places.items()]
