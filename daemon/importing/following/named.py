"""The transcripts that agents' hooks name: read on at each naming, and a moment after it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..detect import detect_format
from ..reading.items import UnreadableFile, UnsupportedFile
from .places import LINES, Place
from .tail import READINGS

MOST = 256
LOOKS_AFTER_S = (1.0, 3.0, 9.0)
"""Claude Code calls the hook of an answer before it has written that answer down."""


@dataclass(slots=True)
class _Named:
    place: Place
    at_s: float
    looks: int = 0


class Named:
    """The transcripts that were named last. Every method may be called from any thread; `now_s` is monotonic."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: OrderedDict[Path, _Named] = OrderedDict()

    def add(self, path: Path, agent: str, now_s: float) -> bool:
        """Note a transcript; False for a file that is none, or cannot be read."""
        if path not in self._files and not _is_transcript(path):
            return False
        with self._lock:
            self._files[path] = _Named(Place(path.parent, agent), now_s)
            self._files.move_to_end(path)
            while len(self._files) > MOST:
                self._files.popitem(last=False)
        return True

    def place_of(self, path: Path) -> Place | None:
        """Return the place that a named file makes up by itself; None for any other file."""
        named = self._files.get(path)
        return named.place if named else None

    def due(self, now_s: float) -> Sequence[Path]:
        """Return the files that are to be looked at again now, each once for every one of its looks."""
        with self._lock:
            found = [path for path, named in self._files.items() if _is_due(named, now_s)]
            for path in found:
                self._files[path].looks += 1
            return found


def _is_due(named: _Named, now_s: float) -> bool:
    return named.looks < len(LOOKS_AFTER_S) and now_s - named.at_s >= LOOKS_AFTER_S[named.looks]


def _is_transcript(path: Path) -> bool:
    """Say whether a file is an agent's own transcript, or begins as one: other files are not read for a hook."""
    if not path.is_absolute() or path.suffix.lower() != LINES:
        return False
    try:
        return not path.stat().st_size or detect_format(path) in READINGS
    except (UnsupportedFile, UnreadableFile, OSError):
        return False
