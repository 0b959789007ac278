"""The pipe between a dream and the daemon: its pause signal, read in a thread, and the progress of the steps."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from .messages import PAUSE, Progress

READ_BYTES = 4096
T = TypeVar("T")
DETAIL_EVERY_S = 0.5

OnProgress = Callable[[Progress], None]


def first_line(descriptor: int) -> tuple[bytes, bytes]:
    """Read the first line; return it and the bytes after it.

    Reads the bare descriptor: Python's own buffer would take the daemon's next byte along with the line.
    """
    held = b""
    while b"\n" not in held and (data := os.read(descriptor, 2**16)):
        held += data
    line, _, rest = held.partition(b"\n")
    return line, rest


class PauseListener:
    """Listens for the daemon in a thread of its own; the end of the pipe ends this process.

    At PAUSE a pending request to a language model is aborted, then this process stops itself at once, wherever it is.
    The daemon continues it with a signal.
    """

    def __init__(self) -> None:
        self._abort: Callable[[], None] | None = None

    def before_pausing(self, abort: Callable[[], None] | None) -> None:
        """Set the callback that closes the connection to a language model; it may be called at any time."""
        self._abort = abort

    def listen(self, descriptor: int, heard: bytes = b"") -> None:
        """Start listening; `heard` are bytes that were read with the request."""
        threading.Thread(target=self._listen, args=(descriptor, heard), name="pause listener", daemon=True).start()

    def _listen(self, descriptor: int, heard: bytes) -> None:
        with contextlib.suppress(OSError):
            self._obey(heard)
            while received := os.read(descriptor, READ_BYTES):
                self._obey(received)
        os._exit(3)

    def _obey(self, received: bytes) -> None:
        """Obey the last byte only: a PAUSE that a RESUME followed while this process slept is over."""
        if not received.endswith(PAUSE):
            return
        if self._abort is not None:
            with contextlib.suppress(Exception):  # the process is stopped in any case
                self._abort()
        os.kill(os.getpid(), signal.SIGSTOP)


class StepProgress:
    """Reports the current step of a dream, and from time to time the progress within it.

    The number of steps never changes during a run; progress within a step is in the note.
    """

    def __init__(self, on_progress: OnProgress, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._on_progress = on_progress
        self._monotonic = monotonic
        self._at = Progress(stage="start")
        self._reported_s = 0.0

    def at(self, stage: str, done: int, total: int, note: str = "") -> None:
        """Report the number of finished steps, and the next one."""
        self._at = Progress(stage=stage, done=done, total=total)
        self._report(note)

    def detail(self, what: str, done: int, total: int) -> None:
        """Report progress within the step, at most every DETAIL_EVERY_S seconds."""
        if self._monotonic() - self._reported_s >= DETAIL_EVERY_S:
            self._report(f"{what} {done:,} of {total:,}")

    def counted(self, items: Sequence[T], what: str) -> Iterator[T]:
        """Yield items and report their number as they pass."""
        for done, item in enumerate(items):
            self.detail(what, done, len(items))
            yield item

    def _report(self, note: str) -> None:
        self._reported_s = self._monotonic()
        self._on_progress(self._at.model_copy(update={"note": note}))
