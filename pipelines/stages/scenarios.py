"""Scenarios, the second step of consolidation: facts that belong together, on one page that cites them.

A fact joins the scenario that is near; the rest is clustered. A scenario keeps its id, path and title for good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from ...store.keep import okf
from ...store.model import Action, ActionKind, Kind, Level, Memory, NodeId
from ..pages import bullets
from ..pages.clusters import JOINS_AT, LARGEST, LEAVES_BELOW, SMALLEST, centre, cluster, nearest
from ..pages.topics import Vocabulary, title_of
from ..workspace.proposals import BY_HAND, Planned, archive, body_hash, create, cursor_of, newest, replace_text
from ..workspace.view import Vectors, View

STAGE = "scenarios"


@dataclass(slots=True)
class _Group:
    """A scenario in the making: the rows of its facts, and its memory if it exists already."""

    rows: list[int]
    known: Memory | None = None


def plan(view: View, now: datetime) -> Planned:
    """Propose scenarios for every channel whose facts have changed since they were last grouped."""
    planned = Planned()
    paths = {memory.node_id: memory.path for memory in view.memories(Level.FACT)}
    for channel in view.steps.counted(_channels(view), "channels"):
        facts = sorted(view.memories(Level.FACT, channel), key=_newest_first)
        fingerprint = cursor_of(f"{fact.node_id} {fact.text}" for fact in facts)
        if view.cursor(STAGE, channel) == fingerprint:
            continue
        planned.cursors[STAGE, channel] = fingerprint
        vectors = view.vectors([fact.text for fact in facts])
        vocabulary = Vocabulary(fact.text for fact in facts)
        for group in _groups(view, channel, facts, vectors):
            members = [facts[row] for row in group.rows]
            action = _action(view, channel, members, group.known, vocabulary, paths, now)
            if action:
                planned.actions.append(action)
                planned.count("scenarios" if action.kind is ActionKind.CREATE else "scenarios changed")
    return planned


def _channels(view: View) -> list[str]:
    if view.history.paused:
        return []
    channels = {fact.channel for fact in view.memories(Level.FACT)}
    channels |= {page.channel for page in view.memories(Level.SCENARIO) if page.kind is Kind.SCENARIO}
    return sorted(channels - view.history.channels_off)


def _newest_first(fact: Memory) -> tuple[float, NodeId]:
    return (-fact.created_at.timestamp() if fact.created_at else 0.0, fact.node_id)


def _groups(view: View, channel: str, facts: Sequence[Memory], vectors: Vectors) -> list[_Group]:
    row_of = {fact.node_id: row for row, fact in enumerate(facts)}
    groups = [
        _Group([row_of[source] for source in scenario.sources if source in row_of], scenario)
        for scenario in view.memories(Level.SCENARIO, channel)
        if scenario.kind is Kind.SCENARIO
    ]
    for group in groups:
        group.rows = _near(group.rows, vectors)
    taken = {row for group in groups for row in group.rows}
    free = [row for row in range(len(facts)) if row not in taken]
    free = _join(groups, free, vectors)
    if free:
        groups += [_Group([free[place] for place in found]) for found in cluster(vectors[free], view.memo)]
    return groups


def _near(rows: list[int], vectors: Vectors) -> list[int]:
    """Return the facts that are still near their scenario's centre, which moves as facts join and leave."""
    if not rows:
        return rows
    cosines = vectors[rows] @ centre(vectors[rows])
    return [row for row, cosine in zip(rows, cosines.tolist(), strict=True) if cosine >= LEAVES_BELOW]


def _join(groups: Sequence[_Group], free: Sequence[int], vectors: Vectors) -> list[int]:
    """Add free facts to the nearest scenario with room; return those that found none."""
    open_groups = [group for group in groups if group.rows]
    if not open_groups or not free:
        return list(free)
    centres = np.stack([centre(vectors[group.rows]) for group in open_groups])
    best, cosines = nearest(vectors[list(free)], centres)
    left = []
    for row, place, cosine in zip(free, best.tolist(), cosines.tolist(), strict=True):
        if cosine >= JOINS_AT and len(open_groups[place].rows) < LARGEST:
            open_groups[place].rows.append(row)
        else:
            left.append(row)
    return left


def _action(
    view: View,
    channel: str,
    members: Sequence[Memory],
    known: Memory | None,
    vocabulary: Vocabulary,
    paths: dict[NodeId, str],
    now: datetime,
) -> Action | None:
    if known is not None and len(members) < 2:
        return archive(view, known, STAGE, "the facts that it rests on are gone", now)
    if known is None and len(members) < SMALLEST:
        return None
    if known is not None and _is_current(known, members):
        return None
    memory = _scenario(view, channel, members, known, vocabulary, now)
    if known is not None:
        return replace_text(view, memory, STAGE, "its facts have changed", paths)
    if view.holds(memory.node_id):
        return None
    return create(view, memory, STAGE, f"{len(members)} facts belong together", paths)


def _is_current(page: Memory, members: Sequence[Memory]) -> bool:
    """Return True if a page holds just these facts already; its file is not read for it."""
    text, ids = bullets.body(bullets.chronological(members), bullets.by_day)
    return page.sources == ids and page.text.strip() == text.strip()


def _scenario(
    view: View, channel: str, members: Sequence[Memory], known: Memory | None, vocabulary: Vocabulary, now: datetime
) -> Memory:
    facts = bullets.chronological(members)
    text, ids = bullets.body(facts, bullets.by_day)
    if known is not None:
        whole = view.memory(known.node_id) or known
        return replace(
            whole, text=text, sources=ids, run=view.run_id, extra=dict(whole.extra) | {BY_HAND: body_hash(text)}
        )
    node_id = okf.fact_id(channel, f"scenario {min(ids)}")
    title = title_of([fact.text for fact in facts], vocabulary)
    return Memory(
        node_id=node_id,
        level=Level.SCENARIO,
        kind=Kind.SCENARIO,
        title=title,
        text=text,
        channel=channel,
        description=f"{len(facts)} facts, {bullets.by_day(facts[0])} to {bullets.by_day(facts[-1])}.",
        created_at=newest([fact.created_at for fact in facts]),
        provenance="extracted",
        sources=ids,
        run=view.run_id,
        path=okf.path_for(Level.SCENARIO, title, node_id, channel),
        extra={"learned_at": now.isoformat(), BY_HAND: body_hash(text)},
    )
