"""Random filters of the wire in every engine against plain Python; `make bench` has ten thousand of them."""

from __future__ import annotations

import random
from pathlib import Path

from tests.random_filters import engines, lets_through, normalised, random_filter, random_node

FILTERS = 300


def test_every_engine_lets_through_what_plain_python_does(tmp_path: Path) -> None:
    rng = random.Random(13)
    nodes = [random_node(rng, number) for number in range(120)]
    narrowed = 0
    with engines(tmp_path, nodes) as each:
        for _ in range(FILTERS):
            given = random_filter(rng)
            expected = {node.node_id for node in nodes if lets_through(given, node)}
            narrowed += 0 < len(expected) < len(nodes)
            for engine, found in each.found(normalised(given)):
                assert found == expected, f"{engine}: {given}"
    assert narrowed > FILTERS // 3, "most of these filters say nothing"
