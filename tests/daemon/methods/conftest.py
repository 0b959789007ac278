"""A store on folders of its own, for the methods that need more than the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import datetime
from pathlib import Path

import pytest
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.settings import StoreSettings

Opened = Callable[[Callable[[], datetime]], MemoryStore]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """Give a function that opens an empty store by a clock; it is closed after the test."""
    data = tmp_path / "data"
    index = data / "index"
    paths = StorePaths(data / "vault", data / "ledger.db", index / "index.db", index / "e.db", data / "runs")
    with ExitStack() as stack:
        yield lambda now: stack.enter_context(closing(MemoryStore.open(paths, StoreSettings(), StubEmbedder(), now)))
