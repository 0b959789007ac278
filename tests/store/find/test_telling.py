"""Telling: what an envelope says of a memory in few words."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from dreamd.store.find.chunking import estimate_tokens
from dreamd.store.find.projection import Node
from dreamd.store.find.telling import BRIEF_TOKENS, Unit, condensed, without_head, worth_telling
from dreamd.store.find.terms import words_of
from dreamd.store.model import Kind, Level
from hypothesis import given
from hypothesis import strategies as st

AT = datetime(2026, 11, 1, 9, 0, tzinfo=UTC)
NOTHING: frozenset[str] = frozenset()
SENTENCES = st.lists(
    st.lists(st.sampled_from("ann rows a red kayak on the river with otto every spring".split()), min_size=1).map(
        " ".join
    ),
    min_size=1,
    max_size=8,
)


def turn(text: str, role: str = "user") -> Node:
    return Node(
        node_id="s1#1", path="s1.md", level=Level.SESSION, kind=Kind.TURN, title="", text=text, created_at=AT, role=role
    )


def fact(text: str, name: str = "fact") -> Node:
    return Node(node_id=name, path=f"{name}.md", level=Level.FACT, kind=Kind.FACT, title="", text=text, created_at=AT)


@given(budget=st.integers(1, 400))
def test_condensed_stays_in_its_bounds(budget: int) -> None:
    text = "The kayak is red. " * 30 + "Otto sold it. " + "Rain came, and more rain. " * 30
    kept = condensed(text, {"otto"}, budget)
    assert kept == " ".join(text.split()) or estimate_tokens(kept) <= budget + 8
    if budget >= 12:
        assert "Otto sold it." in kept


@given(sentences=SENTENCES, limit=st.integers(1, 60))
def test_what_is_worth_telling_fits_and_is_never_nothing(sentences: list[str], limit: int) -> None:
    kept = worth_telling(sentences, NOTHING, NOTHING, limit)
    assert kept == sorted(set(kept))
    assert kept
    assert len(kept) == 1 or sum(estimate_tokens(sentences[i]) for i in kept) <= limit


@given(sentences=SENTENCES)
def test_of_what_is_worth_telling_nothing_is_told_twice(sentences: list[str]) -> None:
    kept = worth_telling(sentences * 2, NOTHING, NOTHING, 10_000)
    assert len({sentences[i % len(sentences)] for i in kept}) == len(kept)


def test_what_the_envelope_said_already_gives_way_to_what_is_new() -> None:
    sentences = ["Otto sold the red kayak to Ann.", "The river froze in March."]
    assert worth_telling(sentences, NOTHING, NOTHING, 10) == [0]
    assert worth_telling(sentences, NOTHING, words_of(sentences[0]), 10) == [1]


def test_what_was_asked_for_counts_for_more() -> None:
    sentences = ["Otto sold the red kayak.", "The river froze hard early."]
    assert worth_telling(sentences, words_of("When did the river freeze?"), NOTHING, 10) == [1]


def test_a_turn_is_told_by_its_facts_where_they_are_fewer_tokens() -> None:
    long = turn("Well, you know, I think that yesterday, after all that, I bought a red kayak from Otto, honestly!")
    kayak = fact("Ann bought a red kayak from Otto.")
    assert Unit(long, [kayak]).told(NOTHING, NOTHING, in_full=True) == (f"1 Nov 2026: {kayak.text}", [kayak])
    short = turn("A red kayak!")
    assert Unit(short, [kayak]).told(NOTHING, NOTHING, in_full=True) == ("1 Nov 2026, user: A red kayak!", [short])


def test_a_person_is_told_in_full_and_an_assistant_briefly() -> None:
    facts = [fact(f"Boat {name} has a hull of {name} wood, and it floats well there.", name) for name in "abcdefghij"]
    text = " ".join(fact.text for fact in facts) * 2
    _, full = Unit(turn(text), facts[:4]).told(NOTHING, NOTHING, in_full=True)
    assert full == facts[:4]
    for unit, in_full in ((Unit(turn(text), facts), False), (Unit(turn(text, "assistant"), facts), True)):
        words, told = unit.told(NOTHING, NOTHING, in_full)
        assert told != facts
        assert estimate_tokens(without_head(words)) <= BRIEF_TOKENS


def test_what_is_past_its_day_is_told_as_out_of_date() -> None:
    gone = replace(fact("The parser is in src/parse.py."), stale_after=AT + timedelta(days=3))
    unit = Unit(turn("You know, the parser, as far as I remember, is in src/parse.py, isn't it?"), [gone])
    told = [replace(unit, now=AT + timedelta(days=days)).told(NOTHING, NOTHING, in_full=True)[0] for days in (2, 3)]
    assert told == [f"1 Nov 2026: {gone.text}", f"1 Nov 2026, out of date: {gone.text}"]


def test_what_is_disputed_or_changed_is_said_so() -> None:
    kayak = turn("The kayak is red.")
    assert (
        Unit(kayak, (), contradicts=("other",))
        .told(NOTHING, NOTHING, True)[0]
        .startswith("1 Nov 2026, user, disputed: ")
    )
    assert Unit(kayak, (), changed=True).told(NOTHING, NOTHING, True)[0].startswith("1 Nov 2026, user, changed since: ")
