"""Files of JSON, one value a line or one document, read within bounds; whole, or line by line as they grow."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

from ...store import beginning, opened
from .items import UNREADABLE, SessionRead, Skipped

# A transcript's longest honest lines hold a few pasted images.
MAX_LINE_BYTES = 32 * 2**20
MAX_DOCUMENT_BYTES = 64 * 2**20
# Bound of the parsed values of a line or a document, estimated by punctuation: `{},` is 3 bytes, parsed 100.
MOST_IN_MEMORY = 256 * 2**20

_SMALL_BYTES = 2**20
# Of an object, an array, a place in one, half a string.
_BYTES_A_MARK = {b"{": 64, b"[": 64, b",": 36, b'"': 28}
_BOM = b"\xef\xbb\xbf"
_Item = TypeVar("_Item")


def json_lines(path: Path) -> Iterator[tuple[int, Any] | Skipped]:
    """Yield each line's number, from 1, and its value. Blank lines are left out, unreadable ones come as Skipped.

    Holds one line in memory. The rest of an overlong line is read, and not kept.
    """
    with opened(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""), start=1):
            if len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
                _skip_rest_of_line(file)
                yield Skipped(path, number, f"longer than {MAX_LINE_BYTES // 2**20} MiB")
                continue
            read = json_line(path, number, line)
            if read is not None:
                yield read


def json_line(path: Path, number: int, line: bytes) -> tuple[int, Any] | Skipped | None:
    """Return a line's number and its value; None for a blank line, Skipped for an unreadable one."""
    # Windows programs begin a file with a byte order mark, which JSON does not allow.
    content = line.removeprefix(_BOM) if number == 1 else line
    if not content.strip():
        return None
    try:
        return number, parse(content)
    except ValueError as error:
        reason = str(error) if line.endswith(b"\n") else f"{error}; the file's last line, perhaps unfinished"
        return Skipped(path, number, reason)


def json_document(path: Path) -> Any:
    """Return the file's one value. Raises ValueError, with a reason for a person, if it has none or is too long."""
    content = beginning(path, MAX_DOCUMENT_BYTES + 1)
    if len(content) > MAX_DOCUMENT_BYTES:
        raise ValueError(f"longer than {MAX_DOCUMENT_BYTES // 2**20} MiB")
    return parse(content.removeprefix(_BOM))


def parse(content: bytes) -> Any:
    """Parse JSON in UTF-8. Raises ValueError, before it takes much memory; the reason quotes nothing of the content."""
    # Counting costs a pass over the bytes; a small content cannot exceed the bound.
    if len(content) > _SMALL_BYTES:
        marks = sum(content.count(mark) * weight for mark, weight in _BYTES_A_MARK.items())
        if len(content) + marks > MOST_IN_MEMORY:
            raise ValueError("more values than are read at once")
    try:
        return json.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos}") from error
    except (RecursionError, ValueError) as error:
        raise ValueError("not JSON that can be read: nested too deeply, or a number too long") from error


def _skip_rest_of_line(file: BinaryIO) -> None:
    while (rest := file.readline(2**20)) and not rest.endswith(b"\n"):
        pass


class LineReading(Protocol):
    """The state of a reader in the middle of a file that grows by lines. Made with the file's path."""

    def take(self, number: int, value: Any) -> Iterator[SessionRead | Skipped]:
        """Yield the items that a line completes. Numbers begin with 1."""
        ...

    def rest(self) -> Iterator[SessionRead | Skipped]:
        """Yield the items that are still gathered. More lines may follow."""
        ...


def read_through(path: Path, reading: LineReading) -> Iterator[SessionRead | Skipped]:
    """Yield every item of a file; unreadable lines come as Skipped."""
    for line in json_lines(path):
        if isinstance(line, Skipped):
            yield line
        else:
            yield from guarded(reading.take(*line), path, line[0])
    yield from reading.rest()


def guarded(items: Iterable[_Item], path: Path, line: int | None = None) -> Iterator[_Item | Skipped]:
    """Yield the items of a line, or of a part of a file; a reader's error on it comes as Skipped.

    A reader of other programs' files cannot know every content, and the other lines are read all the same. Raises
    OSError: of a file that cannot be read now nothing is left out.
    """
    try:
        yield from items
    except OSError:
        raise
    except Exception as error:
        yield Skipped(path, line, f"{UNREADABLE}: {type(error).__name__}")


def dicts_in(values: object) -> list[dict[str, Any]]:
    """Return the objects of a JSON array; none where the value is no array."""
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []
