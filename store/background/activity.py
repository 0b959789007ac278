"""The last call of a client, by which background work decides to wait."""

from __future__ import annotations

import time

BUSY_FOR_S = 0.1
"""The time after a call in which background work stays out of the way of the next one."""


QUIET_AFTER_S = 3.0
"""The time without a call after which background work takes more than one core."""


class Activity:
    """Notes when a client called last. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._called_at = 0.0

    def note_call(self) -> None:
        """Take note that a client calls now."""
        self._called_at = time.monotonic()

    def was_called(self) -> bool:
        """Return whether a client called within the last BUSY_FOR_S seconds."""
        return time.monotonic() < self._called_at + BUSY_FOR_S

    def is_quiet(self) -> bool:
        """Return whether no client called within the last QUIET_AFTER_S seconds."""
        return time.monotonic() >= self._called_at + QUIET_AFTER_S
