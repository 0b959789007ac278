"""Embedding for the stages: a dream that is ended embeds nothing twice."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from dreamd.pipelines.workspace import memo as embedding
from dreamd.pipelines.workspace.memo import CachedEmbedder, Memo
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.engine.interface import Vector


class Ended(BaseException):
    """As SIGKILL: nothing is tidied up."""


class Mortal(StubEmbedder):
    """Counts what it embeds, and dies in the middle of a batch when its time has come."""

    def __init__(self) -> None:
        super().__init__()
        self.embedded = 0
        self.dies_at = 10**9

    def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        self.embedded += len(texts)
        if self.embedded >= self.dies_at:
            raise Ended
        return super().embed_passages(texts)


@pytest.mark.parametrize("seed", range(5))
def test_a_dream_ended_at_random_units_redoes_at_most_one(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "BATCH", 8)
    rng = random.Random(seed)
    texts = [f"text {n} of many" for n in range(100)]
    embedder, deaths = Mortal(), 0
    while True:
        memo = Memo(tmp_path / "checkpoint")
        embedder.dies_at = embedder.embedded + rng.randint(1, 60)
        try:
            vectors = CachedEmbedder(embedder, None, lambda *_: None, memo)(texts)
            break
        except Ended:
            deaths += 1
    assert deaths > 0
    assert embedder.embedded <= len(texts) + 8 * deaths
    assert np.array_equal(vectors, np.stack(StubEmbedder().embed_passages(texts)))


def test_each_text_is_embedded_once_and_progress_is_reported() -> None:
    embedder, reported = Mortal(), list[tuple[int, int]]()
    embed = CachedEmbedder(embedder, None, lambda done, total: reported.append((done, total)))
    assert embed([]).shape == (0, embedder.dimension)
    vectors = embed(["one", "two", "one"])
    assert np.array_equal(vectors[0], vectors[2])
    assert np.array_equal(embed(["two"])[0], vectors[1])
    assert embedder.embedded == 2
    assert reported == [(2, 2)]
