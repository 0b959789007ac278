"""The files and lines that could not be taken in, by name, for their person: never what stands in them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from ....store.results import Problem
from ..reading.items import Skipped

NAMED = 20
"""Files with lines left out that are named; of more, those that were met last."""
AGAIN_S = 60.0
"""A file that could not be read is tried again so much later; meanwhile all others are read."""


@dataclass(slots=True)
class _Lines:
    first: Skipped
    count: int = 1


class Faults:
    """The faults since the start. Every method may be called from any thread; `now_s` is monotonic."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: OrderedDict[Path, _Lines] = OrderedDict()
        self._aside: dict[Path, tuple[str, float]] = {}

    def left_out(self, item: Skipped) -> None:
        """Note a line, or a part of a file, that was left out."""
        with self._lock:
            if (known := self._lines.get(item.path)) is not None:
                known.count += 1
            else:
                self._lines[item.path] = _Lines(item)
            self._lines.move_to_end(item.path)
            while len(self._lines) > NAMED:
                self._lines.popitem(last=False)

    def set_aside(self, path: Path, error: Exception, now_s: float) -> None:
        """Note a file that cannot be taken in now."""
        reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        with self._lock:
            self._aside[path] = (reason, now_s + AGAIN_S)

    def is_aside(self, path: Path, now_s: float) -> bool:
        """Say whether a file is to be left alone for now."""
        found = self._aside.get(path)
        return found is not None and now_s < found[1]

    def due(self, now_s: float) -> bool:
        """Say whether there are files to be tried again now; from then on they are no more set aside."""
        with self._lock:
            found = [path for path, (_, at_s) in self._aside.items() if now_s >= at_s]
            for path in found:
                del self._aside[path]
            return bool(found)

    def taken(self, path: Path) -> None:
        """Forget that a file could not be taken in."""
        with self._lock:
            self._aside.pop(path, None)

    def problems(self) -> list[Problem]:
        """Return what a person should know of; of the files as many as are named of the lines."""
        with self._lock:
            aside = list(self._aside.items())[:NAMED]
            lines = list(self._lines.items())
        files = [Problem(str(path), f"it cannot be taken in ({why}), and is tried again") for path, (why, _) in aside]
        return files + [Problem(str(path), _said(found), "note") for path, found in lines]


def _said(lines: _Lines) -> str:
    where = "a part" if lines.first.line is None else f"line {lines.first.line}"
    more = f" and {lines.count - 1} more" if lines.count > 1 else ""
    return f"{where}{more} of this session was left out ({lines.first.reason})"
