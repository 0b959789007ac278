"""Caches of vectors: every embedded text's in a database that outlives the index, and past questions' in memory."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import apsw
import numpy as np

from ..engine.database import MAY_PASS, Migration, empty_wal, open_database, transaction
from ..engine.interface import Vector
from ..model import Corrupt, SchemaTooNew, StoreBusy
from ..settings import QueryCacheSettings
from ..text.words import normal_form
from .embedding import Embedder

logger = logging.getLogger(__name__)

MIGRATIONS = (
    Migration(
        "m001_embedding",
        """
        CREATE TABLE embedding(
            model TEXT NOT NULL, text_hash BLOB NOT NULL, vector BLOB NOT NULL, PRIMARY KEY(model, text_hash)
        ) WITHOUT ROWID;
        """,
    ),
    # A vector lies for the most part in overflow pages, which have no structure that SQLite could check.
    Migration("m002_checksum", "ALTER TABLE embedding ADD COLUMN crc INTEGER"),
)

ASKED_AT_ONCE = 500

PASSING = (*MAY_PASS, apsw.FullError, apsw.ReadOnlyError, apsw.BusyError, apsw.LockedError)
"""The errors of the disk or of another process, which say nothing about the file."""

_GOES_ON = "It is tried again; what is kept there can be made again."

T = TypeVar("T")


class EmbeddingCache:
    """`embeddings.db`: (model, sha256 of the embedded text) to its float32 vector. Any thread may ask.

    A damaged row counts as missing; a damaged file is dropped, and another begun. Nothing is lost: a missing vector is
    computed again.
    """

    def __init__(self, path: Path, model_id: str) -> None:
        self._path = path
        self._model_id = model_id
        self._lock = threading.Lock()
        self._connection: apsw.Connection | None = None
        with contextlib.suppress(StoreBusy):  # it is opened when it is asked
            self._run(lambda _: None)

    def get_many(self, text_hashes: Collection[bytes]) -> dict[bytes, Vector]:
        """Return the vectors that are there."""
        # SQLite bounds the number of parameters of one statement.
        wanted = list(text_hashes)
        found: dict[bytes, Vector] = {}
        for start in range(0, len(wanted), ASKED_AT_ONCE):
            some = wanted[start : start + ASKED_AT_ONCE]
            found |= self._run(partial(self._get, some)) or {}
        return found

    def put_many(self, vectors: Mapping[bytes, Vector], made_by: str | None = None) -> None:
        """Keep vectors, of the cache's own model or of another."""
        blobs = {text_hash: vector.tobytes() for text_hash, vector in vectors.items()}
        rows = [(made_by or self._model_id, text_hash, blob, zlib.crc32(blob)) for text_hash, blob in blobs.items()]
        self._run(partial(self._put, rows))

    def prune(self, kept: Collection[bytes]) -> int:
        """Drop every vector of a text that is not kept, and those of other models; return how many."""
        return self._run(partial(self._prune, kept)) or 0

    def compact(self) -> None:
        """Leave nothing on the disk of the vectors that were dropped."""
        self._run(self._compact)

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._leave()

    def _get(self, text_hashes: list[bytes], connection: apsw.Connection) -> dict[bytes, Vector]:
        sql = (
            "SELECT text_hash, vector, crc FROM embedding WHERE model = ?"
            f" AND text_hash IN ({', '.join('?' * len(text_hashes))})"
        )
        return {
            text_hash: np.frombuffer(blob, np.float32)
            for text_hash, blob, crc in connection.execute(sql, (self._model_id, *text_hashes))
            if crc is None or crc == zlib.crc32(blob)
        }

    def _put(self, rows: list[tuple[str, bytes, bytes, int]], connection: apsw.Connection) -> None:
        with transaction(connection):
            connection.executemany("INSERT OR REPLACE INTO embedding VALUES(?, ?, ?, ?)", rows)

    def _prune(self, kept: Collection[bytes], connection: apsw.Connection) -> int:
        with transaction(connection):
            # A table, since the kept hashes may be more than one statement takes.
            connection.execute("CREATE TEMP TABLE kept(text_hash BLOB PRIMARY KEY) WITHOUT ROWID")
            connection.executemany("INSERT OR IGNORE INTO kept VALUES(?)", [(item,) for item in kept])
            connection.execute(
                "DELETE FROM embedding WHERE model != ? OR text_hash NOT IN (SELECT text_hash FROM kept)",
                (self._model_id,),
            )
            dropped = connection.changes()
            connection.execute("DROP TABLE kept")
        return dropped

    @staticmethod
    def _compact(connection: apsw.Connection) -> None:
        # A deleted row stays in free pages and in the write-ahead log until both are rewritten.
        connection.execute("VACUUM")
        empty_wal(connection)

    def _run(self, work: Callable[[apsw.Connection], T]) -> T | None:
        """Run work on the database; None where the file turned out damaged, which is then replaced by an empty one.

        Raises StoreBusy where it cannot be read or written at the moment; it is opened again the next time.
        """
        with self._lock:
            try:
                return self._done(work)
            except (*PASSING, OSError) as error:
                self._leave()
                raise StoreBusy(f"{self._path.name} cannot be used at the moment", hint=_GOES_ON) from error

    def _done(self, work: Callable[[apsw.Connection], T]) -> T | None:
        try:
            return work(self._opened())
        except (apsw.CorruptError, apsw.NotADBError) as error:
            self._drop(error)
            self._opened()
            return None

    def _opened(self) -> apsw.Connection:
        if self._connection is None:
            try:
                self._connection = self._open()
            except (Corrupt, SchemaTooNew) as error:
                self._drop(error)
                self._connection = self._open()
        return self._connection

    def _open(self) -> apsw.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return open_database(self._path, durable=False, migrations=MIGRATIONS)

    def _drop(self, error: Exception) -> None:
        logger.warning("the vectors that were kept are dropped (%s); they are made again", type(error).__name__)
        self._leave()
        # A log without its database would be replayed into the next one.
        for suffix in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)

    def _leave(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(apsw.Error):  # a disk that fails fails its last write too
                connection.close(True)


Value = TypeVar("Value")


class Recent(Generic[Value]):
    """The `most` values that were used last, with a count of hits and misses. Any thread may ask."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = threading.Lock()
        self.hits = self.misses = self.cleared = 0

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self._held)

    def get(self, key: Hashable) -> Value | None:
        """Return the value of a key, which is then the last that was used."""
        with self._lock:
            value = self._held.get(key)
            if value is None:
                self.misses += 1
            else:
                self.hits += 1
                self._held.move_to_end(key)
            return value

    def put(self, key: Hashable, value: Value) -> None:
        """Add a value, and drop the least recently used beyond the most."""
        with self._lock:
            self._held[key] = value
            self._held.move_to_end(key)
            while len(self._held) > self._most:
                self._held.popitem(last=False)

    def clear(self) -> None:
        """Drop all values."""
        with self._lock:
            self._held.clear()
            self.cleared += 1


_MARKS = re.compile(r"[^\w\s.,;:!?'’\"()-]")  # what may be a part of a name: C++ and C# are not C


def form_of(text: str) -> tuple[str, ...]:
    """Return the form of a question: two of the same form ask the same."""
    return (*normal_form(text), *_MARKS.findall(text)) or (text,)


class QueryVectors:
    """Embeds a question once: its vector is kept by its form and by the id of its model."""

    def __init__(self, embedder: Embedder, settings: QueryCacheSettings) -> None:
        self._embedder, self.held = embedder, Recent[Vector](settings.entries)

    def embed_query(self, text: str) -> Vector:
        """Return the vector of a question. Raises ModelUnavailable."""
        form = form_of(text)
        if (vector := self.held.get((form, self._embedder.made_by))) is None:
            vector = self._embedder.embed_query(text)
            self.held.put((form, self._embedder.made_by), vector)  # asked again: the model may be another by now
        return vector
