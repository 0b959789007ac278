"""Indexing of changed files in a thread of its own: no acknowledgement ever waits for the index.

Files that the writer placed come first. Files that others changed (a burst of edits, a comparison of the whole vault)
are applied in short slices, between which the former get their turn.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from typing import Any, Final, TypeVar

import apsw

from ..engine.database import is_full
from ..ledger.journal import Appended, AppliedFile
from ..model import StoreBusy, StoreError
from ..vault.vault import is_kept
from .index import SLICE_S, Index
from .projection import Node

logger = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_RETRY_S: Final = 0.25
# The wait before files that could not be indexed are tried again, doubled each time up to the longest.
LONGEST_RETRY_S: Final = 5.0

# The most files, and turns of the writer, in one transaction.
FILES_AT_ONCE, TURNS_AT_ONCE = 128, 16

# The share of the time that a comparison takes while requests come in; for the rest it waits.
SHARE_WHILE_BUSY: Final = 0.5

# The time that `stop` spends on files that the writer placed; a file that takes longer is left to the next start.
STOP_S: Final = 1.0

QUIET_S: Final = 0.005
# While a write was acknowledged within QUIET_S, placed files wait for LONGEST_REST_S at most, and are then indexed in
# this share of the time: Python runs one thread at a time, and beside the indexing of earlier writes the writer
# acknowledged half as many a second. A caller of `wait_for` ends the rest, and so do MOST_RESTING turns of the writer.
LONGEST_REST_S, SHARE_WHILE_WRITING, MOST_RESTING = 1.0, 0.1, 4096

# A job (an edit by hand, a comparison) that has waited so long for the placed files ends the rest, too.
LONGEST_WAIT_S: Final = 2.0

_Placed = tuple[Sequence[AppliedFile], int]
_Job = tuple[Callable[[], Any], "Future[Any]", float]


class Indexer:
    """Applies files to the index. Every method may be called from any thread but the indexer's own.

    `on_indexed` is called after files were indexed; `is_busy` says that a request is in flight, `is_writing` that a
    write was acknowledged within so many seconds.
    """

    def __init__(
        self,
        index: Index,
        on_indexed: Callable[[], None],
        is_busy: Callable[[], bool] = lambda: False,
        is_writing: Callable[[float], bool] = lambda within_s: False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._index = index
        self._on_indexed = on_indexed
        self._is_busy = is_busy
        self._is_writing = is_writing
        self._monotonic = monotonic
        self._placed: deque[_Placed] = deque()
        self._jobs: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._refusing = self._stopping = False
        self._stop_at = 0.0
        self._indexed_seq = self._wanted_seq = 0
        self._retry_s = FIRST_RETRY_S
        self._thread = threading.Thread(target=self._run, name="dreamd-indexer", daemon=True)
        self.following: Future[None] | None = None
        """The last job that has the index follow what was forgotten."""
        self.on_created: Callable[[Collection[Node]], None] | None = None
        """Called with the memories and turns that came with files which the writer placed; not in a rebuild."""
        self.problem: str | None = None
        """The reason why the index cannot be written now, None if it can; it ends by itself."""

    def start(self, indexed_seq: int) -> None:
        """Start the thread; entries up to this number are indexed, or will be found by a comparison."""
        self._indexed_seq = indexed_seq
        self._index.between_slices = self._between_slices
        self._index.raise_if_stopped = self._raise_if_stopped
        self._thread.start()

    def begin_to_stop(self) -> None:
        """Refuse jobs from now on, and end after STOP_S what takes longer; what is placed is indexed until `stop`."""
        with self._changed:
            self._refusing, self._stop_at = True, self._monotonic() + STOP_S
            refused = list(self._jobs)
            self._jobs.clear()
            self._changed.notify_all()
        for _, future, _ in refused:
            if future.set_running_or_notify_cancel():
                future.set_exception(_closing())

    def stop(self) -> None:
        """Stop, after STOP_S of placed files at most; the next start's comparison finds what is left."""
        self.begin_to_stop()
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def placed(self, files: Sequence[AppliedFile], up_to_seq: int) -> None:
        """Queue files that the writer has placed, and with them all entries up to this number."""
        with self._changed:
            self._placed.append(([file for file in files if is_kept(file.path)], up_to_seq))
            self._changed.notify_all()

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Run a job that applies files slice by slice (`Index.apply_all`), once no placed files wait."""
        future: Future[T] = Future()
        with self._changed:
            if self._refusing:
                raise _closing()
            self._jobs.append((job, future, self._monotonic()))
            self._changed.notify_all()
        return future

    def wait_for(self, seq: int, timeout_s: float) -> bool:
        """Wait until the entries up to this number can be found; False after the timeout, or during a fault."""
        if self._indexed_seq >= seq:
            return True  # without waking the thread: most questions have nothing to wait for
        with self._changed:
            self._wanted_seq = max(self._wanted_seq, seq)
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self._indexed_seq >= seq or self.problem is not None or self._stopping, timeout_s
            )
            return self._indexed_seq >= seq

    def has_indexed(self, seq: int) -> bool:
        """Return True if the entries up to this number can be found."""
        return self._indexed_seq >= seq

    @property
    def lag(self) -> int:
        """The number of changed files that wait."""
        return sum(len(files) for files, _ in list(self._placed))

    # ---- the thread

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._placed or self._jobs or self._stopping)
                if self._stopping and (not self._placed or self.problem or self._monotonic() > self._stop_at):
                    return
            if self._placed:
                self._rest(LONGEST_REST_S)
                self._take_placed()
            elif self._jobs:
                self._take_job()

    def _rest(self, at_most_s: float) -> None:
        """Sleep while writes come in, for `at_most_s` at most, so that the writer has the interpreter lock.

        Called before a transaction with LONGEST_REST_S, and in it after each file for as long as indexing it took
        times (1 / SHARE_WHILE_WRITING - 1): 1 ms of indexing, then 9 ms of sleep. It wakes every QUIET_S to see if
        writes have ended, and at once for `wait_for`, for `stop`, at MOST_RESTING turns behind, and for a job after
        LONGEST_WAIT_S.

        Example: writes are acknowledged every 3 ms from 0 to 2,000 ms, and the first files are placed at 10 ms.
        is_writing(5 ms) holds, so nothing is indexed until 1,010 ms, and then for a tenth of the time. At 2,005 ms the
        last write is 5 ms old: the rest ends, and the files that wait are indexed at full speed. If the client
        recalls at 200 ms, `wait_for` ends the rest there, until its write is found.
        """
        until = self._monotonic() + at_most_s
        with self._changed:
            while self._may_rest() and self._is_writing(QUIET_S) and (left_s := until - self._monotonic()) > 0:
                self._changed.wait_for(lambda: not self._may_rest(), min(left_s, QUIET_S))

    def _may_rest(self) -> bool:
        wanted = self._wanted_seq > self._indexed_seq
        held_up = bool(self._jobs) and self._monotonic() > self._jobs[0][2] + LONGEST_WAIT_S
        return not (wanted or held_up or self._refusing) and len(self._placed) < MOST_RESTING

    def _take_placed(self) -> None:
        """Index some of the placed files, oldest first, in one transaction; failures are tried again."""
        taken = self._some_placed()
        files = _merged([file for some, _ in taken for file in some])
        fresh = self._index.fresh = {} if self.on_created else None
        try:
            self._apply(files)
        except Exception as error:
            self._stall(error)
            return
        finally:
            self._index.fresh = None
        self.problem, self._retry_s = None, FIRST_RETRY_S
        with self._changed:
            for _ in taken:
                self._placed.popleft()
            self._indexed_seq = max(self._indexed_seq, taken[-1][1])
            self._changed.notify_all()
        if files:
            self._on_indexed()
        if self.on_created is not None and fresh:
            self.on_created(list(fresh.values()))

    def _some_placed(self) -> list[_Placed]:
        taken: list[_Placed] = []
        files = 0
        for some in list(self._placed):
            taken.append(some)
            files += len(some[0])
            if files >= FILES_AT_ONCE or len(taken) >= TURNS_AT_ONCE:
                break
        return taken

    def _apply(self, files: Sequence[AppliedFile]) -> None:
        """Apply files together; if one cannot be parsed, each by itself, without that one."""
        try:
            with self._index.batch():
                for file in files:
                    began = self._monotonic()
                    self._index.apply(*file)
                    self._rest((self._monotonic() - began) * (1 / SHARE_WHILE_WRITING - 1))
        except (apsw.Error, StoreError, OSError):
            raise  # of the database or the disk: the next file would meet it too
        except Exception:
            if len(files) == 1:
                raise
            for file in files:
                self._apply_alone(file)

    def _apply_alone(self, file: AppliedFile) -> None:
        try:
            self._apply([file])
        except (apsw.Error, StoreError, OSError):
            raise
        except Exception as error:
            logger.error("a file cannot be indexed: %s", _place(error))  # noqa: TRY400 (a traceback may hold its text)

    def _stall(self, error: Exception) -> None:
        if self.problem is None and not self._refusing:
            logger.warning("the index cannot be written: %s", _place(error))
        reason = "the disk is full" if is_full(error) else type(error).__name__
        reason = str(error) if isinstance(error, StoreError) else reason
        with self._changed:
            self.problem = f"What was written last is not found yet: the index cannot be written ({reason})."
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._stopping, self._retry_s)
        self._retry_s = min(LONGEST_RETRY_S, 2 * self._retry_s)

    def _take_job(self) -> None:
        job, future, _ = self._jobs.popleft()
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = job()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    def _between_slices(self) -> None:
        """Index placed files first, and leave the processor to requests for a while.

        Raises StoreBusy when it is time to stop: the comparison goes on at the next start.
        """
        if self._placed and threading.current_thread() is self._thread:
            self._take_placed()
        with self._changed:
            if self._is_busy():
                self._changed.wait_for(lambda: self._refusing, SLICE_S * (1 / SHARE_WHILE_BUSY - 1))
            if self._refusing:
                raise _closing()

    def _raise_if_stopped(self) -> None:
        if self._refusing and self._monotonic() > self._stop_at:
            raise _closing()


def _closing() -> StoreBusy:
    return StoreBusy("the store is closing", hint="Start dreamd again.")


def _merged(files: Sequence[AppliedFile]) -> list[AppliedFile]:
    """Take each path once: appends that follow each other as one, anything else as the whole file."""
    merged: dict[str, AppliedFile] = {}
    for file in files:
        merged[file.path] = _joined(merged[file.path], file) if file.path in merged else file
    return list(merged.values())


def _joined(first: AppliedFile, then: AppliedFile) -> AppliedFile:
    if first.appended is None or then.appended is None or first.appended.after != then.appended.before:
        return AppliedFile(first.path, 0)
    return AppliedFile(first.path, first.from_offset, Appended(first.appended.before, then.appended.after))


def _place(error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]  # not the message: it may hold a person's text
    return f"{type(error).__name__} at {frame.filename}:{frame.lineno}"
