"""Embedding in the background stops soon: between two runs of the model that are short whatever the texts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing

from dreamd.store.core import FEW_CHUNKS
from dreamd.store.embedding.embedding import MAX_TOKENS, StubEmbedder
from dreamd.store.embedding.fastembed_loading import MINILM_ID, PREPARED_ID
from dreamd.store.engine.interface import Vector
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import Envelope
from dreamd.store.search.hits import Recalled
from dreamd.store.search.packing import NOTHING_YET
from dreamd.store.settings import StoreSettings
from dreamd.store.text.chunking import estimate_tokens
from dreamd.store.upkeep.embed_queue import SLICE_TOKENS, EmbedQueue

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
            self.stop_in_first.operations.queue._stopping.set()
        return super().embed_passages(texts)


def test_no_run_of_the_model_is_long_and_stopping_waits_for_one_alone(paths: StorePaths) -> None:
    embedder = Counting()
    store = MemoryStore(paths, StoreSettings(), embedder, lambda: NOW)
    store.operations.queue.stop()
    for number in range(12):
        store.remember(f"Locker {number} holds {'a lamp and a kettle ' * (1 + 60 * (number % 2))}").result()
    assert store.settle(60)
    store.operations.queue._stopping.clear()
    assert store.operations.queue.drain() == 12
    assert all(
        len(texts) == 1 or max(min(MAX_TOKENS, estimate_tokens(text)) for text in texts) * len(texts) <= SLICE_TOKENS
        for texts in embedder.runs
    )
    assert len(embedder.runs) < 12  # short ones share a run
    assert store.operations.queue.drain(5) == 0
    embedder.runs.clear()
    for number in range(6):
        store.remember(f"Shelf {number} holds {'a saddle and a violin ' * 60}").result()
    assert store.settle(60)
    embedder.stop_in_first = store
    store.operations.queue.drain()
    assert len(embedder.runs) == 1
    store.close()


def test_a_bounded_drain_does_not_wait_for_later_chunks(paths: StorePaths) -> None:
    store = MemoryStore(paths, StoreSettings(), StubEmbedder(), lambda: NOW)
    store.operations.queue.stop()
    for number in range(9):
        store.remember(f"Locker {number} holds a lamp").result()
    assert store.settle(60)
    store.operations.queue._stopping.clear()
    assert store.operations.queue.drain(4) == 4
    assert store.catalog.counts()["embedding_queue"] == 5
    store.close()


class Named(StubEmbedder):
    """A model of a name, for which another may stand in; notes which texts it embeds."""

    def __init__(self, model_id: str, made_by: str | None = None) -> None:
        super().__init__()
        self.model_id = model_id
        self._made_by = made_by or model_id
        self.embedded: set[str] = set()

    @property
    def made_by(self) -> str:
        return self._made_by

    def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        self.embedded |= set(texts)
        return super().embed_passages(texts)


def open_with(paths: StorePaths, embedder: StubEmbedder) -> MemoryStore:
    return MemoryStore(paths, StoreSettings(), embedder, lambda: NOW)


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def remember_lockers(store: MemoryStore, count: int) -> None:
    for number in range(count):
        store.remember(f"Locker {number} holds a lamp").result()
    assert store.settle(60)
    store.operations.queue.wake()
    until(lambda: store.catalog.counts()["embedding_queue"] == 0)


def test_vectors_of_a_near_model_serve_until_they_are_made_again(paths: StorePaths) -> None:
    with closing(open_with(paths, Named(MINILM_ID))) as store:
        remember_lockers(store, 9)
    stands_in = Named(PREPARED_ID, made_by=MINILM_ID)
    with closing(open_with(paths, stands_in)) as store:
        assert store.catalog.counts()["embedding_queue"] == 0, "found by vector all the while"
        remember_lockers(store, 10)
        assert len(stands_in.embedded) == 1, "the others' vectors are as near as it could make them"
        assert store.catalog.counts()["near_vectors"] == 10
        status = store.status()
        assert status.embedding.model == MINILM_ID
        assert any("could not be prepared" in problem for problem in status.problems)
    itself = Named(PREPARED_ID)
    with closing(open_with(paths, itself)) as store:
        until(lambda: store.catalog.counts()["near_vectors"] == 0)
        assert len(itself.embedded) == 10
        assert store.status().problems == []
        assert store.catalog.counts()["embedding_queue"] == 0
    again = Named(PREPARED_ID)
    with closing(open_with(paths, again)) as store:
        assert store.catalog.counts()["near_vectors"] == 0
        store.rebuild()
        assert len(again.embedded) == 0, "all are in the cache"


def test_a_model_that_is_not_near_makes_the_index_anew(paths: StorePaths) -> None:
    with closing(open_with(paths, Named("another"))) as store:
        remember_lockers(store, 3)
    itself = Named(PREPARED_ID)
    with closing(open_with(paths, itself)) as store:
        until(lambda: len(itself.embedded) == 3)
        assert store.catalog.counts()["near_vectors"] == 0


class Meeting(StubEmbedder):
    """Lets no slice end before as many are under way as are expected at once."""

    def __init__(self, at_once: int) -> None:
        super().__init__()
        self._together = threading.Barrier(at_once)

    def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        self._together.wait(30)
        return super().embed_passages(texts)


def test_slices_are_embedded_at_once_as_long_as_it_is_quiet(paths: StorePaths) -> None:
    embedder = Meeting(2)
    with closing(open_with(paths, embedder)) as store:
        store.operations.queue.stop()
        for number in range(4):
            store.remember(f"Shelf {number} holds {'a saddle and a violin ' * 60}").result()
        assert store.settle(60)
        queue = EmbedQueue(store.core.index, embedder, store.core.embeddings, workers=lambda: 2)
        assert queue.drain() == 4
        for number in range(4):
            assert store.recall(f"Shelf {number} saddle").hits
        assert store.catalog.counts()["embedding_queue"] == 0


def test_one_core_is_left_to_a_client_that_may_call_again(store: MemoryStore) -> None:
    store.core.calls.note()
    assert store.operations._workers() == 1


def test_while_many_texts_wait_for_vectors_no_answer_is_no_proof(store: MemoryStore) -> None:
    store.operations.queue.stop()
    store.remember("Never push on Fridays.", channel="shop", curated=5).result()
    for number in range(FEW_CHUNKS):
        store.remember(f"Door {number} is green.", channel="shop").result()
    assert store.settle_links()
    waiting = store.core.catalog.without_vector()
    assert waiting > FEW_CHUNKS
    note = f"{waiting} pieces of text are found by their words alone so far"
    found, told = asked(store)
    assert (found.abstained, found.incomplete, found.notes[-1:]) == (True, True, [note])
    assert (told.abstained, told.incomplete, told.notes[-1:]) == (True, True, (note,))
    assert NOTHING_YET in told.text
    store.operations.queue._stopping.clear()
    store.operations.queue.drain()
    found, told = asked(store)
    assert (found.incomplete, told.incomplete) == (False, False)
    assert note not in (*found.notes, *told.notes)
    assert NOTHING_YET not in told.text


def asked(store: MemoryStore) -> tuple[Recalled, Envelope]:
    question = "Who pays the ferry?"
    return store.recall(question, channel="shop"), store.context(question, channel="shop")
