"""Embedding of new chunks in the background, never before an acknowledgement."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence

from ..find.backends.interface import Vector
from ..find.embedding.cache import EmbeddingCache
from ..find.embedding.embedding import Embedder, ModelUnavailable, batches_by_length
from ..find.index.index import Index, Pending
from ..keep.unwritable import is_full
from ..model import IndexDamaged, NodeId
from .worker import wait_until_idle

logger = logging.getLogger(__name__)

BATCH = 256
"""Chunks read from the index at a time: enough to sort by length, few enough to stay small and to stop soon."""

SLICE_TOKENS = 256
"""Tokens embedded between two checks for a stop, and written in one transaction: `stop` waits for one such slice (16
long texts took 29 s on a busy machine)."""

RETRY_S, SOON_S = 5.0, 0.2
"""The wait before the next attempt after a fault of the model or the disk, and after one of the index."""


class EmbedQueue:
    """Embeds the chunks that wait for a vector, in a thread of its own or, by `drain`, in the caller's."""

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
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="dreamd-embedding", daemon=True)
        self._thread.start()
        self._wake.set()

    def wake(self) -> None:
        """Wake the thread: chunks may wait."""
        self._wake.set()

    def stop(self) -> None:
        """End after the slice that is being embedded."""
        self._stopping.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def drain(self, at_most: int | None = None) -> int:
        """Embed all waiting chunks, or `at_most` so many; return how many the cache did not have.

        The bound ends a call although others go on writing. Raises ModelUnavailable.
        """
        read = done = 0
        while not self._stopping.is_set():
            pending = self._index.pending(BATCH if at_most is None else min(BATCH, at_most - done))
            if not pending:
                break
            read += self._embed(pending)
            done += len(pending)
            if at_most is not None and done >= at_most:
                break
        return read

    def embed_now(self, node_ids: Collection[NodeId]) -> None:
        """Embed the waiting chunks of some nodes, before others and in the caller's thread. Raises ModelUnavailable."""
        if pending := self._index.pending(BATCH, node_ids):
            self._embed(pending)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait()
            self._wake.clear()
            try:
                self.drain()
                self.problem = None
            except ModelUnavailable as error:
                self._note(str(error))
                self._try_again_later()
            except IndexDamaged:  # a new index replaces it, in which every chunk waits again
                self._try_again_later(SOON_S)
            except Exception as error:  # a disk that is full, a database in use: the chunks stay pending
                why = "the disk is full" if is_full(error) else type(error).__name__
                self._note(f"Vectors cannot be stored at the moment ({why}).")
                self._try_again_later()

    def _note(self, problem: str) -> None:
        if self.problem != problem:
            logger.warning("%s", problem)
        self.problem = problem

    def _try_again_later(self, wait_s: float = RETRY_S) -> None:
        if not self._stopping.wait(wait_s):
            self._wake.set()

    def _wait_until_idle(self) -> None:
        """Let requests go first, unless a caller of `drain` waits."""
        if threading.current_thread() is self._thread:
            wait_until_idle(self._is_busy, self._stopping)

    def _embed(self, pending: Sequence[Pending]) -> int:
        known = self._cache.get_many({item.text_hash for item in pending})
        seen = [item for item in pending if item.text_hash in known]
        self._index.set_vectors(seen, [known[item.text_hash] for item in seen])
        unseen = [item for item in pending if item.text_hash not in known]
        for places in batches_by_length([item.text for item in unseen], SLICE_TOKENS):
            self._wait_until_idle()
            if self._stopping.is_set():
                break
            some = [unseen[place] for place in places]
            vectors: list[Vector] = self._embedder.embed_passages([item.text for item in some])
            self._cache.put_many({item.text_hash: vector for item, vector in zip(some, vectors, strict=True)})
            self._index.set_vectors(some, vectors)
        return len(unseen)
