"""The bounds of a number or a day on the command line, checked before the daemon is asked."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable


def whole(least: int, most: int) -> Callable[[str], int]:
    """Make a reader of whole numbers from `least` to `most`."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise ArgumentTypeError(f"{text!r} is no whole number") from None
        if not least <= number <= most:
            raise ArgumentTypeError(f"{number} is not between {least:,} and {most:,}")
        return number

    return read


def day(text: str) -> str:
    """Read a day like 2026-11-21."""
    from datetime import date

    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no day like 2026-11-21") from None
