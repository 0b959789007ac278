"""The cost of a question to the others: a pasted log or a page of marks is cut, and what it begins ends."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.engine import database
from dreamd.store.engine.interface import Vector
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import InvalidInput
from dreamd.store.search import search
from dreamd.store.search.question import READ_CHARS
from dreamd.store.search.search import SHORT_CHARS
from dreamd.store.settings import StoreSettings

from tests.store.conftest import NOW, OpenStore

LOG = "Why does the billing service fail? " + '"(*)[] NEAR( 0x7f3a ERROR at line 17; ' * 2000


@pytest.fixture
def billing(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """Give a store that looks at the clock often."""
    monkeypatch.setattr(database, "STEPS", 20)
    store = open_store()
    store.remember("The billing service fails when its disk is full.").result()
    store.rebuild()  # which embeds it
    return store


def test_a_pasted_log_is_answered_by_its_beginning_and_says_so(billing: MemoryStore) -> None:
    found = billing.recall(LOG)
    assert found.hits[0].text == "The billing service fails when its disk is full."
    assert any(f"{READ_CHARS:,} characters" in note for note in found.notes)
    assert any(f"{READ_CHARS:,} characters" in note for note in billing.context(LOG).notes)


def test_words_that_take_too_long_to_look_up_are_left_to_the_meaning(
    billing: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "KEYWORD_S", 0.0)
    found = billing.recall("The billing service fails when its disk is full.")
    assert [hit.text for hit in found.hits] == ["The billing service fails when its disk is full."]
    assert [note for note in found.notes if "meaning alone" in note]
    monkeypatch.undo()
    assert not billing.recall("billing service").notes


@pytest.mark.parametrize("blank", ["", "  ", "\n"])
def test_an_empty_question_is_refused(billing: MemoryStore, blank: str) -> None:
    for ask in (billing.recall, billing.context):
        with pytest.raises(InvalidInput, match="empty") as caught:
            ask(blank)
        assert caught.value.hint


def test_marks_alone_find_nothing_and_cost_no_model(billing: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StubEmbedder, "embed_query", None)
    found = billing.recall("-" * 65_536)
    assert (found.hits, found.abstained) == ([], True)
    assert "no words" in found.notes[0]


class Gated(StubEmbedder):
    """Notes what it begins to embed, and finishes a long text only when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[str] = []
        self.began = threading.Semaphore(0)
        self.permits = threading.Semaphore(0)

    def embed_query(self, text: str) -> Vector:
        self.begun.append(text)
        self.began.release()
        if len(text) > SHORT_CHARS:
            assert self.permits.acquire(timeout=20)
        return super().embed_query(text)


def test_long_questions_are_embedded_one_at_a_time_and_a_short_one_beside(paths: StorePaths) -> None:
    embedder = Gated()
    with (
        closing(MemoryStore.open(paths, StoreSettings(), embedder, lambda: NOW)) as store,
        ThreadPoolExecutor(3) as asking,
    ):
        long = [asking.submit(store.recall, f"{word} " * 60) for word in ("billing", "backup", "deploy")]
        assert embedder.began.acquire(timeout=20)
        store.recall("billing")
        assert [len(text) > SHORT_CHARS for text in embedder.begun] == [True, False]
        embedder.permits.release(3)
        for each in long:
            each.result(20)
    assert len(embedder.begun) == 4
