"""Upkeep: a new index, decisions about files that are gone, and the removal of what nothing needs any more."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection
from datetime import datetime

from ..background.embedding import EmbedQueue
from ..changes.deletions import Deletions
from ..changes.runs import Changes
from ..documents.documents import Documents
from ..embedding.embedding import ModelUnavailable
from ..embedding.vector_cache import EmbeddingCache
from ..index.opening import OpenIndex
from ..ledger.ledger import Ledger
from ..ledger.questions import prune_questions
from ..model import IndexDamaged, NodeId, StoreError
from ..results import Rebuilt
from ..vault.leftovers import Leftovers
from ..vault.vault import Vault
from ..writer.writer import Writer
from .reconciliation import Reconciliation
from .visibility import Visibility

logger = logging.getLogger(__name__)


class Upkeep:
    """Looks after vault, ledger and index. Every method may be called from any thread. `closing` ends a sweep."""

    def __init__(
        self,
        vault: Vault,
        ledger: Ledger,
        writer: Writer,
        opened: OpenIndex,
        queue: EmbedQueue,
        cache: EmbeddingCache,
        changes: Changes,
        documents: Documents,
        deletions: Deletions,
        leftovers: Leftovers,
        reconciliation: Reconciliation,
        visibility: Visibility,
        now: Callable[[], datetime],
        closing: threading.Event,
    ) -> None:
        self._vault = vault
        self._ledger = ledger
        self._writer = writer
        self._opened = opened
        self._queue = queue
        self._cache = cache
        self._changes = changes
        self._documents = documents
        self._deletions = deletions
        self._leftovers = leftovers
        self._reconciliation = reconciliation
        self._visibility = visibility
        self._now = now
        self._closing = closing

    def rebuild(self, progress: Callable[[int, int], None] | None = None) -> Rebuilt:
        """Make the index anew from vault and ledger; what was embedded before is not embedded again."""
        self._visibility.settle()
        began = time.monotonic()
        self._vault.raise_if_away()
        with contextlib.suppress(IndexDamaged):  # else what is gone would not be known any more
            self._reconciliation.look_at_missing(self._opened.index.gone(), at_once=True)
        self._opened.rebuild(progress)
        self._deletions.relearn()
        embedded = self._queue.drain(self._opened.catalog.counts()["embedding_queue"])
        counts = self._opened.catalog.counts()
        nodes = sum(counts[name] for name in ("sessions", "facts", "scenarios", "profiles", "turns"))
        return Rebuilt(counts["files"], nodes, counts["chunks"], embedded, round(time.monotonic() - began, 3))

    def settle_deletions(self) -> None:
        """Decide now about files that are gone, without waiting for them to come back in a moment."""
        self._visibility.settle()
        self._deletions.look(at_once=True)

    def embed(self, node_ids: Collection[NodeId]) -> None:
        """Give what was changed its vectors now, before whatever else waits for one; none while there is no model."""
        self._visibility.settle()
        with contextlib.suppress(ModelUnavailable):
            self._queue.embed_now(node_ids)

    def tidy(self) -> None:
        """Remove expired documents, old history, vectors of texts that are gone, leftovers; look at the databases."""
        with contextlib.suppress(StoreError):  # the vault is away: the next time
            self._documents.sweep()
        self._changes.prune(self._now())
        self.sweep()
        self._writer.write(*prune_questions(self._now())).result()
        self._cache.prune(self._opened.index.text_hashes())
        self._ledger.look_through()  # what is seldom read is looked at now and then
        self._opened.problems()

    def sweep(self) -> None:
        """Remove what killed writes left in the vault."""
        try:
            swept = self._leftovers.sweep(self._now(), self._closing.is_set)
        except (OSError, StoreError) as error:  # of no consequence but the files: the next start looks again
            logger.warning("what interrupted writes left was not swept (%s)", type(error).__name__)
        else:
            if swept:
                logger.info("removed %d files that interrupted writes had left", swept)
