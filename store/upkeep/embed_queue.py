"""The embedding queue: chunks get their vectors in the background, never before an acknowledgement."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from ..embedding.embedding import Embedder, ModelUnavailable, batches_by_length
from ..embedding.vector_cache import EmbeddingCache
from ..engine.database import is_full
from ..engine.interface import Vector
from ..index.index import Index, PendingChunk
from ..model import IndexDamaged, NodeId
from .worker import wait_until_idle

logger = logging.getLogger(__name__)

# Chunks read from the index at a time: enough to sort by length, few enough to stay small and to stop soon.
BATCH = 256

# Chunks whose vectors are made again before new chunks are looked for.
NEAR_BATCH = 64

# Tokens embedded between two checks for a stop, and written in one transaction. `stop` waits for one such slice: 16
# long texts at once took 29 s on a busy machine.
SLICE_TOKENS = 256

# The wait before the next attempt after a fault of the model or the disk, and after one of the index.
RETRY_S, SOON_S = 5.0, 0.2


class EmbedQueue:
    """Embeds the chunks that wait for a vector, in a thread of its own or, by `drain`, in the caller's."""

    def __init__(
        self,
        index: Index,
        embedder: Embedder,
        cache: EmbeddingCache,
        is_busy: Callable[[], bool] = lambda: False,
        workers: Callable[[], int] = lambda: 1,
    ) -> None:
        self._index = index
        self._embedder = embedder
        self._cache = cache
        self._is_busy = is_busy
        self._workers = workers
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
        while not self._stopping.is_set() and (pending := self._index.pending(BATCH, node_ids)):
            self._embed(pending)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait()
            self._wake.clear()
            try:
                self.drain()
                self._renew()
                self._wait_until_idle()
                self._index.keep_columns()
                self.problem = None
            except ModelUnavailable as error:
                self._note(str(error))
                self._try_again_later()
            except IndexDamaged:  # a new index replaces it, in which every chunk is queued
                self._try_again_later(SOON_S)
            except Exception as error:  # a disk that is full, a database in use: the chunks stay pending
                why = "the disk is full" if is_full(error) else type(error).__name__
                self._note(f"Vectors cannot be stored at the moment ({why}).")
                self._try_again_later()

    def _renew(self) -> None:
        """Make vectors of a near model again, while nothing waits for a first one and the model itself is there."""
        while not self._stopping.is_set() and (near := self._index.near(NEAR_BATCH)):
            if not self._embedder.wait() or self._embedder.made_by != self._embedder.model_id:
                break
            self._embed(near)
            self.drain()

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

    def _embed(self, pending: Sequence[PendingChunk]) -> int:
        # The same text is embedded once: after a rebuild nearly every vector is in the cache.
        known = self._cache.get_many({item.text_hash for item in pending})
        seen = [item for item in pending if item.text_hash in known]
        self._index.set_vectors(seen, [known[item.text_hash] for item in seen])
        unseen = [item for item in pending if item.text_hash not in known]
        # Texts of like length together: a batch takes as long as its longest text.
        slices = batches_by_length([item.text for item in unseen], SLICE_TOKENS)
        with ThreadPoolExecutor(thread_name_prefix="dreamd-embedding-slice") as pool:
            while not self._stopping.is_set():
                self._wait_until_idle()
                some = [[unseen[place] for place in places] for places in islice(slices, self._workers())]
                if not some or self._stopping.is_set():
                    break
                self._store(some, self._embed_slices(some, pool))
        return len(unseen)

    def _embed_slices(self, slices: Sequence[Sequence[PendingChunk]], pool: ThreadPoolExecutor) -> list[Vector]:
        """Embed slices at once, the last of them in this thread; return the vectors of all in order."""
        others = [pool.submit(self._embed_slice, items) for items in slices[:-1]]
        last = self._embed_slice(slices[-1])
        return [vector for other in others for vector in other.result()] + last

    def _embed_slice(self, items: Sequence[PendingChunk]) -> list[Vector]:
        return self._embedder.embed_passages([item.text for item in items])

    def _store(self, slices: Sequence[Sequence[PendingChunk]], vectors: Sequence[Vector]) -> None:
        """Keep the vectors in the cache and the index, under the id of what made them."""
        items = [item for some in slices for item in some]
        made_by = self._embedder.made_by
        self._cache.put_many({item.text_hash: vector for item, vector in zip(items, vectors, strict=True)}, made_by)
        self._index.set_vectors(items, vectors, are_near=made_by != self._embedder.model_id)
