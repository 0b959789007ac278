from __future__ import annotations

import numpy as np
from dreamd.store.find.backends.vectors import VectorCache, unit
from hypothesis import given
from hypothesis import strategies as st

DIMENSION = 8
PLACES = 5

changes = st.tuples(st.sampled_from(["put", "drop"]), st.lists(st.integers(0, 12), min_size=1, max_size=4, unique=True))


@given(st.lists(changes, max_size=20), st.integers(0, 2**32 - 1))
def test_what_is_held_is_what_was_last_put(steps: list[tuple[str, list[int]]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    cache = VectorCache(DIMENSION, PLACES * 4 * DIMENSION)
    known: dict[int, np.ndarray] = {}
    for what, listed in steps:
        rows = np.array(
            [row for place, row in enumerate(listed) if row % PLACES not in {r % PLACES for r in listed[:place]}]
        )
        if what == "drop":
            cache.drop(rows)
            known = {row: vector for row, vector in known.items() if row not in rows}
        else:
            vectors = rng.standard_normal((len(rows), DIMENSION)).astype(np.float32)
            cache.put(rows, vectors)
            known = {row: one for row, one in known.items() if row % PLACES not in rows % PLACES}
            known |= dict(zip(rows.tolist(), vectors, strict=True))
    everything = np.arange(13)
    assert np.flatnonzero(cache.held(everything)).tolist() == sorted(known)
    asked = unit(rng.standard_normal(DIMENSION).astype(np.float32))
    held = np.array(sorted(known), np.int64)
    expected = [float(known[row] @ asked) / float(np.linalg.norm(known[row])) for row in held.tolist()]
    assert np.allclose(cache.cosines(held, asked), expected, atol=1e-5)
