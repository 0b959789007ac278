"""What is damaged of the kept vectors counts as not there; the rest, and what comes later, is kept."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from dreamd.store.embedding.vector_cache import EmbeddingCache
from dreamd.store.engine.interface import Vector
from dreamd.store.model import StoreBusy

from tests.store.disks.full_disk import HiccupingVFS

PAGE_BYTES = 4096


def vector(number: int) -> Vector:
    return np.random.default_rng(number).standard_normal(384).astype(np.float32)


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    cache = EmbeddingCache(tmp_path / "embeddings.db", "model")
    cache.put_many({key(number): vector(number) for number in range(60)})
    cache.close()
    return tmp_path / "embeddings.db"


@pytest.fixture
def cache(path: Path) -> Iterator[EmbeddingCache]:
    opened = EmbeddingCache(path, "model")
    yield opened
    opened.close()


def noise_over(path: Path, page: int) -> None:
    with path.open("r+b") as file:
        file.seek(page * PAGE_BYTES)
        file.write(random.Random(page).randbytes(PAGE_BYTES))


def found(cache: EmbeddingCache) -> set[int]:
    """Which are there; each of them is what it was."""
    there = cache.get_many([key(number) for number in range(60)])
    for text_hash, kept in there.items():
        np.testing.assert_array_equal(kept, vector(int.from_bytes(text_hash, "big")))
    return {int.from_bytes(text_hash, "big") for text_hash in there}


def test_every_page_may_be_damaged_at_the_start(path: Path) -> None:
    whole = path.read_bytes()
    for page in range(len(whole) // PAGE_BYTES):
        path.write_bytes(whole)
        noise_over(path, page)
        cache = EmbeddingCache(path, "model")
        missing = set(range(60)) - found(cache)
        cache.put_many({key(number): vector(number) for number in missing})
        cache.put_many({key(number): vector(number) for number in set(range(60)) - found(cache)})
        assert found(cache) == set(range(60)), page
        cache.close()


def test_a_page_may_be_damaged_in_use(path: Path, cache: EmbeddingCache) -> None:
    for page in range(path.stat().st_size // PAGE_BYTES):
        noise_over(path, page)
    assert found(cache) == set()
    cache.put_many({key(1): vector(1)})
    assert found(cache) == {1}
    assert cache.prune([]) == 1


def test_pruning_survives_damage(path: Path, cache: EmbeddingCache) -> None:
    for page in range(1, path.stat().st_size // PAGE_BYTES):
        noise_over(path, page)
    cache.prune([key(1)])
    cache.put_many({key(1): vector(1)})
    assert found(cache) == {1}


def test_a_disk_that_cannot_be_read_for_a_while_costs_no_vector(path: Path) -> None:
    disk = HiccupingVFS("embeddings.db")
    try:
        disk.fails = True
        cache = EmbeddingCache(path, "model")
        with pytest.raises(StoreBusy, match="at the moment"):
            cache.get_many([key(1)])
        disk.fails = False
        assert found(cache) == set(range(60))
        cache.close()
    finally:
        disk.unregister()
