"""Dates: the days that "yesterday", "last Friday" or "12. Mai" names on the day it was said, in each known language.

Questions are read apart from statements: in a question "in May" is a past time, and "before the release" an event.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache, lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from ..limits import LONGEST_QUESTION_CHARS
from .languages import entries, languages, phrases, table, words_in
from .words import TERM, before_apostrophe, stems_of, without_question_words

MONTHS: Final = tuple("January February March April May June July August September October November December".split())
SHORT_MONTHS: Final = tuple(month[:3] for month in MONTHS)

MONTH_NUMBERS: Final = {name.lower(): number for number, name in enumerate(MONTHS, start=1)}
"""The lower-case name of a month to its number, 1 to 12."""

ANY_DAY: Final = date(2000, 1, 1)
"""A day to read a text on where only the places of its dates count. Its year has a 29 February, as few have."""

_MOST_YEARS = 150  # "4000 years ago" is history, not a date of a person's life
_WORD_START = r"(?<!\w)"
MOST_MARKS = 9
"""The most marks between a word and white space: brackets, quotation marks, a full stop."""

_BEFORE = re.compile(rf"(?:^|\s)[^\w\s=/.\\@:]{{0,{MOST_MARKS}}}\Z|[—–…]\Z")
_BEHIND = re.compile(rf"[^\w\s=/\\@]{{0,{MOST_MARKS}}}(?:\s|\Z)|[—–…]")
_ISO = re.compile(r"\b\d{4}-\d\d-\d\d\b")
_BY_DOTS = re.compile(r"(?<![\w.])(\d{1,2})\. ?(\d{1,2})\. ?((?:19|20)\d\d)(?![\w.])")
_LETTERS = re.compile(r"[^\W\d_]+")
_RECENT_DAYS = 120
"""A date without a year is in the past if it lies at most so many days back: "since 1 October" said on the 6th.

In a text about the future it never is.
"""

_ASKED_DAYS = 364
"""The same for a question, which asks about the past."""

_KINDS = ("ago", "ahead", "within", "last", "next", "next_but_one", "last_unit", "next_unit", "dates")


_ASKED = ("asked", "this_unit")
"""The forms that name a time in a question alone: in a statement "in May" is as often a plan."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """The days, from `first` to `last`, that characters [start, end) of a text name."""

    start: int
    end: int
    first: date
    last: date

    @property
    def is_day(self) -> bool:
        """Return True if it is one certain day."""
        return self.first == self.last


def find(text: str, said_on: date) -> list[Resolved]:
    """Return the days and spans that a text names, in order; of two that overlap the longer."""
    return _longest([*_in_words(text, said_on, _KINDS), *_written_as_numbers(text)])


def find_asked(question: str, asked_on: date) -> list[Resolved]:
    """Return the days and spans that a question asks about, in order.

    A day or month without a year is the last one that has begun, unless the question is about the future.
    """
    found = _in_words(question, asked_on, (*_KINDS, *_ASKED), asks=True)
    return _longest([*found, *_written_as_numbers(question), *_written_with_dots(question)])


def _longest(found: list[Resolved]) -> list[Resolved]:
    """Return readings in the order of the text; of two that overlap the longer."""
    apart: list[Resolved] = []
    # The longest first: "next Friday" is one date and not "Friday".
    for one in sorted(found, key=lambda one: (one.start - one.end, one.start)):
        if all(one.end <= other.start or other.end <= one.start for other in apart):
            apart.append(one)
    return sorted(apart, key=lambda one: one.start)


def days_in(text: str, said_on: date) -> tuple[date, ...]:
    """Return the certain days that a text names, each once, in the order of the text."""
    return tuple(dict.fromkeys(one.first for one in certain(text, said_on) if one.is_day))


def certain(text: str, said_on: date) -> list[Resolved]:
    """Return the days and spans that a text names for sure.

    Not "yesterday's list", which may be any day's, nor two that qualify each other ("tomorrow in a week").
    """
    found = find(text, said_on)
    doubtful: set[int] = set()
    for place, (one, following) in enumerate(pairwise(found)):
        between = text[one.end : following.start].strip()
        if between not in {"", ",", "("}:
            continue
        # Of "next Tuesday, 22 Sept" the day of the calendar is meant, whatever week "next" is.
        is_fixed = [_is_of_calendar(text[day.start : day.end], day, said_on) for day in (one, following)]
        if is_fixed[0] != is_fixed[1]:
            doubtful.add(place + is_fixed[0])
        elif not between:
            # Two dates with nothing between them qualify each other: "tomorrow in a week" is neither of them.
            doubtful |= {place, place + 1}
    return [
        one for place, one in enumerate(found) if place not in doubtful and not text.startswith(("'s", "’s"), one.end)
    ]


def calendar_day(text: str, said_on: date) -> date | None:
    """Return the day of the calendar that a text names and nothing else: "Mon, 2 March 2026", "2026-03-02 14:30"."""
    if not any(char.isdigit() for char in text):
        return None
    found = [one for one in certain(text, said_on) if one.is_day]
    if len(found) != 1 or not _is_of_calendar(text[found[0].start : found[0].end], found[0], said_on):
        return None
    around = _LETTERS.findall(f"{text[: found[0].start]} {text[found[0].end :]}".lower())
    return found[0].first if all(_is_weekday(word) for word in around) else None


def _is_weekday(word: str) -> bool:
    """Return True for the name of a weekday, or its beginning: "Mon"."""
    return len(word) > 2 and any(day.startswith(word) for name in languages() for day in entries(name, "weekdays"))


def _is_of_calendar(words: str, day: Resolved, said_on: date) -> bool:
    """Check for a day that the words name whenever they are said; "next Tuesday" moves with the week."""
    a_week_on = find(words, said_on + timedelta(weeks=1))
    return day.is_day and [one.first for one in a_week_on] == [day.first]


def last_named(text: str, said_on: date) -> date | None:
    """Return the last day that a text names; None for a text without dates."""
    return max((one.last for one in find(text, said_on)), default=None)


def names_one_of(text: str, said_on: date, spans: Collection[Resolved]) -> bool:
    """Return True if a text names a day of some spans."""
    return any(one.first <= span.last and span.first <= one.last for one in find(text, said_on) for span in spans)


@lru_cache(maxsize=4096)
def with_days(text: str, said_on: date) -> str:
    """Write the meaning of each relative date behind it: "yesterday [6 Nov 2026]", "last month [Oct 2026]"."""
    for one in reversed(certain(text, said_on)):  # from the end, so that earlier places stay valid
        is_named = any(character.isdigit() for character in text[one.start : one.end])
        if not is_named and one.first != said_on and _stands_free(text, one.start, one.end):
            text = f"{text[: one.end]} [{_short(one)}]{text[one.end :]}"
    return text


def _stands_free(text: str, start: int, end: int) -> bool:
    """Return True for words that are no part of a name, a path or code: only marks separate them from white space."""
    return (
        _BEFORE.search(text, max(0, start - MOST_MARKS - 1), start) is not None and _BEHIND.match(text, end) is not None
    )


def _short(one: Resolved) -> str:
    """Write a day, the first day of a week, a month or a year in as few tokens as say it."""
    days = (one.last - one.first).days
    if days > 31:
        return f"{one.first.year}"
    if days > 7:
        return f"{SHORT_MONTHS[one.first.month - 1]} {one.first.year}"
    return f"{'' if one.is_day else 'week of '}{format_short_date(one.first)}"


def format_span(one: Resolved) -> str:
    """Format a span as its day, month or year, else by its first and its last day."""
    first, last = one.first, one.last
    if one.is_day:
        return format_date(first)
    if (first.day, last) == (1, add_months(first, 1) - timedelta(days=1)):
        return f"{MONTHS[first.month - 1]} {first.year}"
    if (first, last) == (date(first.year, 1, 1), date(first.year, 12, 31)):
        return f"{first.year}"
    return f"{format_date(first)} to {format_date(last)}"


def format_date(day: date) -> str:
    """Format a day as `7 May 2023`."""
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


def format_short_date(day: date) -> str:
    """Format a day as `7 Nov 2023`: four tokens instead of the seven of ISO's form."""
    return f"{day.day} {SHORT_MONTHS[day.month - 1]} {day.year}"


def add_months(day: date, months: int) -> date:
    """Return the first day of the month that is `months` away."""
    index = day.year * 12 + day.month - 1 + months
    return date(index // 12, index % 12 + 1, 1)


def _written_as_numbers(text: str) -> Iterator[Resolved]:
    for match in _ISO.finditer(text):
        try:
            day = date.fromisoformat(match.group())
        except ValueError:  # a 31st of June
            continue
        yield Resolved(match.start(), match.end(), day, day)


def _written_with_dots(text: str) -> Iterator[Resolved]:
    """Yield the days of a question that are written as 5.3.2026, the day first."""
    for match in _BY_DOTS.finditer(text):
        day, month, year = map(int, match.groups())
        with suppress(ValueError):  # a version, or a 31st of June
            yield Resolved(match.start(), match.end(), date(year, month, day), date(year, month, day))


@cache
def _patterns(language: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return the patterns of a language, each with its kind."""
    counts, units = table(language, "days.counts"), table(language, "days.units")
    parts = {
        "{n}": rf"(?P<n>\d{{1,4}}|{'|'.join(counts)})",
        "{unit}": "(?:" + "|".join(rf"(?P<{unit}>{words})" for unit, words in units.items()) + ")",
        "{weekday}": rf"(?P<weekday>{'|'.join(entries(language, 'weekdays'))})",
        "{month}": rf"(?P<month>{'|'.join(entries(language, 'months'))})",
        "{d}": r"(?P<d>\d{1,2})",
        "{year}": r"(?P<year>(?:19|20)\d\d)",
    }
    templates = [(f"offset {days}", f"(?:{words})") for days, words in table(language, "days.offsets").items()]
    templates += [(kind, template) for kind in (*_KINDS, *_ASKED) for template in entries(language, f"days.{kind}")]
    # Only beside a day is a short month sure: "22 Sept", but not "in mar", which is the sea.
    short = (rf"{name[:letters]}\.?" for name in entries(language, "months") for letters in (4, 3))
    named = dict.fromkeys((*entries(language, "months"), *short))
    beside_day = parts | {"{month}": rf"(?P<month>{'|'.join(named)})"}
    return tuple((kind, _compiled(one, beside_day if "{d}" in one else parts)) for kind, one in templates)


def _compiled(template: str, parts: Mapping[str, str]) -> re.Pattern[str]:
    for place, pattern in parts.items():
        template = template.replace(place, pattern)
    return re.compile(rf"{_WORD_START}{template}(?!\w)", re.IGNORECASE)


@cache
def _any_pattern() -> re.Pattern[str]:
    """Return a pattern that matches where one of any language does: one pass over a text instead of fifty."""
    patterns = (pattern.pattern.removeprefix(_WORD_START) for name in languages() for _, pattern in _patterns(name))
    # A group may have a name only once in a pattern, and this one joins all.
    unnamed = (re.sub(r"\?P<\w+>", "?:", pattern) for pattern in patterns)
    return re.compile(f"{_WORD_START}(?:{'|'.join(unnamed)})", re.IGNORECASE)


def _in_words(text: str, said_on: date, kinds: Collection[str], *, asks: bool = False) -> list[Resolved]:
    if not _any_pattern().search(text):
        return []
    return [one for name in languages() for one in _in_language(text, name, said_on, kinds, asks=asks)]


def _in_language(
    text: str, language: str, said_on: date, kinds: Collection[str], *, asks: bool = False
) -> Iterator[Resolved]:
    # A plan looks forward: "on 3 May we will …" is the next 3 May, everywhere else the last one if it is recent.
    will_be = bool(phrases("tense.future").search(text))
    recent_days = 0 if will_be else _ASKED_DAYS if asks else _RECENT_DAYS
    for kind, pattern in _patterns(language):
        if kind not in kinds and not kind.startswith("offset"):
            continue
        for match in pattern.finditer(text):
            try:
                span = _span(kind, match.groupdict(), language, said_on, recent_days, will_be=will_be)
            except (ValueError, OverflowError):  # a 31st of June, a year before 1 or after 9999
                continue
            if span:
                yield Resolved(match.start(), match.end(), *span)


def _span(
    kind: str, said: Mapping[str, str | None], language: str, said_on: date, recent_days: int, *, will_be: bool
) -> tuple[date, date] | None:
    if kind == "within" and not will_be:
        return None  # "finished it in two days" is a duration
    sign = -1 if kind in {"ago", "last", "last_unit"} else 0 if kind == "this_unit" else 1
    if kind.startswith("offset"):
        day = said_on + timedelta(days=int(kind.split()[1]))
        return day, day
    if kind in {"dates", "asked"}:
        earliest = said_on - timedelta(days=recent_days)
        if kind == "asked" and will_be:
            earliest = earliest.replace(day=1)
        return _named(said, language, earliest, earliest.year if recent_days == _ASKED_DAYS else said_on.year)
    count = _count(said.get("n"), language)
    if weekday := said.get("weekday"):
        if said.get("n") and not said.get("week"):
            return None  # "Friday in three days" is neither
        ahead = (entries(language, "weekdays").index(weekday.lower()) - said_on.weekday()) % 7
        day = said_on + timedelta(days=ahead - 7 if sign < 0 else ahead or 7)
        day += timedelta(weeks=count if kind == "next_but_one" else 0)
        return day, day
    unit = next(unit for unit in ("day", "week", "month", "year") if said.get(unit))
    if unit == "day" and kind in {"last_unit", "next_unit", "this_unit"}:
        return None  # "the next day" is the one after what is told
    return None if count > _MOST_YEARS else _moved(said_on, unit, sign * count)


def _count(number: str | None, language: str) -> int:
    """Read a count, written in digits or in words; 1 where there is none."""
    if number is None or number.isdigit():
        return int(number or 1)
    return int(table(language, "days.counts")[number.lower()])


def _moved(said_on: date, unit: str, count: int) -> tuple[date, date]:
    """Return the first and last day of the day, week, month or year that is `count` units away."""
    if unit == "day":
        day = said_on + timedelta(days=count)
        return day, day
    if unit == "week":
        monday = said_on + timedelta(days=7 * count - said_on.weekday())
        return monday, monday + timedelta(days=6)
    if unit == "month":
        first = add_months(said_on, count)
        return first, add_months(first, 1) - timedelta(days=1)
    return date(said_on.year + count, 1, 1), date(said_on.year + count, 12, 31)


def _named(said: Mapping[str, str | None], language: str, earliest: date, this_year: int) -> tuple[date, date]:
    """Read a date; a day without a year is the first such day from `earliest` on."""
    year = int(said.get("year") or this_year)
    if not said.get("month"):
        return date(year, 1, 1), date(year, 12, 31)
    named = (said["month"] or "").lower().rstrip(".")
    month = next(number for number, name in enumerate(entries(language, "months"), 1) if name.startswith(named))
    if not said.get("d"):
        first = date(year, month, 1)
        if not said.get("year") and first < earliest:
            first = first.replace(year=year + 1)
        return first, add_months(first, 1) - timedelta(days=1)
    day = date(year, month, int(said["d"] or 0))
    if not said.get("year") and day < earliest:
        day = day.replace(year=year + 1)
    return day, day


# ---- the time that a question asks about


EVENT_WORDS: Final = 2
"""The first terms behind "before" name the event: "the release", "Anna left". Later ones may be the question's own."""

_MARK = re.compile(r"[,;:.!?]")


class Event(NamedTuple):
    """The stems of the words that name an event, and if a question asks about the time before it, or after."""

    stems: frozenset[str]
    is_before: bool


def event_in(question: str) -> Event | None:
    """Return the event that a question asks about the time before or after, as "before the release"; None for none.

    Its words go up to the next mark. Not a day or a month, which `find_asked` reads, and none in a long text.
    """
    if len(question) > LONGEST_QUESTION_CHARS:
        return None
    found = [
        (match.end(), side) for side in ("before", "after") if (match := phrases(f"events.{side}").search(question))
    ]
    if not found or find_asked(question, ANY_DAY):  # most questions name no event, and dates cost more to look for
        return None
    for end, side in sorted(found):
        named = _MARK.split(question[end:], 1)[0]
        if terms := without_question_words(match.group().lower() for match in TERM.finditer(named)):
            return Event(stems_of(terms[:EVENT_WORDS]), side == "before")
    return None


def asks_for_newest(question: str) -> bool:
    """Return True for a question about the newest: "what did we change last?"."""
    return phrases("days.newest").search(question) is not None


def asks_for_time_alone(question: str, times: Collection[Resolved]) -> bool:
    """Return True for a question that names nothing but some times, or the newest: "what happened on 5 March?"."""
    if not times and not asks_for_newest(question):
        return False
    for one in sorted(times, key=lambda one: -one.start):
        question = f"{question[: one.start]} {question[one.end :]}"
    for section in ("days.newest", "days.happenings"):
        question = phrases(section).sub(" ", question)
    asking = words_in("question_words") | words_in("days.asking")
    return all(before_apostrophe(match.group().lower()) in asking for match in TERM.finditer(question))
