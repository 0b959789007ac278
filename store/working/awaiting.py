"""Statements that an agent may have from a stranger: kept as the agent's word, they wait for their person.

One is found and quoted meanwhile; it steers nothing: no instruction, no procedure, in no envelope unasked, and no dream
builds on it. `dreamctl review` makes it what its agent wanted, or forgets it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from ..index.projection import CURATED, MOST_PRIORITY
from ..model import AWAITS_REVIEW, Kind, Memory, NodeId
from ..roles import Role
from .foreign_words import Trust

STEERING: Final = frozenset({Kind.PROCEDURE, Kind.PREFERENCE, Kind.CORRECTION, Kind.NEGATIVE, Kind.DECISION})
"""Kinds that say what is to be done, or speak in a person's name."""

INFERRED_CERTAINTY, INFERRED = 0.70, "inferred"
STATED_CERTAINTY, STATED = 0.95, "user_stated"

_BECAUSE: Final = {
    Trust.FOREIGN: "its agent had read what strangers wrote",
    Trust.UNKNOWN: "the session of its agent is not known",
}


@dataclass(frozen=True, slots=True)
class Waiting:
    """A memory that waits: what its agent wants it to be, and why it does. `always` is a priority, 0 for none."""

    node_id: NodeId
    kind: Kind
    always: int
    because: str
    agent: str
    channel: str
    text: str
    at: datetime | None


def as_trusted(memory: Memory, trust: Trust) -> Memory:
    """Return an agent's statement as it is to be kept: what may be a stranger's as the agent's word, and no more.

    Of a session that is not known a plain fact or note is kept as it is.
    """
    always = memory.extra.get(CURATED, 0)
    steers = memory.kind in STEERING or bool(always)
    if trust in (Trust.SAID, Trust.OWN) or (trust is Trust.UNKNOWN and not steers):
        return memory
    extra = {key: value for key, value in memory.extra.items() if key != CURATED}
    if steers:
        wanted = {"kind": memory.kind.value} | ({"always": always} if always else {})
        extra[AWAITS_REVIEW] = {**wanted, "because": _BECAUSE[trust]}
    return replace(
        memory,
        kind=memory.kind if memory.kind is Kind.EPISODE else Kind.FACT,
        said_by=Role.ASSISTANT.value,
        provenance=INFERRED,
        certainty=INFERRED_CERTAINTY,
        extra=extra,
    )


def waiting(memory: Memory) -> Waiting:
    """Return what waits of a memory that does."""
    kind, always, because = _wanted(memory.extra)
    agent = str(memory.extra.get("agent_id") or "")
    return Waiting(memory.node_id, kind, always, because, agent, memory.channel, memory.text, memory.created_at)


def acceptance(memory: Memory, by: str, now: datetime) -> dict[str, Any]:
    """Return the changes by which a waiting memory becomes what its agent wanted, as its person's word."""
    kind, always, _ = _wanted(memory.extra)
    listed = memory.extra.get("verified")
    verified = [*(listed if isinstance(listed, list) else ()), {"by": f"human:{by}", "at": now.isoformat()}]
    changes: dict[str, Any] = {AWAITS_REVIEW: None, "kind": kind.value, "said_by": None, "verified": verified}
    changes |= {"provenance": STATED, "certainty": STATED_CERTAINTY}
    return changes | ({CURATED: always} if always else {})


def _wanted(extra: Mapping[str, Any]) -> tuple[Kind, int, str]:
    """Read what a memory is to become; a person may have edited its file."""
    wanted = extra.get(AWAITS_REVIEW)
    wanted = wanted if isinstance(wanted, Mapping) else {}
    kind = next((kind for kind in STEERING if kind.value == wanted.get("kind")), Kind.NOTE)
    always = wanted.get("always")
    always = min(always, MOST_PRIORITY) if type(always) is int and always > 0 else 0
    return kind, always, str(wanted.get("because") or "")
