"""The order in which requests get threads: round robin over clients, and what an agent waits for before the rest.

Two lanes, one of agents' requests (recall, context) and one of the rest, each with a queue per client. With 4 threads,
of which 2 are kept free, and at most 2 a client (`A1` is client A's first request):

    rest A1 A2 A3 B1   begin A1 and A2; two threads are kept free, so A3 and B1 wait
    agents C1 C2       begin C1; C2 would be C's second and take the last thread, which another client might need
    A1 ends            begin C2; B1 still waits, since A2 is worked on beside an agent's request
    A2 ends            begin A3, if REST_EVERY_S have passed since A2 began, otherwise at the next event after that
    C1 and C2 end      begin B1: agents slow the rest down, and do not starve it
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable

from .request import Client, OpenRequest

REST_EVERY_S = 0.05
"""While requests of agents are answered without a pause, one of the rest is begun so often, so that none starves."""


class Lane:
    """Requests by client; each turn of a client takes one."""

    def __init__(self) -> None:
        self._waiting: dict[Client, deque[OpenRequest]] = {}

    def put(self, request: OpenRequest) -> None:
        """Add behind what its client has here already."""
        self._waiting.setdefault(request.client, deque()).append(request)

    def take(self, has_room: Callable[[Client], bool]) -> OpenRequest | None:
        """Remove the first request of the next client that has room; that client goes to the end of the round."""
        client = next(filter(has_room, self._waiting), None)
        if client is None:
            return None
        waiting = self._waiting.pop(client)
        request = waiting.popleft()
        if waiting:
            self._waiting[client] = waiting
        return request

    def drop(self, request: OpenRequest) -> bool:
        """Remove a request whose answer is not wanted any more; say whether it was here."""
        waiting = self._waiting.get(request.client, ())
        if not waiting or request not in waiting:
            return False
        waiting.remove(request)
        if not waiting:
            del self._waiting[request.client]
        return True


class Lanes:
    """Requests that wait for one of `threads`, of which `start` begins one. For the server's loop alone.

    `each`: so many of one client are worked on at a time. `kept_free`: threads that only agents' requests get.
    Python runs one thread at a time, so while an agent's request is worked on, at most one of the rest is, and a new
    one only every REST_EVERY_S.
    """

    def __init__(
        self,
        start: Callable[[OpenRequest], None],
        clock: Callable[[], float],
        threads: int,
        each: int,
        kept_free: int = 0,
    ) -> None:
        self._start = start
        self._clock = clock
        self._threads = threads
        self._each = each
        self._most_of_the_rest = max(1, threads - kept_free)
        self._agents, self._rest = Lane(), Lane()
        self._at_work: Counter[Client] = Counter()
        self._rest_at_work = 0
        self._rest_began_at = float("-inf")
        self.agents_at_work = 0

    def put(self, request: OpenRequest) -> None:
        """Begin a request now or when its turn comes."""
        (self._agents if request.handler.first else self._rest).put(request)
        self._begin()

    def drop(self, request: OpenRequest) -> bool:
        """Forget a request that waits; False for one that is worked on."""
        return (self._agents if request.handler.first else self._rest).drop(request)

    def done(self, request: OpenRequest) -> None:
        """Give the thread of a request that has ended to the next one."""
        self._count(request, -1)
        self._begin()

    def _begin(self) -> None:
        while self._at_work.total() < self._threads and (request := self._next()) is not None:
            self._count(request, 1)
            self._start(request)

    def _next(self) -> OpenRequest | None:
        return self._agents.take(self._has_room) or (
            self._rest.take(self._has_room) if self._rest_may_begin() else None
        )

    def _has_room(self, client: Client) -> bool:
        """Give a client its first thread, and one more only if another client still finds one."""
        held = self._at_work[client]
        return not held or (held < self._each and self._at_work.total() + 1 < self._threads)

    def _rest_may_begin(self) -> bool:
        if not self.agents_at_work:
            return self._rest_at_work < self._most_of_the_rest
        return not self._rest_at_work and self._clock() >= self._rest_began_at + REST_EVERY_S

    def _count(self, request: OpenRequest, change: int) -> None:
        self._at_work[request.client] += change
        if not self._at_work[request.client]:
            del self._at_work[request.client]
        if request.handler.first:
            self.agents_at_work += change
            return
        self._rest_at_work += change
        if change > 0:
            self._rest_began_at = self._clock()
