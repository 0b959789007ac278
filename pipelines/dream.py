"""A dream: the copy is made, the stages plan on it, and what they propose is left in the run's folder."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path

import numpy as np

from ..llm.budget import Allowance, asker_for
from ..store.find.embedding.cache import EmbeddingCache
from ..store.find.embedding.embedding import Embedder, embedder_for
from ..store.keep.database import backup
from ..store.keep.ledger.records import LINK
from ..store.model import Corrupt
from . import run
from .gate.gate import Gate
from .gate.shadow_index import Trial
from .pause_signal import Attention
from .protocol import SPENT, Done, Progress, RunRequest
from .settings import Stage
from .steps import Steps, Tell
from .workspace.checkpoint import Memo, key_of
from .workspace.snapshot import Snapshot
from .workspace.view import Vectors, View

COMPACTION = frozenset({Stage.CONSOLIDATE, Stage.DRIFT})
SLICE = 512
"""Texts embedded between two words of progress: some four seconds of work, well inside what counts as silence."""


def dream(request: RunRequest, tell: Tell, attention: Attention | None = None) -> Done:
    """Plan one dream. Writes only in the request's folder, and to its checkpoint.

    `attention` is told what to call off before a pause.
    """
    embedder = embedder_for(request.store.embedding, request.embeddings.parent)
    snapshot = Snapshot(request.folder, request.vault, request.index, request.ledger)
    with ExitStack() as closing:
        closing.callback(snapshot.close)
        if cache := _cache(request, embedder):
            closing.callback(cache.close)
        if memo := Memo(request.checkpoint) if request.checkpoint else None:
            closing.callback(memo.close)
        embedded = Embedded(embedder, cache, lambda done, total: view.steps.detail("embedding", done, total), memo)
        view = View(snapshot, snapshot.history(), embedded, request.run_id, request.pipelines)
        view.memo, view.steps = memo, Steps(_counting(tell, view, request.folder / SPENT))
        view.model, without = asker_for(request.llm, _left(request))
        if view.model is not None:
            closing.callback(view.model.release)
            if attention is not None:
                attention.before_pausing(view.model.abort)
        trial = lambda: closing.enter_context(_trial(request, view, embedder))  # noqa: E731
        gate = Gate(trial, view, request.pipelines.gate, request.now)
        outcome = run.plan(view, request.now, _stages(request), weekly=request.kind == "weekly", gate=gate)
        outcome.model = run.model_use(view.model, without)
        return run.finish(view, request, outcome, snapshot.ledger.runs(hidden=(LINK,)), run.gaps_of(view))


def _counting(tell: Tell, view: View, file: Path) -> Tell:
    """Tell with every word what a model was asked so far: who ends this process, or finds it ended, knows its cost."""

    def told(at: Progress) -> None:
        if view.model is not None:
            spent = {"calls": view.model.spent.calls, "tokens": view.model.spent.tokens}
            file.write_text(json.dumps(spent))
            at = at.model_copy(update=spent | {"model_s": view.model.spent.seconds})
        tell(at)

    return told


def _left(request: RunRequest) -> Allowance:
    """What earlier runs of this night have left of the model."""
    return Allowance(
        calls=max(0, request.llm.calls_a_night - request.calls_spent),
        tokens=max(0, request.llm.tokens_a_night - request.tokens_spent),
    )


def _trial(request: RunRequest, view: View, embedder: Embedder) -> Trial:
    """The copy's own copy, to try in it what is proposed."""
    hidden = {mark.removeprefix("turn:") for mark in view.history.tombstones if mark.startswith("turn:")}
    return Trial(request.folder / "index.db", request.vault, request.store, embedder, view.vectors, request.now, hidden)


def _stages(request: RunRequest) -> dict[Stage, bool]:
    """The stages that take part: of a compaction those alone that read what is new."""
    stages = request.pipelines.stages
    if request.kind != "compaction":
        return stages
    return {stage: stages.get(stage, True) and stage in COMPACTION for stage in Stage}


def _cache(request: RunRequest, embedder: Embedder) -> EmbeddingCache | None:
    """A copy of the vectors that are known; none where there is no such file."""
    if not request.embeddings.exists():
        return None
    copy = request.folder / "embeddings.db"
    with contextlib.suppress(Corrupt):  # then they are made again
        backup(request.embeddings, copy)
    return EmbeddingCache(copy, embedder.model_id)


class Embedded:
    """Embeds texts, but for those whose vectors are known: from earlier tonight, or from the store's cache."""

    def __init__(
        self,
        embedder: Embedder,
        cache: EmbeddingCache | None,
        tell: Callable[[int, int], None],
        memo: Memo | None = None,
    ) -> None:
        self._embedder = embedder
        self._tell = tell
        self._cache = cache
        self._memo = memo
        self._known: dict[bytes, Vectors] = {}

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """One row a text."""
        hashes = [sha256(text.encode()).digest() for text in texts]
        missing = {key: text for key, text in zip(hashes, texts, strict=True) if key not in self._known}
        if self._cache is not None and missing:
            self._known |= self._cache.get_many(set(missing))
            missing = {key: text for key, text in missing.items() if key not in self._known}
        if self._memo is not None:
            missing = {key: text for key, text in missing.items() if not self._is_checkpointed(self._memo, key)}
        self._embed(missing)
        if not texts:
            return np.empty((0, self._embedder.dimension), np.float32)
        return np.stack([self._known[key] for key in hashes])

    def _is_checkpointed(self, memo: Memo, key: bytes) -> bool:
        """Whether a dream that was ended has embedded it already; then it is known."""
        data = memo.get(self._unit(key))
        if data is not None:
            self._known[key] = np.frombuffer(data, np.float32)
        return data is not None

    def _unit(self, key: bytes) -> bytes:
        return key_of("vector", self._embedder.model_id, key)

    def _embed(self, missing: dict[bytes, str]) -> None:
        keys = sorted(missing, key=lambda key: (len(missing[key]), key))  # of like length, so that little is padded
        for start in range(0, len(keys), SLICE):
            batch = keys[start : start + SLICE]
            vectors = self._embedder.embed_passages([missing[key] for key in batch])
            self._known |= dict(zip(batch, vectors, strict=True))
            if self._memo is not None:
                self._memo.put_many({self._unit(key): self._known[key].tobytes() for key in batch})
            self._tell(start + len(batch), len(keys))
