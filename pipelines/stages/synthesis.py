"""Synthesis, once a week: one page a channel of facts that recur in several sessions.

A group is a pitfall, procedure, correction or wish with similar facts. All facts must be compared with each other, so
it is not done in every run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from ...store import okf
from ...store.model import Action, ActionKind, Kind, Level, Memory, NodeId
from ...store.okf.memory_file import BY_HAND, body_hash
from ..pages.current_facts import dated, labels_of, line, newest_first, place_of, with_footnotes
from ..settings import MOST_PAGES_ARCHIVED
from ..workspace.memo import Vectors
from ..workspace.proposals import Proposals, archive, create, may_be_revived, newest, replace_text, revived
from ..workspace.view import View

STAGE = "synthesis"

TITLE = "What comes up again"

RECURS = (
    ("Refused", frozenset({Kind.NEGATIVE})),
    ("Procedures", frozenset({Kind.PROCEDURE})),
    ("Corrections and wishes", frozenset({Kind.CORRECTION, Kind.PREFERENCE})),
)

# Cosine from which two facts of one kind have the same subject; random facts of one project lie around .2.
SAME_MATTER = 0.6

FEWEST_SESSIONS, FEWEST_GROUPS, MOST_GROUPS, MOST_LINES = 2, 2, 8, 4

Groups = list[tuple[str, list[list[Memory]]]]


def plan(view: View, now: datetime) -> Proposals:
    """Propose insights for every channel whose facts have changed since they were last compared."""
    planned = Proposals()
    if view.history.paused:
        return planned
    channels = {fact.channel for fact in view.memories(Level.FACT)} - view.history.channels_off
    for channel in view.steps.counted(sorted(channels), "channels"):
        fingerprint = view.fingerprint(Level.FACT, channel)
        if view.cursor(STAGE, channel) == fingerprint:
            continue
        planned.cursors[STAGE, channel] = fingerprint
        for action in actions(view, channel, now, STAGE):
            planned.actions.append(action)
            planned.count("insights" if action.kind is ActionKind.CREATE else "insights changed")
    return planned


def actions(view: View, channel: str, now: datetime, stage: str) -> Iterator[Action]:
    """Yield the actions that create, rewrite or archive a channel's insights."""
    facts = [fact for fact in view.whole(Level.FACT, channel) if fact.is_live]
    vectors = dict(zip((fact.node_id for fact in facts), view.vectors([fact.text for fact in facts]), strict=True))
    page = _page(view, channel, recurring_facts(facts, vectors), facts, now)
    paths = {fact.node_id: fact.path for fact in facts}
    if page is not None:
        build = replace_text if view.exists(page.node_id) else create
        if action := build(view, page, stage, "it comes up in several sessions", paths):
            yield action
    insights = [one for one in view.memories(Level.SCENARIO, channel) if one.kind is Kind.INSIGHT]
    for known in [one for one in insights if page is None or one.node_id != page.node_id][:MOST_PAGES_ARCHIVED]:
        if gone := archive(view, known, stage, "it comes up no more", now):
            yield gone


def _page(view: View, channel: str, groups: Groups, facts: Sequence[Memory], now: datetime) -> Memory | None:
    if not groups:
        return None
    text, ids = insight_body(groups)
    text = with_footnotes(text, ids, facts)
    node_id = okf.fact_id(channel, f"insight {TITLE}")
    if view.exists(node_id) and (known := view.memory(node_id)):
        return revived(known, text, ids, view.run_id) if may_be_revived(known) else known
    return Memory(
        node_id=node_id,
        level=Level.SCENARIO,
        kind=Kind.INSIGHT,
        title=TITLE,
        text=text,
        channel=channel,
        description="What was said or met more than once, newest first.",
        created_at=newest([fact.created_at for _, found in groups for group in found for fact in group]),
        provenance="extracted",
        sources=ids,
        run=view.run_id,
        path=view.path_for(Level.SCENARIO, Kind.INSIGHT, TITLE, node_id, channel),
        extra={"learned_at": now.isoformat(), BY_HAND: body_hash(text)},
    )


def recurring_facts(facts: Sequence[Memory], vectors: Mapping[NodeId, Vectors]) -> Groups:
    """Return the groups of live facts that recur in several sessions, by heading; [] if they are too few for a page."""
    found: Groups = []
    for heading, kinds in RECURS:
        alike = _alike([fact for fact in newest_first(facts) if fact.is_live and fact.kind in kinds], vectors)
        groups = [group for group in alike if len(_sessions(group)) >= FEWEST_SESSIONS]
        groups.sort(key=lambda group: -len(_sessions(group)))
        found += [(heading, groups[:MOST_GROUPS])] if groups else []
    return found if sum(len(groups) for _, groups in found) >= FEWEST_GROUPS else []


def insight_body(parts: Groups) -> tuple[str, tuple[NodeId, ...]]:
    """Render each group as its newest fact, with the earlier ones below; return the text and the cited ids."""
    labels = labels_of([fact for _, groups in parts for group in groups for fact in group[:MOST_LINES]])
    lines: list[str] = []
    for heading, groups in parts:
        lines += [*([""] if lines else []), f"## {heading}", ""]
        for first, *rest in groups:
            lines.append(line(first, labels[first.node_id], dated))
            lines += [f"  {line(fact, labels[fact.node_id], dated)}" for fact in rest[: MOST_LINES - 1]]
    return "\n".join(lines), tuple(labels)


def _alike(facts: Sequence[Memory], vectors: Mapping[NodeId, Vectors]) -> list[list[Memory]]:
    """Put each fact to the first group whose newest fact it is like."""
    groups: list[list[Memory]] = []
    for fact in facts:
        near = (group for group in groups if float(vectors[group[0].node_id] @ vectors[fact.node_id]) >= SAME_MATTER)
        group = next(near, None)
        if group is None:
            groups.append([fact])
        else:
            group.append(fact)
    return groups


def _sessions(group: Sequence[Memory]) -> set[str]:
    """Return the sessions in which any fact of a group was stated or repeated."""
    own = {place_of(fact)[0] for fact in group}
    return own | {source.partition("#")[0] for fact in group for source in fact.sources if "#" in source}
