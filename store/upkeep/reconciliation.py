"""The comparison of vault and index: at the start, after every change by hand, and on demand."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, wait
from functools import partial

from ..changes.deletions import Deletions
from ..changes.session_plans import SessionPlans
from ..core import Core
from ..embedding.embedding import ModelUnavailable
from ..index.index import Reconciled, is_as_read
from ..index.projection import is_session
from ..index.repairs import repeated_after_repair
from ..model import IndexDamaged, NodeId, StoreBusy
from ..results import Rebuilt
from ..vault.vault import FileStamp, is_kept
from .embed_queue import EmbedQueue

logger = logging.getLogger(__name__)

# The pause after a failed comparison of vault and index, before the next one.
COMPARED_AGAIN_S = 5.0

# The time after a start, or the vault's return, in which questions wait for the comparison.
PATIENCE_S = 2.0


class Reconciliation:
    """Keeps the index true to the vault. Every method may be called from any thread but the indexer's."""

    def __init__(self, core: Core, deletions: Deletions, sessions: SessionPlans, queue: EmbedQueue) -> None:
        self.repairs = core.repairs
        self._core = core
        self._vault = core.vault
        self._opened = core.opened
        self._indexer = core.indexer
        self._deletions = deletions
        self._sessions = sessions
        self._queue = queue
        self._round = 0

    # ---- the vault as it is

    @repeated_after_repair
    def file_changed(self, paths: Collection[str]) -> None:
        """Read these files of the vault again, unless they are as they were read last: our own writes are known.

        Paths are relative to the vault.
        """
        kept = [path for path in paths if is_kept(path)]
        self._indexer.submit(lambda: self._read_again(kept)).result()
        self._queue.wake()

    @repeated_after_repair
    def reconcile(self, accept_vanished: bool = False) -> Reconciled:
        """Compare every file with the index, and index the differences.

        A missing file is recorded as deleted after a moment, or withheld; `accept_vanished` takes all as deleted, at
        once.
        """
        if accept_vanished:
            self._core.presence.accept()
        found = self._indexer.submit(lambda: self._compare(accept_vanished)).result()
        self._queue.wake()
        return found

    def fill(self) -> None:
        """Read the vault into the new index in place of a damaged one."""
        self._indexer.submit(self._compare).result()

    def look_at_missing(self, gone: Collection[str], *, at_once: bool, accept: bool = False) -> None:
        """Decide about missing files, `at_once` or after a moment; `accept` takes all of them as deleted."""
        if self._core.absence is None:
            self._opened.index.apply_all(sorted(set(gone).difference(self._deletions.withheld)))
        self._deletions.look(at_once=at_once, accept=accept)

    # ---- on demand

    def rebuild(self, progress: Callable[[int, int], None] | None = None) -> Rebuilt:
        """Build a new index from vault and ledger; known texts are not embedded again."""
        self._core.settle()
        began = time.monotonic()
        self._vault.raise_if_away()
        # A file that is gone is known to the index alone: its deletion is recorded before that is discarded.
        with contextlib.suppress(IndexDamaged):
            self.look_at_missing(self._opened.index.gone(), at_once=True)
        self._opened.rebuild(progress)
        self._deletions.relearn()
        embedded = self._queue.drain(self._opened.catalog.counts()["embedding_queue"])
        counts = self._opened.catalog.counts()
        nodes = sum(counts[name] for name in ("sessions", "facts", "scenarios", "profiles", "turns"))
        return Rebuilt(counts["files"], nodes, counts["chunks"], embedded, round(time.monotonic() - began, 3))

    def settle_deletions(self) -> None:
        """Decide now about files that are gone, without waiting for them to come back in a moment."""
        self._core.settle()
        self._deletions.look(at_once=True)

    def embed(self, node_ids: Collection[NodeId]) -> None:
        """Embed the changed nodes now, before all other chunks that wait; nothing while there is no model."""
        self._core.settle()
        with contextlib.suppress(ModelUnavailable):
            self._queue.embed_now(node_ids)

    # ---- after a start

    def catch_up(self) -> None:
        """Begin to compare vault and index, after the daemon or the vault was away; return at once."""
        self._core.patience_until = time.monotonic() + PATIENCE_S
        self._round += 1
        self._opened.is_compared = False
        comparison = self._indexer.submit(partial(self._compare_anew, self._round))
        self._core.comparison = comparison
        comparison.add_done_callback(self._caught_up)

    def wait_until_caught_up(self, timeout_s: float) -> bool:
        """Wait until what changed while the daemon or the vault was away is read; False when that takes longer."""
        return bool(wait([self._core.comparison], timeout_s).done)

    def _caught_up(self, compared: Future[Reconciled]) -> None:
        self._queue.wake()
        error = compared.exception()
        if error is not None and not self._core.closing.is_set() and not isinstance(error, IndexDamaged):
            logger.warning("the vault could not be compared (%s); again soon", type(error).__name__, exc_info=error)
            # A timer, since this runs in the indexer's thread, which must not wait.
            again = threading.Timer(COMPARED_AGAIN_S, self._catch_up_again)
            again.daemon = True
            again.start()

    def _catch_up_again(self) -> None:
        with contextlib.suppress(StoreBusy):  # it is closing
            self.catch_up()

    # ---- in the indexer's thread

    def _compare_anew(self, number: int) -> Reconciled:
        found = self._compare()
        if number == self._round:  # else the vault went away and came back meanwhile: another comparison waits
            self._opened.is_compared = True
        return found

    def _compare(self, accept_vanished: bool = False) -> Reconciled:
        """Compare vault and index, unless the vault is away."""
        if self._core.absence is not None:
            return Reconciled()
        # The order matters: withheld files are known again before the missing ones are decided.
        found = self._opened.reconcile()
        self._deletions.relearn()
        self._deletions.recall(lost := self._opened.take_lost())
        gone = (*found.gone, *(file.path for file in lost))
        self.look_at_missing(gone, at_once=accept_vanished, accept=accept_vanished)
        self._join_sessions()
        return found

    def _join_sessions(self) -> None:
        """Join the files of sessions that have several; an earlier version made one a day."""
        for path in self._opened.index.doubles():
            name = path.rpartition("/")[2].removesuffix(".md")
            kept = self._opened.catalog.path_of(name) if is_session(path) else None
            if kept is not None and kept != path:
                plan = self._sessions.join(kept, path, name, self._core.now())
                self._core.writer.submit(plan).result()

    def _read_again(self, paths: Sequence[str]) -> None:
        known = self._opened.catalog.known_files(paths)
        stamps = {path: self._vault.stamp(path) for path in paths}
        # Two files gone at once may be a folder that was moved: a comparison of all finds them at their new paths.
        if sum(stamps[path] is None for path in known) >= 2 or self._core.absence is not None:
            self._compare()
        else:
            changed = sorted(path for path, stamp in stamps.items() if self._has_changed(path, stamp, known))
            self._opened.index.apply_all(changed)
            self._join_sessions()

    def _has_changed(self, path: str, stamp: FileStamp | None, known: Collection[str]) -> bool:
        if stamp is None:
            return path in known
        return self._deletions.is_withheld(path) or not is_as_read(stamp, self._opened.catalog.file(path))
