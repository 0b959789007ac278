"""Succession: the newest first, and what is disputed."""

from __future__ import annotations

import pytest
from dreamd.store.index.projection import Node
from dreamd.store.model import Kind, Level
from dreamd.store.search.supersession import FactState, Links, States, links_of, newest_first
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
    assert newest_first(["a", "old", "b"], Links(newer={"old": ["new"]}), {}) == ["a", "new", "old", "b"]
    assert newest_first(["a", "denial", "b"], Links(opposed={"denial": ["told"]}), {}) == ["a", "denial", "told", "b"]


@pytest.mark.parametrize("is_reworded", [True, False])
def test_words_that_a_person_put_right_are_marked_whatever_is_asked(is_reworded: bool) -> None:
    fact = Node("f", "facts/f.md", Level.FACT, Kind.FACT, "", "The weekly is on Thursdays.")
    new = fact if is_reworded else fact._replace(node_id="new")
    states = States({"s#1": [FactState(fact, newer=(new,), is_reworded=is_reworded)]}, {new.node_id: new.node_id})
    marked = links_of(states, lambda text: False).newer.get("s#1", ())
    assert [*marked] == (["f"] if is_reworded else [])


@pytest.mark.parametrize(
    ("order", "confidence", "placed"),
    [
        (["old", "new"], {"old": 0.9, "new": 0.6}, ["new", "old"]),
        (["old", "new"], {"old": 0.9, "new": 0.1}, ["old", "new"]),
        (["old"], {"old": 0.9}, ["old"]),
    ],
)
def test_a_likely_successor_comes_before_only_where_it_was_found_and_answers_by_itself(
    order: list[str], confidence: dict[str, float], placed: list[str]
) -> None:
    assert newest_first(order, Links(later={"old": ["new"]}), confidence) == placed


def test_a_likely_successor_beyond_the_limit_is_known_by_its_confidence() -> None:
    links = Links(later={"old": ["new"]})
    assert newest_first(["old"], links, {"old": 0.9, "new": 0.8}) == ["new", "old"]
    assert newest_first(["old"], links, {"old": 0.9}) == ["old"]


def test_what_was_said_later_in_one_session_leans_on_what_was_said_before() -> None:
    links = Links(later={"s1#1": ["s1#3"], "s2#1": ["s3#1"]})
    assert newest_first(["s1#1", "s2#1", "s3#1", "s1#3"], links, {"s1#1": 0.9, "s2#1": 0.9}) == [
        "s1#3",
        "s1#1",
        "s2#1",
        "s3#1",
    ]


@given(order=st.lists(st.sampled_from(UNITS), unique=True), newer=PAIRS, opposed=PAIRS)
def test_the_order_holds_all_units_once(
    order: list[str], newer: dict[str, list[str]], opposed: dict[str, list[str]]
) -> None:
    placed = newest_first(order, Links(newer, opposed), {})
    assert set(order) <= set(placed)
    assert len(set(placed)) == len(placed)
