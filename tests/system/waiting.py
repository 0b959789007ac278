"""Waiting for an event, with a deadline; the only pause is between two looks."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")


def until(question: Callable[[], Answer], timeout_s: float = 20.0, every_s: float = 0.01) -> Answer:
    """Ask again and again until the answer is truthy, and return it. Raises AssertionError with the last one."""
    deadline = time.monotonic() + timeout_s
    while not (answer := question()):
        assert time.monotonic() < deadline, f"not within {timeout_s} s; the last answer was {answer!r}"
        time.sleep(every_s)
    return answer
