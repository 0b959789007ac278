"""Profiles, the third step of consolidation: the stable facts of a channel, one page a topic, every line cited.

The person: preferences and standing wishes. The project: decisions and what is true of it. Procedures: how things are
done here, what does not work, what was corrected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ...store.keep import okf
from ...store.model import Action, Kind, Level, Memory, NodeId
from ..pages import bullets
from ..workspace.proposals import BY_HAND, Planned, archive, body_hash, create, newest, replace_text
from ..workspace.view import View

STAGE = "profiles"
MOST_LINES = 24
SMALLEST = 3


@dataclass(frozen=True, slots=True)
class Topic:
    """A page of a profile: the kinds of fact that it holds, each with its heading."""

    title: str
    description: str
    headings: dict[Kind, str]


TOPICS = (
    Topic("The person", "Preferences and standing wishes.", {Kind.PREFERENCE: "Preferences"}),
    Topic("The project", "What was decided, and what was put right.", {Kind.DECISION: "Decisions"}),
    Topic(
        "Procedures",
        "How things are done here, and what does not work.",
        {Kind.PROCEDURE: "How it is done", Kind.NEGATIVE: "What does not work", Kind.CORRECTION: "Corrections"},
    ),
)


def plan(view: View, now: datetime) -> Planned:
    """Propose the pages of every channel, made of its living facts."""
    planned = Planned()
    paths = {memory.node_id: memory.path for memory in view.memories(Level.FACT)}
    channels = {memory.channel for memory in view.memories() if memory.level in {Level.FACT, Level.PROFILE}}
    for channel in view.steps.counted(sorted(channels - view.history.channels_off), "channels"):
        if view.history.paused:
            break
        facts = view.memories(Level.FACT, channel)
        for topic in TOPICS:
            chosen = _chosen(facts, topic)
            known = view.memory(okf.fact_id(channel, f"profile {topic.title}"))
            if known is None and len(chosen) < SMALLEST:
                continue
            action = _action(view, channel, topic, chosen, known, paths, now)
            if action:
                planned.actions.append(action)
                planned.count("profiles" if action.pre_sha256 is None else "profiles changed")
    return planned


def _chosen(facts: Sequence[Memory], topic: Topic) -> list[Memory]:
    """Choose the facts of a topic: repeated ones first, then certain ones, then new ones."""
    fitting = [fact for fact in facts if fact.kind in topic.headings and fact.tags != ("assistant",)]
    best = sorted(fitting, key=_weight)[:MOST_LINES]
    order = list(topic.headings)
    return sorted(bullets.chronological(best), key=lambda fact: (_speaker(fact), order.index(fact.kind)))


def _weight(fact: Memory) -> tuple[float, float, float, NodeId]:
    moment = fact.created_at.timestamp() if fact.created_at else 0.0
    return (-len(fact.sources), -(fact.certainty or 0.0), -moment, fact.node_id)


def _speaker(fact: Memory) -> str:
    return fact.tags[0] if fact.tags else ""


def _action(
    view: View,
    channel: str,
    topic: Topic,
    chosen: Sequence[Memory],
    known: Memory | None,
    paths: dict[NodeId, str],
    now: datetime,
) -> Action | None:
    if known is not None and not chosen:
        is_gone = not view.is_live(known.node_id)
        return None if is_gone else archive(view, known, STAGE, "the facts that it rests on are gone", now)
    several = len({_speaker(fact) for fact in chosen}) > 1
    text, ids = bullets.body(
        chosen,
        lambda fact: f"{_speaker(fact)}: {topic.headings[fact.kind].lower()}" if several else topic.headings[fact.kind],
    )
    path = okf.path_for(Level.PROFILE, topic.title, "", channel)
    if known is not None:
        changed = replace(
            known, text=text, sources=ids, run=view.run_id, extra=dict(known.extra) | {BY_HAND: body_hash(text)}
        )
        return replace_text(view, changed, STAGE, "its facts have changed", paths)
    if view.read(path) is not None:
        return None  # a person's own page has this name
    memory = Memory(
        node_id=okf.fact_id(channel, f"profile {topic.title}"),
        level=Level.PROFILE,
        kind=Kind.PROFILE,
        title=topic.title,
        text=text,
        channel=channel,
        description=topic.description,
        created_at=newest([fact.created_at for fact in chosen]),
        provenance="extracted",
        sources=ids,
        run=view.run_id,
        path=path,
        extra={"learned_at": now.isoformat(), BY_HAND: body_hash(text)},
    )
    return create(view, memory, STAGE, f"what {len(chosen)} facts say of {topic.title.lower()}", paths)
