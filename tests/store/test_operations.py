"""A store opens in order and closes in reverse; one that cannot be opened leaves nothing open."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import pytest
from dreamd.store import core, operations
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.ledger.ledger import Ledger
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.settings import StoreSettings
from dreamd.store.writer.writer import Writer

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
CLOSED_IN_ORDER = [
    "Linker.stop",
    "Feedback.stop",
    "Deletions.stop",
    "EmbedQueue.stop",
    "Search.close",
    "Writer.close",
    "Indexer.stop",
    "Mending.stop",
    "EmbeddingCache.close",
    "OpenIndex.close",
    "Ledger.close",
]


def open_store(paths: StorePaths) -> MemoryStore:
    return MemoryStore.open(paths, StoreSettings(), StubEmbedder(), lambda: NOW)


def home_of(part: str) -> ModuleType:
    """Return the module that builds a part."""
    return operations if hasattr(operations, part) else core


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note the parts of a store as they are closed."""
    noted: list[str] = []

    def note(name: str) -> None:
        part, _, method = name.partition(".")
        real = getattr(getattr(home_of(part), part), method)

        def closing(self: Any) -> None:
            noted.append(name)
            real(self)

        monkeypatch.setattr(getattr(home_of(part), part), method, closing)

    for name in CLOSED_IN_ORDER:
        note(name)
    return noted


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert [thread.name for thread in set(threading.enumerate()) - before if thread.name.startswith("dreamd-")] == []


def test_parts_are_closed_before_what_they_use(paths: StorePaths, closed: list[str]) -> None:
    open_store(paths).close()
    assert closed == CLOSED_IN_ORDER


def test_what_was_acknowledged_is_written_and_indexed_before_the_index_is_closed(paths: StorePaths) -> None:
    store = open_store(paths)
    node_id = store.remember("The kettle is descaled with citric acid.").result()
    store.close()
    again = open_store(paths)
    assert again.show(node_id).text == "The kettle is descaled with citric acid."
    again.close()


@pytest.mark.parametrize("part", ["OpenIndex", "Writer", "Linker"])
def test_a_store_that_cannot_be_built_closes_what_was_open(
    paths: StorePaths, closed: list[str], monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr(home_of(part), part, refuse)
    with pytest.raises(RuntimeError, match="no room"):
        open_store(paths)
    assert closed[-1] == "Ledger.close"
    assert closed == [name for name in CLOSED_IN_ORDER if name in closed]


def test_a_store_that_cannot_be_started_closes_every_part(
    paths: StorePaths, closed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(writer: Writer) -> None:
        raise RuntimeError("no thread")

    with monkeypatch.context() as refusing:
        refusing.setattr(Writer, "start", refuse)
        with pytest.raises(RuntimeError, match="no thread"):
            open_store(paths)
    assert closed == CLOSED_IN_ORDER
    Ledger(paths.ledger).close()  # nothing holds it any more
    open_store(paths).close()
