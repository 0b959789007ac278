"""The client for asyncio: standard library only. Calls share one connection, and cost at most their deadline."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from .client import (
    HINT_LOG,
    HINT_SLOW,
    HINT_START,
    MAX_ANSWER_BYTES,
    RETRY_S,
    Absent,
    ClientError,
    Unreachable,
    empty_context,
    empty_recall,
    result_of,
    with_cwd,
    with_reason,
)
from .paths import default_socket_path, too_long
from .protocol import MAX_LINE_BYTES, PROTOCOL_VERSION, LineBuffer, encode_notification, encode_request, line_too_long

if TYPE_CHECKING:
    from .answers import ContextAnswer, RecallAnswer
    from .typed_calls import AsyncCall, OnProgress, Params

NO_DAEMON = "what answers is not dreamd"


class AsyncClient:
    """One connection to the daemon, for one event loop; made at the first call, and again after it broke.

    `timeout_s` bounds every call, None waits for ever; `wait_s` is how long a daemon that is just starting is waited
    for, inside the timeout. A call that is cancelled, or out of time, is taken back from the daemon. `server` holds the
    daemon's answer to `hello`.
    """

    def __init__(
        self, path: str | None = None, timeout_s: float | None = 10.0, wait_s: float = 0.5, name: str = "python"
    ) -> None:
        self.path = path or default_socket_path()
        self.server: dict[str, Any] = {}
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

    @property
    def call(self) -> AsyncCall:
        """Ask a method. Raises DaemonError, or Unreachable after the timeout or without a daemon."""
        return cast("AsyncCall", self._call)

    async def close(self) -> None:
        """Let go of the connection; calls that are open fail, the next one makes a new connection."""
        if (connection := self._connection) is not None:
            self._connection = None
            await connection.close()

    async def _call(self, method: str, params: Params = None, on_progress: OnProgress = None) -> dict[str, Any]:
        self._last_id += 1
        request_id = self._last_id
        request = encode_request(request_id, method, with_cwd(method, dict(params or {})))
        if len(request) > MAX_LINE_BYTES:
            too_long_a_line = line_too_long()
            raise ClientError(str(too_long_a_line), too_long_a_line.hint)
        try:
            async with asyncio.timeout(self._timeout_s):
                connection = await self._connected()
                return await connection.ask(request_id, request, on_progress)
        except TimeoutError:
            raise Unreachable(f"the daemon did not answer within {self._timeout_s:g} s", HINT_SLOW) from None
        except OSError as error:
            raise Absent(f"the connection to the daemon broke: {error}", HINT_LOG) from None

    async def _connected(self) -> _Connection:
        async with self._connecting:
            if self._connection is None or self._connection.is_broken:
                if complaint := too_long(self.path):
                    raise Unreachable(complaint, "set DREAMD_SOCKET to a shorter path")
                self._connection = _Connection(*await self._open(), self.server)
                self._connection.send(
                    encode_request("hello", "hello", {"client": self._name, "protocol": PROTOCOL_VERSION})
                )
            return self._connection

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        patience = loop.time() + self._wait_s
        while True:
            try:
                return await asyncio.open_unix_connection(self.path)
            except (FileNotFoundError, ConnectionRefusedError, BlockingIOError):
                if loop.time() + RETRY_S >= patience:
                    raise Absent(f"no daemon answers at {self.path}", HINT_START) from None
            except PermissionError:
                raise Unreachable(f"{self.path} belongs to another user", "set DREAMD_SOCKET to your own") from None
            await asyncio.sleep(RETRY_S)


class _Connection:
    """An open socket, the calls that wait on it, and the task that reads their answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: dict[str, Any]) -> None:
        self._reader = reader
        self._writer = writer
        self._server = server
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._listening: dict[int, OnProgress] = {}
        self._broken: Exception | None = None
        self._task = asyncio.create_task(self._read())

    @property
    def is_broken(self) -> bool:
        """Return True once nothing more is answered."""
        return self._broken is not None

    def send(self, line: bytes) -> None:
        """Have a line written."""
        self._writer.write(line)

    async def ask(self, request_id: int, request: bytes, on_progress: OnProgress) -> dict[str, Any]:
        """Return the result of a request; one that is not waited for any more is taken back."""
        if self._broken is not None:
            raise self._broken
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = answer
        self._listening[request_id] = on_progress
        try:
            self.send(request)
            with contextlib.suppress(ConnectionError):  # turned away: why is there to be read
                await self._writer.drain()
            return result_of(await answer)
        except asyncio.CancelledError:
            if self._broken is None:
                self.send(encode_notification("cancel", {"id": request_id}))
            raise
        finally:
            self._waiting.pop(request_id, None)
            self._listening.pop(request_id, None)

    async def close(self) -> None:
        """End the reading and the socket; what waits fails."""
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


def _resolve(waiting: asyncio.Future[dict[str, Any]], message: dict[str, Any]) -> None:
    if not waiting.done():
        waiting.set_result(message)


async def recall_or_empty(query: str, deadline_s: float = 1.0, path: str | None = None, **params: Any) -> RecallAnswer:
    """Return `recall`'s answer, or an empty one that says why: a memory that is away must not stop an agent."""
    answer = await _or_empty("recall", {"query": query, **params}, {**empty_recall()}, deadline_s, path)
    return cast("RecallAnswer", answer)


async def context_or_empty(
    query: str, budget_tokens: int = 1000, deadline_s: float = 1.0, path: str | None = None, **params: Any
) -> ContextAnswer:
    """Return `context`'s envelope, or an empty one that says why."""
    asked = {"query": query, "budget_tokens": budget_tokens, **params}
    return cast("ContextAnswer", await _or_empty("context", asked, {**empty_context()}, deadline_s, path))


async def _or_empty(
    method: str, params: dict[str, Any], empty: dict[str, Any], deadline_s: float, path: str | None
) -> dict[str, Any]:
    try:
        async with AsyncClient(path, deadline_s, wait_s=min(0.1, deadline_s)) as client:
            return cast("dict[str, Any]", await client.call(method, params))
    except ClientError as error:
        return with_reason(empty, error)
