"""An index with a server: what it answers while the server is there, away, frozen, full or emptied."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.engine import served
from dreamd.store.engine.served import ServedStore
from dreamd.store.index.index import COLLECTION
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.purge.plan import Selection
from dreamd.store.settings import StoreSettings

from tests.servers import PostgresServer
from tests.store.conftest import NOW
from tests.store.test_files_backend import found, kept

Opened = Callable[..., MemoryStore]
POSTGRES = StoreSettings(backend="postgres")
ALONE = "found on this machine alone"
LONG_S = 20.0


@pytest.fixture
def opened(paths: StorePaths, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """Open the store with its server, as often as the test closes it."""
    monkeypatch.setattr(served, "AGAIN_S", 0.05)
    postgres.clear()
    paths.dsn.parent.mkdir(parents=True, exist_ok=True)
    paths.dsn.write_text(postgres.dsn)
    paths.dsn.chmod(0o600)
    with ExitStack() as stack:

        def open_(settings: StoreSettings = POSTGRES) -> MemoryStore:
            store = MemoryStore.open(paths, settings, StubEmbedder(), lambda: NOW)
            stack.callback(store.close)
            assert store.settle(5.0)
            return store

        yield open_


def backend_of(store: MemoryStore) -> ServedStore:
    backend = store.core.index.backend
    assert isinstance(backend, ServedStore)
    return backend


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds that another process brings about, which sends no event."""
    end = time.monotonic() + LONG_S
    while not holds():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.01)


def in_step(store: MemoryStore) -> None:
    until(lambda: backend_of(store).is_served(COLLECTION))


def texts_on(server: PostgresServer) -> set[str]:
    tables = [name for (name,) in server.ask("SELECT name FROM dreamd.collection")]
    return {body for name in tables for (body,) in server.ask(f"SELECT body FROM dreamd.{name}")}


def test_the_server_answers_what_the_index_would(opened: Opened, postgres: PostgresServer) -> None:
    store = opened()
    kept(store, "Deploys go through Jenkins", "The printer is on the second floor", "Tom drinks green tea")
    in_step(store)
    assert texts_on(postgres) == {
        "Deploys go through Jenkins",
        "The printer is on the second floor",
        "Tom drinks green tea",
    }
    answer = store.recall("which jenkins deploys", channel="demo")
    assert answer.hits[0].text == "Deploys go through Jenkins"
    assert not any(ALONE in note for note in answer.notes)
    assert "Tom drinks green tea" in found(store, "green tea")
    postgres.ask(f"DELETE FROM dreamd.{one_table(postgres)} WHERE body LIKE 'Tom%'")
    assert "Tom drinks green tea" not in found(store, "who drinks green tea"), "the server was not asked"


def one_table(server: PostgresServer) -> str:
    [(name,)] = server.ask("SELECT name FROM dreamd.collection")
    return str(name)


def test_a_server_that_is_away_at_the_start_is_filled_once_it_is_there(
    opened: Opened, postgres: PostgresServer
) -> None:
    postgres.stop()
    try:
        store = opened()
        kept(store, "Deploys go through Jenkins")
        answer = store.recall("which jenkins deploys", channel="demo")
        assert [hit.text for hit in answer.hits] == ["Deploys go through Jenkins"]
        assert any(ALONE in note and "Postgres" in note for note in answer.notes)
        assert postgres.dsn not in " ".join(answer.notes)
    finally:
        postgres.start()
    in_step(store)
    assert texts_on(postgres) == {"Deploys go through Jenkins"}
    assert not any(ALONE in note for note in store.recall("which jenkins", channel="demo").notes)


def test_a_server_gone_in_the_middle_gets_what_it_missed(opened: Opened, postgres: PostgresServer) -> None:
    store = opened()
    kept(store, "Deploys go through Jenkins")
    in_step(store)
    postgres.stop()
    try:
        kept(store, "The printer is on the second floor")
        assert found(store, "printer floor")[:1] == ["The printer is on the second floor"]
        store.close()
    finally:
        postgres.start()
    again = opened()
    in_step(again)
    assert texts_on(postgres) == {"Deploys go through Jenkins", "The printer is on the second floor"}


def test_a_server_that_hangs_holds_no_question_up_for_long(opened: Opened, postgres: PostgresServer) -> None:
    store = opened()
    kept(store, "Deploys go through Jenkins")
    in_step(store)
    go_on = postgres.freeze()
    try:
        began = time.monotonic()
        answer = store.recall("which jenkins deploys", channel="demo")
        assert [hit.text for hit in answer.hits] == ["Deploys go through Jenkins"]
        assert any(ALONE in note for note in answer.notes)
        assert time.monotonic() - began < 10 * served.ANSWERS_IN_S
    finally:
        go_on()
    in_step(store)


@pytest.mark.parametrize("loss", ["its copy is gone", "an older copy was put back", "all of it is gone"])
def test_a_server_that_lost_something_is_filled_again(opened: Opened, postgres: PostgresServer, loss: str) -> None:
    store = opened()
    kept(store, "Deploys go through Jenkins")
    in_step(store)
    table = one_table(postgres)
    if loss == "its copy is gone":
        postgres.ask(f"DROP TABLE dreamd.{table}; DELETE FROM dreamd.collection")
    elif loss == "all of it is gone":
        postgres.clear()
    else:
        postgres.ask(f"DELETE FROM dreamd.{table}; UPDATE dreamd.collection SET mark = 'older:3'")
    kept(store, "The printer is on the second floor")
    until(lambda: len(postgres.ask("SELECT 1 FROM pg_tables WHERE schemaname = 'dreamd'")) == 2)
    in_step(store)
    assert found(store, "jenkins")[:1] == ["Deploys go through Jenkins"]
    assert texts_on(postgres) == {"Deploys go through Jenkins", "The printer is on the second floor"}


def test_a_full_server_is_brought_everything_once_it_has_room(opened: Opened, postgres: PostgresServer) -> None:
    store = opened()
    kept(store, "Deploys go through Jenkins")
    in_step(store)
    table = one_table(postgres)
    postgres.ask(
        "CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = '53100'; END $$;"
        f" CREATE TRIGGER no_room BEFORE INSERT ON dreamd.{table} EXECUTE FUNCTION no_room()"
    )
    try:
        kept(store, "The printer is on the second floor")
        until(lambda: "DiskFull" in backend_of(store).capabilities().note)
        assert found(store, "printer floor")[:1] == ["The printer is on the second floor"]
    finally:
        postgres.ask("DROP FUNCTION no_room CASCADE")
    in_step(store)
    assert "The printer is on the second floor" in texts_on(postgres)


def test_changes_without_the_server_fill_it_again(opened: Opened, postgres: PostgresServer) -> None:
    store = opened()
    kept(store, "Deploys go through Jenkins")
    in_step(store)
    store.close()
    other = opened(StoreSettings())
    kept(other, "The printer is on the second floor")
    other.close()
    in_step(opened())
    assert texts_on(postgres) == {"Deploys go through Jenkins", "The printer is on the second floor"}


def test_a_rebuild_fills_it_and_a_purge_erases_there_too(opened: Opened, postgres: PostgresServer) -> None:
    store = opened()
    kept(store, "Deploys go through Jenkins", "The printer is on the second floor")
    in_step(store)
    store.rebuild()
    in_step(store)
    assert len(texts_on(postgres)) == 2
    node_id = store.recall("jenkins", channel="demo").hits[0].node_id
    table = one_table(postgres)
    [(before,)] = postgres.ask(f"SELECT pg_relation_filepath('dreamd.{table}')")
    assert store.purge(Selection(nodes=(node_id,))).traces == ()
    until(lambda: postgres.ask(f"SELECT pg_relation_filepath('dreamd.{table}')") != [(before,)])
    in_step(store)
    assert texts_on(postgres) == {"The printer is on the second floor"}


@pytest.mark.parametrize("trouble", ["it is not there", "others may read it"])
def test_the_file_that_names_the_server_is_ones_own(opened: Opened, paths: StorePaths, trouble: str) -> None:
    paths.dsn.unlink() if trouble == "it is not there" else paths.dsn.chmod(0o644)
    store = opened()
    kept(store, "Deploys go through Jenkins")
    until(lambda: "store.dsn" in backend_of(store).capabilities().note)
    assert found(store, "jenkins deploys") == ["Deploys go through Jenkins"]
