"""A request between its arrival and its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

from ..call import Call, Handler
from ..protocol import Notification, ProtocolError, Request, RequestId


class Client(Protocol):
    """The connection that a request came from, as far as answering it needs one.

    `requests` are the open ones, by their key; `held`: its next messages wait until an ordered one is answered.
    """

    requests: dict[object, OpenRequest]
    held: bool

    def send(self, line: bytes) -> None:
        """Have a line written by the next `pump`."""
        ...

    def fail(self, request_id: RequestId | None, error: ProtocolError) -> None:
        """Answer with an error, unless it is of a notification."""
        ...

    def pump(self) -> None:
        """Write what is answered, and read on."""
        ...

    def end(self, request: OpenRequest) -> None:
        """Forget a request that is answered."""
        ...


class OpenRequest:
    """A request that is not answered yet: its client, its handler, its progress, and how its work is stopped.

    `key` names it among the open ones of its client: its id, or itself where a notification has none. `ordered`: its
    client's next messages wait until it is answered. `in_lane`: it waits for a thread, or has one, with `params`.
    `stop_work` stops its work, where that can be stopped; `timer` ends its patience.
    """

    __slots__ = (
        *("_post", "call", "client", "handler", "in_lane", "key", "ordered", "params", "progress", "progress_at"),
        *("stop_work", "timer"),
    )

    def __init__(
        self,
        client: Client,
        message: Request | Notification,
        handler: Handler,
        post: Callable[[OpenRequest, Future[Any] | None], None],
    ) -> None:
        request_id = message.id if isinstance(message, Request) else None
        self.client = client
        self.handler = handler
        self.key: object = self if request_id is None else request_id
        self.call = Call(request_id, message.method, self.report)
        self.ordered = self.in_lane = False
        self.progress: tuple[str, int, int, str] | None = None
        self.progress_at = 0.0
        self.stop_work: Callable[[], object] | None = None
        self.params: Any = None
        self.timer: asyncio.TimerHandle | None = None
        self._post = post

    def report(self, stage: str, done: int, total: int, note: str) -> None:
        """Have the latest progress sent, from any thread. While one waits to be sent, it is replaced."""
        waits = self.progress is not None
        self.progress = (stage, done, total, note)
        if not waits:
            self._post(self, None)
