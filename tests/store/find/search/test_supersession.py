"""Succession: the newest first, and what is disputed."""

from __future__ import annotations

from dreamd.store.find.search.supersession import Links, newest_first
from hypothesis import given
from hypothesis import strategies as st

UNITS = [f"s{n}#1" for n in range(8)]
PAIRS = st.dictionaries(st.sampled_from(UNITS), st.lists(st.sampled_from(UNITS), max_size=3, unique=True), max_size=6)


def test_a_contradiction_of_a_successor_disputes_the_older_memory_too() -> None:
    links = Links(newer={"old": ["new"]}, opposed={"denial": ["new"]})
    assert links.disputes("old") == links.disputes("new") == ("denial",)
    assert links.disputes("denial") == ("new",)
    assert links.disputes("other") == ()


def test_a_successor_comes_right_before_and_a_contradicted_memory_right_after() -> None:
    assert newest_first(["a", "old", "b"], Links(newer={"old": ["new"]})) == ["a", "new", "old", "b"]
    assert newest_first(["a", "denial", "b"], Links(opposed={"denial": ["told"]})) == ["a", "denial", "told", "b"]


@given(order=st.lists(st.sampled_from(UNITS), unique=True), newer=PAIRS, opposed=PAIRS)
def test_the_order_holds_all_units_once(
    order: list[str], newer: dict[str, list[str]], opposed: dict[str, list[str]]
) -> None:
    placed = newest_first(order, Links(newer, opposed))
    assert set(order) <= set(placed)
    assert len(set(placed)) == len(placed)
