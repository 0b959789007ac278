from __future__ import annotations

from datetime import date, timedelta

import pytest
from dreamd.store.text.dates import (
    add_months,
    asks_for_time_alone,
    calendar_day,
    days_in,
    event_in,
    find,
    find_asked,
    format_date,
    format_short_date,
    with_days,
)
from dreamd.store.text.words import stems_of
from hypothesis import given
from hypothesis import strategies as st

SATURDAY = date(2023, 7, 15)


@pytest.mark.parametrize(
    ("said", "first", "last"),
    [
        ("I went yesterday.", "2023-07-14", "2023-07-14"),
        ("We met last Friday.", "2023-07-14", "2023-07-14"),
        ("We met last Saturday.", "2023-07-08", "2023-07-08"),
        ("the pilot starts next monday", "2023-07-17", "2023-07-17"),
        ("she comes a week from tuesday", "2023-07-25", "2023-07-25"),
        ("done two days ago", "2023-07-13", "2023-07-13"),
        ("I painted it last year!", "2022-01-01", "2022-12-31"),
        ("I go camping next month", "2023-08-01", "2023-08-31"),
        ("moved 3 months ago", "2023-04-01", "2023-04-30"),
        ("since 1 July", "2023-07-01", "2023-07-01"),
        ("closed from January 3", "2024-01-03", "2024-01-03"),
        ("on May 7th, 2023", "2023-05-07", "2023-05-07"),
        ("gestern war er da", "2023-07-14", "2023-07-14"),
        ("Jonas kommt am 2. Oktober", "2023-10-02", "2023-10-02"),
        ("vor drei Tagen", "2023-07-12", "2023-07-12"),
        ("nächsten Freitag", "2023-07-21", "2023-07-21"),
        ("lo dijo ayer", "2023-07-14", "2023-07-14"),
        ("caduca el 21 de octubre", "2023-10-21", "2023-10-21"),
        ("hace dos meses", "2023-05-01", "2023-05-31"),
        ("empieza el lunes que viene", "2023-07-17", "2023-07-17"),
        ("det var i forgårs", "2023-07-13", "2023-07-13"),
        ("for to uker siden", "2023-06-26", "2023-07-02"),
        ("fristen er 2. oktober", "2023-10-02", "2023-10-02"),
        ("neste tirsdag", "2023-07-18", "2023-07-18"),
        ("the release is on 22 Sept.", "2023-09-22", "2023-09-22"),
        ("frozen from Aug 21 on", "2023-08-21", "2023-08-21"),
        ("bis 4. Okt. fertig", "2023-10-04", "2023-10-04"),
        ("Saturday in two weeks", "2023-08-05", "2023-08-05"),
        ("mittwoch in zwei wochen ist inventur", "2023-08-02", "2023-08-02"),
    ],
)
def test_what_a_day_is_called_in_each_language(said: str, first: str, last: str) -> None:
    (found,) = find(said, SATURDAY)
    assert (f"{found.first}", f"{found.last}") == (first, last)


@pytest.mark.parametrize(
    "said",
    ["4000 years ago", "last of all, I may go", "mañana por la mañana no", "the 31st of June", "Friday in three days"],
)
def test_what_is_no_day(said: str) -> None:
    assert [found for found in find(said, SATURDAY) if said[found.start : found.end] != "mañana"] == []


def test_only_certain_days_are_days_and_each_once() -> None:
    said = "yesterday, last month and yesterday again, and on 2 October 2023"
    assert days_in(said, SATURDAY) == (date(2023, 7, 14), date(2023, 10, 2))


@pytest.mark.parametrize(
    "said",
    [
        "it goes out next Tuesday, 1 Aug",
        "next Tuesday (1 August)",
        "am nächsten Dienstag, 1. August",
        "1 Aug, next Tuesday",
    ],
)
def test_of_two_days_beside_each_other_the_calendar_s_is_meant(said: str) -> None:
    assert days_in(said, SATURDAY) == (date(2023, 8, 1),)


days = st.dates(min_value=date(1900, 1, 1), max_value=date(2100, 1, 1))


@given(days)
def test_named_days_are_where_they_should_be(day: date) -> None:
    for name in ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]:
        (last,) = find(f"last {name}", day)
        (coming,) = find(f"next {name}", day)
        assert day - timedelta(days=7) <= last.first < day < coming.first <= day + timedelta(days=7)
        assert f"{last.first:%A}" == f"{coming.first:%A}" == name


@given(days, st.integers(1, 100))
def test_days_ago_are_counted(day: date, count: int) -> None:
    (found,) = find(f"it was {count} days ago", day)
    assert found.first == found.last == day - timedelta(days=count)
    assert found.is_day


@given(days, st.integers(-600, 600))
def test_months_add_up(day: date, months: int) -> None:
    moved = add_months(day, months)
    assert (moved.year * 12 + moved.month) - (day.year * 12 + day.month) == months
    assert moved.day == 1


@given(days, st.sampled_from(["week", "month", "year", "Tuesday"]))
def test_spans_are_ordered(day: date, span: str) -> None:
    for side in ("last", "this", "next"):
        for found in find(f"We met {side} {span}", day):
            assert found.first <= found.last
            if side == "last":
                assert found.last < day


@given(st.sampled_from([date.min, date.max, date(9999, 12, 31)]))
def test_the_ends_of_the_calendar_are_no_errors(day: date) -> None:
    text = "yesterday, tomorrow, last year, next year, next month, last month, 100 years ago, next Monday, last winter"
    assert all(date.min <= found.first <= found.last <= date.max for found in find(text, day))


def test_a_day_is_written_out() -> None:
    assert format_date(date(2023, 11, 7)) == "7 November 2023"
    assert format_short_date(date(2023, 11, 7)) == "7 Nov 2023"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We met yesterday.", "We met yesterday [5 Nov 2026]."),
        (
            "Gestern war ich dort, letzten Montag auch.",
            "Gestern [5 Nov 2026] war ich dort, letzten Montag [2 Nov 2026] auch.",
        ),
        ("We moved last month.", "We moved last month [Oct 2026]."),
        ("It is in s3://logs/yesterday.csv and tomorrow=1.", "It is in s3://logs/yesterday.csv and tomorrow=1."),
        ("(We met *yesterday*).", "(We met *yesterday [5 Nov 2026]*)."),
        ("It was on 3 May 2025, and today it is over.", "It was on 3 May 2025, and today it is over."),
    ],
)
def test_a_relative_date_is_told_with_its_day(text: str, expected: str) -> None:
    assert with_days(text, date(2026, 11, 6)) == expected


def test_the_next_day_of_a_story_is_no_date() -> None:
    assert with_days("They order bread for the next day.", date(2026, 11, 6)) == "They order bread for the next day."


@pytest.mark.parametrize("text", ["Compare it with yesterday's list.", "We meet tomorrow in a week, on Saturday."])
def test_what_may_be_any_day_is_none(text: str) -> None:
    assert days_in(text, date(2026, 11, 6)) == ()


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("what did we choose in May?", date(2026, 5, 1), date(2026, 5, 31)),
        ("what did we choose in November?", date(2026, 11, 1), date(2026, 11, 30)),
        ("what did we choose in December?", date(2025, 12, 1), date(2025, 12, 31)),
        ("what will we ship in December?", date(2026, 12, 1), date(2026, 12, 31)),
        ("what did we choose on 12 May?", date(2026, 5, 12), date(2026, 5, 12)),
        ("who came on 12 May 2023", date(2023, 5, 12), date(2023, 5, 12)),
        ("was haben wir im Mai beschlossen?", date(2026, 5, 1), date(2026, 5, 31)),
        ("¿qué elegimos en mayo?", date(2026, 5, 1), date(2026, 5, 31)),
        ("¿qué elegimos la semana pasada?", date(2026, 11, 9), date(2026, 11, 15)),
        ("why did it break yesterday", date(2026, 11, 20), date(2026, 11, 20)),
        ("why did it break this week", date(2026, 11, 16), date(2026, 11, 22)),
        ("was ging diesen Monat kaputt?", date(2026, 11, 1), date(2026, 11, 30)),
        ("who came on 05.03.2026?", date(2026, 3, 5), date(2026, 3, 5)),
    ],
)
def test_a_question_asks_about_the_last_such_time(question: str, first: date, last: date) -> None:
    (asked,) = find_asked(question, date(2026, 11, 21))
    assert (asked.first, asked.last) == (first, last)


@pytest.mark.parametrize(
    "question", ["may I use mocks in a test?", "who may march in the band?", "what is in 1.31.2024 or 10.1.2.2024?"]
)
def test_a_word_that_is_also_a_month_is_no_time(question: str) -> None:
    assert find_asked(question, date(2026, 11, 21)) == []


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
    assert asks_for_time_alone(question, find_asked(question, date(2026, 11, 21))) is nothing_else


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2026-03-02", date(2026, 3, 2)),
        ("**2 March 2026**", date(2026, 3, 2)),
        ("Montag, 2. März 2026", date(2026, 3, 2)),
        ("2 March 2026, 14:30", date(2026, 3, 2)),
        ("Since 2 March 2026", None),
        ("2 to 4 March 2026", None),
        ("3 days ago", None),
        ("Monday", None),
        ("Step 2", None),
    ],
)
def test_a_day_of_the_calendar_stands_alone(text: str, day: date | None) -> None:
    assert calendar_day(text, date(2026, 11, 21)) == day
