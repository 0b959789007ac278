"""A write that is sent again with its key: kept once, answered as before, for a day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.ledger.records import ANSWERS_KEPT
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import NewTurn, SessionHead
from dreamd.store.purge.plan import Selection
from dreamd.store.settings import StoreSettings

from tests.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock(datetime(2026, 11, 21, 9, 0, tzinfo=UTC))


@pytest.fixture
def paths(tmp_path: Path) -> StorePaths:
    return StorePaths(
        vault=tmp_path / "vault",
        ledger=tmp_path / "ledger.db",
        index=tmp_path / "index.db",
        embeddings=tmp_path / "embeddings.db",
        runs=tmp_path / "runs",
    )


def opened(paths: StorePaths, clock: Clock) -> MemoryStore:
    return MemoryStore.open(paths, StoreSettings(), StubEmbedder(), clock)


def kept(store: MemoryStore) -> list[str]:
    return [memory.node_id for memory in store.list(limit=100)]


def test_a_repeated_remember_is_one_memory_over_a_restart(paths: StorePaths, clock: Clock) -> None:
    store = opened(paths, clock)
    first = store.remember("Deploys happen on Thursdays.", idempotency_key="k1").result()
    store.close()
    store = opened(paths, clock)
    assert store.remember("Deploys happen on Thursdays.", idempotency_key="k1").result() == first
    assert kept(store) == [first]
    assert store.runs(kinds=("remember",)) == []
    store.close()


def test_a_key_says_no_more_than_its_day(paths: StorePaths, clock: Clock) -> None:
    store = opened(paths, clock)
    first = store.remember("We use Postgres.", idempotency_key="k1").result()
    assert store.remember("We use SQLite.", idempotency_key="k1").result() == first
    clock.now += ANSWERS_KEPT + timedelta(seconds=1)
    store.remember("We use Redis.", idempotency_key="k2").result()
    assert store.remember("We use SQLite.", idempotency_key="k1").result() != first
    store.close()


def test_turns_without_ids_are_kept_once(paths: StorePaths, clock: Clock) -> None:
    store = opened(paths, clock)
    head = SessionHead(session_id="s1", channel="shop")
    turns = [NewTurn("user", "ok"), NewTurn("assistant", "Done.")]
    first = store.observe(head, turns, "k1").result()
    assert (first.added, store.observe(head, turns, "k1").result()) == (2, first)
    assert store.observe(head, turns, "k2").result().added == 2
    store.close()


def test_a_repeated_verdict_counts_once(paths: StorePaths, clock: Clock) -> None:
    store = opened(paths, clock)
    node = store.remember("We use Postgres.", idempotency_key="k1").result()
    store.wait_until_caught_up(10)
    for key in ("k1", "k1", "k2"):  # a key of `remember` is none of `feedback`
        store.feedback(node, "useful", key)
    assert store.ledger.feedback()[node]["useful"] == 2
    store.close()


def test_a_purge_leaves_no_answers(paths: StorePaths, clock: Clock) -> None:
    store = opened(paths, clock)
    node = store.remember("We use Postgres.", idempotency_key="k1").result()
    store.wait_until_caught_up(10)
    store.purge(Selection(nodes=(node,)))
    again = store.remember("We use Postgres.", idempotency_key="k1").result()
    store.wait_until_caught_up(10)
    assert kept(store) == [again]
    store.close()
