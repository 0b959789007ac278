"""A damaged database, at the start or in use: recall goes on, nothing acknowledged is lost, no hand is needed."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import random
import resource
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.engine.database import lasting_problems
from dreamd.store.index import open_index as opening
from dreamd.store.ledger import ledger as ledger_module
from dreamd.store.ledger.records import Run
from dreamd.store.ledger.salvage import damaged_files, discard, salvage
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import IndexDamaged, NewTurn, SessionHead, StoreBusy, StoreError
from dreamd.store.settings import StoreSettings
from dreamd.store.vault.disk import Disk

from tests.examples import NIGHTLY, examples
from tests.store.conftest import NOW
from tests.store.disks.full_disk import HiccupingVFS

OpenStore = Callable[[], MemoryStore]
PAGE_BYTES = 4096
AT = datetime(2026, 11, 1, 9, 0, tzinfo=UTC)
WITHIN_S = 30.0  # of a busy machine; what is promised is measured by tests/bench/damage.py


def fill(store: MemoryStore) -> None:
    """Long turns too, whose text lies in pages that have no structure of their own."""
    for number in range(3):
        turns = [
            NewTurn("user", f"Parcel q{number}x{n}z lies in the cellar. {'It is heavy. ' * 500 * (n == 5)}", AT, f"{n}")
            for n in range(20)
        ]
        store.observe(SessionHead(f"s{number}", "shop", started_at=AT), turns).result()
    for number in range(15):
        store.remember(f"Vera keeps lantern m{number}z", channel="shop").result()
    store.rebuild()


def found(store: MemoryStore, query: str) -> str:
    return " ".join(hit.text for hit in store.recall(query, channel="shop").hits)


def until_found(store: MemoryStore, word: str) -> set[str]:
    """Ask until it is found; what was noted meanwhile. Any error is the caller's."""
    notes: set[str] = set()
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        recalled = store.recall(word, channel="shop")
        notes |= set(recalled.notes)
        if any(word in hit.text for hit in recalled.hits):
            return notes
        time.sleep(0.01)
    raise AssertionError(f"{word} was not found; {notes}")


def until(question: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not question():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def until_whole(store: MemoryStore) -> None:
    until(lambda: not any("made again" in problem for problem in store.status().problems))


def until_quiet(store: MemoryStore) -> None:
    """Wait until the vault was compared with the index: what is written after that would mend a damaged page."""
    assert store.settle(WITHIN_S)
    deadline = time.monotonic() + WITHIN_S
    while store.status().catching_up:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def damage(path: Path, *pages: int) -> None:
    """Write noise over pages, of what lies in the write-ahead log too."""
    with contextlib.closing(apsw.Connection(str(path))) as connection, contextlib.suppress(apsw.Error):
        connection.set_busy_timeout(int(WITHIN_S * 1000))  # a log that was not emptied would still hold the whole page
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with path.open("r+b") as file:
        for page in pages:
            file.seek(page * PAGE_BYTES)
            file.write(random.Random(page).randbytes(PAGE_BYTES))


def pages(path: Path) -> int:
    return path.stat().st_size // PAGE_BYTES


def root_pages(path: Path) -> dict[str, int]:
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        return dict(connection.execute("SELECT name, rootpage - 1 FROM sqlite_schema WHERE rootpage > 0"))


def in_another_thread(work: Callable[[], object]) -> None:
    """With connections of its own, which have nothing in mind."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]


@pytest.fixture
def filled(store: MemoryStore, paths: StorePaths, tmp_path: Path) -> Path:
    """Give a folder with the files of a store that was filled and closed."""
    fill(store)
    store.close()
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("vault", "index"):
        shutil.copytree(tmp_path / name, copy / name, symlinks=True)
    shutil.copy(paths.ledger, copy)
    return copy


@pytest.fixture
def restored(filled: Path, tmp_path: Path) -> Callable[[], None]:
    """Put the files back as they were."""

    def restore() -> None:
        for name in ("vault", "index"):
            shutil.rmtree(tmp_path / name)
            shutil.copytree(filled / name, tmp_path / name, symlinks=True)
        (tmp_path / "ledger.db-wal").unlink(missing_ok=True)
        shutil.copy(filled / "ledger.db", tmp_path)

    return restore


@pytest.mark.hypothesis  # on more pages in the night
def test_any_page_of_the_index_may_be_damaged_at_the_start(
    restored: Callable[[], None], open_store: OpenStore, paths: StorePaths
) -> None:
    restored()
    whole = pages(paths.index)
    chosen = {0, 1, *root_pages(paths.index).values(), *range(0, whole, whole // 8)}
    for page in sorted(chosen)[:: max(1, len(chosen) // examples(24))]:
        restored()
        damage(paths.index, page)
        store = open_store()
        kept = store.remember(f"Anton keeps kettle new{page}z", channel="shop").result(WITHIN_S)
        for word in ("q1x7z", "m7z", f"new{page}z"):
            until_found(store, word)
        store.list(channel="shop")
        assert store.show(kept).text.endswith(f"new{page}z")
        store.check()  # finds what nobody has met
        until_whole(store)
        assert list(store.check()) == []
        store.close()


@pytest.mark.parametrize("table", ["node", "chunk", "file", "chunks_point", "chunks_words_data", "collection", "meta"])
def test_damage_in_use_is_met_by_whoever_asks_and_mended(
    restored: Callable[[], None], open_store: OpenStore, paths: StorePaths, table: str
) -> None:
    restored()
    store = open_store()
    until_quiet(store)
    damage(paths.index, root_pages(paths.index)[table])
    in_another_thread(lambda: [until_found(store, word) for word in ("q1x7z", "m7z", "heavy")])
    store.check()
    until_whole(store)
    assert list(store.check()) == []
    assert (paths.index.parent / "index.set-aside.db").exists()


def test_remembering_needs_no_index(restored: Callable[[], None], open_store: OpenStore, paths: StorePaths) -> None:
    restored()
    store = open_store()
    roots = root_pages(paths.index)
    damage(paths.index, *(roots[table] for table in ("node", "sqlite_autoindex_node_1", "file", "chunk")))
    kept = store.remember("Anton keeps the kettle z1z", channel="shop").result(WITHIN_S)
    again = store.remember("Vera keeps lantern m7z", channel="shop").result(WITHIN_S)
    turns = [NewTurn("user", "Parcel z2z is late", AT + timedelta(days=3), "late")]
    assert store.observe(SessionHead("s1", "shop"), turns).result(WITHIN_S).added == 1
    for word in ("z1z", "z2z", "m7z"):
        until_found(store, word)
    until_whole(store)
    assert {store.show(kept).text, store.show(again).text} == {"Anton keeps the kettle z1z", "Vera keeps lantern m7z"}
    assert len(list((paths.vault / "sessions").rglob("*s1*.md"))) == 1


def remove_in_use(folder: Path) -> None:
    """Delete a folder, again where the store wrote a file into it meanwhile."""
    while True:
        try:
            return shutil.rmtree(folder)
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise


def test_the_index_may_be_deleted_in_use(
    restored: Callable[[], None], open_store: OpenStore, paths: StorePaths
) -> None:
    restored()
    store = open_store()
    remove_in_use(paths.index.parent)
    in_another_thread(lambda: [until_found(store, word) for word in ("q1x7z", "m7z")])
    store.remember("Anton keeps the kettle z1z", channel="shop").result(WITHIN_S)
    in_another_thread(lambda: until_found(store, "z1z"))
    until_whole(store)
    store.close()
    assert "z1z" in found(open_store(), "z1z")


def test_only_the_latest_damaged_index_is_kept(
    restored: Callable[[], None], open_store: OpenStore, paths: StorePaths
) -> None:
    restored()
    store = open_store()
    for _ in range(3):
        damage(paths.index, 2)
        store.check()
        until_whole(store)
        assert list(store.check()) == []
    store.close()
    names = {path.name for path in paths.index.parent.glob("index*.db")}
    assert names == {"index.db", paths.index.readlink().name, "index.set-aside.db"}
    (paths.index.parent / "index-99.db").write_bytes(b"left by a rebuild that was killed")
    assert "m7z" in found(open_store(), "m7z")
    assert not (paths.index.parent / "index-99.db").exists()


class GatedDisk(Disk):
    """Holds whoever reads a file of this name, in the hand of a test."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.waits = threading.Event()
        self.may_go = threading.Event()
        self.may_go.set()

    def read(self, path: Path, from_offset: int = 0, most_bytes: int = -1) -> bytes:
        if self.name in path.name and not self.may_go.is_set():
            self.waits.set()
            assert self.may_go.wait(WITHIN_S)
        return super().read(path, from_offset, most_bytes)


@pytest.fixture
def gated(paths: StorePaths) -> Iterator[tuple[MemoryStore, GatedDisk]]:
    """Give a store of three memories, and its disk."""
    disk = GatedDisk("gate")
    store = MemoryStore(paths, StoreSettings(), StubEmbedder(), lambda: NOW, disk)
    for text in ("The gate is green", "The fence is blue", "The roof is red"):
        store.remember(text, channel="shop").result()
    store.rebuild()
    yield store, disk
    disk.may_go.set()
    store.close()


def test_a_rebuild_answers_and_takes_in_while_it_reads(gated: tuple[MemoryStore, GatedDisk], paths: StorePaths) -> None:
    store, disk = gated
    before = os.path.realpath(paths.index)
    disk.may_go.clear()
    rebuilding = threading.Thread(target=store.rebuild)
    rebuilding.start()
    assert disk.waits.wait(WITHIN_S)
    assert "roof" in found(store, "roof red")
    store.remember("The well is deep", channel="shop").result(WITHIN_S)
    assert "well" in found(store, "well deep")
    (fence,) = paths.vault.rglob("*fence*")  # it was read before the gate
    fence.write_bytes(fence.read_bytes().replace(b"The fence is blue", b"The fence fell over"))
    store.file_changed([fence.relative_to(paths.vault).as_posix()])
    roof = store.recall("roof red", channel="shop").hits[0]
    store.forget(roof.node_id)
    disk.may_go.set()
    rebuilding.join()
    assert os.path.realpath(paths.index) != before
    assert not Path(before).exists()
    assert "well" in found(store, "well deep")
    assert "fell over" in found(store, "fence fell over")
    assert "roof" not in found(store, "roof red")
    assert store.recall("gate", channel="shop").notes == []


def test_while_an_index_is_made_again_answers_say_how_far_it_is(
    gated: tuple[MemoryStore, GatedDisk], paths: StorePaths
) -> None:
    store, disk = gated
    gate = store.recall("gate green", channel="shop").hits[0]
    disk.may_go.clear()
    damage(paths.index, root_pages(paths.index)["node"])
    in_another_thread(lambda: store.recall("fence", channel="shop"))
    assert disk.waits.wait(WITHIN_S)
    assert any("the index is being made again" in note for note in store.recall("fence", channel="shop").notes)
    assert any("the index is being made again" in note for note in store.context("fence", channel="shop").notes)
    assert store.recall("Who pays the ferry?", channel="shop").incomplete
    assert store.context("Who pays the ferry?", channel="shop").incomplete
    store.remember("The well is deep", channel="shop").result(WITHIN_S)
    with pytest.raises(StoreBusy, match="made again"):  # it is not known to be unknown
        store.forget(gate.node_id)
    with pytest.raises(StoreBusy, match="made again"):
        store.refuse_to_dream()
    disk.may_go.set()
    until_whole(store)
    assert "well" in found(store, "well deep")
    assert store.recall("gate green", channel="shop").hits[0] == gate
    store.refuse_to_dream()


def test_a_store_closes_when_a_rebuild_has_let_go_of_the_files(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes_file, goes_on = threading.Event(), threading.Event()
    leave = opening.IndexFile.leave

    def leave_slowly(file: opening.IndexFile) -> None:
        changes_file.set()
        goes_on.wait(WITHIN_S)
        leave(file)

    def rebuild() -> None:
        with contextlib.suppress(StoreBusy):  # it was closed meanwhile
            store.rebuild()

    monkeypatch.setattr(opening.IndexFile, "leave", leave_slowly)
    rebuilding = threading.Thread(target=rebuild)
    closing = threading.Thread(target=store.close)
    rebuilding.start()
    assert changes_file.wait(WITHIN_S)
    closing.start()
    closing.join(0.2)
    assert closing.is_alive()
    goes_on.set()
    closing.join(WITHIN_S)
    rebuilding.join(WITHIN_S)
    assert not closing.is_alive()
    assert not rebuilding.is_alive()


def test_a_rebuild_needs_nothing_of_the_old_file(
    restored: Callable[[], None], open_store: OpenStore, paths: StorePaths
) -> None:
    restored()
    store = open_store()
    damage(paths.index, *range(1, pages(paths.index)))
    assert store.rebuild().files == 18
    assert list(store.check()) == []
    assert "m7z" in found(store, "m7z")


def test_a_rebuild_without_its_vault_changes_nothing(store: MemoryStore, paths: StorePaths) -> None:
    store.remember("The well is deep", channel="shop").result()
    assert "well" in found(store, "well deep")
    before = os.path.realpath(paths.index)
    paths.vault.rename(paths.vault.with_name("away"))
    with pytest.raises(StoreError, match="vault"):
        store.rebuild()
    assert os.path.realpath(paths.index) == before
    assert "well" in found(store, "well deep")
    paths.vault.with_name("away").rename(paths.vault)


def test_a_transaction_that_cannot_begin_leaves_none_open(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else no other file could ever take the index's place, and every later write would be seen in halves."""

    class Unreadable:
        def execute(self, sql: str) -> None:
            raise apsw.IOError(sql)

    with monkeypatch.context() as patched:
        patched.setattr(store.index, "_connect", Unreadable)
        with pytest.raises(apsw.IOError), store.index.batch():
            pass
    store.rebuild()
    with store.index.batch():
        assert store.index._connection.in_transaction


def test_an_index_that_could_not_be_opened_for_a_while_is_kept(store: MemoryStore, paths: StorePaths) -> None:
    store.remember("The well is deep", channel="shop").result()
    assert "well" in found(store, "well deep")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        with pytest.raises(IndexDamaged):  # a thread that has no connection yet cannot open one
            in_another_thread(store.catalog.counts)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    in_another_thread(lambda: until_found(store, "well"))
    until_whole(store)
    assert not (paths.index.parent / "index.set-aside.db").exists()


@pytest.fixture
def hiccups() -> Iterator[HiccupingVFS]:
    disk = HiccupingVFS("index.db")
    yield disk
    gc.collect()  # a cursor whose read failed says so again when it goes
    disk.unregister()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_index_that_cannot_be_read_for_a_while_is_kept(
    hiccups: HiccupingVFS, open_store: OpenStore, paths: StorePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dreamd.store.index.repairs.RETRY_AT_MOST_S", 0.01)
    monkeypatch.setattr("dreamd.store.index.repairs.REPLACED_S", 0.01)
    looks: list[Path] = []

    def look(path: Path) -> list[str]:
        looks.append(path)
        return lasting_problems(path)

    monkeypatch.setattr(opening, "lasting_problems", look)
    with contextlib.closing(open_store()) as store:
        store.remember("The well is deep", channel="shop").result()
        until_found(store, "well")
        hiccups.fails = True
        with pytest.raises(StoreBusy, match="cannot be read"):
            store.core.opened.problems()
        with pytest.raises(IndexDamaged):
            in_another_thread(store.catalog.counts)
        until(lambda: len(looks) > 20)
        hiccups.fails = False
        in_another_thread(lambda: until_found(store, "well"))
        until_whole(store)
    assert not (paths.index.parent / "index.set-aside.db").exists()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_index_of_which_a_read_came_out_as_damage_is_kept(
    hiccups: HiccupingVFS, open_store: OpenStore, paths: StorePaths
) -> None:
    with contextlib.closing(open_store()) as store:
        store.remember("The well is deep", channel="shop").result()
        until_found(store, "well")
        hiccups.error, hiccups.fails = apsw.CorruptError, 1
        with pytest.raises(IndexDamaged):
            in_another_thread(store.catalog.counts)
        in_another_thread(lambda: until_found(store, "well"))
        until_whole(store)
    assert not (paths.index.parent / "index.set-aside.db").exists()


def test_an_index_that_cannot_be_read_when_a_store_is_opened_is_kept(
    hiccups: HiccupingVFS, open_store: OpenStore, paths: StorePaths
) -> None:
    with contextlib.closing(open_store()) as store:
        store.remember("The well is deep", channel="shop").result()
        until_found(store, "well")
    hiccups.fails = 5
    with contextlib.closing(open_store()) as store:
        assert "well" in found(store, "well")
    assert not hiccups.fails
    assert not (paths.index.parent / "index.set-aside.db").exists()


# ---- the ledger


def forgetting(store: MemoryStore) -> str:
    """Forget a turn, which stays in its file; the run."""
    return store.forget("s1#2").run_id


def named(store: MemoryStore) -> str:
    return " ".join([*store.status().problems, *(problem.problem for problem in store.check())])


@pytest.mark.hypothesis
def test_a_damaged_ledger_is_set_aside_at_the_start_and_brought_back_by_salvage(
    store: MemoryStore, open_store: OpenStore, paths: StorePaths, tmp_path: Path
) -> None:
    fill(store)
    run_id = forgetting(store)
    store.close()
    with contextlib.closing(apsw.Connection(str(paths.ledger))) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        pages_of_runs = {int(str(n)) for (n,) in connection.execute("SELECT pageno - 1 FROM dbstat WHERE name = 'run'")}
    whole = paths.ledger.read_bytes()
    for page in range(0, len(whole) // PAGE_BYTES, 3 if NIGHTLY else 9):
        for file in tmp_path.glob("ledger.*"):
            file.unlink()
        paths.ledger.write_bytes(whole)
        damage(paths.ledger, page)
        store = open_store()
        assert "m7z" in found(store, "m7z")
        kept = store.remember(f"Anton keeps kettle new{page}z", channel="shop").result(WITHIN_S)
        until_found(store, f"new{page}z")
        if damaged_files(paths.ledger):
            assert "salvage" in named(store)
            with pytest.raises(StoreError, match="set aside"):
                store.undo(run_id)
            with pytest.raises(StoreError, match="set aside"):
                store.refuse_to_dream()
        store.close()
        salvage(paths.ledger)
        store = open_store()
        assert "salvage" not in named(store)
        assert store.show(kept).text.endswith(f"new{page}z")
        store.refuse_to_dream()
        if page not in {0, *pages_of_runs}:
            assert run_id in {run.run_id for run in store.runs(100)}
        store.close()


def test_a_forgotten_turn_stays_forgotten_whatever_becomes_of_the_ledger_in_use(
    store: MemoryStore, open_store: OpenStore, paths: StorePaths
) -> None:
    fill(store)
    forgetting(store)
    damage(paths.ledger, *range(pages(paths.ledger)))
    in_another_thread(lambda: store.status())
    store.runs(100)
    kept = store.remember("Anton keeps the kettle z1z", channel="shop").result(WITHIN_S)
    until_found(store, "z1z")
    assert "salvage" in named(store)
    assert len(damaged_files(paths.ledger)) == 1
    assert "q1x1z" not in found(store, "q1x1z")
    store.rebuild()
    assert "q1x1z" not in found(store, "q1x1z")
    store.close()
    again = open_store()
    assert again.show(kept).text == "Anton keeps the kettle z1z"
    assert "q1x1z" not in found(again, "q1x1z")


@pytest.mark.parametrize("how", ["deleted", "emptied"])
def test_what_is_remembered_after_the_ledger_went_away_in_use_is_there_after_a_restart(
    store: MemoryStore, open_store: OpenStore, paths: StorePaths, how: str
) -> None:
    fill(store)
    run_id = forgetting(store)
    if how == "deleted":
        for file in paths.ledger.parent.glob("ledger.db*"):
            file.unlink()
    else:
        os.truncate(paths.ledger, 0)
    kept = store.remember("Anton keeps the kettle z1z", channel="shop").result(WITHIN_S)
    store.pause()
    store.close()
    again = open_store()
    assert again.paused
    assert again.show(kept).text == "Anton keeps the kettle z1z"
    assert "q1x1z" not in found(again, "q1x1z")
    assert bool(damaged_files(paths.ledger)) == (how == "emptied")
    if how == "deleted":
        assert run_id in {run.run_id for run in again.runs()}


def test_a_ledger_that_is_gone_at_the_start_is_told_until_it_is_accepted(
    store: MemoryStore, open_store: OpenStore, paths: StorePaths
) -> None:
    kept = store.remember("Anton keeps the kettle z1z", channel="shop").result()
    until_found(store, "z1z")
    assert "ledger" not in named(store)
    store.close()
    for file in paths.ledger.parent.glob("ledger.*"):
        file.unlink()
    for _ in range(2):
        again = open_store()
        assert again.show(kept).text == "Anton keeps the kettle z1z"
        assert "before its ledger" in named(again)
        again.close()
    discard(paths.ledger)
    assert "ledger" not in named(open_store())


def test_another_ledger_is_begun_when_there_is_room_for_it(
    store: MemoryStore, open_store: OpenStore, paths: StorePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.remember("Anton keeps the kettle z1z", channel="shop").result()
    damage(paths.ledger, *range(pages(paths.ledger)))
    with monkeypatch.context() as full:
        full.setattr(ledger_module, "carry_over", refuse_for_want_of_room)
        with pytest.raises(StoreError):
            in_another_thread(store.ledger.runs)
        with pytest.raises(StoreBusy, match="full"):
            store.remember("Vera keeps the lantern z2z", channel="shop").result(WITHIN_S)
    kept = store.remember("Mia keeps the ladder z3z", channel="shop").result(WITHIN_S)
    assert len(damaged_files(paths.ledger)) == 1
    store.close()
    assert open_store().show(kept).text == "Mia keeps the ladder z3z"


def refuse_for_want_of_room(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("look", ["a dream that failed", "tidying"])
def test_damage_that_nobody_reads_is_looked_for(
    restored: Callable[[], None], open_store: OpenStore, paths: StorePaths, look: str
) -> None:
    restored()
    store = open_store()
    found(store, "m7z")
    before = os.path.realpath(paths.index)
    damage(paths.index, root_pages(paths.index)["link_of_target"])
    if look == "tidying":
        store.tidy()
    else:
        store.record_run(Run("torn", "daily", "failed", NOW))
    deadline = time.monotonic() + WITHIN_S
    while os.path.realpath(paths.index) == before:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    until_whole(store)
    assert list(store.check()) == []


def test_a_damaged_index_is_not_kept_where_there_is_no_room_for_two(
    restored: Callable[[], None], open_store: OpenStore, paths: StorePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    restored()
    damage(paths.index, 1)
    usage = shutil.disk_usage(paths.index.parent)
    little = paths.index.stat().st_size
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage._replace(free=little))
    store = open_store()
    for word in ("q1x7z", "m7z"):
        until_found(store, word)
    assert not (paths.index.parent / "index.set-aside.db").exists()


def test_the_status_says_that_writes_are_refused(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.closing(open_store()) as store:
        with monkeypatch.context() as broken:

            def fail(*args: object, **kwargs: object) -> None:
                raise apsw.IOError("fsync failed")

            broken.setattr(store.core.ledger, "commit", fail)
            with pytest.raises(StoreBusy):
                store.remember("Vera keeps a lantern", channel="shop").result()
            assert [problem for problem in store.status().problems if "was refused" in problem]
        store.remember("Vera keeps a lantern", channel="shop").result()
        assert not [problem for problem in store.status().problems if "was refused" in problem]
