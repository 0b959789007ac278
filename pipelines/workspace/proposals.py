"""Proposals: memories turned into actions on files, with their tombstone keys and the guards of a person's edits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple

from ...store import okf
from ...store.index.tombstones import fingerprint
from ...store.model import Action, ActionKind, Level, Memory, NodeId, Status
from ...store.okf.memory_file import BY_HAND, body_hash
from ..messages import ReadTurn
from .view import View

ARCHIVED_BY = "archived_by"
"""The frontmatter key of a page archived by a stage, which may become live again."""


@dataclass(slots=True)
class Proposals:
    """The result of a stage. `counts` and `notes` go into the run's report; notes quote no text of a person.

    `turns` are the turns that were read, with their outcome.
    """

    actions: list[Action] = field(default_factory=list)
    cursors: dict[tuple[str, str], int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    turns: list[ReadTurn] = field(default_factory=list)

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

    One left because of an edit is added to `view.left_alone`.
    """
    before = view.read(memory.path)
    tombstone_key = fingerprint(memory)
    if before is None or view.is_forbidden(tombstone_key):
        return None
    old = okf.to_memory(memory.path, okf.parse(before))
    if (old.text, old.sources, old.title, old.is_live) == (memory.text, memory.sources, memory.title, memory.is_live):
        return None
    if is_edited(before):
        view.left_alone.add(memory.node_id)
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

    `at` is recorded with each turn as the time of reinforcement, from which fading counts; a faded fact becomes live.
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
    status = {"status": Status.STABLE.value, "archived_at": None} if has_faded else {}
    content = okf.edit(data, {"sources": entries, **status})
    reason = "said again after it had faded" if has_faded else "said again"
    return Action.replacing(path, node_id, data, content, stage=stage, reason=reason)


def archive(view: View, memory: Memory, stage: str, reason: str, now: datetime) -> Action | None:
    """Build the action that archives a page; None for one that a person edited. It stays a file."""
    data = view.read(memory.path)
    if data is None or is_edited(data):
        return None
    put_away = {"status": Status.DEPRECATED.value, "archived_at": now.isoformat(), ARCHIVED_BY: stage}
    content = okf.edit(data, put_away)
    return Action.replacing(memory.path, memory.node_id, data, content, stage=stage, reason=reason)


def may_be_revived(page: Memory) -> bool:
    """Return True for a page that is live or was archived by a dream; one archived by a person stays archived."""
    return page.is_live or ARCHIVED_BY in page.extra


def revived(page: Memory, text: str, sources: tuple[NodeId, ...], run_id: str) -> Memory:
    """Return a live page with another text."""
    extra = {key: value for key, value in page.extra.items() if key != ARCHIVED_BY} | {BY_HAND: body_hash(text)}
    stable = replace(page, status=Status.STABLE, archived_at=None, run=run_id, extra=extra)
    return replace(stable, text=text, sources=sources)


def is_edited(data: bytes) -> bool:
    """Return True if the body differs from the one that a dream wrote."""
    document = okf.parse(data)
    return document.meta.get(BY_HAND) != body_hash(document.body)


def is_curated(memory: Memory) -> bool:
    """Return True if a person marked it, wrote it by hand or with `remember`, or edited a dream's text."""
    if memory.extra.get("curated") or memory.extra.get("priority"):
        return True
    if memory.run is None:
        return "agent_id" not in memory.extra
    return okf.fact_id(memory.channel, memory.text) != memory.node_id


def cursor_of(parts: Iterable[str]) -> int:
    """Hash a set of texts to a cursor, so that an equal set is not processed again."""
    return int.from_bytes(sha256("\0".join(sorted(parts)).encode()).digest()[:6], "big")


def newest(moments: Sequence[datetime | None]) -> datetime | None:
    """Return the latest of some moments, None if there is none."""
    return max((moment for moment in moments if moment), default=None)


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """A file before and after an action, as memories; `is_by_hand` if a person wrote or edited the body."""

    path: str
    before: Memory | None
    after: Memory | None
    is_by_hand: bool

    @classmethod
    def of(cls, path: str, before: bytes | None, after: bytes | None) -> MemoryChange:
        """Parse both versions of a file."""
        read: Callable[[bytes | None], Memory | None] = lambda data: (  # noqa: E731
            None if data is None else okf.to_memory(path, okf.parse(data))
        )
        return cls(path, read(before), read(after), before is not None and is_edited(before))


class ReplacedTexts(NamedTuple):
    """The texts of a superseded fact and of the one that supersedes it."""

    older: str
    newer: str


@dataclass(frozen=True, slots=True)
class Difference:
    """The changes of a stage to facts: those archived, those superseded, and the turns of all touched facts.

    `touched` maps each turn, or a fact without one, to the texts of a supersession there, if any.
    """

    archived: frozenset[NodeId]
    superseded: frozenset[NodeId]
    touched: Mapping[NodeId, ReplacedTexts | None]

    @classmethod
    def of(cls, view: View, actions: Iterable[Action]) -> Difference:
        """Compare the files of a stage's actions before and after."""
        changes = [MemoryChange.of(action.path, view.read(action.path), action.content) for action in actions]
        after = {change.after.node_id: change.after for change in changes if change.after}
        archived, superseded = set[NodeId](), set[NodeId]()
        touched: dict[NodeId, ReplacedTexts | None] = {}
        for change in changes:
            old, new = change.before, change.after
            if new is None or new.level is not Level.FACT:
                continue
            # A fact is found by the turn that it was extracted from, so that turn is probed.
            unit = new.sources[0] if new.sources else new.node_id
            if new.is_live or old is None or not old.is_live:
                touched.setdefault(unit, None)
            elif new.superseded_by is None:
                archived.add(old.node_id)
            else:
                superseded.add(old.node_id)
                newer = after.get(new.superseded_by) or view.memory(new.superseded_by)
                touched[unit] = ReplacedTexts(old.text, newer.text if newer else "")
        return cls(frozenset(archived), frozenset(superseded), touched)
