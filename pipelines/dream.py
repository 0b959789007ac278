"""A dream: the copy is made, the stages plan on it, and what they propose is left in the run's folder."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import numpy as np

from ..store.find.embedding import Embedder, embedder_for
from ..store.find.embedding_cache import EmbeddingCache
from ..store.keep.database import backup
from . import run
from .attention import Attention
from .messages import Done, Progress, RunRequest
from .run import Tell
from .settings import Stage
from .snapshot import Snapshot
from .view import Vectors, View

COMPACTION = frozenset({Stage.CONSOLIDATE, Stage.DRIFT})
SLICE = 512
"""Texts embedded between two words of progress: some four seconds, well inside what the daemon calls silence."""


def dream(request: RunRequest, tell: Tell, attention: Attention | None = None) -> Done:
    """Plan one dream. Writes only in the request's folder; `attention` is told what to call off before a pause."""
    embedder = embedder_for(request.store.embedding, request.embeddings.parent)
    snapshot = Snapshot(request.folder, request.vault, request.index, request.ledger)
    cache: EmbeddingCache | None = None
    try:
        cache = _cache(request, embedder)
        view = View(snapshot, snapshot.history(), Embedded(embedder, cache, tell), request.run_id, request.pipelines)
        outcome = run.plan(view, request.now, _stages(request), tell, weekly=request.kind == "weekly")
        return run.finish(view, request, outcome, snapshot.ledger.runs(), run.gaps_of(view.history))
    finally:
        if cache:
            cache.close()
        snapshot.close()


def _stages(request: RunRequest) -> dict[Stage, bool]:
    """The stages that take part: of a compaction those alone that read what is new."""
    stages = request.pipelines.stages
    return (
        stages
        if request.kind != "compaction"
        else {stage: stages.get(stage, True) and stage in COMPACTION for stage in Stage}
    )


def _cache(request: RunRequest, embedder: Embedder) -> EmbeddingCache | None:
    """A copy of the vectors that are known; none where there is no such file."""
    if not request.embeddings.exists():
        return None
    copy = request.folder / "embeddings.db"
    backup(request.embeddings, copy)
    return EmbeddingCache(copy, embedder.model_id)


class Embedded:
    """Embeds texts, but for those whose vectors are known: from earlier tonight, or from the store's cache."""

    def __init__(self, embedder: Embedder, cache: EmbeddingCache | None, tell: Tell) -> None:
        self._embedder = embedder
        self._tell = tell
        self._cache = cache
        self._known: dict[bytes, Vectors] = {}

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """One row a text."""
        hashes = [sha256(text.encode()).digest() for text in texts]
        missing = {key: text for key, text in zip(hashes, texts, strict=True) if key not in self._known}
        if self._cache is not None and missing:
            self._known |= self._cache.get_many(set(missing))
            missing = {key: text for key, text in missing.items() if key not in self._known}
        self._embed(missing)
        if not texts:
            return np.empty((0, self._embedder.dimension), np.float32)
        return np.stack([self._known[key] for key in hashes])

    def _embed(self, missing: dict[bytes, str]) -> None:
        keys = sorted(missing, key=lambda key: (len(missing[key]), key))  # of like length, so that little is padded
        for start in range(0, len(keys), SLICE):
            batch = keys[start : start + SLICE]
            vectors = self._embedder.embed_passages([missing[key] for key in batch])
            self._known |= dict(zip(batch, vectors, strict=True))
            self._tell(Progress(stage="embedding", done=start + len(batch), total=len(keys)))
