"""Surfacing: memories that answer a session's last turn are found in the background, for its agent's next call.

`observe` leaves its turns here; a thread reads them between requests, and skips the search while requests keep coming.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from threading import Lock
from typing import Final

from ..core import Core
from ..limits import FEWEST_WORDS, MOST_THOUGHT_CHARS, MOST_TURN_CHARS
from ..model import Envelope, NewTurn, NodeId, Slot
from ..recall import Recall
from ..results import BufferedTurn, Surfaced, Working
from ..roles import MACHINES, Role
from ..text.fence import fenced
from ..text.sentences import sentences_of
from ..text.words import term_stems
from ..upkeep.worker import WorkQueue
from .sessions import WorkingSession, WorkingSessions

# A turn of fewer words ("thanks, ok") is not searched for, and begins no topic.
BUDGET_TOKENS: Final = 300
FEWEST_TERMS: Final = 3

# More turns at once, or older ones, are an import, and not a session at work.
MOST_AT_ONCE: Final = 16
LIVE: Final = timedelta(hours=1)

# Sessions whose turns are queued; those of further sessions are skipped.
MOST_WAITING: Final = 64

SETTLE_S: Final = 0.5

# Characters of one turn that are read for a summary: the long output of a tool does not show the subject.
MOST_SENTENCES: Final = 5
READ_CHARS: Final = 2000


class Surfacing:
    """Reads turns in the background. Every method may be called from any thread, and none but `working` waits."""

    def __init__(self, core: Core, sessions: WorkingSessions, recall: Recall) -> None:
        self._core = core
        self._door = core.door
        self._embedder = core.embedder
        self._now = core.now
        self._sessions = sessions
        self._recall = recall
        self._work = WorkQueue("dreamd-surfacing", core.is_busy)
        self._lock = Lock()
        self._waiting: OrderedDict[NodeId, tuple[str, int, list[NewTurn]]] = OrderedDict()
        self.dropped = 0
        """The number of turns that were not searched for, since requests kept coming."""

    def start(self) -> None:
        """Start the thread."""
        self._work.start()

    def stop(self) -> None:
        """End after the turn that is being read."""
        self._work.stop()

    def settle(self, timeout_s: float) -> bool:
        """Wait until the turns so far are read; False after the timeout, or once stopped."""
        return self._work.settle(timeout_s)

    def on_turns(self, session_id: NodeId, channel: str, turns: Sequence[NewTurn]) -> None:
        """Queue the turns of a session."""
        oldest = self._now() - LIVE
        live = [turn for turn in turns if turn.at is None or (turn.at.tzinfo is not None and turn.at >= oldest)]
        if not live or len(turns) > MOST_AT_ONCE:
            return
        with self._lock:
            # A session has one job in the queue; further turns are added to it.
            if (waiting := self._waiting.get(session_id)) is not None:
                waiting[2].extend(live)
                del waiting[2][:-MOST_AT_ONCE]
                return
            if len(self._waiting) >= MOST_WAITING:
                return
            self._waiting[session_id] = channel, self._sessions.generation, live
        if not self._work.put(lambda: self._read(session_id)):
            with self._lock:
                self._waiting.pop(session_id, None)

    def take(self, session_id: NodeId) -> Surfaced:
        """Return the memories found for a session, once; they count as handed out and as used."""
        session_id = self._door.session_name(session_id)
        with self._sessions.held(session_id) as session:
            waiting = session.pending if session else None
            topics = session.topics if session else 0
            if session:
                session.pending = None
        if waiting is None:
            return Surfaced(session_id, topic=topics)
        living = self._recall.living([slot.node_id for slot in waiting.slots])
        if not all(slot.node_id in living for slot in waiting.slots):  # some were forgotten or replaced in the meantime
            return Surfaced(session_id, topic=topics)
        self.on_given(session_id, waiting.slots)
        self._recall.used([slot.node_id for slot in waiting.slots])
        ids = tuple(slot.node_id for slot in waiting.slots)
        return Surfaced(session_id, waiting.text, waiting.tokens, ids, topics)

    def on_given(self, session_id: NodeId | None, slots: Sequence[Slot]) -> None:
        """Note the lines that a session's agent was handed, by any method: they are not surfaced for it again."""
        if session_id is None:
            return
        with self._sessions.held(self._door.session_name(session_id)) as session:
            if session is not None:
                session.give(_names(slots))
                if session.pending is not None and not session.given.keys().isdisjoint(_names(session.pending.slots)):
                    session.pending = None

    def think(self, session_id: NodeId, channel: str | None, text: str) -> int:
        """Keep a thought of a session's agent in memory; return how many are held.

        Without a channel the session stays in its own; one that is not held begins in the global one.
        """
        thought = self._door.line(text)[:MOST_THOUGHT_CHARS]
        with self._sessions.touched(self._door.session_name(session_id), channel) as session:
            assert session is not None
            if thought:
                session.thoughts.append(thought)
            return len(session.thoughts)

    def working(self, session_id: NodeId) -> Working:
        """Return the part of a session that is held in memory, after its turns so far are read."""
        self.settle(SETTLE_S)
        session_id = self._door.session_name(session_id)
        with self._sessions.held(session_id) as session:
            if session is None:
                return Working(session_id, None)
            turns, thoughts = tuple(session.turns), tuple(session.thoughts)
            channel, topics = session.channel, session.topics
        said = [turn.text for turn in turns if turn.role != Role.TOOL]
        return Working(session_id, channel, turns, tuple(summary_of(said)), thoughts, topics)

    # ---- the thread

    def _read(self, session_id: NodeId) -> None:
        with self._lock:
            channel, generation, turns = self._waiting.pop(session_id)
        heard = [BufferedTurn(turn.role, self._door.text(turn.text)[:MOST_TURN_CHARS]) for turn in turns]
        with self._sessions.touched(session_id, channel, generation) as session:
            if session is None:
                return
            for turn in heard:
                session.add(turn)
        asked = next((turn.text for turn in reversed(heard) if turn.role not in MACHINES), "")
        if len(term_stems(asked)) < FEWEST_TERMS:
            return
        if self._core.is_busy() or not self._embedder.ready:
            self.dropped += 1
            return
        self._surface(session_id, channel, generation, asked)

    def _surface(self, session_id: NodeId, channel: str, generation: int, asked: str) -> None:
        vector = self._embedder.embed_query(asked)
        with self._sessions.touched(session_id, channel, generation) as session:
            if session is None:
                return
            session.turn_to(vector)
            given = set(session.given)
        # The lock is free during the search; the session may have been given nodes, or dropped, meanwhile.
        found = self._recall.unasked(asked, channel, session_id, given, BUDGET_TOKENS)
        with self._sessions.touched(session_id, channel, generation) as session:
            if session is not None:
                session.pending = _without_given(found, session)


def _names(slots: Sequence[Slot]) -> set[NodeId]:
    """Return the nodes of slots and the turns that these cite."""
    return {slot.node_id for slot in slots} | {turn.node_id for slot in slots for turn in slot.evidence}


def _without_given(found: Envelope, session: WorkingSession) -> Envelope | None:
    """Return an envelope without the nodes that its session was given meanwhile; None if nothing is left."""
    if found.abstained:
        return None
    slots = tuple(slot for slot in found.slots if session.given.keys().isdisjoint(_names([slot])))
    if slots == found.slots:
        return found
    return replace(found, slots=slots, text=fenced("\n".join(slot.text for slot in slots))) if slots else None


def summary_of(texts: Sequence[str], limit: int = MOST_SENTENCES) -> list[str]:
    """Return the sentences of a conversation that share most with the others, in their order. No model is used.

    The weight of a sentence is the sum of ln(1 + the number of sentences with the stem) over its stems, divided by the
    square root of their number, so that neither the longest nor the shortest wins. A sentence half of whose stems are
    in one that is chosen already is skipped.
    """
    sentences = list(dict.fromkeys(one for text in texts for one in sentences_of(text[:READ_CHARS])))
    stems = [term_stems(one) if len(one.split()) >= FEWEST_WORDS else frozenset[str]() for one in sentences]
    shared = Counter(stem for held in stems for stem in held)
    weights = [sum(math.log1p(shared[stem]) for stem in held) / math.sqrt(len(held) or 1) for held in stems]
    chosen: list[int] = []
    for place in sorted(range(len(sentences)), key=lambda place: (-weights[place], place)):
        if len(chosen) == limit or not weights[place]:
            break
        if not any(len(stems[place] & stems[other]) * 2 > len(stems[place]) for other in chosen):
            chosen.append(place)
    return [sentences[place] for place in sorted(chosen)]
