"""The files that wait to be read: those that grow now before those that were there, each in turn."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path

from .survey import Found


class ReadQueue:
    """Two queues: live files, a step of each in turn; and the backlog, the newest first. Any thread may add."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._live: OrderedDict[Path, None] = OrderedDict()
        self._backlog: dict[Path, Found] = {}
        self.backlog_files = 0
        """Files of the backlog since it was last empty."""

    def add_live(self, paths: Iterable[Path]) -> None:
        """Have files read next; one of the backlog is one of these from now on."""
        with self._changed:
            for path in paths:
                self._live[path] = None
                self._backlog.pop(path, None)
            self._changed.notify()

    def add_backlog(self, files: Iterable[Found]) -> None:
        """Have files read when nothing grows."""
        with self._changed:
            fresh = {one.path: one for one in files if one.path not in self._live and one.path not in self._backlog}
            if not self._backlog:
                self.backlog_files = 0
            self.backlog_files += len(fresh)
            newest_last = sorted([*self._backlog.values(), *fresh.values()], key=lambda one: one.changed_s)
            self._backlog = {one.path: one for one in newest_last}
            self._changed.notify()

    def take_live(self) -> Path | None:
        """Return the file that waits longest, and take it out; None for none."""
        with self._changed:
            return self._live.popitem(last=False)[0] if self._live else None

    @property
    def has_live(self) -> bool:
        """Say whether a live file waits."""
        return bool(self._live)

    def is_old(self, path: Path) -> bool:
        """Say whether a file waits in the backlog."""
        return path in self._backlog

    def newest_of_backlog(self) -> Path | None:
        """Return the newest file of the backlog; it stays until `done`."""
        with self._changed:
            return next(reversed(self._backlog), None)

    def done(self, path: Path) -> None:
        """Take a file out of the backlog."""
        with self._changed:
            self._backlog.pop(path, None)

    def drop(self, is_gone: Callable[[Path], bool]) -> None:
        """Take out the files that are not followed any more."""
        with self._changed:
            for path in [path for path in self._live if is_gone(path)]:
                del self._live[path]
            for path in [path for path in self._backlog if is_gone(path)]:
                del self._backlog[path]

    def backlog(self) -> tuple[int, int]:
        """Return how many files of the backlog are left, and their bytes."""
        with self._changed:
            return len(self._backlog), sum(one.size_bytes for one in self._backlog.values())

    def wake(self) -> None:
        """End a wait."""
        with self._changed:
            self._changed.notify()

    def wait(self, timeout_s: float) -> None:
        """Wait until a file is added that can be read, or for so long."""
        with self._changed:
            if not self._live:
                self._changed.wait(timeout_s)
