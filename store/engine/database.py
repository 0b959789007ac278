"""Opening SQLite the one way we open it: WAL, one connection a thread, numbered append-only migrations, deadlines."""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import os
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import apsw
import sqlite_vec

from ..model import Corrupt, SchemaTooNew, StoreBusy

BUSY_TIMEOUT_MS = 5000

DAMAGE: Final = (apsw.CorruptError, apsw.NotADBError, apsw.CantOpenError, apsw.IOError, UnicodeDecodeError)
"""The exceptions by which SQLite reports damage; text that is not UTF-8 lay in a page without structure."""

_VEC0_FAILED: Final = re.compile(r"Could not |Internal sqlite-vec error|vec0|SQL logic error")
"""Messages of sqlite-vec, which reports damage of its tables, or a deadline that ended its reading, as a wrong
statement."""

MAY_PASS: Final = (apsw.CantOpenError, apsw.IOError)
"""Errors that may come from the disk or the number of open files, and not from the content of the file."""

FALSE_ALARMS: Final = 5
"""The signs of damage that are put down to the disk while a check finds the file whole."""

LOOK_AGAIN_S: Final = 0.1
"""The time between two tries to read a database that cannot be read at the moment."""

CLOSES_WITHIN_S: Final = 10.0
"""The wait of a close for a statement that another thread is in."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of a schema. Steps are only ever appended: the database's user_version counts those it has seen."""

    name: str
    sql: str


def open_database(
    path: Path,
    *,
    durable: bool,
    read_only: bool = False,
    migrations: Sequence[Migration] = (),
    vfs: str | None = None,
) -> apsw.Connection:
    """Open, configure and migrate a database; `durable` makes every commit reach the disk before it returns.

    Raises SchemaTooNew, Corrupt, or StoreBusy when another process holds it for longer than five seconds, or its disk
    is read-only.
    """
    flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    with translated(path):
        connection = apsw.Connection(str(path), flags=flags, vfs=vfs)
        try:
            _configure(connection, durable=durable, read_only=read_only)
            _migrate(connection, path, migrations, read_only=read_only)
        except BaseException:
            connection.close()
            raise
    return connection


def _configure(connection: apsw.Connection, *, durable: bool, read_only: bool) -> None:
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    connection.enable_load_extension(False)
    connection.execute("PRAGMA foreign_keys = ON")
    if read_only:
        return
    if connection.readonly("main"):  # SQLite opens it so on a read-only disk, and says nothing
        name = Path(connection.filename).name
        raise StoreBusy(f"{name} cannot be written", hint="It is tried again; if it stays so, look at the disk.")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
    connection.execute("PRAGMA secure_delete = ON")
    if sys.platform == "darwin" and durable:  # there a plain fsync leaves the data in the drive's own cache
        connection.execute("PRAGMA fullfsync = ON")
        connection.execute("PRAGMA checkpoint_fullfsync = ON")


def _migrate(connection: apsw.Connection, path: Path, migrations: Sequence[Migration], *, read_only: bool) -> None:
    seen = schema_version(connection)
    if seen > len(migrations) and migrations:
        raise SchemaTooNew(
            f"{path.name} was written by a newer dreamd (schema {seen}, this one knows {len(migrations)})",
            hint="Update dreamd, or restore a backup of the file that this version wrote.",
        )
    if read_only or seen == len(migrations):
        return
    with transaction(connection):
        # Somebody else may have migrated while we waited for the lock.
        for number, migration in enumerate(migrations[schema_version(connection) :], schema_version(connection) + 1):
            connection.execute(migration.sql)
            connection.execute(f"PRAGMA user_version = {number}")


def schema_version(connection: apsw.Connection) -> int:
    """Return the number of migrations applied to the database."""
    rows: list[Any] = connection.execute("PRAGMA user_version").fetchall()
    return int(rows[0][0])


@contextlib.contextmanager
def transaction(connection: apsw.Connection) -> Iterator[None]:
    """BEGIN IMMEDIATE, then COMMIT, or ROLLBACK when the block (or the commit) raises."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn SQLite's errors of a whole file into this room's: damage is Corrupt, a lock that stays is StoreBusy."""
    try:
        yield
    except (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError) as error:
        reason = "a text is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise Corrupt(
            f"{path.name} is damaged: {reason}", hint="Run `dreamctl check` to see what can be mended."
        ) from error
    except (apsw.BusyError, apsw.LockedError) as error:
        raise StoreBusy(f"{path.name} is held by another process", hint="Stop the other dreamd first.") from error


def integrity_problems(path: Path, vfs: str | None = None) -> list[str]:
    """Return the problems that `PRAGMA quick_check` finds in a database; reads the whole file."""
    if vfs is None and not path.exists():
        return ["the file is not there"]
    try:
        return quick_check(path, vfs)
    except apsw.Error as error:
        return [str(error)]


def lasting_problems(path: Path, vfs: str | None = None) -> list[str]:
    """Return the problems of two checks, between which every byte of the file could be read.

    Raises StoreBusy where it cannot be read at the moment, as from a disk that hiccups: that is no damage.
    """
    found: list[str] = []
    for _ in range(2):
        try:
            found = quick_check(path, vfs)
        except MAY_PASS as error:
            raise unreadable(path) from error
        except apsw.Error as error:
            found = [str(error)]
        if not found:
            return []
        if vfs is None:
            _read_through(path)
    return found


def _read_through(path: Path) -> None:
    try:
        for file in (path, path.with_name(f"{path.name}-wal")):
            with contextlib.suppress(FileNotFoundError), file.open("rb", buffering=0) as source:
                while source.read(2**20):
                    pass
    except OSError as error:
        raise unreadable(path) from error


def tried_again(work: Callable[[], T], may_pass: Callable[[Exception], bool], patience_s: float) -> T:
    """Return the result of `work`, tried again while its error may pass, for `patience_s`.

    Raises the last error.
    """
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return work()
        except Exception as error:
            if not may_pass(error) or time.monotonic() >= deadline:
                raise
        time.sleep(LOOK_AGAIN_S)


def unreadable(path: Path) -> StoreBusy:
    """Return the error for a file that cannot be read at the moment."""
    hint = "It is tried again; if it stays so, look at the disk. Nothing is lost."
    return StoreBusy(f"{path.name} cannot be read at the moment", hint=hint)


def quick_check(path: Path, vfs: str | None = None) -> list[str]:
    """Return the complaints of SQLite's own check. Raises apsw.Error where it cannot get that far.

    Looks through a connection of its own: on one that has been in use, FTS5 checks the segments that it remembers
    against those that are there, and takes a merge by another connection for damage.
    """
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY, vfs=vfs)
    try:
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        return [str(row[0]) for row in connection.execute("PRAGMA quick_check") if row[0] != "ok"]
    finally:
        connection.close(True)


def backup(source_path: Path, target_path: Path) -> None:
    """Copy a consistent snapshot of a live database in one step (a stepped backup under a writer never ends).

    The target is replaced; it is a copy to work on, so it is not synced.
    """
    for suffix in ("", "-wal", "-shm"):
        target_path.with_name(target_path.name + suffix).unlink(missing_ok=True)
    with translated(source_path), contextlib.ExitStack() as stack:
        source = apsw.Connection(str(source_path), flags=apsw.SQLITE_OPEN_READONLY)
        stack.callback(source.close)
        source.set_busy_timeout(BUSY_TIMEOUT_MS)
        target = apsw.Connection(str(target_path))
        stack.callback(target.close)
        target.execute("PRAGMA synchronous = OFF")
        with target.backup("main", source, "main") as copying:
            while not copying.done:
                copying.step(-1)


def empty_wal(connection: apsw.Connection) -> None:
    """Copy the -wal file into the database and cut it to nothing. Raises StoreBusy while somebody reads from it."""
    try:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except (apsw.BusyError, apsw.LockedError) as error:
        raise StoreBusy("a database is being read", hint="Try again in a moment.") from error


def preallocate_wal(path: Path, size_bytes: int) -> None:
    """Give the -wal file of a database, not empty and not open, its blocks now, as zeros, which mean "no frames".

    An fsync that has to grow a file costs about twice one that overwrites (measured on ext4: 600 against 315 µs).
    """
    wal = path.with_name(path.name + "-wal")
    descriptor = os.open(wal, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        held = os.fstat(descriptor).st_size
        if held < size_bytes:
            os.pwrite(descriptor, bytes(size_bytes - held), held)
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _watched(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def watched(self: _WatchedCursor, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except DAMAGE as error:
            raise self.on_damage(error) from error
        except apsw.SQLError as error:
            if not _VEC0_FAILED.match(str(error)):
                raise
            if is_over():
                raise apsw.InterruptError(str(error)) from error
            raise self.on_damage(error) from error

    return watched


class _WatchedCursor(apsw.Cursor):
    """Hands every sign of damage to `on_damage`, and raises the error that it returns."""

    on_damage: Callable[[Exception], Exception]

    execute = _watched(apsw.Cursor.execute)
    executemany = _watched(apsw.Cursor.executemany)
    fetchone = _watched(apsw.Cursor.fetchone)
    fetchall = _watched(apsw.Cursor.fetchall)
    __next__ = _watched(apsw.Cursor.__next__)

    def __iter__(self) -> Any:
        """Yield the rows, ten times as fast as one call of Python a row."""
        try:
            yield from iter(functools.partial(apsw.Cursor.__next__, self), None)
        except DAMAGE as error:
            raise self.on_damage(error) from error


def watch(connection: apsw.Connection, on_damage: Callable[[Exception], Exception]) -> None:
    """Pass every sign of damage that a statement of this connection meets to `on_damage`, and raise its result.

    Callers need not handle damage then: none is overlooked, in whichever thread it shows.
    """

    def cursor(connection: apsw.Connection) -> _WatchedCursor:
        watched = _WatchedCursor(connection)
        watched.on_damage = on_damage
        return watched

    connection.cursor_factory = cursor


class Connections:
    """One connection a thread, opened when the thread first asks; its statements obey the thread's deadline."""

    def __init__(self, opening: Callable[[], apsw.Connection]) -> None:
        self._opening = opening
        self._mine = threading.local()
        self._all: list[apsw.Connection] = []
        self._lock = threading.Lock()
        self._closed = False

    def get(self) -> apsw.Connection:
        """Return this thread's connection. Raises StoreBusy once they are closed."""
        connection: apsw.Connection | None = getattr(self._mine, "connection", None)
        if connection is None:
            connection = self._mine.connection = obey(self._opening())
            with self._lock:
                self._all.append(connection)
        if self._closed:
            connection.close()
            raise StoreBusy("the database is closed")
        return connection

    def close(self) -> None:
        """Close every thread's connection, after the statement that it may be in; its next one raises StoreBusy."""
        with self._lock:
            self._closed = True
            connections, self._all = self._all, []
        for connection in connections:
            tried_again(connection.close, _is_in_a_statement, CLOSES_WITHIN_S)


def _is_in_a_statement(error: Exception) -> bool:
    return isinstance(error, apsw.ThreadingViolationError)


PROBE_BYTES: Final = 2**18
"""More than SQLite writes to open a database: its shared memory, and a page or two."""

_PASSING: Final = frozenset({errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS})
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 (a file system in memory, where there is one)


def is_full(error: BaseException) -> bool:
    """Tell whether a write failed for want of room."""
    return isinstance(error, apsw.FullError) or (isinstance(error, OSError) and error.errno in _NO_ROOM)


def may_pass(error: BaseException | None) -> bool:
    """Tell whether an error of a file lies in its disk (it cannot be read, is full, or may not be written now)."""
    return isinstance(error, OSError) and error.errno in _PASSING


def can_be_written(folder: Path) -> bool:
    """Tell whether the folder's disk takes a little more, by trying; nothing is left behind."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".dreamd-", suffix=".tmp") as probe:
            probe.write(bytes(PROBE_BYTES))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError:
        return False
    return True


def copy_to_memory(path: Path, beside: Sequence[str] = ()) -> Path:
    """Copy a database with its write-ahead log to where it can be opened, and return the copy's path.

    `beside`: the endings of the names of its other files, copied where they are there.

    It goes with this process. Raises StoreBusy where there is nothing to copy, or no room for it.
    """
    base = _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="dreamd-", dir=base))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    real = path.resolve()
    try:
        shutil.copyfile(real, folder / path.name)
        for suffix in ("-wal", *beside):
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(real.with_name(real.name + suffix), folder / f"{path.name}{suffix}")
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise StoreBusy(
            f"the disk of {path} cannot be written, and {path.name} cannot be copied ({error.strerror})",
            hint="Make room, or make it writable, and start dreamd again.",
        ) from error
    return folder / path.name


# ---- deadlines, for the statements that a thread gives to SQLite, and for its wait to work alone

STEPS = 10_000
"""Steps of SQLite's virtual machine between two looks at the clock: about a millisecond, and no cost that shows."""

_mine = threading.local()


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Interrupt this thread's reads that take longer, or longer than a deadline around this one. Raises StoreBusy."""
    outer: float = getattr(_mine, "until_s", float("inf"))
    _mine.until_s = min(outer, time.monotonic() + seconds)
    try:
        yield
    except apsw.InterruptError as error:
        raise StoreBusy("the question takes too long to answer", hint="Ask for less, or try again later.") from error
    finally:
        _mine.until_s = outer


@contextlib.contextmanager
def lifted() -> Iterator[None]:
    """Let this thread take its time: for work that every later question needs and that is lost when it breaks off."""
    outer: float = getattr(_mine, "until_s", float("inf"))
    _mine.until_s = float("inf")
    try:
        yield
    finally:
        _mine.until_s = outer


def obey(connection: apsw.Connection) -> apsw.Connection:
    """Have a connection's statements end with InterruptError once the deadline of the thread that runs them is over."""
    connection.set_progress_handler(is_over, STEPS)
    return connection


def is_over() -> bool:
    """Return True if the deadline of this thread has passed."""
    return time.monotonic() > getattr(_mine, "until_s", float("inf"))


class SoftLock:
    """Lets threads through one at a time, and those that have waited for `patience_s` as well.

    It guards no data. Python runs one thread at a time, and threads that take it from each other in the middle of
    their work finish later than one after the other. It is reentrant.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._lock = threading.RLock()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Wait until no other thread is inside, or for long enough."""
        is_alone = self._lock.acquire(timeout=self._patience_s)
        try:
            yield
        finally:
            if is_alone:
                self._lock.release()
