from __future__ import annotations

import threading
from pathlib import Path

import apsw
import pytest
from dreamd.store.engine.database import (
    Connections,
    Migration,
    backup,
    integrity_problems,
    open_database,
    preallocate_wal,
    schema_version,
    transaction,
)
from dreamd.store.model import Corrupt, SchemaTooNew, StoreBusy

FIRST = Migration("m001_things", "CREATE TABLE thing (name TEXT)")
SECOND = Migration("m002_sizes", "ALTER TABLE thing ADD COLUMN size INTEGER; CREATE INDEX by_size ON thing (size)")


def pragma(connection: apsw.Connection, name: str) -> object:
    return connection.execute(f"PRAGMA {name}").fetchall()[0][0]


def test_opens_in_wal_and_syncs_every_commit_only_where_that_is_asked(tmp_path: Path) -> None:
    durable = open_database(tmp_path / "a.db", durable=True)
    quick = open_database(tmp_path / "b.db", durable=False)
    assert [pragma(durable, name) for name in ("journal_mode", "synchronous", "secure_delete")] == ["wal", 2, 1]
    assert pragma(quick, "synchronous") == 1
    assert pragma(quick, "foreign_keys") == 1
    assert quick.execute("SELECT vec_version()").fetchall()
    durable.close()
    quick.close()


def test_migrations_are_applied_once_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    open_database(path, durable=True, migrations=[FIRST]).close()
    for _ in range(2):
        connection = open_database(path, durable=True, migrations=[FIRST, SECOND])
        assert schema_version(connection) == 2
        connection.execute("INSERT INTO thing VALUES ('a', 1)")
        connection.close()


def test_a_migration_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    broken = Migration("m002_broken", "CREATE TABLE other (x); CREATE TABLE other (x)")
    with pytest.raises(apsw.SQLError):
        open_database(tmp_path / "a.db", durable=True, migrations=[FIRST, broken])
    connection = open_database(tmp_path / "a.db", durable=True)
    assert schema_version(connection) == 0
    assert connection.execute("SELECT count(*) FROM sqlite_schema").fetchall() == [(0,)]
    connection.close()


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    open_database(tmp_path / "a.db", durable=True, migrations=[FIRST, SECOND]).close()
    with pytest.raises(SchemaTooNew) as refused:
        open_database(tmp_path / "a.db", durable=True, migrations=[FIRST])
    assert refused.value.hint


@pytest.mark.parametrize("content", [b"this is no database, whatever its name says" * 100, b"SQLite format 3\0" * 64])
def test_a_file_that_is_no_database_is_corrupt(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.db").write_bytes(content)
    with pytest.raises(Corrupt):
        open_database(tmp_path / "a.db", durable=True, migrations=[FIRST])


def test_damage_inside_is_found_when_it_is_looked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    connection = open_database(path, durable=False, migrations=[FIRST])
    connection.executemany("INSERT INTO thing VALUES (?)", [(f"thing {n}" * 20,) for n in range(500)])
    assert integrity_problems(path) == []
    connection.close()
    with path.open("r+b") as file:
        file.seek(3 * 4096)
        file.write(b"\xff" * 4096)
    assert integrity_problems(path)
    path.write_bytes(b"no database" * 1000)
    assert integrity_problems(path)
    path.unlink()
    assert integrity_problems(path)


def test_a_transaction_that_raises_is_rolled_back(tmp_path: Path) -> None:
    connection = open_database(tmp_path / "a.db", durable=True, migrations=[FIRST])
    with pytest.raises(apsw.SQLError), transaction(connection):
        connection.execute("INSERT INTO thing VALUES ('a'); INSERT INTO nothing VALUES (1)")
    assert connection.execute("SELECT * FROM thing").fetchall() == []
    connection.close()


def test_a_backup_of_a_database_in_use_holds_what_was_committed(tmp_path: Path) -> None:
    connection = open_database(tmp_path / "a.db", durable=True, migrations=[FIRST])
    connection.execute("INSERT INTO thing VALUES ('committed')")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO thing VALUES ('not yet')")
    (tmp_path / "b.db").write_bytes(b"an old copy")
    backup(tmp_path / "a.db", tmp_path / "b.db")
    connection.execute("ROLLBACK")
    connection.close()
    copy = open_database(tmp_path / "b.db", durable=False, read_only=True)
    assert copy.execute("SELECT * FROM thing").fetchall() == [("committed",)]
    copy.close()


def test_a_preallocated_wal_is_empty_for_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    open_database(path, durable=True, migrations=[FIRST]).close()
    preallocate_wal(path, 100_000)
    connection = open_database(path, durable=True, migrations=[FIRST])
    connection.execute("INSERT INTO thing VALUES ('a')")
    assert path.with_name("a.db-wal").stat().st_size == 100_000
    connection.close()
    connection = open_database(path, durable=True, migrations=[FIRST])
    assert connection.execute("SELECT * FROM thing").fetchall() == [("a",)]
    connection.close()


def test_every_thread_has_its_own_connection(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    open_database(path, durable=True, migrations=[FIRST]).close()
    connections = Connections(lambda: open_database(path, durable=True, read_only=True, migrations=[FIRST]))
    seen = [connections.get(), connections.get()]
    thread = threading.Thread(target=lambda: seen.append(connections.get()))
    thread.start()
    thread.join()
    assert seen[0] is seen[1]
    assert seen[0] is not seen[2]
    connections.close()
    with pytest.raises(apsw.ConnectionClosedError):
        seen[2].execute("SELECT 1")


def test_a_close_waits_for_a_statement_and_the_next_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    open_database(path, durable=True, migrations=[FIRST]).close()
    connections = Connections(lambda: open_database(path, durable=True, read_only=True, migrations=[FIRST]))
    is_counting, counted, refused = threading.Event(), list[object](), list[str]()

    def begun(*_: object) -> int:
        is_counting.set()
        return 1

    def count() -> None:
        connections.get().create_scalar_function("begun", begun, 0)
        rows = "WITH RECURSIVE n(i) AS (SELECT begun() UNION ALL SELECT i + 1 FROM n WHERE i < 1000000)"
        counted.extend(connections.get().execute(f"{rows} SELECT count(*) FROM n").fetchall())
        try:
            connections.get()
        except StoreBusy as error:
            refused.append(str(error))

    counting = threading.Thread(target=count)
    counting.start()
    assert is_counting.wait(60)
    connections.close()
    counting.join(60)
    assert counted == [(1_000_000,)]
    assert refused == ["the database is closed"]
