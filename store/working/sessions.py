"""The sessions at work, as the daemon holds them in memory: the last turns, thoughts, and what was handed out.

Nothing of it is on the disk, and nothing of it is missed after a crash: anchors and goals are in the ledger.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

import numpy as np

from ..engine.interface import Vector
from ..model import GLOBAL_CHANNEL, Envelope, NodeId
from ..results import HeardTurn

TTL_S: Final = 3600.0
"""A session that nobody touched for so long is over, whether or not it said so."""

MOST_SESSIONS: Final = 64
MOST_TURNS, MOST_TURN_CHARS, MOST_CHARS = 64, 4000, 64_000
MOST_THOUGHTS, MOST_THOUGHT_CHARS = 64, 2000
MOST_GIVEN: Final = 2000
WINDOW: Final = 8
"""Turns of which the running context is the mean."""

OTHER_TOPIC: Final = 0.3
"""A turn whose cosine to the running context is below this begins another topic."""


@dataclass(slots=True)
class WorkingSession:
    """One session. `given` are the nodes that its agent was handed on the present topic, with `asked` at that time.

    `asked` counts the turns of its person that were read.
    """

    session_id: NodeId
    channel: str
    touched_s: float
    turns: deque[HeardTurn] = field(default_factory=lambda: deque(maxlen=MOST_TURNS))
    thoughts: deque[str] = field(default_factory=lambda: deque(maxlen=MOST_THOUGHTS))
    given: dict[NodeId, int] = field(default_factory=dict)
    asked: int = 0
    window: deque[Vector] = field(default_factory=lambda: deque(maxlen=WINDOW))
    pending: Envelope | None = None
    topics: int = 1

    def hear(self, turn: HeardTurn) -> None:
        """Add a turn to the buffer; the oldest give way to its bound."""
        self.turns.append(turn)
        while sum(len(one.text) for one in self.turns) > MOST_CHARS:
            self.turns.popleft()

    def give(self, nodes: Iterable[NodeId]) -> None:
        """Note what its agent was handed."""
        self.given.update(dict.fromkeys(nodes, self.asked))
        while len(self.given) > MOST_GIVEN:
            del self.given[next(iter(self.given))]

    def turn_to(self, vector: Vector) -> bool:
        """Take a turn's vector into the running context; a turn of another topic begins a new one, and True is said.

        What was given since the turn before stays given: `context` may have been asked this very turn already.
        """
        context = np.mean(self.window, axis=0) if self.window else vector
        length = float(np.linalg.norm(context))
        is_other = bool(self.window) and length > 0 and float(vector @ context) / length < OTHER_TOPIC
        if is_other:
            self.window.clear()
            self.given = {name: asked for name, asked in self.given.items() if asked == self.asked}
            self.pending = None
            self.topics += 1
        self.window.append(vector)
        self.asked += 1
        return is_other


class Sessions:
    """Holds sessions, a bounded number for a bounded time. Every method may be called from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._sessions: OrderedDict[NodeId, WorkingSession] = OrderedDict()
        self._generation = 0

    @property
    def generation(self) -> int:
        """The number of times that all was forgotten: what was read before that is not written after it."""
        return self._generation

    @contextmanager
    def touched(
        self, session_id: NodeId, channel: str | None, generation: int | None = None
    ) -> Iterator[WorkingSession | None]:
        """Give a session while no other thread has it; one that is not held begins. None: all was forgotten since.

        One that is held in another channel begins anew; without a channel it goes on where it is.
        """
        with self._lock:
            self._drop_old()
            if generation is not None and generation != self._generation:
                yield None
                return
            held = self._sessions.get(session_id)
            if held is None or channel not in (None, held.channel):
                held = self._sessions[session_id] = WorkingSession(session_id, channel or GLOBAL_CHANNEL, 0.0)
            held.touched_s = self._clock()
            self._sessions.move_to_end(session_id)
            while len(self._sessions) > MOST_SESSIONS:
                self._sessions.popitem(last=False)
            yield held

    @contextmanager
    def held(self, session_id: NodeId) -> Iterator[WorkingSession | None]:
        """Give a session that is held, None for any other, while no other thread has it; it counts as touched."""
        with self._lock:
            self._drop_old()
            if (found := self._sessions.get(session_id)) is not None:
                found.touched_s = self._clock()
                self._sessions.move_to_end(session_id)
            yield found

    def at_work(self) -> Collection[NodeId]:
        """Return the sessions that are held."""
        with self._lock:
            self._drop_old()
            return set(self._sessions)

    def end(self, session_id: NodeId) -> None:
        """Let go of a session."""
        with self._lock:
            self._sessions.pop(session_id, None)

    def forget(self) -> None:
        """Let go of everything, and of what is being read at this moment."""
        with self._lock:
            self._sessions.clear()
            self._generation += 1

    def _drop_old(self) -> None:
        oldest = self._clock() - TTL_S
        while self._sessions and next(iter(self._sessions.values())).touched_s < oldest:
            self._sessions.popitem(last=False)
