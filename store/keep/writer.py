"""The one writer: group commit into the ledger, which is the acknowledgement; files and index follow it."""

from __future__ import annotations

import logging
import os
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, TypeVar

import apsw

from ..model import StoreBusy, StoreError, StoreReadOnly
from .checkpoint import Checkpoint
from .disk import Disk
from .history import Write
from .journal import AppliedFile, Entry, FileChange
from .ledger import Ledger
from .pending import PendingFiles
from .placer import Placer
from .vault import Vault

T = TypeVar("T")

MAX_QUEUE: Final = 10_000
MAX_BATCH_PLANS: Final = 256
MAX_BATCH_BYTES: Final = 4 * 2**20
MAX_LAG: Final = 10_000
MAX_TURN_ROWS: Final = 512

GRACE_S: Final = 0.002
"""Files and index wait so long after an acknowledgement for the next request: a client that asks again at once is not
made to wait for work that nobody asked for yet."""

GIVE_WAY_S: Final = 0.02
"""How long the files of a run wait between two short turns while somebody asks: a dream's, which nobody waits for."""

IDLE_TURN_S: Final = 0.005
FORCED_TURN_S: Final = 0.025
"""How long one turn of file and index work may take, when nobody waits and when the lag is at its bound."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Planned(Generic[T]):
    """What a plan came to: changes to files and rows for the ledger, one transaction, and what its caller is told."""

    result: T
    changes: Sequence[FileChange] = ()
    writes: Sequence[Write] = ()


Plan = Callable[[PendingFiles], Planned[T]]


class _Barrier:
    __slots__ = ("reached", "seq")

    def __init__(self, seq: int) -> None:
        self.seq = seq
        self.reached: Future[None] = Future()


_Item = tuple[Plan[Any], "Future[Any]"]
_WAKE: Final = None


class Writer:
    """The only thread that writes the vault and the ledger.

    `submit` a plan: it is run in the writer's thread, in order, and its future resolves when its changes are in the
    ledger on the disk. Files are written, and `on_applied` is called, shortly after; `barrier` waits for that.
    """

    def __init__(
        self,
        vault: Vault,
        ledger: Ledger,
        on_applied: Callable[[Sequence[AppliedFile]], None],
        disk: Disk,
        monotonic: Callable[[], float] = time.monotonic,
        is_asked: Callable[[], bool] = lambda: False,
    ) -> None:
        self.index_failure: Exception | None = None
        self._ledger = ledger
        self._on_applied = on_applied
        self._monotonic = monotonic
        self._is_asked = is_asked
        self._placer = Placer(vault, disk)
        self._files = PendingFiles(vault, self._placer.size)
        self._queue: SimpleQueue[_Item | _Barrier | None] = SimpleQueue()
        self._gate = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = self._nudged = self._idling = False
        self._refusal: StoreError | None = None
        self._barriers: list[_Barrier] = []
        self._waiting: deque[Entry] = deque()  # acknowledged, not visible yet
        self._seq = self._acknowledged = self._promised = self._visible = ledger.last_seq()
        self._checkpoint = Checkpoint(self._placer, ledger, monotonic)
        self._cost_s = 0.0005  # of placing and indexing one entry, as last seen

    # ---- for everyone

    def start(self) -> list[AppliedFile]:
        """Replay, and start the thread; return the files that were looked at."""
        replayed = self.replay()
        self._thread = threading.Thread(target=self._run, name="dreamd-writer", daemon=True)
        self._thread.start()
        return replayed

    def replay(self) -> list[AppliedFile]:
        """Put into the vault, durably, what a crash left undone. Raises StoreReadOnly when the disk refuses."""
        try:
            placed = self._placer.place(self._ledger.pending())
            self._placer.sync(self._placer.take_unsynced())
        except OSError as error:
            raise _disk_failed(error) from error
        if placed.kept_out:
            self._ledger.keep_out(placed.kept_out)
            _warn_of(placed.kept_out)
        self._ledger.forget_done(self._seq)
        self._ledger.checkpoint(anyway=True)
        return [AppliedFile(file.path, 0) for file in placed.applied]

    def submit(self, plan: Plan[T]) -> Future[T]:
        """Queue a plan. Raises StoreBusy when the queue is full or closed, StoreReadOnly when the disk has failed."""
        future: Future[T] = Future()
        with self._gate:
            self._check_open()
            if self._queue.qsize() >= MAX_QUEUE:
                raise StoreBusy(f"{MAX_QUEUE} writes are waiting", hint="Wait a moment and try again.")
            self._queue.put((plan, future))
        return future

    def write(self, *writes: Write) -> Future[None]:
        """Queue rows for the ledger that change no file; the future resolves when they are on the disk."""
        return self.submit(lambda _files: Planned(None, (), writes))

    def later(self, *writes: Write) -> None:
        """Write rows within about a second; a crash before that loses them."""
        self._ledger.later(*writes)
        if not self._nudged:
            self._nudged = True
            self._queue.put(_WAKE)

    def barrier(self, timeout_s: float, *, runs: bool = True) -> bool:
        """Wait until all that is acknowledged is visible and indexed; False when that takes longer.

        Without `runs` only what a caller was promised is waited for: what a dream changes comes when it comes.
        """
        until = self._acknowledged if runs else self._promised
        if self._visible >= until:
            return True
        barrier = _Barrier(until)
        with self._gate:
            if self._closing or self._refusal is not None:
                return False
            self._queue.put(barrier)
        try:
            barrier.reached.result(timeout_s)
        except TimeoutError:
            return False
        return self._visible >= barrier.seq

    @property
    def lag(self) -> int:
        """How many acknowledged changes are not visible yet."""
        return len(self._waiting)

    @property
    def refusal(self) -> StoreError | None:
        """Why nothing is accepted any more, if so."""
        return self._refusal

    def close(self) -> None:
        """Finish everything that was submitted, make it durable, and stop. The ledger stays open."""
        with self._gate:
            self._closing = True
            self._queue.put(_WAKE)
        if self._thread is not None:
            self._thread.join()

    def _check_open(self) -> None:
        if self._refusal is not None:
            raise self._refusal
        if self._closing:
            raise StoreBusy("the store is closing", hint="Start dreamd again.")

    # ---- the thread

    def _run(self) -> None:
        while not (self._closing and self._queue.empty()):
            try:
                self._turn()
            except Exception as error:
                frame = traceback.extract_tb(error.__traceback__)[-1]  # not the message: it may hold a person's text
                logger.error("the writer stops: %s at %s:%d", type(error).__name__, frame.filename, frame.lineno)  # noqa: TRY400
                self._refuse(StoreReadOnly(f"the writer failed: {type(error).__name__}", hint="Restart dreamd."))
                self._release_barriers()
        self._finish()

    def _turn(self) -> None:
        """Acknowledge what waits; when nothing does, or too much is behind, go on with files, index and checkpoint."""
        items = self._take()
        if items:
            self._acknowledge(items)
        self._idling = not items
        behind = bool(self._barriers) or len(self._waiting) >= MAX_LAG
        if self._waiting and self._refusal is None and (behind or self._idling):
            self._make_visible(FORCED_TURN_S if behind and not self._gives_way() else IDLE_TURN_S)
        if self._checkpoint.must_end:
            self._end_checkpoint()
        if self._refusal is None and self._checkpoint.is_due(idle=self._idling and not self._waiting):
            self._begin_checkpoint()
        self._release_barriers()

    def _take(self) -> list[_Item]:
        items: list[_Item] = []
        patience_s = self._patience_s()
        try:
            item = self._queue.get(timeout=patience_s) if patience_s != 0.0 else self._queue.get_nowait()
            while True:
                if isinstance(item, tuple):
                    items.append(item)
                    if len(items) == MAX_BATCH_PLANS:
                        return items
                elif item is not None:
                    self._barriers.append(item)
                item = self._queue.get_nowait()
        except Empty:
            return items

    def _patience_s(self) -> float | None:
        """How long to wait for the next plan before turning to other work; None: until it comes."""
        if self._refusal is not None:
            return None
        if self._waiting:
            if self._gives_way():
                return GIVE_WAY_S
            return 0.0 if self._idling or self._barriers or len(self._waiting) >= MAX_LAG else GRACE_S
        return self._checkpoint.due_in_s()

    def _gives_way(self) -> bool:
        """Whether all that is left is a run's, and somebody asks something meanwhile."""
        return bool(self._waiting) and self._visible >= self._promised and not self._closing and self._is_asked()

    # ---- acknowledging

    def _acknowledge(self, items: Sequence[_Item]) -> None:
        """Run the plans in order and commit what they came to; each future resolves as soon as it is on the disk."""
        self._files.new_batch()
        entries: list[Entry] = []
        writes: list[Write] = []
        answers: list[tuple[Future[Any], Any]] = []
        size_bytes = 0
        for plan, future in items:
            if not future.set_running_or_notify_cancel():
                continue
            if self._refusal is not None:
                future.set_exception(self._refusal)
                continue
            before = len(entries)
            try:
                planned = plan(self._files)
                for change in planned.changes:
                    self._files.admit(change)
                    entries.append(self._entry(change))
                    size_bytes += len(change.content)
            except Exception as error:
                if len(entries) > before:
                    del entries[before:]
                    self._files.reset([*self._waiting, *entries])
                future.set_exception(error)
                continue
            writes.extend(planned.writes)
            answers.append((future, planned.result))
            if size_bytes >= MAX_BATCH_BYTES:
                self._commit(entries, writes, answers)
                entries, writes, answers, size_bytes = [], [], [], 0
        if answers:
            self._commit(entries, writes, answers)

    def _entry(self, change: FileChange) -> Entry:
        self._seq += 1
        return Entry(
            self._seq,
            change.kind,
            change.path,
            change.content,
            change.from_offset,
            change.pre_sha256,
            change.run_id,
            change.ordinal,
        )

    def _commit(
        self, entries: list[Entry], writes: Sequence[Write], answers: Sequence[tuple[Future[Any], Any]]
    ) -> None:
        try:
            if entries or writes:
                self._commit_or_reopen(entries, writes)
        except Exception as error:
            self._files.reset(self._waiting)
            for future, _ in answers:
                future.set_exception(error)
            return
        if entries:
            self._waiting.extend(entries)
            self._acknowledged = entries[-1].seq
            self._promised = max((e.seq for e in entries if e.run_id is None), default=self._promised)
        for future, result in answers:
            future.set_result(result)

    def _commit_or_reopen(self, entries: Sequence[Entry], writes: Sequence[Write]) -> None:
        try:
            self._ledger.commit(entries, writes)
        except apsw.FullError as error:
            raise StoreError("the disk is full", hint="Make room; nothing that was acknowledged is lost.") from error
        except apsw.IOError as first:
            # A failed fsync is not tried again on the same handle: the pages count as clean there.
            logger.warning("the ledger could not be written (%s); opening it anew", type(first).__name__)
            try:
                self._ledger.reopen()
                self._ledger.commit(entries, writes)
            except apsw.Error as second:
                self._refuse(_disk_failed(second))
                raise _disk_failed(second) from second

    # ---- what follows

    def _make_visible(self, turn_s: float) -> None:
        """Write the oldest entries into their files and let the index know; about as many as fit into the turn."""
        began = self._monotonic()
        entries = list(islice(self._waiting, max(1, min(MAX_TURN_ROWS, int(turn_s / self._cost_s)))))
        try:
            placed = self._placer.place(entries)
        except OSError as first:
            logger.warning("a file could not be written (%s); trying once more", type(first).__name__)
            try:
                placed = self._placer.place(entries)
            except OSError as second:
                self._refuse(_disk_failed(second))
                return
        if placed.kept_out:
            self._ledger.keep_out(placed.kept_out)
            _warn_of(placed.kept_out)
        for _ in entries:
            self._waiting.popleft()
        self._files.placed(entries)
        self._index(placed.applied)
        self._checkpoint.note(entries)
        self._visible = entries[-1].seq if self._waiting else self._acknowledged
        self._cost_s = max(1e-5, (self._monotonic() - began) / len(entries))

    def _index(self, applied: Sequence[AppliedFile]) -> None:
        try:
            self._on_applied(applied)
        except Exception as error:  # the files are there; the index reconciles with them when it can
            logger.warning("the index did not take %d files (%s)", len(applied), type(error).__name__)
            self.index_failure = error

    def _begin_checkpoint(self) -> None:
        self._nudged = False
        self._checkpoint.begin(self._visible, lambda: self._queue.put(_WAKE))

    def _end_checkpoint(self, *, closing: bool = False) -> None:
        try:
            _warn_of(self._checkpoint.end(self._visible, closing=closing))
        except (OSError, apsw.Error) as error:
            self._refuse(_disk_failed(error))

    def _release_barriers(self) -> None:
        if not self._barriers:
            return
        waiting = []
        for barrier in self._barriers:
            if barrier.seq <= self._visible or self._refusal is not None:
                barrier.reached.set_result(None)
            else:
                waiting.append(barrier)
        self._barriers = waiting

    def _refuse(self, why: StoreError) -> None:
        """Accept nothing more. What was acknowledged is in the ledger and comes into the vault at the next start."""
        self._refusal = why
        logger.error("no more writes are accepted: %s", why)

    def _finish(self) -> None:
        while self._waiting and self._refusal is None:
            self._make_visible(FORCED_TURN_S)
        self._end_checkpoint()
        if self._refusal is None:
            self._begin_checkpoint()
            self._end_checkpoint(closing=True)
        self._release_barriers()


def _warn_of(kept_out: Sequence[Entry]) -> None:
    if kept_out:
        logger.warning("%d changes gave way to files that a person has changed", len(kept_out))


def _disk_failed(error: BaseException) -> StoreReadOnly:
    code = getattr(error, "errno", None)
    what = os.strerror(code) if code else type(error).__name__
    return StoreReadOnly(
        f"the disk refuses to write: {what}",
        hint="Look at the disk, then restart dreamd: nothing acknowledged is lost.",
    )
