"""Vectors by what they are of: a text that was embedded once is not embedded again, whatever becomes of the index."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from ..keep.database import Migration, open_database, transaction
from ..model import Corrupt, SchemaTooNew
from .backends.seam import Vector

MIGRATIONS = (
    Migration(
        "m001_embedding",
        """
        CREATE TABLE embedding(
            model TEXT NOT NULL, text_hash BLOB NOT NULL, vector BLOB NOT NULL, PRIMARY KEY(model, text_hash)
        ) WITHOUT ROWID;
        """,
    ),
)

ASKED_AT_ONCE = 500


class EmbeddingCache:
    """`embeddings.db`: (model, sha256 of the embedded text) to its float32 vector. Any thread may ask."""

    def __init__(self, path: Path, model_id: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._model_id = model_id
        self._lock = threading.Lock()
        try:
            self._connection = open_database(path, durable=False, migrations=MIGRATIONS)
        except (Corrupt, SchemaTooNew):  # no loss: what is missing is embedded again
            for suffix in ("", "-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            self._connection = open_database(path, durable=False, migrations=MIGRATIONS)

    def get_many(self, text_hashes: Collection[bytes]) -> dict[bytes, Vector]:
        """The vectors that are there."""
        found: dict[bytes, Vector] = {}
        wanted = list(text_hashes)
        with self._lock:
            for start in range(0, len(wanted), ASKED_AT_ONCE):
                some = wanted[start : start + ASKED_AT_ONCE]
                sql = (
                    "SELECT text_hash, vector FROM embedding WHERE model = ?"
                    f" AND text_hash IN ({', '.join('?' * len(some))})"
                )
                for text_hash, blob in self._connection.execute(sql, (self._model_id, *some)):
                    found[text_hash] = np.frombuffer(blob, np.float32)
        return found

    def put_many(self, vectors: Mapping[bytes, Vector]) -> None:
        """Keep vectors."""
        rows = [(self._model_id, text_hash, vector.tobytes()) for text_hash, vector in vectors.items()]
        with self._lock, transaction(self._connection):
            self._connection.executemany("INSERT OR REPLACE INTO embedding VALUES(?, ?, ?)", rows)

    def prune(self, kept: Collection[bytes]) -> int:
        """Drop every vector of a text that is not kept, and those of other models; return how many."""
        with self._lock, transaction(self._connection):
            self._connection.execute("CREATE TEMP TABLE kept(text_hash BLOB PRIMARY KEY) WITHOUT ROWID")
            self._connection.executemany("INSERT OR IGNORE INTO kept VALUES(?)", [(item,) for item in kept])
            self._connection.execute(
                "DELETE FROM embedding WHERE model != ? OR text_hash NOT IN (SELECT text_hash FROM kept)",
                (self._model_id,),
            )
            dropped = self._connection.changes()
            self._connection.execute("DROP TABLE kept")
        return dropped

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._connection.close()
