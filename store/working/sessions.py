"""The sessions at work, and the lines that hooks handed to their agents.

A crash loses the former, and no more: the handed lines are in the ledger, so that none is handed to an agent twice.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock
from typing import Final

from ..ledger.ledger import Ledger
from ..ledger.work import HANDED_KEPT, MOST_HANDED, Handed, set_handed
from ..limits import SESSION_TTL_S
from ..model import NodeId
from ..writer.writer import Writer

MOST_SESSIONS: Final = 64


class SessionsAtWork:
    """The sessions that were heard of within the last hour, the last MOST_SESSIONS. Any thread may call any method."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._heard_s: OrderedDict[NodeId, float] = OrderedDict()

    def hear(self, session_id: NodeId) -> None:
        """Note that a session is at work."""
        with self._lock:
            self._heard_s[session_id] = self._clock()
            self._heard_s.move_to_end(session_id)
            while len(self._heard_s) > MOST_SESSIONS:
                self._heard_s.popitem(last=False)

    def ids(self) -> Collection[NodeId]:
        """Return the ids of these sessions."""
        oldest = self._clock() - SESSION_TTL_S
        with self._lock:
            return {session_id for session_id, heard_s in self._heard_s.items() if heard_s >= oldest}

    def end(self, session_id: NodeId) -> None:
        """Drop a session."""
        with self._lock:
            self._heard_s.pop(session_id, None)

    def forget(self) -> None:
        """Drop all sessions."""
        with self._lock:
            self._heard_s.clear()


MOST_LINES: Final = 300


@dataclass(slots=True)
class HandedSession:
    """One session of an agent. `given` are the lines in its context, `tokens` their number of tokens.

    `prompt` is the last one, `exchange` the id of what it begins, `kept` that of the last one whose prompt survives a
    power cut, `unanswered` is one whose text did not arrive
    in time, `named` are the lines of the present moment
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
    exchange: str = ""
    kept: str = ""
    unanswered: str = ""
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

    def note_prompt(self, prompt: str, exchange: str) -> None:
        """Note the prompt that the agent has now."""
        self.prompt, self.exchange = prompt, exchange
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
