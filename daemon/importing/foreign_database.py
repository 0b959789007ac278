"""Another program's SQLite database, read beside the program: nothing is written, and no lock is held for long."""

from __future__ import annotations

import json
from errno import EIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ...store import beginning

HEADER = b"SQLite format 3\0"
# Of a row's content.
LONGEST_BYTES = 32 * 2**20
DAY_MS = 24 * 3600 * 1000

_WAL_AT, _WAL = 19, 2


class ForeignDatabase:
    """A connection that is closed at the end of a block. Its errors are OSErrors: it cannot be read now.

    Where a write-ahead log is used, it is read too if its files are there; if not, no program has the database open,
    and it is read as an immutable file: SQLite would otherwise make these files beside it. The rest of a log after a
    crash is read once its program has opened the database again.
    """

    def __init__(self, path: Path) -> None:
        import apsw

        self._errors = (apsw.Error, UnicodeDecodeError)
        has_log = all(path.with_name(path.name + suffix).exists() for suffix in ("-wal", "-shm"))
        uses_log = beginning(path, _WAL_AT + 1)[_WAL_AT:] == bytes([_WAL])
        how = "immutable=1" if uses_log and not has_log else "mode=ro"
        try:
            uri = f"file:{quote(str(path))}?{how}"
            self._connection = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
            self._connection.set_busy_timeout(1000)
            self._connection.execute("PRAGMA query_only = ON")
        except self._errors as error:
            raise _unreadable(error) from error

    def rows(self, sql: str, *values: Any) -> list[Any]:
        """Return all rows of a query at once, so that no lock outlasts it."""
        try:
            return list(self._connection.execute(sql, values))
        except self._errors as error:
            raise _unreadable(error) from error

    def columns(self, table: str) -> frozenset[str]:
        """Return the names of a table's columns, none for a table that is not there."""
        return frozenset(name for (name,) in self.rows("SELECT name FROM pragma_table_info(?)", table))

    def __enter__(self) -> ForeignDatabase:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def has_tables(path: Path, tables: frozenset[str]) -> bool:
    """Return True if a file is a database that has these tables. Raises OSError where it cannot be read now."""
    if beginning(path, len(HEADER)) != HEADER:
        return False
    with ForeignDatabase(path) as database:
        return {name for (name,) in database.rows("SELECT name FROM sqlite_schema")} >= tables


def json_object(data: object) -> dict[str, Any]:
    """Return the JSON object of a column; an empty one for another value."""
    try:
        value = json.loads(data) if isinstance(data, str | bytes) else None
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _unreadable(error: Exception) -> OSError:
    return OSError(EIO, f"a database that cannot be read now: {type(error).__name__}")
