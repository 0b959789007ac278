"""Notes: every markdown file is one memory in its own right, kept as a note and not as a session.

The frontmatter's `title`, `tags` and date are used; its `kind` and `channel` go to the importer, since a note from
elsewhere could otherwise choose whose memory it becomes. Everything else is the note's text. Wiki links,
attachments and foreign keys stay text, nothing is resolved.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ....store import has_unreadable_date, note_date, note_title, opened, parse_document
from ....store.model import Kind
from ....store.names import as_channel, as_label
from ..items import NoteRead, Remark, Skipped
from ..sanitize import first_line, tidy

SUFFIXES = frozenset({".md", ".markdown"})
MAX_NOTE_BYTES = 2**20
MAX_TAGS = 64

BROKEN = "the frontmatter cannot be read, so the whole file is the note's text"
UNDATED = "the frontmatter's date cannot be read, so the note has the day of its file"

_BOM = b"\xef\xbb\xbf"
# Reserved by OKF: lists of notes, no notes.
_CATALOGUES = frozenset({"index.md", "log.md"})
_NOTE_KINDS = frozenset(Kind) - {Kind.TURN, Kind.SESSION, Kind.SCENARIO, Kind.INSIGHT, Kind.PROFILE, Kind.DOCUMENT}
_TITLE_CHARS = 120


def read(path: Path) -> Iterator[NoteRead | Remark | Skipped]:
    """Read the one note of a file, or yield the reason why there is none."""
    # Ours and other programs' bundles have them: imported, they would repeat every note's title.
    if path.name in _CATALOGUES:
        yield Skipped(path, None, "a catalogue of notes")
        return
    with opened(path) as file:
        data = file.read(MAX_NOTE_BYTES + 1)
        written_at = datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, UTC)
    if len(data) > MAX_NOTE_BYTES:
        yield Skipped(path, None, f"a note longer than {MAX_NOTE_BYTES // 2**20} MiB")
        return
    try:
        data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        yield Skipped(path, None, f"not UTF-8 at byte {error.start}")
        return
    document = parse_document(data.removeprefix(_BOM))
    body = tidy(document.body)
    if not body:
        yield Skipped(path, None, "a note without text")
        return
    if document.problem:
        yield Remark(path, BROKEN)
    elif has_unreadable_date(document.meta):
        yield Remark(path, UNDATED)
    yield _note(path, document.meta, body, written_at)


def _note(path: Path, meta: Mapping[str, Any], body: str, written_at: datetime) -> NoteRead:
    title = tidy(note_title(path.name, meta, body)) or path.stem
    kind, channel = meta.get("kind"), meta.get("channel")
    return NoteRead(
        path=path,
        title=title,
        text=body if _names(body, title) else f"# {title}\n\n{body}",
        tags=_tags(meta.get("tags")),
        created_at=note_date(path.name, meta) or written_at,
        channel=as_channel(channel) or None if isinstance(channel, str) else None,
        kind=Kind(kind) if isinstance(kind, str) and kind in _NOTE_KINDS else None,
    )


def _names(body: str, title: str) -> bool:
    """Return True if a note's text holds its title: in its first line, or as a heading."""
    return title in first_line(body, _TITLE_CHARS) or f"# {title}\n" in f"{body}\n"


def _tags(value: object) -> tuple[str, ...]:
    """Return the tags of a list, or of a text with commas."""
    tags = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
    labels = (as_label(str(tag).strip().removeprefix("#")) for tag in tags)
    return tuple(label for label in labels if label)[:MAX_TAGS]
