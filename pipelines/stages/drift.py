"""Drift: newer facts that repeat, update or contradict older ones about the same thing.

An update supersedes the older fact, which stays a file and says until when it was true; a likely one is named in it. A
contradiction is kept, both sides living, and waits for its person. A fact is compared with the few older ones that are
nearest to it, or share its rarest words. A language model, where there is one, is asked about each new fact once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from math import log

import numpy as np

from ...llm.model import LlmUnavailable
from ...store.changes.decisions import is_reviewed, pair_key
from ...store.changes.link_edits import LinkEdits
from ...store.model import Level, Memory, NodeId
from ...store.roles import MACHINES, Role
from ...store.text.state.evidence import RELATED_FROM
from ...store.text.state.judging import Candidate, Judgement, Relation, judge
from ...store.text.terms import term_stems
from ..grounding.changes import judge_by_model
from ..workspace.checkpoint import once
from ..workspace.proposals import Planned, most_superseded
from ..workspace.view import View

STAGE = "drift"
ASKED = "drift asked"
"""The cursor, by channel, of when the model was last asked about all that was new."""

WHOLE_EVERY = timedelta(days=6, hours=12)
"""The interval of comparing the whole store, not only new facts: weekly, a little early rather than a day late."""

COMMON = 400
"""A word that more facts of a channel share than this is not compared by: it distinguishes nothing."""

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


def plan(view: View, now: datetime) -> Planned:
    """Propose what newer facts do to older ones, for every channel in which something was learned."""
    planned = Planned()
    if view.history.paused:
        return planned
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
        if fresh or unasked:
            _Comparing(view, planned, facts, fresh | unasked, unasked).run(now)
        if unasked:
            planned.cursors[ASKED, channel] = int(now.timestamp())
    return planned


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
    """Return the facts by channel, in the order in which they were said."""
    facts: dict[str, list[Memory]] = defaultdict(list)
    for fact in view.memories(Level.FACT):
        if fact.channel not in view.history.channels_off:
            facts[fact.channel].append(fact)
    for channel in facts:
        facts[channel].sort(key=_said)
    return facts


def _said(fact: Memory) -> tuple[float, str, int, NodeId]:
    """Return the sort key of a fact: when it was said; within a session, the order of turns."""
    turn = fact.sources[0] if fact.sources else ""
    session, _, ordinal = turn.partition("#")
    at = fact.created_at.timestamp() if fact.created_at else 0.0
    return at, session, int(ordinal) if ordinal.isdigit() else 0, fact.node_id


class _Comparing:
    """The facts of one channel, in the order in which they were said, each judged against those before it."""

    def __init__(
        self, view: View, planned: Planned, facts: Sequence[Memory], fresh: set[NodeId], unasked: set[NodeId]
    ) -> None:
        self._view = view
        self._planned = planned
        self._facts = facts
        self._place = {fact.node_id: place for place, fact in enumerate(facts)}
        self._vectors = view.vectors([fact.text for fact in facts])
        self._words = _SharedWords(facts)
        self._is_fresh = np.array([fact.node_id in fresh for fact in facts])
        self._unasked = unasked
        self._holds = np.ones(len(facts), bool)
        self._most = most_superseded(sum(fact.run != view.run_id for fact in view.memories(Level.FACT)))
        self._edits = LinkEdits(view.read, STAGE)

    def run(self, now: datetime) -> None:
        """Judge every fact if it is fresh, or against the fresh ones alone; propose the edits."""
        for place, newer in enumerate(self._view.steps.counted(self._facts, "facts compared")):
            candidates = self._candidates(place)
            for found in self._asked(newer, candidates, judge(newer.text, candidates)):
                self._propose(found, self._place[found.node_id], place, now)
            self._words.add(place)
        self._planned.actions += self._edits.actions()

    def _asked(self, newer: Memory, candidates: list[Candidate], judged: list[Judgement]) -> list[Judgement]:
        """Add what a model says of a new fact that was not found certain without it."""
        is_certain = any(one.relation in {Relation.SAME, Relation.UPDATES} for one in judged)
        near = [one for one in candidates if one.cosine >= RELATED_FROM]
        if self._view.model is None or newer.node_id not in self._unasked or is_certain or not near:
            return judged
        try:
            found = judge_by_model(newer.text, near, self._view.model, partial(once, self._view.memo))
        except LlmUnavailable:
            self._unasked.clear()  # and so the cursor stays
            self._planned.count("facts left without the model")
            return judged
        if any(one.relation is Relation.UPDATES for one in found):
            found = [one for one in found if one.relation is not Relation.SAME]
        if found:
            self._planned.count("relations by the model", len(found))
        known = {one.node_id for one in found}
        return found + [one for one in judged if one.node_id not in known]

    def _candidates(self, place: int) -> list[Candidate]:
        """Return the older facts that hold, nearest by meaning and by words, and may be about the same thing."""
        among = self._holds[:place] if self._is_fresh[place] else self._holds[:place] & self._is_fresh[:place]
        if not among.any():
            return []
        cosines = self._vectors[:place] @ self._vectors[place]
        near = [int(old) for old in np.argsort(-np.where(among, cosines, -2.0), kind="stable")[:BY_WORDS] if among[old]]
        near = [old for old in near if self._may_meet(old, place)][:NEAREST]
        alike = [old for old in self._words.shared_with(place) if among[old] and self._may_meet(old, place)]
        return [
            Candidate(self._facts[old].node_id, self._facts[old].text, float(cosines[old]))
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

    def _propose(self, found: Judgement, old: int, new: int, now: datetime) -> None:
        """Turn a judgement into edits of both files; a fact that a person looked at is not touched."""
        older, newer = self._view.memory(self._facts[old].node_id), self._view.memory(self._facts[new].node_id)
        if older is None or newer is None or not (self._holds[old] and self._holds[new]):
            return
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
        """Return what a dream may do: an assistant's words change nothing that a person said, and ends are few."""
        by_assistant = _speaker(self._facts[new]) in MACHINES
        of_a_person = _speaker(self._facts[old]) not in MACHINES
        if relation is not Relation.SAME and by_assistant and (of_a_person or relation is Relation.LATER):
            return None
        is_near = float(self._vectors[old] @ self._vectors[new]) >= SAME_SUBJECT
        is_full = self._planned.counts.get(COUNTED[Relation.UPDATES], 0) >= self._most
        return Relation.LATER if relation is Relation.UPDATES and (is_full or not is_near) else relation


class _SharedWords:
    """The facts so far that share words with another, by an inverted index filled in the order of the facts.

    An example: 0 "The office is in Oslo", 1 "The kettle is blue", 2 "The office is in Bergen now". When 2 is asked for,
    the index has office -> [0], oslo -> [0], kettle -> [1], blue -> [1]; 2 shares "office" with 0 and nothing with 1. A
    stem that more than COMMON facts hold has no rarity and finds nothing.
    """

    def __init__(self, facts: Sequence[Memory]) -> None:
        self._stems = [term_stems(fact.text) for fact in facts]
        spread = Counter(stem for stems in self._stems for stem in stems)
        self._rarity = {stem: log(1 + len(facts) / count) for stem, count in spread.items() if count <= COMMON}
        self._said: dict[str, list[int]] = defaultdict(list)

    def shared_with(self, place: int) -> list[int]:
        """Return the facts added so far that share words with one, by the summed rarity of those words."""
        shared: dict[int, float] = defaultdict(float)
        for stem in self._stems[place]:
            for old in self._said.get(stem, ()):
                shared[old] += self._rarity[stem]
        return sorted(shared, key=lambda old: (-shared[old], -old))

    def add(self, place: int) -> None:
        """Let the fact at a place be found from now on."""
        for stem in self._stems[place] & self._rarity.keys():
            self._said[stem].append(place)


def _speaker(fact: Memory) -> str:
    """Return who said a fact; older files name an assistant among the tags."""
    return fact.said_by or (fact.tags[0] if len(fact.tags) == 1 else Role.USER)
