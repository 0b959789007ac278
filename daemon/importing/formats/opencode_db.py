"""opencode's database, read beside the program that writes it: nothing is written, and no lock is held for long."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ....store import beginning
from ..reading.items import SessionRead, Skipped
from .opencode_messages import Message, head_of, session_of

if TYPE_CHECKING:
    import apsw

NAME = re.compile(r"opencode[\w-]*\.db")
HEADER = b"SQLite format 3\0"
_TABLES = frozenset({"session", "message", "part"})
_LONGEST_BYTES = 32 * 2**20  # of a message, or a part


def recognises(path: Path) -> bool:
    """Say whether a file is opencode's database: by its tables."""
    import apsw

    if beginning(path, len(HEADER)) != HEADER:
        return False
    try:
        with _open(path) as database:
            return {name for (name,) in database.execute("SELECT name FROM sqlite_schema")} >= _TABLES
    except (apsw.Error, UnicodeDecodeError):
        return False


def read(path: Path) -> Iterator[SessionRead | Skipped]:
    """Yield every session, the oldest first."""
    yield from changed_since(path, 0)


def changed_since(path: Path, since_ms: int) -> Iterator[SessionRead | Skipped]:
    """Yield the sessions in which something changed at or after an instant of the database's own clock.

    Of their messages those come that changed since.
    """
    import apsw

    try:
        with _open(path) as database:
            for session in _sessions(database, since_ms):
                yield from _session(database, session, since_ms, path)
    except (apsw.Error, UnicodeDecodeError) as error:
        yield Skipped(path, None, f"a database that cannot be read now: {type(error).__name__}")


def latest_change_ms(path: Path) -> int:
    """Return the instant of the latest change, 0 where there is none or it cannot be read now."""
    return _number(path, "SELECT max(time_updated) FROM session")


def counts(path: Path) -> tuple[int, int]:
    """Return how many sessions and messages there are, 0 where it cannot be read now."""
    sessions = _number(path, "SELECT count(*) FROM session WHERE parent_id IS NULL")
    return sessions, _number(path, "SELECT count(*) FROM message")


def _number(path: Path, sql: str) -> int:
    import apsw

    try:
        with _open(path) as database:
            found: Any = database.execute(sql).fetchall()
    except apsw.Error:
        return 0
    return int(found[0][0] or 0)


def _open(path: Path) -> _Closing:
    """Open it for reading alone.

    Without a write-ahead log nobody has it open, and it is read as the unchanging file that it is then: SQLite would
    make a log's files beside it otherwise. What a crash left in a log is seen once opencode has opened it again.
    """
    import apsw

    shared = all(path.with_name(path.name + suffix).exists() for suffix in ("-wal", "-shm"))
    uri = f"file:{quote(str(path))}?{'mode=ro' if shared else 'immutable=1'}"
    database = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    database.set_busy_timeout(1000)
    database.execute("PRAGMA query_only = ON")
    return _Closing(database)


class _Closing:
    """A connection that is closed at the end of a block; apsw's own block is a transaction."""

    def __init__(self, database: apsw.Connection) -> None:
        self._database = database

    def __enter__(self) -> apsw.Connection:
        return self._database

    def __exit__(self, *_: object) -> None:
        self._database.close()


def _sessions(database: apsw.Connection, since_ms: int) -> list[Sequence[Any]]:
    sql = (
        "SELECT id, directory, title, time_created FROM session"
        " WHERE parent_id IS NULL AND time_updated >= ? ORDER BY time_created, id"
    )
    return list(database.execute(sql, (since_ms,)).fetchall())


def _session(
    database: apsw.Connection, session: Sequence[Any], since_ms: int, path: Path
) -> Iterator[SessionRead | Skipped]:
    given, directory, title, created = session
    head = head_of(given, directory, title, created, path)
    sql = (
        "SELECT id, data FROM message WHERE session_id = ? AND time_updated >= ? AND length(data) <= ?"
        " ORDER BY time_created, id"
    )
    listed: Any = database.execute(sql, (given, since_ms, _LONGEST_BYTES)).fetchall()
    yield from session_of(head, (_message(database, *row) for row in listed), path)


def _message(database: apsw.Connection, message_id: str, data: object) -> Message:
    sql = "SELECT id, data FROM part WHERE message_id = ? AND length(data) <= ? ORDER BY id"
    rows: Any = database.execute(sql, (message_id, _LONGEST_BYTES)).fetchall()
    return Message(message_id, _object(data), [(part_id, _object(held)) for part_id, held in rows])


def _object(data: object) -> dict[str, Any]:
    try:
        value = json.loads(data) if isinstance(data, str) else None
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
