"""What becomes of an answer: which of the memories shown were of use, found out behind everybody's back.

A memory was of use when somebody said so, when it was looked at after it was shown, or when what the assistant says
next holds its telling words. Whoever asks is never kept waiting: what happens is put into a queue, and a thread reads
it when nobody asks for anything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from ..find.search.search import Ranking
from ..keep.ledger.questions import LONGEST_QUESTION_CHARS, Asked, add_gold, drop_gold, prune_questions, record_question
from ..keep.ledger.records import record_feedback
from ..keep.redaction import redact
from ..model import NewTurn, NodeId
from ..roles import Role
from ..text.terms import query_terms, term_stems
from .worker import MOST_WAITING, Errands

HELD_SHARE: Final = 0.6
"""So many of a memory's telling words, the question's own apart, in what the assistant says next: it was of use."""

FEWEST_WORDS: Final = 3
"""Fewer words left to compare than this are no sign of anything; and with fewer, a question asks for nothing."""

NEAR_COSINE: Final = 0.35
"""The design's hard minimum: nothing nearer than this among what was shown, and the question found nothing."""

SAID_WITHIN: Final = timedelta(minutes=15)
LOOKED_AT_WITHIN: Final = timedelta(minutes=30)
QUESTIONS_IN_MIND: Final = 128
PRUNED_EVERY: Final = 100


@dataclass(frozen=True, slots=True)
class Answered:
    """A memory as it was shown. `gold` is what stands for it in a probe: its turns, or itself where it has none."""

    node_id: NodeId
    text: str
    gold: tuple[NodeId, ...]


@dataclass(slots=True)
class _Open:
    """A question of which it is not known yet what was of use."""

    text: str
    channel: str | None
    session: NodeId | None
    at: datetime
    shown: Sequence[Answered]
    words: frozenset[str] = field(default_factory=frozenset)
    waits_for_assistant: bool = True

    def may_be_answered_in(self, session_id: NodeId, channel: str) -> bool:
        if self.session is not None:
            return self.session == session_id
        return self.channel in (None, "*", channel)


class FollowUp:
    """Keeps what is asked, and what was of use, in the ledger. Every method may be called from any thread.

    `write` takes rows for the ledger that may be written later; `is_busy` says that somebody waits for an answer;
    `asked` are the questions that the ledger has, newest first.
    """

    def __init__(
        self, write: Callable[..., None], is_busy: Callable[[], bool], asked: Callable[[], Sequence[Asked]]
    ) -> None:
        self._write = write
        self._asked = asked
        self._errands = Errands("dreamd-follow-up", is_busy, at_once=MOST_WAITING, to_the_end=True)
        self._open: deque[_Open] = deque(maxlen=QUESTIONS_IN_MIND)
        self._kept = 0

    def start(self) -> None:
        """Begin to work in the background."""
        self._errands.start()

    def stop(self) -> None:
        """End, after what has happened so far is written down."""
        self._errands.stop()

    # ---- what happens

    def was_asked(
        self,
        text: str,
        channel: str | None,
        session: NodeId | None,
        ranking: Ranking,
        shown: Sequence[Answered],
        at: datetime,
    ) -> None:
        """A question was answered with these."""
        self._errands.put(lambda: self._take_question(_Open(text, channel, session, at, shown), ranking))

    def was_said(self, session_id: NodeId, channel: str, turns: Sequence[NewTurn], at: datetime) -> None:
        """Turns of a session came in."""
        if spoken := [turn for turn in turns if turn.role == Role.ASSISTANT]:
            self._errands.put(lambda: self._take_turns(session_id, channel, spoken, at))

    def was_looked_at(self, node_id: NodeId, at: datetime) -> None:
        """Somebody had a memory shown to them, by its id."""
        self._errands.put(lambda: self._take_look(node_id, at))

    def was_judged(self, node_id: NodeId, gold: Collection[NodeId], useful: bool) -> None:
        """Somebody said whether a memory was of use, for the last question that it was shown for."""
        self._errands.put(lambda: self._take_verdict(node_id, gold, useful))

    def settle(self, timeout_s: float) -> bool:
        """Wait until what has happened so far is on its way to the ledger; False when that takes longer."""
        return self._errands.settle(timeout_s)

    def forget(self) -> None:
        """Let go of what is in mind, once what has happened so far is taken in."""
        self._errands.put(self._open.clear, even_if_full=True)

    # ---- the thread

    def _take_question(self, question: _Open, ranking: Ranking) -> None:
        if len(question.text) > LONGEST_QUESTION_CHARS or len(query_terms(question.text)) < FEWEST_WORDS:
            return
        question.text = redact(question.text).text
        question.words = term_stems(question.text)
        self._open.append(question)
        shown = [each.node_id for each in question.shown]
        self._write(record_question(question.text, question.channel, shown, _is_near(ranking, shown), question.at))
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

    def _take_look(self, node_id: NodeId, at: datetime) -> None:
        for question in reversed(self._open):
            if question.at <= at <= question.at + LOOKED_AT_WITHIN:
                looked_at = [each for each in question.shown if node_id == each.node_id or node_id in each.gold]
                if looked_at:
                    self._use(question, looked_at, at)
                    return

    def _take_verdict(self, node_id: NodeId, gold: Collection[NodeId], useful: bool) -> None:
        change = add_gold if useful else drop_gold
        for question in reversed(self._open):
            if any(node_id == each.node_id for each in question.shown):
                self._write(change(question.text, question.channel, gold))
                return
        for asked in self._asked():
            if node_id in asked.shown:
                self._write(change(asked.text, asked.channel, gold))
                return

    def _use(self, question: _Open, used: Sequence[Answered], at: datetime) -> None:
        if gold := list(dict.fromkeys(node_id for each in used for node_id in each.gold)):
            self._write(
                add_gold(question.text, question.channel, gold),
                *(record_feedback(each.node_id, "used", at) for each in used),
            )


def _is_said_after(turn: NewTurn, asked_at: datetime) -> bool:
    """Whether a turn is no older than the question, clocks apart: an import brings what was said years ago."""
    return turn.at is None or turn.at >= asked_at - timedelta(minutes=1)


def _echoed(question: _Open, said: frozenset[str]) -> list[Answered]:
    """What was shown and is held by what was said."""
    return [each for each in question.shown if _holds(said, term_stems(each.text) - question.words)]


def _holds(said: frozenset[str], words: frozenset[str]) -> bool:
    return len(words) >= FEWEST_WORDS and len(words & said) >= HELD_SHARE * len(words)


def _is_near(ranking: Ranking, shown: Sequence[NodeId]) -> bool:
    """Whether any of what was shown is near in meaning; without a model, whether anything was found by its words."""
    cosines = [candidate.scores["vector"] for candidate in ranking.candidates if "vector" in candidate.scores]
    return bool(shown) and (max(cosines) >= NEAR_COSINE if cosines else True)
