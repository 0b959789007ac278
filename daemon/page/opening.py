"""The method that opens the web page, and the life of its server: it is there while a person uses it, and then gone."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from loguru import logger
from pydantic import Field

from ...ipc.call import Call, Method
from ...ipc.params import Params
from ...ipc.protocol import Refused

if TYPE_CHECKING:
    from ...ipc.server.server import Server
    from .guard import Guard

HOST = "127.0.0.1"
IDLE_S = 600.0
"""The page is closed after so long without a request of a person's."""

LOOKED_AT_EVERY_S = 1.0
CLOSING_S = 2.0


class OpenParams(Params):
    """The place to begin at, a path of the page."""

    at: Annotated[str, Field(max_length=1024, pattern=r"^/([\x21-\x2e\x30-\x5b\x5d-\x7e][\x21-\x5b\x5d-\x7e]*)?$")] = (
        "/"
    )


@dataclass(frozen=True, slots=True)
class OpenAnswer:
    """The address to open, good once and for a minute; the page is gone after `idle_s` without a request."""

    url: str
    idle_s: float


class WebPage:
    """The page: closed, or served on a free port of this machine. Its methods run in the daemon's loop."""

    def __init__(self, server: Callable[[], Server], *, enabled: bool = True, idle_s: float = IDLE_S) -> None:
        self._server = server
        self._enabled = enabled
        self._idle_s = idle_s
        self._guard: Guard | None = None
        self._serving: asyncio.Task[None] | None = None
        self._http: Any = None
        self._changing = asyncio.Lock()

    async def open(self, params: OpenParams, call: Call) -> OpenAnswer:
        """Serve the page, unless it is served already, and return an address that lets one browser in."""
        if not self._enabled:
            raise Refused("The page is switched off.", "Take `page = false` out of the settings.")
        async with self._changing:
            guard = self._guard
            if guard is None or self._serving is None or self._serving.done():
                guard = await self._start()
        return OpenAnswer(f"http://{HOST}:{guard.port}/?token={guard.invite(params.at)}", self._idle_s)

    async def stop(self) -> None:
        """Close the page: every browser is let out."""
        async with self._changing:
            serving, self._serving, self._guard = self._serving, None, None
            if serving is None:
                return
            self._http.should_exit = True
            with contextlib.suppress(TimeoutError, asyncio.CancelledError):
                await asyncio.wait_for(serving, CLOSING_S)

    async def _start(self) -> Guard:
        # In a thread: the libraries cost half a second of a processor, in which the loop answers others.
        guard_of, http_of = await asyncio.to_thread(_imported)
        # By its protocol asyncio knows that small packets are not to be held back: 40 ms an answer otherwise.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.bind((HOST, 0))
            guard: Guard = guard_of(self._server(), listener.getsockname()[1], time.monotonic)
            self._http = http_of(guard)
        except BaseException:
            listener.close()
            raise
        self._guard = guard
        self._serving = asyncio.create_task(self._serve(listener, guard))
        while not self._http.started and not self._serving.done():
            await asyncio.sleep(0.005)
        logger.info("the page is open on port {}", guard.port)
        return guard

    async def _serve(self, listener: socket.socket, guard: Guard) -> None:
        watching = asyncio.create_task(self._close_when_idle(guard))
        try:
            await self._http.serve(sockets=[listener])
        except Exception as error:
            logger.error("the page ended with {}", type(error).__name__)
        finally:
            watching.cancel()
            listener.close()
            logger.info("the page is closed")

    async def _close_when_idle(self, guard: Guard) -> None:
        while guard.idle_s() < self._idle_s:
            await asyncio.sleep(min(LOOKED_AT_EVERY_S, self._idle_s))
        self._http.should_exit = True


def _imported() -> tuple[Callable[..., Guard], Callable[[Any], Any]]:
    """Import the libraries of the page, which only a page costs; return the makers of its guard and its server."""
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    from .guard import PEER, Guard, uid_of
    from .site import site_of

    class HttpServer(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Any:
            """Leave signals to the daemon."""
            yield

    class PeerProtocol(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            """Look the other end's user up once: the kernel's table takes milliseconds to read."""
            super().connection_made(transport)
            port = self.server[1] if self.server else None
            self.app_state = {**self.app_state, PEER: uid_of(self.client, port or 0)}

    def http_of(app: Any) -> Any:
        config = uvicorn.Config(
            app,
            loop="none",
            http=PeerProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=64,
            h11_max_incomplete_event_size=2**15,
            timeout_graceful_shutdown=1,
        )
        return HttpServer(config)

    return lambda server, port, clock: Guard(site_of(server), port, clock), http_of


PAGE_METHODS: tuple[Method[Any, Any], ...] = (Method("page_open", OpenParams, OpenAnswer, WebPage.open),)
