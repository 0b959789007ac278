"""Postgres with large memories: `python -m tests.bench.growth.servers [--sizes 100000 1000000] [--daemons 8]`.

The server is filled as the store does it; then processes ask it together, each through the store's own search with the
index of this machine beside it, so many questions a second in all (`--rate`). What one finds is compared with what
sqlite-vec finds in that index. Last the server is killed while they ask, and started again a while after.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import NamedTuple

import psutil
import psycopg
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
ROOM = "shared_buffers=4GB", "max_wal_size=8GB", "max_connections=200"
REWRITTEN = 300
"""Chunks that are written while the server is down."""


class Asked(NamedTuple):
    """What one process was answered: seconds from when each was due, how often the server was in step, the ten best.

    `used_s`: the processor time of the server's processes after the first WARMING, `own_s` that of its own.
    `in_step_s`: how long after its last answer the server had everything again.
    """

    took_s: list[float]
    served: int
    best: list[list[str]]
    used_s: float
    own_s: float
    in_step_s: float


def main() -> int:
    """Take the rows; exit with 1 when one is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--daemons", type=int, default=8, help="processes that ask together")
    parser.add_argument("--kept", type=Path, default=KEPT, help="where the memories are kept")
    parser.add_argument(
        "--patience-s", type=float, default=served.ANSWERS_IN_S, help="a question's wait for the server"
    )
    parser.add_argument("--rate", type=float, default=4.0, help="questions a second of all processes")
    parser.add_argument(
        "--dsn", help="a Postgres of this machine that is there, and is not killed, instead of one's own"
    )
    parser.add_argument("--ask", nargs=2, metavar=("INDEX", "DSN"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    setattr(served, "ANSWERS_IN_S", given.patience_s)  # noqa: B010
    if given.ask:
        print(json.dumps(_ask(Path(given.ask[0]), given.ask[1], _embedder(given.kept), given.rate)))
        return 0
    return report(_rows(given))


def _rows(given: argparse.Namespace) -> Iterator[Row]:
    kept, daemons = given.kept, given.daemons
    embedder = _embedder(kept)
    data = Options().data
    sentences = Sentences(data, embedder, kept)
    with own_folder("servers") as scratch:
        for size in given.sizes:
            grown = memory(size, sentences, embedder, kept)
            asked = questions(COMPARED + 2 * daemons * ASKED_EACH, data, scratch, sentences, random.Random(SEED))
            yield from _of(grown, embedder, asked, given)


def _of(grown: Grown, embedder: Embedder, asked: Sequence[str], given: argparse.Namespace) -> Iterator[Row]:
    named = f"Postgres, {short(grown.size)}"
    index = grown.paths.index.resolve()
    with ExitStack() as stack:
        dsn, server = given.dsn, None
        if dsn is None:
            server = PostgresServer(*ROOM)
            stack.callback(server.close)
            dsn = server.dsn
        yield from _filled(named, index, dsn, embedder.dimension)
        [one] = _processes(1, index, dsn, asked[:COMPARED], given)
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
            f"mean share over {COMPARED} questions, the server was in step at {one.served} of them",
        )
        yield _answered(f"{named}: recall, one asks", [one], "")
        middle = COMPARED + given.daemons * ASKED_EACH
        together = _processes(given.daemons, index, dsn, asked[COMPARED:middle], given)
        yield _answered(f"{named}: recall, {given.daemons} ask together", together, "p95 ≤ 60 ms")
        if server is not None:
            shaken = partial(_killed, server, index, embedder.dimension)
            yield _survived(named, _processes(given.daemons, index, dsn, asked[middle:], given, shaken))


def _answered(named: str, many: Sequence[Asked], target: str) -> Row:
    took = [s for each in many for s in each.took_s[WARMING:]]
    count = sum(len(each.took_s) for each in many)
    p95_s = quantiles(took, n=20)[-1]
    server_ms = 1e3 * fmean(each.used_s for each in many) / len(took)
    own_ms = 1e3 * sum(each.own_s for each in many) / len(took)
    return Row(
        named,
        f"p50 {1e3 * median(took):.0f} ms, p95 {1e3 * p95_s:.0f} ms",
        target,
        p95_s <= 0.06 if target else None,
        f"{len(took)} distinct questions with their embedding, each {server_ms:.0f} ms of a processor of the server and"
        f" {own_ms:.0f} of those who ask; the server was in step at {sum(m.served for m in many)} of {count};"
        f" {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
    )


def _killed(server: PostgresServer, index: Path, dimension: int) -> None:
    """Kill the server a while after the questions began, write, and start it again, all while they are asked."""
    time.sleep(5.0)
    server.stop()
    with _opened(index, lambda: PostgresStore(server.dsn)) as store:
        connection = open_database(index, durable=False)
        ids = [str(one) for (one,) in connection.execute(f"SELECT id FROM {COLLECTION}_point LIMIT {REWRITTEN}")]
        connection.close()
        store.upsert(COLLECTION, store.get(COLLECTION, ids))
        time.sleep(5.0)
        server.start()
        _wait_until_served(store, dimension, index)


def _survived(named: str, many: Sequence[Asked]) -> Row:
    took = [s for each in many for s in each.took_s]
    return Row(
        f"{named}: server killed while {len(many)} ask",
        f"{len(took)} of {len(many) * ASKED_EACH} answered, {len(took) - sum(one.served for one in many)} by the index",
        "all",
        len(took) == len(many) * ASKED_EACH and sum(len(one.best) for one in many) == len(took),
        f"{REWRITTEN} chunks written meanwhile; the longest answer took {max(took):.2f} s; the server had everything"
        f" again at most {max(one.in_step_s for one in many):.1f} s after the last question",
    )


def _embedder(kept: Path) -> Embedder:
    embedder = embedder_for(EmbeddingSettings(threads=1), kept / "models")
    embedder.start()
    embedder.wait()
    return embedder


def _filled(named: str, index: Path, dsn: str, dimension: int) -> Iterator[Row]:
    """Fill the server with an index, unless it has it, and say how long that took, and how large it is."""
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
        size = store.count(COLLECTION)
    with psycopg.connect(dsn) as connection:
        sizes = "SELECT pg_table_size('dreamd.grown'), coalesce(pg_relation_size(to_regclass('dreamd.grown_near')), 0),"
        sizes += " coalesce(pg_total_relation_size(to_regclass('dreamd.grown_lists')), 0),"
        sizes += " pg_total_relation_size('dreamd.grown')"
        table, near, lists, whole = connection.execute(sizes.encode()).fetchone() or (0, 0, 0, 0)
    yield Row(
        f"{named}: filled",
        f"{size / (took[0] - began):,.0f} chunks/s, indexes in {took[1] - took[0]:.0f} s",
        "",
        None,
        f"{(whole + lists) / size:,.0f} bytes a chunk: table {table / size:,.0f}, HNSW {near / size:,.0f}, lists of"
        f" words {lists / size:,.0f}, indexes of fields {(whole - table - near) / size:,.0f}",
    )


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
        store.keep_columns(COLLECTION, lambda: transaction(writer))  # as the daemon does
        if reach is not None:
            link = ServerLink("Postgres", "grown", reach)  # type: ignore[arg-type]  # a class of it
            store.start(COLLECTION, dimension, lambda: transaction(writer), link)
            stack.callback(store.stop)
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


def _processes(
    count: int,
    index: Path,
    dsn: str,
    asked: Sequence[str],
    given: argparse.Namespace,
    meanwhile: Callable[[], None] = lambda: None,
) -> list[Asked]:
    """Have processes ask together, each its own share of the questions, once all are ready."""
    command = [sys.executable, "-m", __spec__.name, "--kept", str(given.kept), "--patience-s", str(given.patience_s)]
    command += ["--rate", str(given.rate / count), "--ask", str(index), dsn]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(count)
    ]
    for process in running:
        assert process.stdout is not None
        process.stdout.readline()
    for place, process in enumerate(running):
        assert process.stdin is not None
        process.stdin.write(json.dumps([place / given.rate, asked[place::count]]))
        process.stdin.close()
    meanwhile()
    found = []
    for process in running:
        assert process.stdout is not None
        found.append(Asked(*json.loads(process.stdout.read())))
        process.wait()
    return found


def _ask(index: Path, dsn: str, embedder: Embedder, rate: float) -> Asked:
    """Say that this process is ready, and ask the questions of the input, so many a second."""
    took, by_server, best = [], 0, []
    with _search(index, embedder, dsn) as (search, store):
        print("ready", flush=True)
        after_s, asked = json.load(sys.stdin)
        before_s, own_s = _used_s(dsn), time.process_time()
        due = time.perf_counter() + after_s
        for number, question in enumerate(asked):
            if number == WARMING:
                before_s, own_s = _used_s(dsn), time.process_time()
            time.sleep(max(0.0, due - time.perf_counter()))
            best.append(_best(search, question))
            took.append(time.perf_counter() - due)
            by_server += store.is_served(COLLECTION)
            due += 1.0 / rate
        used_s, own_s = _used_s(dsn) - before_s, time.process_time() - own_s
        ended = time.monotonic()
        _wait_until_served(store, embedder.dimension, index)
        return Asked(took, by_server, best, used_s, own_s, time.monotonic() - ended)


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
