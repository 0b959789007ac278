"""An engine with a server: the index on this machine stays whole, and a server with a copy of it answers where it can.

Each change goes into the index and, in the same transaction, into a list of what the server has not got. A thread of
its own brings that over, so no write waits for the server. A question goes to the server while the list is empty and
the server answers in time; else the index answers, and so it does where a filter leaves few of many points. So an
answer never lacks what was written last, a server that was away is given what it missed, and one that lost something is
filled again: it tells by the mark of what it got last.

Example: the server is filled ("k7:0") and gets two batches. The index notes k7 and 2, the server says "k7:2". A crash
after the server took a third batch leaves 2 and "k7:3": the batch is listed still and is brought again. A server that
says "k7:1", or "k3:9", was put back to an older state, or served another index: it is emptied and filled.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import apsw
import numpy as np

from ..filters import Filter, Payload
from ..model import NotFound, StoreBusy, StoreError
from ..results import ServerStatus
from .interface import Capabilities, Hybrid, Match, Point, SearchServer, Vector
from .sqlite_vec import SqliteVecStore

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")
Batch = Callable[[], AbstractContextManager[None]]

LAYOUT: Final = """
CREATE TABLE IF NOT EXISTS {name}_unsent(change INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS {name}_served(
    one INTEGER PRIMARY KEY CHECK(one = 1), filled TEXT NOT NULL, sent INTEGER NOT NULL, stamp INTEGER NOT NULL,
    erase INTEGER NOT NULL);
INSERT OR IGNORE INTO {name}_served VALUES(1, '', 0, -1, 0);
"""
"""`filled` names the filling of the server, `sent` counts its batches since. `stamp` is the collection's as it was
last listed: changes that were made without a list, under another setting, show by it. `erase`: removed points must
leave the server's files too."""

SENT_AT_ONCE: Final = 500
"""Points of a batch: with vectors of 384 numbers about 3 MB as text."""

ANSWERS_IN_S: Final = 1.0
"""The longest wait of a question for the server, which does not wait again until that answered a trial."""

AGAIN_S: Final = 5.0
"""The time between two trials of a server that is away."""

ASKED_AT_ONCE: Final = 8

FEW, OF_MANY = 0.1, 20_000
"""The share of a collection of so many points below which the index searches those that a filter leaves, which it has
in memory: in 10 to 20 ms of a million, where Postgres took 60 to 150 for a week or a month."""

COMPARED, KEPT_TO = 100, 0.01
"""Points that are compared with the server's, and by how much a cosine of the two vectors may miss 1."""


class _Sent(NamedTuple):
    """The notes of the index about its server."""

    filled: str
    sent: int
    stamp: int
    erase: int


class _OtherIndex(Exception):
    """Another file took the index's place, and the server has nothing of it yet."""


class ServerLink(NamedTuple):
    """The way to a server: its name for people, the name of this index's copy on it, and how to reach it.

    `reach` raises StoreError, with a sentence, where it cannot be tried.
    """

    title: str
    copy: str
    reach: Callable[[], SearchServer]


class ServedStore:
    """The engine of an index, with a server once `start` was called; without one it answers alone.

    `writer` and `reader` are as for the engine within, whose transactions hold the list.
    """

    def __init__(
        self, local: SqliteVecStore, writer: Callable[[], apsw.Connection], reader: Callable[[], apsw.Connection]
    ) -> None:
        self._local = local
        self._writer = writer
        self._reader = reader
        self._link: ServerLink | None = None
        self._server: SearchServer | None = None
        self._problem = self._logged = ""
        self._is_ready = False  # once the server's own indexes are built
        self._is_compared = self._is_filled_again = False
        self._fields: dict[str, bool] = {}
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._asking: ThreadPoolExecutor | None = None

    # ---- the server

    def start(self, name: str, dimension: int, batch: Batch, link: ServerLink) -> None:
        """Begin to bring changes of a collection to a server, and to ask it; `batch` is the owner's transaction."""
        self._link = link
        self._problem = f"{link.title} is not reached yet"
        self._asking = ThreadPoolExecutor(ASKED_AT_ONCE, thread_name_prefix="dreamd-asking")
        self._thread = threading.Thread(target=self._run, args=(name, dimension, batch), name="dreamd-server")
        self._thread.daemon = True
        self._thread.start()

    def stop(self) -> None:
        """Leave the server, whatever is under way; what it has not got stays listed."""
        self._stopping.set()
        self._wake.set()
        if (server := self._server) is not None:
            server.abort()
        if self._asking is not None:
            self._asking.shutdown()
        if self._thread is not None:
            self._thread.join()

    def is_served(self, name: str) -> bool:
        """Return True if the server answers, and has every change that this thread can see."""
        if self._server is None or self._problem or not self._is_ready:
            return False
        with self._local.reading():
            sql = f"SELECT 1 FROM {name}_unsent LIMIT 1"
            return next(iter(self._reader().execute(sql)), None) is None

    def status(self, name: str) -> ServerStatus:
        """Return the state of the server, with the number of chunks that it lacks."""
        waiting = int(next(iter(self._reader().execute(f"SELECT count(*) FROM {name}_unsent")))[0])
        state = "away" if self._problem else "in step" if self._is_ready and not waiting else "catching up"
        return ServerStatus(self._title, state, waiting, self._problem)

    def _run(self, name: str, dimension: int, batch: Batch) -> None:
        while not self._stopping.is_set():
            try:
                self._reach(name, dimension, batch)
                while not self._stopping.is_set():
                    while not self._stopping.is_set() and self._send_some(name, batch):
                        pass
                    self._wake.wait()
                    self._wake.clear()
                    if self._problem:
                        break  # a question found it away
            except _OtherIndex:
                continue
            except NotFound:
                self._away(f"{self._title} has lost its copy, which is made again")
            except (StoreError, ImportError) as error:
                self._away(str(error))
            except apsw.Error as error:  # the index is exchanged, or busy
                self._away(f"the index cannot be read now ({type(error).__name__})")
            except Exception as error:  # the boundary of this thread: it lives on
                self._away(f"{self._title} failed ({type(error).__name__})")
            self._leave()
            self._stopping.wait(AGAIN_S)
        self._leave()

    def _reach(self, name: str, dimension: int, batch: Batch) -> None:
        """Connect, and fill the server anew where its copy is not what was brought to it last."""
        assert self._link is not None
        self._is_ready = self._is_compared = False
        server = self._server or self._link.reach()
        self._server = server
        try:
            server.ensure_collection(self._link.copy, dimension)
            has = server.mark(self._link.copy)
        except StoreBusy:
            raise
        except StoreError:  # made for another model
            server.drop(self._link.copy)
            server.ensure_collection(self._link.copy, dimension)
            has = ""
        for field, is_number in self._fields.items():
            server.ensure_payload_index(self._link.copy, field, is_number=is_number)
        with batch():
            known = self._sent(name)
            in_step = known.stamp == self._stamp(name) and has in {
                f"{known.filled}:{known.sent}",
                f"{known.filled}:{known.sent + 1}",
            }
        if not in_step:
            self._fill(name, dimension, batch)
        self._problem = ""

    def _fill(self, name: str, dimension: int, batch: Batch) -> None:
        """Empty the server's copy and list every point of the index for it."""
        assert self._link is not None
        assert self._server is not None
        copy, filled = self._link.copy, os.urandom(8).hex()
        self._server.drop(copy)
        self._server.ensure_collection(copy, dimension)
        for field, is_number in self._fields.items():
            self._server.ensure_payload_index(copy, field, is_number=is_number)
        with batch():
            self._writer().execute(f"DELETE FROM {name}_unsent")
            self._writer().execute(f"INSERT INTO {name}_unsent(id) SELECT id FROM {name}_point")
            self._writer().execute(
                f"UPDATE {name}_served SET filled = ?, sent = 0, stamp = ?",
                (filled, self._stamp(name)),
            )
        self._server.bring(copy, [], [], f"{filled}:0")

    def _send_some(self, name: str, batch: Batch) -> bool:
        """Bring some of the list to the server; False where there was nothing to bring.

        Points are read after the list was: one that changed meanwhile is listed anew, and comes again.
        """
        assert self._link is not None
        assert self._server is not None
        copy = self._link.copy
        with batch():
            sql = f"SELECT change, id FROM {name}_unsent ORDER BY change LIMIT ?"
            taken = list(self._writer().execute(sql, (SENT_AT_ONCE,)))
            known = self._sent(name)
        if not known.filled:
            raise _OtherIndex
        if not self._server.mark(copy).startswith(f"{known.filled}:"):
            raise NotFound("the copy is of another index")
        if not taken:
            self._is_ready = False  # a question would be slow until then, and break the build off
            if known.erase:
                self._server.compact(copy)
                with batch():
                    self._writer().execute(f"UPDATE {name}_served SET erase = max(0, erase - ?)", (known.erase,))
                return True  # where it erased by removing all, it is to be filled
            self._server.keep_columns(copy, batch)
            if not self._is_compared:
                self._is_compared = self._compare(name, batch)
                if not self._is_compared:
                    return True
            self._is_ready = True
            return False
        ids = [point_id for _, point_id in taken]
        points = self._local.get(name, ids)
        gone = set(ids) - {point.id for point in points}
        self._server.bring(copy, points, gone, f"{known.filled}:{known.sent + 1}")
        with batch():
            if self._sent(name).filled == known.filled:
                self._writer().executemany(
                    f"DELETE FROM {name}_unsent WHERE change = ?",
                    [(change,) for change, _ in taken],
                )
                self._writer().execute(f"UPDATE {name}_served SET sent = ?", (known.sent + 1,))
        return True

    def _compare(self, name: str, batch: Batch) -> bool:
        """Compare the server's copy with the index: how many points, and some of them word by word.

        False where the index changed meanwhile. Raises NotFound where it is to be filled again, StoreError where that
        was no help.
        """
        assert self._link is not None
        assert self._server is not None
        sql = f"SELECT id FROM {name}_point WHERE row % (1 + (SELECT count(*) FROM {name}_point) / ?) = 0 LIMIT ?"
        ids = [point_id for (point_id,) in self._reader().execute(sql, (COMPARED, COMPARED))]
        here, there = self._local.get(name, ids), self._server.get(self._link.copy, ids)
        is_alike = len(here) == len(there) and all(map(_is_copy, here, there))
        if is_alike and self._server.count(self._link.copy) == self._local.count(name):
            return True
        if next(iter(self._reader().execute(f"SELECT 1 FROM {name}_unsent LIMIT 1")), None) is not None:
            return False
        if self._is_filled_again:
            raise StoreError(f"{self._title} gives back other chunks than it was given")
        self._is_filled_again = True
        with batch():
            self._writer().execute(f"UPDATE {name}_served SET stamp = -1")
        raise NotFound("the copy is not that of the index")

    @property
    def _title(self) -> str:
        return self._link.title if self._link else "the server"

    def _away(self, problem: str) -> None:
        if self._logged != problem and not self._stopping.is_set():
            logger.warning("%s", problem)
        self._problem = self._logged = problem

    def _leave(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            with suppress(Exception):
                server.close()

    def _ask(
        self, name: str, where: Filter, call: Callable[[SearchServer, str], Answer], alone: Callable[[], Answer]
    ) -> Callable[[], Answer]:
        """Ask the server; return a function that waits for its answer, or asks the index.

        The index is asked where a filter leaves few, or the server lacks a change or does not answer.
        """
        server, link, asking = self._server, self._link, self._asking
        if server is None or link is None or asking is None or not self.is_served(name):
            return alone
        points, left = self._local.count_under(name, where)
        if points > OF_MANY and left < FEW * points:
            return alone
        answer = asking.submit(call, server, link.copy)

        def wait() -> Answer:
            try:
                return answer.result(ANSWERS_IN_S)
            except Late:
                self._away(f"{link.title} is too slow")
                server.abort()
            except Exception as error:  # the boundary of what is no part of this process: the index answers
                self._away(str(error) if isinstance(error, StoreError) else f"{link.title}: {type(error).__name__}")
            self._wake.set()
            return alone()

        return wait

    # ---- notes in the index

    def _sent(self, name: str) -> _Sent:
        sql = f"SELECT filled, sent, stamp, erase FROM {name}_served"
        return _Sent(*next(iter(self._writer().execute(sql))))

    def _stamp(self, name: str) -> int:
        sql = "SELECT stamp FROM collection WHERE name = ?"
        return int(next(iter(self._writer().execute(sql, (name,))))[0])

    def _list(self, name: str, ids: Collection[str], before: int) -> None:
        """List changed points, in the owner's transaction, unless changes before these were not listed."""
        connection = self._writer()
        sql = f"INSERT OR REPLACE INTO {name}_unsent(id) VALUES(?)"
        connection.executemany(sql, [(point_id,) for point_id in ids])
        sql = f"UPDATE {name}_served SET stamp = ? WHERE stamp = ?"
        connection.execute(sql, (self._stamp(name), before))
        self._wake.set()

    # ---- the engine

    def capabilities(self) -> Capabilities:
        """Both ways of searching; on the server in one request while that answers."""
        if self._link is None:
            return Capabilities(vector=True)
        note = f"found on this machine alone: {self._problem}" if self._problem else ""
        return Capabilities(vector=True, server_side_hybrid=not note, note=note)

    def ensure_collection(self, name: str, dimension: int) -> None:
        """Make the collection, and its list, if it is not there."""
        self._local.ensure_collection(name, dimension)
        self._writer().execute(LAYOUT.format(name=name))

    def ensure_payload_index(self, name: str, field: str, *, is_number: bool = False) -> None:
        """Make filters on the payload field fast, here and on the server."""
        self._local.ensure_payload_index(name, field)
        self._fields[field] = is_number

    def upsert(self, name: str, points: Sequence[Point]) -> None:
        """Write points, and list them."""
        before = self._stamp(name)
        self._local.upsert(name, points)
        self._list(name, [point.id for point in points], before)

    def set_vectors(self, name: str, vectors: Mapping[str, Vector]) -> None:
        """Give vectors to points that are there, and list these."""
        before = self._stamp(name)
        self._local.set_vectors(name, vectors)
        self._list(name, list(vectors), before)

    def delete(self, name: str, ids: Collection[str]) -> None:
        """Remove points, and list them."""
        before = self._stamp(name)
        self._local.delete(name, ids)
        self._list(name, ids, before)

    def commit(self, name: str) -> None:
        """Do nothing: the transaction is the owner's."""

    def rollback(self, name: str) -> None:
        """Do nothing: the transaction is the owner's."""

    def mark(self, name: str) -> str:
        """Return "": the owner's transaction covers all that is here."""
        return ""

    def compact(self, name: str) -> None:
        """Remove the last traces of removed points here, and have the server do so as soon as it answers."""
        self._local.compact(name)
        self._writer().execute(f"UPDATE {name}_served SET erase = erase + 1")
        self._is_ready = False  # until then the index answers, and `status` says so
        self._wake.set()

    def keep_columns(self, name: str, batch: Batch) -> bool:
        """Get the index ready to answer."""
        return self._local.keep_columns(name, batch)

    def reading(self) -> AbstractContextManager[None]:
        """Let all that this thread reads from the index inside see one state of it."""
        return self._local.reading()

    def search_vector(self, name: str, vector: Vector, limit: int, where: Filter = ()) -> list[Match]:
        """Return the nearest points by cosine."""
        return self._ask(
            name,
            where,
            lambda server, copy: server.search_vector(copy, vector, limit, where),
            lambda: self._local.search_vector(name, vector, limit, where),
        )()

    def search_keyword(self, name: str, terms: Sequence[str], limit: int, where: Filter = ()) -> list[Match]:
        """Return the best points by bm25 over any of the terms."""
        return self._ask(
            name,
            where,
            lambda server, copy: server.search_keyword(copy, terms, limit, where),
            lambda: self._local.search_keyword(name, terms, limit, where),
        )()

    def search_hybrid(
        self, name: str, terms: Sequence[str], vector: Vector, limit: int, filters: Sequence[Filter] = ((),)
    ) -> list[Hybrid]:
        """Search in both ways; where the index answers for a filter, it does so while the server works on others."""

        def by_server(where: Filter, server: SearchServer, copy: str) -> list[Hybrid]:
            return server.search_hybrid(copy, terms, vector, limit, [where])

        alone = partial(self._local.search_hybrid, name, terms, vector, limit)
        waiting = [self._ask(name, where, partial(by_server, where), partial(alone, [where])) for where in filters]
        # The narrow filters, which the index answers, come after the question's own, which the server works on.
        return [found for wait in reversed(waiting) for found in wait()][::-1]

    def cosines(self, name: str, vector: Vector, ids: Collection[str]) -> dict[str, float]:
        """Return the cosines of these points, of which the index has the vectors."""
        return self._local.cosines(name, vector, ids)

    def fields(self, name: str, ids: Collection[str], fields: Sequence[str]) -> dict[str, tuple[Payload, ...]]:
        """Return some payload fields of these points, from the index."""
        return self._local.fields(name, ids, fields)

    def get(self, name: str, ids: Sequence[str]) -> list[Point]:
        """Return the points that are there, from the index."""
        return self._local.get(name, ids)

    def count(self, name: str) -> int:
        """Return the number of points in the collection."""
        return self._local.count(name)


def _is_copy(mine: Point, theirs: Point) -> bool:
    """Return True if a server's point is that of the index, but for digits of its vector."""
    texts_and_fields = [(one.id, one.text, one.context, _plain(one)) for one in (mine, theirs)]
    is_alike = texts_and_fields[0] == texts_and_fields[1]
    if mine.vector is None or theirs.vector is None:
        return is_alike and mine.vector is theirs.vector
    length = float(np.linalg.norm(mine.vector) * np.linalg.norm(theirs.vector))
    return is_alike and float(mine.vector @ theirs.vector) >= (1 - KEPT_TO) * length


def _plain(point: Point) -> dict[str, object]:
    """Return a payload in which several texts are a list, whatever the engine has them in."""
    return {field: list(value) if isinstance(value, tuple) else value for field, value in point.payload.items()}


def read_dsn(file: Path) -> str:
    """Return where a server is and how to sign in, from a file. Raises StoreError if that is of no use."""
    try:
        mode, dsn = file.stat().st_mode, file.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        raise StoreError(f"there is no file {file}, which has to say where the server is") from None
    except (OSError, UnicodeDecodeError):
        raise StoreError(f"the file {file}, which has to say where the server is, cannot be read") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise StoreError(f"the file {file} may be read by others: `chmod 600` it")
    return dsn


def engine_of(dsn_file: Path) -> str:
    """Return the engine of the server that a file names. Raises StoreError if the file is of no use."""
    return "qdrant" if read_dsn(dsn_file).startswith(("http://", "https://")) else "postgres"


def reach(backend: str, dsn_file: Path) -> SearchServer:
    """Make the engine of a server from the file that says where it is. Raises StoreError if the file is of no use."""
    dsn = read_dsn(dsn_file)
    if backend == "postgres":
        from .postgres import PostgresStore

        return PostgresStore(dsn, search_s=ANSWERS_IN_S)
    if backend == "qdrant":
        from .qdrant import connect

        return connect(dsn, ANSWERS_IN_S)
    raise StoreError(f"there is no engine {backend}")
