"""The wall clock and the person's time zone, which no lower room reads."""

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
    """Return the machine's zone with its rules: `$TZ`, else that of /etc/localtime, else UTC.

    `datetime.astimezone()` would give only today's offset, and tomorrow's 03:00 may have another.
    """
    name = os.environ.get("TZ", "").removeprefix(":")
    if not name and _LOCALTIME.is_symlink():
        name = str(_LOCALTIME.resolve()).rpartition("zoneinfo/")[2]
    try:
        if name:
            return ZoneInfo(name)
        with _LOCALTIME.open("rb") as file:
            return ZoneInfo.from_file(file)
    except (OSError, ValueError, KeyError):  # ZoneInfo raises a KeyError for some names, a ValueError for others
        return ZoneInfo("UTC")


def local_now() -> datetime:
    """Return the time now in the person's zone, which is read at each call, since people travel."""
    return datetime.now(local_zone())


class Stopwatch:
    """Seconds of the monotonic clock, without those of pauses."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._paused_s = 0.0
        self._paused_since_s: float | None = None

    @property
    def paused_s(self) -> float:
        """The total time of its pauses."""
        return self._paused_s + (0.0 if self._paused_since_s is None else time.monotonic() - self._paused_since_s)

    @property
    def run_s(self) -> float:
        """The total time without its pauses."""
        return time.monotonic() - self._began_s - self.paused_s

    def pause(self) -> None:
        """Pause; repeating it does nothing."""
        if self._paused_since_s is None:
            self._paused_since_s = time.monotonic()

    def resume(self) -> None:
        """Resume; repeating it does nothing."""
        self._paused_s, self._paused_since_s = self.paused_s, None
