"""Nearest vectors from memory (signs, then bytes) and from the disk (sqlite-vec's vec0), side by side.

`python -m tests.bench.growth.on_disk [POINTS]`; 100,000 take two minutes. The vectors are drawn around centres, as
those of texts lie; times are medians of 30 questions, asked in turn of both.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
from dreamd.store.engine.database import Connections, open_database, transaction
from dreamd.store.engine.interface import Point, Vector
from dreamd.store.engine.sqlite_vec import SqliteVecStore
from dreamd.store.filters import Condition
from numpy.typing import NDArray
from rich.console import Console

NAME, DIMENSION, CENTRES, QUESTIONS, LIMIT, AT_ONCE = "chunks", 384, 200, 30, 100, 2_000
TENTH = (Condition("channel", "in", ("c0",)),)


def vectors_of(count: int) -> NDArray[np.float32]:
    """Draw vectors around centres, reproducibly."""
    rng = np.random.default_rng(3)
    centres = rng.standard_normal((CENTRES, DIMENSION)).astype(np.float32)
    return centres[rng.integers(0, CENTRES, count)] + rng.standard_normal((count, DIMENSION)).astype(np.float32)


def fill(path: Path, vectors: NDArray[np.float32]) -> None:
    """Write a point a vector, one of ten in the channel c0."""
    connection = open_database(path, durable=False)
    store = SqliteVecStore(lambda: connection, lambda: connection)
    store.ensure_collection(NAME, DIMENSION)
    store.ensure_payload_index(NAME, "channel")
    for start in range(0, len(vectors), AT_ONCE):
        some = range(start, min(start + AT_ONCE, len(vectors)))
        with transaction(connection):
            store.upsert(NAME, [Point(f"p{n}", "word", "", vectors[n], {"channel": f"c{n % 10}"}) for n in some])
    connection.close()


def main() -> None:
    """Fill a database, ask both ways, and print a table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    out = Console()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "index.db"
        vectors = vectors_of(count)
        with out.status(f"writing {count:,} vectors"):
            fill(path, vectors)
        writer = open_database(path, durable=False)
        readers = Connections(lambda: open_database(path, durable=False, read_only=True))
        stores = {
            name: SqliteVecStore(lambda: writer, readers.get, most) for name, most in (("memory", 10**9), ("disk", 0))
        }
        asked = vectors[np.random.default_rng(5).integers(0, count, QUESTIONS)]
        out.print(f"{count:,} vectors, {path.stat().st_size / count:,.0f} bytes of the database each")
        for name, store in stores.items():
            began = time.perf_counter()
            store.search_vector(NAME, asked[0], LIMIT)
            out.print(f"{name}: first answer after {time.perf_counter() - began:.2f} s")
        for what, where in (("all", ()), ("a tenth", TENTH)):
            taken: dict[str, list[float]] = {name: [] for name in stores}
            same = 0
            for vector in asked:
                best: list[list[str]] = []
                for name, store in stores.items():
                    best.append(_timed(store, vector, where, taken[name]))
                same += len(set(best[0][:10]) & set(best[1][:10]))
            times = ", ".join(f"{name} {1000 * median(spent):.1f} ms" for name, spent in taken.items())
            out.print(f"of {what}: {times}; {same / QUESTIONS / 10:.3f} of the ten nearest are the same")
        readers.close()
        writer.close()


def _timed(store: SqliteVecStore, vector: Vector, where: tuple[Condition, ...], taken: list[float]) -> list[str]:
    began = time.perf_counter()
    found = [match.id for match in store.search_vector(NAME, vector, LIMIT, where)]
    taken.append(time.perf_counter() - began)
    return found


if __name__ == "__main__":
    main()
