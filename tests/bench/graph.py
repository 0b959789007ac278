"""A walk of two steps over 100,000 things and 500,000 relations: `python -m tests.bench.graph`.

The index alone, in memory; each thing has two names. Printed are the median and the 95th percentile of the milliseconds
of processor that a walk takes, and the names that it reaches.
"""

from __future__ import annotations

import random
import sys
import time

import apsw
from dreamd.store.index.catalog import MIGRATIONS
from dreamd.store.index.graph import Graph

THINGS, RELATIONS, WALKS, MOST_MS = 100_000, 500_000, 200, 5.0


def filled(things: int, relations: int, rng: random.Random) -> apsw.Connection:
    """Return an index that holds so many things, with relations between any two of them."""
    connection = apsw.Connection(":memory:")
    for migration in MIGRATIONS:
        connection.execute(migration.sql)
    with connection:
        rows = ((f"n{n}", "c", "person", f"Name {n}", f"name {n}", "[]", 0, 0, None) for n in range(things))
        connection.executemany("INSERT INTO entity VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        names = ((f"{kind} {n}", "c", f"n{n}") for n in range(things) for kind in ("name", "nick"))
        connection.executemany("INSERT INTO alias VALUES(?, ?, ?)", names)
        ends = ((rng.randrange(things), rng.randrange(things)) for _ in range(relations))
        connection.executemany(
            "INSERT INTO relation(page, channel, subject, subject_key, relation, object, object_key, what, what_key,"
            " words, turn) VALUES(?, 'c', '', ?, 'KNOWS', '', ?, '', '', '', 't')",
            ((f"n{one}", f"name {one}", f"nick {other}") for one, other in ends),
        )
    connection.execute("ANALYZE")
    return connection


def main() -> int:
    """Print the figures; fail where a walk takes too long."""
    rng = random.Random(1)
    connection = filled(THINGS, RELATIONS, rng)
    graph = Graph(lambda: connection)
    took_ms, reached = [], 0
    for _ in range(WALKS):
        name = f"Name {rng.randrange(THINGS)}"
        began = time.thread_time()
        reached += len(graph.walk(name, 2, {"c"}))
        took_ms.append((time.thread_time() - began) * 1e3)
    took_ms.sort()
    median, high = took_ms[WALKS // 2], took_ms[int(WALKS * 0.95)]
    print(f"walk of 2 steps: median {median:.2f} ms, p95 {high:.2f} ms, {reached / WALKS:.0f} names")
    return int(high > MOST_MS)


if __name__ == "__main__":
    sys.exit(main())
