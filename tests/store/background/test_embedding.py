"""Embedding in the background stops soon: between two runs of the model that are short whatever the texts."""

from __future__ import annotations

from collections.abc import Sequence

from dreamd.store.background.embedding import SLICE_TOKENS
from dreamd.store.find.backends.interface import Vector
from dreamd.store.find.embedding.embedding import MAX_TOKENS, StubEmbedder
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.settings import StoreSettings
from dreamd.store.text.chunking import estimate_tokens

from tests.store.conftest import NOW


class Counting(StubEmbedder):
    """Notes how much each run of the model is given, and can have somebody say stop in the first."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[list[str]] = []
        self.stop_in_first: MemoryStore | None = None

    def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        self.runs.append(list(texts))
        if self.stop_in_first is not None:
            self.stop_in_first.parts.queue._stopping.set()
        return super().embed_passages(texts)


def test_no_run_of_the_model_is_long_and_stopping_waits_for_one_alone(paths: StorePaths) -> None:
    embedder = Counting()
    store = MemoryStore(paths, StoreSettings(), embedder, lambda: NOW)
    store.parts.queue.stop()
    for number in range(12):
        store.remember(f"Locker {number} holds {'a lamp and a kettle ' * (1 + 60 * (number % 2))}").result()
    assert store.settle(60)
    store.parts.queue._stopping.clear()
    assert store.parts.queue.drain() == 12
    assert all(
        len(texts) == 1 or max(min(MAX_TOKENS, estimate_tokens(text)) for text in texts) * len(texts) <= SLICE_TOKENS
        for texts in embedder.runs
    )
    assert len(embedder.runs) < 12  # short ones share a run
    assert store.parts.queue.drain(5) == 0
    embedder.runs.clear()
    for number in range(6):
        store.remember(f"Shelf {number} holds {'a saddle and a violin ' * 60}").result()
    assert store.settle(60)
    embedder.stop_in_first = store
    store.parts.queue.drain()
    assert len(embedder.runs) == 1
    store.close()


def test_a_bounded_drain_does_not_wait_for_later_chunks(paths: StorePaths) -> None:
    store = MemoryStore(paths, StoreSettings(), StubEmbedder(), lambda: NOW)
    store.parts.queue.stop()
    for number in range(9):
        store.remember(f"Locker {number} holds a lamp").result()
    assert store.settle(60)
    store.parts.queue._stopping.clear()
    assert store.parts.queue.drain(4) == 4
    assert store.catalog.counts()["embedding_queue"] == 5
    store.close()
