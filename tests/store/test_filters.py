"""Random filters of the wire in every engine against plain Python; `make bench` has ten thousand of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from dreamd.store.engine.interface import VectorStore
from dreamd.store.engine.postgres import PostgresStore

from tests.random_filters import engines, lets_through, normalised, random_filter, random_node
from tests.servers import PostgresServer, qdrant_store

FILTERS = 300


@pytest.fixture(params=["in this process", "with Qdrant", "with Postgres"])
def servers(request: pytest.FixtureRequest) -> Iterator[dict[str, VectorStore]]:
    """Give the engines that are servers: none, so that no lack of them ends the test, or each."""
    if request.param == "in this process":
        yield {}
        return
    if request.param == "with Qdrant":
        with qdrant_store() as qdrant:
            yield {"qdrant": qdrant}
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    server.clear()
    store = PostgresStore(server.dsn, search_s=30.0)
    yield {"postgres": store}
    store.close()


def test_every_engine_lets_through_what_plain_python_does(tmp_path: Path, servers: dict[str, VectorStore]) -> None:
    rng = random.Random(13)
    nodes = [random_node(rng, number) for number in range(120)]
    narrowed, count = 0, FILTERS // 4 if "qdrant" in servers else FILTERS  # the client's own store takes .1 s each
    with engines(tmp_path, nodes, **servers) as each:
        for _ in range(count):
            given = random_filter(rng)
            expected = {node.node_id for node in nodes if lets_through(given, node)}
            narrowed += 0 < len(expected) < len(nodes)
            for engine, found in each.found(normalised(given)):
                assert found == expected, f"{engine}: {given}"
    assert narrowed > count // 3, "most of these filters say nothing"
