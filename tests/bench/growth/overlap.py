"""What bounded work misses: the ten best of recall, against those with every posting and every vector compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import fmean
from unittest.mock import patch

from dreamd.daemon.clock import utc_now
from dreamd.store.embedding.embedding import Embedder
from dreamd.store.engine import fts, sqlite_vec
from dreamd.store.engine.database import Connections, open_database, transaction
from dreamd.store.index.catalog import Catalog
from dreamd.store.index.index import COLLECTION
from dreamd.store.search.question import Question
from dreamd.store.search.search import Search
from dreamd.store.settings import SearchSettings

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
        with _unbounded():
            whole = [_best(search, question) for question in questions]
    return fmean(len(some & all_) / max(1, len(all_)) for some, all_ in zip(bounded, whole, strict=True))


def _best(search: Search, question: str) -> set[str]:
    ranking = search.rank(Question(text=question, limit=TOP, channel=CHANNEL))
    return {candidate.unit for candidate in ranking.candidates[:TOP]}


@contextmanager
def _unbounded() -> Iterator[None]:
    with (
        patch.object(fts, "MAX_POSTINGS", EVERYTHING),
        patch.object(sqlite_vec, "RESCORED", EVERYTHING),
    ):
        yield
