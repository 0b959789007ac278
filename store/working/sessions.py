"""The sessions at work: their last turns and thoughts, in memory, and the lines that hooks handed to their agents.

A crash loses the former, and no more: anchors and goals are in the ledger, and so are the handed lines, so that none is
handed to an agent twice.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock
from typing import Final

import numpy as np

from ..engine.interface import Vector
from ..ledger.ledger import Ledger
from ..ledger.work import HANDED_KEPT, MOST_HANDED, Handed, set_handed
from ..limits import SESSION_TTL_S
from ..model import GLOBAL_CHANNEL, Envelope, NodeId
from ..results import BufferedTurn
from ..writer.writer import Writer

# Turns whose mean is the running context.
MOST_SESSIONS: Final = 64
MOST_TURNS, MOST_CHARS, MOST_THOUGHTS = 64, 64_000, 64
MOST_GIVEN: Final = 2000
WINDOW: Final = 8

# A turn with a lower cosine to the running context begins another topic.
OTHER_TOPIC: Final = 0.3


@dataclass(slots=True)
class WorkingSession:
    """One session. `given` are the nodes that its agent was handed on the present topic, each with the `asked` of then.

    `asked` counts the turns of its person that were read. `is_unplaced`: its channel was not named yet.
    """

    session_id: NodeId
    channel: str
    touched_s: float
    turns: deque[BufferedTurn] = field(default_factory=lambda: deque(maxlen=MOST_TURNS))
    thoughts: deque[str] = field(default_factory=lambda: deque(maxlen=MOST_THOUGHTS))
    given: dict[NodeId, int] = field(default_factory=dict)
    asked: int = 0
    window: deque[Vector] = field(default_factory=lambda: deque(maxlen=WINDOW))
    pending: Envelope | None = None
    topics: int = 1
    is_unplaced: bool = False

    def add(self, turn: BufferedTurn) -> None:
        """Add a turn to the buffer, and drop the oldest beyond its bound."""
        self.turns.append(turn)
        while sum(len(one.text) for one in self.turns) > MOST_CHARS:
            self.turns.popleft()

    def give(self, nodes: Iterable[NodeId]) -> None:
        """Note the nodes that its agent was handed."""
        self.given.update(dict.fromkeys(nodes, self.asked))
        while len(self.given) > MOST_GIVEN:
            del self.given[next(iter(self.given))]

    def turn_to(self, vector: Vector) -> bool:
        """Add a turn's vector to the running context; return True if the turn begins another topic.

        The nodes given since the turn before stay given: `context` may have been called for this very turn.
        """
        # The mean of the last turns, not the last alone: one short reply does not change the topic.
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


class WorkingSessions:
    """Holds sessions, a bounded number for a bounded time. Every method may be called from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._sessions: OrderedDict[NodeId, WorkingSession] = OrderedDict()
        self._generation = 0

    @property
    def generation(self) -> int:
        """Counts the calls of `forget`: what was read before one is not written after it."""
        return self._generation

    @contextmanager
    def touched(
        self, session_id: NodeId, channel: str | None, generation: int | None = None
    ) -> Iterator[WorkingSession | None]:
        """Lock and return a session, a new one if it is not held; None if all was forgotten since `generation`.

        A session held in another channel begins anew; without a channel it stays in its own, which may be named later.
        """
        with self._lock:
            self._drop_old()
            if generation is not None and generation != self._generation:
                yield None
                return
            held = self._sessions.get(session_id)
            if held is not None and held.is_unplaced and channel is not None:
                held.channel, held.is_unplaced = channel, False
            if held is None or channel not in (None, held.channel):
                held = self._sessions[session_id] = WorkingSession(session_id, channel or GLOBAL_CHANNEL, 0.0)
                held.is_unplaced = channel is None
            held.touched_s = self._clock()
            self._sessions.move_to_end(session_id)
            while len(self._sessions) > MOST_SESSIONS:
                self._sessions.popitem(last=False)
            yield held

    @contextmanager
    def held(self, session_id: NodeId) -> Iterator[WorkingSession | None]:
        """Lock and return a session that is held, None for any other; it counts as touched."""
        with self._lock:
            self._drop_old()
            if (found := self._sessions.get(session_id)) is not None:
                found.touched_s = self._clock()
                self._sessions.move_to_end(session_id)
            yield found

    def at_work(self) -> Collection[NodeId]:
        """Return the ids of the sessions that are held."""
        with self._lock:
            self._drop_old()
            return set(self._sessions)

    def end(self, session_id: NodeId) -> None:
        """Drop a session."""
        with self._lock:
            self._sessions.pop(session_id, None)

    def forget(self) -> None:
        """Drop all sessions, and whatever is being read at this moment."""
        with self._lock:
            self._sessions.clear()
            self._generation += 1

    def _drop_old(self) -> None:
        oldest = self._clock() - SESSION_TTL_S
        while self._sessions and next(iter(self._sessions.values())).touched_s < oldest:
            self._sessions.popitem(last=False)


MOST_LINES: Final = 300


@dataclass(slots=True)
class HandedSession:
    """One session of an agent. `given` are the lines in its context, `tokens` their number of tokens.

    `prompt` is the last one, `is_kept` is True once it is kept as a turn, `named` are the lines of the present moment
    with the ids of their memories, and `is_owed` is True after a start whose text did not arrive, or comes with the
    next prompt; `source` is that start's, and `start_prompt` the number of the prompt that brought one. `summary` is
    the id of the last summary in its transcript, and the byte up to which that was looked through. `session_id` is its
    name as it is kept, while it is at work. None of these survives a restart.
    """

    key: str
    generation: int
    seen_at: datetime
    given: list[str] = field(default_factory=list)
    tokens: int = 0
    prompts: int = 0
    prompt: str = ""
    is_kept: bool = False
    named: list[tuple[str, NodeId]] = field(default_factory=list)
    is_owed: bool = False
    source: str = ""
    start_prompt: int = -1
    summary: tuple[str, int] | None = None
    agent: str = ""
    channel: str = ""
    session_id: NodeId = ""
    transcript: str = ""

    def is_at_work(self, agent: str, channel: str, session_id: NodeId) -> None:
        """Note whose session it is, by its name as it is kept."""
        self.agent, self.channel, self.session_id = agent, channel, session_id

    def is_over(self) -> None:
        """Note that it has ended."""
        self.session_id = ""

    def note_prompt(self, prompt: str) -> None:
        """Note the prompt that the agent has now."""
        self.prompt = prompt
        self.is_kept = False
        self.prompts += 1

    def hand(self, lines: Sequence[str], tokens: int, nodes: Sequence[NodeId] = ()) -> None:
        """Note the lines handed over, and the memories of the first of them; the oldest beyond MOST_LINES go."""
        self.given = [*self.given, *lines][-MOST_LINES:]
        self.tokens += tokens
        self.named += zip(lines, nodes, strict=False)

    def take_back(self, lines: Collection[str], tokens: int) -> None:
        """Drop lines that did not arrive, so that they may be handed over again."""
        self.given = [one for one in self.given if not any(" ".join(one.split()) in line for line in lines)]
        self.tokens = max(0, self.tokens - tokens)

    def forget_given(self) -> None:
        """Drop the given lines: the agent's context is empty again."""
        self.given = []
        self.tokens = 0


class HandedSessions:
    """The sessions with the latest prompts, bounded in number and time. Every method may be called from any thread.

    `keep` writes its row within about a second and does not wait: lines that a crash loses are handed again.
    """

    def __init__(self, ledger: Ledger, writer: Writer, now: Callable[[], datetime]) -> None:
        self._ledger = ledger
        self._writer = writer
        self._now = now
        self._lock = Lock()
        self._sessions: OrderedDict[str, HandedSession] = OrderedDict()
        self._generation = 0

    def get(self, agent: str, session_id: str) -> HandedSession:
        """Return a session, a new one if none of that name had a prompt lately."""
        key = hashlib.sha256(f"{agent}\0{session_id}".encode("utf-8", "surrogatepass")).hexdigest()
        now = self._now()
        with self._lock:
            known = self._sessions.get(key) or self._read(key)
            if known is None or now - known.seen_at > HANDED_KEPT:
                known = HandedSession(key, self._generation, now)
            self._sessions[key] = known
            self._sessions.move_to_end(key)
            while len(self._sessions) > MOST_HANDED:
                self._sessions.popitem(last=False)
            return known

    def keep(self, session: HandedSession) -> None:
        """Note that a session has a prompt now, and write its lines to the ledger."""
        session.seen_at = self._now()
        with self._lock:
            if session.generation != self._generation:  # a purge came in between, and its lines may be purged
                return
            row = Handed(session.key, session.seen_at, session.tokens, session.prompts, tuple(session.given))
            self._writer.later(*set_handed(row))

    def at_work(self, agent: str = "") -> list[HandedSession]:
        """Return the sessions that hooks heard of within the last hour, the latest last; those of one program.

        `agent` is a name that begins with the program's: its tools add to it, as in `codex-mcp-client`.
        """
        since = self._now() - timedelta(seconds=SESSION_TTL_S)
        with self._lock:
            heard = [one for one in self._sessions.values() if one.session_id and one.seen_at >= since]
        return sorted((one for one in heard if not agent or agent.startswith(one.agent)), key=lambda one: one.seen_at)

    def forget(self) -> None:
        """Drop all of them, for a purge, which removes the rows itself."""
        with self._lock:
            self._sessions.clear()
            self._generation += 1

    def _read(self, key: str) -> HandedSession | None:
        if (row := self._ledger.handed(key)) is None:
            return None
        return HandedSession(key, self._generation, row.at, list(row.lines), row.tokens, row.prompts)
