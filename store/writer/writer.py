"""The one writer: group commit into the ledger, which is the acknowledgement; the files follow it.

A fault that passes is a state that ends by itself. The ledger cannot be written (a full disk, a lock): the requests of
that moment are refused as busy, and the next ones are tried again. The vault cannot be written, or is not there: what
is acknowledged stays in the ledger, and the files are tried again, less and less often, until they go through.
"""

from __future__ import annotations

import contextlib
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

from ..engine.database import is_full
from ..ledger.journal import BLIND, AppliedFile, Entry, FileChange
from ..ledger.ledger import Ledger
from ..ledger.records import Write
from ..model import Corrupt, StoreBusy, StoreError
from ..vault.layout import SESSIONS_FOLDER
from ..vault.presence import Presence, RootIdentity
from ..vault.vault import Vault
from .pending import PendingFiles, fit
from .placer import Checkpoint, Placer

T = TypeVar("T")

MAX_QUEUE: Final = 10_000
"""Plans that wait for the writer; more are refused."""

MAX_BATCH_PLANS: Final = 256
MAX_BATCH_BYTES: Final = 4 * 2**20
"""Plans of one turn, and bytes of one commit."""

MAX_LAG: Final = 10_000
"""Entries that wait for their files, beyond which files are written although plans wait."""

MAX_TURN_ROWS: Final = 512
"""Entries placed in one turn."""

MAX_WAITING_BYTES: Final = 256 * 2**20
"""Bytes that wait for a vault that cannot be written, beyond which plans are refused: they are in memory too."""

FIRST_RETRY_S: Final = 0.25
LONGEST_RETRY_S: Final = 5.0
"""The wait after a fault of the vault before its files are tried again, doubled each time up to the longest."""

HELD_RETRY_S: Final = 30.0
"""The wait before a single file that cannot be written (its folder is read-only) is tried again."""

REFUSED_S: Final = 15.0
"""A refused write with none after it is reported for this time: nothing says when its reason ended."""

GRACE_S: Final = 0.002
"""The wait of files after an acknowledgement for the next plan: a client that writes again at once does not wait for
the files of its last write."""

YIELD_S: Final = 0.02
"""The wait between two short turns for the files of a dream, while requests come in: no client waits for them."""

IDLE_TURN_S: Final = 0.005
FORCED_TURN_S: Final = 0.025
"""The length of one turn of file work: with nothing else to do, and when a barrier or MAX_LAG forces it."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Planned(Generic[T]):
    """The outcome of a plan: changes to files and rows for the ledger, in one transaction, and the caller's result.

    `awaited`: questions wait for the changes of this run, too, as they do for every change that is of no run.
    """

    result: T
    changes: Sequence[FileChange] = ()
    writes: Sequence[Write] = ()
    awaited: bool = False


Plan = Callable[[PendingFiles], Planned[T]]


@dataclass(frozen=True, slots=True)
class WriterEvents:
    """The functions that the writer calls in its thread.

    `placed` gets the files that changed, and the number up to which entries are in their files. `deleted` gets the
    files that go, and their number, before that is acknowledged. `vault_back` is called when the vault was away and is
    there again.
    """

    placed: Callable[[Sequence[AppliedFile], int], None] = lambda files, seq: None
    deleted: Callable[[Sequence[str], int], None] = lambda paths, seq: None
    vault_back: Callable[[], None] = lambda: None


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
    ledger on the disk. Files are written shortly after; `barrier` waits for that. `presence` looks for the vault;
    `is_asked` returns True if a client called a moment ago.
    """

    def __init__(
        self,
        vault: Vault,
        ledger: Ledger,
        events: WriterEvents = WriterEvents(),
        presence: Presence | None = None,
        is_asked: Callable[[], bool] = lambda: False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger = ledger
        self._events = events
        self._monotonic = monotonic
        self._is_asked = is_asked
        self._presence = presence
        self._placer = Placer(vault)
        self._files = PendingFiles(vault, self._placer.size)
        self._unseen = PendingFiles(vault, lambda _: None)  # the files as planned while the vault is away
        self._queue: SimpleQueue[_Item | _Barrier | None] = SimpleQueue()
        self._gate = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = self._nudged = self._hurried = self._idling = False
        self._barriers: list[_Barrier] = []
        self._in_hand: Sequence[_Item] = ()
        self._waiting: deque[Entry] = deque()  # acknowledged, not in their files yet
        self._blind: list[Entry] = []  # acknowledged while the vault was away
        self._held: list[Entry] = []  # of files that the system does not let us write
        self._waiting_bytes = 0
        self._tried_to = 0
        self._trouble: StoreBusy | None = None
        self._refused: Exception | None = None
        self._refused_at = 0.0
        self._retry_at = 0.0
        self._retry_s = FIRST_RETRY_S
        self._held_retry_at = 0.0
        self._ledger_distrusted = ledger.is_copy
        self._was_away = False
        self._placed_in: RootIdentity | None = None
        self._seq = self._acknowledged = self._promised = self._visible = ledger.last_seq()
        self._checkpoint = Checkpoint(self._placer, ledger, monotonic)
        self._acknowledged_at = float("-inf")
        self._cost_s = 0.0005  # of placing one entry, as last seen

    # ---- called from any thread

    def start(self) -> None:
        """Read the entries that a crash left unplaced, and start the thread."""
        self._begin_anew()
        if self._presence is not None and not self._is_away():
            self._placed_in = self._presence.identity()
        if self._ledger.is_copy:
            self._begin_fault(StoreBusy("the disk cannot be written", hint="Make room; dreamd goes on by itself."))
        self._thread = threading.Thread(target=self._run, name="dreamd-writer", daemon=True)
        self._thread.start()

    def replay(self) -> None:
        """Place the entries that a crash left, durably, in this thread. Raises StoreBusy when the disk refuses."""
        self._begin_anew()
        while self._waiting or self._blind:
            if self._may_place():
                self._place_some(FORCED_TURN_S)
            if self._trouble is not None:
                raise self._trouble
        # First durable in the files, then out of the journal: a crash between the two only places them again.
        self._placer.sync(self._placer.take_unsynced())
        self._ledger.forget_done(self._seq, [entry.seq for entry in self._held])
        self._ledger.checkpoint(anyway=True)

    def submit(self, plan: Plan[T]) -> Future[T]:
        """Queue a plan. Raises StoreBusy when the queue is full or closed, or too much waits for the vault."""
        future: Future[T] = Future()
        # `close` takes the same lock: a plan is queued before the thread ends, which still runs it, or is refused.
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

    def checkpoint_soon(self) -> None:
        """Remove placed entries from the journal at the next moment in which no request comes in."""
        self._hurried = True
        self._queue.put(_WAKE)

    def barrier(self, timeout_s: float, *, runs: bool = True) -> bool:
        """Wait until all acknowledged entries are in their files; False after the timeout, or during a fault.

        Without `runs` the entries of a dream are not waited for.
        """
        # Written by one thread and read without a lock: a number that is a moment old only costs a wait.
        until = self.acknowledged(runs=runs)
        if self._visible >= until:
            return True
        barrier = _Barrier(until)
        with self._gate:
            if self._closing or self._trouble is not None:
                return False
            self._queue.put(barrier)
        try:
            barrier.reached.result(timeout_s)
        except TimeoutError:
            return False
        return self._visible >= barrier.seq

    def acknowledged(self, *, runs: bool = True) -> int:
        """Return the number of the last acknowledged entry; without `runs`, of the last that questions wait for."""
        return self._acknowledged if runs else self._promised

    @property
    def visible(self) -> int:
        """The number up to which entries are in their files."""
        return self._visible

    @property
    def lag(self) -> int:
        """The number of acknowledged changes that are not in their files yet."""
        return len(self._waiting) + len(self._blind) + len(self._held)

    @property
    def is_behind(self) -> bool:
        """True while acknowledged changes are about to go into their files; False during a fault."""
        return bool(self._waiting or self._blind) and self._trouble is None

    def is_writing(self, within_s: float) -> bool:
        """Return True if a write was acknowledged within the last `within_s` seconds."""
        return self._monotonic() < self._acknowledged_at + within_s

    @property
    def trouble(self) -> StoreBusy | None:
        """The reason why the vault cannot be written now, None if it can; it ends by itself."""
        return self._trouble

    @property
    def refusal(self) -> Exception | None:
        """The reason why the last write was refused, None if it was not, or that is REFUSED_S ago."""
        return self._refused if self._monotonic() < self._refused_at + REFUSED_S else None

    @property
    def held_paths(self) -> tuple[str, ...]:
        """The files that cannot be written, though others can; their content waits in the ledger."""
        return tuple(dict.fromkeys(entry.path for entry in self._held))

    def begin_ledger_anew(self) -> None:
        """Have the writer's thread set a damaged ledger aside and begin another."""
        with contextlib.suppress(StoreError):  # closing: the next start does it
            self.submit(self._begin_ledger_anew)

    def _begin_ledger_anew(self, _files: PendingFiles) -> Planned[None]:
        """Set a damaged ledger aside; acknowledged entries that are not in their files yet go into the next one."""
        if self._ledger.damage is not None:
            try:
                self._ledger.begin_anew([*self._held, *self._waiting], self._blind)
            except (apsw.Error, OSError, StoreBusy) as error:
                raise _busy(error) from error
        return Planned(None)

    def close(self) -> None:
        """Finish all submitted plans, make their files durable, and stop. The ledger stays open."""
        with self._gate:
            self._closing = True
            self._queue.put(_WAKE)
        # A plan that was queued before `_closing` was set is still run: `_run` ends only with an empty queue.
        if self._thread is not None:
            self._thread.join()

    def _check_open(self) -> None:
        if self._closing:
            raise StoreBusy("the store is closing", hint="Start dreamd again.")
        if self._waiting_bytes > MAX_WAITING_BYTES:
            waits = f"{self._waiting_bytes // 2**20} MiB wait for the vault"
            raise StoreBusy(f"{waits}: {self._trouble}" if self._trouble else waits, hint="Try again in a minute.")

    # ---- the thread

    def _run(self) -> None:
        # An error in one turn must not end the thread: every later write of the store would wait for ever.
        while not (self._closing and self._queue.empty()):
            try:
                self._turn()
            except Exception as error:
                self._survive(error)
        try:
            self._finish()
        except Exception as error:
            self._survive(error)
        self._release_barriers()

    def _survive(self, error: Exception) -> None:
        """Go on after an unexpected error: acknowledged entries are in the journal, and are tried again from there."""
        frame = traceback.extract_tb(error.__traceback__)[-1]  # not the message: it may hold a person's text
        logger.error("the writer failed: %s at %s:%d", type(error).__name__, frame.filename, frame.lineno)
        self._begin_fault(StoreBusy(f"the writer failed with {type(error).__name__}", hint="The log has the place."))
        self._reset_pending()
        for _, future in self._in_hand:
            if not future.done():
                future.set_exception(StoreBusy(str(self._trouble), hint="Try again; the log has the place."))
        self._release_barriers()

    def _turn(self) -> None:
        """Take the waiting plans and commit them together; then place files and checkpoint, if it is time to.

        A turn is a group commit: all plans in the queue (at most MAX_BATCH_PLANS, and MAX_BATCH_BYTES a commit) become
        one transaction of the ledger, with one fsync. Their futures resolve then, before any file is written, so a
        plan costs its share of an fsync and never a file. Files are written in a turn that

        - found no plan (`_idling`; `_take` waits GRACE_S for one after a commit), for about IDLE_TURN_S, or
        - has a barrier, or MAX_LAG entries behind it, for about FORCED_TURN_S, with plans or without.

        A fault of the vault (a full disk, an unmounted folder) stops files alone: later turns go on to commit, and
        `_may_place` says when files are tried again.

        Example: clients A and B call `remember` at once, and C does so while these are committed.
          turn 1  takes A and B: one commit, both futures resolve. It found plans: no files.
          turn 2  takes C: one commit. It found a plan: no files.
          turn 3  waits 2 ms for a plan and finds none: writes the files of A, B and C, and calls `events.placed`.
          turn 4  waits until a checkpoint is due: that syncs the files, and A, B and C leave the journal.
        If C recalls right after its write, its barrier ends the wait of turn 3, which also releases it.
        """
        items = self._take()
        if items:
            self._acknowledge(items)
        self._idling = not items
        # Files wait while plans come in, but not for ever: their entries are also held in memory.
        behind = bool(self._barriers) or len(self._waiting) >= MAX_LAG
        places = self._has_work and (behind or self._idling)
        # A fault is looked at in every turn, so that it ends soon after its cause, also when nothing is to be placed.
        if (places or self._checkpoint.must_end or self._trouble is not None) and self._may_place():
            if places:
                self._place_some(FORCED_TURN_S if behind and not self._yields_to_requests() else IDLE_TURN_S)
            if self._checkpoint.must_end:
                self._end_checkpoint()
            if not self._has_work and not self._checkpoint.must_end:
                self._end_fault()
        if self._hurried:
            self._hurried = False
            self._checkpoint.hurry()
        if self._trouble is None and self._checkpoint.is_due(idle=self._idling and not self._waiting):
            self._begin_checkpoint()
        self._release_barriers()

    @property
    def _has_work(self) -> bool:
        """True when entries can be placed now."""
        return bool(self._waiting or self._blind) or (bool(self._held) and self._monotonic() >= self._held_retry_at)

    def _take(self) -> list[_Item]:
        items: list[_Item] = []
        patience_s = self._patience_s()
        try:
            # Block for the first item only; then take whatever else is there, for one commit.
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
        """Return how long to wait for the next plan before other work; None: until it comes."""
        if self._trouble is not None:
            return max(0.0, self._retry_at - self._monotonic())
        if self._waiting or self._blind:
            if self._yields_to_requests():
                return YIELD_S
            return 0.0 if self._idling or self._barriers or len(self._waiting) >= MAX_LAG else GRACE_S
        due_in_s = self._checkpoint.due_in_s()
        if self._held:
            held_in_s = max(0.0, self._held_retry_at - self._monotonic())
            return held_in_s if due_in_s is None else min(held_in_s, due_in_s)
        return due_in_s

    def _yields_to_requests(self) -> bool:
        """Return True if only a dream's entries are left and a request came in a moment ago."""
        return bool(self._waiting) and self._visible >= self._promised and not self._closing and self._is_asked()

    # ---- acknowledging

    def _acknowledge(self, items: Sequence[_Item]) -> None:
        """Run the plans in order and commit their outcomes; each future resolves once its own is on the disk."""
        # While blind entries wait, new ones are planned blind as well, since they may build on those. Order is kept so.
        blind = bool(self._blind) or self._is_away()
        files = self._unseen if blind else self._files
        files.new_batch()
        entries: list[Entry] = []
        writes: list[Write] = []
        answers: list[tuple[Future[Any], Any]] = []
        size_bytes = promised = 0
        self._in_hand = items
        for plan, future in items:
            if not future.set_running_or_notify_cancel():
                continue
            before = len(entries)
            try:
                planned = plan(files)
                for change in planned.changes:
                    files.admit(change)
                    entries.append(self._entry(change))
                    size_bytes += len(change.content)
            except Exception as error:
                # A plan is all or nothing: the changes admitted before its error leave the view again.
                if len(entries) > before:
                    del entries[before:]
                    self._reset_pending(entries, blind=blind)
                future.set_exception(_passing(error))
                continue
            # Questions wait for single writes, not for the thousands of files of a dream: those have a run.
            if planned.awaited or any(change.run_id is None for change in planned.changes):
                promised = self._seq
            writes.extend(planned.writes)
            answers.append((future, planned.result))
            if size_bytes >= MAX_BATCH_BYTES:
                self._commit(entries, writes, answers, promised, blind=blind)
                entries, writes, answers, size_bytes = [], [], [], 0
        if answers:
            self._commit(entries, writes, answers, promised, blind=blind)

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

    def _reset_pending(self, planned: Sequence[Entry] = (), *, blind: bool = False) -> None:
        """Reset the view of pending files to the acknowledged entries, and these of the current batch."""
        self._files.reset([*self._held, *self._waiting, *(() if blind else planned)])
        self._unseen.reset([*self._blind, *(planned if blind else ())])

    def _commit(
        self,
        entries: list[Entry],
        writes: Sequence[Write],
        answers: Sequence[tuple[Future[Any], Any]],
        promised: int,
        *,
        blind: bool,
    ) -> None:
        """Commit and acknowledge; questions wait for the entries up to the number `promised`."""
        try:
            if entries or writes:
                self._commit_or_reopen(entries, writes, blind=blind)
        except Exception as error:
            # Nothing of this batch is in the ledger: the view goes back, and each future fails.
            self._refused, self._refused_at = error, self._monotonic()
            self._reset_pending()
            for future, _ in answers:
                future.set_exception(error)
            return
        self._refused = None
        self._acknowledged_at = self._monotonic()
        if entries:
            (self._blind if blind else self._waiting).extend(entries)
            self._waiting_bytes += sum(len(entry.content) for entry in entries)
            self._acknowledged = entries[-1].seq
            self._promised = max(promised, self._promised)
            # Before the futures resolve: after the answer to a deletion no question may find the file.
            self._note_deleted(entries)
        for future, result in answers:
            future.set_result(result)

    def _note_deleted(self, entries: Sequence[Entry]) -> None:
        if gone := [entry.path for entry in entries if entry.kind == "delete"]:
            self._events.deleted(gone, entries[-1].seq)

    def _commit_or_reopen(self, entries: Sequence[Entry], writes: Sequence[Write], *, blind: bool) -> None:
        """Commit, to a new ledger if this one is damaged. Raises StoreBusy: the next commit may succeed."""
        try:
            if self._ledger.damage is not None:
                self._begin_ledger_anew(self._files)
            self._commit_or_reconnect(entries, writes, blind=blind)
        except Corrupt:
            self._begin_ledger_anew(self._files)
            self._commit_or_reconnect(entries, writes, blind=blind)

    def _commit_or_reconnect(self, entries: Sequence[Entry], writes: Sequence[Write], *, blind: bool) -> None:
        """Commit, on a new connection if the last commit failed."""
        try:
            # The last commit failed, so this connection's pages may count as clean though they are not on the disk.
            if self._ledger_distrusted:
                self._ledger.reopen()
                self._ledger_distrusted = False
            self._ledger.commit(entries, writes, blind=blind)
        except (apsw.IOError, apsw.CantOpenError, apsw.ReadOnlyError) as first:
            # A failed fsync is not tried again on the same handle: the pages count as clean there.
            logger.warning("the ledger could not be written (%s); opening it anew", type(first).__name__)
            self._ledger_distrusted = True
            try:
                self._ledger.reopen()
                self._ledger.commit(entries, writes, blind=blind)
            except (apsw.Error, StoreBusy) as second:
                raise _passing(second) from second
            self._ledger_distrusted = False
        except (apsw.Error, StoreBusy) as error:
            raise _passing(error) from error

    # ---- the vault's files

    def _is_away(self) -> bool:
        return self._presence is not None and self._presence.look() is not None

    def _may_place(self) -> bool:
        """Return True if files may be written: the vault is there, and the wait after a fault is over."""
        if self._trouble is not None and self._monotonic() < self._retry_at:
            return False
        if self._presence is not None and (absence := self._presence.look()) is not None:
            self._begin_fault(StoreBusy(absence.reason, hint=absence.hint), away=True)
            self._was_away = True
            return False
        if self._ledger.is_copy and not self._ledger_is_back():
            return False
        if self._ledger.damage is not None and not self._has_another_ledger():
            return False
        # Another folder at the same path (a volume mounted late) has none of the files that were written before.
        if self._presence is not None and self._presence.identity() != self._placed_in:
            self._enter_vault()
        if self._was_away:
            self._was_away = False
            self._events.vault_back()
        return True

    def _has_another_ledger(self) -> bool:
        """Return True once another ledger is begun in place of one that is damaged."""
        try:
            self._begin_ledger_anew(self._files)
        except StoreBusy as error:
            self._begin_fault(error)
            return False
        return True

    def _ledger_is_back(self) -> bool:
        """Return True if a ledger whose disk could not be written at the start can be written now."""
        try:
            self._ledger.reopen()
        except (apsw.Error, StoreError) as error:
            self._begin_fault(_busy(error))
            return False
        self._ledger_distrusted = False
        self._begin_anew()
        return True

    def _enter_vault(self) -> None:
        """Start over from the journal: entries not synced in the earlier folder are placed in this one."""
        assert self._presence is not None
        self._checkpoint.abandon()
        self._placer.take_unsynced()
        self._begin_anew()
        self._was_away = self._placed_in is not None
        self._placed_in = self._presence.identity()

    def _begin_anew(self) -> None:
        """Read from the journal the entries that are not known to be on the disk."""
        self._waiting = deque(self._ledger.pending())
        self._blind = self._ledger.pending(BLIND)
        self._held = []
        self._reset_pending()
        self._waiting_bytes = sum(len(entry.content) for entry in (*self._waiting, *self._blind))
        self._tried_to = self._waiting[-1].seq if self._waiting else 0
        # Visible are all entries before the first that is not: with none waiting, all that were acknowledged.
        first = min((entries[0].seq for entries in (self._waiting, self._blind) if entries), default=None)
        self._visible = self._acknowledged if first is None else first - 1
        for entries in (self._waiting, self._blind):
            self._note_deleted(entries)

    def _place_some(self, turn_s: float) -> None:
        """Write the oldest entries into their files, about as many as fit into the turn."""
        began = self._monotonic()
        # Held entries are older than those that wait, so they go to the front: per file the order stays.
        if self._held and began >= self._held_retry_at:
            self._waiting.extendleft(reversed(self._held))
            self._held = []
        if not self._waiting:
            self._fit_blind()
            return
        entries = self._oldest(max(1, min(MAX_TURN_ROWS, int(turn_s / self._cost_s))))
        held = set(self.held_paths)
        try:
            # Entries of a held file must not overtake those that are held: they join them (`_done_placing`).
            placed = self._placer.place([entry for entry in entries if entry.path not in held])
        except OSError as error:
            self._begin_fault(_busy(error))
            return
        if self._is_away():  # it went away during the writes: nothing found there counts
            self._may_place()
            return
        self._record_kept_out(placed.kept_out)
        self._done_placing(entries, {entry.path for entry in placed.held} | held)
        self._end_fault()
        self._events.placed(placed.applied, self._visible)
        self._cost_s = max(1e-5, (self._monotonic() - began) / len(entries))

    def _record_kept_out(self, kept_out: Sequence[Entry]) -> None:
        """Record entries kept out by a person's edit; turns of a session that exists already are appended to it."""
        # A session's file may have come back with the vault, or by a sync: its turns are no conflict.
        behind = [entry for entry in kept_out if entry.kind == "create" and entry.path.startswith(SESSIONS_FOLDER)]
        self._blind.extend(behind)
        if out := [entry for entry in kept_out if entry not in behind]:
            self._ledger.keep_out(out)
            _warn_of(out)

    def _oldest(self, count: int) -> list[Entry]:
        """Return the next entries to place, about `count`.

        An entry that was tried before (by a killed process or in a failed turn) is placed with all that waited for the
        same file then: only together do they distinguish a torn write from a person's edit.
        """
        entries = list(islice(self._waiting, count))
        if entries[0].seq > self._tried_to:
            return entries
        paths = {entry.path for entry in entries}
        return [entry for entry in self._waiting if entry.path in paths and entry.seq <= self._tried_to]

    def _done_placing(self, entries: Sequence[Entry], held: set[str]) -> None:
        """Drop placed entries from the queue; those of `held` paths are tried again later."""
        done = [entry for entry in entries if entry.path not in held]
        gone = {entry.seq for entry in entries}
        # Nearly always the placed entries are a prefix of the queue; only after a fault are some taken from its middle.
        while self._waiting and self._waiting[0].seq in gone:
            self._waiting.popleft()
        if self._waiting and self._waiting[0].seq < entries[-1].seq:  # some were taken out of their order
            self._waiting = deque(entry for entry in self._waiting if entry.seq not in gone)
        if len(done) < len(entries):
            self._held.extend(entry for entry in entries if entry.path in held)
            self._held_retry_at = self._monotonic() + HELD_RETRY_S
            logger.warning("%d files cannot be written; trying again later", len(held))
        self._files.placed(done)
        self._checkpoint.note(done)
        self._waiting_bytes -= sum(len(entry.content) for entry in done)
        if self._waiting:
            self._visible = self._waiting[0].seq - 1
        else:
            self._visible = self._blind[0].seq - 1 if self._blind else self._acknowledged

    def _fit_blind(self) -> None:
        """Fit the entries acknowledged while the vault was away to the files that are there, in one transaction."""
        self._files.reset(self._held)
        fitted: list[Entry] = []
        known: list[Entry] = []
        try:
            for entry in self._blind:
                change = fit(entry, self._files)
                if change is None:
                    known.append(entry)
                    continue
                self._files.admit(change)
                fitted.append(entry._replace(**_planned_fields(change)))
            # Files that seem absent because the vault went away meanwhile must not decide how entries fit.
            if self._is_away():
                return
            self._ledger.fit(fitted, known)
        except (OSError, StoreError, apsw.Error) as error:
            self._reset_pending()
            self._begin_fault(_busy(error))
            return
        self._waiting_bytes = sum(len(entry.content) for entry in (*self._held, *fitted))
        self._waiting.extend(fitted)
        self._blind = []
        self._reset_pending()
        self._visible = fitted[0].seq - 1 if fitted else self._acknowledged
        if not fitted:
            self._events.placed((), self._visible)

    def _begin_checkpoint(self) -> None:
        self._nudged = False
        self._checkpoint.begin(self._visible, lambda: self._queue.put(_WAKE))

    def _end_checkpoint(self, *, closing: bool = False) -> None:
        try:
            # The sync covers files up to its number; entries below it without a file yet must stay in the journal.
            unplaced = {entry.seq for entry in (*self._held, *self._waiting)}
            _warn_of(self._checkpoint.end(self._visible, unplaced, closing=closing))
        except (OSError, apsw.Error, StoreError) as error:
            self._begin_fault(_busy(error))

    # ---- faults

    def _begin_fault(self, why: StoreBusy, *, away: bool = False) -> None:
        """Stop writing files until the next retry; entries acknowledged meanwhile stay in the ledger."""
        if self._trouble is None:
            logger.warning("the vault cannot be written: %s", why)
        # Doubled for a disk that is full or broken, which each attempt loads.
        if self._trouble is None or away:  # looking for a folder costs nothing
            self._retry_s = FIRST_RETRY_S
        else:
            self._retry_s = min(LONGEST_RETRY_S, 2 * self._retry_s)
        self._tried_to = self._waiting[-1].seq if self._waiting else 0
        self._trouble = why
        self._retry_at = self._monotonic() + self._retry_s

    def _end_fault(self) -> None:
        if self._trouble is not None:
            logger.info("the vault can be written again")
            self._trouble = None

    def _release_barriers(self) -> None:
        if not self._barriers:
            return
        waiting = []
        for barrier in self._barriers:
            # A fault releases all: who waits is answered with what is there, instead of after the fault.
            if barrier.seq <= self._visible or self._trouble is not None:
                barrier.reached.set_result(None)
            else:
                waiting.append(barrier)
        self._barriers = waiting

    def _finish(self) -> None:
        # One last attempt without the wait; where it fails, the entries stay in the journal for the next start.
        self._retry_at = 0.0
        while (self._waiting or self._blind) and self._may_place():
            self._place_some(FORCED_TURN_S)
            if self._trouble is not None:
                break
        if self._trouble is None:
            self._end_checkpoint()
        if self._trouble is None:
            self._begin_checkpoint()
            self._end_checkpoint(closing=True)
        for barrier in self._barriers:
            barrier.reached.set_result(None)
        self._barriers = []


def _planned_fields(change: FileChange) -> dict[str, Any]:
    return {
        "kind": change.kind,
        "content": change.content,
        "from_offset": change.from_offset,
        "pre_sha256": change.pre_sha256,
    }


def _warn_of(kept_out: Sequence[Entry]) -> None:
    if kept_out:
        logger.warning("skipped %d changes: the files were edited by hand", len(kept_out))


def _passing(error: Exception) -> Exception:
    """Return an error of disk or database as StoreBusy, since trying again may help; any other as it is."""
    passes = isinstance(error, apsw.Error | OSError) and not isinstance(error, apsw.CorruptError | apsw.NotADBError)
    return _busy(error) if passes else error


def _busy(error: Exception) -> StoreBusy:
    """Return the error as StoreBusy: the reason, and that it ends by itself."""
    if isinstance(error, StoreBusy):
        return error
    code = getattr(error, "errno", None)
    if is_full(error):
        return StoreBusy("the disk is full", hint="Make room; dreamd goes on by itself, and nothing is lost.")
    what = os.strerror(code) if code else type(error).__name__
    return StoreBusy(
        f"the disk cannot be written: {what}",
        hint="Check the disk; dreamd then goes on by itself, and nothing acknowledged is lost.",
    )
