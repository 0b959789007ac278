"""An import: what the readers yield, put into the store in bounded batches, and an account of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..ipc.call import Call
from ..store.model import InvalidInput, NodeId, StoreBusy
from .intake.guess import read
from .intake.model import Item, NoteRead, SessionRead, Skipped

if TYPE_CHECKING:
    from ..store.memory import MemoryStore

MAX_SKIPPED = 1000
# Pieces that the store works on while the next is read: enough to share its fsyncs, little enough to stay small.
MAX_IN_FLIGHT = 16
BUSY_WAIT_S = 60


@dataclass(slots=True)
class Account:
    """What an import took and left."""

    sessions: set[NodeId] = field(default_factory=set)
    channels: set[str] = field(default_factory=set)
    turns_added: int = 0
    turns_known: int = 0
    notes: int = 0
    redacted: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    skipped_total: int = 0

    def skip(self, what: Skipped) -> None:
        """Count what was left out, and name the first ones."""
        self.skipped_total += 1
        if len(self.skipped) < MAX_SKIPPED:
            self.skipped.append(what)

    def answer(self) -> dict[str, Any]:
        """The account as the wire says it."""
        return {
            "sessions": len(self.sessions),
            "turns_added": self.turns_added,
            "turns_known": self.turns_known,
            "notes": self.notes,
            "redacted": self.redacted,
            "skipped": [{"path": str(s.path), "line": s.line, "reason": s.reason} for s in self.skipped],
            "skipped_total": self.skipped_total,
            "channels": sorted(self.channels),
        }


class Importer:
    """One import. Idempotent: a turn that is known is counted and not added, so one that broke off is run again."""

    def __init__(self, store: MemoryStore, call: Call, channel: str | None) -> None:
        self._store = store
        self._call = call
        self._channel = channel
        self._waiting: deque[tuple[Path, Future[Any]]] = deque()
        self.account = Account()

    def take(self, paths: Iterable[Path], format_name: str | None) -> Account:
        """Put everything in. Raises Cancelled between two pieces; what was taken by then stays."""
        for path in paths:
            for item in self._items(path, format_name):
                self._call.raise_if_cancelled()
                self._take(path, item)
                self._tell(path)
        while self._waiting:
            self._settle()
        return self.account

    def _items(self, path: Path, format_name: str | None) -> Iterator[Item]:
        try:
            yield from read(path, format_name)
        except InvalidInput as error:
            yield Skipped(path, None, str(error))

    def _take(self, path: Path, item: Item) -> None:
        if isinstance(item, Skipped):
            self.account.skip(item)
            return
        if len(self._waiting) >= MAX_IN_FLIGHT:
            self._settle()
        try:
            self._waiting.append((path, self._submit(item)))
        except StoreBusy:  # others write as well: wait for what is ours, then try once more
            while self._waiting:
                self._settle()
            self._waiting.append((path, self._submit(item)))
        except InvalidInput as error:
            self.account.skip(Skipped(path, None, str(error)))

    def _submit(self, item: SessionRead | NoteRead) -> Future[Any]:
        channel = self._channel or (item.head.channel if isinstance(item, SessionRead) else item.channel)
        self.account.channels.add(channel)
        if isinstance(item, NoteRead):
            self.account.notes += 1
            return self._store.remember(item.text, kind=item.kind, channel=channel, tags=item.tags)
        self.account.sessions.add(item.head.session_id)
        return self._store.observe(replace(item.head, channel=channel), item.turns)

    def _settle(self) -> None:
        """Wait for the oldest piece and count what came of it."""
        path, future = self._waiting.popleft()
        try:
            result = future.result(BUSY_WAIT_S)
        except InvalidInput as error:
            self.account.skip(Skipped(path, None, str(error)))
            return
        self.account.turns_added += getattr(result, "added", 0)
        self.account.turns_known += getattr(result, "known", 0)
        self.account.redacted += getattr(result, "redacted", 0)

    def _tell(self, path: Path) -> None:
        account = self.account
        self._call.progress("import", account.turns_added + account.turns_known, 0, path.name)
