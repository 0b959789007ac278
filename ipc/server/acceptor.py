"""Accepts a listener's connections, and says so to clients for whom no file descriptor is left."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import Callable

from loguru import logger

from ..protocol import BUSY, ProtocolError, encode_error
from .listener import Listener

AT_ONCE = 16
"""Connections accepted before the loop does something else."""

PAUSE_S = 0.5
"""Pause of accepting when not even a client can be turned away."""

OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
GONE = (errno.ECONNABORTED, errno.EINTR)

NO_ROOM = encode_error(
    None,
    ProtocolError(
        "the daemon has no file descriptor left for another client",
        "close some clients, or raise the limit of open files (ulimit -n, LimitNOFILE=)",
        BUSY,
    ),
)


class Acceptor:
    """Makes a protocol of each connection. asyncio's own logs 128 lines each time that descriptors run out.

    One descriptor is kept in reserve: it is what a client is turned away with.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, listener: Listener, protocol: Callable[[], asyncio.Protocol]
    ) -> None:
        self.listener = listener
        self._loop = loop
        self._protocol = protocol
        self._reserve: int | None = None
        self._pause: asyncio.TimerHandle | None = None
        self._connecting: set[asyncio.Task[object]] = set()
        self._has_said_so = self._stopped = False

    def start(self) -> None:
        """Begin to accept."""
        self._keep_reserve()
        self._pause = None
        self._loop.add_reader(self.listener.socket.fileno(), self._accept_some)

    def stop(self) -> None:
        """Accept nothing more, and let go of the listener."""
        if self._stopped:
            return
        self._stopped = True
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self.listener.socket.fileno())
        self._let_reserve_go()
        self.listener.close()

    def _accept_some(self) -> None:
        for _ in range(AT_ONCE):
            try:
                client, _address = self.listener.socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in GONE:
                    continue
                if error.errno not in OUT_OF_DESCRIPTORS:
                    raise
                if not self._turn_away():
                    self._rest()
                    return
            else:
                self._has_said_so = False
                self._begin(client)

    def _begin(self, client: socket.socket) -> None:
        client.setblocking(False)
        connecting = self._loop.create_task(self._loop.connect_accepted_socket(self._protocol, client))
        self._connecting.add(connecting)
        connecting.add_done_callback(self._connecting.discard)

    def _turn_away(self) -> bool:
        """Give up the reserve for as long as it takes to refuse one client; False when there is none."""
        if not self._has_said_so:
            self._has_said_so = True
            logger.warning("no file descriptor is left; clients are turned away until there are some")
        if self._reserve is None:
            return False
        self._let_reserve_go()
        try:
            client, _address = self.listener.socket.accept()
        except OSError:  # another thread took the descriptor, or the client has left
            return self._keep_reserve()
        with client, contextlib.suppress(OSError):
            client.setblocking(False)
            client.send(NO_ROOM)
            client.shutdown(socket.SHUT_WR)
            client.recv(2**16)  # one that is closed over unread bytes is reset, and its client reads nothing
        return self._keep_reserve()

    def _rest(self) -> None:
        self._loop.remove_reader(self.listener.socket.fileno())
        self._pause = self._loop.call_later(PAUSE_S, self.start)

    def _keep_reserve(self) -> bool:
        if self._reserve is None:
            with contextlib.suppress(OSError):
                self._reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        return self._reserve is not None

    def _let_reserve_go(self) -> None:
        if self._reserve is not None:
            os.close(self._reserve)
            self._reserve = None
