"""The order in which the loop handles messages: round robin over connections, in a bounded share of its time.

A turn handles at most MESSAGES_A_TURN messages of one connection, and turns follow each other for SHARE_S at most; then
the loop reads and writes, and the rest waits. With A flooding and B sending one message, of 0.05 ms each:

    A has 500 messages, B has 1    A's 16 (0.8 ms), B's 1, A's next 3: SHARE_S is used up, A goes last in the round
    no agent waits for an answer   go on at the loop's next turn
    an agent waits                 go on when the window of WINDOW_S is over: its thread has 3 of 4 ms
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

MESSAGES_A_TURN = 16
WINDOW_S, SHARE_S = 0.004, 0.001
"""While an agent's request is worked on, messages take at most this share of each window.

Python runs one thread at a time and hands over every half millisecond: beside a flood of pings, handled as fast as they
come, a recall took five times as long.
"""


class Waiting(Protocol):
    """A connection, as far as taking turns goes: it begins some of the messages that wait."""

    def begin_some(self, most: int, until_s: float) -> bool:
        """Begin at most so many messages, until a moment of the loop's clock; say if more could be."""
        ...


class Turns:
    """The connections whose messages wait to be begun. `is_answering` says that an agent's request is worked on."""

    def __init__(self, loop: asyncio.AbstractEventLoop, is_answering: Callable[[], bool]) -> None:
        self._loop = loop
        self._is_answering = is_answering
        self._waiting: dict[Waiting, None] = {}
        self._taking = self._resting = False
        self._window_s = self._spent_s = 0.0

    def want(self, connection: Waiting) -> None:
        """Handle a connection's messages: now, unless others have used up what there is for now."""
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
        if self._is_answering():
            self._loop.call_at(self._window_s + WINDOW_S, self._go_on)
        else:
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._resting = False
        self._window_s, self._spent_s = self._loop.time(), 0.0
        self._take()
