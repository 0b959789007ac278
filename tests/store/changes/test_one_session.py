"""One session is one file and one node, whatever the days of its turns, and each acknowledged turn of it is found."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from dreamd.store.changes import session_plans as intake
from dreamd.store.door import Door
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.index.projection import Node
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import NewTurn, NotFound, SessionHead, StoreBusy
from dreamd.store.okf import session
from dreamd.store.settings import StoreSettings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.store.conftest import NOW, OpenStore

DAY = datetime(2026, 11, 1, 9, tzinfo=UTC)
SETTLED_S = 60.0

Batch = tuple[int, int | None, list[int]]

BATCHES = st.tuples(st.integers(0, 2), st.none() | st.integers(0, 8), st.lists(st.integers(0, 30), max_size=4))
STEPS = st.lists(BATCHES | st.sampled_from(["restart", "rebuild", "no index"]), min_size=1, max_size=12)


def turn(number: int, day: int | None = 0) -> NewTurn:
    at = None if day is None else DAY + timedelta(days=day)
    return NewTurn("user", f"We chose gadget{number:02d}x for the job.", at, str(number))


def found(store: MemoryStore, number: int) -> int:
    """Count the turns that recall finds by a turn's own word."""
    return sum(f"gadget{number:02d}x " in hit.text for hit in store.recall(f"gadget{number:02d}x", channel="p").hits)


def files_of(store: MemoryStore, session_id: str) -> list[Path]:
    return sorted(store.paths.vault.rglob(f"sessions/**/{session_id}.md"))


def caught_up(open_store: Callable[[], MemoryStore]) -> MemoryStore:
    store = open_store()
    assert store.wait_until_caught_up(SETTLED_S)
    assert store.settle(SETTLED_S)
    return store


@settings(max_examples=examples(12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_every_acknowledged_turn_is_found(steps: list[Batch | str], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("store")
    index = folder / "index"
    paths = StorePaths(folder / "vault", folder / "l.db", index / "index.db", index / "embeddings.db", folder / "runs")

    def opened() -> MemoryStore:
        return MemoryStore.open(paths, StoreSettings(), StubEmbedder(), lambda: NOW)

    store = opened()
    kept: set[int] = set()
    for step in steps:
        match step:
            case (chat, day, numbers):
                turns = [turn(100 * chat + number, day) for number in numbers]
                store.observe(SessionHead(f"chat-{chat}", "p"), turns).result()
                kept |= {int(one.external_id or "") for one in turns}
            case "rebuild":
                store.rebuild()
            case _:
                store.close()
                if step == "no index":
                    shutil.rmtree(index)
                store = opened()
    store.close()
    store = caught_up(opened)
    assert {number: found(store, number) for number in kept} == dict.fromkeys(kept, 1)
    assert all(len(files_of(store, f"chat-{chat}")) <= 1 for chat in range(3))
    store.close()


def test_days_that_come_before_the_index_has_read_the_first_go_into_one_file(store: MemoryStore) -> None:
    for day in range(5):
        store.observe(SessionHead("chat", "p"), [turn(day, day)]).result()
    assert store.settle(SETTLED_S)
    assert [found(store, day) for day in range(5)] == [1] * 5
    assert len(files_of(store, "chat")) == 1


def read_by_the_writer(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the sizes of what is read of the vault in the thread that acknowledges, as it is read."""
    sizes: list[int] = []
    read = store.core.vault.read

    def counted(path: str, from_offset: int = 0, most_bytes: int = -1) -> bytes:
        data = read(path, from_offset, most_bytes)
        if threading.current_thread().name == "dreamd-writer":
            sizes.append(len(data))
        return data

    monkeypatch.setattr(store.core.vault, "read", counted)
    return sizes


def test_the_first_turn_after_a_start_reads_the_end_of_a_long_session(
    store: MemoryStore, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.observe(SessionHead("chat", "p"), [turn(number) for number in range(99)]).result()
    assert store.settle(SETTLED_S)
    store.close()
    again = caught_up(open_store)
    sizes = read_by_the_writer(again, monkeypatch)
    observed = again.observe(SessionHead("chat", "p"), [turn(50), turn(99)]).result()
    assert (observed.added, observed.known) == (1, 1)
    assert 0 < sum(sizes) < 1000
    assert again.settle(SETTLED_S)
    assert [found(again, number) for number in (0, 50, 98, 99)] == [1] * 4
    assert b"turn n=100 " in files_of(again, "chat")[0].read_bytes()


ENDINGS = [b"", b"A note by hand", b"A note\n", b"<!-- turn torn n=9 -->\n\n", b"<!-- turn n=7 ro", b"\0\0"]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("last", ["A last word.", session.ERASED])
def test_the_index_says_of_a_session_what_its_file_says(store: MemoryStore, ending: bytes, last: str) -> None:
    turns = [
        turn(1),
        NewTurn("user", session.ERASED, DAY, "2"),
        NewTurn("user", "no id", DAY),
        replace(turn(3), text=last),
    ]
    head = SessionHead("chat", "p", started_at=DAY)
    file = store.paths.vault / session.path_of(head)
    file.parent.mkdir(parents=True)
    file.write_bytes(data := session.open_file(head) + session.encode_turns(turns, 1) + ending)
    store.reconcile()
    assert store.settle(SETTLED_S)
    read = store.core.lookup.session_as_read(session.path_of(head))
    if read is None:
        assert session.parse(data).torn
    else:
        assert intake._continued(*read) == intake._parsed(data, "chat")


@pytest.mark.parametrize("is_indexed", [True, False])
def test_a_session_in_a_users_part_takes_no_turn_of_another_user(store: MemoryStore, *, is_indexed: bool) -> None:
    of_users = {name: SessionHead("chat", f"p/@{name}", user_id=name) for name in ("ana", "bob")}
    ours = store.observe(of_users["ana"], [turn(1)])
    if is_indexed:
        ours.result()
        assert store.settle(SETTLED_S)
    theirs = store.observe(of_users["bob"], [turn(2)])
    with pytest.raises(NotFound, match="of this user's"):
        theirs.result()
    assert store.observe(of_users["ana"], [turn(3)]).result().added == 1
    assert store.observe(SessionHead("chat", "p"), [turn(4)]).result().added == 1  # the owner's


def test_sessions_that_wait_for_an_index_are_not_asked_for_one_by_one_again_and_again() -> None:
    asked: list[str] = []
    plans = intake.SessionPlans(Door(), lambda session_id: asked.append(session_id))
    for number in range(4 * intake.UNINDEXED_IN_MIND):
        plans._note_created(f"chat-{number}", f"sessions/undated/chat-{number}.md")
    assert len(plans._created) == 4 * intake.UNINDEXED_IN_MIND
    assert len(asked) < 4 * intake.UNINDEXED_IN_MIND


def test_a_stop_amid_a_long_session_ends_and_the_next_start_finds_all(
    store: MemoryStore, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexer, index, reached = store.core.indexer, store.core.index, threading.Event()
    write_chunks, written = index._write_chunks, list[int]()

    def stopped_at(node: Node) -> None:
        if node.ordinal == 20:
            reached.set()
            with indexer._changed:
                assert indexer._changed.wait_for(lambda: indexer._stopping, SETTLED_S)
            monkeypatch.setattr(indexer, "_monotonic", lambda: indexer._stop_at + 1)
        written.append(node.ordinal)
        write_chunks(node)

    monkeypatch.setattr(index, "_write_chunks", stopped_at)
    store.observe(SessionHead("chat", "p"), [turn(number) for number in range(60)]).result()
    assert reached.wait(SETTLED_S)
    store.close()
    assert max(written) == 20
    again = caught_up(open_store)
    assert [found(again, number) for number in (0, 20, 59)] == [1] * 3


def test_a_stop_is_heard_while_secrets_are_looked_for_in_a_long_session(
    store: MemoryStore, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dreamd.store.index.index.MASKED_AT_ONCE", 1000)
    secret = "gh" + "p_" + "aB3dE5fG7h" * 4
    turns = [turn(number) for number in range(60)]
    file = store.paths.vault / session.path_of(SessionHead("chat", "p"))
    file.parent.mkdir(parents=True)
    file.write_bytes(
        session.open_file(SessionHead("chat", "p"))
        + session.encode_turns([*turns, NewTurn("user", f"It opens with {secret}.")], 1)
    )
    indexer, parts = store.core.indexer, store.core.index._session_parts
    given: list[bytes] = []

    def stopped(data: bytes) -> Iterator[bytes]:
        for part in parts(data):
            given.append(part)
            monkeypatch.setattr(indexer, "_refusing", True)
            monkeypatch.setattr(indexer, "_monotonic", lambda: indexer._stop_at + 1)
            yield part

    monkeypatch.setattr(store.core.index, "_session_parts", stopped)
    with pytest.raises(StoreBusy):
        store.core.index.apply(session.path_of(SessionHead("chat", "p")))
    assert len(given) == 1
    store.close()
    again = caught_up(open_store)
    assert [found(again, number) for number in (0, 59)] == [1, 1]
    assert secret not in again.show("chat#61").text


def two_files(store: MemoryStore) -> Path:
    """Lay a second file of a session beside the first, as an earlier version did for every day."""
    store.observe(SessionHead("chat", "p"), [turn(1, 1)]).result()
    assert store.settle(SETTLED_S)
    head = SessionHead("chat", "p", started_at=DAY + timedelta(days=2))
    second = store.paths.vault / session.path_of(head)
    second.parent.mkdir(parents=True, exist_ok=True)
    second.write_bytes(session.open_file(head) + session.encode_turns([turn(1, 1), turn(2, 2), turn(3, 2)], 1))
    return second


def test_files_of_one_session_that_stand_apart_are_joined(store: MemoryStore, open_store: OpenStore) -> None:
    second = two_files(store)
    store.close()
    again = caught_up(open_store)
    assert [found(again, number) for number in (1, 2, 3)] == [1, 1, 1]
    assert not second.exists()
    assert [run.kind for run in again.runs(10)] == ["joined"]
    assert again.status().problems == []


def test_a_second_file_that_comes_while_the_daemon_runs_is_joined(store: MemoryStore) -> None:
    second = two_files(store)
    store.file_changed([str(second.relative_to(store.paths.vault))])
    assert store.settle(SETTLED_S)
    assert [found(store, number) for number in (1, 2, 3)] == [1, 1, 1]


def test_a_second_file_with_a_secret_stays_and_its_turns_are_found_without_it(store: MemoryStore) -> None:
    second = two_files(store)
    secret = "gh" + "p_" + "aB3dE5fG7h" * 4
    said = NewTurn("user", f"gadget04x opens with {secret}", DAY, "4")
    second.write_bytes(second.read_bytes() + session.encode_turns([said], 4))
    for _ in range(2):
        store.file_changed([str(second.relative_to(store.paths.vault))])
        store.reconcile()
        assert store.settle(SETTLED_S)
    assert secret in second.read_text()
    kept = next(path for path in files_of(store, "chat") if path != second).read_text()
    assert secret not in kept
    assert kept.count("gadget04x") == 1
