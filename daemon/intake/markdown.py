"""Notes: every markdown file is one memory in its own right, kept as a note and not as a session.

The frontmatter's `title`, `tags`, `kind`, `channel` and `timestamp` (or `created`, `date`) are honoured, everything
else is the note's text. Wiki links, attachments and foreign keys are kept as text, nothing is resolved.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...store.keep.okf import parse
from ...store.model import GLOBAL_CHANNEL, Kind
from .instants import instant
from .model import NoteRead, Skipped
from .text import first_line, tidy

SUFFIXES = frozenset({".md", ".markdown"})
MAX_NOTE_BYTES = 2**20

_CATALOGUES = frozenset({"index.md", "log.md"})  # reserved by OKF: lists of notes, no notes
_NOTE_KINDS = frozenset(Kind) - {Kind.TURN, Kind.SESSION, Kind.SCENARIO, Kind.INSIGHT, Kind.PROFILE}
_HEADING = re.compile(r"#{1,6}\s+(\S.*?)\s*#*")
_TITLE_CHARS = 120


def read(path: Path) -> Iterator[NoteRead | Skipped]:
    """The one note of a file, or why there is none."""
    if path.name in _CATALOGUES:
        yield Skipped(path, None, "a catalogue of notes")
        return
    if path.stat().st_size > MAX_NOTE_BYTES:
        yield Skipped(path, None, f"a note longer than {MAX_NOTE_BYTES // 2**20} MiB")
        return
    data = path.read_bytes()
    try:
        data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        yield Skipped(path, None, f"not UTF-8 at byte {error.start}")
        return
    document = parse(data.removeprefix(b"\xef\xbb\xbf"))
    body = tidy(document.body)
    if not body:
        yield Skipped(path, None, "a note without text")
        return
    yield _note(path, document.meta, body)


def _note(path: Path, meta: Mapping[str, Any], body: str) -> NoteRead:
    heading = _HEADING.fullmatch(first_line(body, _TITLE_CHARS))
    given = meta.get("title")
    title = given.strip() if isinstance(given, str) and given.strip() else heading[1] if heading else path.stem
    kind = meta.get("kind")
    return NoteRead(
        title=title,
        text=body if title in first_line(body, _TITLE_CHARS) else f"# {title}\n\n{body}",
        tags=_tags(meta.get("tags")),
        created_at=_created_at(path, meta),
        channel=channel if isinstance(channel := meta.get("channel"), str) and channel else GLOBAL_CHANNEL,
        kind=Kind(kind) if isinstance(kind, str) and kind in _NOTE_KINDS else Kind.NOTE,
    )


def _tags(value: object) -> tuple[str, ...]:
    """A list, or words between commas."""
    tags = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(str(tag).strip().removeprefix("#") for tag in tags if str(tag).strip())


def _created_at(path: Path, meta: Mapping[str, Any]) -> datetime:
    written = next((at for key in ("timestamp", "created", "date") if (at := instant(meta.get(key)))), None)
    return written or datetime.fromtimestamp(path.stat().st_mtime, UTC)
