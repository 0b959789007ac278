"""Two questions share what was found only if they ask the same, of the same, while nothing has changed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.embedding.vector_cache import form_of
from dreamd.store.filters import Condition
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import Level
from dreamd.store.results import QueryCacheStatus
from dreamd.store.settings import QueryCacheSettings, SearchSettings, StoreSettings

from tests.system.waiting import until

QUESTION = "What is Tom's phone number in 2024?"


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.at = datetime(2026, 11, 21, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(paths: StorePaths, clock: Clock) -> Iterator[MemoryStore]:
    """Give a store whose model finds everything near."""
    opened = MemoryStore.open(paths, StoreSettings(), Near(), clock)
    for text in ("Tom's phone number is 555-2024.", "Tim's phone number is 555-2025.", "Tom is not at the office."):
        opened.remember(text, channel="shop").result()
    assert opened.settle_links(30)
    assert opened.settle(30)
    until(Still(opened))
    yield opened
    opened.close()


class Near(StubEmbedder):
    """A model for which all questions mean the same."""

    def embed_query(self, text: str) -> Any:
        return super().embed_query("the same")


class Still:
    """Returns True once nothing has changed the index for many looks: a change in the background ends what is held."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._seen: tuple[int, int] | None = None
        self._looks = 0

    def __call__(self) -> bool:
        now = self._store.core.opened.generation
        self._looks = self._looks + 1 if now == self._seen else 0
        self._seen = now
        return self._looks >= 60 and self._store.status().pending_embeddings == 0


def ids(store: MemoryStore) -> list[str]:
    return [memory.node_id for memory in store.list(channel="shop")]


def ask(store: MemoryStore, text: str = QUESTION, **params: Any) -> list[str]:
    found = [hit.node_id for hit in store.recall(text, **{"channel": "shop"} | params).hits]
    store.operations.linker.settle(30)  # what comes after the answer
    return found


def counts(store: MemoryStore) -> QueryCacheStatus:
    return store.operations.questions.status()


def test_the_same_question_shares_what_was_found(store: MemoryStore) -> None:
    first = ask(store)
    assert counts(store) == QueryCacheStatus(entries=1, hits=0, misses=1)
    for again in (QUESTION, "what's toms phone number in 2024", "What is Tom's phone number, in 2024"):
        ask(store, again)
    assert ask(store) == first
    assert counts(store).hits == 3


@pytest.mark.parametrize(
    "other",
    [
        "What is Tim's phone number in 2024?",
        "What is Tom's phone number in 2025?",
        "What is not Tom's phone number in 2024?",
        "What was Tom's phone number in 2024?",
        "What is Tom's fax number in 2024?",
        "In 2024, what is the phone number of Tom?",
    ],
)
def test_another_name_number_negation_or_word_shares_nothing(store: MemoryStore, other: str) -> None:
    ask(store)
    ask(store, other)
    assert counts(store).hits == 0


def test_a_vector_is_shared_where_what_was_found_is_not(store: MemoryStore) -> None:
    ask(store)
    ask(store, "what is Tom's phone number in 2024", channel="harbour")
    assert counts(store).hits == 0
    assert store.operations.vectors.held.hits == 1


def test_a_shared_answer_is_noted_as_of_no_time_asked_about_too(store: MemoryStore) -> None:
    asked = "what is Tom's phone number on 5 March 2020"
    first, again = (store.recall(asked, channel="shop").notes for _ in range(2))
    assert counts(store).hits == 1
    assert again == first
    assert any("2020" in note for note in first)


def test_marks_of_a_name_count() -> None:
    assert form_of("What is C++?") != form_of("What is C?") != form_of("What is C#?")
    assert form_of("What is C++?") == form_of("what's  C++")
    assert form_of("the") == ("the",)


@pytest.mark.parametrize(
    "params",
    [
        {"channel": "harbour"},
        {"channel": "*"},
        {"limit": 3},
        {"levels": [Level.FACT]},
        {"include_archived": True},
        {"as_of": datetime(2026, 11, 22, tzinfo=UTC)},
        {"where": (Condition("kind", "in", ("note",)),)},
    ],
)
def test_another_scope_shares_nothing_and_filters_pass_by(store: MemoryStore, params: dict[str, Any]) -> None:
    ask(store)
    ask(store, **params)
    assert counts(store).hits == 0
    if "channel" not in params and "limit" not in params:
        ask(store, **params)
        assert counts(store) == QueryCacheStatus(entries=1, hits=0, misses=1)


def test_a_change_of_the_index_ends_it(store: MemoryStore) -> None:
    ask(store)
    node_id = store.remember("Tom's phone number in 2024 was 555-0000.", channel="shop").result()
    store.settle_links(30)
    assert node_id in ask(store)
    assert counts(store).hits == 0
    store.forget(node_id)
    assert node_id not in ask(store)


def test_it_ends_after_its_time(store: MemoryStore, clock: Clock) -> None:
    ask(store)
    clock.at += timedelta(seconds=299)
    ask(store)
    assert counts(store).hits == 1
    clock.at += timedelta(seconds=2)
    ask(store)
    assert counts(store).hits == 1


def test_purging_the_questions_forgets_them_here_too(store: MemoryStore) -> None:
    ask(store)
    assert counts(store).entries == len(store.operations.vectors.held) == 1
    store.purge_questions()
    assert counts(store).entries == len(store.operations.vectors.held) == 0


def test_a_shared_answer_is_counted_as_any_other(store: MemoryStore) -> None:
    node_id = ask(store)[0]
    ask(store)
    assert counts(store).hits == 1
    store.remember("Something else.", channel="harbour").result()  # counters come with the next write
    assert store.ledger.usage()[node_id].shown == 2


def test_what_is_told_is_read_anew_after_a_session_was_left_out(store: MemoryStore) -> None:
    first = store.context(QUESTION, channel="shop")
    store.operations.linker.settle(30)
    again = store.context(QUESTION, channel="shop")
    assert [slot.text for slot in again.slots] == [slot.text for slot in first.slots]
    assert counts(store).hits == 1


def test_the_least_used_goes_first_and_none_are_held_where_it_is_off(paths: StorePaths, clock: Clock) -> None:
    for entries, held in ((2, 2), (0, 0)):
        settings = StoreSettings(search=SearchSettings(cache=QueryCacheSettings(entries=entries)))
        opened = MemoryStore.open(paths, settings, Near(), clock)
        opened.remember("The ferry leaves at nine.", channel="shop").result()
        opened.settle_links(30)
        until(Still(opened))
        for text in ("ferry one", "ferry two", "ferry one", "ferry three", "ferry one"):
            ask(opened, text)
        assert counts(opened).entries == held
        assert counts(opened).hits == (2 if held else 0)
        opened.close()
