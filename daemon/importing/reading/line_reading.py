"""The reading of a file that grows by lines: the whole of it at once, or line by line as they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

from .items import UNREADABLE, SessionRead, Skipped
from .json_lines import json_lines

_Item = TypeVar("_Item")


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
            yield from guarded(reading.take(*line), path, line[0])
    yield from reading.rest()


def guarded(items: Iterable[_Item], path: Path, line: int | None = None) -> Iterator[_Item | Skipped]:
    """Yield the items of a line, or of a part of a file; what goes wrong with it is its own, and comes as Skipped.

    A reader of other programs' files cannot know all that may stand in them, and what is beside is read all the same.
    Raises OSError: of a file that cannot be read now nothing is left out.
    """
    try:
        yield from items
    except OSError:
        raise
    except Exception as error:
        yield Skipped(path, line, f"{UNREADABLE}: {type(error).__name__}")
