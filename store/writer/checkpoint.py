"""Makes written files durable beside the writer's work, and lets the journal forget them afterwards."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from typing import Final

from ..ledger.journal import Entry
from ..ledger.ledger import Ledger
from .placer import Placer

DUE_ROWS: Final = 5_000
DUE_BYTES: Final = 64 * 2**20
DUE_AFTER_S: Final = 1.0
"""A checkpoint is due after so many rows or bytes, and, while no request comes in, after so long."""

MAX_ROWS: Final = 20_000
"""With so many rows written while a sync is still under way, everything waits for it."""

logger = logging.getLogger(__name__)


class Checkpoint:
    """The files that were written since the last sync, and the sync that is under way, if any.

    Belongs to the writer's thread; only the sync itself runs in one of its own, since the system may take seconds for
    it when others have written much.
    """

    def __init__(self, placer: Placer, ledger: Ledger, monotonic: Callable[[], float]) -> None:
        self._placer = placer
        self._ledger = ledger
        self._monotonic = monotonic
        self._rows = self._bytes = 0
        self._ended_at = monotonic()
        self._syncing: Future[None] | None = None
        self._unfinished = False  # the sync has ended, and `end` has not gone through
        self._distrusted = False  # a sync failed, and the files are not written anew yet
        self._up_to_seq = 0

    def note(self, entries: Sequence[Entry]) -> None:
        """Count entries that are in their files now."""
        self._rows += len(entries)
        self._bytes += sum(len(entry.content) for entry in entries)

    @property
    def is_running(self) -> bool:
        """Return True while a sync runs, or until `end` has been called after it."""
        return self._syncing is not None or self._unfinished

    @property
    def must_end(self) -> bool:
        """Return True once the sync has ended, or must be waited for."""
        return self._unfinished or (self._syncing is not None and (self._syncing.done() or self._rows >= MAX_ROWS))

    def is_due(self, *, idle: bool) -> bool:
        """Return True when a checkpoint should begin; `idle` says that no request comes in."""
        if self.is_running:
            return False
        if self._rows >= DUE_ROWS or self._bytes >= DUE_BYTES:
            return True
        return idle and self.due_in_s() == 0.0

    def due_in_s(self) -> float | None:
        """Return the seconds until one is due if nothing happens; None while one runs, or if there is nothing to do."""
        if self.is_running or not (self._rows or self._ledger.has_later):
            return None
        return max(0.0, self._ended_at + DUE_AFTER_S - self._monotonic())

    def hurry(self) -> None:
        """Be due at the next moment in which no request comes in."""
        self._ended_at = float("-inf")

    def begin(self, visible_seq: int, ended: Callable[[], None]) -> None:
        """Sync what has been written up to `visible_seq`; `ended` is called, in any thread, when `end` may be."""
        self._rows = self._bytes = 0
        self._up_to_seq = visible_seq
        self._syncing = self._sync(self._placer.take_unsynced())
        self._syncing.add_done_callback(lambda _: ended())

    def abandon(self) -> None:
        """Let go of the sync that is under way: what it synced is not the vault that is there now."""
        if self._syncing is not None:
            self._syncing.exception()
        self._syncing = None
        self._unfinished = self._distrusted = False
        self._rows = self._bytes = 0

    def _sync(self, paths: set[str]) -> Future[None]:
        syncing: Future[None] = Future()

        def run() -> None:
            try:
                self._placer.sync(paths)
            except BaseException as error:
                syncing.set_exception(error)
            else:
                syncing.set_result(None)

        threading.Thread(target=run, name="dreamd-sync", daemon=True).start()
        return syncing

    def end(self, visible_seq: int, unplaced: Collection[int] = (), *, closing: bool = False) -> list[Entry]:
        """Wait for the sync, then let the journal forget; return the entries that gave way to a person's files.

        After a sync that failed, every visible file is written anew, since the system takes the old pages for clean.
        Raises OSError, apsw.Error or StoreError when that, or forgetting, fails: then `end` is to be called again.
        Entries that are `unplaced`, not in their files yet or held back, stay in the journal.
        """
        if not self.is_running:
            return []
        self._unfinished = True
        if self._syncing is not None:
            syncing, self._syncing = self._syncing, None
            if (error := syncing.exception()) is not None:
                logger.warning("a sync failed (%s); writing the files anew", type(error).__name__)
                self._distrusted = True
        kept_out = self._write_anew(visible_seq, unplaced) if self._distrusted else []
        self._distrusted = False
        self._ledger.forget_done(self._up_to_seq, [seq for seq in unplaced if seq <= self._up_to_seq])
        self._ledger.checkpoint(anyway=closing)
        self._ended_at = self._monotonic()
        self._unfinished = False
        return kept_out

    def _write_anew(self, visible_seq: int, unplaced: Collection[int]) -> list[Entry]:
        """Write every file that was written anew: of each, all that was put into it, also out of its turn."""
        entries = [entry for entry in self._ledger.pending() if entry.seq not in unplaced]
        kept_out = self._placer.rescue(entries)
        self._ledger.keep_out(kept_out)
        self._up_to_seq = visible_seq
        return kept_out
