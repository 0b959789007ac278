"""Telling: what an envelope says of a memory in few words."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from dreamd.store.find.index.projection import Node
from dreamd.store.find.search.rendering import BRIEF_TOKENS, Telling, Unit, condensed, without_head, worth_telling
from dreamd.store.model import Kind, Level
from dreamd.store.text.chunking import estimate_tokens
from dreamd.store.text.terms import term_stems
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
    kept = worth_telling(sentences, NOTHING, NOTHING, limit_tokens=limit)
    assert kept == sorted(set(kept))
    assert kept
    assert len(kept) == 1 or sum(estimate_tokens(sentences[i]) for i in kept) <= limit


@given(sentences=SENTENCES)
def test_of_what_is_worth_telling_nothing_is_told_twice(sentences: list[str]) -> None:
    kept = worth_telling(sentences * 2, NOTHING, NOTHING, limit_tokens=10_000)
    assert len({sentences[i % len(sentences)] for i in kept}) == len(kept)


def test_what_the_envelope_said_already_gives_way_to_what_is_new() -> None:
    sentences = ["Otto sold the red kayak to Ann.", "The river froze in March."]
    assert worth_telling(sentences, NOTHING, NOTHING, limit_tokens=10) == [0]
    assert worth_telling(sentences, NOTHING, term_stems(sentences[0]), limit_tokens=10) == [1]


def test_what_was_asked_for_counts_for_more() -> None:
    sentences = ["Otto sold the red kayak.", "The river froze hard early."]
    assert worth_telling(sentences, term_stems("When did the river freeze?"), NOTHING, limit_tokens=10) == [1]


def test_a_turn_is_told_by_its_facts_where_they_are_fewer_tokens() -> None:
    long = turn("Well, you know, I think that yesterday, after all that, I bought a red kayak from Otto, honestly!")
    kayak = fact("Ann bought a red kayak from Otto.")
    told = Unit(long, [kayak]).told(NOTHING, NOTHING, in_full=True)
    assert (told.text(), told.nodes) == (f"1 Nov 2026: {kayak.text}", [kayak])
    short = turn("A red kayak!")
    told = Unit(short, [kayak]).told(NOTHING, NOTHING, in_full=True)
    assert (told.text(), told.nodes) == ("1 Nov 2026, user: A red kayak!", [short])


def test_a_person_is_told_in_full_and_an_assistant_briefly() -> None:
    facts = [fact(f"Boat {name} has a hull of {name} wood, and it floats well there.", name) for name in "abcdefghij"]
    text = " ".join(fact.text for fact in facts) * 2
    assert Unit(turn(text), facts[:4]).told(NOTHING, NOTHING, in_full=True).nodes == facts[:4]
    for unit, in_full in ((Unit(turn(text), facts), False), (Unit(turn(text, "assistant"), facts), True)):
        told = unit.told(NOTHING, NOTHING, in_full)
        assert told.nodes != facts
        assert estimate_tokens(told.words) <= BRIEF_TOKENS


def test_what_is_past_its_day_is_told_as_out_of_date() -> None:
    gone = replace(fact("The parser is in src/parse.py."), stale_after=AT + timedelta(days=3))
    unit = Unit(turn("You know, the parser, as far as I remember, is in src/parse.py, isn't it?"), [gone])
    told = [replace(unit, now=AT + timedelta(days=days)).told(NOTHING, NOTHING, in_full=True).text() for days in (2, 3)]
    assert told == [f"1 Nov 2026: {gone.text}", f"1 Nov 2026, out of date: {gone.text}"]


def test_what_is_disputed_or_changed_is_said_so() -> None:
    disputed = Unit(turn("The kayak is red."), (), contradicts=("other",)).told(NOTHING, NOTHING, True)
    assert disputed.text() == "1 Nov 2026, user, disputed: The kayak is red."
    assert disputed.text({"1 Nov 2026"}) == "- user, disputed: The kayak is red."
    changed = Unit(turn("The kayak is red."), (), changed=True).told(NOTHING, NOTHING, True)
    assert changed.text() == "1 Nov 2026, user, changed since: The kayak is red."


@given(
    told=st.text(min_size=1, max_size=40).filter(lambda text: text == text.strip() and "\n" not in text),
    role=st.sampled_from(["user", "assistant"]),
    marks=st.booleans(),
    under=st.booleans(),
)
def test_what_a_slot_tells_is_what_is_left_without_its_head(told: str, role: str, marks: bool, under: bool) -> None:
    telling = Telling("1 Nov 2026", f"{role}, disputed" if marks else role, told, ())
    assert without_head(telling.text({"1 Nov 2026"} if under else ())) == told
