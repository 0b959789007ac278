"""A disk that is full, or can only be read, when the store is opened: recall serves, writing comes back by itself."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import StoreBusy
from dreamd.store.settings import StoreSettings
from dreamd.store.writer import writer

from tests.store.conftest import NOW
from tests.system.waiting import until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give a disk of 24 MiB."""
    monkeypatch.setattr(writer, "LONGEST_RETRY_S", 0.1)
    monkeypatch.setattr("dreamd.store.index.mending.RETRY_S", 0.1)
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", disk], check=True)
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def opened(disk: Path) -> MemoryStore:
    paths = StorePaths(
        disk / "vault", disk / "ledger.db", disk / "index/index.db", disk / "index/embeddings.db", disk / "runs"
    )
    return MemoryStore.open(paths, StoreSettings(), StubEmbedder(), lambda: NOW)


def fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as filler:
        size = 2**20
        while size >= 1:
            try:
                filler.write(b"x" * size)
            except OSError:
                size //= 2


def make_room(disk: Path) -> None:
    (disk / "filler").unlink()


def read_only(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)


def read_write(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,rw", disk], check=True)


def texts(store: MemoryStore, query: str) -> list[str]:
    return [hit.text for hit in store.recall(query, channel="shop").hits]


@pytest.mark.parametrize(("begin", "end"), [(fill, make_room), (read_only, read_write)])
def test_a_start_on_a_disk_that_takes_nothing_serves_recall_and_comes_back(
    small: Path, begin: Callable[[Path], None], end: Callable[[Path], None]
) -> None:
    store = opened(small)
    store.remember("The office is in Berlin", channel="shop").result(60)
    assert store.settle(60)
    store.close()
    begin(small)

    store = opened(small)
    assert texts(store, "Where is the office in Berlin?") == ["The office is in Berlin"]
    assert any("cannot be written" in note for note in store.recall("office", channel="shop").notes)
    assert any("cannot be written" in problem for problem in store.status().problems)
    with pytest.raises(StoreBusy):
        store.remember("The warehouse is in Lyon", channel="shop").result(60)

    end(small)
    until(lambda: not store.status().problems)
    store.remember("The warehouse is in Lyon", channel="shop").result(60)
    assert store.settle(60)
    assert texts(store, "Where is the warehouse in Lyon?")[0] == "The warehouse is in Lyon"
    store.close()

    store = opened(small)
    assert store.settle(60)
    assert texts(store, "Where is the warehouse in Lyon?")[0] == "The warehouse is in Lyon"
    store.close()
