"""The client for asyncio: standard library only. Calls share one connection, and cost at most their deadline."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from typing import Any

from .client import (
    HINT_LOG,
    HINT_SLOW,
    MAX_ANSWER_BYTES,
    RETRY_S,
    Absent,
    ClientError,
    OnProgress,
    Unreachable,
    empty_answer,
    hello_line,
    no_daemon,
    of_another_user,
    refuse_long_path,
    request_line,
    result_of,
)
from .protocol import Json, LineBuffer, encode_notification
from .socket_path import default_socket_path

NO_DAEMON = "what answers is not dreamd"


class AsyncClient:
    """One connection to the daemon, for one event loop; made at the first call, and again after it broke.

    `timeout_s` bounds every call, None waits for ever; `wait_s` is how long a daemon that is just starting is waited
    for, inside the timeout. A call that is cancelled, or out of time, is cancelled at the daemon too. `server` is the
    daemon's answer to `hello`.
    """

    def __init__(
        self, path: str | None = None, timeout_s: float | None = 10.0, wait_s: float = 0.5, name: str = "python"
    ) -> None:
        self.path = path or default_socket_path()
        self.server: Json = {}
        self._timeout_s = timeout_s
        self._wait_s = wait_s
        self._name = name
        self._last_id = 0
        self._connecting = asyncio.Lock()
        self._connection: _Connection | None = None

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def call(
        self, method: str, params: Mapping[str, Any] | None = None, on_progress: OnProgress | None = None
    ) -> Json:
        """Return the method's result. Raises DaemonError, or Unreachable after the timeout or without a daemon."""
        self._last_id += 1
        request_id = self._last_id
        request = request_line(request_id, method, dict(params or {}))
        # One timeout bounds connecting and asking, since an agent waits for the sum of both.
        try:
            async with asyncio.timeout(self._timeout_s):
                connection = await self._connected()
                return await connection.ask(request_id, request, on_progress)
        except TimeoutError:
            raise Unreachable(f"the daemon did not answer within {self._timeout_s:g} s", HINT_SLOW) from None
        except OSError as error:
            raise Absent(f"the connection to the daemon broke: {error}", HINT_LOG) from None

    async def close(self) -> None:
        """Close the connection; open calls fail, and the next one makes a new connection."""
        if (connection := self._connection) is not None:
            self._connection = None
            await connection.close()

    async def _connected(self) -> _Connection:
        # The lock keeps calls that start together from opening a connection each.
        async with self._connecting:
            if self._connection is None or self._connection.is_broken:
                refuse_long_path(self.path)
                self._connection = _Connection(*await self._open(), self.server)
                self._connection.send(hello_line(self._name))
            return self._connection

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        patience = loop.time() + self._wait_s
        while True:
            try:
                return await asyncio.open_unix_connection(self.path)
            except (FileNotFoundError, ConnectionRefusedError, BlockingIOError):
                if loop.time() + RETRY_S >= patience:
                    raise no_daemon(self.path) from None
            except PermissionError:
                raise of_another_user(self.path) from None
            await asyncio.sleep(RETRY_S)


class _Connection:
    """An open socket, the calls that wait on it, and the task that reads their answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: Json) -> None:
        self._reader = reader
        self._writer = writer
        self._server = server
        self._waiting: dict[int, asyncio.Future[Json]] = {}
        self._listening: dict[int, OnProgress | None] = {}
        self._broken: Exception | None = None
        self._task = asyncio.create_task(self._read())

    @property
    def is_broken(self) -> bool:
        """Return True once nothing more is answered."""
        return self._broken is not None

    def send(self, line: bytes) -> None:
        """Write a line."""
        self._writer.write(line)

    async def ask(self, request_id: int, request: bytes, on_progress: OnProgress | None) -> Json:
        """Return the result of a request; cancelled, it cancels the request at the daemon."""
        if self._broken is not None:
            raise self._broken
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        # Registered before the request is sent: the reading task may see the answer before this one runs again.
        self._waiting[request_id] = answer
        self._listening[request_id] = on_progress
        try:
            self.send(request)
            with contextlib.suppress(ConnectionError):  # turned away: why is there to be read
                await self._writer.drain()
            return result_of(await answer)
        # Without this the daemon would go on working for an answer that is dropped.
        except asyncio.CancelledError:
            if self._broken is None:
                self.send(encode_notification("cancel", {"id": request_id}))
            raise
        finally:
            self._waiting.pop(request_id, None)
            self._listening.pop(request_id, None)

    async def close(self) -> None:
        """Close the socket; open calls fail."""
        self._fail(ConnectionResetError("the client was closed"))
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def _read(self) -> None:
        buffer = LineBuffer(MAX_ANSWER_BYTES)
        try:
            while data := await self._reader.read(2**16):
                for line in buffer.lines(data):
                    self._take(line)
                if buffer.overflowed:
                    raise ConnectionResetError("an answer is longer than a line may be")
            raise ConnectionResetError("it was closed before the answer came")
        except OSError as error:
            self._fail(error)
            self._writer.close()

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            raise ConnectionResetError(NO_DAEMON) from None
        if type(message) is not dict:
            raise ConnectionResetError(NO_DAEMON)
        params: Mapping[str, Any] = message.get("params") or {}
        if message.get("method") == "progress":
            if (listen := self._listening.get(params.get("request", 0))) is not None:
                listen(dict(params))
        elif message.get("id") == "hello":
            self._server.update(message.get("result") or {})
        elif message.get("id") is None:  # the daemon has no room, or could not read what it was sent
            for waiting in self._waiting.values():
                _resolve(waiting, message)
        elif (waiting_one := self._waiting.get(message["id"])) is not None:
            _resolve(waiting_one, message)

    def _fail(self, error: Exception) -> None:
        self._broken = self._broken or error
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(error)


def _resolve(waiting: asyncio.Future[Json], message: Json) -> None:
    if not waiting.done():
        waiting.set_result(message)


async def recall_or_empty(query: str, deadline_s: float = 1.0, path: str | None = None, **params: Any) -> Json:
    """Return `recall`'s answer, or an empty one with the reason: an absent daemon must not stop an agent."""
    return await _or_empty("recall", {"query": query, **params}, deadline_s, path)


async def context_or_empty(
    query: str, budget_tokens: int = 1000, deadline_s: float = 1.0, path: str | None = None, **params: Any
) -> Json:
    """Return `context`'s envelope, or an empty one with the reason."""
    return await _or_empty("context", {"query": query, "budget_tokens": budget_tokens, **params}, deadline_s, path)


async def _or_empty(method: str, params: Json, deadline_s: float, path: str | None) -> Json:
    try:
        async with AsyncClient(path, deadline_s, wait_s=min(0.1, deadline_s)) as client:
            return await client.call(method, params)
    except ClientError as error:
        return empty_answer(method, error)
