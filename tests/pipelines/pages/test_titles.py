"""Titles: the session's own, else a person's own words, whole; never a number, an id or half a sentence."""

from __future__ import annotations

import pytest
from dreamd.pipelines.pages import titles
from dreamd.pipelines.pages.episodes import distinction
from hypothesis import given, settings

from tests.examples import examples
from tests.pipelines.fakes import embed, turns
from tests.told import TEXTS, strays

SAID = turns(
    ("user", "hi there. customers can book a repair slot online, Graça wants it by May"),
    ("assistant", "I will look at what is there already before proposing anything."),
)


def subject(*facts: str) -> titles.Subject:
    vectors = embed(facts)
    return titles.Subject(facts, vectors, distinction(list(vectors), list(vectors)))


@pytest.mark.parametrize(
    ("title", "others", "expected"),
    [
        ("How long is a slot?", [], "How long is a slot?"),
        ("hi there. customers can book a repair…", [], ""),
        ("Caroline and Melanie, session 3", ["Caroline and Melanie, session 12"], ""),
        ("3d62176b-80c4-502c-8442-ddaa627342a5", [], ""),
        ("s1", [], ""),
        ("", [], ""),
    ],
)
def test_a_session_has_a_title_of_its_own_or_none(title: str, others: list[str], expected: str) -> None:
    assert titles.own_title(title, SAID, others) == expected


def test_words_that_tell_what_the_facts_are_about_are_chosen() -> None:
    facts = subject("Customers can book a repair slot.", "A repair slot is booked online by customers.")
    title = titles.sentence_title(SAID, facts, embed)
    assert title == "customers can book a repair slot online, Graça wants it by May"


def test_a_long_sentence_gives_its_whole_first_clauses() -> None:
    long = "customers book repair slots online, " + "and every shop sees only what its own customers have booked " * 3
    title = titles.sentence_title(turns(("user", long)), subject(long, "Customers book repair slots."), embed)
    assert title == "customers book repair slots online"


def test_half_a_sentence_an_introduction_and_output_are_no_title() -> None:
    half = "If customers book repair slots online, " + "every shop sees only what its own customers have booked " * 3
    for said in (half, "To book repair slots online we use:", "❯ book repair slots ✓ booked repair slots"):
        assert titles.sentence_title(turns(("user", said)), subject(said, "Customers book repair slots."), embed) == ""


@pytest.mark.parametrize(
    "words",
    [
        "ok thanks",
        "look into /srv/app/main.py first please",
        "see https://example.org/a now",
        "Great, that sounds like repair slots.",
        "I looked at it in the repair shop.",
        "Last night was amazing.",
    ],
)
def test_greetings_replies_paths_and_what_points_back_are_no_title(words: str) -> None:
    assert titles.sentence_title(turns(("user", words)), subject(words, f"{words} again"), embed) == ""


def test_what_tells_of_few_of_the_facts_is_no_title() -> None:
    facts = subject(
        SAID[0].text, "The mast is made of oak.", "Tea at five.", "No yaml in this house.", "Ask Ann first."
    )
    assert titles.sentence_title(SAID, facts, embed) == ""
    assert (
        titles.sentence_title(turns(("assistant", "Repair slots are booked online now.")), subject("x", "y"), embed)
        == ""
    )


def test_a_wish_comes_before_what_else_is_said() -> None:
    wished = turns(("user", "The repair slots are a mess. I'm trying to book repair slots online."))
    facts = subject("Book repair slots online.", "Repair slots online.")
    assert titles.sentence_title(wished, facts, embed) == "I'm trying to book repair slots online"


def test_among_people_the_speaker_is_named() -> None:
    talk = turns(("Ann", "Hey Bea! We bought a boat with a red sail."), ("Bea", "Wow, a boat! I would love to see it."))
    facts = subject("We bought a boat with a red sail.", "The boat has a red sail.")
    assert titles.sentence_title(talk, facts, embed) == "Ann: We bought a boat with a red sail"


@given(TEXTS)
@settings(max_examples=examples(100), deadline=None)
def test_a_title_is_a_piece_of_what_was_said(text: str) -> None:
    text = f"Museum day.\n\n{text}We took Postgres 16 for the museum."
    facts = subject("We took Postgres 16 for the museum day.", "We took Postgres for the museum.")
    assert strays(titles.sentence_title(turns(("user", text)), facts, embed), [text]) == []
