"""A method of the wire, and one call of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from .protocol import CANCELLED, ProtocolError, RequestId


class Cancelled(ProtocolError):
    """The client cancelled its request, or closed its connection."""

    code = CANCELLED


class Call:
    """One request while it is being answered. Every method may be used from any thread."""

    __slots__ = ("_cancelled", "_on_cancel", "_report", "id", "method")

    def __init__(
        self,
        request_id: RequestId | None,
        method: str,
        report: Callable[[str, int, int, str], None] | None = None,
    ) -> None:
        self.id = request_id
        self.method = method
        self._report = report
        self._cancelled = False
        self._on_cancel: list[Callable[[], None]] = []

    @property
    def cancelled(self) -> bool:
        """The client no longer waits for the answer."""
        return self._cancelled

    def raise_if_cancelled(self) -> None:
        """Raise Cancelled if the client no longer waits."""
        if self._cancelled:
            raise Cancelled("the request was cancelled")

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Call back once when the call is cancelled, in the server's loop; at once if it already is."""
        # Appended before the check: a cancellation in between runs the callback either there or here, never not at all.
        self._on_cancel.append(callback)
        if self._cancelled:
            self.cancel()

    def cancel(self) -> None:
        """Mark the call as cancelled and run the callbacks of `on_cancel`."""
        self._cancelled = True
        # Popped one by one, so that a callback runs once although `on_cancel` and `cancel` may race.
        while self._on_cancel:
            self._on_cancel.pop()()

    def progress(self, stage: str, done: int = 0, total: int = 0, note: str = "") -> None:
        """Report progress to the client; `total` 0: unknown. Only the latest report of a turn of the loop is sent."""
        if (report := self._report) is not None:
            report(stage, done, total, note)

    def end(self) -> None:
        """Drop the callbacks once the answer is sent: no cycle of references is left to the garbage collector."""
        self._report = None
        self._on_cancel.clear()


Parameters = TypeVar("Parameters", bound=BaseModel)
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Method(Generic[Parameters, Result]):
    """A method of the wire: the row of a table that server, client, documentation and tests share.

    `run` gets its `home` (the store, or a part of the daemon), checked parameters and the call, and returns the result,
    a coroutine, or a concurrent Future of it. `result` is the dataclass of the answer, and its type on the wire.
    `blocking`: it may take milliseconds, so it runs in a thread. `long`: it may take minutes, so it runs among the long
    ones, and a stop cancels it instead of waiting. `activity`: an agent is at work, so a dream yields. `first`: an
    agent waits for it, so it is answered before the rest. `outlives`: it keeps what its client said, so it is done
    although the client has left, as a notification is.
    """

    name: str
    params: type[Parameters]
    result: type[Result]
    run: Callable[[Any, Parameters, Call], Result | Awaitable[Result] | Future[Result]]
    blocking: bool = False
    activity: bool = False
    first: bool = False
    long: bool = False
    outlives: bool = False
    home: Any = None

    def of(self, home: Any) -> Method[Parameters, Result]:
        """Return the method as this home answers it."""
        return replace(self, home=home)

    def answer(self, params: Parameters, call: Call) -> Result | Awaitable[Result] | Future[Result]:
        """Run it in its home."""
        return self.run(self.home, params, call)
