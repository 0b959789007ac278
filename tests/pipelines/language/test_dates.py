from __future__ import annotations

import re
from datetime import date, timedelta

import pytest
from dreamd.pipelines.language.dates import add_months, find, format_date, resolve
from hypothesis import given
from hypothesis import strategies as st

SATURDAY = date(2023, 7, 15)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("I went yesterday.", "I went on 14 July 2023."),
        ("Yesterday was great.", "14 July 2023 was great."),
        ("since yesterday", "since 14 July 2023"),
        ("We met last Friday.", "We met the Friday before 15 July 2023."),
        ("We met last Saturday.", "We met the Saturday before 15 July 2023."),
        ("joined last Tues.", "joined the Tuesday before 15 July 2023."),
        ("last week we met", "The week before 15 July 2023 we met"),
        ("this past weekend", "The weekend before 15 July 2023"),
        ("I painted it last year!", "I painted it in 2022!"),
        ("last year's party", "2022's party"),
        ("I go camping next month", "I go camping in August 2023"),
        ("done two days ago", "done on 13 July 2023"),
        ("done a couple of weeks ago", "done two weeks before 15 July 2023"),
        ("moved 4 years ago", "moved 4 years ago (2019)"),
        ("moved 3 months ago", "moved 3 months ago (April 2023)"),
        ("a few days ago we met", "A few days before 15 July 2023 we met"),
        ("I'll start in two weeks", "I'll start in two weeks (29 July 2023)"),
        ("I read it in two weeks", "I read it in two weeks"),
        ("last night", "On the night of 14 July 2023"),
        ("see you tomorrow morning", "see you on the morning of 16 July 2023"),
        ("last summer", "In the summer of 2022"),
        ("last August", "In August 2022"),
        ("this Friday", "On Friday 21 July 2023"),
        ("the next day we left", "the next day we left"),
        ("4000 years ago", "4000 years ago"),
        ("last of all, I may go", "last of all, I may go"),
        ("4 years ago (2019)", "4 years ago (2019)"),
    ],
)
def test_the_standard_wording(said: str, meant: str) -> None:
    assert resolve(said, SATURDAY) == meant


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
    assert format_date(found.first) in resolve(f"it was {count} days ago", day)


@given(days, st.integers(-600, 600))
def test_months_add_up(day: date, months: int) -> None:
    moved = add_months(day, months)
    assert (moved.year * 12 + moved.month) - (day.year * 12 + day.month) == months
    assert moved.day == 1


@given(days, st.sampled_from(["week", "weekend", "month", "year", "summer", "winter", "Tuesday", "March"]))
def test_spans_are_ordered(day: date, span: str) -> None:
    for side in ("last", "this", "next"):
        for found in find(f"We met {side} {span}", day):
            assert found.first <= found.last
            if side == "last" and span not in {"week", "weekend"}:
                assert found.last < day or span == "winter"


@given(days, st.text(alphabet="abc yestrday0123456789.,'()", max_size=60))
def test_what_is_no_date_stays(day: date, text: str) -> None:
    found = find(text, day)
    kept = re.findall(r"\d+", _without(text, found))
    for number in kept:
        assert number in resolve(text, day)


@given(st.sampled_from([date.min, date.max, date(9999, 12, 31)]))
def test_the_ends_of_the_calendar_are_no_errors(day: date) -> None:
    text = "yesterday, tomorrow, last year, next year, next month, last month, 100 years ago, next Monday, last winter"
    assert resolve(text, day)


def test_resolving_twice_changes_nothing() -> None:
    text = "Last week, 4 years ago, yesterday, next month, this weekend, two weeks ago, last Friday, last summer."
    once = resolve(text, SATURDAY)
    assert resolve(once, SATURDAY + timedelta(days=400)) == once


def _without(text: str, found: list) -> str:  # type: ignore[type-arg]
    for part in reversed(found):
        text = text[: part.start] + text[part.end :]
    return text
