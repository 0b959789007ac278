"""The ways in which other programs write an instant."""

from __future__ import annotations

from datetime import UTC, datetime

from ....store import in_calendar

_MILLISECONDS_FROM = 1e11  # as seconds this is the year 5138; what is larger counts milliseconds


def instant(value: object) -> datetime | None:
    """Parse an aware instant from ISO 8601 (UTC where no offset is given) or from epoch seconds or milliseconds.

    None for what is none, or would leave the calendar. Every reader reads its instants here.
    """
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value.strip())
            return in_calendar(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if abs(value) >= _MILLISECONDS_FROM else value
            return in_calendar(datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError, OSError):
        return None
    return None
