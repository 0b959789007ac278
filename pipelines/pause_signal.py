"""A dream's ear: the daemon's words on the pipe, heard beside the work, whatever the work is busy with."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable

from .protocol import PAUSE

WORD_BYTES = 4096


def first_line(descriptor: int) -> tuple[bytes, bytes]:
    """The first line, and what has come after it already.

    Reads the bare descriptor: Python's own buffer would swallow the daemon's next word with the line.
    """
    held = b""
    while b"\n" not in held and (data := os.read(descriptor, 2**16)):
        held += data
    line, _, rest = held.partition(b"\n")
    return line, rest


class Attention:
    """Listens in a thread of its own. The pipe's end is the daemon's: this process ends with it.

    At the word PAUSE whatever waits for a language model is called off first, then this process stops itself, in the
    middle of whatever it does: nobody waits for a dream to come to a good place. The daemon lets it go on.
    """

    def __init__(self) -> None:
        self._call_off: Callable[[], None] | None = None

    def before_pausing(self, call_off: Callable[[], None] | None) -> None:
        """Name what shuts the connection to a language model, at any time, and returns when it is shut."""
        self._call_off = call_off

    def listen(self, descriptor: int, heard: bytes = b"") -> None:
        """Begin; `heard` came with the request."""
        threading.Thread(target=self._listen, args=(descriptor, heard), name="attention", daemon=True).start()

    def _listen(self, descriptor: int, heard: bytes) -> None:
        with contextlib.suppress(OSError):
            self._obey(heard)
            while words := os.read(descriptor, WORD_BYTES):
                self._obey(words)
        os._exit(3)

    def _obey(self, words: bytes) -> None:
        """Only the last word counts: who was told to pause and to go on while it slept goes on."""
        if not words.endswith(PAUSE):
            return
        if self._call_off is not None:
            with contextlib.suppress(Exception):  # it is stopped anyway
                self._call_off()
        os.kill(os.getpid(), signal.SIGSTOP)
