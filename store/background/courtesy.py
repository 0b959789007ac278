"""Courtesy: what can wait lets those go first who wait for an answer, but not for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

GIVE_WAY_S: Final = 2.0
"""How long work behind everybody's back waits for a quiet moment."""

GLANCE_S: Final = 0.05
"""How often it looks for one."""


def give_way(is_busy: Callable[[], bool], stopping: threading.Event) -> None:
    """Wait as long as somebody is being answered, GIVE_WAY_S at most, and no longer than until it is time to stop."""
    until = time.monotonic() + GIVE_WAY_S
    while is_busy() and time.monotonic() < until and not stopping.wait(GLANCE_S):
        pass
