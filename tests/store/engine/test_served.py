"""An index with a server: what it answers while the server is there, away, frozen, full or emptied."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import psycopg
import pytest
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.engine import served
from dreamd.store.engine.interface import Hybrid
from dreamd.store.engine.postgres import reason_of
from dreamd.store.engine.served import ServedStore
from dreamd.store.filters import Condition
from dreamd.store.index.index import COLLECTION
from dreamd.store.index.open_index import SERVERS
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import Kind
from dreamd.store.purge.plan import Selection
from dreamd.store.results import ServerStatus
from dreamd.store.settings import StoreSettings

from tests.servers import PostgresServer, QdrantServer
from tests.store.conftest import NOW
from tests.store.test_files_backend import found, kept

Opened = Callable[..., MemoryStore]
Server = PostgresServer | QdrantServer
ALONE = "found on this machine alone"
LONG_S = 20.0


@pytest.fixture(scope="module")
def qdrant() -> Iterator[QdrantServer]:
    server = QdrantServer()
    yield server
    server.close()


@pytest.fixture(params=["postgres", "qdrant"])
def server(request: pytest.FixtureRequest) -> Server:
    given: Server = request.getfixturevalue(request.param)
    given.clear()
    return given


@pytest.fixture
def opened(paths: StorePaths, server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """Open the store with its server, as often as the test closes it."""
    monkeypatch.setattr(served, "AGAIN_S", 0.05)
    paths.dsn.parent.mkdir(parents=True, exist_ok=True)
    paths.dsn.write_text(server.dsn)
    paths.dsn.chmod(0o600)
    with ExitStack() as stack:

        def open_(backend: str = server.backend) -> MemoryStore:
            store = MemoryStore.open(paths, StoreSettings(backend=backend), StubEmbedder(), lambda: NOW)
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
    store.settle_links(LONG_S)  # which may write a memory again
    until(lambda: not store.status().pending_embeddings and backend_of(store).is_served(COLLECTION))


def test_the_server_answers_what_the_index_would(opened: Opened, server: Server) -> None:
    store = opened()
    kept(store, "Deploys go through Jenkins", "The printer is on the second floor", "Tom drinks green tea")
    in_step(store)
    assert server.texts() == {
        "Deploys go through Jenkins",
        "The printer is on the second floor",
        "Tom drinks green tea",
    }
    answer = store.recall("which jenkins deploys", channel="demo")
    assert answer.hits[0].text == "Deploys go through Jenkins"
    assert not any(ALONE in note for note in answer.notes)
    assert store.status().server == ServerStatus(SERVERS[server.backend], "in step", 0, "")
    assert "Tom drinks green tea" in found(store, "green tea")
    server.remove("Tom")
    assert "Tom drinks green tea" not in found(store, "who drinks green tea"), "the server was not asked"


def test_what_a_filter_leaves_few_of_is_searched_here(
    opened: Opened, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "OF_MANY", 9)
    monkeypatch.setattr(served, "ANSWERS_IN_S", LONG_S)
    store = opened()
    store.remember("Tom drinks green tea", kind=Kind.FACT, channel="other").result()
    kept(store, *(f"Deploy {number} went through Jenkins" for number in range(10)))
    in_step(store)
    server.remove("Tom")
    search = partial(backend_of(store).search_keyword, COLLECTION, ["green", "tea"], 5)
    until(lambda: not search())  # the server lacks it, and the index may answer until then
    narrow = (Condition("channel", "in", ("other",)),)
    assert len(search(narrow)) == 1
    backend, is_here = backend_of(store), threading.Event()
    local = backend._local.search_hybrid

    def search_here(*given: Any) -> list[Hybrid]:
        is_here.set()
        return local(*given)

    monkeypatch.setattr(backend._local, "search_hybrid", search_here)
    go_on = server.freeze()
    with ThreadPoolExecutor() as pool:
        both = pool.submit(
            backend.search_hybrid, COLLECTION, ["jenkins", "tea"], np.ones(384, np.float32), 5, [(), narrow]
        )
        try:
            assert is_here.wait(LONG_S), "the index is searched while the server works"
        finally:
            go_on()
        many, few = both.result(LONG_S)
    assert {match.id for match in few[0]}.isdisjoint(match.id for match in many[0])
    assert (len(many[0]), len(few[0])) == (5, 1)


def test_a_server_that_is_away_at_the_start_is_filled_once_it_is_there(opened: Opened, server: Server) -> None:
    server.stop()
    try:
        store = opened()
        kept(store, "Deploys go through Jenkins")
        until(lambda: "it refuses connections" in backend_of(store).capabilities().note)
        answer = store.recall("which jenkins deploys", channel="demo")
        assert [hit.text for hit in answer.hits] == ["Deploys go through Jenkins"]
        assert any(ALONE in note and SERVERS[server.backend] in note for note in answer.notes)
        assert server.dsn not in " ".join(answer.notes)
        status = store.status().server
        assert status is not None
        assert (status.state, status.problem) == ("away", backend_of(store).capabilities().note.partition(": ")[2])
        assert [one.severity for one in store.check() if status.problem in one.problem] == ["warning"]
    finally:
        server.start()
    in_step(store)
    assert server.texts() == {"Deploys go through Jenkins"}
    assert not any(ALONE in note for note in store.recall("which jenkins", channel="demo").notes)


def test_a_server_gone_in_the_middle_gets_what_it_missed(opened: Opened, server: Server) -> None:
    store = opened()
    kept(store, "Deploys go through Jenkins")
    in_step(store)
    server.stop()
    try:
        kept(store, "The printer is on the second floor")
        assert found(store, "printer floor")[:1] == ["The printer is on the second floor"]
        store.close()
    finally:
        server.start()
    again = opened()
    in_step(again)
    assert server.texts() == {"Deploys go through Jenkins", "The printer is on the second floor"}


def test_a_server_that_hangs_holds_no_question_up_for_long(opened: Opened, server: Server) -> None:
    store = opened()
    kept(store, "Deploys go through Jenkins")
    in_step(store)
    go_on = server.freeze()
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
def test_a_server_that_lost_something_is_filled_again(opened: Opened, server: Server, loss: str) -> None:
    store = opened()
    kept(store, "Deploys go through Jenkins")
    in_step(store)
    if loss == "its copy is gone":
        server.lose_copies()
    elif loss == "all of it is gone":
        server.clear()
    else:
        server.put_back()
    kept(store, "The printer is on the second floor")
    until(lambda: bool(server.copies()))
    in_step(store)
    assert found(store, "jenkins")[:1] == ["Deploys go through Jenkins"]
    assert server.texts() == {"Deploys go through Jenkins", "The printer is on the second floor"}


def test_a_copy_that_lacks_a_chunk_is_found_out_at_the_start(opened: Opened, server: Server) -> None:
    store = opened()
    kept(store, "Deploys go through Jenkins", "The printer is on the second floor")
    in_step(store)
    store.close()
    server.remove("Deploys")
    assert server.texts() == {"The printer is on the second floor"}
    in_step(opened())
    assert server.texts() == {"Deploys go through Jenkins", "The printer is on the second floor"}


def test_a_full_server_is_brought_everything_once_it_has_room(opened: Opened, server: Server) -> None:
    store = opened()
    kept(store, "Deploys go through Jenkins")
    in_step(store)
    with server.without_room():
        kept(store, "The printer is on the second floor")
        until(lambda: server.full in backend_of(store).capabilities().note)
        assert found(store, "printer floor")[:1] == ["The printer is on the second floor"]
    in_step(store)
    assert "The printer is on the second floor" in server.texts()


def test_changes_without_the_server_fill_it_again(opened: Opened, server: Server) -> None:
    store = opened()
    kept(store, "Deploys go through Jenkins")
    in_step(store)
    store.close()
    other = opened("sqlite-vec")
    kept(other, "The printer is on the second floor")
    other.close()
    in_step(opened())
    assert server.texts() == {"Deploys go through Jenkins", "The printer is on the second floor"}


def test_a_rebuild_fills_it_and_a_purge_erases_there_too(opened: Opened, server: Server) -> None:
    store = opened()
    kept(store, "Deploys go through Jenkins", "The printer is on the second floor")
    in_step(store)
    store.rebuild()
    in_step(store)
    assert len(server.texts()) == 2
    node_id = store.recall("jenkins", channel="demo").hits[0].node_id
    before = server.files()
    done = store.purge(Selection(nodes=(node_id,)))
    assert done.traces == ()
    name = SERVERS[server.backend]
    assert [line for line in done.out_of_reach if name in line] == [
        f"The copy on {name} is written anew without it in the background, once it answers: `dreamctl status` says when"
        " it is in step.",
        f"What {name} logs and backs up itself is not reached.",
    ]
    until(lambda: server.files() != before and bool(server.files()))
    in_step(store)
    assert server.texts() == {"The printer is on the second floor"}
    assert not isinstance(server, PostgresServer) or not server.holding("Jenkins")


def test_a_copy_that_is_left_is_named_by_a_purge_until_it_is_dropped(
    opened: Opened, server: Server, paths: StorePaths
) -> None:
    store = opened()
    kept(store, "Deploys go through Jenkins", "The printer is on the second floor", "The kettle is broken")
    in_step(store)
    assert store.core.opened.left_copy(paths.dsn) == ""
    store.close()
    store = opened("sqlite-vec")

    def told(query: str) -> list[str]:
        node_id = store.recall(query, channel="demo").hits[0].node_id
        done = store.purge(Selection(nodes=(node_id,)))
        return [line for line in done.out_of_reach if "store.dsn" in line]

    (line,) = told("jenkins")
    assert "is not reached: `dreamctl migrate --to sqlite-vec --drop` removes it" in line
    assert "Deploys go through Jenkins" in server.texts()
    store.core.opened.drop_copy(paths.dsn)
    assert server.texts() == set()
    assert told("printer") == []


@pytest.mark.parametrize("trouble", ["it is not there", "others may read it"])
def test_the_file_that_names_the_server_is_ones_own(opened: Opened, paths: StorePaths, trouble: str) -> None:
    paths.dsn.unlink() if trouble == "it is not there" else paths.dsn.chmod(0o644)
    store = opened()
    kept(store, "Deploys go through Jenkins")
    until(lambda: "store.dsn" in backend_of(store).capabilities().note)
    assert found(store, "jenkins deploys") == ["Deploys go through Jenkins"]


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("57014", "it took too long"),
        ("57P01", "it is stopping or starting"),
        ("53300", "it has no connection left"),
        ("42501", "the login may not do that"),
        ("XX001", "it failed with code XX001"),
    ],
)
def test_why_a_postgres_cannot_be_used_is_said_in_words_of_ours(code: str, why: str) -> None:
    assert reason_of(psycopg.errors.lookup(code)("a text of a person"), is_connected=True) == why


def test_how_far_a_postgres_was_reached_is_said_where_it_gives_no_code() -> None:
    gone = psycopg.OperationalError("at secret.example")
    assert reason_of(gone, is_connected=True) == "it ended the connection"
    assert reason_of(gone, is_connected=False) == "it refuses connections"
    assert reason_of(psycopg.errors.ConnectionTimeout(), is_connected=False) == "it does not answer"
