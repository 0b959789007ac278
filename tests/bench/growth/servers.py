"""Postgres with large memories: `python -m tests.bench.growth.servers [--sizes 100000 1000000] [--daemons 8]`.

The server is filled as the store does it; then processes ask it together, each through the store's own search with the
index of this machine beside it. What they find is compared with what sqlite-vec finds in that index.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import NamedTuple

import psutil
from dreamd.daemon.clock import utc_now
from dreamd.store import embedder_for
from dreamd.store.embedding.embedding import Embedder
from dreamd.store.engine import served
from dreamd.store.engine.database import Connections, open_database, transaction
from dreamd.store.engine.postgres import PostgresStore
from dreamd.store.engine.served import ServedStore, ServerLink
from dreamd.store.engine.sqlite_vec import SqliteVecStore
from dreamd.store.index.catalog import MIGRATIONS, Catalog
from dreamd.store.index.index import COLLECTION, NUMBERS, PAYLOAD_INDEXES
from dreamd.store.search.question import Question
from dreamd.store.search.search import Search
from dreamd.store.settings import EmbeddingSettings, SearchSettings

from ...servers import PostgresServer
from ..options import Options
from ..scratch import own_folder
from ..table import Row, report, say
from .memories import CHANNEL, Grown, memory
from .overlap import TOP
from .sentences import Sentences, questions
from .suite import KEPT, SEED, short

COMPARED, ASKED_EACH, WARMING = 100, 60, 10
ROOM = "shared_buffers=512MB", "max_wal_size=4GB", "max_connections=100"


class Asked(NamedTuple):
    """What one process was answered: seconds a question, those that the server answered, and what was found.

    `used_s`: the processor time of the server's processes for it.
    """

    took_s: list[float]
    served: int
    best: list[list[str]]
    used_s: float


def main() -> int:
    """Take the rows; exit with 1 when one is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--daemons", type=int, default=8, help="processes that ask together")
    parser.add_argument("--kept", type=Path, default=KEPT, help="where the memories are kept")
    parser.add_argument(
        "--patience-s", type=float, default=served.ANSWERS_IN_S, help="a question's wait for the server"
    )
    parser.add_argument("--ask", nargs=2, metavar=("INDEX", "DSN"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    setattr(served, "ANSWERS_IN_S", given.patience_s)  # noqa: B010
    if given.ask:
        asked = _ask(Path(given.ask[0]), given.ask[1], _embedder(given.kept), json.load(sys.stdin))
        print(json.dumps(asked))
        return 0
    return report(_rows(given.sizes, given.daemons, given.kept))


def _rows(sizes: Sequence[int], daemons: int, kept: Path) -> Iterator[Row]:
    embedder = _embedder(kept)
    data = Options().data
    sentences = Sentences(data, embedder, kept)
    with own_folder("servers") as scratch:
        for size in sizes:
            grown = memory(size, sentences, embedder, kept)
            asked = questions(COMPARED + daemons * ASKED_EACH, data, scratch, sentences, random.Random(SEED))
            yield from _of(grown, daemons, embedder, asked, kept)


def _of(grown: Grown, daemons: int, embedder: Embedder, asked: Sequence[str], kept: Path) -> Iterator[Row]:
    named = f"Postgres, {short(grown.size)}"
    index = grown.paths.index.resolve()
    with ExitStack() as stack:
        server = PostgresServer(*ROOM)
        stack.callback(server.close)
        fill_s, build_s = _filled(index, server.dsn, embedder.dimension)
        [(table, near, whole)] = server.ask(
            "SELECT pg_relation_size(c.oid), coalesce(pg_relation_size(to_regclass('dreamd.grown_near')), 0),"
            " pg_total_relation_size(c.oid) FROM pg_class c WHERE c.oid = 'dreamd.grown'::regclass"
        )
        yield Row(
            f"{named}: filled",
            f"{grown.size / fill_s:,.0f} chunks/s, HNSW in {build_s:.0f} s",
            "",
            None,
            f"{whole / grown.size:,.0f} bytes a chunk: table {table / grown.size:,.0f}, HNSW {near / grown.size:,.0f}",
        )
        one = _processes(1, index, server.dsn, asked[:COMPARED], kept)[0]
        with _search(index, embedder, None) as (search, _):
            alone = [_best(search, question) for question in asked[:COMPARED]]
        overlap = fmean(
            len({*left} & {*right}) / max(1, len(right)) for left, right in zip(one.best, alone, strict=True)
        )
        yield Row(
            f"{named}: ten best of sqlite-vec",
            f"{overlap:.3f}",
            "≥ .95",
            overlap >= 0.95,
            f"mean share over {COMPARED} questions, {one.served} of them answered by the server, in"
            f" {1e3 * one.used_s / COMPARED:.0f} ms of its processor each",
        )
        together = _processes(daemons, index, server.dsn, asked[COMPARED:], kept)
    for label, many in (("one asks", [one]), (f"{daemons} ask together", together)):
        took = [s for each in many for s in each.took_s[WARMING:]]
        count = sum(len(each.took_s) for each in many)
        yield Row(
            f"{named}: recall, {label}",
            f"p50 {1e3 * median(took):.0f} ms, p95 {1e3 * quantiles(took, n=20)[-1]:.0f} ms",
            "",
            None,
            f"{len(took)} distinct questions with their embedding; the server answered {sum(m.served for m in many)}"
            f" of {count}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        )


def _embedder(kept: Path) -> Embedder:
    embedder = embedder_for(EmbeddingSettings(threads=1), kept / "models")
    embedder.start()
    embedder.wait()
    return embedder


def _filled(index: Path, dsn: str, dimension: int) -> tuple[float, float]:
    """Fill the server with an index; return the seconds of that, and of building HNSW."""
    took: list[float] = []

    class Timed(PostgresStore):
        def keep_columns(self, *given: object) -> bool:
            took.append(time.perf_counter())
            done = super().keep_columns(*given)  # type: ignore[arg-type]  # as given
            took.append(time.perf_counter())
            return done

    began = time.perf_counter()
    with _opened(index, lambda: Timed(dsn)) as store:
        _wait_until_served(store, dimension, index)
    return took[0] - began, took[1] - took[0]


def _wait_until_served(store: ServedStore, dimension: int, index: Path) -> None:
    began = last = time.monotonic()
    while not store.is_served(COLLECTION):
        time.sleep(0.2)
        if time.monotonic() - last > 60:
            last = time.monotonic()
            say(f"{index.parent.parent.parent.name}: filling since {last - began:.0f} s; {store.capabilities().note}")


@contextmanager
def _opened(index: Path, reach: object) -> Iterator[ServedStore]:
    with ExitStack() as stack:
        connect = partial(open_database, index, durable=False, migrations=MIGRATIONS)
        readers = Connections(lambda: connect(read_only=True))
        stack.callback(readers.close)
        writer = connect()
        stack.callback(writer.close)
        local = SqliteVecStore(lambda: writer, readers.get)
        store = ServedStore(local, lambda: writer, readers.get)
        dimension = int(next(iter(writer.execute("SELECT dimension FROM collection")))[0])
        with transaction(writer):
            store.ensure_collection(COLLECTION, dimension)
        for field in PAYLOAD_INDEXES:
            store.ensure_payload_index(COLLECTION, field, is_number=field in NUMBERS)
        if reach is not None:
            link = ServerLink("Postgres", "grown", reach)  # type: ignore[arg-type]  # a class of it
            store.start(COLLECTION, dimension, lambda: transaction(writer), link)
            stack.callback(store.stop)
        else:
            store.keep_columns(COLLECTION, lambda: transaction(writer))
        yield store


@contextmanager
def _search(index: Path, embedder: Embedder, dsn: str | None) -> Iterator[tuple[Search, ServedStore]]:
    reach = None if dsn is None else partial(PostgresStore, dsn, search_s=served.ANSWERS_IN_S)
    with _opened(index, reach) as store, ExitStack() as stack:
        readers = Connections(lambda: open_database(index, durable=False, read_only=True))
        stack.callback(readers.close)
        search = Search(Catalog(readers.get), store, embedder, SearchSettings(), utc_now)
        stack.callback(search.close)
        if dsn is not None:
            _wait_until_served(store, embedder.dimension, index)
        yield search, store


def _processes(count: int, index: Path, dsn: str, asked: Sequence[str], kept: Path) -> list[Asked]:
    """Have processes ask together, each its own share of the questions."""
    patience = str(served.ANSWERS_IN_S)
    command = [sys.executable, "-m", __spec__.name, "--kept", str(kept), "--patience-s", patience]
    command += ["--ask", str(index), dsn]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(count)
    ]
    for place, process in enumerate(running):
        assert process.stdin is not None
        process.stdin.write(json.dumps(asked[place::count]))
        process.stdin.close()
    found = []
    for process in running:
        assert process.stdout is not None
        found.append(Asked(*json.loads(process.stdout.read())))
        process.wait()
    return found


def _ask(index: Path, dsn: str, embedder: Embedder, asked: Sequence[str]) -> Asked:
    took, by_server, best = [], 0, []
    with _search(index, embedder, dsn) as (search, store):
        before_s = _used_s(dsn)
        for question in asked:
            began = time.perf_counter()
            best.append(_best(search, question))
            took.append(time.perf_counter() - began)
            by_server += store.is_served(COLLECTION)
        used_s = _used_s(dsn) - before_s
    return Asked(took, by_server, best, used_s)


def _used_s(dsn: str) -> float:
    """Return the processor time of all that runs in the server's folder; a process that ended takes its own along."""
    folder = dsn.split()[0].removeprefix("host=")
    times = [
        process.info["cpu_times"]
        for process in psutil.process_iter(["cwd", "cpu_times"])
        if (process.info["cwd"] or "").startswith(folder)
    ]
    return float(sum(each.user + each.system for each in times))


def _best(search: Search, question: str) -> list[str]:
    ranking = search.rank(Question(text=question, limit=TOP, channel=CHANNEL))
    return [candidate.unit for candidate in ranking.candidates[:TOP]]


if __name__ == "__main__":
    sys.exit(main())
