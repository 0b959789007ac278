"""The service manager's protocol: passed sockets, readiness, the watchdog, and the answer when a start fails.

Nothing of libsystemd is needed. When the daemon cannot start, the clients that wait on the manager's socket are
answered with the reason: otherwise their connections would break, and the manager would start the daemon again for
each of them until it gives the socket up.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import time
from collections.abc import Callable, Mapping, MutableMapping

from ...ipc.protocol import NOT_STARTED, ProtocolError, encode_error

FIRST_PASSED_DESCRIPTOR = 3  # SD_LISTEN_FDS_START
# Later clients are answered for this time too, so that starts stay far below the unit's StartLimit.
LINGER_S = 10.0

READ_S = 0.2


class Notifier:
    """Sends `sd_notify` messages; does nothing without a service manager.

    Removes its variables from `environ`, so that no child takes them for its own.
    """

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        self._address = environ.pop("NOTIFY_SOCKET", "")
        watched_pid = environ.pop("WATCHDOG_PID", "")
        interval_us = environ.pop("WATCHDOG_USEC", "")
        is_watched = interval_us.isdigit() and watched_pid in ("", str(os.getpid()))
        self._interval_us = int(interval_us) if is_watched else 0

    @property
    def watchdog_every_s(self) -> float | None:
        """The interval between calls of `watchdog`, half of the manager's (sd_watchdog_enabled(3)); None: it is off."""
        return self._interval_us / 2e6 if self._interval_us else None

    def ready(self) -> None:
        """Report that the daemon serves."""
        self._send("READY=1")

    def stopping(self) -> None:
        """Report that the daemon is about to end."""
        self._send("STOPPING=1")

    def watchdog(self) -> None:
        """Report that the daemon is alive."""
        self._send("WATCHDOG=1")

    def status(self, sentence: str) -> None:
        """Report one line for `systemctl status`."""
        self._send(f"STATUS={sentence}")

    def extend_start(self, by_s: float) -> None:
        """Ask for more time than the unit's timeout for a start that makes progress."""
        self._send(f"EXTEND_TIMEOUT_USEC={int(by_s * 1e6)}")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        # An address with @ is in Linux's abstract namespace, whose names begin with a zero byte.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            try:
                manager.sendto(message.encode(), address)
            except OSError:
                # The manager is gone; it will not come back under this name.
                self._address = ""


def passed_descriptors(environ: MutableMapping[str, str]) -> list[int]:
    """Return the listening sockets that the service manager opened for this process (sd_listen_fds(3))."""
    pid = environ.pop("LISTEN_PID", "")
    count = environ.pop("LISTEN_FDS", "")
    environ.pop("LISTEN_FDNAMES", None)
    if pid != str(os.getpid()) or not count.isdigit():
        return []
    passed = list(range(FIRST_PASSED_DESCRIPTOR, FIRST_PASSED_DESCRIPTOR + int(count)))
    for descriptor in passed:
        os.set_inheritable(descriptor, False)
    return passed


class StartRefusal:
    """Reports why the daemon cannot start, to the terminal or journal, the service manager, and the waiting clients.

    Make it first: later the daemon removes the manager's variables from the environment, and closes its socket.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._notifier = Notifier({"NOTIFY_SOCKET": environ.get("NOTIFY_SOCKET", "")})
        self._descriptor = _passed_socket(environ)

    def because(self, error: Exception, code: int, still: Callable[[], bool] = lambda: True) -> int:
        """Report an error, and return the exit code. `still` returns True while the next start would fail as well."""
        hint = getattr(error, "hint", "")
        reason = f"{error}" + (f" {hint}" if hint else "")
        print(f"dreamd: {reason}", file=sys.stderr, flush=True)
        self._notifier.status(f"could not start: {reason}")
        if self._descriptor is not None:
            turn_away(self._descriptor, error, still)
        return code


def _passed_socket(environ: Mapping[str, str]) -> int | None:
    """Return a duplicate of the socket that the service manager passed, None without one."""
    if environ.get("LISTEN_PID") != str(os.getpid()) or not environ.get("LISTEN_FDS", "").isdigit():
        return None
    with contextlib.suppress(OSError):
        return os.dup(FIRST_PASSED_DESCRIPTOR)
    return None


def turn_away(descriptor: int, error: Exception, still: Callable[[], bool], linger_s: float = LINGER_S) -> int:
    """Answer every waiting client, and those of the next seconds, with the reason why the daemon could not start.

    Ends at once without a waiting client. A client that comes when `still` returns False is left for the next start.
    Returns the number of answered clients.
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
    """Answer a client after reading its request: closing a connection with unread bytes would reset it."""
    with client:
        client.settimeout(READ_S)
        with contextlib.suppress(TimeoutError):
            client.recv(2**16)
        client.sendall(line)
        client.shutdown(socket.SHUT_WR)
        with contextlib.suppress(TimeoutError):
            client.recv(2**16)
