"""A client of the wire inside the daemon: what an agent calls by MCP goes the way of everybody's requests."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from ..protocol import ProtocolError, Request, RequestId, encode_error

if TYPE_CHECKING:
    from ..server.request import OpenRequest
    from ..server.server import Server


class WireClient:
    """One client in the server's lanes: bounded, fair, cancellable, and seen as an agent's activity."""

    def __init__(self, server: Server) -> None:
        self.requests: dict[object, OpenRequest] = {}
        self.held = False
        self._server = server
        self._last_id = 0
        self._answers: dict[RequestId, asyncio.Future[dict[str, Any]]] = {}

    async def call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return a method's result. Raises ProtocolError; cancelled, it cancels the request."""
        self._last_id += 1
        request_id = self._last_id
        size_bytes = sum(len(value) for value in params.values() if isinstance(value, str))
        answer = self._answers[request_id] = self._server.loop.create_future()
        try:
            self._server.begin(self, Request(request_id, method, params, size_bytes))
            message = await answer
        finally:
            del self._answers[request_id]
            if (request := self.requests.get(request_id)) is not None:
                self._server.cancel(request)
        if (error := message.get("error")) is not None:
            raise ProtocolError(error["message"], error["data"]["hint"], error["code"])
        result: dict[str, Any] = message["result"]
        return result

    def send(self, line: bytes) -> None:
        """Hand an answer to who waits for it; progress is nobody's."""
        message = json.loads(line)
        waiting = self._answers.get(message.get("id", ""))
        if waiting is not None and not waiting.done():
            waiting.set_result(message)

    def fail(self, request_id: RequestId | None, error: ProtocolError) -> None:
        """Answer with an error."""
        if request_id is not None:
            self.send(encode_error(request_id, error))

    def pump(self) -> None:
        """Write nothing: each answer was handed over."""

    def end(self, request: OpenRequest) -> None:
        """Forget a request that is answered."""
        self.requests.pop(request.key, None)
        if request.ordered:
            self.held = False
