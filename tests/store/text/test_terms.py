"""The words of a question that name one thing."""

from __future__ import annotations

from datetime import date

import pytest
from dreamd.store.text.dates import find_asked
from dreamd.store.text.terms import asks_nothing_but, event_in, names_in, query_terms
from dreamd.store.text.words import stems_of


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ("What does Anna's dog eat?", ["Anna's"]),
        ("Tell me: did we take NATS, or Kafka v2.3 with CX22 machines?", ["Kafka", "v2.3", "CX22"]),
        ("¿Dónde vive Lucía?", ["Lucía"]),
        ("Which order is 4711, and where are the 3 others?", ["4711"]),
        ("what does anna's dog eat", []),
        ("What did we choose on 12 May 2023, on Monday or last week?", []),
        ("Was frisst der Hund auf der Reise?", []),
        ("WHAT DOES ANNA EAT", []),
        ("What Did Anna Choose", []),
        ("Who asked for Kafka? " + "It was a long day. " * 20, []),
    ],
)
def test_names_are_told_from_other_words(question: str, named: list[str]) -> None:
    assert names_in(question, stems_of(query_terms(question))) == named


def test_only_words_with_a_wanted_stem_are_names() -> None:
    assert names_in("Does Anna know Berta?", stems_of(["berta"])) == ["Berta"]


@pytest.mark.parametrize(
    ("question", "event", "is_before"),
    [
        ("What did we use before the release?", "release", True),
        ("What changed after Anna left, and why?", "anna left", False),
        ("Was nutzten wir vor dem Umzug?", "dem umzug", True),
        ("¿Qué usábamos después del lanzamiento?", "lanzamiento", False),
    ],
)
def test_a_question_names_an_event_before_or_after_which_it_asks(question: str, event: str, is_before: bool) -> None:
    assert event_in(question) == (stems_of(event.split()), is_before)


@pytest.mark.parametrize("question", ["Did we meet before?", "What changed after 12 May 2023?", "Who was there?"])
def test_a_day_is_no_event_nor_is_nothing(question: str) -> None:
    assert event_in(question) is None


@pytest.mark.parametrize(
    ("question", "nothing_else"),
    [
        ("What happened on 5 March?", True),
        ("what did we decide last week", True),
        ("What's new today?", True),
        ("hva skjedde 5. mars?", True),
        ("was haben wir letzte Woche gemacht?", True),
        ("¿qué pasó el 5 de marzo?", True),
        ("what is the newest?", True),
        ("what happened to the kiln on 5 March?", False),
        ("what is the newest version of the site?", False),
        ("who came yesterday?", False),
        ("what happened?", False),
    ],
)
def test_a_question_about_a_time_alone_names_no_thing(question: str, nothing_else: bool) -> None:
    assert asks_nothing_but(question, find_asked(question, date(2026, 11, 21))) is nothing_else
