from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import apsw
import pytest
from dreamd.store.ledger import records
from dreamd.store.ledger.journal import AppliedFile, ChangeKind, Entry, FileChange, sha256
from dreamd.store.ledger.ledger import Ledger
from dreamd.store.model import Conflict, NotFound, StoreBusy, StoreError
from dreamd.store.vault.disk import Disk
from dreamd.store.vault.vault import Vault
from dreamd.store.writer import placer, writer
from dreamd.store.writer.pending import PendingFiles
from dreamd.store.writer.writer import Plan, Planned, Writer, WriterEvents


class Store:
    """A vault, a ledger and a writer in one folder."""

    def __init__(self, folder: Path, disk: Disk | None = None, vfs: str | None = None) -> None:
        self.disk = disk or Disk()
        self.vault = Vault(folder / "vault", self.disk)
        self.vault.mark("0" * 16)
        self.ledger = Ledger(folder / "ledger.db", vfs=vfs)
        self.indexed: list[AppliedFile] = []
        self.writer = Writer(self.vault, self.ledger, WriterEvents(self.index))

    def index(self, files: Sequence[AppliedFile], up_to_seq: int) -> None:
        self.indexed.extend(files)

    def crash(self) -> None:
        """Let go of everything as a killed process does; for a writer that was not started."""
        self.ledger.close()

    def close(self) -> None:
        self.writer.close()
        self.ledger.close()

    def ledger_counts(self) -> dict[str, int]:
        ledger = Ledger(self.ledger.path, read_only=True)
        try:
            counts = ledger.counts()
        finally:
            ledger.close()
        return {name: counts[name] for name in ("journal", "conflicts")}

    def kept(self) -> dict[str, bytes]:
        return {stamp.path: self.vault.read(stamp.path) for stamp in self.vault.walk()}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path)
    yield opened
    opened.close()


def create(path: str, content: bytes) -> Plan[str]:
    def plan(files: PendingFiles) -> Planned[str]:
        if files.exists(path):
            return Planned("known")
        return Planned("new", (FileChange("create", path, content),))

    return plan


def append(path: str, content: bytes) -> Plan[int]:
    def plan(files: PendingFiles) -> Planned[int]:
        offset = files.size(path) or 0
        return Planned(offset, (FileChange("append", path, content, offset),))

    return plan


def change(kind: ChangeKind, path: str, content: bytes = b"", pre: bytes | None = None) -> Plan[None]:
    pre_sha256 = None if pre is None else sha256(pre)
    return lambda _: Planned(None, (FileChange(kind, path, content, 0, pre_sha256),))


# ---- acknowledging


class Stuck(Disk):
    """Each write of a file waits until it is let go on."""

    def __init__(self) -> None:
        self.entered, self.go_on = threading.Semaphore(0), threading.Semaphore(0)

    def write_temp(self, folder: Path, data: bytes) -> Path:
        if folder.name == "facts":
            self.entered.release()
            assert self.go_on.acquire(timeout=60)
        return super().write_temp(folder, data)


def test_a_write_is_acknowledged_by_the_ledger_before_its_file(tmp_path: Path) -> None:
    disk = Stuck()
    store = Store(tmp_path, disk)
    store.writer.start()
    store.writer.submit(create("facts/a.md", b"a")).result(10)
    assert disk.entered.acquire(timeout=60)
    assert store.kept() == {}
    assert not store.writer.barrier(0.01)
    disk.go_on.release()
    assert store.writer.barrier(60)
    assert store.kept() == {"facts/a.md": b"a"}
    store.close()


def test_a_barrier_without_runs_waits_for_promised_writes_alone(tmp_path: Path) -> None:
    disk = Stuck()
    store = Store(tmp_path, disk)
    store.writer.start()
    dreamt = FileChange("create", "facts/a.md", b"a", 0, None, "run-1", 0)
    store.writer.submit(lambda _: Planned(None, (dreamt,))).result(60)
    assert disk.entered.acquire(timeout=60)
    assert store.writer.barrier(0.01, runs=False)
    assert not store.writer.barrier(0.01)
    promised = store.writer.submit(create("facts/b.md", b"b"))
    disk.go_on.release()
    promised.result(60)
    assert disk.entered.acquire(timeout=60)
    assert not store.writer.barrier(0.01, runs=False)
    disk.go_on.release()
    assert store.writer.barrier(60, runs=False)
    assert store.kept() == {"facts/a.md": b"a", "facts/b.md": b"b"}
    store.close()


@pytest.mark.parametrize("asked", [True, False])
def test_the_files_of_a_run_wait_for_requests_and_are_written_all_the_same(tmp_path: Path, asked: bool) -> None:
    store = Store(tmp_path)
    changes = tuple(FileChange("create", f"facts/{n}.md", b"x", 0, None, "run-1", n) for n in range(60))
    store.writer = Writer(store.vault, store.ledger, WriterEvents(store.index), is_asked=lambda: asked)
    store.writer._cost_s = 0.001
    store.writer.submit(lambda _: Planned(None, changes))
    store.writer._turn()
    store.writer._barriers.append(writer._Barrier(60))
    store.writer._turn()
    assert len(store.indexed) == (5 if asked else 25)  # of a millisecond each, in a short turn or a long one
    while store.writer.lag:
        store.writer._turn()
    assert len(store.kept()) == 60
    store.crash()


def test_what_is_acknowledged_and_not_yet_in_a_file_is_in_the_ledger(tmp_path: Path) -> None:
    store = Store(tmp_path)
    future = store.writer.submit(create("facts/a.md", b"a"))
    store.writer._turn()
    assert future.result(0) == "new"
    assert store.kept() == {}
    store.crash()
    store = Store(tmp_path)
    store.writer.start()
    assert store.writer.barrier(10)
    assert store.indexed == [AppliedFile("facts/a.md", 0)]
    assert store.kept() == {"facts/a.md": b"a"}
    store.close()


def test_one_batch_is_decided_in_order_and_is_one_commit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    commits: list[int] = []
    commit = store.ledger.commit

    def counted(entries: Sequence[Entry], *others: Any, **named: Any) -> None:
        commits.append(len(entries))
        commit(entries, *others, **named)

    monkeypatch.setattr(store.ledger, "commit", counted)
    asked: list[Future[str] | Future[int]] = [
        store.writer.submit(create("facts/a.md", b"one")),
        store.writer.submit(create("facts/a.md", b"two")),
        store.writer.submit(append("sessions/s.md", b"first ")),
        store.writer.submit(append("sessions/s.md", b"second")),
    ]
    store.writer._turn()
    assert [future.result(0) for future in asked] == ["new", "known", 0, 6]
    assert commits == [3]
    store.writer.start()
    store.writer.barrier(10)
    assert store.kept() == {"facts/a.md": b"one", "sessions/s.md": b"first second"}


def test_appends_reach_the_index_with_their_offsets(store: Store) -> None:
    store.writer.start()
    for content in (b"first ", b"second ", b"third"):
        store.writer.submit(append("sessions/s.md", content)).result(10)
        assert store.writer.barrier(10)
    assert [(file.path, file.from_offset) for file in store.indexed] == [("sessions/s.md", n) for n in (0, 6, 13)]
    second, third = (file.appended for file in store.indexed[1:])
    assert second is not None
    assert third is not None
    assert second.after == third.before


def test_a_plan_that_raises_fails_alone_and_leaves_nothing(store: Store) -> None:
    def fail(files: PendingFiles) -> Planned[None]:
        raise ZeroDivisionError

    def half(files: PendingFiles) -> Planned[None]:
        return Planned(None, (FileChange("create", "facts/b.md", b"b"), FileChange("append", "facts/c.md", b"c", 99)))

    good = store.writer.submit(create("facts/a.md", b"a"))
    broken = store.writer.submit(fail)
    conflicting = store.writer.submit(half)
    after = store.writer.submit(create("facts/b.md", b"another b"))
    store.writer.start()
    assert good.result(10) == "new"
    assert isinstance(broken.exception(10), ZeroDivisionError)
    assert isinstance(conflicting.exception(10), Conflict)
    assert after.result(10) == "new"
    store.writer.barrier(10)
    assert store.kept() == {"facts/a.md": b"a", "facts/b.md": b"another b"}


def test_plans_see_what_earlier_ones_will_have_done(store: Store) -> None:
    seen: list[object] = []

    def look(files: PendingFiles) -> Planned[None]:
        seen.append((files.exists("facts/a.md"), files.size("sessions/s.md"), files.read("sessions/s.md")))
        with pytest.raises(NotFound):
            files.read("facts/gone.md")
        return Planned(None)

    store.writer.start()
    store.writer.submit(append("sessions/s.md", b"on the disk ")).result(10)
    store.writer.submit(create("facts/gone.md", b"gone")).result(10)
    store.writer.barrier(10)
    store.writer.submit(append("sessions/s.md", b"and more"))
    store.writer.submit(change("delete", "facts/gone.md", pre=b"gone"))
    store.writer.submit(look)
    store.writer.submit(look).result(10)
    assert seen == [(False, 20, b"on the disk and more")] * 2


def test_a_cancelled_write_is_not_done(store: Store) -> None:
    future = store.writer.submit(create("facts/a.md", b"a"))
    assert future.cancel()
    store.writer.start()
    store.writer.submit(create("facts/b.md", b"b")).result(10)
    store.writer.barrier(10)
    assert store.kept() == {"facts/b.md": b"b"}


def test_many_threads_at_once(store: Store) -> None:
    store.writer.start()

    def work(number: int) -> None:
        for n in range(30):
            assert store.writer.submit(create(f"facts/{number}-{n}.md", b"%d %d" % (number, n))).result(30) == "new"
            store.writer.submit(append("sessions/all.md", b"x")).result(30)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.writer.barrier(30)
    kept = store.kept()
    assert kept.pop("sessions/all.md") == b"x" * 240
    assert kept == {f"facts/{number}-{n}.md": b"%d %d" % (number, n) for number in range(8) for n in range(30)}


def test_a_full_queue_says_so(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MAX_QUEUE", 3)
    for n in range(3):
        store.writer.submit(create(f"facts/{n}.md", b""))
    with pytest.raises(StoreBusy):
        store.writer.submit(create("facts/4.md", b""))
    store.writer.start()
    store.writer.barrier(10)
    store.writer.submit(create("facts/4.md", b"")).result(10)


def test_files_wait_while_acknowledgements_do_but_not_beyond_the_bound(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MAX_LAG", 20)
    lags = []
    for n in range(60):
        store.writer.submit(create(f"facts/{n}.md", b""))
        store.writer._turn()
        lags.append(store.writer.lag)
    assert lags[:19] == list(range(1, 20))
    assert max(lags) < 20


def test_close_finishes_what_was_submitted(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.writer.start()
    futures = [store.writer.submit(create(f"facts/{n}.md", b"%d" % n)) for n in range(500)]
    store.writer.close()
    assert {future.result(0) for future in futures} == {"new"}
    assert len(store.kept()) == 500
    assert store.ledger.counts()["journal"] == 0
    with pytest.raises(StoreBusy):
        store.writer.submit(create("facts/late.md", b""))
    store.ledger.close()


def test_rows_that_may_be_lost_are_written_soon(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placer, "DUE_AFTER_S", 0.01)
    flushed = threading.Event()
    forget_done = store.ledger.forget_done

    def watched(up_to_seq: int, held: Collection[int]) -> None:
        forget_done(up_to_seq, held)
        if not store.ledger.has_later:
            flushed.set()

    monkeypatch.setattr(store.ledger, "forget_done", watched)
    store.writer.start()
    flushed.clear()
    store.writer.later(records.set_flag("seen"))
    assert flushed.wait(10)
    assert store.ledger.flags() == {"seen": "1"}


class Slow(Disk):
    """A disk whose syncs of memories take until they are let go."""

    def __init__(self) -> None:
        self.entered, self.leave = threading.Event(), threading.Event()

    def fsync(self, path: Path) -> None:
        if path.parent.name == "facts":
            self.entered.set()
            self.leave.wait(10)
        super().fsync(path)


def test_acknowledgements_do_not_wait_for_a_slow_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placer, "DUE_AFTER_S", 0.0)
    disk = Slow()
    store = Store(tmp_path, disk)
    store.writer.start()
    store.writer.submit(create("facts/a.md", b"a")).result(10)
    assert disk.entered.wait(10)
    store.writer.submit(create("facts/b.md", b"b")).result(10)
    assert store.writer.barrier(10)
    assert store.ledger.counts()["journal"] == 2
    disk.leave.set()
    store.writer.close()
    assert store.ledger.counts()["journal"] == 0
    store.ledger.close()


# ---- a person's files


def test_a_file_that_a_person_made_first_is_kept_and_what_was_acknowledged_stays_in_the_ledger(store: Store) -> None:
    store.writer.submit(create("facts/a.md", b"ours"))
    store.writer._turn()
    (store.vault.root / "facts").mkdir()
    (store.vault.root / "facts/a.md").write_bytes(b"a person's")
    store.writer.start()
    assert store.writer.barrier(10)
    assert store.kept() == {"facts/a.md": b"a person's"}
    assert store.ledger.counts()["conflicts"] == 1


def test_an_append_goes_behind_what_a_person_wrote(store: Store) -> None:
    path = store.vault.root / "sessions/s.md"
    store.writer.submit(append("sessions/s.md", b"first\n"))
    store.writer._turn()
    store.writer._turn()
    path.write_bytes(b"edited, and longer than before")
    store.writer.submit(lambda _: Planned(None, (FileChange("append", "sessions/s.md", b"second\n", 30),)))
    store.writer._turn()
    path.write_bytes(b"edited again")
    store.writer.start()
    assert store.writer.barrier(10)
    assert path.read_bytes().startswith(b"edited again\n")
    assert path.read_bytes().endswith(b"second\n")


@pytest.mark.parametrize("kind", ["replace", "delete"])
def test_a_guarded_change_is_kept_out_by_an_edit(store: Store, kind: ChangeKind) -> None:
    store.writer.start()
    store.writer.submit(create("facts/a.md", b"planned against")).result(10)
    store.writer.barrier(10)
    (store.vault.root / "facts/a.md").write_bytes(b"edited")
    store.writer.submit(change(kind, "facts/a.md", b"new", pre=b"planned against")).result(10)
    store.writer.barrier(10)
    assert store.kept() == {"facts/a.md": b"edited"}
    assert store.ledger.counts()["conflicts"] == 1


class Editor(Disk):
    """Somebody saves a file at the very moment at which it is exchanged or moved."""

    def __init__(self, target: Path, saves: Iterable[bytes]) -> None:
        self.target = target
        self.saves = iter(saves)

    def _save(self) -> None:
        for content in self.saves:
            super().write_temp_then_rename(self.target, content)
            return

    def exchange(self, a: Path, b: Path) -> bool:
        self._save()
        return super().exchange(a, b)

    def rename(self, source: Path, target: Path) -> None:
        if source == self.target:
            self._save()
        super().rename(source, target)


@pytest.mark.parametrize("kind", ["replace", "delete"])
@pytest.mark.parametrize("saves", [[b"saved"], [b"saved", b"saved again"]])
def test_a_save_between_the_look_and_the_exchange_is_kept(tmp_path: Path, kind: ChangeKind, saves: list[bytes]) -> None:
    store = Store(tmp_path)
    store.writer.start()
    store.writer.submit(create("facts/a.md", b"planned against")).result(10)
    store.writer.close()
    store.ledger.close()
    if kind == "delete":
        saves = saves[:1]
    store = Store(tmp_path, Editor(tmp_path / "vault/facts/a.md", saves))
    store.writer.start()
    store.writer.submit(change(kind, "facts/a.md", b"new", pre=b"planned against")).result(10)
    store.writer.barrier(10)
    assert store.kept() == {"facts/a.md": saves[-1]}
    assert list(store.vault.root.rglob(".dreamd-*")) == []
    assert store.ledger.counts()["conflicts"] == 1
    store.close()


def test_a_folder_in_the_place_of_a_file_is_kept(store: Store) -> None:
    store.writer.submit(create("facts/a.md", b"ours"))
    store.writer._turn()
    (store.vault.root / "facts/a.md").mkdir(parents=True)
    store.writer.start()
    assert store.writer.barrier(10)
    assert (store.vault.root / "facts/a.md").is_dir()
    assert store.ledger.counts()["conflicts"] == 1


# ---- replay


@pytest.mark.parametrize(
    ("left", "wanted"),
    [
        (None, b"first second"),
        (b"", b"first second"),
        (b"first se", b"first second"),
        (b"first \0\0\0\0\0\0", b"first second"),
        (b"\0" * 12, b"first second"),
        (b"first second", b"first second"),
        (b"first second and a person's third", b"first second and a person's third"),
        (b"a person's own", b"a person's own\nsecond"),
    ],
)
def test_replay_mends_what_is_torn_and_keeps_what_is_edited(tmp_path: Path, left: bytes | None, wanted: bytes) -> None:
    store = Store(tmp_path)
    store.writer.submit(create("sessions/s.md", b"first "))
    store.writer.submit(append("sessions/s.md", b"second"))
    store.writer._turn()
    store.crash()
    if left is not None:
        (tmp_path / "vault/sessions").mkdir()
        (tmp_path / "vault/sessions/s.md").write_bytes(left)
    for _ in range(2):
        store = Store(tmp_path)
        store.writer.start()
        assert store.writer.barrier(10)
        assert store.kept() == {"sessions/s.md": wanted}
        store.close()
        assert store.ledger_counts()["journal"] == 0


class Recording(Disk):
    """Notes the order of what matters."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def fsync(self, path: Path) -> None:
        self.done.append(f"sync {path.suffix}")
        super().fsync(path)

    def exchange(self, a: Path, b: Path) -> bool:
        self.done.append("exchange")
        return super().exchange(a, b)


def test_a_torn_session_is_not_exchanged_for_one_that_is_not_synced(tmp_path: Path) -> None:
    """Its beginning is in no journal any more: an unsynced copy of it may not take its place."""
    store = Store(tmp_path)
    store.writer.start()
    store.writer.submit(append("sessions/s.md", b"long durable ")).result(10)
    store.close()
    store = Store(tmp_path)
    store.writer.submit(append("sessions/s.md", b"turn"))
    store.writer._turn()
    store.crash()
    (tmp_path / "vault/sessions/s.md").write_bytes(b"long durable \0\0\0")
    disk = Recording()
    store = Store(tmp_path, disk)
    store.writer.replay()
    assert disk.done == ["sync .tmp", "exchange", "sync .md"]
    store.writer.start()
    assert store.kept() == {"sessions/s.md": b"long durable turn"}
    store.close()


# ---- sick disks


class Sick(Disk):
    """Fails so many times in the named operation."""

    def __init__(self, operation: str, times: int) -> None:
        self.operation = operation
        self.times = times

    def _perhaps(self, operation: str) -> None:
        if operation == self.operation and self.times:
            self.times -= 1
            raise OSError(errno.EIO, "sick")

    def fsync(self, path: Path) -> None:
        if path.suffix == ".md":
            self._perhaps("fsync")
        super().fsync(path)

    def write_temp(self, folder: Path, data: bytes) -> Path:
        if folder.name == "facts":
            self._perhaps("write")
        return super().write_temp(folder, data)


def inode(store: Store, path: str) -> int:
    stamp = store.vault.stamp(path)
    assert stamp is not None
    return stamp.inode


def test_after_a_failed_sync_the_file_is_written_anew(tmp_path: Path) -> None:
    store = Store(tmp_path, Sick("fsync", 1))
    store.writer.start()
    store.writer.submit(create("facts/a.md", b"a")).result(10)
    store.writer.barrier(10)
    before = inode(store, "facts/a.md")
    store.writer.close()
    assert store.writer.trouble is None
    assert inode(store, "facts/a.md") != before
    assert store.kept() == {"facts/a.md": b"a"}
    assert store.ledger.counts()["journal"] == 0
    store.ledger.close()


@pytest.mark.parametrize("operation", ["fsync", "write"])
def test_a_disk_that_fails_for_a_while_is_written_again_by_itself(
    tmp_path: Path, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placer, "DUE_AFTER_S", 0.0)
    monkeypatch.setattr(writer, "FIRST_RETRY_S", 0.01)
    store = Store(tmp_path, disk := Sick(operation, 10_000))
    store.writer.start()
    store.writer.submit(create("facts/a.md", b"a")).result(10)
    until(lambda: store.writer.trouble is not None)
    assert store.writer.trouble is not None
    assert store.writer.trouble.hint
    store.writer.submit(create("facts/b.md", b"b")).result(10)  # acknowledged, and kept in the ledger
    assert not store.writer.barrier(10) or operation == "fsync"
    disk.times = 0
    until(lambda: store.writer.trouble is None and store.ledger.counts()["journal"] == 0)
    assert store.writer.barrier(10)
    assert store.kept() == {"facts/a.md": b"a", "facts/b.md": b"b"}
    store.close()


def test_after_a_failed_sync_no_file_that_was_written_out_of_its_turn_is_taken_for_a_person_s(tmp_path: Path) -> None:
    store = Store(tmp_path, disk := Sick("fsync", 0))
    store.writer.submit(create("facts/a.md", b"a"))
    store.writer.submit(create("sessions/s.md", b"first "))
    store.writer.submit(create("facts/b.md", b"b"))
    store.writer.submit(append("sessions/s.md", b"second "))
    store.writer._turn()
    store.writer._tried_to = 4  # as after a turn that failed: a file's entries are placed together
    for _ in range(2):
        store.writer._cost_s = 1.0  # one entry, with those of the same file, a turn
        store.writer._turn()
    assert store.vault.read("sessions/s.md") == b"first second "
    assert store.writer.visible == 2
    disk.times = 1
    store.writer._begin_checkpoint()
    until(lambda: store.writer._checkpoint.must_end)
    store.writer._end_checkpoint()
    assert store.ledger.counts()["conflicts"] == 0
    store.crash()
    store = Store(tmp_path)
    store.writer.start()
    store.close()
    assert store.kept() == {"facts/a.md": b"a", "facts/b.md": b"b", "sessions/s.md": b"first second "}
    assert store.ledger_counts() == {"journal": 0, "conflicts": 0}


@pytest.mark.parametrize("operation", ["fsync", "write"])
def test_what_a_failing_disk_never_took_is_placed_by_the_next_start(tmp_path: Path, operation: str) -> None:
    store = Store(tmp_path, Sick(operation, 10_000))
    store.writer.start()
    store.writer.submit(create("facts/a.md", b"a")).result(10)
    store.close()
    store = Store(tmp_path)
    store.writer.start()
    assert store.writer.barrier(10)
    store.close()
    assert store.kept() == {"facts/a.md": b"a"}
    assert store.ledger_counts() == {"journal": 0, "conflicts": 0}


def test_a_folder_that_may_not_be_written_holds_back_its_own_files_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "HELD_RETRY_S", 0.01)
    store = Store(tmp_path, disk := Forbidden())
    store.writer.start()
    store.writer.submit(create("facts/a.md", b"a")).result(10)
    store.writer.submit(create("scenarios/b.md", b"b")).result(10)
    assert store.writer.barrier(10)
    assert store.kept() == {"scenarios/b.md": b"b"}
    assert store.writer.held_paths == ("facts/a.md",)
    disk.forbids = False
    until(lambda: not store.writer.lag)
    assert store.kept() == {"facts/a.md": b"a", "scenarios/b.md": b"b"}
    store.close()


class Forbidden(Disk):
    """Lets nobody write into one folder."""

    forbids = True

    def write_temp(self, folder: Path, data: bytes) -> Path:
        if self.forbids and folder.name == "facts":
            raise PermissionError(errno.EACCES, "not yours")
        return super().write_temp(folder, data)


def until(holds: Callable[[], bool], timeout_s: float = 60.0) -> None:
    """Wait for what a thread brings about."""
    give_up_at = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < give_up_at
        time.sleep(0.005)


class SickVFS(apsw.VFS):
    """Lets the next so many syncs, or writes, of the ledger fail."""

    def __init__(self, name: str) -> None:
        self.called = name
        self.failing: dict[str, int] = {}
        super().__init__(name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _SickFile(self, name, flags)

    def perhaps(self, what: str, error: type[apsw.Error]) -> None:
        if self.failing.get(what):
            self.failing[what] -= 1
            raise error(what)


class _SickFile(apsw.VFSFile):
    def __init__(self, vfs: SickVFS, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._vfs = vfs
        super().__init__("", name, flags)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._vfs.perhaps("sync", apsw.IOError)
        super().xSync(flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._vfs.perhaps("write", apsw.FullError)
        super().xWrite(data, offset)


def test_a_ledger_whose_sync_fails_once_is_opened_anew(tmp_path: Path) -> None:
    vfs = SickVFS("sick-once")
    store = Store(tmp_path, vfs=vfs.called)
    store.writer.start()
    vfs.failing["sync"] = 1
    assert store.writer.submit(create("facts/a.md", b"a")).result(10) == "new"
    store.close()
    assert store.kept() == {"facts/a.md": b"a"}


def test_a_ledger_that_cannot_be_synced_acknowledges_nothing_until_it_can(tmp_path: Path) -> None:
    vfs = SickVFS("sick-for-ever")
    store = Store(tmp_path, vfs=vfs.called)
    store.writer.start()
    vfs.failing["sync"] = 1000
    for path in ("facts/a.md", "facts/b.md"):
        with pytest.raises(StoreBusy, match="disk"):
            store.writer.submit(create(path, b"x")).result(10)
    vfs.failing.clear()
    assert store.writer.submit(create("facts/c.md", b"c")).result(10) == "new"
    assert store.writer.barrier(10)
    assert store.kept() == {"facts/c.md": b"c"}
    store.close()


def test_a_full_disk_refuses_and_works_again_when_there_is_room(tmp_path: Path) -> None:
    vfs = SickVFS("full")
    store = Store(tmp_path, vfs=vfs.called)
    store.writer.start()
    vfs.failing["write"] = 1
    with pytest.raises(StoreError, match="full"):
        store.writer.submit(create("facts/a.md", b"a")).result(10)
    assert store.writer.submit(create("facts/a.md", b"a again")).result(10) == "new"
    store.close()
    assert store.kept() == {"facts/a.md": b"a again"}
