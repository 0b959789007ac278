"""Proposals: memories turned into actions on files, with their tombstone keys and the guards of a person's edits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256

from ...store import okf
from ...store.changes.tombstone_keys import fingerprint
from ...store.ledger.questions import Probe
from ...store.model import Action, ActionKind, FittedRanking, Memory, NodeId, Status
from ...store.okf.memory_file import BY_HAND, body_hash
from .view import View

PUT_AWAY_BY = "archived_by"
"""The frontmatter key of a page that a stage archived: it comes back when there is enough for it again."""


SUPERSEDED_SHARE, SUPERSEDED_AT_LEAST = 0.1, 20
"""The share of the known facts that a run may supersede, and how many it may of few: people change their mind about a
few things a day, and an archive that comes in at once holds the changes of months."""


def most_superseded(known: int) -> int:
    """Return how many facts a run may supersede where so many are known."""
    return max(SUPERSEDED_AT_LEAST, int(SUPERSEDED_SHARE * known))


@dataclass(frozen=True, slots=True)
class ProposedRanking:
    """Weights of the ranking, and the questions to try them on, from which they were not learned."""

    ranking: FittedRanking
    held_out: tuple[Probe, ...]


@dataclass(slots=True)
class Planned:
    """The proposals of a stage. `counts` and `notes` go into the run's report; notes hold no person's text."""

    actions: list[Action] = field(default_factory=list)
    cursors: dict[tuple[str, str], int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    ranking: ProposedRanking | None = None

    def count(self, what: str, by: int = 1) -> None:
        """Add to a number of the report."""
        self.counts[what] = self.counts.get(what, 0) + by


def create(view: View, memory: Memory, stage: str, reason: str, paths: Mapping[NodeId, str]) -> Action | None:
    """Build the action that writes a new memory; None where a person forbade it."""
    tombstone_key = fingerprint(memory)
    if view.is_forbidden(tombstone_key):
        return None
    return Action(
        kind=ActionKind.CREATE,
        path=memory.path,
        node_id=memory.node_id,
        stage=stage,
        reason=reason,
        content=okf.from_memory(memory, paths),
        fingerprint=tombstone_key,
    )


def replace_text(view: View, memory: Memory, stage: str, reason: str, paths: Mapping[NodeId, str]) -> Action | None:
    """Build the action that rewrites a derived memory; None if unchanged, forbidden, or edited by a person.

    One that is left as its person edited it is noted in `view.held`.
    """
    before = view.read(memory.path)
    tombstone_key = fingerprint(memory)
    if before is None or view.is_forbidden(tombstone_key):
        return None
    old = okf.to_memory(memory.path, okf.parse(before))
    if (old.text, old.sources, old.title, old.is_live) == (memory.text, memory.sources, memory.title, memory.is_live):
        return None
    if is_edited(before):
        view.held.add(memory.node_id)
        return None
    content = okf.from_memory(memory, paths)
    return Action.replacing(
        memory.path, memory.node_id, before, content, stage=stage, reason=reason, fingerprint=tombstone_key
    )


def add_sources(
    view: View,
    path: str,
    node_id: NodeId,
    turns: Sequence[NodeId],
    stage: str,
    session_paths: Mapping[NodeId, str],
    at: datetime | None = None,
) -> Action | None:
    """Build the action that adds turns to the sources of a known fact; every other byte of its file stays.

    `at` is kept beside each turn, the time of reinforcement, from which fading counts; an archived fact comes back.
    """
    data = view.read(path)
    if data is None:
        return None
    document = okf.parse(data)
    listed = document.meta.get("sources")
    entries = list(listed) if isinstance(listed, list) else []
    known = {entry.get("title") for entry in entries if isinstance(entry, dict)}
    fresh = [turn for turn in turns if turn not in known]
    if not fresh or document.problem or not document.meta:
        return None
    for turn in fresh:
        place = session_paths.get(turn.partition("#")[0])
        entry = {"id": f"t{len(entries) + 1}", "resource": f"/{place}" if place else turn, "title": turn}
        entries.append(entry | ({"at": at.isoformat()} if at else {}))
    has_faded = document.meta.get("archived_at") is not None
    revived = {"status": Status.STABLE.value, "archived_at": None} if has_faded else {}
    content = okf.edit(data, {"sources": entries, **revived})
    reason = "said again after it had faded" if has_faded else "said again"
    return Action.replacing(path, node_id, data, content, stage=stage, reason=reason)


def archive(view: View, memory: Memory, stage: str, reason: str, now: datetime) -> Action | None:
    """Build the action that archives a page; None for one that a person edited. It stays a file."""
    data = view.read(memory.path)
    if data is None or is_edited(data):
        return None
    put_away = {"status": Status.DEPRECATED.value, "archived_at": now.isoformat(), PUT_AWAY_BY: stage}
    content = okf.edit(data, put_away)
    return Action.replacing(memory.path, memory.node_id, data, content, stage=stage, reason=reason)


def may_come_back(page: Memory) -> bool:
    """Return True for a page that is live, or that a dream put away; what a person put away stays away."""
    return page.is_live or PUT_AWAY_BY in page.extra


def brought_back(page: Memory, text: str, sources: tuple[NodeId, ...], run_id: str) -> Memory:
    """Return a page with another text, living, whatever it was before."""
    extra = {key: value for key, value in page.extra.items() if key != PUT_AWAY_BY} | {BY_HAND: body_hash(text)}
    stable = replace(page, status=Status.STABLE, archived_at=None, run=run_id, extra=extra)
    return replace(stable, text=text, sources=sources)


def is_edited(data: bytes) -> bool:
    """Return True if the body is not the one that a dream wrote."""
    document = okf.parse(data)
    return document.meta.get(BY_HAND) != body_hash(document.body)


def is_curated(memory: Memory) -> bool:
    """Return True if a person marked it, wrote it by hand or with `remember`, or edited what a dream wrote."""
    if memory.extra.get("curated") or memory.extra.get("priority"):
        return True
    if memory.run is None:
        return "agent_id" not in memory.extra
    return okf.fact_id(memory.channel, memory.text) != memory.node_id


def cursor_of(parts: Iterable[str]) -> int:
    """Hash a set of texts to a number that can be kept as a cursor, so that an equal set is not worked on again."""
    return int.from_bytes(sha256("\0".join(sorted(parts)).encode()).digest()[:6], "big")


def newest(moments: Sequence[datetime | None]) -> datetime | None:
    """Return the latest of some moments, None if there is none."""
    return max((moment for moment in moments if moment), default=None)
