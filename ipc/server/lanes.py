"""Open requests, and the order in which they are begun and get threads.

Two lanes, one of agents' requests (recall, context) and one of the rest, each with a queue per client. With 4 threads,
of which 2 are kept free, and at most 2 a client (`A1` is client A's first request):

    rest A1 A2 A3 B1   begin A1 and A2; two threads are kept free, so A3 and B1 wait
    agents C1 C2       begin C1; C2 would be C's second and take the last thread, which another client might need
    A1 ends            begin C2; B1 still waits, since A2 is worked on beside an agent's request
    A2 ends            begin A3, if REST_EVERY_S have passed since A2 began, otherwise at the next event after that
    C1 and C2 end      begin B1: agents slow the rest down, and do not starve it

Before that the loop handles messages, round robin over connections and in a bounded share of its time: a turn handles
at most MESSAGES_A_TURN messages of one connection, and turns follow each other for SHARE_S at most; then the loop reads
and writes, and the rest waits. With A flooding and B sending one message, of 0.05 ms each:

    A has 500 messages, B has 1    A's 16 (0.8 ms), B's 1, A's next 3: SHARE_S is used up, A goes last in the round
    no agent waits for an answer   go on at the loop's next turn
    an agent waits                 go on when the window of WINDOW_S is over: its thread has 3 of 4 ms
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

from ..call import Call, Method
from ..protocol import Notification, ProtocolError, Request, RequestId


class Requester(Protocol):
    """The connection that a request came from, as far as answering it needs one.

    `requests` are the open ones, by their key; `paused`: further messages wait until an ordered one is answered.
    """

    requests: dict[object, OpenRequest]
    paused: bool

    def send(self, line: bytes) -> None:
        """Queue a line for the next `pump`."""
        ...

    def fail(self, request_id: RequestId | None, error: ProtocolError) -> None:
        """Answer with an error, unless it is of a notification."""
        ...

    def pump(self) -> None:
        """Write the answers, and read on."""
        ...

    def end(self, request: OpenRequest) -> None:
        """Drop a request that is answered."""
        ...


class OpenRequest:
    """A request that is not answered yet: its client, its method, its progress, and how its work is stopped.

    `key` names it among the open ones of its client: its id, or itself where a notification has none. `ordered`: its
    client's next messages wait until it is answered. `in_lane`: it waits for a thread, or has one, with `params`.
    `stop_work` stops its work, where that can be stopped; `timer` ends its patience. `began_s` and `worked_s` are the
    times of its beginning, and of its thread's, by the loop's clock.
    """

    __slots__ = (
        *("_post", "call", "client", "in_lane", "key", "method", "ordered", "params", "progress", "progress_at"),
        *("stop_work", "timer", "began_s", "worked_s"),
    )

    def __init__(
        self,
        client: Requester,
        message: Request | Notification,
        method: Method[Any, Any],
        post: Callable[[OpenRequest, Future[Any] | None], None],
    ) -> None:
        request_id = message.id if isinstance(message, Request) else None
        self.client = client
        self.method = method
        self.key: object = self if request_id is None else request_id
        self.call = Call(request_id, message.method, self.report)
        self.ordered = self.in_lane = False
        self.progress: tuple[str, int, int, str] | None = None
        self.progress_at = self.began_s = self.worked_s = 0.0
        self.stop_work: Callable[[], object] | None = None
        self.params: Any = None
        self.timer: asyncio.TimerHandle | None = None
        self._post = post

    def report(self, stage: str, done: int, total: int, note: str) -> None:
        """Send the latest progress, from any thread. One that is not sent yet is replaced."""
        waits = self.progress is not None
        self.progress = (stage, done, total, note)
        if not waits:
            self._post(self, None)


REST_EVERY_S = 0.05
"""While agents' requests leave no pause, one of the rest is begun at this interval, so that none starves."""


class Lane:
    """Requests by client; each turn of a client takes one."""

    def __init__(self) -> None:
        self._waiting: dict[Requester, deque[OpenRequest]] = {}

    def put(self, request: OpenRequest) -> None:
        """Append to the queue of its client."""
        self._waiting.setdefault(request.client, deque()).append(request)

    def take(self, has_room: Callable[[Requester], bool]) -> OpenRequest | None:
        """Remove the first request of the next client that has room; that client goes to the end of the round."""
        # A dict keeps insertion order, so it is the round: the first client that has room, which then goes last.
        client = next(filter(has_room, self._waiting), None)
        if client is None:
            return None
        waiting = self._waiting.pop(client)
        request = waiting.popleft()
        if waiting:
            self._waiting[client] = waiting
        return request

    def drop(self, request: OpenRequest) -> bool:
        """Remove a request that was cancelled; return True if it was here."""
        waiting = self._waiting.get(request.client, ())
        if not waiting or request not in waiting:
            return False
        waiting.remove(request)
        if not waiting:
            del self._waiting[request.client]
        return True


class Lanes:
    """Requests that wait for one of `threads`, of which `start` begins one. For the server's loop alone.

    `each`: the most threads of one client. `kept_free`: threads that only agents' requests get.
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
        self._at_work: Counter[Requester] = Counter()
        self._rest_at_work = 0
        self._rest_began_at = float("-inf")
        self.agents_at_work = 0

    def put(self, request: OpenRequest) -> None:
        """Begin a request now or when its turn comes."""
        (self._agents if request.method.first else self._rest).put(request)
        self._begin()

    def drop(self, request: OpenRequest) -> bool:
        """Drop a request that waits; return False for one that has a thread."""
        return (self._agents if request.method.first else self._rest).drop(request)

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

    def _has_room(self, client: Requester) -> bool:
        """Give a client its first thread, and one more only if another client still finds one."""
        at_work = self._at_work[client]
        # `+ 1 < threads`: the last free thread is left to a client that has none.
        return not at_work or (at_work < self._each and self._at_work.total() + 1 < self._threads)

    def _rest_may_begin(self) -> bool:
        if not self.agents_at_work:
            return self._rest_at_work < self._most_of_the_rest
        return not self._rest_at_work and self._clock() >= self._rest_began_at + REST_EVERY_S

    def _count(self, request: OpenRequest, change: int) -> None:
        self._at_work[request.client] += change
        # A client is a key here; without this, each one that ever connected would stay in memory.
        if not self._at_work[request.client]:
            del self._at_work[request.client]
        if request.method.first:
            self.agents_at_work += change
            return
        self._rest_at_work += change
        if change > 0:
            self._rest_began_at = self._clock()


MESSAGES_A_TURN = 16
WINDOW_S, SHARE_S = 0.004, 0.001
"""While an agent's request is worked on, messages take at most this share of each window.

Python runs one thread at a time and hands over every half millisecond: with a flood of pings, handled at once, a
recall took five times as long.
"""


class TurnTaker(Protocol):
    """A connection, as far as taking turns goes: it begins some of the messages that wait."""

    def begin_some(self, most: int, until_s: float) -> bool:
        """Begin at most `most` messages, until a moment of the loop's clock; return True if more could begin."""
        ...


class Turns:
    """The connections with waiting messages. `is_answering` returns True while an agent's request has a thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, is_answering: Callable[[], bool]) -> None:
        self._loop = loop
        self._is_answering = is_answering
        self._waiting: dict[TurnTaker, None] = {}
        self._taking = self._resting = False
        self._window_s = self._spent_s = 0.0

    def want(self, connection: TurnTaker) -> None:
        """Handle a connection's messages: now, unless the others have used up this window."""
        self._waiting.setdefault(connection)
        if not self._taking and not self._resting:
            self._take()

    def _take(self) -> None:
        now = self._loop.time()
        if now > self._window_s + WINDOW_S:
            self._window_s, self._spent_s = now, 0.0
        self._taking = True
        try:
            while self._waiting and self._spent_s < SHARE_S:
                connection = next(iter(self._waiting))
                del self._waiting[connection]
                # Put back at the end of the round, behind those that came meanwhile.
                if connection.begin_some(MESSAGES_A_TURN, now + SHARE_S - self._spent_s):
                    self._waiting[connection] = None
                began, now = now, self._loop.time()
                self._spent_s += now - began
        finally:
            self._taking = False
        if self._waiting:
            self._rest()

    def _rest(self) -> None:
        """Let the loop read and write, and, where an answer is worked on, its thread run."""
        self._resting = True
        # `call_soon` alone would take the interpreter's lock again before the answering thread could.
        if self._is_answering():
            self._loop.call_at(self._window_s + WINDOW_S, self._go_on)
        else:
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._resting = False
        self._window_s, self._spent_s = self._loop.time(), 0.0
        self._take()
