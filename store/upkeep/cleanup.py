"""Cleanup: removal of expired documents, old history, unused vectors, and files that interrupted writes left."""

from __future__ import annotations

import contextlib
import logging
import threading

from ..changes.apply import Changes
from ..changes.documents import Documents
from ..core import Core
from ..ledger.questions import prune_questions
from ..model import StoreError
from ..vault.leftovers import Leftovers

logger = logging.getLogger(__name__)


class Cleanup:
    """Removes what is no longer needed. Every method may be called from any thread."""

    def __init__(self, core: Core, changes: Changes, documents: Documents) -> None:
        self._core = core
        self._changes = changes
        self._documents = documents
        self.leftovers = Leftovers(core.vault, core.ledger.holds, core.now())
        self._thread = threading.Thread(target=self.sweep, name="dreamd-sweep", daemon=True)

    def start(self) -> None:
        """Sweep once, in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Wait for the end of that sweep; `core.closing` is set by then."""
        if self._thread.is_alive():
            self._thread.join()

    def tidy(self) -> None:
        """Remove expired documents, old history, vectors of texts that are gone, leftovers; look at the databases."""
        now = self._core.now()
        with contextlib.suppress(StoreError):  # the vault is away: the next time
            self._documents.sweep()
        self._changes.prune(now)
        self.sweep()
        self._core.writer.write(*prune_questions(now)).result()
        self._core.embeddings.prune(self._core.index.text_hashes())
        self._core.ledger.look_through()  # damage in rows that are seldom read is found here
        self._core.opened.problems()

    def sweep(self) -> None:
        """Remove what killed writes left in the vault."""
        try:
            swept = self.leftovers.sweep(self._core.now(), self._core.closing.is_set)
        except (OSError, StoreError) as error:  # of no consequence but the files: the next start looks again
            logger.warning("what interrupted writes left was not swept (%s)", type(error).__name__)
        else:
            if swept:
                logger.info("removed %d files that interrupted writes had left", swept)
