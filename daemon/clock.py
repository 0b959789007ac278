"""The wall clock and the person's zone; nothing below this room reads either."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

_LOCALTIME = Path("/etc/localtime")


def utc_now() -> datetime:
    """Return the time now, in UTC."""
    return datetime.now(UTC)


def local_zone() -> ZoneInfo:
    """Return the machine's zone with its rules: `$TZ`, else what /etc/localtime is, else UTC.

    `datetime.astimezone()` would give today's offset only, and tomorrow's 03:00 may have another.
    """
    name = os.environ.get("TZ", "").removeprefix(":")
    if not name and _LOCALTIME.is_symlink():
        name = str(_LOCALTIME.resolve()).rpartition("zoneinfo/")[2]
    try:
        if name:
            return ZoneInfo(name)
        with _LOCALTIME.open("rb") as file:
            return ZoneInfo.from_file(file)
    except (OSError, ValueError):  # ZoneInfoNotFoundError is a KeyError on some names, a ValueError on others
        return ZoneInfo("UTC")
    except KeyError:
        return ZoneInfo("UTC")


def local_now() -> datetime:
    """Return the time now in the person's zone, which is looked up anew, since people travel."""
    return datetime.now(local_zone())


class Stopwatch:
    """Seconds of the monotonic clock, without those in which it was held."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._held_s = 0.0
        self._held_since_s: float | None = None

    @property
    def held_s(self) -> float:
        """The time for which it was held altogether."""
        return self._held_s + (0.0 if self._held_since_s is None else time.monotonic() - self._held_since_s)

    @property
    def run_s(self) -> float:
        """The time for which it ran altogether."""
        return time.monotonic() - self._began_s - self.held_s

    def hold(self) -> None:
        """Stop the time; again is harmless."""
        if self._held_since_s is None:
            self._held_since_s = time.monotonic()

    def go_on(self) -> None:
        """Run again."""
        self._held_s, self._held_since_s = self.held_s, None
