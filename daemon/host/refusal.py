"""A failed start, reported to its causes: clients of the service manager's socket are answered with the reason.

Without an answer they would see a broken connection, and the manager would start us again for each that waits until it
gives the socket up.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import time
from collections.abc import Callable, Mapping

from ...ipc.protocol import NOT_STARTED, ProtocolError, encode_error
from .systemd import FIRST_PASSED_DESCRIPTOR, Notifier

LINGER_S = 10.0
"""Later clients are answered for so long too, so that we are started far less often than the unit's StartLimit."""

READ_S = 0.2


class Refusal:
    """Says why the daemon cannot start: to a terminal or journal, to the service manager, to the clients that wait.

    Construct it first of all: the daemon takes the manager's variables out of the environment, and closes its socket.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._notifier = Notifier({"NOTIFY_SOCKET": environ.get("NOTIFY_SOCKET", "")})
        self._descriptor = _passed_socket(environ)

    def because(self, error: Exception, code: int, still: Callable[[], bool] = lambda: True) -> int:
        """Report it everywhere, and return the exit code. `still`: the next start would fail as well."""
        hint = getattr(error, "hint", "")
        said = f"{error}" + (f" {hint}" if hint else "")
        print(f"dreamd: {said}", file=sys.stderr, flush=True)
        self._notifier.status(f"could not start: {said}")
        if self._descriptor is not None:
            turn_away(self._descriptor, error, still)
        return code


def _passed_socket(environ: Mapping[str, str]) -> int | None:
    """Return a descriptor of our own of the socket that the service manager passed, None where it passed none."""
    if environ.get("LISTEN_PID") != str(os.getpid()) or not environ.get("LISTEN_FDS", "").isdigit():
        return None
    with contextlib.suppress(OSError):
        return os.dup(FIRST_PASSED_DESCRIPTOR)
    return None


def turn_away(descriptor: int, error: Exception, still: Callable[[], bool], linger_s: float = LINGER_S) -> int:
    """Answer every client that waits, and those of the next seconds, with why the daemon could not start.

    Ends at once where no client waits. One that comes when the cause is no longer `still` there is left for the next
    start. Returns how many were answered.
    """
    line = encode_error(
        None, ProtocolError(f"dreamd could not start: {error}", getattr(error, "hint", ""), NOT_STARTED)
    )
    answered, until = 0, time.monotonic() + linger_s
    with socket.socket(fileno=descriptor) as listener:
        listener.setblocking(False)
        while _client_waits(listener, until - time.monotonic() if answered else 0.0) and still():
            with contextlib.suppress(OSError):
                _answer(listener.accept()[0], line)
                answered += 1
    return answered


def _client_waits(listener: socket.socket, timeout_s: float) -> bool:
    return bool(select.select([listener], [], [], max(0.0, timeout_s))[0])


def _answer(client: socket.socket, line: bytes) -> None:
    """Read what was asked first: a connection that is closed over unread bytes is reset."""
    with client:
        client.settimeout(READ_S)
        with contextlib.suppress(TimeoutError):
            client.recv(2**16)
        client.sendall(line)
        client.shutdown(socket.SHUT_WR)
        with contextlib.suppress(TimeoutError):
            client.recv(2**16)
