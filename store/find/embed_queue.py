"""The place in the queue: chunks get their vectors behind everybody's back, never before an acknowledgement."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from .backends.seam import Vector
from .embedding import Embedder, ModelUnavailable
from .embedding_cache import EmbeddingCache
from .index import Index, Pending

logger = logging.getLogger(__name__)

BATCH = 256
"""Chunks looked at at once: enough to sort by length, little enough to stay small and to stop soon."""

SLICE = 16
"""Chunks embedded between two looks at the stop sign, and written in one transaction."""

RETRY_S = 60.0

GIVE_WAY_S, GLANCE_S = 2.0, 0.05
"""How long a slice waits for a quiet moment, and how often it looks for one."""


class EmbedQueue:
    """Embeds what the index has pending, in a thread of its own or, by `drain`, in the caller's."""

    def __init__(
        self,
        index: Index,
        embedder: Embedder,
        cache: EmbeddingCache,
        is_busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self._index = index
        self._embedder = embedder
        self._cache = cache
        self._is_busy = is_busy
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.problem: str | None = None

    def start(self) -> None:
        """Begin to work in the background."""
        self._thread = threading.Thread(target=self._run, name="dreamd-embedding", daemon=True)
        self._thread.start()
        self._wake.set()

    def wake(self) -> None:
        """There is something new."""
        self._wake.set()

    def stop(self) -> None:
        """End after the slice that is being embedded."""
        self._stopping.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def drain(self) -> int:
        """Embed everything that is pending; return how many chunks the model had to read. Raises ModelUnavailable."""
        read = 0
        while not self._stopping.is_set():
            pending = self._index.pending(BATCH)
            if not pending:
                break
            read += self._embed(pending)
        return read

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait()
            self._wake.clear()
            try:
                self.drain()
                self.problem = None
            except ModelUnavailable as error:
                self.problem = str(error)
                logger.warning("no vectors for now: %s", error)
                if not self._stopping.wait(RETRY_S):
                    self._wake.set()

    def _give_way(self) -> None:
        """Let those go first who wait for an answer, but not for ever."""
        if threading.current_thread() is self._thread:
            until = time.monotonic() + GIVE_WAY_S
            while self._is_busy() and time.monotonic() < until and not self._stopping.wait(GLANCE_S):
                pass

    def _embed(self, pending: Sequence[Pending]) -> int:
        known = self._cache.get_many({item.text_hash for item in pending})
        seen = [item for item in pending if item.text_hash in known]
        self._index.set_vectors(seen, [known[item.text_hash] for item in seen])
        unseen = sorted((item for item in pending if item.text_hash not in known), key=lambda item: len(item.text))
        for start in range(0, len(unseen), SLICE):
            self._give_way()
            if self._stopping.is_set():
                break
            some = unseen[start : start + SLICE]
            vectors: list[Vector] = self._embedder.embed_passages([item.text for item in some])
            self._cache.put_many({item.text_hash: vector for item, vector in zip(some, vectors, strict=True)})
            self._index.set_vectors(some, vectors)
        return len(unseen)
