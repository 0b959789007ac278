from __future__ import annotations

import numpy as np
from dreamd.store.find.search.stages.spreading import LOWERED, SPREAD, spread_over_sessions
from hypothesis import given
from hypothesis import strategies as st


def test_a_session_s_second_best_gives_way_to_another_session_that_is_near() -> None:
    scores = np.array([5.0, 4.9, 4.9 - LOWERED / 2, 5.0 - 3 * LOWERED])
    units = ["one#1", "one#2", "two#1", "two#2"]
    assert spread_over_sessions([0, 1, 2, 3], scores, units) == [0, 2, 1, 3]


def test_memories_without_a_session_lower_nothing() -> None:
    assert spread_over_sessions([1, 0], np.array([1.0, 1.1]), ["fact-a", "fact-b"]) == [1, 0]


@given(st.lists(st.tuples(st.floats(-9, 9), st.integers(0, 5)), max_size=2 * SPREAD))
def test_no_candidate_is_lost_and_the_first_stays(rows: list[tuple[float, int]]) -> None:
    scores = np.array([score for score, _ in rows])
    best_first = np.argsort(-scores, kind="stable").tolist()
    spread = spread_over_sessions(best_first, scores, [f"s{session}#{n}" for n, (_, session) in enumerate(rows)])
    assert sorted(spread) == sorted(best_first)
    assert spread[:1] == best_first[:1]
    assert spread[SPREAD:] == best_first[SPREAD:]
