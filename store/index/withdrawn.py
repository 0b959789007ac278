"""Deleted, forgotten and expired memories, which no answer may tell although the index has them for a moment still."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from datetime import datetime
from typing import NamedTuple

from ..model import Kind, NodeId
from .projection import Node
from .scope import aware


class Untold(NamedTuple):
    """The files that are gone though the index knows them, and the forgotten turns, at the moment `at`."""

    gone: Collection[str]
    hidden: AbstractSet[NodeId]
    at: datetime | None

    def shown(self, nodes: Iterable[Node]) -> Iterator[Node]:
        """Yield nodes as they may be shown: without those that are gone, forgotten turns as hidden ones."""
        for node in nodes:
            if node.path in self.gone or (node.stale_after is not None and self._is_over(node.kind, node.stale_after)):
                continue
            yield node._replace(live=False, forgotten=True) if node.node_id in self.hidden else node

    def is_gone(self, path: str, kind: Kind, stale_after: datetime | None) -> bool:
        """Return True for what lies in a deleted file, and for a document whose time is over."""
        return path in self.gone or (stale_after is not None and self._is_over(kind, stale_after))

    def _is_over(self, kind: Kind, stale_after: datetime) -> bool:
        until = aware(stale_after) if kind is Kind.DOCUMENT else None
        return until is not None and self.at is not None and until <= self.at


class Withdrawn:
    """Holds deletions from their acknowledgement on until the index has followed. Any thread may ask.

    `hidden` returns the forgotten turns. `has_indexed` says if the index has come to a number of the journal, and
    `has_followed`, of a path whose number it has come to, if it knows the deleted file no more. Without `now` no
    document has expired.
    """

    def __init__(
        self,
        hidden: Callable[[], AbstractSet[NodeId]] = frozenset,
        has_indexed: Callable[[int], bool] = lambda seq: True,
        has_followed: Callable[[str], bool] = lambda path: True,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        self._hidden = hidden
        self._has_indexed = has_indexed
        self._has_followed = has_followed
        self._now = now
        self._gone: Mapping[str, int] = {}  # replaced, never changed: other threads read it meanwhile
        self._lock = threading.Lock()
        self._mine = threading.local()
        self.version = 0
        """Another number after each deletion: what was ranked before may name what is withdrawn since."""

    def deleted(self, paths: Sequence[str], seq: int) -> None:
        """Take note of files whose deletion is acknowledged under this number of the journal."""
        with self._lock:
            later = dict.fromkeys(paths, seq)
            self._gone = {path: known for path, known in self._gone.items() if path not in later} | later
            self.version += 1

    def now(self) -> Untold:
        """Return what may not be told of rows that are read after this call."""
        if (pinned := getattr(self._mine, "pinned", None)) is not None:
            return pinned  # type: ignore[no-any-return]
        self.let_go()
        return Untold(self._gone, self._hidden(), self._now() if self._now else None)

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Keep what this thread may not tell meanwhile: around a read of one earlier state of the index."""
        self._mine.pinned = self.now()
        try:
            yield
        finally:
            self._mine.pinned = None

    def let_go(self) -> None:
        """Let go of the deletions that the index has followed."""
        gone, followed = self._gone, set()
        for path, seq in gone.items():  # in the order of their numbers
            if not self._has_indexed(seq):
                break
            if self._has_followed(path):
                followed.add(path)
        if followed:
            with self._lock:
                if self._gone is gone:  # else more was deleted meanwhile: the next call looks again
                    self._gone = {path: seq for path, seq in gone.items() if path not in followed}
