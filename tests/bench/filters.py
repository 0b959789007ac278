"""Suite `filters`: ten thousand random filters in every engine and the catalogue, against plain Python."""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from dreamd.store.engine.interface import VectorStore
from dreamd.store.engine.postgres import PostgresStore

from tests.random_filters import engines, lets_through, normalised, random_filter, random_node

from ..servers import PostgresServer, qdrant_store
from .options import Options
from .table import Row

FILTERS, QUICK_FILTERS = 10_000, 500
MEMORIES = 150
SEED = 2026


def measure(options: Options) -> Iterator[Row]:
    """Yield one row an engine: the filters of which it lets through something else than it should."""
    rng = random.Random(SEED)
    nodes = [random_node(rng, number) for number in range(MEMORIES)]
    count = QUICK_FILTERS if options.quick else FILTERS
    wrong: Counter[str] = Counter()
    spent_s: dict[str, float] = defaultdict(float)
    with TemporaryDirectory() as folder, _servers() as servers, engines(Path(folder), nodes, **servers) as each:
        for _ in range(count):
            given = random_filter(rng)
            expected = {node.node_id for node in nodes if lets_through(given, node)}
            where = normalised(given)
            began = time.perf_counter()
            for engine, found in each.found(where):
                wrong[engine] += found != expected
                spent_s[engine] += time.perf_counter() - began
                began = time.perf_counter()
    for engine in wrong:
        ms = 1e3 * spent_s[engine] / count
        yield Row(
            f"filters: {engine}",
            f"{wrong[engine]} of {count:,} differ ({ms:.2f} ms each, {MEMORIES} memories)",
            "0 differ",
            wrong[engine] == 0,
            f"{count:,} random filters of the wire (nested groups, every field and test, nulls, unknown and several "
            f"values) over {MEMORIES} random memories, seed {SEED}, each against plain Python",
        )


@contextmanager
def _servers() -> Iterator[dict[str, VectorStore]]:
    """Start the engines that are servers: Postgres where it can be had, Qdrant as the client's own where none is."""
    with ExitStack() as stack:
        servers: dict[str, VectorStore] = {"Qdrant": stack.enter_context(qdrant_store())}
        with suppress(pytest.skip.Exception):
            server = PostgresServer()
            stack.callback(server.close)
            servers["Postgres"] = store = PostgresStore(server.dsn, search_s=30.0)
            stack.callback(store.close)
        yield servers
