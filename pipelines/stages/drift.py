"""Drift: newer facts that repeat, update or contradict older ones on the same subject.

An update supersedes the older fact, which stays a file with the day until which it was true; a likely update is only
named in it. The sides of a contradiction both stay live and wait for their person. A fact is compared with the nearest
older ones and those that share its rarest words. A language model, where there is one, is asked about each new fact
once, provided that it agrees with the judge on the sure cases.

A fact reworded by its person is true in its new words since the file was written, whenever the old words were said.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...llm.language_model import LlmUnavailable
from ...store.changes.decisions import is_reviewed
from ...store.changes.links import LinkEdits
from ...store.channel import of_one_project
from ...store.index.tombstones import pair_key
from ...store.model import Level, Memory, NodeId
from ...store.okf.memory_file import BY_HAND, EDITED_AT, body_hash, is_reworded
from ...store.roles import MACHINES, Role
from ...store.text.judging import CHANGED_MOST, RELATED_FROM, EarlierStatement, FoundRelation, Relation, judge
from ...store.text.quotes import title_of_fact
from ...store.vault.layout import is_titled
from ..extract.attributes import REPLY
from ..grounding.relations import judge_by_model
from ..grounding.verify import SharedWords
from ..pages.outdated import CHANGED, CHANGED_IN_WORDS, Compared
from ..settings import SAME_SUBJECT, most_superseded
from ..workspace.memo import once
from ..workspace.proposals import Proposals
from ..workspace.view import View

STAGE = "drift"
ASKED = "drift asked"
"""The cursor, by channel, with the time at which the model was last asked about all new facts."""

# The interval of comparing all facts, not only new ones: weekly, a little early rather than a day late.
WHOLE_EVERY = timedelta(days=6, hours=12)

# Numbers of older facts that one fact is compared with: by cosine, and by the rarity of shared words.
NEAREST, BY_WORDS = 5, 10

COUNTED = {
    Relation.SAME: "repeated in other words",
    Relation.UPDATES: "superseded",
    Relation.LATER: "probably superseded",
    Relation.CONTRADICTS: "contradictions",
}

ENDS = frozenset({Relation.SAME, Relation.UPDATES})
"""The relations that end a fact; where the judge finds one for a new fact, the model is not asked about it."""

PLAIN_WORDS = 20
"""The longest statement that is plain. Of 31 changes that words alone found among labelled people, six are improbable:
all six are wrong, and longer than this."""

CHANGES = frozenset({Relation.UPDATES, Relation.LATER})

SURE = ENDS | {Relation.CONTRADICTS}

# Largest and smallest number of sure cases on which a model is examined before it is believed, and the share on which
# it must agree. The share is low, since the judge errs as well; a model that guesses agrees on none.
EXAMINED, EXAMINED_AT_LEAST, AGREED = 8, 3, 0.25


class _OpenComparison(NamedTuple):
    """A new fact, its index, the older facts near it, and the judgements by their words."""

    newer: Memory
    place: int
    near: list[EarlierStatement]
    judged: list[FoundRelation]


def plan(view: View, now: datetime) -> Proposals:
    """Propose the relations of newer facts to older ones, for every channel with new facts."""
    planned = Proposals()
    if view.history.paused:
        return planned
    compared: dict[str, _Comparing] = {}
    for channel, facts in _by_project(view).items():
        if view.learns is not None:  # the other facts wait for the dream that is due to them
            if new := {fact.node_id for fact in facts if fact.run == view.run_id}:
                compared[channel] = _Comparing(view, planned, facts, new, new if view.model else set(), {})
                compared[channel].run(now)
            continue
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
        if of.finish(now, ask=is_believed) and view.learns is None:
            planned.cursors[ASKED, channel] = int(now.timestamp())
    return planned


def _is_believed(view: View, planned: Proposals, sure: Sequence[_OpenComparison]) -> bool:
    """Examine the model on sure cases; with too few of them it is believed."""
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
    """Return the facts about which the model was not asked yet, none without a model."""
    if view.model is None:
        return set()
    since = view.cursor(ASKED, channel)
    return {
        fact.node_id
        for fact in facts
        if fact.run == view.run_id or (fact.created_at and fact.created_at.timestamp() > since)
    }


def _by_project(view: View) -> dict[str, list[Memory]]:
    """Return the facts by channel, those of clones of one project together, by the names of their channels."""
    every = [fact for fact in view.memories(Level.FACT) if fact.channel not in view.history.channels_off]
    projects = {channel: " ".join(sorted(of_one_project(channel))) for channel in {fact.channel for fact in every}}
    facts: dict[str, list[Memory]] = defaultdict(list)
    for fact in every:
        facts[projects[fact.channel]].append(fact)
    return facts


def _since(fact: Memory) -> tuple[float, str, int, NodeId]:
    """Return the sort key of a fact: the time since which it is true; within a session, the order of turns."""
    turn = fact.sources[0] if fact.sources else ""
    session, _, ordinal = turn.partition("#")
    at = fact.since.timestamp() if fact.since else 0.0
    return at, session, int(ordinal) if ordinal.isdigit() else 0, fact.node_id


class _Comparing:
    """The facts of one channel in the order of the time since which they are true, each judged against those before it.

    `reworded` maps facts to the time at which their person changed the words.
    """

    def __init__(
        self,
        view: View,
        planned: Proposals,
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
        self._compared = Compared(facts)
        self._files: dict[NodeId, Memory] = {}
        self._is_fresh = np.array([fact.node_id in fresh for fact in facts])
        self._unasked = unasked
        self._open: list[_OpenComparison] = []
        self.sure: list[_OpenComparison] = []
        self._holds = np.ones(len(facts), bool)
        self._most = most_superseded(sum(fact.run != view.run_id for fact in view.memories(Level.FACT)))
        self._edits = LinkEdits(view.read, STAGE)

    def run(self, now: datetime) -> None:
        """Judge fresh facts against all older ones, others against fresh ones; leave open the cases for the model."""
        for fact in self._facts:
            if at := self._reworded.get(fact.node_id):
                self._edits.edit(fact, dated(self._view, fact, at), "reworded by hand")
                self._planned.count("reworded by hand")
        for place, newer in enumerate(self._view.steps.counted(self._facts, "facts compared")):
            candidates = self._candidates(place)
            judged = self._judged(newer, candidates)
            near = [one for one in candidates if one.cosine >= RELATED_FROM]
            one = _OpenComparison(newer, place, near, judged)
            is_asked = bool(near) and newer.node_id in self._unasked
            if is_asked and any(found.relation in SURE for found in judged):
                self.sure.append(one)
            # Open cases wait until the model was examined on the sure ones of every channel.
            if is_asked and not any(found.relation in ENDS for found in judged):
                self._open.append(one)
            else:
                self._take(one, judged, now)
            self._words.add(place)

    def finish(self, now: datetime, *, ask: bool) -> bool:
        """Ask the model about the open cases, if `ask`; propose the edits. Return True if it answered all."""
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

    def _judged(self, newer: Memory, candidates: Sequence[EarlierStatement]) -> list[FoundRelation]:
        """Return the relations of a fact to the candidates, the nearest of which is the first.

        A plain statement is judged by its words. A longer turn seldom says so plainly what it changes, so that is
        estimated from labelled people; what is doubtful is left alone.
        """
        found = judge(newer.text, candidates)
        if not candidates:  # most facts of a channel: their files need not be read
            return found
        newer = self._whole(newer)
        spoken = {one.node_id for one in candidates if REPLY in self._whole(one).extra} if REPLY in newer.extra else ()
        if not spoken:
            return found
        said = {one.node_id for one in found if one.relation is Relation.UPDATES}
        changed = []
        for one in candidates:
            if one.node_id not in spoken:
                continue
            is_nearest = one is candidates[0]
            probability = self._compared.change_probability(self._whole(one), newer, one.cosine, is_nearest=is_nearest)
            is_plain = max(len(text.split()) for text in (one.text, newer.text)) <= PLAIN_WORDS
            in_words = 0.0 if is_plain else CHANGED_IN_WORDS
            if probability >= (in_words if one.node_id in said else CHANGED):
                changed.append(FoundRelation(one.node_id, Relation.UPDATES, probability))
        changed.sort(key=lambda one: (-one.score, one.node_id))
        changed = changed[:CHANGED_MOST]
        # A change outweighs a repetition, and what is replaced is not disputed as well.
        known = {one.node_id for one in changed}
        others = [one for one in found if one.node_id not in known]
        others = [one for one in others if one.relation not in CHANGES or one.node_id not in spoken]
        return changed + [one for one in others if not changed or one.relation is not Relation.SAME]

    def _whole(self, fact: Memory | EarlierStatement) -> Memory:
        """Return a fact with the keys of its file, read once."""
        if (found := self._files.get(fact.node_id)) is None:
            found = self._view.memory(fact.node_id) or self._facts[self._place[fact.node_id]]
            self._files[fact.node_id] = found
        return found

    def _take(self, one: _OpenComparison, judged: Sequence[FoundRelation], now: datetime) -> None:
        for found in judged:
            self._propose(found, self._place[found.node_id], one.place, now)

    def _asked(self, one: _OpenComparison) -> list[FoundRelation]:
        """Return the model's judgements of a new fact, and the judge's of other facts. Raises LlmUnavailable."""
        assert self._view.model is not None
        found = judge_by_model(one.newer.text, one.near, self._view.model, partial(once, self._view.memo))
        if any(said.relation is Relation.UPDATES for said in found):
            found = [said for said in found if said.relation is not Relation.SAME]
        if found:
            self._planned.count("relations by the model", len(found))
        known = {said.node_id for said in found}
        return found + [said for said in one.judged if said.node_id not in known]

    def _dated(self, fact: Memory) -> Memory:
        """Return a fact as it is now: reworded, it is the person's own and true since the rewording."""
        at = self._reworded.get(fact.node_id)
        return fact if at is None else replace(fact, valid_from=at, said_by=None, tags=())

    def _candidates(self, place: int) -> list[EarlierStatement]:
        """Return the current older facts that are nearest by cosine or by shared words."""
        # A pair of two known facts was judged in an earlier dream: one side must be fresh.
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
        """Check that the two are of one speaker or the person, of two turns, and without a person's decision."""
        older, newer = self._facts[old], self._facts[new]
        one_turn = bool(older.sources) and older.sources[:1] == newer.sources[:1]
        speakers = {speaker_of(older), speaker_of(newer)}
        one_speaker = len(speakers) == 1 or Role.USER in speakers or speakers & MACHINES
        return (
            bool(one_speaker) and not one_turn and not self._view.is_forbidden(pair_key(older.node_id, newer.node_id))
        )

    def _propose(self, found: FoundRelation, old: int, new: int, now: datetime) -> None:
        """Turn a judgement into edits of both files; a fact that a person reviewed is not changed."""
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
        # A fact that was ended is compared with nothing further in this run.
        if relation is Relation.UPDATES:
            self._holds[old] = False
        if relation is Relation.SAME:
            self._holds[new] = False

    def _bounded(self, relation: Relation, old: int, new: int) -> Relation | None:
        """Return the relation that a dream may propose, None for none.

        An assistant's reports end and contradict nothing: findings before and after a change are no contradiction, and
        the person decides. Beyond the limit of a run an update becomes a likely update, and so does one of distant
        facts that were remembered; of distant facts from sessions none was right, so nothing is proposed.
        """
        is_report = any(speaker_of(self._facts[place]) in MACHINES for place in (old, new))
        if relation is not Relation.SAME and is_report:
            return None
        is_near = float(self._vectors[old] @ self._vectors[new]) >= SAME_SUBJECT
        are_said = all(REPLY in self._whole(self._facts[place]).extra for place in (old, new))
        if relation in CHANGES and are_said and not is_near:
            return None
        is_full = self._planned.counts.get(COUNTED[Relation.UPDATES], 0) >= self._most
        return Relation.LATER if relation is Relation.UPDATES and (is_full or not is_near) else relation


def speaker_of(fact: Memory) -> str:
    """Return the speaker of a fact; files of earlier versions name an assistant among the tags."""
    return fact.said_by or next((tag for tag in fact.tags if tag in MACHINES), Role.USER)


def reworded(view: View, facts: Iterable[Memory]) -> dict[NodeId, datetime]:
    """Return the facts that were reworded since a dream last dated them, with the time."""
    found: dict[NodeId, datetime] = {}
    for fact in facts:
        if is_reworded(fact) and (whole := view.memory(fact.node_id)) is not None and is_reworded(whole):
            at = view.written_at(fact.path)
            if at is not None and (whole.since is None or at > whole.since):
                found[fact.node_id] = at
    return found


def dated(view: View, fact: Memory, at: datetime) -> Mapping[str, Any]:
    """Return the keys that date a fact's new words; by their hash the next rewording is recognised.

    A title made from the old words is replaced by one from the new words.
    """
    whole = view.memory(fact.node_id) or fact
    title = {"title": title_of_fact(whole.text)} if is_titled(fact.path, whole.title) else {}
    return {EDITED_AT: at.isoformat(), "valid_from": at.isoformat(), BY_HAND: body_hash(whole.text)} | title
