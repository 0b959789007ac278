"""The ledger: the vault's write-ahead log and its history, in one SQLite database that is kept and backed up."""

from __future__ import annotations

import contextlib
import ctypes
import json
import logging
import os
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import apsw

from ..engine.database import (
    FALSE_ALARMS,
    MAY_PASS,
    Connections,
    can_be_written,
    copy_to_memory,
    lasting_problems,
    may_pass,
    open_database,
    preallocate_wal,
    transaction,
    translated,
    tried_again,
    unreadable,
)
from ..model import Corrupt, NodeId, NotFound, StoreBusy
from ..results import Anchor, FilledGap, Goal, ToldText
from .journal import BLIND, Entry, sha256
from .questions import FILLED, Gap, PastQuestion, Probe, past_question_of_row
from .records import (
    ANSWER,
    IS_CHANGED,
    IS_RECORDED,
    LAST_DELETION,
    RENAMED,
    RUN_COLUMNS,
    WITHHELD,
    WITHHELD_IMAGE,
    Deleted,
    RecordedAction,
    Run,
    Write,
    action_of_row,
    run_of_row,
    stored,
    unpacked,
)
from .salvage import bring_back, carry_over, set_aside
from .schema import MIGRATIONS
from .work import (
    ANCHORS,
    GOALS,
    HANDED,
    TOLD,
    Handed,
    Work,
    anchor_of_row,
    goal_of_row,
    handed_of_row,
    told_id_of,
    told_of_row,
    work_text,
)

WAL_PAGES: Final = 1000
"""When the WAL has this many pages they are copied into the database: 4 MiB, which is also preallocated."""

LOOKED_THROUGH_BYTES: Final = 16 * 2**20
"""A ledger up to this size is looked through at every start: a tenth of a second."""

LATER_KEPT: Final = 10_000
"""The most rows that wait for the next transaction; while none succeeds, the oldest of them are dropped."""

START_WAITS_S: Final = 30.0
QUESTION_WAITS_S: Final = 2.0
"""The waits of a start, and of a question, for a ledger that cannot be read."""

logger = logging.getLogger(__name__)

T = TypeVar("T")

_GOES_ON: Final = "Make room, or make it writable; dreamd goes on by itself, and nothing is lost."
_PAGE_BYTES: Final = 4096
_PASSING: Final = (*MAY_PASS, StoreBusy, apsw.FullError, apsw.ReadOnlyError)
_ENTRY: Final = "seq, kind, path, content, from_offset, pre_sha256, run_id, ordinal"
_JOURNAL: Final = f"INSERT INTO journal ({_ENTRY}, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"


class Usage(NamedTuple):
    """The number of times that a memory was shown, and the last of them."""

    shown: int
    last_at: datetime


class Reinforced(NamedTuple):
    """The number of times that a memory was said again, and the last of them."""

    times: int
    last_at: datetime


class Ledger:
    """The ledger's connections, its one write path and its questions.

    `commit`, `forget_done` and `checkpoint` belong to the writer's thread alone; questions may be asked from any.
    `later` may be called from any thread: its rows are written with the writer's next commit, and a crash before that
    loses them.
    """

    def __init__(self, path: Path, *, read_only: bool = False, vfs: str | None = None) -> None:
        self.path = path
        self._read_from = path
        self._vfs = vfs
        self._later: deque[Write] = deque(maxlen=LATER_KEPT)
        self._wal_pages = 0
        self._readers = self._new_readers()
        self._writing: apsw.Connection | None = None
        self._inode = 0
        self._false_alarms = 0
        self._aside: Path | None = None  # the damaged file, while another is being begun
        self.damage: Corrupt | None = None
        """The damage that was found, until `begin_anew`."""
        self.on_damage: Callable[[], None] = lambda: None
        self.in_mind: Callable[[], Sequence[Write]] = lambda: ()
        """Returns the rows that a new ledger must hold, as far as they are known without the damaged one."""
        self.is_new = False
        if not read_only:
            self._open()

    @property
    def is_copy(self) -> bool:
        """True while it is read from a copy, since its disk could not be written at the start; `reopen` ends that."""
        return self._read_from != self.path

    def _open(self) -> None:
        """Open for writing. A file that is damaged, or was emptied, is set aside, and another is begun."""
        if self._vfs is not None:
            self.reopen()
            return
        if not can_be_written(self.path.parent):
            self._read_from = copy_to_memory(self.path)
            return
        self.is_new = not self.path.exists()
        self._waited_out(self._open_or_begin, START_WAITS_S)

    def _open_or_begin(self) -> None:
        try:
            self._refuse_emptied()
            bring_back(self.path)
            self._prepare()
            self._refuse_read_only()
            self._look_inside()
        except Corrupt as error:
            self._refuse_if_whole(error)
            self.begin_anew()

    def _waited_out(self, work: Callable[[], T], patience_s: float) -> T:
        """Do it again until the disk lets it be done. Raises StoreBusy, or its OSError, after `patience_s`."""
        try:
            return tried_again(work, _may_pass, patience_s)
        except _PASSING as error:
            raise unreadable(self.path) from error

    def _refuse_if_whole(self, error: Corrupt) -> None:
        """Raise StoreBusy for a sign of damage that a check of the file does not find, or cannot look for now."""
        if not isinstance(error.__cause__, apsw.Error) or lasting_problems(self.path, self._vfs):
            return
        if self._false_alarms < FALSE_ALARMS:
            self._false_alarms += 1
            raise unreadable(self.path) from error

    def _refuse_emptied(self) -> None:
        if self.path.exists() and not self.path.stat().st_size:
            raise Corrupt(f"{self.path.name} was emptied")

    def _prepare(self) -> None:
        if not self.path.exists():  # SQLite removes the WAL of an empty database
            self._make()
        preallocate_wal(self.path, WAL_PAGES * _PAGE_BYTES)
        self.reopen()

    def _make(self) -> None:
        """Make the file under another name and rename it: a reader never finds one without its tables.

        The first sync of its new WAL syncs the folder too, before anything is acknowledged.
        """
        fresh = self.path.with_name(f"{self.path.name}.new")
        for leftover in (fresh, *(fresh.with_name(f"{fresh.name}{end}") for end in ("-wal", "-shm"))):
            leftover.unlink(missing_ok=True)  # of a start that was killed
        open_database(fresh, durable=True, migrations=MIGRATIONS).close()
        fresh.rename(self.path)

    def _look_inside(self) -> None:
        """Raise Corrupt for damage in a small file or in rows that every start reads; a large one is checked in use."""
        if self.path.stat().st_size <= LOOKED_THROUGH_BYTES and (found := self.problems()):
            raise Corrupt(f"{self.path.name} is damaged: {found[0]}")
        self.pending()
        self.flags()
        self.tombstones()

    def _refuse_read_only(self) -> None:
        """Raise ReadOnlyError where SQLite could open its shared memory for reading alone, and close the connection.

        It stays so, whatever becomes of the disk, while any connection of this process is open.
        """
        try:
            with transaction(self._writer()):
                pass
        except apsw.ReadOnlyError:
            self._writer().close(True)
            self._writing = None
            raise

    def _new_readers(self) -> Connections:
        return Connections(
            lambda: open_database(self._read_from, durable=True, read_only=True, migrations=MIGRATIONS, vfs=self._vfs)
        )

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """Note damage, and return Corrupt for the caller that met it."""
        try:
            with translated(self.path):
                yield
        except apsw.CantOpenError as error:
            if self.damage is None:
                raise
            raise Corrupt(f"{self.path.name} was damaged, and another is being begun") from error
        except Corrupt as error:
            # Only the first sign is reported: the writer begins another ledger once.
            if self.damage is None and self._writing is not None:
                self._refuse_if_whole(error)
                self.damage = error
                self.on_damage()
            raise

    # ---- writing: the writer's thread

    def begin_anew(self, unplaced: Sequence[Entry] = (), blind: Sequence[Entry] = ()) -> None:
        """Set a damaged file aside, and go on with another that holds the rows on which promises rest.

        `unplaced` are the entries that are acknowledged and not in their files yet, `blind` those that were planned
        without sight of the vault.
        """
        if self._writing is not None:
            self._writing.close(True)
            self._writing = None
        if self._aside is None:  # else it is tried again: there was no room
            self._aside = set_aside(self.path)
            logger.error("the ledger is damaged; it is kept as %s, and another one is begun", self._aside.name)
        # The rows that promises depend on are copied before anything is committed to the new file.
        self._readers = self._new_readers()  # one that is being asked is closed when its answer is out
        self._prepare()
        carry_over(self._aside, self._writer())
        with translated(self.path), transaction(self._writer()) as _:
            rows = [*((*entry, "") for entry in unplaced), *((*entry, BLIND) for entry in blind)]
            self._writer().executemany(_JOURNAL.replace("INSERT", "INSERT OR REPLACE"), rows)
            self._run(self._writer(), self.in_mind())
        self.damage = self._aside = None
        self._false_alarms = 0

    def _keep_in_place(self) -> None:
        """See that the file is where the next daemon looks for it; one that was deleted in use is written again."""
        if self._vfs is not None:
            return
        try:
            found = os.stat(self.path)  # noqa: PTH116 (before every commit)
        except FileNotFoundError:
            self._write_again()
            return
        if not found.st_size:
            self._refuse_emptied()
        # Another inode: the file was deleted or replaced in use, and ours has no name any more.
        if found.st_ino != self._inode:
            self._write_again()

    def _write_again(self) -> None:
        logger.error("the ledger's file was taken away; it is written again")
        copy = self.path.with_name(f"{self.path.name}.again")
        copy.unlink(missing_ok=True)
        writing = self._writer()
        # Our connection still reads the nameless file, so a copy of it loses nothing.
        writing.execute("VACUUM INTO ?", (str(copy),))
        writing.close(True)
        self._writing = None
        for suffix in ("-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        copy.replace(self.path)
        self._readers = self._new_readers()
        self._prepare()

    def reopen(self) -> None:
        """Reopen the writing connection; after a failed fsync nothing is tried again on the old one.

        The new one is opened first: were the old one the last to close, SQLite would recover the failed commit from the
        WAL, where it lies without having been synced.
        """
        if self.is_copy and not can_be_written(self.path.parent):
            raise StoreBusy(f"the disk of {self.path.name} cannot be written", hint=_GOES_ON)
        connection = open_database(self.path, durable=True, migrations=MIGRATIONS, vfs=self._vfs)
        connection.wal_autocheckpoint(0)  # a checkpoint inside a commit would stall its acknowledgement
        connection.set_wal_hook(self._count_pages)
        keep = ctypes.c_int(1)  # the -wal file, and with it its blocks, outlives the last connection
        connection.file_control("main", apsw.SQLITE_FCNTL_PERSIST_WAL, ctypes.addressof(keep))
        if self._writing is not None:
            self._writing.close(True)
        self._writing = connection
        if self._vfs is None:
            self._inode = self.path.stat().st_ino
        if self.is_copy:
            self._read_from = self.path
            self._readers = self._new_readers()  # one that is being asked is closed when its answer is out

    def _count_pages(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _writer(self) -> apsw.Connection:
        if self.is_copy:
            raise StoreBusy(f"the disk of {self.path.name} cannot be written", hint=_GOES_ON)
        if self._aside is not None and self._writing is None:
            raise unreadable(self.path)
        if self._writing is None:
            raise ValueError("this ledger was opened for reading, or is closed")
        return self._writing

    def _reading(self) -> apsw.Connection:
        """Return the writing connection, or that of a copy while the disk cannot be written."""
        return self._readers.get() if self.is_copy else self._writer()

    def commit(self, entries: Sequence[Entry], writes: Iterable[Write] = (), *, blind: bool = False) -> None:
        """Commit the journal's new entries, and the rows that belong to them, in one transaction on the disk.

        Entries that were planned `blind`, while the vault was away, wait to be fitted to its files.
        """
        with self._guarded():
            self._keep_in_place()
        connection = self._writer()
        with self._guarded(), transaction(connection):
            if entries:
                connection.executemany(_JOURNAL, [(*entry, BLIND if blind else "") for entry in entries])
            self._run(connection, writes)
            self._run(connection, self._drain())

    def fit(self, fitted: Iterable[Entry], known: Iterable[Entry]) -> None:
        """Replace blind entries by those that fit the vault, and drop those whose content is there already."""
        connection = self._writer()
        with self._guarded(), transaction(connection):
            connection.executemany(
                "UPDATE journal SET kind = ?, content = ?, from_offset = ?, pre_sha256 = ?, state = '' WHERE seq = ?",
                [(entry.kind, entry.content, entry.from_offset, entry.pre_sha256, entry.seq) for entry in fitted],
            )
            connection.executemany("DELETE FROM journal WHERE seq = ?", [(entry.seq,) for entry in known])

    def _drain(self) -> list[Write]:
        later = self._later
        return [later.popleft() for _ in range(len(later))] if later else []

    @staticmethod
    def _run(connection: apsw.Connection, writes: Iterable[Write]) -> None:
        for sql, group in groupby(writes, key=attrgetter("sql")):
            connection.executemany(sql, [write.values for write in group])

    def later(self, *writes: Write) -> None:
        """Write these with the writer's next transaction."""
        self._later.extend(writes)

    @property
    def has_later(self) -> bool:
        """True while rows wait for the writer's next transaction."""
        return bool(self._later)

    def forget_done(self, up_to_seq: int, held: Iterable[int] = ()) -> None:
        """Remove the entries whose files are on the disk, but those that are held back.

        Not synced: a crash that loses it repeats a look at them.
        """
        with self._unsynced() as connection:
            connection.execute(
                "DELETE FROM journal WHERE seq <= ? AND state = '' AND seq NOT IN (SELECT value FROM json_each(?))",
                (up_to_seq, json.dumps(list(held))),
            )
            self._run(connection, self._drain())

    def keep_out(self, entries: Iterable[Entry]) -> None:
        """Record that a person's file won: an action is marked; any other content stays in the journal."""
        with self._unsynced() as connection:
            for entry in entries:
                if entry.run_id is None:
                    connection.execute("UPDATE journal SET state = 'conflict' WHERE seq = ?", (entry.seq,))
                else:
                    connection.execute(
                        "UPDATE action SET state = 'conflict' WHERE run_id = ? AND ordinal = ?",
                        (entry.run_id, entry.ordinal),
                    )
                    connection.execute("DELETE FROM journal WHERE seq = ?", (entry.seq,))

    @contextlib.contextmanager
    def _unsynced(self) -> Iterator[apsw.Connection]:
        connection = self._writer()
        # In WAL mode NORMAL skips the fsync of a commit: a power cut may lose it, never break the file.
        connection.execute("PRAGMA synchronous = NORMAL")
        try:
            with self._guarded(), transaction(connection):
                yield connection
        finally:
            connection.execute("PRAGMA synchronous = FULL")

    def checkpoint(self, *, anyway: bool = False) -> None:
        """Copy the WAL into the database if it has grown to its size, or `anyway`."""
        if self._wal_pages >= WAL_PAGES or (anyway and self._wal_pages):
            with self._guarded():
                self._writer().wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            self._wal_pages = 0

    def erase(self, writes: Iterable[Write]) -> None:
        """Run these deletions and leave nothing of the rows on the disk: not in the database, not in the WAL.

        Raises StoreBusy while another connection reads for longer than five seconds; the rows are gone
        by then, their traces in the WAL with the next erasure or checkpoint.
        """
        connection = self._writer()
        with self._guarded(), transaction(connection):
            self._run(connection, self._drain())
            self._run(connection, writes)
        # The transaction cleared the rows' bytes in the new pages (secure_delete); the old pages are still in the WAL.
        with self._guarded():
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        self._wal_pages = 0

    def compact(self) -> None:
        """Rewrite the whole file, so that it holds no bytes of rows that are gone. The writer's thread waits."""
        connection = self._writer()
        with self._guarded():
            # VACUUM writes the new file into the WAL, so the old pages leave the database only with the checkpoint.
            connection.execute("VACUUM")
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        self._wal_pages = 0

    def pending(self, state: str = "") -> list[Entry]:
        """Return the acknowledged entries that may not be on the disk, in order; `state` BLIND: those to be fitted."""
        sql = f"SELECT {_ENTRY} FROM journal WHERE state = ? ORDER BY seq"
        with self._guarded():
            rows: list[Any] = self._reading().execute(sql, (state,)).fetchall()
        return [_entry(row) for row in rows]

    def first_pending(self) -> int | None:
        """Return the number of the oldest entry that may not be on the disk, None where all of them are."""
        rows = self.ask(f"SELECT min(seq) FROM journal WHERE state IN ('', '{BLIND}')")
        return None if rows[0][0] is None else int(rows[0][0])

    def last_seq(self) -> int:
        """Return the journal's highest number, 0 when it is empty."""
        with self._guarded():
            rows: list[Any] = self._reading().execute("SELECT coalesce(max(seq), 0) FROM journal").fetchall()
        return int(rows[0][0])

    # ---- questions: any thread

    def ask(self, sql: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """Run a query and return its rows; for modules that read the ledger's tables by their own SQL."""

        def ask() -> list[Any]:
            with self._guarded():
                return self._readers.get().execute(sql, values).fetchall()

        return self._waited_out(ask, QUESTION_WAITS_S)

    def runs(
        self, limit: int = 20, *, kinds: Sequence[str] = (), states: Sequence[str] = (), hidden: Sequence[str] = ()
    ) -> list[Run]:
        """Return the latest runs, newest first: `limit` of each of `kinds`, or in all of those not `hidden`.

        `states` keeps only those that ended so; it applies to `kinds` alone.
        """
        order = "ORDER BY started_at DESC, run_id DESC LIMIT ?"
        if not kinds:
            sql = f"SELECT {RUN_COLUMNS} FROM run WHERE kind NOT IN (SELECT value FROM json_each(?)) {order}"
            return [run_of_row(row) for row in self.ask(sql, (json.dumps(list(hidden)), limit))]
        ended = "AND state IN (SELECT value FROM json_each(?))" if states else "AND ? IS NOT NULL"
        sql = f"SELECT {RUN_COLUMNS} FROM run WHERE kind = ? {ended} {order}"
        rows = [row for kind in dict.fromkeys(kinds) for row in self.ask(sql, (kind, json.dumps(list(states)), limit))]
        return sorted(map(run_of_row, rows), key=lambda run: (run.started_at, run.run_id), reverse=True)

    def runs_since(self, moment: datetime, kinds: Sequence[str]) -> list[Run]:
        """Return the runs of these kinds that began after a moment, newest first."""
        sql = f"SELECT {RUN_COLUMNS} FROM run WHERE kind = ? AND started_at > ?"
        rows = [row for kind in dict.fromkeys(kinds) for row in self.ask(sql, (kind, stored(moment)))]
        return sorted(map(run_of_row, rows), key=lambda run: (run.started_at, run.run_id), reverse=True)

    def run_about(self, kind: str, node_id: NodeId) -> Run | None:
        """Return the latest run of a kind whose summary names a node, if it is not undone."""
        sql = (
            f"SELECT {RUN_COLUMNS} FROM run WHERE kind = ? AND json_extract(summary, '$.node_id') = ?"
            " AND state NOT IN ('undone', 'failed') ORDER BY started_at DESC, run_id DESC LIMIT 1"
        )
        rows = self.ask(sql, (kind, node_id))
        return run_of_row(rows[0]) if rows else None

    def run(self, run_id: str) -> Run:
        """One run; raises NotFound."""
        rows = self.ask(f"SELECT {RUN_COLUMNS} FROM run WHERE run_id = ?", (run_id,))
        if not rows:
            raise NotFound(f"no run {run_id}", hint="`dreamctl runs` lists them.")
        return run_of_row(rows[0])

    def actions(self, run_id: str, offset: int = 0, limit: int = -1) -> list[RecordedAction]:
        """Return a run's actions with their images, in order; all of them, or a page."""
        rows = self.ask(f"{RecordedAction.SELECT} LIMIT ? OFFSET ?", (run_id, limit, offset))
        return [action_of_row(row) for row in rows]

    def run_that_left(self, path: str, content_sha256: str) -> str | None:
        """Return the id of the run that left a file as it is, if there is one that can be undone."""
        sql = (
            "SELECT run_id FROM action JOIN run USING (run_id) WHERE path = ? AND post_sha256 = ?"
            " AND action.state = 'applied' AND NOT expired ORDER BY id DESC LIMIT 1"
        )
        rows = self.ask(sql, (path, content_sha256))
        return rows[0][0] if rows else None

    def archived_by_runs(self, stage: str, reason: str, limit: int) -> list[NodeId]:
        """Return the nodes whose latest applied change is of this stage, or for this reason, the newest first."""
        sql = (
            "SELECT node_id FROM action AS one WHERE state = 'applied' AND (stage = ? OR reason = ?) AND NOT EXISTS"
            " (SELECT 1 FROM action WHERE node_id = one.node_id AND id > one.id AND state = 'applied')"
            " ORDER BY id DESC LIMIT ?"
        )
        return [row[0] for row in self.ask(sql, (stage, reason, limit))]

    def runs_that_undid(self, run_id: str) -> list[str]:
        """Return the runs by which undos of a run changed other files, the oldest first."""
        sql = "SELECT run_id FROM run WHERE kind = 'undo' AND json_extract(summary, '$.undid') = ? ORDER BY run_id"
        return [row[0] for row in self.ask(sql, (run_id,))]

    def image_sizes(self) -> list[tuple[str, datetime, int]]:
        """Each run that still has its images, newest first: its id, its start, their bytes as kept."""
        rows = self.ask(
            "SELECT run_id, started_at, (SELECT coalesce(sum(coalesce(length(pre_image), 0)"
            " + coalesce(length(post_image), 0)), 0) FROM action WHERE action.run_id = run.run_id)"
            " FROM run WHERE NOT expired ORDER BY started_at DESC, run_id DESC"
        )
        return [(run_id, datetime.fromisoformat(at), size) for run_id, at, size in rows]

    def images(self) -> Iterator[tuple[str, bytes]]:
        """Yield the path and the content of every file that the history holds: replaced, deleted, or withheld."""
        for (number,) in self.ask("SELECT id FROM action WHERE pre_image IS NOT NULL OR post_image IS NOT NULL"):
            for path, *held in self.ask("SELECT path, pre_image, post_image FROM action WHERE id = ?", (number,)):
                yield from ((path, unpacked(image) or b"") for image in held if image is not None)
        for path, image in self.ask("SELECT path, image FROM withheld WHERE image IS NOT NULL"):
            yield path, unpacked(image) or b""

    def tombstones(self) -> set[str]:
        """Return the keys of all tombstones, which no dream may propose again."""
        return {row[0] for row in self.ask("SELECT fingerprint FROM tombstone")}

    def withheld(self) -> list[str]:
        """Return the vanished files that are withheld."""
        return [row[0] for row in self.ask(WITHHELD)]

    def withheld_image(self, path: str) -> bytes | None:
        """Return the content of a withheld file, None where it is not known."""
        rows = self.ask(WITHHELD_IMAGE, (path,))
        return unpacked(rows[0][0]) if rows else None

    def holds(self, content: bytes) -> bool:
        """Return True if a run made, replaced or deleted a file with this content; reads every action."""
        held = sha256(content)
        return bool(self.ask("SELECT 1 FROM action WHERE pre_sha256 = ? OR post_sha256 = ? LIMIT 1", (held, held)))

    def deletion_is_recorded(self, path: str, content: bytes, since: datetime) -> bool:
        """Return True if a run deleted a file with this content, or an undo did after `since`, when it was there."""
        held = sha256(content)
        return bool(self.ask(IS_RECORDED, (path, held, stored(since), held)))

    def change_is_recorded(self, path: str, before: bytes) -> bool:
        """Return True if an applied run changed or deleted a file with this content."""
        return bool(self.ask(IS_CHANGED, (path, sha256(before))))

    def undone_edits(self) -> Iterator[tuple[str, bytes | None, bytes | None]]:
        """Yield the changes that were undone and whose images are there: path, file before, file after."""
        sql = "SELECT path, pre_image, post_image FROM action WHERE state = 'undone' AND pre_image IS NOT NULL"
        for path, before, after in self.ask(sql):
            yield path, unpacked(before), unpacked(after)

    def moves_since(self, run_id: str, kind: str) -> dict[str, str]:
        """Return the way of each file that later runs of this kind moved, and no undo moved back: from path to path."""
        sql = (
            "SELECT gone.path, made.path FROM run JOIN action AS gone ON gone.run_id = run.run_id"
            " JOIN action AS made ON made.run_id = gone.run_id AND made.node_id = gone.node_id AND made.kind = 'create'"
            " WHERE run.kind = ? AND run.run_id > ? AND gone.kind = 'delete'"
            " AND gone.state = 'applied' AND made.state = 'applied' ORDER BY gone.id"
        )
        return dict(self.ask(sql, (kind, run_id)))

    def last_deletion(self, node_id: NodeId, kind: str) -> Deleted | None:
        """Return the latest deletion of a memory by a run of this kind that can be undone."""
        rows = self.ask(LAST_DELETION, (node_id, kind))
        return Deleted(rows[0][0], unpacked(rows[0][1]) or b"", rows[0][2]) if rows else None

    def lately_deleted(self, limit: int) -> list[str]:
        """Return the files that runs deleted last."""
        sql = "SELECT path FROM action WHERE kind = 'delete' AND state = 'applied' ORDER BY id DESC LIMIT ?"
        return [row[0] for row in self.ask(sql, (limit,))]

    def names_of_document(self, node_id: NodeId) -> set[NodeId]:
        """Return the ids that a document had under other keys, before it was renamed and after it, with this one."""
        pairs = self.ask(
            "SELECT gone.node_id, made.node_id FROM action AS gone JOIN action AS made ON made.run_id = gone.run_id"
            " AND made.ordinal = gone.ordinal - 1 WHERE gone.kind = 'delete' AND made.kind = 'create'"
            " AND gone.reason = ? AND gone.reason = made.reason",
            (RENAMED,),
        )
        # A document may be renamed several times: follow the pairs until no new name is found.
        names, known = {node_id}, 0
        while known < len(names):
            known = len(names)
            names |= {name for pair in pairs if names.intersection(pair) for name in pair}
        return names

    def cursors(self, stage: str) -> dict[str, int]:
        """Return the last ordinal that a stage consumed of each session."""
        return dict(self.ask("SELECT session_id, ordinal FROM cursor WHERE stage = ?", (stage,)))

    def every_cursor(self) -> dict[tuple[str, str], int]:
        """Map every (stage, key) to the ordinal or mark that the stage stored under it."""
        rows = self.ask("SELECT stage, session_id, ordinal FROM cursor")
        return {(stage, key): ordinal for stage, key, ordinal in rows}

    def followed(self, key: str) -> tuple[int, int, str] | None:
        """Return how far a file of another program was read: its size, lines, and the hash of its beginning."""
        rows = self.ask("SELECT size, lines, head FROM followed WHERE key = ?", (key,))
        return (rows[0][0], rows[0][1], rows[0][2]) if rows else None

    def flags(self, prefix: str = "") -> dict[str, str]:
        """Return the flags whose name begins with `prefix`."""
        return {k: v for k, v in self.ask("SELECT name, value FROM flag") if k.startswith(prefix)}

    @property
    def paused(self) -> bool:
        """True while all learning is switched off."""
        return "paused" in self.flags("paused")

    @property
    def channels_off(self) -> frozenset[str]:
        """The channels in which nothing is learned."""
        return frozenset(name.removeprefix("off:") for name in self.flags("off:"))

    def usage(self) -> dict[NodeId, Usage]:
        """Return the number of times that each memory was shown, and the last of them."""
        rows = self.ask("SELECT node_id, shown, last_at FROM usage")
        return {node_id: Usage(shown, datetime.fromisoformat(at)) for node_id, shown, at in rows}

    def reinforced(self) -> dict[NodeId, Reinforced]:
        """Return the number of times that each memory was said again, and the last of them."""
        rows = self.ask("SELECT node_id, times, last_at FROM reinforcement")
        return {node_id: Reinforced(times, datetime.fromisoformat(at)) for node_id, times, at in rows}

    def reinforced_since(self, moment: datetime) -> set[NodeId]:
        """Return the memories that were said again after a moment."""
        return {row[0] for row in self.ask("SELECT node_id FROM reinforcement WHERE last_at > ?", (stored(moment),))}

    def feedback(self) -> dict[NodeId, dict[str, int]]:
        """Return the feedback on each memory, counted by kind."""
        found: dict[NodeId, dict[str, int]] = {}
        for node_id, verdict, times in self.ask("SELECT node_id, verdict, count(*) FROM feedback GROUP BY 1, 2"):
            found.setdefault(node_id, {})[verdict] = times
        return found

    def asked(self) -> list[PastQuestion]:
        """Return the recorded questions, newest first."""
        return [past_question_of_row(row) for row in self.ask(PastQuestion.SELECT)]

    def probes(self) -> list[Probe]:
        """Return the questions with a known useful memory, newest first."""
        return [Probe(asked.text, asked.channel, asked.gold, asked.last_at) for asked in self.asked() if asked.gold]

    def gaps(self) -> list[Gap]:
        """Return the questions that found nothing, the most often asked first, then the newest.

        One that was answered where else it was asked is none.
        """
        every = self.asked()
        # One that was answered under another channel, or spelled otherwise in case and spacing, is no gap.
        answered = {" ".join(asked.text.casefold().split()) for asked in every if not asked.is_gap}
        gaps = [
            Gap(asked.text, asked.channel, asked.times, asked.last_at, asked.shown, asked.question_id)
            for asked in every
            if asked.is_gap and " ".join(asked.text.casefold().split()) not in answered
        ]
        return sorted(gaps, key=lambda gap: -gap.times)

    def filled_gaps(self, dreams: Sequence[str], since: datetime) -> list[FilledGap]:
        """Return the gaps that these kinds of runs found filled since a moment, the last first, without respellings."""
        runs = [run for run in self.runs_since(since, dreams) if run.state == "applied"]
        found = [question_id for run in runs for question_id in run.summary.get(FILLED, ())]
        asked = {one.question_id: one for one in self.asked()} if found else {}
        alike: dict[tuple[str | None, str], FilledGap] = {}
        for one in (asked[question_id] for question_id in dict.fromkeys(found) if question_id in asked):
            key = one.channel, " ".join(one.text.casefold().split())
            before = alike[key].times if key in alike else 0
            alike[key] = FilledGap(one.text, one.channel, one.times + before)
        return list(alike.values())

    def answered(self, key: str) -> str | None:
        """Return the answer that was kept for the write with this key."""
        rows = self.ask(ANSWER, (key,))
        return rows[0][0] if rows else None

    def handed(self, key: str) -> Handed | None:
        """Return the lines that a session was handed."""
        rows = self.ask(HANDED, (key,))
        return handed_of_row(rows[0]) if rows else None

    def told(self, since: datetime, session_id: NodeId | None = None) -> list[ToldText]:
        """Return the texts that agents were handed since a moment, the newest first."""
        sql = f"{TOLD} WHERE id >= ? AND session_id = coalesce(?, session_id) ORDER BY id DESC"
        return [told_of_row(row) for row in self.ask(sql, (told_id_of(since), session_id))]

    def told_of(self, nodes: Collection[NodeId], moments: Collection[str], since: datetime) -> list[ToldText]:
        """Return the texts that had one of some memories at some moments, since another."""
        sql = f"""{TOLD} WHERE id >= ? AND moment IN (SELECT value FROM json_each(?))
            AND EXISTS (SELECT 1 FROM json_each(?) WHERE instr(lines, value) > 0)"""
        bindings = told_id_of(since), json.dumps(sorted(moments)), json.dumps(sorted(nodes))
        return [told_of_row(row) for row in self.ask(sql, bindings)]

    def anchor(self, session_id: NodeId) -> Anchor | None:
        """Return the anchor of a session."""
        rows = self.ask(f"{ANCHORS} WHERE session_id = ?", (session_id,))
        return anchor_of_row(rows[0]) if rows else None

    def anchors(self, channel: str | None = None, limit: int = -1) -> list[Anchor]:
        """Return the anchors of a channel, or of all, newest first."""
        sql = f"{ANCHORS} WHERE channel = coalesce(?, channel) ORDER BY at DESC, session_id LIMIT ?"
        return [anchor_of_row(row) for row in self.ask(sql, (channel, limit))]

    def goals(self, session_id: NodeId | None = None, channel: str | None = None) -> list[Goal]:
        """Return the goals of a session, of a channel, or all, in the order in which they were opened."""
        sql = (
            f"{GOALS} WHERE session_id = coalesce(?, session_id) AND channel = coalesce(?, channel)"
            " ORDER BY opened_at, goal_id"
        )
        return [goal_of_row(row) for row in self.ask(sql, (session_id, channel))]

    def work(self) -> list[Work]:
        """Return every anchor and goal."""
        anchors = [Work(one.session_id, one.channel, one.set_at, work_text(one)) for one in self.anchors()]
        return anchors + [Work(one.session_id, one.channel, one.opened_at, one.text) for one in self.goals()]

    def problems(self) -> list[str]:
        """Return the problems that SQLite's own check finds; it reads the whole file, so call it between requests."""
        return lasting_problems(self.path, self._vfs)

    def look_through(self) -> list[str]:
        """Return the problems of `problems`, and note them as damage."""
        try:
            found = self.problems()
        except StoreBusy as error:
            return [str(error)]
        if found:
            with contextlib.suppress(Corrupt), self._guarded():
                raise Corrupt(f"{self.path.name} is damaged: {found[0]}")
        return found

    def counts(self) -> dict[str, int]:
        """Return counts for `status`: rows of the journal, those kept out by a person's edit, and so on."""
        names = {
            "journal": f"journal WHERE state IN ('', '{BLIND}')",
            "conflicts": "journal WHERE state = 'conflict'",
            "runs": "run",
            "tombstones": "tombstone",
        }
        return {name: int(self.ask(f"SELECT count(*) FROM {table}")[0][0]) for name, table in names.items()}

    def close(self) -> None:
        """Close every connection."""
        self._readers.close()
        if self._writing is not None:
            self._writing.close()
            self._writing = None


def _may_pass(error: Exception) -> bool:
    """Return True for an error of the disk, or because of another reader, and not of the ledger's content."""
    return isinstance(error, _PASSING) or may_pass(error)


def _entry(row: Sequence[Any]) -> Entry:
    seq, kind, path, content, from_offset, pre_sha256, run_id, ordinal = row
    return Entry(seq, kind, path, content or b"", from_offset, pre_sha256, run_id, ordinal)
