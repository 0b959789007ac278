"""A value that changed is told as it is now, and both sides of a contradiction are."""

from __future__ import annotations

import pytest

from ..datasets import Question
from ..scoring import ScoredSlot
from .two_sided import Told, Value, values_in

COMMITS = Question(
    "How many commits have been merged into the main branch?",
    frozenset({"1", "9"}),
    "knowledge_update",
    "165 commits",
    "beam-1",
    (frozenset({"1"}), frozenset({"9"})),
    ("165 commits",),
    ("the original 150 commits merged",),
)
NEW = ScoredSlot("9 May: commits merged into the main branch have now reached 165", ("9",))
OLD = ScoredSlot("1 May: the release was pushed with 150 commits", ("1",))


def told(*slots: ScoredSlot, disputed: tuple[bool, ...] = ()) -> Told:
    return Told(COMMITS, slots, disputed or (False,) * len(slots))


@pytest.mark.parametrize(
    ("phrase", "values"),
    [
        ("April 21 at 3 PM", [Value(frozenset({"april", "21"})), Value(frozenset({"3", "pm"}))]),
        ("April 5, 2024", [Value(frozenset({"april", "5"}))]),
        ("the original 1,000 calls/day quota", [Value(frozenset({"1000"}), "call")]),
        ("78%", [Value(frozenset({"78%"}))]),
        ("Three days a week", [Value(frozenset({"3"}), "day")]),
        ("as slower or unspecified", []),
    ],
)
def test_the_values_of_a_phrase(phrase: str, values: list[Value]) -> None:
    assert values_in(phrase) == values


@pytest.mark.parametrize(
    ("slots", "right"),
    [
        ((NEW,), True),
        ((OLD,), False),
        ((NEW, OLD), False),
        ((NEW, ScoredSlot("until 9 May: pushed with 150 commits", ("1",))), True),
        ((NEW, ScoredSlot("pushed with 150 commits (later: it has now reached 165)", ("1",))), True),
        ((NEW, ScoredSlot("The assistant: 150 commits in the main branch", ("5",))), False),
        ((NEW, ScoredSlot("I lost 150 games of chess", ("5",))), True),
        ((ScoredSlot("I want to secure my application", ("9",)),), False),
        ((ScoredSlot("There are 165 ways to cook an egg", ("5",)),), False),
        ((), False),
    ],
)
def test_an_old_value_is_absent_or_marked(slots: tuple[ScoredSlot, ...], right: bool) -> None:
    assert told(*slots).updated() is right


def test_an_old_value_after_the_new_is_told_apart() -> None:
    assert told(NEW, OLD).updated(after_is_harmless=True)
    assert not told(OLD, NEW).updated(after_is_harmless=True)
    assert not told(OLD).updated(after_is_harmless=True)


def test_the_newer_may_not_stand_after_the_older() -> None:
    assert told(NEW, OLD).newer_first()
    assert not told(OLD, NEW).newer_first()
    assert not told().newer_first()


def test_both_sides_are_told_where_each_has_a_slot_about_the_question() -> None:
    either = ScoredSlot("I never merged commits into any branch", ("1",))
    assert told(either, NEW).both_sides()
    assert not told(ScoredSlot("I never did that", ("1",)), NEW).both_sides()
    assert not told(NEW).both_sides()


def test_a_dispute_is_marked_on_both_sides() -> None:
    assert told(OLD, NEW, disputed=(True, True)).marked()
    assert not told(OLD, NEW, disputed=(False, True)).marked()
