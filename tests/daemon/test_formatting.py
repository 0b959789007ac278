"""How words, dates and tables look; what is said of the daemon's answers is in `tests/system/test_answers.py`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from dreamd.daemon import formatting
from dreamd.daemon.formatting import Look
from hypothesis import given
from hypothesis import strategies as st

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
LOOK = Look(80, False, NOW)


def text_of(lines: list[str]) -> str:
    assert all(formatting.columns_of(line) <= 80 for line in lines), lines
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("gap", "says"),
    [
        (timedelta(seconds=5), "just now"),
        (timedelta(minutes=1), "1 minute ago"),
        (timedelta(minutes=59), "59 minutes ago"),
        (timedelta(hours=1), "1 hour ago"),
        (timedelta(hours=8), "8 hours ago"),
        (timedelta(hours=12), "yesterday"),
        (timedelta(hours=33), "yesterday"),
        (timedelta(hours=34), "2 days ago"),
        (timedelta(days=14), "14 days ago"),
        (timedelta(days=18), "3 Nov"),
        (timedelta(days=400), "17 Oct 2025"),
        (-timedelta(seconds=30), "now"),
        (-timedelta(minutes=20), "in 20 minutes"),
        (-timedelta(hours=3), "today at 12:30"),
        (-timedelta(hours=18), "tomorrow at 03:30"),
        (-timedelta(days=5), "26 Nov"),
    ],
)
def test_dates_are_said_as_a_person_would(gap: timedelta, says: str) -> None:
    assert formatting.relative(NOW - gap, NOW) == says


@pytest.mark.parametrize("instant", [None, "", "yesterday", "2026-13-40"])
def test_a_text_that_is_no_instant_is_undated(instant: str | None) -> None:
    assert LOOK.ago(instant) == "undated"


@pytest.mark.parametrize(
    ("seconds", "says"),
    [
        (0.04, "0.0 s"),
        (9.9, "9.9 s"),
        (12, "12 s"),
        (185, "3 min 5 s"),
        (1200, "20 min"),
        (7200, "2 hours"),
        (400_000, "4 days"),
    ],
)
def test_durations(seconds: float, says: str) -> None:
    assert formatting.duration(seconds) == says


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("no daemon answers", "No daemon answers."),
        ("There it is.", "There it is."),
        ("did you mean this?", "Did you mean this?"),
        ("/a/b is in the way", "/a/b is in the way."),
        ("dreamd is stopping", "dreamd is stopping."),
        ("'limit' is missing", "'limit' is missing."),
        ("", ""),
    ],
)
def test_sentences(text: str, says: str) -> None:
    assert formatting.sentence(text) == says


def test_a_listing_counts_the_rest() -> None:
    assert formatting.listing([]) == "none"
    assert formatting.listing(["a"]) == "a"
    assert formatting.listing(["a", "b", "c"]) == "a, b and c"
    assert formatting.listing(list("abcdefghij"), 3) == "a, b, c and 7 more"


@pytest.mark.parametrize("evil", ["\x1b[2J", "\x1b]0;title\x07", "\x9b31m", "\x07", "\r", "\x1b", "\u202e"])
def test_a_memory_cannot_command_the_terminal(evil: str) -> None:
    assert formatting.clean(f"a{evil}b") in ("ab", "a[2Jb", "a31mb")
    for shown in (*LOOK.wrap(f"a{evil}b"), *formatting.table([(f"a{evil}b", f"{evil}c")], LOOK)):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", shown)


@given(st.text(), st.integers(20, 120), st.integers(0, 8))
def test_wrapped_lines_fit_and_keep_every_word(text: str, width: int, max_lines: int) -> None:
    lines = Look(width, False, NOW).wrap(text, "  ", max_lines)
    assert not max_lines or len(lines) <= max_lines
    assert all(len(line) <= min(width, 100) for line in lines if "more lines" not in line and "|" not in line)
    if not max_lines:
        assert "".join("".join(lines).split()) == "".join(formatting.clean(text).split())


@given(st.lists(st.tuples(st.text(max_size=20), st.text(max_size=200)), min_size=1, max_size=5), st.integers(40, 100))
def test_tables_fit_unless_a_name_alone_is_too_long(rows: list[tuple[str, str]], width: int) -> None:
    look = Look(width, False, NOW)
    widest = max(formatting.columns_of(formatting.clean(name)) for name, _ in rows)
    for line in formatting.table(rows, look):
        assert formatting.columns_of(line) <= max(width, widest + 2 + 16)


def test_a_last_column_with_no_room_goes_under_the_others() -> None:
    rows = [("a" * 60, "a title of some length that nobody could read in a few columns"), ("b", "")]
    assert formatting.table(rows, LOOK, ("node", "title")) == [
        "node  title",
        "a" * 60,
        "    a title of some length that nobody could read in a few columns",
        "b",
    ]


def test_lists_hang_and_tables_stay() -> None:
    lines = Look(24, False, NOW).wrap("- one two three four five six\n\n| a | b | c | d | e | f | g | h |\n1. x")
    assert lines == ["- one two three four", "  five six", "", "| a | b | c | d | e | f | g | h |", "1. x"]


def test_columns_align_with_wide_characters() -> None:
    lines = formatting.table([("日本", "x"), ("abcd", "y"), ("é", "z")], LOOK)
    assert [formatting.columns_of(line[: line.index(c)]) for line, c in zip(lines, "xyz", strict=True)] == [6, 6, 6]


def test_pairs_stand_side_by_side_whole() -> None:
    rows = [("an old statement that is rather long for half of a narrow screen", "a new one"), ("x", "y")]
    lines = formatting.side_by_side(rows, Look(60, False, NOW), ("before", "now"))
    assert lines[0].split() == ["before", "now"]
    assert all(len(line) <= 60 for line in lines)
    assert " ".join(line[:28].strip() for line in lines[1:4]) == rows[0][0]
    assert lines[1].endswith("   a new one")
    assert lines[-1].split() == ["x", "y"]
