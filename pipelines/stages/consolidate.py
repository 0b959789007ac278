"""Consolidate, first step: new turns become facts, one a file; a repeated fact gains a source instead.

A session is read from the turn after the last dream's. One that cannot be read keeps its cursor and is reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from ...store import okf
from ...store.judges.judge import unload
from ...store.model import Level, Memory, NodeId, Turn
from ...store.text.quotes import title_of_fact
from ...store.text.statements import slot_of
from ...store.text.words import normal_form
from ..extract.attributes import REPLY, STANDING, WORTH
from ..extract.facts import Draft, drafts_of
from ..grounding.claims import extract
from ..messages import ReadTurn
from ..workspace.memo import once
from ..workspace.proposals import Proposals, add_sources, create
from ..workspace.snapshot import SessionState
from ..workspace.view import View

STAGE = "consolidate"


class KnownStatements:
    """The statements of one channel by normal form: a repetition has the same words in the same order.

    Articles, fillers, contractions and punctuation do not count; a number, name, date, negation, colour, tense or the
    order of persons does. Embeddings cannot decide it: the cosine of "purple" and "cyan" is .96.
    """

    def __init__(self, statements: Iterable[tuple[NodeId, str]] = ()) -> None:
        self._by_form: dict[tuple[str, ...], NodeId] = {}
        for node_id, text in statements:
            self.add(node_id, text)

    def add(self, node_id: NodeId, text: str) -> None:
        """Add a statement; of several with the same normal form the first stays."""
        self._by_form.setdefault(normal_form(text), node_id)

    def same_as(self, text: str) -> NodeId | None:
        """Return the known statement with the same normal form."""
        return self._by_form.get(normal_form(text))


def plan(view: View, now: datetime) -> Proposals:
    """Propose the facts of every turn that no dream has read."""
    planned = Proposals()
    collector = _FactCollector(view, planned, now)
    chosen = [one for one in view.sessions() if view.learns is None or one.session_id in view.learns]
    for session in view.steps.counted(chosen, "sessions"):
        read_to = view.cursor(STAGE, session.session_id)
        if session.last_ordinal <= read_to:
            continue
        try:
            turns = view.turns(session.session_id)
            drafts = _drafts_of(view, planned, turns, read_to + 1)
        except Exception as error:  # the boundary of one session: the others are read, this one again tomorrow
            planned.notes.append(f"{session.session_id} could not be read: {type(error).__name__}")
            planned.count("sessions failed")
            continue
        for draft in drafts:
            collector.add(session, draft)
        empty = {turn.node_id for turn in turns if turn.ordinal > read_to} - {draft.sources[0] for draft in drafts}
        planned.turns += [ReadTurn(node_id=node_id, outcome="nothing") for node_id in sorted(empty)]
        planned.count("sessions")
        planned.count("turns", sum(turn.ordinal > read_to for turn in turns))
        planned.cursors[STAGE, session.session_id] = session.last_ordinal
    collector.finish()
    return planned


def facts_of(session_id: NodeId, channel: str, turns: Sequence[Turn], new_from: int, now: datetime) -> list[Memory]:
    """Return the facts that a dream without a language model would draw from a session's turns; nothing is written.

    The judge is unloaded afterwards: the caller, unlike a dream's process, lives on.
    """
    session = SessionState(session_id, channel, "", turns[-1].ordinal)
    try:
        drafts = drafts_of(turns, new_from)
    finally:
        unload()
    return [fact(session, draft, okf.fact_id(channel, draft.text), "", now) for draft in drafts]


def _drafts_of(view: View, planned: Proposals, turns: Sequence[Turn], new_from: int) -> list[Draft]:
    """Return the drafts of a session, improved by a language model where there is one."""
    drafts = drafts_of(turns, new_from)
    if view.model is None:
        return drafts
    model = view.model

    def on_progress(done: int, total: int) -> None:
        view.steps.detail(f"asking {model.name}", done, total)

    found = extract(turns, new_from, drafts, model, partial(once, view.memo), on_progress)
    for what, number in found.counts.items():
        planned.count(what, number)
    return found.drafts


class _FactCollector:
    """Collects new and repeated facts while the sessions are read."""

    def __init__(self, view: View, planned: Proposals, now: datetime) -> None:
        self._view = view
        self._planned = planned
        self._now = now
        self._known: dict[str, KnownStatements] = {}
        self._paths = view.session_paths()
        self._new: dict[NodeId, Memory] = {}
        self._repeated: dict[NodeId, list[NodeId]] = {}
        self._facts_of_turn: Counter[NodeId] = Counter()

    def add(self, session: SessionState, draft: Draft) -> None:
        """Turn a draft into a new fact, or into evidence for a known one."""
        known = self._known_of(session.channel)
        node_id = okf.fact_id(session.channel, draft.text)
        same = node_id if node_id in self._new or self._view.exists(node_id) else known.same_as(draft.text)
        if same:
            self._planned.count("duplicates")
            self._planned.turns.append(ReadTurn(node_id=draft.sources[0], outcome="known", fact=same))
            self._repeat(same, draft.sources[:1])
            return
        self._facts_of_turn[draft.sources[0]] += 1
        memory = fact(session, draft, node_id, self._view.run_id, self._now, self._facts_of_turn[draft.sources[0]])
        place = self._view.path_for(memory.level, memory.kind, memory.title, node_id, session.channel)
        memory = replace(memory, path=place)
        if create(self._view, memory, STAGE, "", self._paths) is None:
            self._planned.count("forbidden")
            self._planned.turns.append(ReadTurn(node_id=draft.sources[0], outcome="forbidden", fact=node_id))
            return
        self._planned.turns.append(ReadTurn(node_id=draft.sources[0], outcome="new", fact=node_id))
        if draft.by_model and self._view.model is not None:
            memory = _marked_as_chosen(memory, self._view.model.name, self._now)
            self._planned.count("facts chosen by the model")
        self._new[node_id] = memory
        known.add(node_id, draft.text)

    def finish(self) -> None:
        """Turn new facts, in the order in which they were said, and repetitions into actions."""
        for memory in self._view.steps.counted(list(self._new.values()), "facts"):
            action = create(self._view, memory, STAGE, f"said in {memory.session_id}", self._paths)
            if action and self._view.read(memory.path) is None:
                self._planned.actions.append(action)
                self._planned.count("facts")
        for node_id, turns in sorted(self._repeated.items()):
            old = self._view.memory(node_id)
            # A superseded fact stays so. One archived by fading has a date and becomes live again; any other stays
            # archived.
            if old is None or old.superseded_by or (old.is_archived and old.archived_at is None):
                continue
            action = add_sources(self._view, old.path, node_id, turns, STAGE, self._paths, self._now)
            if action:
                self._planned.actions.append(action)
                self._planned.count("reinforced")

    def _known_of(self, channel: str) -> KnownStatements:
        if channel not in self._known:
            facts = self._view.memories(Level.FACT, channel)
            self._known[channel] = KnownStatements((memory.node_id, memory.text) for memory in facts)
        return self._known[channel]

    def _repeat(self, node_id: NodeId, turns: tuple[NodeId, ...]) -> None:
        new = self._new.get(node_id)
        if new is None:
            self._repeated.setdefault(node_id, []).extend(turns)
        elif fresh := [turn for turn in turns if turn not in new.sources]:
            self._new[node_id] = replace(new, sources=(*new.sources, *fresh))


def fact(session: SessionState, draft: Draft, node_id: NodeId, run_id: str, now: datetime, ordinal: int = 1) -> Memory:
    """Build the memory of a draft; `ordinal` is its place among the facts of its turn.

    Its time is the time of speaking; the time of learning is kept as `learned_at`.
    """
    title = title_of_fact(draft.text)
    return Memory(
        node_id=node_id,
        level=Level.FACT,
        kind=draft.attributes.kind,
        title=title,
        text=draft.text,
        channel=session.channel,
        said_by=draft.said_by or None,
        about=draft.about,
        days=draft.days,
        slot=slot_of(draft.text),
        created_at=draft.at,
        valid_from=draft.at,
        tense=draft.attributes.tense,
        certainty=draft.attributes.certainty,
        provenance=draft.attributes.provenance,
        session_id=session.session_id,
        sources=draft.sources,
        run=run_id,
        extra={
            "ordinal": ordinal,
            WORTH: round(draft.worth, 2),
            **({REPLY: draft.reply, STANDING: round(draft.standing, 2)} if draft.reply else {}),
            "learned_at": now.isoformat(),
        },
    )


def _marked_as_chosen(memory: Memory, model: str, now: datetime) -> Memory:
    """Mark a fact as chosen by a model and verified by grounding."""
    generated = {"by": model, "at": now.isoformat()}
    verified = [{"by": "process:grounding", "at": now.isoformat()}]
    return replace(memory, extra=dict(memory.extra) | {"generated": generated, "verified": verified})
