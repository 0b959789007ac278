"""The service manager's protocol: passed sockets, readiness, the watchdog, and the answer when a start fails.

Nothing of libsystemd is needed. When the daemon cannot start, the clients that wait on the manager's socket are
answered with the reason: they would see a broken connection otherwise, and the manager would start the daemon again
for each of them until it gives the socket up.
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


class Notifier:
    """Sends `sd_notify` messages; does nothing where no service manager listens.

    Takes its variables out of `environ`, so that no child believes they are meant for it.
    """

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        self._address = environ.pop("NOTIFY_SOCKET", "")
        watched_pid = environ.pop("WATCHDOG_PID", "")
        interval_us = environ.pop("WATCHDOG_USEC", "")
        self._watched = interval_us.isdigit() and watched_pid in ("", str(os.getpid()))
        self._interval_us = int(interval_us) if self._watched else 0

    @property
    def watchdog_every_s(self) -> float | None:
        """The interval between calls of `watchdog`: half of the manager's (sd_watchdog_enabled(3)); None: it is off."""
        return self._interval_us / 2e6 if self._interval_us else None

    def ready(self) -> None:
        """Report that the daemon serves."""
        self._send("READY=1")

    def stopping(self) -> None:
        """Report that the daemon is on its way out."""
        self._send("STOPPING=1")

    def watchdog(self) -> None:
        """Report that the daemon is alive."""
        self._send("WATCHDOG=1")

    def status(self, sentence: str) -> None:
        """Report one line for `systemctl status`."""
        self._send(f"STATUS={sentence}")

    def extend_start(self, by_s: float) -> None:
        """Report that starting takes longer than the unit's timeout, and is getting on."""
        self._send(f"EXTEND_TIMEOUT_USEC={int(by_s * 1e6)}")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            try:
                manager.sendto(message.encode(), address)
            except OSError:
                self._address = ""  # the manager is gone; it will not come back under this name


def passed_descriptors(environ: MutableMapping[str, str]) -> list[int]:
    """Return the listening sockets that the service manager opened for this very process (sd_listen_fds(3))."""
    pid = environ.pop("LISTEN_PID", "")
    count = environ.pop("LISTEN_FDS", "")
    environ.pop("LISTEN_FDNAMES", None)
    if pid != str(os.getpid()) or not count.isdigit():
        return []
    passed = list(range(FIRST_PASSED_DESCRIPTOR, FIRST_PASSED_DESCRIPTOR + int(count)))
    for descriptor in passed:
        os.set_inheritable(descriptor, False)
    return passed


LINGER_S = 10.0
"""Later clients are answered for so long too, so that we are started far less often than the unit's StartLimit."""

READ_S = 0.2


class StartRefusal:
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
