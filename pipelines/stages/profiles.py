"""Profiles, the third step of consolidation: a page of the current facts of a channel, and pages of its main topics.

Every line is a fact with its day, with its predecessors below. A page of too few facts is not made, and one whose facts
become too few is archived.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ...store import okf
from ...store.model import CURRENT_PAGE, PROMOTED_FROM, Action, Kind, Level, Memory, NodeId
from ...store.okf.memory_file import BY_HAND, body_hash
from ..extract.attributes import OBSERVED
from ..pages import current_facts
from ..pages.current_facts import day_of, with_footnotes, with_plain_successors
from ..pages.topics import Topic, topics_of
from ..workspace.proposals import Proposals, archive, create, may_be_revived, newest, replace_text, revived
from ..workspace.view import View
from . import scenarios

STAGE = "profiles"
SAID = "Said, newest first"
SMALLEST = 3


@dataclass(frozen=True, slots=True)
class _Page:
    """The wanted state of a page: its facts under headings."""

    title: str
    description: str
    parts: Sequence[current_facts.Part]

    @property
    def facts(self) -> list[Memory]:
        return [fact for part in self.parts for fact in part.facts]


def plan(view: View, now: datetime) -> Proposals:
    """Propose the pages of every channel whose facts have changed since the last dream."""
    planned = Proposals()
    channels = {memory.channel for memory in view.memories() if memory.level in {Level.FACT, Level.PROFILE}}
    for channel in view.steps.counted(sorted(channels - view.history.channels_off), "channels"):
        fingerprint = view.fingerprint(Level.FACT, channel)
        if view.history.paused or view.cursor(STAGE, channel) == fingerprint:
            continue
        planned.cursors[STAGE, channel] = fingerprint
        for action in _actions(view, channel, now):
            planned.actions.append(action)
            planned.count("profiles" if action.pre_sha256 is None else "profiles changed")
    return planned


def _actions(view: View, channel: str, now: datetime) -> Iterator[Action]:
    facts = with_plain_successors(fact for fact in view.whole(Level.FACT, channel) if not fact.is_archived)
    paths = {fact.node_id: fact.path for fact in facts}
    wanted: set[NodeId] = set()
    for page in _pages(facts, now):
        memory = _memory(view, channel, page, facts, now)
        wanted.add(memory.node_id)
        if action := _action(view, memory, paths):
            yield action
    for known in view.whole(Level.PROFILE, channel):
        is_unwanted = (
            known.is_live
            and known.kind is Kind.PROFILE
            and known.run is not None
            and known.node_id not in wanted
            and known.provenance != OBSERVED  # know_how makes it, of sessions
        )
        if is_unwanted and (action := archive(view, known, STAGE, "too little of it holds now", now)):
            yield action


def _pages(facts: Sequence[Memory], now: datetime) -> Iterator[_Page]:
    """Yield the pages for which a channel has enough facts."""
    parts = current_facts.current_parts(facts, now.date())
    shown, more = sum(len(part.facts) for part in parts), sum(part.more for part in parts)
    number = f"{shown} of {shown + more}" if more else f"{shown}"
    held = _Page(CURRENT_PAGE, f"{number} things that were decided, wished for and learned here, and hold.", parts)
    # What was proposed for all projects, and accepted, is a profile of the person however little it is.
    if len(held.facts) >= SMALLEST or any(PROMOTED_FROM in fact.extra for fact in held.facts):
        yield held
    for topic in topics_of(facts):
        yield _of_topic(topic)


def _of_topic(topic: Topic) -> _Page:
    """Build a topic's page: all its facts in time, current or not."""
    living = current_facts.newest_first(current_facts.current(topic.facts))
    shown = living[: current_facts.MOST_LINES]
    days = f"{day_of(shown[-1])} to {day_of(shown[0])}"
    part = current_facts.Part(SAID, shown, len(living) - len(shown))
    return _Page(topic.name, f"{len(shown)} facts, {days}, newest first.", [part])


def _memory(view: View, channel: str, page: _Page, facts: Sequence[Memory], now: datetime) -> Memory:
    rest = f"`dreamctl list --channel {channel} --level {Level.FACT.value}` lists them with the others."
    text, ids = current_facts.profile_body(page.parts, current_facts.Predecessors(facts), rest)
    text = with_footnotes(text, ids, facts)
    node_id = okf.fact_id(channel, f"profile {page.title.casefold()}")
    if view.exists(node_id) and (known := view.memory(node_id)):
        if not may_be_revived(known):
            return known
        return replace(revived(known, text, ids, view.run_id), description=page.description)
    return Memory(
        node_id=node_id,
        level=Level.PROFILE,
        kind=Kind.PROFILE,
        title=page.title,
        text=text,
        channel=channel,
        description=page.description,
        created_at=newest([fact.created_at for fact in page.facts]),
        provenance="extracted",
        sources=ids,
        run=view.run_id,
        path=view.path_for(Level.PROFILE, Kind.PROFILE, page.title, node_id, channel),
        extra={"learned_at": now.isoformat(), BY_HAND: body_hash(text)},
    )


def _action(view: View, memory: Memory, paths: Mapping[NodeId, str]) -> Action | None:
    if view.exists(memory.node_id):
        return replace_text(view, memory, STAGE, "its facts have changed", paths)
    if view.read(memory.path) is not None:
        return None  # a person's own page has this name
    number = len(memory.sources)
    return create(view, memory, STAGE, f"what {number} facts say of {memory.title.lower()}", paths)


def refresh(view: View, now: datetime) -> Proposals:
    """Plan scenarios and profiles again, for facts that a later step has changed; nothing where none has."""
    planned = Proposals()
    for again in (scenarios.plan(view, now), plan(view, now)):
        planned.actions += again.actions
        planned.cursors |= again.cursors
        for what, number in again.counts.items():
            planned.count(what, number)
    return planned
