"""The moments at which a hook got no answer in time, as `dreamctl hook` notes them beside the socket.

The daemon cannot know of them: it was away, or it answered somebody who had left.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

LATE, ABSENT, FAILED = "late", "no daemon", "failed"
_REASONS = {"TimeoutError": LATE, "FileNotFoundError": ABSENT, "ConnectionRefusedError": ABSENT}

MOST_BYTES = 2**17


@dataclass(frozen=True, slots=True)
class LostMoment:
    """One moment: its agent's own name of the event, the session, its folder, and the reason."""

    at: datetime
    agent: str
    event: str
    session: str
    folder: str
    why: str


def take_lost(path: Path) -> list[LostMoment]:
    """Read and remove the notes; a line that is written meanwhile may be lost, which is one of a count."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            lines = file.read(MOST_BYTES).splitlines()
        path.unlink()
    except OSError:
        return []
    return [found for line in lines if (found := _read(line)) is not None]


def _read(line: bytes) -> LostMoment | None:
    try:
        at, *texts = json.loads(line)
        agent, event, session, folder, error = map(str, texts)
        return LostMoment(
            datetime.fromtimestamp(float(at), UTC), agent, event, session, folder, _REASONS.get(error, FAILED)
        )
    except (ValueError, TypeError, OverflowError, OSError):
        return None
