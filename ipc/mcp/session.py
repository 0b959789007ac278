"""One agent's MCP session over a connection: lines in, lines out, and the requests that it owes an answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from hashlib import sha256
from importlib import import_module
from typing import TYPE_CHECKING, Any

from loguru import logger

from ..protocol import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR, ProtocolError, encode_answer, encode_error
from .exchange import PROBE
from .wire_client import WireClient

if TYPE_CHECKING:
    from ..server.connection import Connection
    from ..server.server import Server

LISTEN = "subscriptions/listen"
MOST_LISTENING = 16

Message = dict[str, Any]


class McpSession:
    """An agent, as far as it is known, and its open requests. The SDK is imported with the first session, in a thread.

    `known` has the agent's `cwd`, `agent`, `session` and `relay`, as far as it told them. A request is open until it is
    answered or cancelled; one that listens stays open and is owed nothing.
    """

    def __init__(self, server: Server, connection: Connection, known: Mapping[str, str]) -> None:
        self.known = known
        self.wire = WireClient(server)
        self._connection = connection
        self._most_open = server.settings.max_in_flight
        self._incoming: asyncio.Queue[Message | None] = asyncio.Queue()
        self._open: dict[str, str] = {}
        self._ended = False
        self._serving = server.loop.create_task(self._serve())

    @property
    def open_count(self) -> int:
        """Count the requests that are owed an answer."""
        return sum(method != LISTEN for method in self._open.values())

    @property
    def has_room(self) -> bool:
        """Say whether another line is taken."""
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
        if method == PROBE and request_id is not None:
            self._connection.send(encode_answer(request_id, {}))
            return
        if request_id is not None and type(method) is str:
            self._open[str(request_id)] = method
        elif method == "notifications/cancelled" and type(params := message.get("params")) is dict:
            self._open.pop(str(params.get("requestId")), None)  # the SDK answers a cancelled request with nothing
        self._incoming.put_nowait(message)

    async def next(self) -> Message | None:
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
        """Say whether so many requests may listen."""
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
        call = json.dumps([relay, request_id, arguments], sort_keys=True)
        return f"mcp:{sha256(call.encode()).hexdigest()}"

    def _refuse(self, error: ProtocolError) -> None:
        self._connection.send(encode_error(None, error))

    async def _serve(self) -> None:
        try:
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
