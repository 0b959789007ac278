"""A connection to a model's server: one call at a time, bounded in time and size, ended from any thread."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx

from .language_model import LlmAborted, LlmEndless, LlmUnavailable
from .settings import LlmSettings

HEADROOM_BYTES = 2**20
# A streamed token takes some 150 bytes from Ollama, and some 300 from an OpenAI-compatible server.
BYTES_A_TOKEN = 1024
Result = TypeVar("Result")


class TooMuch(Exception):
    """An answer that exceeds the bound, or is compressed, so that its size is not known before it is unpacked."""


class ServerConnection:
    """Makes the calls of one model. Not for use inside a running event loop: each call runs its own."""

    def __init__(self, name: str, url: str, settings: LlmSettings) -> None:
        if not settings.allow_remote and not is_loopback(url):
            raise LlmUnavailable(
                f"{url} is not on this machine.",
                "Set llm.allow_remote = true if your memories may be sent there.",
            )
        self._name = name
        self._url = url
        self._most_bytes = HEADROOM_BYTES + BYTES_A_TOKEN * settings.answer_tokens
        self._guard = threading.Lock()
        self._socket: Any = None
        self._aborted = False

    def call(self, question: Callable[[Mapping[str, Any]], Awaitable[Result]], deadline_s: float) -> Result:
        """Make one call: `question` gets the options for an httpx client. The call is cancelled at the deadline.

        Raises LlmUnavailable, LlmRefused or LlmAborted, and the question's own other errors.
        """
        with self._guard:
            self._socket, self._aborted = None, False

        async def asked() -> Result:
            async with asyncio.timeout(deadline_s):
                return await question(self._options(deadline_s))

        try:
            answer = asyncio.run(asked())
        except Exception as error:
            raise self._as_llm_error(error, deadline_s) from None
        finally:
            with self._guard:
                self._socket = None
        # A stream that was shut down may look complete.
        if self._aborted:
            raise LlmAborted(f"{self._name} was stopped.")
        return answer

    def abort(self) -> None:
        """Shut down the socket of the current call, which tells the server before this returns."""
        with self._guard:
            self._aborted = True
            if self._socket is not None:
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)

    def _options(self, deadline_s: float) -> dict[str, Any]:
        # No proxies from the environment and no redirects: a request to this machine stays on it. Without TLS no
        # certificates are needed, whose loading costs 20 ms.
        verify = self._url.startswith("https:")
        return {
            "timeout": deadline_s,
            "follow_redirects": False,
            "trust_env": False,
            "transport": _Bounded(
                httpx.AsyncHTTPTransport(verify=verify, trust_env=False), self._most_bytes, self._connected
            ),
        }

    def _connected(self, stream: Any) -> None:
        """Store the socket for `abort`, and shut it down if that was called already."""
        with self._guard:
            self._socket = stream.get_extra_info("socket")
            # `abort` came before the connection: there was no socket to shut down yet.
            if self._aborted and self._socket is not None:
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)

    def _as_llm_error(self, error: Exception, deadline_s: float) -> Exception:
        if self._aborted:
            return LlmAborted(f"{self._name} was stopped.")
        if isinstance(error, TooMuch):
            return LlmEndless(f"{self._name} did not come to an end.", "Raise llm.answer_tokens, or use another model.")
        if isinstance(error, TimeoutError | httpx.TimeoutException):
            return LlmUnavailable(
                f"{self._name} did not answer within {deadline_s:g} s.", "Raise llm.deadline_s, or use a smaller model."
            )
        if isinstance(error, ConnectionError | httpx.HTTPError | httpx.InvalidURL):
            return LlmUnavailable(f"Cannot reach a model server at {self._url}.", "Start it, or set llm.base_url.")
        return error


class _Bounded(httpx.AsyncBaseTransport):
    """Requests uncompressed answers, counts their bytes, and reports its socket."""

    def __init__(self, inner: httpx.AsyncHTTPTransport, most_bytes: int, connected: Callable[[Any], None]) -> None:
        self._inner = inner
        self._most_bytes = most_bytes
        self._connected = connected

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["Accept-Encoding"] = "identity"
        request.extensions = {**request.extensions, "trace": self._trace}
        response = await self._inner.handle_async_request(request)
        # A compressed answer of few bytes may become gigabytes.
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            await response.aclose()
            raise TooMuch
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Counted(response.stream, self._most_bytes)
        return response

    async def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.complete":
            self._connected(info["return_value"])

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Counted(httpx.AsyncByteStream):
    def __init__(self, inner: httpx.AsyncByteStream, most_bytes: int) -> None:
        self._inner = inner
        self._left = most_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for data in self._inner:
            self._left -= len(data)
            if self._left < 0:
                raise TooMuch
            yield data

    async def aclose(self) -> None:
        await self._inner.aclose()


def is_loopback(url: str) -> bool:
    """Return True if an address can only mean this machine; of names only localhost counts."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
