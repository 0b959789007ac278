"""Titles: the session's own, else a person's own words, whole; never a number, an id or half a sentence."""

from __future__ import annotations

import pytest
from dreamd.pipelines.pages import titles
from dreamd.pipelines.pages.episodes import distinction
from dreamd.pipelines.workspace.view import Vectors

from tests.pipelines.fakes import embed, turns

SAID = turns(
    ("user", "hi there. customers can book a repair slot online, Graça wants it by May"),
    ("assistant", "I will look at what is there already before proposing anything."),
)


def about(*facts: str) -> Vectors:
    return distinction(list(embed(facts)), list(embed(facts)))


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
    facts = ["Customers can book a repair slot.", "A repair slot is booked online by customers."]
    title = titles.said_title(SAID, facts, about(*facts), embed)
    assert title == "customers can book a repair slot online, Graça wants it by May"


def test_a_long_sentence_gives_its_whole_first_clauses() -> None:
    long = "customers book repair slots online, " + "and every shop sees only what its own customers have booked " * 3
    title = titles.said_title(turns(("user", long)), [long], about(long), embed)
    assert title == "customers book repair slots online"


@pytest.mark.parametrize(
    "words", ["ok thanks", "look into /srv/app/main.py first please", "see https://example.org/a now"]
)
def test_greetings_paths_and_addresses_are_no_title(words: str) -> None:
    assert titles.said_title(turns(("user", words)), [words], about(words), embed) == ""


def test_what_is_far_from_the_facts_is_no_title() -> None:
    far = -about(SAID[0].text)
    assert titles.said_title(SAID, ["other"], far, embed) == ""
    assert titles.said_title(turns(("assistant", "Repair slots are booked online now.")), ["x"], -far, embed) == ""


def test_a_reply_is_no_title_where_something_is_asked_or_kept() -> None:
    replied = turns(("user", "Great, that sounds like repair slots. I'm trying to book repair slots online."))
    assert titles.said_title(replied, [], about("repair slots"), embed) == "I'm trying to book repair slots online"
