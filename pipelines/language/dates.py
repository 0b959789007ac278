"""Relative dates: what "yesterday" or "last Friday" means on the day it was said, in one standard wording.

A day becomes itself ("on 7 May 2023"); a vaguer span is told from the day it was said ("the week before 9 June 2023"),
since that is all the speaker said; a count is kept with its result beside it ("3 months ago (March 2023)").
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta

from ...store.text.vocabulary import MONTHS, NUMBER_WORDS, WEEKDAYS

_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}  # first month, northern
_NUMBERS = {word: number for word, number in NUMBER_WORDS.items() if 1 <= number <= 12}
_COUNTS = {"a": 1, "an": 1, "couple": 2} | _NUMBERS
_MOST_YEARS = 150  # "4000 years ago" is history, not a date of a person's life

_DAY_PART = "morning|afternoon|evening|night"
_UNIT = "day|night|week|weekend|month|year"
_SHORT_DAYS = {
    "mon": 0,
    "tue": 1,
    "tues": 1,
    "wed": 2,
    "thu": 3,
    "thur": 3,
    "thurs": 3,
    "fri": 4,
}  # sat and sun are words
_SPAN = "|".join(["week", "weekend", "month", "year", *_SEASONS, *WEEKDAYS, *MONTHS, *_SHORT_DAYS])
_COUNT = r"\d{1,4}|a\ couple(?:\ of)?|an?|" + "|".join(_NUMBERS)
_FUTURE = re.compile(
    r"\b(?:will|won't|going to|gonna|plan\w*|soon|can't wait|hop\w+ to|[a-z]+'ll|is|are|am|'m|'re)\b", re.I
)

_RELATIVE = re.compile(
    rf"""\b(?:
      (?P<outer>the\ day\ (?:before\ yesterday|after\ tomorrow))
    | (?P<day>yesterday|today|tomorrow|tonight)(?:\ (?P<part>{_DAY_PART}))?
    | last\ (?P<last_part>night|evening)
    | this\ (?P<this_part>morning|afternoon|evening)
    | (?P<vague>a\ few|few|several|some)\ (?P<vague_unit>{_UNIT})s\ ago
    | (?P<count>{_COUNT})\ (?P<unit>{_UNIT})s?\ (?P<ago>ago|from\ now)
    | in\ (?P<in_count>{_COUNT})\ (?P<in_unit>day|week|month|year)s?
    | (?P<side>this\ past|this\ coming|last|this|next|coming)\ (?P<span>{_SPAN})
    )\b(?!\ \()""",
    re.IGNORECASE | re.VERBOSE,
)
_PREPOSITION = re.compile(
    r"\b(?:on|in|at|since|from|by|until|till|til|before|after|of|for|during|about|than|over|between|and|to|around|the|like)\s+$",
    re.IGNORECASE,
)
_AS_SUBJECT = re.compile(r"(?:'s\b|\s+(?:was|is|has|will|were|would|seems|might)\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Resolved:
    """One relative date of a text: characters [start, end), its absolute wording, and the days that it spans."""

    start: int
    end: int
    wording: str
    first: date
    last: date


def resolve(text: str, said_on: date) -> str:
    """Make the relative dates of a text absolute; every other character stays."""
    pieces, done = [], 0
    for found in find(text, said_on):
        pieces += [text[done : found.start], found.wording]
        done = found.end
    return "".join([*pieces, text[done:]])


def find(text: str, said_on: date) -> list[Resolved]:
    """Return the relative dates of a text that was said on a day, in order."""
    plain = text.replace("’", "'")
    readings = (_read(match, plain, said_on) for match in _RELATIVE.finditer(plain))
    return [reading for reading in readings if reading]


def format_date(day: date) -> str:
    """Format a day as `7 May 2023`."""
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


def format_month(day: date) -> str:
    """Format a month as `May 2023`."""
    return f"{MONTHS[day.month - 1]} {day.year}"


def add_months(day: date, months: int) -> date:
    """Return the first day of the month so many months away."""
    index = day.year * 12 + day.month - 1 + months
    return date(index // 12, index % 12 + 1, 1)


def _read(match: re.Match[str], text: str, said_on: date) -> Resolved | None:
    try:
        read = _reader(match)(match, text, said_on)
    except (ValueError, OverflowError):  # before the year 1 or after 9999
        return None
    if read is None:
        return None
    preposition, wording, first, last = read
    before, after = text[: match.start()], text[match.end() :]
    bare = _PREPOSITION.search(before) or _AS_SUBJECT.match(after)
    if preposition and not bare:
        wording = f"{preposition} {wording}"
    if not before.strip():
        wording = wording[0].upper() + wording[1:]
    return Resolved(match.start(), match.end(), wording, first, last)


_Reading = tuple[str, str, date, date]
_Reader = Callable[[re.Match[str], str, date], _Reading | None]


def _reader(match: re.Match[str]) -> _Reader:
    for group, reader in _READERS.items():
        if match[group]:
            return reader
    raise AssertionError(match.re.pattern)


def _outer(match: re.Match[str], text: str, said_on: date) -> _Reading:
    day = said_on + timedelta(days=-2 if "before" in match["outer"].lower() else 2)
    return "on", format_date(day), day, day


def _day(match: re.Match[str], text: str, said_on: date) -> _Reading:
    word = match["day"].lower()
    day = said_on + timedelta(days={"yesterday": -1, "tomorrow": 1}.get(word, 0))
    part = "night" if word == "tonight" else (match["part"] or "").lower()
    return _part_of_day(day, part)


def _last_part(match: re.Match[str], text: str, said_on: date) -> _Reading:
    return _part_of_day(said_on - timedelta(days=1), match["last_part"].lower())


def _this_part(match: re.Match[str], text: str, said_on: date) -> _Reading:
    return _part_of_day(said_on, match["this_part"].lower())


def _part_of_day(day: date, part: str) -> _Reading:
    wording = f"the {part} of {format_date(day)}" if part else format_date(day)
    return "on", wording, day, day


def _vague(match: re.Match[str], text: str, said_on: date) -> _Reading:
    unit = match["vague_unit"].lower()
    wording = f"{match['vague'].lower()} {unit}s before {format_date(said_on)}"
    return "", wording, _moved(said_on, unit, -12), said_on


def _ago(match: re.Match[str], text: str, said_on: date) -> _Reading | None:
    count, unit = _count(match["count"]), match["unit"].lower()
    if count > _MOST_YEARS:
        return None
    sign = -1 if match["ago"].lower() == "ago" else 1
    day = _moved(said_on, unit, sign * count)
    if unit in {"day", "night"}:
        return "on", format_date(day), day, day
    if unit in {"week", "weekend"}:
        side = "before" if sign < 0 else "after"
        spoken = match["count"].replace("a couple of", "two").replace("a couple", "two")
        return "", f"{spoken} {unit}{'s' if count > 1 else ''} {side} {format_date(said_on)}", day, day
    return "", f"{match[0]} ({_month_or_year(day, unit)})", day, day


def _in(match: re.Match[str], text: str, said_on: date) -> _Reading | None:
    count, unit = _count(match["in_count"]), match["in_unit"].lower()
    # "in two weeks" is a date only of what is still to come; "finished it in two weeks" is a duration.
    if count > _MOST_YEARS or not _FUTURE.search(text[: match.start()]):
        return None
    day = _moved(said_on, unit, count)
    shown = format_date(day) if unit in {"day", "week"} else _month_or_year(day, unit)
    return "", f"{match[0]} ({shown})", day, day


def _span(match: re.Match[str], text: str, said_on: date) -> _Reading | None:
    side, span = match["side"].lower(), match["span"].lower()
    sign = {"last": -1, "this past": -1, "this": 0}.get(side, 1)
    if re.search(r"\bthe\s+$", text[: match.start()], re.IGNORECASE):
        return None  # "the next day", "the last week": told from elsewhere, or a duration
    if match["span"] == "may" or (span == "march" and match["span"].islower()):
        return None
    if span in {"week", "weekend"}:
        relation = {-1: "before", 0: "of", 1: "after"}[sign]
        day = said_on + timedelta(days=7 * sign)
        return "", f"the {span} {relation} {format_date(said_on)}", *sorted((day, said_on))  # type: ignore[return-value]
    if span == "month":
        first = add_months(said_on, sign)
        return "in", format_month(first), first, add_months(first, 1) - timedelta(days=1)
    if span == "year":
        year = said_on.year + sign
        return "in", str(year), date(year, 1, 1), date(year, 12, 31)
    if span in _SEASONS:
        return _season(span, sign, said_on)
    if span in _SHORT_DAYS:
        return _weekday(WEEKDAYS[_SHORT_DAYS[span]], sign, said_on)
    if span.capitalize() in WEEKDAYS:
        return _weekday(span.capitalize(), sign, said_on)
    return _named_month(span.capitalize(), sign, said_on)


def _season(name: str, sign: int, said_on: date) -> _Reading:
    year = said_on.year
    first = date(year, _SEASONS[name], 1)
    while sign < 0 and add_months(first, 3) > said_on:  # the latest that is over
        first = date(first.year - 1, first.month, 1)
    if sign > 0 and first <= said_on:
        first = date(year + 1, first.month, 1)
    if sign == 0 and name == "winter" and said_on.month <= 3:
        first = date(year - 1, first.month, 1)
    wording = f"the winter of {first.year}/{first.year + 1}" if name == "winter" else f"the {name} of {first.year}"
    return "in", wording, first, add_months(first, 3) - timedelta(days=1)


def _weekday(name: str, sign: int, said_on: date) -> _Reading:
    offset = (WEEKDAYS.index(name) - said_on.weekday()) % 7
    if sign < 0:
        day = said_on - timedelta(days=7 - offset if offset else 7)
        return "", f"the {name} before {format_date(said_on)}", day, day
    day = said_on + timedelta(days=offset)
    if sign > 0 and not offset:
        day += timedelta(days=7)
    if sign > 0:
        return "", f"the {name} after {format_date(said_on)}", day, day
    return "on", f"{name} {format_date(day)}", day, day


def _named_month(name: str, sign: int, said_on: date) -> _Reading:
    month = MONTHS.index(name) + 1
    year = said_on.year
    if sign < 0 and month >= said_on.month:
        year -= 1
    if sign > 0 and month <= said_on.month:
        year += 1
    first = date(year, month, 1)
    return "in", format_month(first), first, add_months(first, 1) - timedelta(days=1)


def _count(words: str) -> int:
    key = words.lower().removeprefix("a ").removesuffix(" of") if "couple" in words.lower() else words.lower()
    return int(key) if key.isdigit() else _COUNTS[key]


def _moved(day: date, unit: str, count: int) -> date:
    if unit in {"day", "night"}:
        return day + timedelta(days=count)
    if unit in {"week", "weekend"}:
        return day + timedelta(days=7 * count)
    return add_months(day, count * (12 if unit == "year" else 1))


def _month_or_year(day: date, unit: str) -> str:
    return str(day.year) if unit == "year" else format_month(day)


_READERS: dict[str, _Reader] = {
    "outer": _outer,
    "day": _day,
    "last_part": _last_part,
    "this_part": _this_part,
    "vague": _vague,
    "count": _ago,
    "in_count": _in,
    "side": _span,
}
