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

from ..changes.repeats import Once
from ..core import Core
from ..door import Door
from ..ledger import records
from ..ledger.questions import (
    LONGEST_QUESTION_CHARS,
    PastQuestion,
    add_gold,
    drop_gold,
    forget_questions,
    prune_questions,
    record_question,
)
from ..ledger.records import record_feedback
from ..model import Hit, NewTurn, NodeId, Slot, Verdict
from ..roles import Role
from ..search import hits
from ..search.learned import Judgements
from ..search.search import Ranking
from ..text.terms import query_terms, term_stems
from ..writer.pending import PendingFiles
from ..writer.writer import Planned
from .worker import MOST_WAITING, WorkQueue

HELD_SHARE: Final = 0.6
"""The share of a memory's content words, without the question's, that the assistant's next turn must hold to use it."""

FEWEST_WORDS: Final = 3
"""Fewer words to compare are no evidence, and a question with fewer is not recorded."""

NEAR_COSINE: Final = 0.35
"""A question whose nearest shown memory is below this cosine counts as one without an answer."""

SAID_WITHIN: Final = timedelta(minutes=15)
LOOKED_AT_WITHIN: Final = timedelta(minutes=30)
"""The time after an answer in which a turn, or a lookup by id, counts as its use."""

HANDED_OVER_WITHIN_S: Final = 2.0
"""The longest wait of a purge of questions for those that are still queued."""

QUESTIONS_IN_MIND: Final = 128
"""The last questions whose uses are looked for, held in memory."""

PRUNED_EVERY: Final = 100
"""Questions between two removals of old ones from the ledger."""


@dataclass(frozen=True, slots=True)
class ShownMemory:
    """A memory as it was shown. `gold` stands for it in a probe: its turns, or its own id where it has none."""

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


class RelevanceFeedback:
    """Records questions, and what was useful for them, in the ledger. Every method may be called from any thread.

    `write` takes rows for the ledger that may be written later; `is_busy` says that a request is in flight; `asked`
    are the questions of the ledger, newest first.
    """

    def __init__(
        self,
        write: Callable[..., None],
        is_busy: Callable[[], bool],
        asked: Callable[[], Sequence[PastQuestion]],
        door: Door,
        on_used: Callable[[Sequence[NodeId]], object] = lambda node_ids: None,
    ) -> None:
        self._door = door
        self._on_used = on_used
        self._write = write
        self._asked = asked
        self._work = WorkQueue("dreamd-feedback", is_busy, burst=MOST_WAITING, finish_on_stop=True)
        self._open: deque[_RecentQuestion] = deque(maxlen=QUESTIONS_IN_MIND)
        self._kept = 0

    def start(self) -> None:
        """Start the thread."""
        self._work.start()

    def stop(self) -> None:
        """End the thread, after all events so far are recorded."""
        self._work.stop()

    # ---- events

    def on_answer(
        self,
        text: str,
        channel: str | None,
        session: NodeId | None,
        ranking: Ranking,
        shown: Sequence[ShownMemory],
        at: datetime,
    ) -> None:
        """Queue a question that was answered, with the memories shown for it.

        The ranking is read here: queued rankings, with all their candidates, took 30 MiB of a busy daemon.
        """
        is_near = _is_near(ranking, shown)
        self._work.put(lambda: self._take_question(_RecentQuestion(text, channel, session, at, shown), is_near))

    def on_turns(self, session_id: NodeId, channel: str, turns: Sequence[NewTurn], at: datetime) -> None:
        """Queue the assistant's turns of those that came in for a session."""
        if spoken := [turn for turn in turns if turn.role == Role.ASSISTANT]:
            self._work.put(lambda: self._take_turns(session_id, channel, spoken, at))

    def on_shown(self, node_id: NodeId, at: datetime) -> None:
        """Queue a lookup of a memory by its id."""
        self._work.put(lambda: self._take_lookup(node_id, at))

    def on_verdict(self, node_id: NodeId, gold: Collection[NodeId], useful: bool) -> None:
        """Queue explicit feedback on a memory, for the last question that it was shown for."""
        self._work.put(lambda: self._take_feedback(node_id, gold, useful))

    def settle(self, timeout_s: float) -> bool:
        """Wait until all events so far are handed to the ledger; False after the timeout."""
        return self._work.settle(timeout_s)

    def forget(self) -> None:
        """Drop the questions held in memory, after all events so far."""
        self._work.put(self._open.clear, even_if_full=True)

    # ---- the thread

    def _take_question(self, question: _RecentQuestion, is_near: bool) -> None:
        if len(question.text) > LONGEST_QUESTION_CHARS or len(query_terms(question.text)) < FEWEST_WORDS:
            return
        question.text = self._door.redacted(question.text).text
        question.channel = question.channel and self._door.redacted(question.channel).text
        question.words = term_stems(question.text)
        self._open.append(question)
        shown = [each.node_id for each in question.shown]
        self._write(record_question(question.text, question.channel, shown, is_near, question.at))
        self._kept += 1
        if self._kept % PRUNED_EVERY == 0:
            self._write(*prune_questions(question.at))

    def _take_turns(self, session_id: NodeId, channel: str, turns: Sequence[NewTurn], at: datetime) -> None:
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

    def _take_feedback(self, node_id: NodeId, gold: Collection[NodeId], useful: bool) -> None:
        change = add_gold if useful else drop_gold
        for question in reversed(self._open):
            if any(node_id == each.node_id for each in question.shown):
                self._write(change(question.text, question.channel, gold))
                return
        for asked in self._asked():
            if node_id in asked.shown:
                self._write(change(asked.text, asked.channel, gold))
                return

    def _use(self, question: _RecentQuestion, used: Sequence[ShownMemory], at: datetime) -> None:
        if gold := list(dict.fromkeys(node_id for each in used for node_id in each.gold)):
            self._write(
                add_gold(question.text, question.channel, gold),
                *(record_feedback(each.node_id, "used", at) for each in used),
            )
            self._on_used([each.node_id for each in used])


def _is_said_after(turn: NewTurn, asked_at: datetime) -> bool:
    """Return True unless a turn is older than the question by more than clocks differ: imports bring old turns."""
    return turn.at is None or turn.at >= asked_at - timedelta(minutes=1)


def _echoed(question: _RecentQuestion, said: frozenset[str]) -> list[ShownMemory]:
    """Return the shown memories whose content words are in what was said."""
    return [each for each in question.shown if _holds(said, term_stems(each.text) - question.words)]


def _holds(said: frozenset[str], words: frozenset[str]) -> bool:
    return len(words) >= FEWEST_WORDS and len(words & said) >= HELD_SHARE * len(words)


def _is_near(ranking: Ranking, shown: Sequence[ShownMemory]) -> bool:
    """Return True if a shown memory is near in meaning, or, without a model, if any was found by its words."""
    cosines = [candidate.scores["vector"] for candidate in ranking.candidates if "vector" in candidate.scores]
    return bool(shown) and (max(cosines) >= NEAR_COSINE if cosines else True)


class Feedback:
    """Hands questions, answers and judgements to the background worker that keeps them.

    `clear_caches` drops what search holds of earlier questions.
    """

    def __init__(
        self,
        core: Core,
        relevance: RelevanceFeedback,
        judgements: Judgements,
        clear_caches: Callable[[], None],
    ) -> None:
        self._core = core
        self._ledger = core.ledger
        self._writer = core.writer
        self._now = core.now
        self._keeps_questions = core.settings.probes
        self._relevance = relevance
        self._judgements = judgements
        self._clear_caches = clear_caches

    def answered(
        self,
        query: str,
        channel: str | None,
        session: NodeId | None,
        ranking: Ranking,
        shown: Sequence[ShownMemory],
    ) -> None:
        """Queue a question and its answer to be kept, unless questions or learning are off."""
        switches = self._core.switches
        if self._keeps_questions and not switches.paused and channel not in switches.channels_off:
            self._relevance.on_answer(query, channel, session, ranking, shown, self._now())

    def looked_up(self, node_id: NodeId) -> None:
        """Count a lookup by id as positive feedback for the answer that listed the node."""
        self._relevance.on_shown(node_id, self._now())

    def said(self, session_id: NodeId, channel: str, turns: Sequence[NewTurn]) -> None:
        """Compare what an assistant says with the answers that were shown before."""
        self._relevance.on_turns(session_id, channel, turns, self._now())

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
        gold = [turn.node_id for turn in hits.evidence_of([node], self._core.catalog)[node_id]] or [node_id]
        self._relevance.on_verdict(node_id, gold, verdict == "useful")

    def purge_questions(self) -> int:
        """Remove every question that was kept, for good; return how many there were."""
        self._clear_caches()
        self._relevance.forget()
        self._relevance.settle(HANDED_OVER_WITHIN_S)

        def erase(files: PendingFiles) -> Planned[int]:
            held = len(self._ledger.asked())
            self._ledger.erase(forget_questions())
            return Planned(held)

        return self._writer.submit(erase).result()

    def purge_if_off(self) -> None:
        """Remove questions that are kept although the settings now say that none are."""
        if not self._keeps_questions and self._ledger.asked() and not self._ledger.is_copy:
            self.purge_questions()


def shown_hit(hit: Hit) -> ShownMemory:
    """Return the memory of a hit as it was shown."""
    return ShownMemory(hit.node_id, hit.text, _gold(hit))


def shown_slot(slot: Slot) -> ShownMemory:
    """Return the memory of an envelope's line as it was shown, without the line's head."""
    return ShownMemory(slot.node_id, slot.words, _gold(slot))


def _gold(shown: Hit | Slot) -> tuple[NodeId, ...]:
    return tuple(turn.node_id for turn in shown.evidence) or (shown.node_id,)
