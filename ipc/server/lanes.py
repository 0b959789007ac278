"""Which request gets the next free thread: round robin over connections, what an agent waits for before the rest."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .connection import Connection
    from .request import Running

REST_EVERY_S = 0.05
"""While requests of agents are answered without a pause, one of the rest is begun so often, so that none starves."""


class Lane:
    """Requests by connection; each turn of a connection takes one."""

    def __init__(self) -> None:
        self._waiting: dict[Connection, deque[Running]] = {}

    def put(self, running: Running) -> None:
        """Add behind what its connection has here already."""
        self._waiting.setdefault(running.connection, deque()).append(running)

    def take(self, has_room: Callable[[Connection], bool]) -> Running | None:
        """Remove the next of the connections that have room; its connection goes to the end of the round."""
        connection = next(filter(has_room, self._waiting), None)
        if connection is None:
            return None
        waiting = self._waiting.pop(connection)
        running = waiting.popleft()
        if waiting:
            self._waiting[connection] = waiting
        return running

    def drop(self, running: Running) -> bool:
        """Remove a request that nobody waits for; say whether it was here."""
        waiting = self._waiting.get(running.connection, ())
        if not waiting or running not in waiting:
            return False
        waiting.remove(running)
        if not waiting:
            del self._waiting[running.connection]
        return True


class Lanes:
    """Requests that wait for one of `threads`, of which `start` begins one. For the server's loop alone.

    `each`: so many of one connection are worked on at a time. `kept_free`: threads that only agents' requests get.
    Python runs one thread at a time, so while an agent's request is worked on, at most one of the rest is, and a new
    one only every REST_EVERY_S.
    """

    def __init__(
        self, start: Callable[[Running], None], clock: Callable[[], float], threads: int, each: int, kept_free: int = 0
    ) -> None:
        self._start = start
        self._clock = clock
        self._threads = threads
        self._each = each
        self._most_of_the_rest = max(1, threads - kept_free)
        self._agents, self._rest = Lane(), Lane()
        self._at_work: Counter[Connection] = Counter()
        self._rest_at_work = 0
        self._rest_began_at = float("-inf")
        self.agents_at_work = 0

    def put(self, running: Running) -> None:
        """Begin a request now or when its turn comes."""
        (self._agents if running.handler.first else self._rest).put(running)
        self._begin()

    def drop(self, running: Running) -> bool:
        """Forget a request that waits; False for one that is worked on."""
        return (self._agents if running.handler.first else self._rest).drop(running)

    def done(self, running: Running) -> None:
        """Give the thread of a request that has ended to the next one."""
        self._count(running, -1)
        self._begin()

    def _begin(self) -> None:
        while self._at_work.total() < self._threads and (running := self._next()) is not None:
            self._count(running, 1)
            self._start(running)

    def _next(self) -> Running | None:
        return self._agents.take(self._has_room) or (
            self._rest.take(self._has_room) if self._rest_may_begin() else None
        )

    def _has_room(self, connection: Connection) -> bool:
        """Give a connection its first thread, and one more only if another connection still finds one."""
        held = self._at_work[connection]
        return not held or (held < self._each and self._at_work.total() + 1 < self._threads)

    def _rest_may_begin(self) -> bool:
        if not self.agents_at_work:
            return self._rest_at_work < self._most_of_the_rest
        return not self._rest_at_work and self._clock() >= self._rest_began_at + REST_EVERY_S

    def _count(self, running: Running, change: int) -> None:
        self._at_work[running.connection] += change
        if not self._at_work[running.connection]:
            del self._at_work[running.connection]
        if running.handler.first:
            self.agents_at_work += change
            return
        self._rest_at_work += change
        if change > 0:
            self._rest_began_at = self._clock()
