"""A request between its arrival and its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from ..call import Call, Handler
from ..protocol import Notification, Request

if TYPE_CHECKING:
    from .connection import Connection
    from .lanes import Lanes


class Running:
    """Who asked, what answers, how far it is, and how its work is stopped.

    `lanes` are those in which it waits for a thread, or has one, with `params`; `timer` ends its patience.
    """

    __slots__ = (
        *("_post", "call", "connection", "handler", "key", "lanes", "ordered", "params", "progress", "progress_at"),
        *("stop_work", "timer"),
    )

    def __init__(
        self,
        connection: Connection,
        request: Request | Notification,
        handler: Handler,
        post: Callable[[Running, Future[Any] | None], None],
    ) -> None:
        request_id = request.id if isinstance(request, Request) else None
        self.connection = connection
        self.handler = handler
        self.key: object = self if request_id is None else request_id
        self.call = Call(request_id, request.method, self.report)
        self.ordered = False
        self.progress: tuple[str, int, int, str] | None = None
        self.progress_at = 0.0
        self.stop_work: Callable[[], object] | None = None
        self.params: Any = None
        self.lanes: Lanes | None = None
        self.timer: asyncio.TimerHandle | None = None
        self._post = post

    def report(self, stage: str, done: int, total: int, note: str) -> None:
        """From any thread: have the latest progress sent. While one waits to be sent, it is replaced."""
        waits = self.progress is not None
        self.progress = (stage, done, total, note)
        if not waits:
            self._post(self, None)
