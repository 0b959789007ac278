"""The wall clock and the person's zone; nothing below this room reads either."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

_LOCALTIME = Path("/etc/localtime")


def utc_now() -> datetime:
    """Now, in UTC."""
    return datetime.now(UTC)


def local_zone() -> ZoneInfo:
    """The machine's zone with its rules: `$TZ`, else what /etc/localtime is, else UTC.

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
    """Now, in the person's zone; the zone is looked up anew, since people travel."""
    return datetime.now(local_zone())
