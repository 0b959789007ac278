"""Rendering of a memory for an envelope."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from dreamd.store.find.index.projection import Node
from dreamd.store.find.search.rendering import BRIEF_TOKENS, Rendering, Unit, condensed, select_sentences, without_head
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
def test_selected_sentences_fit_the_budget_and_are_never_none(sentences: list[str], limit: int) -> None:
    kept = select_sentences(sentences, NOTHING, NOTHING, limit_tokens=limit)
    assert kept == sorted(set(kept))
    assert kept
    assert len(kept) == 1 or sum(estimate_tokens(sentences[i]) for i in kept) <= limit


@given(sentences=SENTENCES)
def test_no_sentence_is_selected_twice(sentences: list[str]) -> None:
    kept = select_sentences(sentences * 2, NOTHING, NOTHING, limit_tokens=10_000)
    assert len({sentences[i % len(sentences)] for i in kept}) == len(kept)


def test_a_sentence_that_adds_words_comes_before_one_that_repeats_the_envelope() -> None:
    sentences = ["Otto sold the red kayak to Ann.", "The river froze in March."]
    assert select_sentences(sentences, NOTHING, NOTHING, limit_tokens=10) == [0]
    assert select_sentences(sentences, NOTHING, term_stems(sentences[0]), limit_tokens=10) == [1]


def test_words_of_the_question_count_twice() -> None:
    sentences = ["Otto sold the red kayak.", "The river froze hard early."]
    assert select_sentences(sentences, term_stems("When did the river freeze?"), NOTHING, limit_tokens=10) == [1]


def test_a_turn_is_rendered_by_its_facts_where_they_are_fewer_tokens() -> None:
    long = turn("Well, you know, I think that yesterday, after all that, I bought a red kayak from Otto, honestly!")
    kayak = fact("Ann bought a red kayak from Otto.")
    rendered = Unit(long, [kayak]).render(NOTHING, NOTHING, in_full=True)
    assert (rendered.text(), rendered.nodes) == (f"1 Nov 2026: {kayak.text}", [kayak])
    short = turn("A red kayak!")
    rendered = Unit(short, [kayak]).render(NOTHING, NOTHING, in_full=True)
    assert (rendered.text(), rendered.nodes) == ("1 Nov 2026, user: A red kayak!", [short])


def test_a_users_turn_is_rendered_in_full_and_an_assistants_in_brief() -> None:
    facts = [fact(f"Boat {name} has a hull of {name} wood, and it floats well there.", name) for name in "abcdefghij"]
    text = " ".join(fact.text for fact in facts) * 2
    assert Unit(turn(text), facts[:4]).render(NOTHING, NOTHING, in_full=True).nodes == facts[:4]
    for unit, in_full in ((Unit(turn(text), facts), False), (Unit(turn(text, "assistant"), facts), True)):
        rendered = unit.render(NOTHING, NOTHING, in_full)
        assert rendered.nodes != facts
        assert estimate_tokens(rendered.words) <= BRIEF_TOKENS


def test_a_fact_past_its_stale_after_is_noted_as_out_of_date() -> None:
    gone = replace(fact("The parser is in src/parse.py."), stale_after=AT + timedelta(days=3))
    unit = Unit(turn("You know, the parser, as far as I remember, is in src/parse.py, isn't it?"), [gone])
    rendered = [
        replace(unit, now=AT + timedelta(days=days)).render(NOTHING, NOTHING, in_full=True).text() for days in (2, 3)
    ]
    assert rendered == [f"1 Nov 2026: {gone.text}", f"1 Nov 2026, out of date: {gone.text}"]


def test_a_disputed_or_superseded_memory_is_noted_as_such() -> None:
    disputed = Unit(turn("The kayak is red."), (), contradicts=("other",)).render(NOTHING, NOTHING, True)
    assert disputed.text() == "1 Nov 2026, user, disputed: The kayak is red."
    assert disputed.text({"1 Nov 2026"}) == "- user, disputed: The kayak is red."
    changed = Unit(turn("The kayak is red."), (), changed=True).render(NOTHING, NOTHING, True)
    assert changed.text() == "1 Nov 2026, user, changed since: The kayak is red."


@given(
    rendered=st.text(min_size=1, max_size=40).filter(lambda text: text == text.strip() and "\n" not in text),
    role=st.sampled_from(["user", "assistant"]),
    marks=st.booleans(),
    under=st.booleans(),
)
def test_without_head_returns_the_words_of_a_slot(rendered: str, role: str, marks: bool, under: bool) -> None:
    rendering = Rendering("1 Nov 2026", f"{role}, disputed" if marks else role, rendered, ())
    assert without_head(rendering.text({"1 Nov 2026"} if under else ())) == rendered
