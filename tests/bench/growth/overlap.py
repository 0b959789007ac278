"""What bounded work misses: the ten best of recall, against those with every posting and every vector compared.

The vectors are compared by their floats then, not by the bytes that memory holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import fmean
from unittest.mock import patch

import apsw
import numpy as np
from dreamd.daemon.clock import utc_now
from dreamd.store.embedding.embedding import Embedder
from dreamd.store.engine import fts, sqlite_vec
from dreamd.store.engine.columns import Columns
from dreamd.store.engine.database import Connections, open_database, transaction
from dreamd.store.engine.interface import Vector
from dreamd.store.engine.vectors import Rows, unit
from dreamd.store.index.catalog import Catalog
from dreamd.store.index.index import COLLECTION
from dreamd.store.search.question import Question
from dreamd.store.search.search import Search
from dreamd.store.settings import SearchSettings
from numpy.typing import NDArray

from .memories import CHANNEL

TOP = 10
EVERYTHING = 10**9


def overlap_at_10(index: Path, embedder: Embedder, questions: Sequence[str]) -> float:
    """Return the mean share of the unbounded ten best that the bounded ten best hold."""
    with ExitStack() as stack:
        readers = Connections(lambda: open_database(index.resolve(), durable=False, read_only=True))
        stack.callback(readers.close)
        writer = open_database(index.resolve(), durable=False)
        stack.callback(writer.close)
        backend = sqlite_vec.SqliteVecStore(lambda: writer, readers.get)
        search = Search(Catalog(readers.get), backend, embedder, SearchSettings(), utc_now)
        stack.callback(search.close)
        backend.keep_columns(COLLECTION, lambda: transaction(writer))  # as the daemon does
        bounded = [_best(search, question) for question in questions]
        with _unbounded(_Floats(readers.get())):
            whole = [_best(search, question) for question in questions]
    return fmean(len(some & all_) / max(1, len(all_)) for some, all_ in zip(bounded, whole, strict=True))


def _best(search: Search, question: str) -> set[str]:
    ranking = search.rank(Question(text=question, limit=TOP, channel=CHANNEL))
    return {candidate.unit for candidate in ranking.candidates[:TOP]}


class _Floats:
    """The floats of every row, as the database has them."""

    def __init__(self, connection: apsw.Connection) -> None:
        ((rows,),) = connection.execute(f"SELECT coalesce(max(row), 0) + 1 FROM {COLLECTION}_point")
        self._vectors = None
        for row, floats in connection.execute(f"SELECT row, embedding FROM {COLLECTION}_vector"):
            vector = np.frombuffer(floats, np.float32)
            if self._vectors is None:
                self._vectors = np.zeros((rows, len(vector)), np.float32)
            self._vectors[row] = unit(vector)

    def cosines(self, rows: Rows, vector: Vector) -> NDArray[np.float32]:
        """Return the cosines of rows, all of which have a vector, as a store's columns do."""
        if self._vectors is None:
            return np.zeros(len(rows), np.float32)
        few = len(rows) * 4 < len(self._vectors)
        return np.asarray(self._vectors[rows] @ unit(vector) if few else (self._vectors @ unit(vector))[rows])


@contextmanager
def _unbounded(floats: _Floats) -> Iterator[None]:
    with (
        patch.object(Columns, "cosines", lambda _, rows, vector: floats.cosines(rows, vector)),
        patch.object(fts, "MAX_POSTINGS", EVERYTHING),
        patch.object(sqlite_vec, "RESCORED", EVERYTHING),
    ):
        yield
