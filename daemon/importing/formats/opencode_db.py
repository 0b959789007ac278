"""opencode's database, read beside the program that writes it: nothing is written, and no lock is held for long."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from errno import EIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ....store import beginning
from ..reading.items import SessionRead, Skipped
from ..reading.line_reading import guarded
from .opencode_messages import Message, head_of, session_of

NAME = re.compile(r"opencode[\w-]*\.db")
HEADER = b"SQLite format 3\0"
_TABLES = frozenset({"session", "message", "part"})
_DAY_MS = 24 * 3600 * 1000
_LONGEST_BYTES = 32 * 2**20  # of a message, or a part


def recognises(path: Path) -> bool:
    """Say whether a file is opencode's database: by its tables."""
    if beginning(path, len(HEADER)) != HEADER:
        return False
    try:
        with _open(path) as database:
            return {name for (name,) in database.rows("SELECT name FROM sqlite_schema")} >= _TABLES
    except OSError:
        return False


def read(path: Path) -> Iterator[SessionRead | Skipped]:
    """Yield every session, the oldest first; Skipped where the database cannot be read now."""
    try:
        yield from changed_since(path, 0)
    except OSError as error:
        yield Skipped(path, None, str(error.strerror))


def changed_since(path: Path, since_ms: int) -> Iterator[SessionRead | Skipped]:
    """Yield the sessions in which something changed at or after an instant of the database's own clock.

    Of their messages those come that changed since. Raises OSError where it cannot be read now.
    """
    with _open(path) as database:
        for session in _sessions(database, since_ms):
            yield from guarded(_session(database, session, since_ms, path), path)


def latest_change_ms(path: Path, now_ms: int) -> int:
    """Return the instant of the latest change, 0 for none. Raises OSError where the database cannot be read now.

    What is no number is no instant, nor is one of tomorrow: from there nothing that changes today would be read.
    """
    sql = "SELECT max(time_updated) FROM session WHERE typeof(time_updated) IN ('integer', 'real')"
    with _open(path) as database:
        found = database.rows(f"{sql} AND time_updated <= ?", now_ms + _DAY_MS)
    return int(found[0][0] or 0)


def counts(path: Path) -> tuple[int, int]:
    """Return how many sessions and messages there are. Raises OSError where the database cannot be read now."""
    with _open(path) as database:
        sql = "SELECT (SELECT count(*) FROM session WHERE parent_id IS NULL), (SELECT count(*) FROM message)"
        found = database.rows(sql)
    return int(found[0][0]), int(found[0][1])


def _open(path: Path) -> _Database:
    """Open it for reading alone.

    Without a write-ahead log nobody has it open, and it is read as the unchanging file that it is then: SQLite would
    make a log's files beside it otherwise. What a crash left in a log is seen once opencode has opened it again.
    """
    shared = all(path.with_name(path.name + suffix).exists() for suffix in ("-wal", "-shm"))
    return _Database(f"file:{quote(str(path))}?{'mode=ro' if shared else 'immutable=1'}")


class _Database:
    """A connection that is closed at the end of a block. What cannot be read now is an OSError."""

    def __init__(self, uri: str) -> None:
        import apsw

        self._errors = (apsw.Error, UnicodeDecodeError)
        try:
            self._connection = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
            self._connection.set_busy_timeout(1000)
            self._connection.execute("PRAGMA query_only = ON")
        except self._errors as error:
            raise _unreadable(error) from error

    def rows(self, sql: str, *values: Any) -> list[Any]:
        """Return the rows of a query."""
        try:
            return list(self._connection.execute(sql, values))
        except self._errors as error:
            raise _unreadable(error) from error

    def __enter__(self) -> _Database:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def _unreadable(error: Exception) -> OSError:
    return OSError(EIO, f"a database that cannot be read now: {type(error).__name__}")


def _sessions(database: _Database, since_ms: int) -> list[Sequence[Any]]:
    sql = (
        "SELECT id, directory, title, time_created FROM session"
        " WHERE parent_id IS NULL AND time_updated >= ? ORDER BY time_created, id"
    )
    return database.rows(sql, since_ms)


def _session(database: _Database, session: Sequence[Any], since_ms: int, path: Path) -> Iterator[SessionRead | Skipped]:
    given, directory, title, created = session
    head = head_of(str(given), directory, title, created, path)
    sql = (
        "SELECT id, data FROM message WHERE session_id = ? AND time_updated >= ? AND length(data) <= ?"
        " ORDER BY time_created, id"
    )
    listed = database.rows(sql, given, since_ms, _LONGEST_BYTES)
    yield from session_of(head, (_message(database, *row) for row in listed), path)


def _message(database: _Database, message_id: object, data: object) -> Message:
    sql = "SELECT id, data FROM part WHERE message_id = ? AND length(data) <= ? ORDER BY id"
    rows = database.rows(sql, message_id, _LONGEST_BYTES)
    return Message(str(message_id), _object(data), [(str(part_id), _object(held)) for part_id, held in rows])


def _object(data: object) -> dict[str, Any]:
    try:
        value = json.loads(data) if isinstance(data, str) else None
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
