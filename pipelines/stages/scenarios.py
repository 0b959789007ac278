"""Scenarios, the second step of consolidation: episodes, each on a page with its outcome that cites its facts.

The page of an episode keeps its id, path and title for good; facts that change later are marked on it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np

from ...llm.language_model import LlmError
from ...store import okf
from ...store.model import Action, ActionKind, Kind, Level, Memory, NodeId, Turn
from ...store.okf.memory_file import BY_HAND, body_hash
from ..extract.attributes import REPLY
from ..extract.facts import PUTS_RIGHT
from ..pages import titles
from ..pages.current_facts import day_of, labels_of, place_of, with_footnotes, with_plain_successors
from ..pages.episodes import SMALLEST, Episode, PageBody, distinction, episode_body, episodes_of, name_of, outcome_of
from ..settings import MOST_PAGES_ARCHIVED
from ..workspace.memo import Vectors, once
from ..workspace.proposals import Proposals, archive, create, cursor_of, may_be_revived, newest, replace_text, revived
from ..workspace.view import View

STAGE = "scenarios"
BEGAN, ENDED, OUTCOME = "began", "ended", "told"
"""The frontmatter keys of an episode: the first and the last day of its facts; a model's sentences on its outcome."""


def plan(view: View, now: datetime) -> Proposals:
    """Propose the pages of every channel whose facts have changed since the last dream."""
    planned = Proposals()
    for channel in view.steps.counted(_channels(view), "channels"):
        fingerprint = view.fingerprint(Level.FACT, channel)
        if view.cursor(STAGE, channel) == fingerprint:
            continue
        planned.cursors[STAGE, channel] = fingerprint
        for action in _Channel(view, channel, now).actions():
            planned.actions.append(action)
            planned.count("scenarios" if action.kind is ActionKind.CREATE else "scenarios changed")
    return planned


def _channels(view: View) -> list[str]:
    if view.history.paused:
        return []
    channels = {memory.channel for memory in view.memories() if memory.level in {Level.FACT, Level.SCENARIO}}
    return sorted(channels - view.history.channels_off)


@dataclass
class _Channel:
    """One channel: its facts, its existing pages, and the actions that update the pages."""

    view: View
    channel: str
    now: datetime

    @cached_property
    def facts(self) -> list[Memory]:
        """The facts that are not archived; a superseded one is part of its episode."""
        return with_plain_successors(fact for fact in self.view.whole(Level.FACT, self.channel) if not fact.is_archived)

    @cached_property
    def vectors(self) -> dict[NodeId, Vectors]:
        rows = self.view.vectors([fact.text for fact in self.facts])
        return dict(zip((fact.node_id for fact in self.facts), rows, strict=True))

    @cached_property
    def session_titles(self) -> dict[NodeId, str]:
        sessions = (session for session in self.view.sessions() if session.channel == self.channel)
        return {session.session_id: session.title for session in sessions}

    def actions(self) -> Iterator[Action]:
        """Yield the pages that are new, changed or gone."""
        pages = [
            page
            for page in self.view.whole(Level.SCENARIO, self.channel)
            if page.kind is Kind.SCENARIO and may_be_revived(page)
        ]
        paths = {fact.node_id: fact.path for fact in self.facts}
        known = [page for page in pages if BEGAN in page.extra]
        for episode in episodes_of(self.facts, known, self.vectors):
            action = self._action(episode, paths)
            if action:
                yield action
        for page in [page for page in pages if BEGAN not in page.extra and page.is_live][:MOST_PAGES_ARCHIVED]:
            if action := archive(self.view, page, STAGE, "scenarios tell what it told", self.now):
                yield action

    def _action(self, episode: Episode, paths: Mapping[NodeId, str]) -> Action | None:
        if episode.page is not None and len(episode.facts) < 2:
            if not episode.page.is_live:
                return None
            return archive(self.view, episode.page, STAGE, "the facts that it rests on are gone", self.now)
        if episode.page is not None:
            return replace_text(self.view, self._changed(episode.page, episode), STAGE, "its facts have changed", paths)
        if len(episode.facts) < SMALLEST:
            return None
        page = self._page(episode)
        if page is None or self.view.exists(page.node_id):
            return None
        return create(self.view, page, STAGE, f"{len(episode.facts)} facts of one stretch", paths)

    def _changed(self, page: Memory, episode: Episode) -> Memory:
        outcome = self._outcome(episode, page)
        body = self._body(episode, outcome)
        living = revived(page, body.text, body.sources, self.view.run_id)
        extra = {key: value for key, value in living.extra.items() if key != OUTCOME} | _days(episode.facts)
        return replace(living, description=_description(episode), extra=extra | ({OUTCOME: outcome} if outcome else {}))

    def _page(self, episode: Episode) -> Memory | None:
        title = self._title(episode)
        if not title:
            return None
        outcome = self._outcome(episode)
        body = self._body(episode, outcome)
        node_id = okf.fact_id(self.channel, f"episode {episode.facts[0].node_id}")
        return Memory(
            node_id=node_id,
            level=Level.SCENARIO,
            kind=Kind.SCENARIO,
            title=title,
            text=body.text,
            channel=self.channel,
            description=_description(episode),
            created_at=newest([fact.created_at for fact in episode.facts]),
            provenance="extracted",
            sources=body.sources,
            run=self.view.run_id,
            path=self.view.path_for(Level.SCENARIO, Kind.SCENARIO, title, node_id, self.channel),
            extra={"learned_at": self.now.isoformat(), **_days(episode.facts), BY_HAND: body_hash(body.text)}
            | ({OUTCOME: outcome} if outcome else {}),
        )

    def _body(self, episode: Episode, outcome: Mapping[str, str | int]) -> PageBody:
        body = episode_body(episode.facts, str(outcome.get("text", "")))
        return replace(body, text=with_footnotes(body.text, body.sources, episode.facts))

    def _outcome(self, episode: Episode, page: Memory | None = None) -> dict[str, str | int]:
        """Return a model's grounded sentences on an episode's outcome; it is asked again only when the facts change."""
        # The answer is kept on the page with a hash of the facts, so equal facts are never asked about twice.
        of = cursor_of(f"{fact.node_id} {fact.is_live}" for fact in episode.facts)
        known = page.extra.get(OUTCOME) if page else None
        if isinstance(known, dict) and known.get("of") == of:
            return dict(known)
        if self.view.model is None:
            return {}
        text = outcome_of(episode.facts, labels_of(episode.facts), self._ask)
        return {} if self.view.model.why_not else {"of": of, "by": self.view.model.name, "text": text}

    def _ask(self, prompt: str, schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Ask the model, or take its answer from the checkpoint; None where it has none."""
        model = self.view.model
        if model is None:
            return None
        parts = ["pages", model.name, prompt, json.dumps(schema)]
        try:
            answer = once(self.view.memo, parts, lambda: json.dumps(model.ask(prompt, schema)).encode())
        except LlmError:
            return None
        found: Mapping[str, Any] = json.loads(answer)
        return found

    def _title(self, episode: Episode) -> str:
        """Return the own title of a session that lies wholly in the episode, else the model's name or a sentence."""
        turns = {session: self.view.turns(session) for session in episode.sessions}
        for session, said in turns.items():
            others = [title for other, title in self.session_titles.items() if other != session]
            title = titles.own_title(self.session_titles.get(session, ""), said, others)
            if title and self._contains_session(episode, session):
                return title
        if self.view.model is not None and (name := name_of(episode.facts, self._ask)):
            return name
        # What puts the other side right names no subject.
        apart_from = {fact.sources[0] for fact in episode.facts if fact.extra.get(REPLY) in PUTS_RIGHT}
        within = (turn for session, said in turns.items() for turn in self._within(episode, session, said))
        stretch = [turn for turn in within if turn.node_id not in apart_from]
        vectors = np.stack([self.vectors[fact.node_id] for fact in episode.facts])
        apart = distinction(vectors, list(self.vectors.values()))
        subject = titles.Subject([fact.text for fact in episode.facts], vectors, apart)
        return titles.sentence_title(stretch, subject, self.view.vectors)

    def _contains_session(self, episode: Episode, session: NodeId) -> bool:
        return {f.node_id for f in self.facts if place_of(f)[0] == session} <= {f.node_id for f in episode.facts}

    def _within(self, episode: Episode, session: NodeId, turns: Sequence[Turn]) -> list[Turn]:
        """Return the turns of a session from an episode's first fact, or the session's start, to the last fact."""
        first = min(place_of(fact)[1] for fact in episode.facts if place_of(fact)[0] == session)
        last = max(place_of(fact)[1] for fact in episode.facts if place_of(fact)[0] == session)
        # The first episode of a session includes the turns before its first fact: they introduce the subject.
        earlier = any(place_of(fact)[0] == session and place_of(fact)[1] < first for fact in self.facts)
        return [turn for turn in turns if (not earlier or turn.ordinal >= first) and turn.ordinal <= last]


def _days(facts: Sequence[Memory]) -> dict[str, str]:
    days = sorted(fact.created_at.date() for fact in facts if fact.created_at)
    return {BEGAN: str(days[0]), ENDED: str(days[-1])} if days else {BEGAN: "", ENDED: ""}


def _description(episode: Episode) -> str:
    first, last = day_of(episode.facts[0]), day_of(episode.facts[-1])
    days = first if first == last else f"{first} to {last}"
    sessions = len(episode.sessions)
    return f"{days}, {len(episode.facts)} facts of {sessions} session{'s' if sessions > 1 else ''}."
