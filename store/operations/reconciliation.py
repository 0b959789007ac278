"""The comparison of vault and index: at the start, after every change by hand, and on demand."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, wait

from ..changes.deletions import Deletions
from ..index.index import Reconciled, is_as_read
from ..index.indexer import Indexer
from ..index.opening import OpenIndex
from ..index.projection import is_session
from ..model import IndexDamaged, NodeId, StoreBusy
from ..vault.presence import Presence
from ..vault.vault import Absence, FileStamp, Vault, is_kept
from .damage import Repairs, repeated_after_repair

logger = logging.getLogger(__name__)

COMPARED_AGAIN_S = 5.0
"""The pause after a failed comparison of vault and index, before the next one."""

PATIENCE_S = 2.0
"""The time after a start, or the vault's return, in which questions wait for the comparison."""


class Reconciliation:
    """Keeps the index true to the vault. Every method may be called from any thread but the indexer's.

    `on_read` is called after files were read again, `join` with the first and another file of a session that has
    several, and its id: the turns of the other are then in the first.
    """

    def __init__(
        self,
        vault: Vault,
        opened: OpenIndex,
        indexer: Indexer,
        deletions: Deletions,
        presence: Presence,
        repairs: Repairs,
        on_read: Callable[[], None],
        closing: threading.Event,
        join: Callable[[str, str, NodeId], object],
    ) -> None:
        self.repairs = repairs
        self._vault = vault
        self._opened = opened
        self._indexer = indexer
        self._deletions = deletions
        self._presence = presence
        self._on_read = on_read
        self._closing = closing
        self._join = join
        self._catching_up: Future[Reconciled] = Future()
        self.patience_until = 0.0
        """The moment, of the monotonic clock, until which questions wait for the comparison."""

    # ---- the vault as it is

    @property
    def absence(self) -> Absence | None:
        """Why the vault cannot be used now, None when it is there."""
        return self._presence.look()

    @repeated_after_repair
    def file_changed(self, paths: Collection[str]) -> None:
        """Read these files again, but for those that are as they were read last: what we wrote ourselves is known.

        Paths are the vault's own.
        """
        kept = [path for path in paths if is_kept(path)]
        self._indexer.submit(lambda: self._read_again(kept)).result()
        self._on_read()

    @repeated_after_repair
    def reconcile(self, accept_vanished: bool = False) -> Reconciled:
        """Compare every file with what was last seen of it, and learn what differs.

        What is gone is unlearned in a moment, as a run, or withheld; `accept_vanished` believes all of it at once.
        """
        if accept_vanished:
            self._presence.accept()
        found = self._indexer.submit(lambda: self._compare(accept_vanished)).result()
        self._on_read()
        return found

    def fill(self) -> None:
        """Read the vault into an index that took the place of a damaged one."""
        self._indexer.submit(self._compare).result()

    def look_at_missing(self, gone: Collection[str], *, at_once: bool, accept: bool = False) -> None:
        """Decide about files that are gone: `at_once`, or after a moment; `accept` believes all of them gone."""
        if self.absence is None:
            self._opened.index.apply_all(sorted(set(gone).difference(self._deletions.withheld)))
        self._deletions.look(at_once=at_once, accept=accept)

    # ---- after a start

    def catch_up(self) -> None:
        """Have the files compared that changed while the daemon, or the vault, was away; return at once."""
        self.patience_until = time.monotonic() + PATIENCE_S
        self._catching_up = self._indexer.submit(self._compare)
        self._catching_up.add_done_callback(self._caught_up)

    @property
    def is_caught_up(self) -> bool:
        """Return whether what changed while the daemon or the vault was away is read."""
        return self._catching_up.done() and self._catching_up.exception() is None

    def wait_until_caught_up(self, timeout_s: float) -> bool:
        """Wait until what changed while the daemon or the vault was away is read; False when that takes longer."""
        return bool(wait([self._catching_up], timeout_s).done)

    def _caught_up(self, compared: Future[Reconciled]) -> None:
        self._on_read()
        error = compared.exception()
        if error is not None and not self._closing.is_set() and not isinstance(error, IndexDamaged):
            logger.warning("the vault could not be compared (%s); again soon", type(error).__name__, exc_info=error)
            again = threading.Timer(COMPARED_AGAIN_S, self._catch_up_again)
            again.daemon = True
            again.start()

    def _catch_up_again(self) -> None:
        with contextlib.suppress(StoreBusy):  # it is closing
            self.catch_up()

    # ---- in the indexer's thread

    def _compare(self, accept_vanished: bool = False) -> Reconciled:
        """Compare vault and index. A vault that is away says nothing of its files."""
        if self._presence.look() is not None:
            return Reconciled()
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
                self._join(kept, path, name)

    def _read_again(self, paths: Sequence[str]) -> None:
        known = self._opened.catalog.known_files(paths)
        stamps = {path: self._vault.stamp(path) for path in paths}
        if sum(stamps[path] is None for path in known) >= 2 or self.absence is not None:
            self._compare()
        else:
            changed = sorted(path for path, stamp in stamps.items() if self._has_changed(path, stamp, known))
            self._opened.index.apply_all(changed)
            self._join_sessions()

    def _has_changed(self, path: str, stamp: FileStamp | None, known: Collection[str]) -> bool:
        if stamp is None:
            return path in known
        return self._deletions.is_withheld(path) or not is_as_read(stamp, self._opened.catalog.file(path))
