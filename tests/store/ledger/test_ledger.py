from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest
from dreamd.store.engine.database import open_database
from dreamd.store.ledger import records
from dreamd.store.ledger.journal import Entry
from dreamd.store.ledger.ledger import LATER_KEPT, WAL_PAGES, Ledger, Reinforced, Usage
from dreamd.store.ledger.records import Run, Write, record_run, set_flag
from dreamd.store.ledger.salvage import damaged_files, set_aside
from dreamd.store.ledger.schema import MIGRATIONS
from dreamd.store.model import NotFound, SchemaTooNew, StoreBusy

from tests.store.disks.full_disk import HiccupingVFS

NOW = datetime(2026, 11, 21, 9, tzinfo=UTC)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger(tmp_path / "ledger.db")
    yield opened
    opened.close()


def entry(seq: int, content: bytes = b"text") -> Entry:
    return Entry(seq, "create", f"facts/{seq}.md", content, 0, None, None, None)


def test_the_journal_gives_back_what_it_took_until_it_is_done(ledger: Ledger) -> None:
    entries = [entry(1), entry(2, b""), Entry(3, "delete", "facts/a.md", b"", 0, "hash", "run-1", 4)]
    ledger.commit(entries)
    assert ledger.pending() == entries
    ledger.forget_done(2)
    assert ledger.pending() == entries[2:]
    assert ledger.last_seq() == 3


def test_a_commit_that_fails_leaves_nothing(ledger: Ledger) -> None:
    with pytest.raises(Exception, match="no such table"):
        ledger.commit([entry(1)], [Write("INSERT INTO nowhere VALUES (1)", ())])
    assert ledger.pending() == []


def test_an_entry_kept_out_by_an_edit_is_stored_but_not_replayed(ledger: Ledger) -> None:
    ledger.commit([entry(1), entry(2)])
    ledger.keep_out([entry(1)])
    ledger.forget_done(2)
    assert ledger.pending() == []
    assert ledger.counts()["conflicts"] == 1


def test_everything_survives_closing(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.commit([entry(1)], [records.move_cursor("consolidate", "s1", 7), records.set_flag("paused")])
    ledger.close()
    ledger = Ledger(tmp_path / "ledger.db")
    assert ledger.pending() == [entry(1)]
    assert ledger.cursors("consolidate") == {"s1": 7}
    assert ledger.paused
    ledger.close()


def test_runs_come_newest_first_and_can_be_told_again(ledger: Ledger) -> None:
    runs = [
        Run(f"run-{n}", "dream", "applied", NOW + timedelta(hours=n), summary={"facts": n, "words": "déjà vu"})
        for n in range(4)
    ]
    ledger.commit([], [records.record_run(run) for run in runs])
    ledger.commit([], [records.run_undone("run-1", "undone", NOW)])
    assert [run.run_id for run in ledger.runs(3)] == ["run-3", "run-2", "run-1"]
    assert ledger.run("run-2") == runs[2]
    assert ledger.run("run-1").state == "undone"
    assert ledger.run("run-1").undone_at == NOW
    with pytest.raises(NotFound):
        ledger.run("run-9")


def test_a_kind_of_run_is_found_however_many_others_there_are(ledger: Ledger) -> None:
    often = [Run(f"link-{n}", "link", "applied", NOW + timedelta(seconds=n)) for n in range(50)]
    runs = [Run(f"{kind}-1", kind, "failed", NOW - timedelta(hours=1)) for kind in ("daily", "weekly")]
    ledger.commit([], [records.record_run(run) for run in [*often, *runs]])
    assert [run.run_id for run in ledger.runs(1, kinds=["daily", "weekly"])] == ["weekly-1", "daily-1"]
    assert ledger.runs(1, kinds=["daily"], states=records.LANDED) == []
    assert {run.kind for run in ledger.runs(20, hidden=["link"])} == {"daily", "weekly"}
    assert len(ledger.runs(20, kinds=["link"])) == 20
    assert [run.run_id for run in ledger.runs_since(NOW - timedelta(days=1), ["daily"])] == ["daily-1"]
    assert ledger.runs_since(NOW, ["daily"]) == []


def test_a_kind_of_run_is_asked_for_by_an_index(ledger: Ledger) -> None:
    sql = "EXPLAIN QUERY PLAN SELECT run_id FROM run WHERE kind = ? ORDER BY started_at DESC LIMIT 1"
    assert any("run_by_kind" in row[-1] for row in ledger.ask(sql, ("daily",)))


def test_what_is_said_again_is_counted(ledger: Ledger) -> None:
    ledger.commit([], [records.reinforce("a", NOW), records.reinforce("a", NOW - timedelta(days=1))])
    assert ledger.reinforced() == {"a": Reinforced(2, NOW)}
    assert ledger.reinforced_since(NOW - timedelta(seconds=1)) == {"a"}
    assert ledger.reinforced_since(NOW) == set()


def test_what_may_be_lost_is_bounded_while_nothing_can_be_written(ledger: Ledger) -> None:
    for n in range(LATER_KEPT + 5):
        ledger.later(*records.log_usage([f"n{n}"], NOW))
    ledger.commit([])
    assert len(ledger.usage()) == LATER_KEPT
    assert "n0" not in ledger.usage()


def test_switches(ledger: Ledger) -> None:
    assert not ledger.paused
    ledger.commit([], [records.set_flag("paused"), records.set_flag("off:a"), records.set_flag("off:b")])
    assert ledger.paused
    assert ledger.channels_off == {"a", "b"}
    ledger.commit([], [records.clear_flag("paused"), records.clear_flag("off:a")])
    assert not ledger.paused
    assert ledger.channels_off == {"b"}


def test_usage_is_counted_and_its_last_time_kept(ledger: Ledger) -> None:
    later = NOW + timedelta(days=1)
    ledger.later(*records.log_usage(["a", "b"], later), *records.log_usage(["a"], NOW))
    assert ledger.has_later
    ledger.commit([])
    assert not ledger.has_later
    assert ledger.usage() == {"a": Usage(2, later), "b": Usage(1, later)}


def test_observations_are_written(ledger: Ledger) -> None:
    ledger.commit(
        [],
        [
            records.record_feedback("a", "used", NOW, "what was it"),
            records.leave_tombstone("L1:abc", "run-1", NOW, "undone"),
            records.leave_tombstone("L1:def", "run-1", NOW, "undone"),
            records.lift_tombstone("L1:def"),
        ],
    )
    assert ledger.tombstones() == {"L1:abc"}


def test_questions_may_come_from_any_thread(ledger: Ledger) -> None:
    ledger.commit([], [records.move_cursor("lint", "s", 1)])
    seen: list[dict[str, int]] = []
    threads = [threading.Thread(target=lambda: seen.append(ledger.cursors("lint"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [{"s": 1}] * 4


def test_the_wal_is_copied_when_it_is_full_and_keeps_its_size(ledger: Ledger) -> None:
    wal = ledger.path.with_name("ledger.db-wal")
    size = wal.stat().st_size
    assert size >= WAL_PAGES * 4096
    for n in range(4):
        ledger.commit([entry(n + 1, bytes(4096 * 400))])
        ledger.forget_done(n + 1)
        ledger.checkpoint()
    assert wal.stat().st_size < 2.5 * size


def test_a_copy_is_read_without_being_written(ledger: Ledger, tmp_path: Path) -> None:
    copy = Ledger(ledger.path, read_only=True)
    assert copy.runs() == []
    with pytest.raises(ValueError, match="reading"):
        copy.commit([])
    copy.close()


def test_a_newer_ledger_is_refused(tmp_path: Path) -> None:
    connection = open_database(tmp_path / "ledger.db", durable=True, migrations=MIGRATIONS)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(SchemaTooNew):
        Ledger(tmp_path / "ledger.db")


def test_its_problems_are_looked_for_on_demand(ledger: Ledger) -> None:
    assert ledger.problems() == []


def test_a_disk_that_cannot_be_read_for_a_while_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dreamd.store.ledger.ledger.QUESTION_WAITS_S", 0.0)
    path, disk = tmp_path / "ledger.db", HiccupingVFS("ledger.db")
    try:
        with contextlib.closing(Ledger(path)) as ledger:
            ledger.commit([], [set_flag("kept", "yes")])
            disk.fails = True
            with pytest.raises(StoreBusy, match="cannot be read at the moment"):
                ledger.flags()
            assert "cannot be read" in ledger.look_through()[0]
            disk.fails = False
            assert ledger.flags() == {"kept": "yes"}
            assert ledger.damage is None
            assert damaged_files(path) == []
    finally:
        disk.unregister()


def test_a_ledger_that_was_set_aside_and_is_whole_comes_back_at_a_start(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with contextlib.closing(Ledger(path)) as ledger:
        ledger.commit([], [record_run(Run("r1", "daily", "applied", NOW))])
    set_aside(path)
    Ledger(path).close()
    with contextlib.closing(Ledger(path)) as ledger:
        assert [run.run_id for run in ledger.runs()] == ["r1"]
        assert damaged_files(path) == []


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EROFS])
def test_a_disk_that_cannot_be_written_for_a_while_does_not_end_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    tries: list[Path] = []

    def preallocate(path: Path, size_bytes: int) -> None:
        tries.append(path)
        if len(tries) < 3:
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr("dreamd.store.ledger.ledger.preallocate_wal", preallocate)
    with contextlib.closing(Ledger(tmp_path / "ledger.db")) as ledger:
        ledger.commit([], [set_flag("kept", "yes")])
        assert ledger.flags() == {"kept": "yes"}
    assert len(tries) == 3


def test_a_database_that_opens_for_reading_alone_is_refused(tmp_path: Path) -> None:
    class ReadOnlyFile(apsw.VFSFile):
        def __init__(self, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
            super().__init__(base, name, flags)
            flags[1] = (flags[1] & ~apsw.SQLITE_OPEN_READWRITE) | apsw.SQLITE_OPEN_READONLY

    class ReadOnlyVFS(apsw.VFS):
        def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
            return ReadOnlyFile(name, flags)

    base = apsw.vfs_names()[0]
    open_database(tmp_path / "any.db", durable=True, migrations=MIGRATIONS).close()
    disk = ReadOnlyVFS("read-only", base)
    with pytest.raises(StoreBusy, match="cannot be written"):
        open_database(tmp_path / "any.db", durable=True, migrations=MIGRATIONS, vfs="read-only")
    disk.unregister()
