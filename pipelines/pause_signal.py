"""The pause signal: the daemon's bytes on the pipe, read in a thread beside the work."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable

from .protocol import PAUSE

READ_BYTES = 4096


def first_line(descriptor: int) -> tuple[bytes, bytes]:
    """Read the first line, and return it with the bytes that came after it.

    Reads the bare descriptor: Python's own buffer would swallow the daemon's next byte with the line.
    """
    held = b""
    while b"\n" not in held and (data := os.read(descriptor, 2**16)):
        held += data
    line, _, rest = held.partition(b"\n")
    return line, rest


class PauseListener:
    """Listens for the daemon in a thread of its own; the end of the pipe ends this process.

    At PAUSE a pending request to a language model is called off first, then this process stops itself at once, without
    waiting for a good place. The daemon lets it go on with a signal.
    """

    def __init__(self) -> None:
        self._call_off: Callable[[], None] | None = None

    def before_pausing(self, call_off: Callable[[], None] | None) -> None:
        """Set the callback that closes the connection to a language model; it may be called at any time."""
        self._call_off = call_off

    def listen(self, descriptor: int, heard: bytes = b"") -> None:
        """Start listening; `heard` are bytes that came with the request."""
        threading.Thread(target=self._listen, args=(descriptor, heard), name="pause listener", daemon=True).start()

    def _listen(self, descriptor: int, heard: bytes) -> None:
        with contextlib.suppress(OSError):
            self._obey(heard)
            while received := os.read(descriptor, READ_BYTES):
                self._obey(received)
        os._exit(3)

    def _obey(self, received: bytes) -> None:
        """Obey the last byte only: PAUSE followed by RESUME while this process slept means to go on."""
        if not received.endswith(PAUSE):
            return
        if self._call_off is not None:
            with contextlib.suppress(Exception):  # it is stopped anyway
                self._call_off()
        os.kill(os.getpid(), signal.SIGSTOP)
