"""One agent's MCP session over a connection: how it begins, lines in, lines out, and the requests that it makes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from hashlib import sha256
from importlib import import_module
from typing import Annotated, Any

from loguru import logger
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...store.names import Name, User
from ..answers import hello_answer
from ..errors import invalid_params
from ..params import Folder
from ..protocol import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    Json,
    Notification,
    ProtocolError,
    Request,
    RequestId,
    encode_answer,
    encode_error,
)
from ..server.connection import Connection
from ..server.lanes import OpenRequest
from ..server.server import Server
from .exchange import PROBE


class WireClient:
    """One client in the server's lanes: bounded, fair, cancellable, and seen as an agent's activity."""

    def __init__(self, server: Server, user: str | None = None) -> None:
        """`user` is one of several, for whom all is asked: a method that is the owner's alone refuses it."""
        self._user = user
        self.requests: dict[object, OpenRequest] = {}
        self.paused = False
        self._server = server
        self._last_id = 0
        self._answers: dict[RequestId, asyncio.Future[Json]] = {}

    async def call(self, method: str, params: Json) -> Json:
        """Return a method's result. Raises ProtocolError; cancelled, it cancels the request."""
        self._last_id += 1
        request_id = self._last_id
        params = params if self._user is None else {**params, "user_id": self._user}
        # The server decides by the size of the line if a message is long; here there is no line, so it is estimated.
        size_bytes = sum(len(value) for value in params.values() if isinstance(value, str))
        answer = self._answers[request_id] = self._server.loop.create_future()
        try:
            self._server.begin(self, Request(request_id, method, params, size_bytes))
            message = await answer
        finally:
            del self._answers[request_id]
            # Still open: the task of this call was cancelled, since its agent cancelled the tool or left.
            if (request := self.requests.get(request_id)) is not None:
                self._server.cancel(request)
        if (error := message.get("error")) is not None:
            raise ProtocolError(error["message"], error["data"]["hint"], error["code"])
        result: Json = message["result"]
        return result

    def send(self, line: bytes) -> None:
        """Hand an answer to the call that waits for it; progress is dropped."""
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
            self.paused = False


LISTEN = "subscriptions/listen"
MOST_LISTENING = 16


class McpSession:
    """An agent, as far as it is known, and its open requests. The SDK is imported with the first session, in a thread.

    `known` has the agent's `cwd`, `agent`, `session`, `user` and `relay`, as far as it sent them. A request is open
    until it is answered or cancelled; one that listens stays open, and nothing waits for it.
    """

    def __init__(self, server: Server, connection: Connection, known: Mapping[str, str]) -> None:
        self.known = known
        self.wire = WireClient(server, known.get("user"))
        self._connection = connection
        self._most_open = server.settings.max_in_flight
        self._incoming: asyncio.Queue[Json | None] = asyncio.Queue()
        self._open: dict[str, str] = {}
        self._ended = False
        self._serving = server.loop.create_task(self._serve())

    @property
    def open_count(self) -> int:
        """Count the requests that are owed an answer."""
        return sum(method != LISTEN for method in self._open.values())

    @property
    def has_room(self) -> bool:
        """Return True while another line is taken."""
        return self.open_count < self._most_open and self._incoming.qsize() < self._most_open

    def receive(self, line: bytes) -> None:
        """Take in a message of the agent's."""
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._refuse(ProtocolError("the line is not JSON", code=PARSE_ERROR))
            return
        if type(message) is not dict or message.get("jsonrpc") != "2.0":
            self._refuse(ProtocolError('a message is an object with "jsonrpc": "2.0"', code=INVALID_REQUEST))
            return
        request_id, method = message.get("id"), message.get("method")
        if "id" in message and type(request_id) not in (int, str):
            self._refuse(ProtocolError('"id" must be an integer or a string', code=INVALID_REQUEST))
            return
        # Answered here and not by the SDK, so that the answer proves the loop alone.
        if method == PROBE and request_id is not None:
            self._connection.send(encode_answer(request_id, {}))
            return
        if request_id is not None and type(method) is str:
            self._open[str(request_id)] = method
        elif method == "notifications/cancelled" and type(params := message.get("params")) is dict:
            self._open.pop(str(params.get("requestId")), None)  # the SDK answers a cancelled request with nothing
        self._incoming.put_nowait(message)

    async def next(self) -> Json | None:
        """Wait for the agent's next message; None at the end."""
        message = await self._incoming.get()
        if not self._ended:
            self._connection.pump()  # there is room for another line
        return message

    def answer(self, line: bytes, request_id: object = None) -> None:
        """Send a line; with an id, it is the answer to that request."""
        if request_id is not None:
            self._open.pop(str(request_id), None)
        if not self._ended:
            self._connection.send(line + b"\n")
            self._connection.pump()

    def may_listen(self) -> bool:
        """Return True while no more than MOST_LISTENING requests listen."""
        return sum(method == LISTEN for method in self._open.values()) <= MOST_LISTENING

    def end(self) -> None:
        """Stop all work: the client is gone, or the server ends."""
        if not self._ended:
            self._ended = True
            self._open.clear()
            self._incoming.put_nowait(None)

    def idempotency_key(self, request_id: object, arguments: Mapping[str, Any]) -> str | None:
        """Return the same key for the same call of the same relay, over any connection; None without a relay."""
        if not (relay := self.known.get("relay")):
            return None
        # The relay's random name makes ids of different agents distinct, and survives a restart of the daemon.
        call = json.dumps([relay, request_id, arguments], sort_keys=True)
        return f"mcp:{sha256(call.encode()).hexdigest()}"

    def _refuse(self, error: ProtocolError) -> None:
        self._connection.send(encode_error(None, error))

    async def _serve(self) -> None:
        try:
            # In a thread: the import takes a second, in which the loop answers others.
            service = await asyncio.to_thread(import_module, ".service", __package__)
            await service.serve(self)
        except Exception as error:
            logger.error("an MCP session ended with {}", type(error).__name__)
            self._refuse(ProtocolError("dreamd cannot serve MCP", "`dreamctl log` has the reason", INTERNAL_ERROR))
        finally:
            self._open.clear()
            if not self._ended:
                self._ended = True
                self._connection.close()


ATTACH = "mcp.attach"
"""The first line by which a connection becomes an MCP session."""


class AttachParams(BaseModel):
    """The parties to a session: the agent's folder and name, its own session, and the process that relays it.

    Further parameters of a newer relay are ignored.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    cwd: Folder | None = None
    agent: Name | None = None
    session: Name | None = None
    user: User | None = None
    relay: Annotated[str, Field(max_length=64)] = ""


def attach(server: Server, connection: Connection, message: Request | Notification) -> McpSession:
    """Begin an MCP session on a connection; an attach with an id is answered first. Raises ProtocolError."""
    try:
        params = AttachParams.model_validate(message.params)
    except ValidationError as error:
        raise invalid_params(error, AttachParams) from None
    if isinstance(message, Request):
        connection.send(encode_answer(message.id, hello_answer()))
    return McpSession(server, connection, params.model_dump(exclude_none=True))
