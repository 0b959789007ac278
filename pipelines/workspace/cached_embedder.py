"""Embedding for the stages: a vector is looked up in this run, the store's cache and the checkpoint, then computed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np

from ...store.embedding.embedding import Embedder
from ...store.embedding.vector_cache import EmbeddingCache
from ...store.engine.database import backup
from ...store.model import Corrupt
from .memo import Memo, key_of
from .view import Vectors

# Texts embedded between two reports of progress: about four seconds of work, well below `limits.silence_s`.
BATCH = 512


def cache_copy(embeddings: Path, folder: Path, embedder: Embedder) -> EmbeddingCache | None:
    """Copy the store's cache of vectors into a run's folder and open the copy; None where the store has none."""
    if not embeddings.exists():
        return None
    copy = folder / "embeddings.db"
    with contextlib.suppress(Corrupt):  # vectors are computed again
        backup(embeddings, copy)
    return EmbeddingCache(copy, embedder.model_id)


class CachedEmbedder:
    """Embeds texts, each only once: earlier vectors come from this run, the store's cache or the checkpoint."""

    def __init__(
        self,
        embedder: Embedder,
        cache: EmbeddingCache | None,
        on_progress: Callable[[int, int], None],
        memo: Memo | None = None,
    ) -> None:
        self._embedder = embedder
        self._on_progress = on_progress
        self._cache = cache
        self._memo = memo
        self._known: dict[bytes, Vectors] = {}

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return one row a text."""
        hashes = [sha256(text.encode()).digest() for text in texts]
        missing = {key: text for key, text in zip(hashes, texts, strict=True) if key not in self._known}
        # The store's cache first: it has nearly every text of an earlier dream, in one query.
        if self._cache is not None and missing:
            self._known |= self._cache.get_many(set(missing))
            missing = {key: text for key, text in missing.items() if key not in self._known}
        if self._memo is not None:
            missing = {key: text for key, text in missing.items() if not self._take_checkpointed(self._memo, key)}
        self._embed(missing)
        if not texts:
            return np.empty((0, self._embedder.dimension), np.float32)
        return np.stack([self._known[key] for key in hashes])

    def _take_checkpointed(self, memo: Memo, key: bytes) -> bool:
        """Take the vector from the checkpoint of a dream that was ended, if it is there."""
        data = memo.get(self._unit(key))
        if data is not None:
            self._known[key] = np.frombuffer(data, np.float32)
        return data is not None

    def _unit(self, key: bytes) -> bytes:
        return key_of("vector", self._embedder.model_id, key)

    def _embed(self, missing: dict[bytes, str]) -> None:
        keys = sorted(
            missing, key=lambda key: (len(missing[key]), key)
        )  # texts of similar length share a batch, with little padding
        for start in range(0, len(keys), BATCH):
            batch = keys[start : start + BATCH]
            vectors = self._embedder.embed_passages([missing[key] for key in batch])
            self._known |= dict(zip(batch, vectors, strict=True))
            if self._memo is not None:
                self._memo.put_many({self._unit(key): self._known[key].tobytes() for key in batch})
            self._on_progress(start + len(batch), len(keys))
