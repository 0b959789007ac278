"""Files of JSON, a value a line or one whole value, read within bounds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from ....store import beginning, opened
from .items import Skipped

MAX_LINE_BYTES = 32 * 2**20  # a transcript's longest honest lines hold a few pasted images
MAX_DOCUMENT_BYTES = 64 * 2**20
MOST_IN_MEMORY = 256 * 2**20
"""As much as the values of a line or a document may take, by a count of their marks: `{},` is 3 bytes, and some 100."""

_SMALL_BYTES = 2**20
_BYTES_A_MARK = {b"{": 64, b"[": 64, b",": 36, b'"': 28}  # of an object, an array, a place in one, half a string

_BOM = b"\xef\xbb\xbf"


def json_lines(path: Path, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[tuple[int, Any] | Skipped]:
    """Yield every line's number, from 1, and its value; blank lines are passed over, bad ones come as Skipped.

    Holds one line at a time. An overlong line is read past, not into memory.
    """
    with opened(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(max_line_bytes + 1), b""), start=1):
            if len(line) > max_line_bytes and not line.endswith(b"\n"):
                _read_past(file)
                yield Skipped(path, number, f"longer than {max_line_bytes // 2**20} MiB")
                continue
            read = json_line(path, number, line)
            if read is not None:
                yield read


def json_line(path: Path, number: int, line: bytes) -> tuple[int, Any] | Skipped | None:
    """Return a line's number and its value; None for a blank one, Skipped for one that cannot be read."""
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
    """Parse JSON in UTF-8. Raises ValueError with a reason that quotes none of it, and before it takes much memory."""
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


def _read_past(file: BinaryIO) -> None:
    while (rest := file.readline(2**20)) and not rest.endswith(b"\n"):
        pass
