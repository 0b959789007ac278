"""The exports of chat programs: one list of conversations, in a file or in the archive that was sent."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from ....store import opened
from .items import Skipped
from .json_lines import parse

NAME = "conversations.json"
ARCHIVE = b"PK\x03\x04"
SNIFFED_BYTES = 2**16
MAX_EXPORT_BYTES = 512 * 2**20  # years of chats; some five times as much in memory, while it is read


def conversations(path: Path) -> Iterator[Any | Skipped]:
    """Yield every conversation of an export; Skipped where it cannot be read."""
    try:
        listed = parse(_content(path, MAX_EXPORT_BYTES).removeprefix(b"\xef\xbb\xbf"))
    except ValueError as error:
        yield Skipped(path, None, str(error))
        return
    yield from listed if isinstance(listed, list) else [listed]


def kind_of(path: Path) -> str | None:
    """Return the format of an export, by what its list begins with; None where it is none."""
    try:
        head = _content(path, SNIFFED_BYTES, whole=False)
    except ValueError:
        return None
    if head.lstrip().startswith(b"["):
        if b'"mapping"' in head and b'"title"' in head:
            return "chatgpt"
        if b'"chat_messages"' in head:
            return "claude-ai"
    return None


def _content(path: Path, most_bytes: int, *, whole: bool = True) -> bytes:
    """Return the list's bytes, or with `whole` False their beginning. Raises ValueError with a reason for a person."""
    with opened(path) as file:
        if file.read(len(ARCHIVE)) != ARCHIVE:
            file.seek(0)
            content = file.read(most_bytes + 1)
        else:
            content = _unpacked(file, most_bytes)
    if whole and len(content) > most_bytes:
        raise ValueError(f"longer than {most_bytes // 2**20} MiB")
    return content


def _unpacked(file: BinaryIO, most_bytes: int) -> bytes:
    try:
        with zipfile.ZipFile(file) as archive:
            name = next((name for name in archive.namelist() if name.rpartition("/")[2] == NAME), None)
            if name is None:
                raise ValueError(f"an archive without {NAME}")
            with archive.open(name) as member:
                return member.read(most_bytes + 1)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise ValueError(f"an archive that cannot be read: {type(error).__name__}") from error
