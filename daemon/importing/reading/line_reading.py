"""The reading of a file that grows by lines: the whole of it at once, or line by line as they come."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from .items import SessionRead, Skipped
from .json_lines import json_lines


class LineReading(Protocol):
    """The state in the middle of a file. Made with the file's path."""

    def take(self, number: int, value: Any) -> Iterator[SessionRead | Skipped]:
        """Yield the items that a line completes: its number from 1, and its value."""
        ...

    def rest(self) -> Iterator[SessionRead | Skipped]:
        """Yield the items that are still gathered. More lines may follow."""
        ...


def read_through(path: Path, reading: LineReading) -> Iterator[SessionRead | Skipped]:
    """Yield every item of a file; lines that cannot be read come as Skipped."""
    for line in json_lines(path):
        if isinstance(line, Skipped):
            yield line
        else:
            yield from reading.take(*line)
    yield from reading.rest()
