"""Feedback: past questions, and which of the memories shown for them were useful; dreams are tested with these.

A memory was useful if a client said so, if it was looked up by its id after it was shown, or if the assistant's next
turn holds its content words. No request waits for this: events are queued, and a thread handles them between requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from ..changes.remembering import Once
from ..core import Core
from ..index.visibility import EVERYTHING
from ..ledger import records
from ..ledger.questions import (
    LONGEST_QUESTION_CHARS,
    add_gold,
    drop_gold,
    forget_questions,
    prune_questions,
    record_question,
)
from ..ledger.records import record_feedback
from ..model import Hit, NewTurn, NodeId, Slot, Verdict
from ..roles import Role
from ..search.gathering import Ranking, evidence_of
from ..search.search import Judgements
from ..text.words import query_terms, term_stems
from ..writer.pending import PendingFiles
from ..writer.writer import Planned
from .worker import MOST_WAITING, WorkQueue

# The share of a memory's content words, without the question's, that the assistant's next turn must hold to use it.
HELD_SHARE: Final = 0.6

# Fewer words to compare are no evidence, and a question with fewer is not recorded.
FEWEST_WORDS: Final = 3

# A question whose nearest shown memory is below this cosine counts as one without an answer.
NEAR_COSINE: Final = 0.35

# The time after an answer in which a turn, or a lookup by id, counts as its use.
SAID_WITHIN: Final = timedelta(minutes=15)
LOOKED_AT_WITHIN: Final = timedelta(minutes=30)

# The longest wait of a purge of questions for those that are still queued.
HANDED_OVER_WITHIN_S: Final = 2.0

# The last questions whose uses are looked for, held in memory.
QUESTIONS_IN_MIND: Final = 128

# Questions between two removals of old ones from the ledger.
PRUNED_EVERY: Final = 100


@dataclass(frozen=True, slots=True)
class ShownMemory:
    """A memory as it was shown. `gold` represents it in a probe: its turns, or its own id if it has none."""

    node_id: NodeId
    text: str
    gold: tuple[NodeId, ...]


@dataclass(slots=True)
class _RecentQuestion:
    """A question whose answer may still be used."""

    text: str
    channel: str | None
    session: NodeId | None
    at: datetime
    shown: Sequence[ShownMemory]
    words: frozenset[str] = field(default_factory=frozenset)
    waits_for_assistant: bool = True

    def may_be_answered_in(self, session_id: NodeId, channel: str) -> bool:
        if self.session is not None:
            return self.session == session_id
        return self.channel in (None, "*", channel)


class Feedback:
    """Records questions, and the memories useful for them, in the ledger. Every method may be called from any thread.

    `clear_caches` drops what search holds of earlier questions.
    """

    def __init__(self, core: Core, judgements: Judgements, clear_caches: Callable[[], None]) -> None:
        self._core = core
        self._ledger = core.ledger
        self._writer = core.writer
        self._now = core.now
        self._keeps_questions = core.settings.probes
        self._judgements = judgements
        self._clear_caches = clear_caches
        self._work = WorkQueue("dreamd-feedback", core.is_busy, burst=MOST_WAITING, finish_on_stop=True)
        self._open: deque[_RecentQuestion] = deque(maxlen=QUESTIONS_IN_MIND)
        self._kept = 0
        self.on_said: Callable[[NodeId, Sequence[NewTurn], datetime], None] = lambda session, turns, at: None
        """Called with the turns of a session's assistant, in the thread."""
        self.on_verdict: Callable[[NodeId, str], None] = lambda node_id, verdict: None

    def start(self) -> None:
        """Start the thread, and remove questions that are kept although the settings now say that none are."""
        self._work.start()
        if not self._keeps_questions and self._ledger.asked() and not self._ledger.is_copy:
            self.purge_questions()

    def stop(self) -> None:
        """End the thread, after all events so far are recorded."""
        self._work.stop()

    def settle(self, timeout_s: float) -> bool:
        """Wait until all events so far are handed to the ledger; False after the timeout."""
        return self._work.settle(timeout_s)

    def forget(self) -> None:
        """Drop the questions held in memory, after all events so far."""
        self._work.put(self._open.clear, even_if_full=True)

    # ---- events

    def answered(
        self,
        query: str,
        channel: str | None,
        session: NodeId | None,
        ranking: Ranking,
        shown: Sequence[ShownMemory],
    ) -> None:
        """Queue a question with the memories shown for it, unless questions or learning are off.

        The ranking is read here: queued rankings, with all their candidates, took 30 MiB of a busy daemon.
        """
        switches = self._core.switches
        if self._keeps_questions and not switches.paused and channel not in switches.channels_off:
            question, is_near = _RecentQuestion(query, channel, session, self._now(), shown), _is_near(ranking, shown)
            self._work.put(lambda: self._take_question(question, is_near))

    def looked_up(self, node_id: NodeId) -> None:
        """Queue a lookup by id: it counts as a use of the answer that listed the node."""
        at = self._now()
        self._work.put(lambda: self._take_lookup(node_id, at))

    def said(self, session_id: NodeId, channel: str, turns: Sequence[NewTurn]) -> None:
        """Queue the assistant's turns among those of a session, to compare them with the answers shown before."""
        at = self._now()
        if spoken := [turn for turn in turns if turn.role == Role.ASSISTANT]:
            self._work.put(lambda: self._take_turns(session_id, channel, spoken, at))

    def feedback(self, node_id: NodeId, verdict: Verdict, idempotency_key: str | None = None) -> None:
        """Keep a person's verdict on a memory, once for each `idempotency_key`. Raises NotFound."""
        node = self._core.node(node_id)
        now = self._now()
        judgement = records.record_feedback(node_id, verdict.replace("-", "_"), now)
        if idempotency_key is None:
            self._writer.write(judgement).result()
        else:
            plan = Once(
                lambda files: Planned("", writes=(judgement,)),
                self._ledger,
                "feedback",
                idempotency_key,
                now,
                write=str,
                read=str,
            )
            self._writer.submit(plan).result()
            if plan.was_repeated:
                return
        self._judgements.read()
        self.on_verdict(node_id, judgement.values[2])
        gold = [turn.node_id for turn in evidence_of([node], self._core.catalog, EVERYTHING)[node_id]] or [node_id]
        self._work.put(lambda: self._take_verdict(node_id, gold, useful=verdict == "useful"))

    def purge_questions(self) -> int:
        """Remove every question that was kept, for good; return how many there were."""
        self._clear_caches()
        self.forget()
        self.settle(HANDED_OVER_WITHIN_S)

        def erase(files: PendingFiles) -> Planned[int]:
            held = len(self._ledger.asked())
            self._ledger.erase(forget_questions())
            return Planned(held)

        return self._writer.submit(erase).result()

    # ---- the thread

    def _take_question(self, question: _RecentQuestion, is_near: bool) -> None:
        if len(question.text) > LONGEST_QUESTION_CHARS or len(query_terms(question.text)) < FEWEST_WORDS:
            return
        question.text = self._core.door.redacted(question.text).text
        question.channel = question.channel and self._core.door.redacted(question.channel).text
        question.words = term_stems(question.text)
        self._open.append(question)
        shown = [each.node_id for each in question.shown]
        self._writer.later(record_question(question.text, question.channel, shown, is_near, question.at))
        self._kept += 1
        if self._kept % PRUNED_EVERY == 0:
            self._writer.later(*prune_questions(question.at))

    def _take_turns(self, session_id: NodeId, channel: str, turns: Sequence[NewTurn], at: datetime) -> None:
        self.on_said(session_id, turns, at)
        # One answer of the assistant may use the memories of several questions; each waits for its first turn only.
        for question in self._open:
            if not question.waits_for_assistant or not question.may_be_answered_in(session_id, channel):
                continue
            said = [turn.text for turn in turns if _is_said_after(turn, question.at)]
            if said and question.at <= at <= question.at + SAID_WITHIN:
                question.waits_for_assistant = False
                self._use(question, _echoed(question, term_stems(said[0])), at)

    def _take_lookup(self, node_id: NodeId, at: datetime) -> None:
        for question in reversed(self._open):
            if question.at <= at <= question.at + LOOKED_AT_WITHIN:
                looked_at = [each for each in question.shown if node_id == each.node_id or node_id in each.gold]
                if looked_at:
                    self._use(question, looked_at, at)
                    return

    def _take_verdict(self, node_id: NodeId, gold: Collection[NodeId], *, useful: bool) -> None:
        change = add_gold if useful else drop_gold
        # The newest question in memory first; after a restart those in the ledger.
        for question in reversed(self._open):
            if any(node_id == each.node_id for each in question.shown):
                self._writer.later(change(question.text, question.channel, gold))
                return
        for asked in self._ledger.asked():
            if node_id in asked.shown:
                self._writer.later(change(asked.text, asked.channel, gold))
                return

    def _use(self, question: _RecentQuestion, used: Sequence[ShownMemory], at: datetime) -> None:
        if gold := list(dict.fromkeys(node_id for each in used for node_id in each.gold)):
            self._writer.later(
                add_gold(question.text, question.channel, gold),
                *(record_feedback(each.node_id, "used", at) for each in used),
            )
            self._judgements.on_used([each.node_id for each in used])


def shown_hit(hit: Hit) -> ShownMemory:
    """Return the memory of a hit as it was shown."""
    return ShownMemory(hit.node_id, hit.text, _gold(hit))


def shown_slot(slot: Slot) -> ShownMemory:
    """Return the memory of an envelope's line as it was shown, without the line's head."""
    return ShownMemory(slot.node_id, slot.words, _gold(slot))


def _gold(shown: Hit | Slot) -> tuple[NodeId, ...]:
    return tuple(turn.node_id for turn in shown.evidence) or (shown.node_id,)


def _is_said_after(turn: NewTurn, asked_at: datetime) -> bool:
    """Return True unless a turn is older than the question by more than clocks differ: imports bring old turns."""
    return turn.at is None or turn.at >= asked_at - timedelta(minutes=1)


def _echoed(question: _RecentQuestion, said: frozenset[str]) -> list[ShownMemory]:
    """Return the shown memories whose content words occur in the said text."""
    return [each for each in question.shown if holds(said, term_stems(each.text) - question.words)]


def holds(said: frozenset[str], words: frozenset[str]) -> bool:
    """Return True if a said text has so many of these words that it uses them."""
    return len(words) >= FEWEST_WORDS and len(words & said) >= HELD_SHARE * len(words)


def _is_near(ranking: Ranking, shown: Sequence[ShownMemory]) -> bool:
    """Return True if a shown memory is near in meaning, or, without a model, if any was found by its words."""
    cosines = [candidate.scores["vector"] for candidate in ranking.candidates if "vector" in candidate.scores]
    return bool(shown) and (max(cosines) >= NEAR_COSINE if cosines else True)
