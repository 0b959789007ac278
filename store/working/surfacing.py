"""Surfacing: what the memory holds on a session's last turn waits for its agent's next call, and nobody waits for it.

`observe` leaves its turns here; a thread reads them between requests, and drops the search while requests keep coming.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime, timedelta
from threading import Lock
from typing import Final

from ..background.worker import WorkQueue
from ..door import Door
from ..embedding.embedding import Embedder
from ..model import Envelope, NewTurn, NodeId, Slot
from ..results import Pending, Working
from ..roles import MACHINES, Role
from ..text.fence import fenced
from ..text.words import term_stems
from .sessions import MOST_THOUGHT_CHARS, MOST_TURN_CHARS, HeardTurn, Sessions, WorkingSession
from .summary import summary_of

BUDGET_TOKENS: Final = 300
FEWEST_TERMS: Final = 3
"""A turn of fewer words ("thanks, ok") is about nothing that could be looked up, and begins no topic."""

MOST_AT_ONCE: Final = 16
LIVE: Final = timedelta(hours=1)
"""More turns at once, or older ones, are an import: nobody is at work there."""

MOST_WAITING: Final = 64
"""Sessions whose turns wait to be read; further ones are passed over."""

SETTLE_S: Final = 0.5

Search = Callable[[str, str, NodeId, AbstractSet[NodeId], int], Envelope]
"""Finds what answers a text in a channel, without what a session said itself or was given, within so many tokens."""


class Surfacing:
    """Reads turns in the background. Every method may be called from any thread, and none but `working` waits.

    `search` finds; `living` returns those of some nodes that may still be shown; `used` counts what was handed out.
    """

    def __init__(
        self,
        sessions: Sessions,
        embedder: Embedder,
        search: Search,
        living: Callable[[Collection[NodeId]], Collection[NodeId]],
        used: Callable[[Collection[NodeId]], None],
        is_busy: Callable[[], bool],
        now: Callable[[], datetime],
        door: Door,
    ) -> None:
        self._sessions = sessions
        self._embedder = embedder
        self._search = search
        self._living = living
        self._used = used
        self._is_busy = is_busy
        self._now = now
        self._door = door
        self._work = WorkQueue("dreamd-surfacing", is_busy)
        self._lock = Lock()
        self._waiting: OrderedDict[NodeId, tuple[str, int, list[NewTurn]]] = OrderedDict()
        self.dropped = 0
        """Turns that were not searched for, since requests kept coming."""

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
        """Leave the turns of a session to be read; costs the caller a place in a queue."""
        oldest = self._now() - LIVE
        live = [turn for turn in turns if turn.at is None or (turn.at.tzinfo is not None and turn.at >= oldest)]
        if not live or len(turns) > MOST_AT_ONCE:
            return
        with self._lock:
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

    def take(self, session_id: NodeId) -> Pending:
        """Return what waits for a session, once; it counts as given and as used."""
        session_id = self._door.session_name(session_id)
        with self._sessions.held(session_id) as session:
            waiting = session.pending if session else None
            topics = session.topics if session else 0
            if session:
                session.pending = None
        if waiting is None:
            return Pending(session_id, topic=topics)
        living = self._living([slot.node_id for slot in waiting.slots])
        if not all(slot.node_id in living for slot in waiting.slots):  # forgotten, or replaced, in the meantime
            return Pending(session_id, topic=topics)
        self.on_given(session_id, waiting.slots)
        self._used([slot.node_id for slot in waiting.slots])
        ids = tuple(slot.node_id for slot in waiting.slots)
        return Pending(session_id, waiting.text, waiting.tokens, ids, topics)

    def on_given(self, session_id: NodeId | None, slots: Sequence[Slot]) -> None:
        """Note that a session's agent was handed these, whichever way: they are not surfaced for it again."""
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
        """Return what is held of a session, after the turns that it was sent so far are read."""
        self.settle(SETTLE_S)
        session_id = self._door.session_name(session_id)
        with self._sessions.held(session_id) as session:
            if session is None:
                return Working(session_id, None)
            turns, thoughts = tuple((turn.role, turn.text) for turn in session.turns), tuple(session.thoughts)
            channel, topics = session.channel, session.topics
        said = [text for role, text in turns if role != Role.TOOL]
        return Working(session_id, channel, turns, tuple(summary_of(said)), thoughts, topics)

    # ---- the thread

    def _read(self, session_id: NodeId) -> None:
        with self._lock:
            channel, generation, turns = self._waiting.pop(session_id)
        heard = [HeardTurn(turn.role, self._door.text(turn.text)[:MOST_TURN_CHARS]) for turn in turns]
        with self._sessions.touched(session_id, channel, generation) as session:
            if session is None:
                return
            for turn in heard:
                session.hear(turn)
        asked = next((turn.text for turn in reversed(heard) if turn.role not in MACHINES), "")
        if len(term_stems(asked)) < FEWEST_TERMS:
            return
        if self._is_busy() or not self._embedder.ready:
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
        found = self._search(asked, channel, session_id, given, BUDGET_TOKENS)
        with self._sessions.touched(session_id, channel, generation) as session:
            if session is not None:
                session.pending = _worth_telling(found, session)


def _names(slots: Sequence[Slot]) -> set[NodeId]:
    """Return the nodes of slots and the turns that these rest on."""
    return {slot.node_id for slot in slots} | {turn.node_id for slot in slots for turn in slot.evidence}


def _worth_telling(found: Envelope, session: WorkingSession) -> Envelope | None:
    """Return an envelope without what its session was given meanwhile; None where nothing is left."""
    if found.abstained:
        return None
    slots = tuple(slot for slot in found.slots if session.given.keys().isdisjoint(_names([slot])))
    if slots == found.slots:
        return found
    return replace(found, slots=slots, text=fenced("\n".join(slot.text for slot in slots))) if slots else None
