"""A vault that is away costs nothing that was acknowledged: the ledger keeps it, recall serves, and it is placed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import NewTurn, SessionHead, StoreBusy
from dreamd.store.okf import session
from dreamd.store.writer import writer

from tests.memories import facts_in

OpenStore = Callable[[], MemoryStore]
AT = datetime(2026, 11, 1, 9, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "FIRST_RETRY_S", 0.01)
    monkeypatch.setattr(writer, "LONGEST_RETRY_S", 0.01)


def turn(store: MemoryStore, number: int, name: str = "s1", *, named: bool = True) -> None:
    said = NewTurn(
        "user", f"turn {number} says zebra{number}", AT + timedelta(minutes=number), f"e{number}" if named else None
    )
    store.observe(SessionHead(name, "shop", started_at=AT), [said]).result(60)


def texts(paths: StorePaths, name: str = "s1") -> list[str]:
    data = (paths.vault / "sessions/2026/11/01" / f"{name}.md").read_bytes()
    return [said.text.split()[1] for said in session.parse(data).turns]


def away(paths: StorePaths) -> Path:
    return paths.vault.rename(paths.vault.with_name("unmounted"))


def back(paths: StorePaths) -> None:
    paths.vault.with_name("unmounted").rename(paths.vault)


def found(store: MemoryStore, query: str) -> list[str]:
    return [hit.text for hit in store.recall(query, channel="shop").hits]


def until(holds: Callable[[], bool], timeout_s: float = 60.0) -> None:
    give_up_at = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < give_up_at
        time.sleep(0.005)


def test_what_is_said_while_the_vault_is_away_is_kept_and_placed_when_it_is_back(
    store: MemoryStore, paths: StorePaths
) -> None:
    store.remember("The old office is in Berlin", channel="shop").result(60)
    turn(store, 1)
    assert store.settle(60)
    away(paths)
    store.remember("The new office is in Madrid", channel="shop").result(60)
    store.remember("The old office is in Berlin", channel="shop").result(60)  # known, but nobody can see that now
    turn(store, 1)
    turn(store, 2)
    turn(store, 3)
    assert found(store, "old office Berlin")[0] == "The old office is in Berlin"
    answer = store.recall("old office Berlin", channel="shop")
    assert any("is not there" in note and "wait for it" in note for note in answer.notes)
    assert any("is waited for" in problem for problem in store.status().problems)
    assert not paths.vault.exists()
    back(paths)
    until(lambda: not store.core.writer.lag)
    assert store.settle(60)
    assert found(store, "new office Madrid")[0] == "The new office is in Madrid"
    assert texts(paths) == ["1", "2", "3"]
    assert store.status().problems == []
    assert store.ledger.counts()["conflicts"] == 0


def test_turns_without_an_id_go_behind_those_that_are_there(store: MemoryStore, paths: StorePaths) -> None:
    turn(store, 1, named=False)
    store.settle(60)
    away(paths)
    turn(store, 2, named=False)
    turn(store, 3, named=False)
    back(paths)
    turn(store, 4, named=False)
    until(lambda: not store.core.writer.lag)
    assert texts(paths) == ["1", "2", "3", "4"]


def test_a_store_starts_without_its_vault_and_serves_what_it_knows(open_store: OpenStore, paths: StorePaths) -> None:
    store = open_store()
    store.remember("The old office is in Berlin", channel="shop").result(60)
    store.settle(60)
    store.close()
    away(paths)
    store = open_store()
    assert found(store, "old office Berlin") == ["The old office is in Berlin"]
    store.remember("The new office is in Madrid", channel="shop").result(60)
    turn(store, 1)
    store.close()
    store = open_store()  # once more without it: what waits is not forgotten
    turn(store, 2)
    assert not paths.vault.exists()
    store.close()
    back(paths)
    store = open_store()
    assert store.settle(60)
    assert found(store, "new office Madrid")[0] == "The new office is in Madrid"
    assert texts(paths) == ["1", "2"]


def test_nothing_is_unlearned_and_nothing_can_be_changed_while_the_vault_is_away(
    store: MemoryStore, paths: StorePaths
) -> None:
    node_id = store.remember("The old office is in Berlin", channel="shop").result(60)
    store.settle(60)
    away(paths)
    store.reconcile()
    store.file_changed([store.show(node_id, wanted=False).path])
    assert found(store, "old office Berlin") == ["The old office is in Berlin"]
    store.remember("Something that waits", channel="shop").result(60)
    with pytest.raises(StoreBusy, match="is not there"):
        store.forget(node_id)
    assert any("is not there" in problem.problem for problem in store.check())
    back(paths)
    until(lambda: not store.core.writer.lag)
    store.forget(node_id)
    assert found(store, "old office Berlin") != ["The old office is in Berlin"]


def test_accepting_makes_a_new_vault_with_what_waited(store: MemoryStore, paths: StorePaths) -> None:
    store.remember("The old office is in Berlin", channel="shop").result(60)
    store.settle(60)
    away(paths)
    store.remember("The new office is in Madrid", channel="shop").result(60)
    store.check(accept=True)
    until(lambda: not store.core.writer.lag)
    assert store.settle(60)
    assert [path.name for path in paths.vault.rglob("new-office*.md")]
    assert store.absence is None


def test_a_random_life_with_a_vault_that_comes_and_goes_loses_nothing(open_store: OpenStore, paths: StorePaths) -> None:
    rng = random.Random(7)
    store = open_store()
    said, remembered, is_away = 0, 0, False
    for _ in range(60):
        step = rng.choice(("turn", "turn", "remember", "remember", "move", "restart"))
        if step == "turn":
            said += 1
            turn(store, said, named=rng.random() < 0.5)
        elif step == "remember":
            remembered += 1
            store.remember(f"Fact number fact{remembered} holds", channel="shop").result(60)
        elif step == "move":
            (back if is_away else away)(paths)
            is_away = not is_away
        else:
            store.close()
            store = open_store()
    if is_away:
        back(paths)
    until(lambda: not store.core.writer.lag)
    assert store.settle(60)
    assert sorted(map(int, texts(paths))) == list(range(1, said + 1))
    kept = [path.read_text().split("fact")[-1] for path in facts_in(paths.vault)]
    assert len(kept) == remembered
    assert store.ledger.counts()["conflicts"] == 0
