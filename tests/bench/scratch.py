"""The folder of a run: gone with it, also when the run fails or is told to end."""

from __future__ import annotations

import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def own_folder(name: str) -> Iterator[Path]:
    """Make a folder of this run's own, and remove it with everything in it."""
    end_in_order()
    with tempfile.TemporaryDirectory(prefix=f"dreamd-{name}-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def end_in_order() -> None:
    """Let SIGTERM, which a time limit sends, end the program as an error does: nothing stays behind."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
