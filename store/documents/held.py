"""Documents held in memory after they were read, so that listing a space again reads no file."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from ..door import Door
from ..results import Document
from ..vault.vault import FileStamp
from . import document

MOST_DOCUMENTS: Final = 10_000
MOST_BYTES: Final = 16 * 2**20
"""Documents held, and the bytes of their values; those that were read longest ago give way."""


class Held:
    """Reads documents, and holds those that were read from the disk. Every method may be called from any thread."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._gate = threading.Lock()
        self._held: OrderedDict[str, tuple[FileStamp, Document]] = OrderedDict()
        self._size_bytes = 0

    def of(self, stamp: FileStamp) -> Document | None:
        """Return the document of a file that is as it was when it was read."""
        with self._gate:
            held = self._held.get(stamp.path)
            if held is None or held[0] != stamp:
                return None
            self._held.move_to_end(stamp.path)
            return held[1]

    def read(self, path: str, data: bytes, stamp: FileStamp | None = None) -> Document | None:
        """Read a document's file; None for one that is no document. With its `stamp` it is held."""
        found = document.read(path, data, self._door)
        if found is not None and stamp is not None and stamp.size == len(data):
            self._hold(stamp, found)
        return found

    def _hold(self, stamp: FileStamp, found: Document) -> None:
        with self._gate:
            if (before := self._held.pop(stamp.path, None)) is not None:
                self._size_bytes -= before[1].size_bytes
            self._held[stamp.path] = (stamp, found)
            self._size_bytes += found.size_bytes
            while len(self._held) > MOST_DOCUMENTS or self._size_bytes > MOST_BYTES:
                _, (_, oldest) = self._held.popitem(last=False)
                self._size_bytes -= oldest.size_bytes
