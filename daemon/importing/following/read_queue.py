"""The files that wait to be read, growing ones before the backlog; and the faults of those that could not be read."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from ....store.results import Problem
from ..items import Skipped
from .followed_places import FoundFile


class ReadQueue:
    """Two queues: live files, which take turns; and the backlog, the newest first. Any thread may call."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._live: OrderedDict[Path, None] = OrderedDict()
        self._backlog: dict[Path, FoundFile] = {}
        # Files of the backlog since it was last empty.
        self.backlog_files = 0

    def add_live(self, paths: Iterable[Path]) -> None:
        """Add live files; one that is in the backlog leaves it."""
        with self._changed:
            for path in paths:
                self._live[path] = None
                self._backlog.pop(path, None)
            self._changed.notify()

    def add_backlog(self, files: Iterable[FoundFile]) -> None:
        """Add files to be read while no live file waits."""
        with self._changed:
            new = {one.path: one for one in files if one.path not in self._live and one.path not in self._backlog}
            if not self._backlog:
                self.backlog_files = 0
            self.backlog_files += len(new)
            # A dict keeps this order, and gives its last entry in constant time.
            newest_last = sorted([*self._backlog.values(), *new.values()], key=lambda one: one.changed_s)
            self._backlog = {one.path: one for one in newest_last}
            self._changed.notify()

    def take_live(self) -> Path | None:
        """Remove and return the live file that waits longest, None without one."""
        with self._changed:
            return self._live.popitem(last=False)[0] if self._live else None

    @property
    def has_live(self) -> bool:
        """Return True if a live file waits."""
        return bool(self._live)

    def is_in_backlog(self, path: Path) -> bool:
        """Return True if a file waits in the backlog."""
        return path in self._backlog

    def newest_of_backlog(self) -> Path | None:
        """Return the newest file of the backlog, which stays until `done`; None without one."""
        with self._changed:
            return next(reversed(self._backlog), None)

    def done(self, path: Path) -> None:
        """Remove a file from the backlog."""
        with self._changed:
            self._backlog.pop(path, None)

    def drop(self, is_gone: Callable[[Path], bool]) -> None:
        """Remove the files that are not followed any more."""
        with self._changed:
            for path in [path for path in self._live if is_gone(path)]:
                del self._live[path]
            for path in [path for path in self._backlog if is_gone(path)]:
                del self._backlog[path]

    def backlog(self) -> tuple[int, int]:
        """Return the number of files left in the backlog, and their bytes."""
        with self._changed:
            return len(self._backlog), sum(one.size_bytes for one in self._backlog.values())

    def wake(self) -> None:
        """End a wait."""
        with self._changed:
            self._changed.notify()

    def wait(self, timeout_s: float) -> None:
        """Wait until a file is added, or the time is over; not at all while a live file waits."""
        with self._changed:
            if not self._live:
                self._changed.wait(timeout_s)


# Files with skipped lines that are named; the latest ones, if there are more.
NAMED = 20
# The time after which a file that could not be read is tried again; all others are read meanwhile.
AGAIN_S = 60.0


@dataclass(slots=True)
class _SkippedLines:
    first: Skipped
    count: int = 1


class Faults:
    """The files and lines that could not be read since the start, by name, without their content.

    Every method may be called from any thread; `now_s` is monotonic.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: OrderedDict[Path, _SkippedLines] = OrderedDict()
        self._aside: dict[Path, tuple[str, float]] = {}

    def left_out(self, item: Skipped) -> None:
        """Note a skipped line, or a skipped part of a file."""
        with self._lock:
            if (known := self._lines.get(item.path)) is not None:
                known.count += 1
            else:
                self._lines[item.path] = _SkippedLines(item)
            self._lines.move_to_end(item.path)
            while len(self._lines) > NAMED:
                self._lines.popitem(last=False)

    def set_aside(self, path: Path, error: Exception, now_s: float) -> None:
        """Note a file that cannot be read now."""
        reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        with self._lock:
            self._aside[path] = (reason, now_s + AGAIN_S)

    def is_aside(self, path: Path, now_s: float) -> bool:
        """Return True if a file is not to be tried yet."""
        found = self._aside.get(path)
        return found is not None and now_s < found[1]

    def due(self, now_s: float) -> bool:
        """Return True if files are to be tried again now; they are not set aside any more."""
        with self._lock:
            found = [path for path, (_, at_s) in self._aside.items() if now_s >= at_s]
            for path in found:
                del self._aside[path]
            return bool(found)

    def resolved(self, path: Path) -> None:
        """Forget that a file could not be read."""
        with self._lock:
            self._aside.pop(path, None)

    def problems(self) -> list[Problem]:
        """Return the problems to show to a person, of at most `NAMED` files of each kind."""
        with self._lock:
            aside = list(self._aside.items())[:NAMED]
            lines = list(self._lines.items())
        files = [Problem(str(path), f"it cannot be taken in ({why}), and is tried again") for path, (why, _) in aside]
        return files + [Problem(str(path), _in_words(found), "note") for path, found in lines]


def _in_words(lines: _SkippedLines) -> str:
    where = "a part" if lines.first.line is None else f"line {lines.first.line}"
    more = f" and {lines.count - 1} more" if lines.count > 1 else ""
    return f"{where}{more} of this session was left out ({lines.first.reason})"
