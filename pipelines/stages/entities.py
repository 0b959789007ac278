"""Entities: a page for each person and thing of a channel, with its names, its relations and the turns that name it.

Names that a person merged or split stay as they left them; a page whose text they edited keeps that text.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Final

from ...store import okf
from ...store.index.tombstones import UNTOLD
from ...store.judges.name_reader import NamesRead
from ...store.model import GLOBAL_CHANNEL, Action, Kind, Level, Memory, NodeId, Turn
from ...store.okf.entity_page import (
    BY_PERSON,
    EntityPage,
    EntityRelation,
    EntityType,
    entity_of,
    entity_path,
    key_of,
    says_one_of,
)
from ...store.okf.memory_file import BY_HAND, body_hash
from ...store.text.dates import format_date
from ..extract.contexts import Speaker, TurnContext, contexts_of
from ..extract.naming import (
    FEWEST_TURNS,
    LONGEST_SENTENCE,
    Found,
    KnownNames,
    found_in,
    in_force,
    read_turns,
    relations_of,
)
from ..grounding.relations import relations_by_model
from ..workspace.memo import once
from ..workspace.proposals import Proposals, archive, create, is_edited, may_be_revived, newest
from ..workspace.view import View

STAGE: Final = "entities"

MOST_TURNS: Final = 20_000
"""The newest turns of the memory that are read; pages keep the relations of those before."""

MOST_READ: Final = 2_000
"""Turns of which names are read in one dream, some 40 ms of processor time each."""

MOST_QUOTES: Final = 3

_DIGITS = re.compile(r"-[0-9a-f]{6}\Z")


@dataclass(slots=True)
class _ChannelPages:
    """The turns of a channel, oldest first, and its pages."""

    name: str
    contexts: list[TurnContext] = field(default_factory=list)
    paths: dict[NodeId, str] = field(default_factory=dict)
    pages: list[tuple[Memory, EntityPage]] = field(default_factory=list)


def plan(view: View, now: datetime) -> Proposals:
    """Propose the pages of every channel, of the turns that came since the last dream: newest sessions first.

    At most MOST_READ turns are read in a dream; the rest waits for the next.
    """
    planned = Proposals()
    channels = _read(view)
    fresh = _unread(view, channels)
    if not fresh:
        return planned
    for context in fresh:
        session = context.turn.session_id
        planned.cursors[STAGE, session] = max(planned.cursors.get((STAGE, session), 0), context.turn.ordinal)
    read = read_turns(fresh)
    if view.model is not None:
        read = relations_by_model(fresh, read, view.model, partial(once, view.memo))
    everything = [context for channel in channels.values() for context in channel.contexts]
    known = [
        KnownNames(page.type, page.names, page.not_names)
        for channel in channels.values()
        for memory, page in channel.pages
        if memory.extra.get(BY_PERSON) or (memory.is_live and not set(page.mentions) <= read.keys())
    ]
    found = found_in(everything, read, known, [_project(name) for name in channels if name != GLOBAL_CHANNEL])
    pages = {name: _Pages(view, channel, found, read, now) for name, channel in channels.items()}
    denied = [one for page in pages.values() for one in page.denied]
    relations = _in_force({name: one.relations() for name, one in pages.items()}, denied)
    for name in view.steps.counted(sorted(channels), "channels"):
        for action in pages[name].actions(relations[name]):
            planned.actions.append(action)
            planned.count("people and things" if action.pre_sha256 is None else "people and things changed")
    return planned


def _in_force(
    stated: Mapping[str, Sequence[EntityRelation]], denied: Sequence[EntityRelation]
) -> dict[str, list[EntityRelation]]:
    """End relations where later ones of any channel say otherwise: a project's owner is named in talk about another."""
    ordered = [(name, one) for name in sorted(stated) for one in stated[name]]
    ordered.sort(key=lambda pair: pair[1].since.isoformat() if pair[1].since else "")
    found: dict[str, list[EntityRelation]] = {name: [] for name in stated}
    for (name, _), one in zip(ordered, in_force([one for _, one in ordered], denied), strict=True):
        found[name].append(one)
    return found


def _unread(view: View, channels: Mapping[str, _ChannelPages]) -> list[TurnContext]:
    """Return the turns behind each session's cursor, of the newest sessions, at most MOST_READ but for one session."""
    sessions: dict[str, list[TurnContext]] = defaultdict(list)
    for channel in channels.values():
        for context in channel.contexts:
            if context.turn.ordinal > view.cursor(STAGE, context.turn.session_id):
                sessions[context.turn.session_id].append(context)
    chosen: list[TurnContext] = []
    for turns in sorted(sessions.values(), key=lambda turns: _began([one.turn for one in turns]), reverse=True):
        if chosen and len(chosen) + len(turns) > MOST_READ:
            break
        chosen += turns
    return chosen


def _read(view: View) -> dict[str, _ChannelPages]:
    channels: dict[str, _ChannelPages] = {}
    budget = MOST_TURNS
    sessions = [(session, view.turns(session.session_id)) for session in view.sessions()]
    sessions.sort(key=lambda one: (_began(one[1]), one[0].session_id), reverse=True)
    for session, turns in sessions:
        if budget <= 0:
            break
        budget -= len(turns)
        channel = channels.setdefault(session.channel, _ChannelPages(session.channel))
        channel.contexts[:0] = contexts_of(turns)
        channel.paths[session.session_id] = session.path
    for name, channel in channels.items():
        read = ((memory, entity_of(memory)) for memory in view.whole(Level.PROFILE, name))
        channel.pages = [(memory, page) for memory, page in read if page is not None]
    return channels


def _project(channel: str) -> str:
    """Return the name of a channel's project, without the digits of its folder."""
    return _DIGITS.sub("", channel)


def _began(turns: Sequence[Turn]) -> str:
    return next((turn.at.isoformat() for turn in turns if turn.at), "")


class _Pages:
    """The pages of one channel, as they are to be."""

    def __init__(
        self,
        view: View,
        channel: _ChannelPages,
        found: Sequence[Found],
        read: Mapping[NodeId, NamesRead],
        now: datetime,
    ) -> None:
        self._view, self._channel, self._read, self._now = view, channel, read, now
        forgotten = {name.removeprefix(UNTOLD) for name in view.history.tombstones if name.startswith(UNTOLD)}
        told = (context for context in channel.contexts if context.turn.node_id not in forgotten)
        self._turns = {context.turn.node_id: context for context in told}
        self._found = [one for each in found if (one := self._here(each)) is not None]
        self._place_of = {key_of(name): place for place, one in enumerate(self._found) for name in one.names}
        self.denied = [one for _, page in channel.pages for one in page.not_relations]
        """The relations of the channel that a person denied."""

    def _here(self, found: Found) -> Found | None:
        """Return a person or thing with its mentions in this channel; None without any."""
        mentions = tuple(turn for turn in found.mentions if turn in self._turns)
        return replace(found, mentions=mentions) if mentions else None

    def actions(self, relations: Sequence[EntityRelation]) -> Iterator[Action]:
        """Yield the changes of pages that hold these relations."""
        of_page: dict[int, list[EntityRelation]] = defaultdict(list)
        for relation in relations:
            ends = (self._place_of.get(key_of(relation.subject)), self._place_of.get(key_of(relation.object)))
            if (place := next((end for end in ends if end is not None), None)) is not None:
                of_page[place].append(relation)
        related = {self._place_of.get(key_of(end)) for one in relations for end in (one.subject, one.object)}
        left = {memory.node_id for memory, _ in self._channel.pages}
        for place, one in enumerate(self._found):
            if one.type is not EntityType.PERSON and place not in related and len(one.mentions) < FEWEST_TURNS:
                continue
            home = self._home(one, left)
            if home is not None:
                left.discard(home[0].node_id)
            if action := self._action(one, of_page[place], home):
                yield action
        for memory, _ in self._channel.pages:
            is_own = memory.run is not None and memory.is_live and not memory.extra.get(BY_PERSON)
            gone = archive(self._view, memory, STAGE, "no turn names it", self._now)
            if memory.node_id in left and is_own and gone is not None:
                yield gone

    @property
    def _project(self) -> str:
        """The name of the project at hand; "" outside of any."""
        return "" if self._channel.name == GLOBAL_CHANNEL else _project(self._channel.name)

    def relations(self) -> list[EntityRelation]:
        """Return the relations that were found, and those of turns that were not read now and that pages hold.

        Those that a person denied are left out.
        """
        held = {
            relation.key: relation
            for _, page in self._channel.pages
            for relation in page.relations
            if relation.turn not in self._read
        }
        found = relations_of([*self._turns.values()], self._read, self._found, self._project)
        order = {turn: place for place, turn in enumerate(self._turns)}
        everything = [*held.values(), *(one for one in found if one.key not in held)]
        return sorted((one for one in everything if not self._is_denied(one)), key=lambda one: order.get(one.turn, -1))

    def _is_denied(self, relation: EntityRelation) -> bool:
        """Return True for a relation that a person denied, by any names of its ends; not where it was said since."""
        denied = (one for one in self.denied if self._identity(one) == self._identity(relation))
        return any(relation.since is None or one.until is None or relation.since <= one.until for one in denied)

    def _identity(self, relation: EntityRelation) -> tuple[int | str, ...]:
        return tuple(self._place_of.get(key, key) for key in relation.key)

    def _home(self, found: Found, left: set[NodeId]) -> tuple[Memory, EntityPage] | None:
        """Return the page that a person or thing has, the one with most of its names."""
        keys = {key_of(name) for name in found.names}
        shared = [
            (len(keys & set(page.keys)), memory.node_id, (memory, page))
            for memory, page in self._channel.pages
            if memory.node_id in left and keys & set(page.keys)
        ]
        return max(shared, default=(0, "", None))[2]

    def _action(
        self, found: Found, relations: Sequence[EntityRelation], home: tuple[Memory, EntityPage] | None
    ) -> Action | None:
        name = found.name
        page = EntityPage(name, found.type, found.names[1:], (), tuple(relations), found.mentions)
        node_id = okf.fact_id(self._channel.name, f"entity {key_of(name)}")
        if home is None and self._view.exists(node_id):
            known = self._view.memory(node_id)
            home = (known, entity_of(known) or page) if known else None
        if home is not None:
            page = replace(page, not_relations=home[1].not_relations)
        if home is not None and home[0].extra.get(BY_PERSON):
            page = replace(home[1].with_names(found.names), relations=page.relations, mentions=page.mentions)
        text, cited = self._text(page)
        is_settled = home is not None and bool(home[0].extra.get(BY_PERSON) or page.not_relations)
        if not (cited or page.relations or is_settled):
            # Agents alone name it, and their words are not quoted: the page would be a title.
            if home is None or not home[0].is_live:
                return None
            return archive(self._view, home[0], STAGE, "no person says anything of it", self._now)
        memory = Memory(
            node_id=node_id,
            level=Level.PROFILE,
            kind=Kind.ENTITY,
            title=page.name,
            text=text,
            channel=self._channel.name,
            description=page.description,
            created_at=newest([self._turns[turn].turn.at for turn in found.mentions]),
            provenance="extracted",
            sources=cited or found.mentions[-1:],
            run=self._view.run_id,
            path=entity_path(page, node_id, self._channel.name),
        )
        if home is None:
            extra = {"learned_at": self._now.isoformat(), BY_HAND: body_hash(text), **_kept(page)}
            reason = "turns name it"
            return create(self._view, replace(memory, extra=extra), STAGE, reason, self._channel.paths)
        return self._rewritten(home[0], memory, page)

    def _rewritten(self, known: Memory, memory: Memory, page: EntityPage) -> Action | None:
        """Return the change of a known page; None for one that a person put away, or that stays the same."""
        before = self._view.read(known.path)
        if before is None or not may_be_revived(known):
            return None
        if is_edited(before):
            content = okf.edit(before, page.as_keys())
        else:
            extra = {name: value for name, value in known.extra.items() if name not in page.as_keys()}
            extra |= {BY_HAND: body_hash(memory.text), **_kept(page)}
            written = replace(memory, node_id=known.node_id, path=known.path, created_at=memory.created_at, extra=extra)
            if (known.text, known.title, entity_of(known)) == (memory.text, memory.title, page) and known.is_live:
                return None
            content = okf.from_memory(written, self._channel.paths)
        if content == before:
            return None
        return Action.replacing(
            known.path, known.node_id, before, content, stage=STAGE, reason="later turns say more of it"
        )

    def _text(self, page: EntityPage) -> tuple[str, tuple[NodeId, ...]]:
        """Return the text of a page, and the turns that it quotes: its relations, then the last words about it."""
        quotes: dict[tuple[NodeId, str], str] = {}
        for relation in sorted(page.relations, key=lambda one: one.until is not None):
            sentence = self._quotable(relation.turn, relation.words)
            if sentence:
                quotes.setdefault((relation.turn, sentence), relation.head)
        keys = set(page.keys)
        said = 0
        for turn in reversed(page.mentions):
            context = self._turns.get(turn)
            if context is None or context.speaker is Speaker.ASSISTANT or said >= MOST_QUOTES:
                continue
            for sentence in context.sentences:
                if says_one_of(sentence, keys) and self._quotable(turn, sentence) and (turn, sentence) not in quotes:
                    quotes[turn, sentence] = _day(context.turn.at)
                    said += 1
                    break
        cited = tuple(dict.fromkeys(turn for turn, _ in quotes))
        labels = okf.source_ids(cited)
        lines = [f"- {head}: “{sentence}” [^{labels[turn]}]" for (turn, sentence), head in quotes.items()]
        notes = [
            f"[^{labels[turn]}]: [{_day(self._turns[turn].turn.at)}]"
            f"(/{self._channel.paths[turn.partition('#')[0]].replace(' ', '%20')})"
            for turn in cited
            if quotes
        ]
        return "\n".join([f"# {page.name}", "", *lines, *([""] if notes else []), *notes]), cited

    def _quotable(self, turn: NodeId, sentence: str) -> str:
        """Return a sentence that may be quoted, whole and short, of a turn that was read; "" otherwise."""
        context = self._turns.get(turn)
        if context is None or len(sentence) > LONGEST_SENTENCE or "“" in sentence or "”" in sentence:
            return ""
        return next((one for one in context.sentences if sentence.strip() in one and len(one) <= LONGEST_SENTENCE), "")


def _kept(page: EntityPage) -> Mapping[str, object]:
    return {name: value for name, value in page.as_keys().items() if value is not None}


def _day(at: datetime | None) -> str:
    return format_date(at.date()) if at else "Undated"
