"""The protocol of systemd: passed sockets, readiness, the watchdog. Nothing of libsystemd is needed."""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping

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
