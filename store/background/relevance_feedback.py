"""Relevance feedback: records past questions, and which of the memories shown for them were useful.

A memory was useful when a client said so, when it was looked up by its id after it was shown, or when the assistant's
next turn holds its content words. No request waits for this: events are queued, and a thread reads them between
requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from ..door import Door
from ..ledger.questions import (
    LONGEST_QUESTION_CHARS,
    PastQuestion,
    add_gold,
    drop_gold,
    prune_questions,
    record_question,
)
from ..ledger.records import record_feedback
from ..model import NewTurn, NodeId
from ..roles import Role
from ..search.search import Ranking
from ..text.words import query_terms, term_stems
from .worker import MOST_WAITING, WorkQueue

HELD_SHARE: Final = 0.6
"""The share of a memory's content words, without the question's, that make the assistant's next turn a use of it."""

FEWEST_WORDS: Final = 3
"""Fewer words than this to compare are no evidence; a question of fewer is not recorded."""

NEAR_COSINE: Final = 0.35
"""A question whose nearest shown memory is below this cosine counts as one without an answer."""

SAID_WITHIN: Final = timedelta(minutes=15)
LOOKED_AT_WITHIN: Final = timedelta(minutes=30)
"""The time after an answer in which a turn, or a lookup by id, counts as its use."""

QUESTIONS_IN_MIND: Final = 128
"""The last questions, held in memory, for which a use is looked for."""

PRUNED_EVERY: Final = 100
"""Questions between two removals of old ones from the ledger."""


@dataclass(frozen=True, slots=True)
class ShownMemory:
    """A memory as it was shown. `gold` stands for it in a probe: its turns, or its own id where it has none."""

    node_id: NodeId
    text: str
    gold: tuple[NodeId, ...]


@dataclass(slots=True)
class _Open:
    """A question that still waits for a sign of use."""

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
        self._open: deque[_Open] = deque(maxlen=QUESTIONS_IN_MIND)
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

        The ranking is read at once: those that wait, with all their candidates, took 30 MiB of a busy daemon.
        """
        is_near = _is_near(ranking, shown)
        self._work.put(lambda: self._take_question(_Open(text, channel, session, at, shown), is_near))

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

    def _take_question(self, question: _Open, is_near: bool) -> None:
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

    def _use(self, question: _Open, used: Sequence[ShownMemory], at: datetime) -> None:
        if gold := list(dict.fromkeys(node_id for each in used for node_id in each.gold)):
            self._write(
                add_gold(question.text, question.channel, gold),
                *(record_feedback(each.node_id, "used", at) for each in used),
            )
            self._on_used([each.node_id for each in used])


def _is_said_after(turn: NewTurn, asked_at: datetime) -> bool:
    """Return True unless a turn is older than the question by more than clocks differ: imports bring old turns."""
    return turn.at is None or turn.at >= asked_at - timedelta(minutes=1)


def _echoed(question: _Open, said: frozenset[str]) -> list[ShownMemory]:
    """Return the shown memories whose content words are in what was said."""
    return [each for each in question.shown if _holds(said, term_stems(each.text) - question.words)]


def _holds(said: frozenset[str], words: frozenset[str]) -> bool:
    return len(words) >= FEWEST_WORDS and len(words & said) >= HELD_SHARE * len(words)


def _is_near(ranking: Ranking, shown: Sequence[ShownMemory]) -> bool:
    """Return True if a shown memory is near in meaning, or, without a model, if any was found by its words."""
    cosines = [candidate.scores["vector"] for candidate in ranking.candidates if "vector" in candidate.scores]
    return bool(shown) and (max(cosines) >= NEAR_COSINE if cosines else True)
