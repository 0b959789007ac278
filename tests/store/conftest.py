"""A store of its own for every test, on a clock that stands still, with an embedder that needs no model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.settings import StoreSettings

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)

OpenStore = Callable[[], MemoryStore]


@pytest.fixture
def paths(tmp_path: Path) -> StorePaths:
    """Give the places of one store."""
    return StorePaths(
        vault=tmp_path / "vault",
        ledger=tmp_path / "ledger.db",
        index=tmp_path / "index" / "index.db",
        embeddings=tmp_path / "index" / "embeddings.db",
        runs=tmp_path / "runs",
    )


@pytest.fixture
def open_store(paths: StorePaths) -> Iterator[OpenStore]:
    """Open the store, as often as the test closes it."""
    with ExitStack() as stack:

        def open_() -> MemoryStore:
            store = MemoryStore.open(paths, StoreSettings(), StubEmbedder(), lambda: NOW)
            stack.callback(store.close)
            return store

        yield open_


@pytest.fixture
def store(open_store: OpenStore) -> MemoryStore:
    """Give an open, empty store."""
    return open_store()
