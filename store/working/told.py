"""The record of the texts that agents were handed: the moment of each, its memories and its outcome.

It is in the ledger, bounded in time and number; a line of a memory that is gone is not shown. Its outcome is known
from the agent's next turn, if that has the line's words, and from verdicts on its memory.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from threading import Lock
from typing import Final

from ..core import Core
from ..index.projection import TURN_MARK, Node
from ..ledger.work import MOST_TOLD, TOLD_DAYS, set_told, told_counts, told_id_of
from ..model import NewTurn, NodeId
from ..results import ToldCounts, ToldLine, ToldText
from ..text.fence import TAG
from ..text.words import term_stems
from ..upkeep.feedback import SAID_WITHIN, holds

# Texts whose outcome is awaited, in memory; the lines of one, and the characters of a line.
MOST_AWAITED: Final = 128
MOST_FRESH: Final = 512
# The times that a memory is told at an act without being used: then it has lost its right to appear there.
MOST_IN_VAIN: Final = 3
MOST_LINES: Final = 64
LONGEST_LINE: Final = 400

# A record is made after the time of its request, but for what the clock was set back meanwhile.
SAME_CLOCK: Final = timedelta(minutes=1)

# Of a session's file, which an agent without a memory would have read.
BYTES_A_TOKEN: Final = 4

# What became of a line whose words are in the agent's next turn.
USED: Final = "used"
HELPED: Final = frozenset({USED, "useful"})
GONE: Final = "[no longer remembered]"

_FENCE: Final = re.compile(rf"</?{TAG}[^>]*>")


@dataclass(slots=True)
class _Awaited:
    """A text whose outcome is awaited. `asked` are the words of the prompt, which are no sign of a use."""

    told: ToldText
    asked: frozenset[str]


class ToldTexts:
    """Records texts and their outcomes. Every method may be called from any thread.

    A row is written within about a second, and nothing waits for it.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._ledger = core.ledger
        self._writer = core.writer
        self._now = core.now
        self._lock = Lock()
        self._awaited: deque[_Awaited] = deque(maxlen=MOST_AWAITED)
        self._fresh: dict[int, ToldText] = {}  # as they were written last, since a row is written later
        self._last_id = 0

    def note(self, told: ToldText, text: str, *, nodes: Iterable[tuple[str, NodeId]] = (), asked: str = "") -> ToldText:
        """Record a text that is about to be handed over, and return its record: one that comes too late is lost.

        `nodes` are the words and ids of its memories, `asked` is the prompt that it answers.
        """
        lines = _lines(text, [(_spaced(words), node_id) for words, node_id in nodes])
        told = replace(told, lines=lines)
        if not lines or self._core.switches.is_off(told.channel):
            return told
        with self._lock:
            if (lost := self._of_request(told)) is not None:
                told = replace(lost, lines=lines, tokens=told.tokens)
            else:
                told = replace(told, told_id=self._next_id())
                self._awaited.append(_Awaited(told, term_stems(asked)))
            self._write(told)
            return told

    def note_answer(
        self,
        session_id: NodeId,
        channel: str,
        agent: str,
        moment: str,
        text: str,
        tokens: int,
        *,
        nodes: Iterable[tuple[str, NodeId]],
        asked: str,
    ) -> None:
        """Record in short the answer to a question of an agent's own."""
        self.note(ToldText(self._now(), session_id, channel, agent, moment, tokens), text, nodes=nodes, asked=asked)

    def note_lost(self, lost: ToldText) -> ToldText:
        """Record that a request for a text got none in time; return it with the text that is known to be lost."""
        with self._lock:
            known = self._of_request(lost)
            told = replace(known or replace(lost, told_id=self._next_id()), lost=lost.lost)
            self._awaited = deque((one for one in self._awaited if one.told.told_id != told.told_id), MOST_AWAITED)
            self._write(told)
            return told

    def said(self, session_id: NodeId, turns: Sequence[NewTurn], at: datetime) -> None:
        """Compare the agent's next turn with the texts that its session was handed."""
        with self._lock:
            waiting = [one for one in self._awaited if one.told.session_id == session_id]
            in_time = [one for one in waiting if one.told.at <= at <= one.told.at + SAID_WITHIN]
            words = frozenset[str]().union(*(term_stems(turn.text) for turn in turns)) if in_time else frozenset()
            for one in in_time:
                self._awaited.remove(one)
                used = [_uses(words, term_stems(line.statement) - one.asked) for line in one.told.lines]
                self._change(replace(one.told, answered=True), used, USED)

    def judged(self, node_id: NodeId, verdict: str) -> None:
        """Note a verdict on a memory with every text that had it lately."""
        with self._lock:
            for one in self._rows(self._now() - timedelta(days=1)):
                if any(meant := [line.node_id == node_id for line in one.lines]):
                    self._change(one, meant, verdict)

    def forgotten(self, node_id: NodeId, text: str) -> None:
        """Name a memory that is forgotten in the lines that have its words, so that these are shown no more."""
        words = _spaced(text)
        with self._lock:
            for one in self._rows(self._now() - timedelta(days=TOLD_DAYS)) if words else ():
                lines = tuple(
                    replace(line, node_id=node_id) if line.node_id is None and words in _spaced(line.text) else line
                    for line in one.lines
                )
                if lines != one.lines:
                    self._write(replace(one, lines=lines))

    def counts(self, texts: Iterable[ToldText] | None = None) -> ToldCounts:
        """Count texts; without any those of the last 24 hours."""
        if texts is None:
            with self._lock:
                texts = self._rows(self._now() - timedelta(days=1))
        texts = list(texts)
        return replace(told_counts(texts), cited=self._cited(one for one in texts if not one.lost))

    def _cited(self, texts: Iterable[ToldText]) -> int:
        """Return the tokens of the whole sessions that the lines of each text are of."""
        nodes = [{line.node_id for line in one.lines if line.node_id} for one in texts]
        turns = self._core.catalog.evidence(set().union(*nodes))
        sessions = [{turn.node_id.partition(TURN_MARK)[0] for node in some for turn in turns[node]} for some in nodes]
        sizes = self._core.catalog.sizes_of(set().union(*sessions))
        return sum(sizes.get(session, 0) for some in sessions for session in some) // BYTES_A_TOKEN

    def since(self, moment: datetime | None = None, session_id: NodeId | None = None) -> list[ToldText]:
        """Return the texts since a moment, the newest first; of memories that are gone, GONE."""
        moment = moment or self._now() - timedelta(days=TOLD_DAYS)
        with self._lock:
            texts = self._rows(moment, session_id)[:MOST_TOLD]
        named = {line.node_id for one in texts for line in one.lines if line.node_id}
        there = self._core.catalog.nodes(named)
        return [replace(one, lines=tuple(_shown(line, there) for line in one.lines)) for one in texts]

    def never_used(self, nodes: Collection[NodeId], moments: Collection[str]) -> set[NodeId]:
        """Return those of some memories that were told MOST_IN_VAIN times at some moments, answered, and never used."""
        since = self._now() - timedelta(days=TOLD_DAYS)
        with self._lock:
            rows = {one.told_id: one for one in self._ledger.told_of(nodes, moments, since)}
            rows |= {one.told_id: one for one in self._fresh.values() if one.at >= since and one.moment in moments}
        lines = [(line, one.answered) for one in rows.values() for line in one.lines]
        answered = Counter(line.node_id for line, was_answered in lines if was_answered and line.node_id in nodes)
        used = {line.node_id for line, _ in lines if line.became in HELPED}
        return {node_id for node_id, times in answered.items() if node_id and times >= MOST_IN_VAIN} - used

    def forget(self) -> None:
        """Drop the awaited texts, before a purge erases the rows."""
        with self._lock:
            self._awaited.clear()
            self._fresh.clear()

    def _of_request(self, told: ToldText) -> ToldText | None:
        """Return the record of the same request: of the same session, moment and time."""
        meant = told.session_id, told.moment, told.at
        rows = self._rows(told.at - SAME_CLOCK, told.session_id)
        return next((one for one in rows if (one.session_id, one.moment, one.at) == meant), None)

    def _rows(self, moment: datetime, session_id: NodeId | None = None) -> list[ToldText]:
        rows = {one.told_id: one for one in self._ledger.told(moment, session_id)}
        fresh = (one for one in self._fresh.values() if one.at >= moment and session_id in (None, one.session_id))
        rows |= {one.told_id: one for one in fresh}
        return [rows[told_id] for told_id in sorted(rows, reverse=True)]

    def _write(self, told: ToldText) -> None:
        self._fresh[told.told_id] = told
        while len(self._fresh) > MOST_FRESH:
            del self._fresh[next(iter(self._fresh))]
        self._writer.later(*set_told(told))

    def _change(self, told: ToldText, meant: Sequence[bool], became: str) -> None:
        lines = (
            replace(line, became=became) if is_meant else line for line, is_meant in zip(told.lines, meant, strict=True)
        )
        self._write(replace(told, lines=tuple(lines)))

    def _next_id(self) -> int:
        self._last_id = max(self._last_id + 1, told_id_of(self._now()))
        return self._last_id


def _lines(text: str, nodes: Sequence[tuple[str, NodeId]]) -> tuple[ToldLine, ...]:
    """Return the lines of a text without its fences, each with the node whose words it has."""
    lines = [line for line in map(_spaced, _FENCE.sub("\n", text).split("\n")) if line]
    return tuple(
        ToldLine(line[:LONGEST_LINE], next((node_id for words, node_id in nodes if words and words in line), None))
        for line in lines[:MOST_LINES]
    )


def _uses(said: frozenset[str], words: frozenset[str]) -> bool:
    """Return True if a turn uses a line's words; of few, it must have all, with a number among them."""
    return holds(said, words) or (words <= said and any(character.isdigit() for word in words for character in word))


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _shown(line: ToldLine, there: Mapping[NodeId, Node]) -> ToldLine:
    """Return a line as it may be shown: without its words where its memory is gone or forgotten."""
    node = there.get(line.node_id) if line.node_id else None
    is_gone = line.node_id is not None and (node is None or node.forgotten)
    return replace(line, text=GONE) if is_gone else line
