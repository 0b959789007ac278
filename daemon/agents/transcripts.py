"""The transcripts that agents name in their hooks: read into the memory in the background, one at a time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from loguru import logger

from ...ipc.call import Call
from ...store.model import StoreError
from ..importing.detect import detect_format
from ..importing.importer import Importer
from ..importing.reading.items import UnreadableFile, UnsupportedFile

if TYPE_CHECKING:
    from ...store import MemoryStore

TRANSCRIPTS = frozenset({"claude-code", "codex", "gemini"})
"""The formats of the agents' own transcripts: other files are not read because a hook names them."""


class Transcripts:
    """Reads transcripts; what was read before adds nothing. `close` waits for the one that is being read."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="transcripts")
        self._lock = threading.Lock()
        self._waiting: set[Path] = set()

    def take(self, path: Path) -> bool:
        """Have a transcript read soon; False for a file that is none, or cannot be read."""
        try:
            if not path.is_absolute() or detect_format(path) not in TRANSCRIPTS:
                return False
        except (UnsupportedFile, UnreadableFile):
            return False
        with self._lock:
            if path not in self._waiting:
                self._waiting.add(path)
                self._thread.submit(self._read, path)
        return True

    def close(self) -> None:
        """Finish the transcript that is being read, and leave the others: they are read when they are named again."""
        self._thread.shutdown(cancel_futures=True)

    def _read(self, path: Path) -> None:
        with self._lock:
            self._waiting.discard(path)
        try:
            Importer(self._store, Call(None, "import")).take([path], None)
        except StoreError as error:  # the boundary of a job: the transcript is read when it is named again
            logger.warning("a transcript could not be read: {}", error)
