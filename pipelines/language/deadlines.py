"""Deadlines: the last day that a text names, after which what it says is past."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta

from ...store.text.vocabulary import MONTH_NUMBERS, MONTHS
from . import dates

_MONTH = "|".join(MONTHS)
_NAMED = re.compile(
    rf"""(?P<vague>\bafter\ )?\b(?:
      (?P<day>\d{{1,2}})(?:st|nd|rd|th)?\ (?:of\ )?(?P<month>{_MONTH})\b(?:,?\ (?P<year>\d{{4}})\b)?
    | (?P<month2>{_MONTH})\ (?P<day2>\d{{1,2}})(?:st|nd|rd|th)?\b(?!\d)(?:,?\ (?P<year2>\d{{4}})\b)?
    | (?P<month3>{_MONTH})\ (?P<year3>\d{{4}})\b
    | (?:in|by|until|during|of)\ (?P<year4>(?:19|20)\d\d)\b
    )""",
    re.VERBOSE,
)
_AFTER = timedelta(days=14)
"""Time after which "after" a day ("the weekend after 9 June 2023") is over."""


def last_named(text: str, said_on: date) -> date | None:
    """Return the last day that a text names; None for a text without dates.

    A day without a year is the first such day from when it was said.
    """
    days = [day for match in _NAMED.finditer(text) for day in _read(match, said_on)]
    days += [found.last for found in dates.find(text, said_on)]
    return max(days, default=None)


def _read(match: re.Match[str], said_on: date) -> Iterator[date]:
    month = match["month"] or match["month2"] or match["month3"]
    day = match["day"] or match["day2"]
    year = match["year"] or match["year2"] or match["year3"] or match["year4"]
    try:
        if month is None:
            named = date(int(year), 12, 31)
        elif day is None:
            named = dates.add_months(date(int(year), MONTH_NUMBERS[month.lower()], 1), 1) - timedelta(days=1)
        elif year:
            named = date(int(year), MONTH_NUMBERS[month.lower()], int(day))
        else:
            named = date(said_on.year, MONTH_NUMBERS[month.lower()], int(day))
            named = named if named >= said_on else named.replace(year=said_on.year + 1)
        yield named + (_AFTER if match["vague"] else timedelta(0))
    except (ValueError, OverflowError):  # the 31st of June
        return
