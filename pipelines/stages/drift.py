"""Drift: newer facts that repeat, update or contradict older ones about the same thing.

An update supersedes the older fact, which stays a file and says until when it was true; a likely one is named in it. A
contradiction is kept, both sides living, and waits for its person. A fact is compared with the few older ones that are
nearest to it, or share its rarest words. A language model, where there is one, is asked about each new fact once, if it
agrees with the words where these are sure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

import numpy as np

from ...llm.model import LlmUnavailable
from ...store.changes.decisions import is_reviewed, pair_key
from ...store.changes.link_edits import LinkEdits
from ...store.model import Level, Memory, NodeId
from ...store.roles import MACHINES, Role
from ...store.text.judging import RELATED_FROM, EarlierStatement, FoundRelation, Relation, judge
from ..grounding.changes import judge_by_model
from ..grounding.overlap import SharedWords
from ..workspace.checkpoint import once
from ..workspace.proposals import Planned, most_superseded
from ..workspace.reworded import dated, reworded
from ..workspace.view import View

STAGE = "drift"
ASKED = "drift asked"
"""The cursor, by channel, of when the model was last asked about all that was new."""

WHOLE_EVERY = timedelta(days=6, hours=12)
"""The interval of comparing the whole store, not only new facts: weekly, a little early rather than a day late."""

NEAREST, BY_WORDS = 5, 10
"""Older facts that one fact is compared with: so many by cosine, and so many by the rarity of the words they share."""

SAME_SUBJECT = 0.3
"""Cosine below which a fact is not superseded in a dream, only named as changed: the gate holds to the same."""

COUNTED = {
    Relation.SAME: "repeated in other words",
    Relation.UPDATES: "superseded",
    Relation.LATER: "probably superseded",
    Relation.CONTRADICTS: "contradictions",
}

ENDS = frozenset({Relation.SAME, Relation.UPDATES})
"""The relations that end a fact: a model is not asked about a new fact of which the words say so."""

SURE = ENDS | {Relation.CONTRADICTS}
EXAMINED, EXAMINED_AT_LEAST, AGREED = 8, 3, 0.25
"""The facts of which the words make a relation sure and a model is asked too, before it is believed of others, and the
share of them of which it must say the same: the words err as well, a model that lies or guesses says so of none."""


class _Open(NamedTuple):
    """A new fact at its place, the older ones near it, and what the words say that it does to them."""

    newer: Memory
    place: int
    near: list[EarlierStatement]
    judged: list[FoundRelation]


def plan(view: View, now: datetime) -> Planned:
    """Propose what newer facts do to older ones, for every channel in which something was learned."""
    planned = Planned()
    if view.history.paused:
        return planned
    compared: dict[str, _Comparing] = {}
    for channel, facts in _by_channel(view).items():
        since = view.cursor(STAGE, channel)
        whole = now.timestamp() - since >= WHOLE_EVERY.total_seconds()
        fresh = {
            fact.node_id
            for fact in facts
            if whole or fact.run == view.run_id or (fact.created_at and fact.created_at.timestamp() > since)
        }
        if whole:
            planned.cursors[STAGE, channel] = int(now.timestamp())
        unasked = _unasked(view, channel, facts)
        by_hand = reworded(view, facts)
        if fresh or unasked or by_hand:
            compared[channel] = _Comparing(view, planned, facts, fresh | unasked | by_hand.keys(), unasked, by_hand)
            compared[channel].run(now)
    is_believed = _is_believed(view, planned, [one for of in compared.values() for one in of.sure])
    for channel, of in compared.items():
        if of.finish(now, ask=is_believed):
            planned.cursors[ASKED, channel] = int(now.timestamp())
    return planned


def _is_believed(view: View, planned: Planned, sure: Sequence[_Open]) -> bool:
    """Examine the model on what the words make sure; where too little is sure it is believed."""
    if view.model is None:
        return False
    examined = sure[:: max(1, len(sure) // EXAMINED)][:EXAMINED]
    if len(examined) < EXAMINED_AT_LEAST:
        return True
    agreed = 0
    for one in examined:
        try:
            found = judge_by_model(one.newer.text, one.near, view.model, partial(once, view.memo))
        except LlmUnavailable:
            return True  # it is not asked further
        agreed += bool({(o.node_id, o.relation) for o in found} & {(o.node_id, o.relation) for o in one.judged})
    is_believed = agreed >= AGREED * len(examined)
    if not is_believed:
        planned.notes.append("The language model was not believed: it sees no change or dispute where one is sure.")
    return is_believed


def _unasked(view: View, channel: str, facts: Sequence[Memory]) -> set[NodeId]:
    """Return the facts about which no model was asked yet, where there is one."""
    if view.model is None:
        return set()
    since = view.cursor(ASKED, channel)
    return {
        fact.node_id
        for fact in facts
        if fact.run == view.run_id or (fact.created_at and fact.created_at.timestamp() > since)
    }


def _by_channel(view: View) -> dict[str, list[Memory]]:
    """Return the facts by channel."""
    facts: dict[str, list[Memory]] = defaultdict(list)
    for fact in view.memories(Level.FACT):
        if fact.channel not in view.history.channels_off:
            facts[fact.channel].append(fact)
    return facts


def _since(fact: Memory) -> tuple[float, str, int, NodeId]:
    """Return the sort key of a fact: since when it holds; within a session, the order of turns."""
    turn = fact.sources[0] if fact.sources else ""
    session, _, ordinal = turn.partition("#")
    at = fact.since.timestamp() if fact.since else 0.0
    return at, session, int(ordinal) if ordinal.isdigit() else 0, fact.node_id


class _Comparing:
    """The facts of one channel, in the order since when they hold, each judged against those before it.

    `reworded` says when their person changed the words of some.
    """

    def __init__(
        self,
        view: View,
        planned: Planned,
        facts: Sequence[Memory],
        fresh: set[NodeId],
        unasked: set[NodeId],
        reworded: Mapping[NodeId, datetime],
    ) -> None:
        self._view = view
        self._planned = planned
        self._reworded = reworded
        self._facts = facts = sorted(map(self._dated, facts), key=_since)
        self._place = {fact.node_id: place for place, fact in enumerate(facts)}
        self._vectors = view.vectors([fact.text for fact in facts])
        self._words = SharedWords([fact.text for fact in facts])
        self._is_fresh = np.array([fact.node_id in fresh for fact in facts])
        self._unasked = unasked
        self._open: list[_Open] = []
        self.sure: list[_Open] = []
        self._holds = np.ones(len(facts), bool)
        self._most = most_superseded(sum(fact.run != view.run_id for fact in view.memories(Level.FACT)))
        self._edits = LinkEdits(view.read, STAGE)

    def run(self, now: datetime) -> None:
        """Judge every fact if it is fresh, or against the fresh ones alone; what a model may add is left open."""
        for fact in self._facts:
            if at := self._reworded.get(fact.node_id):
                self._edits.edit(fact, dated(self._view, fact, at), "reworded by hand")
                self._planned.count("reworded by hand")
        for place, newer in enumerate(self._view.steps.counted(self._facts, "facts compared")):
            candidates = self._candidates(place)
            judged = judge(newer.text, candidates)
            near = [one for one in candidates if one.cosine >= RELATED_FROM]
            one = _Open(newer, place, near, judged)
            is_asked = bool(near) and newer.node_id in self._unasked
            if is_asked and any(found.relation in SURE for found in judged):
                self.sure.append(one)
            if is_asked and not any(found.relation in ENDS for found in judged):
                self._open.append(one)
            else:
                self._take(one, judged, now)
            self._words.add(place)

    def finish(self, now: datetime, *, ask: bool) -> bool:
        """Ask the model about what is open, if at all; propose the edits. Return True if all was asked."""
        is_asked = ask and bool(self._unasked)
        for one in self._view.steps.counted(self._open, "facts asked about"):
            judged = one.judged
            if is_asked:
                try:
                    judged = self._asked(one)
                except LlmUnavailable:
                    is_asked = False  # and so the cursor stays
            if not is_asked:
                self._planned.count("facts left without the model")
            self._take(one, judged, now)
        self._planned.actions += self._edits.actions()
        return is_asked

    def _take(self, one: _Open, judged: Sequence[FoundRelation], now: datetime) -> None:
        for found in judged:
            self._propose(found, self._place[found.node_id], one.place, now)

    def _asked(self, one: _Open) -> list[FoundRelation]:
        """Add what the model says of a new fact to what the words say. Raises LlmUnavailable."""
        assert self._view.model is not None
        found = judge_by_model(one.newer.text, one.near, self._view.model, partial(once, self._view.memo))
        if any(said.relation is Relation.UPDATES for said in found):
            found = [said for said in found if said.relation is not Relation.SAME]
        if found:
            self._planned.count("relations by the model", len(found))
        known = {said.node_id for said in found}
        return found + [said for said in one.judged if said.node_id not in known]

    def _dated(self, fact: Memory) -> Memory:
        """Return a fact as it holds: its person's words since they were written, and no other's."""
        at = self._reworded.get(fact.node_id)
        return fact if at is None else replace(fact, valid_from=at, said_by=None, tags=())

    def _candidates(self, place: int) -> list[EarlierStatement]:
        """Return the older facts that hold, nearest by meaning and by words, and may be about the same thing."""
        among = self._holds[:place] if self._is_fresh[place] else self._holds[:place] & self._is_fresh[:place]
        if not among.any():
            return []
        cosines = self._vectors[:place] @ self._vectors[place]
        near = [int(old) for old in np.argsort(-np.where(among, cosines, -2.0), kind="stable")[:BY_WORDS] if among[old]]
        near = [old for old in near if self._may_meet(old, place)][:NEAREST]
        alike = [old for old in self._words.shared_with(place) if among[old] and self._may_meet(old, place)]
        return [
            EarlierStatement(self._facts[old].node_id, self._facts[old].text, float(cosines[old]))
            for old in dict.fromkeys([*near, *alike[:BY_WORDS]])
        ]

    def _may_meet(self, old: int, new: int) -> bool:
        """Check that one person, or no person, said both, in two turns, and that nobody decided about the two."""
        older, newer = self._facts[old], self._facts[new]
        one_turn = bool(older.sources) and older.sources[:1] == newer.sources[:1]
        speakers = {_speaker(older), _speaker(newer)}
        one_speaker = len(speakers) == 1 or Role.USER in speakers or speakers & MACHINES
        return (
            bool(one_speaker) and not one_turn and not self._view.is_forbidden(pair_key(older.node_id, newer.node_id))
        )

    def _propose(self, found: FoundRelation, old: int, new: int, now: datetime) -> None:
        """Turn a judgement into edits of both files; a fact that a person looked at is not touched."""
        older, newer = (self._view.memory(self._facts[place].node_id) for place in (old, new))
        if older is None or newer is None or not (self._holds[old] and self._holds[new]):
            return
        newer = self._dated(newer)
        if is_reviewed(older.extra) or is_reviewed(newer.extra):
            return
        relation = self._bounded(found.relation, old, new)
        known = {Relation.LATER: older.later, Relation.CONTRADICTS: older.contradicts}
        if relation is None or newer.node_id in known.get(relation, ()):
            return
        self._edits.link(relation, older, newer, now)
        self._planned.count(COUNTED[relation])
        if relation is Relation.UPDATES:
            self._holds[old] = False
        if relation is Relation.SAME:
            self._holds[new] = False

    def _bounded(self, relation: Relation, old: int, new: int) -> Relation | None:
        """Return what a dream may do: an assistant's reports end and dispute nothing, and ends are few.

        What it found before a change and after it is no contradiction; who decides is the person.
        """
        is_report = any(_speaker(self._facts[place]) in MACHINES for place in (old, new))
        if relation is not Relation.SAME and is_report:
            return None
        is_near = float(self._vectors[old] @ self._vectors[new]) >= SAME_SUBJECT
        is_full = self._planned.counts.get(COUNTED[Relation.UPDATES], 0) >= self._most
        return Relation.LATER if relation is Relation.UPDATES and (is_full or not is_near) else relation


def _speaker(fact: Memory) -> str:
    """Return who said a fact; older files name an assistant among the tags."""
    return fact.said_by or next((tag for tag in fact.tags if tag in MACHINES), Role.USER)
