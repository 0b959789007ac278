"""The ways in which the sets write an instant."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime

from dreamd.store import MONTH_NUMBERS, in_calendar

_LOCOMO = re.compile(r"(\d{1,2}):(\d\d) ?([ap])m on (\d{1,2}) (\w+),? (\d{4})", re.IGNORECASE)
_ANCHOR = re.compile(r"(\w+)-(\d{1,2})-(\d{4})")


def locomo_instant(value: object) -> datetime | None:
    """Parse LoCoMo's `1:56 pm on 8 May, 2023`, taken as UTC."""
    found = _LOCOMO.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        return None
    hour, minute, half, day, month, year = found.groups()
    on = _date(year, month, day)
    at = int(hour) % 12 + (12 if half.lower() == "p" else 0)
    return datetime(on.year, on.month, on.day, at, int(minute), tzinfo=UTC) if on and int(minute) < 60 else None


def anchor_instant(value: object) -> datetime | None:
    """Parse BEAM's `March-15-2024`, at midnight UTC."""
    found = _ANCHOR.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        return None
    month, day, year = found.groups()
    on = _date(year, month, day)
    return datetime(on.year, on.month, on.day, tzinfo=UTC) if on else None


def _date(year: str, month: str, day: str) -> date | None:
    """Build a date from an English month name: strptime's depend on the locale."""
    try:
        on = date(int(year), MONTH_NUMBERS[month.lower()], int(day))
    except (KeyError, ValueError):
        return None
    return on if in_calendar(datetime(on.year, on.month, on.day, tzinfo=UTC)) else None
