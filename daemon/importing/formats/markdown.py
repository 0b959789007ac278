"""Notes: every markdown file is one memory in its own right, kept as a note and not as a session; or, to be learned
from, a session with a turn for each paragraph and each item of a list.

The frontmatter's `title`, `tags` and date are used; its `kind` and `channel` go to the importer, since a note from
elsewhere could otherwise choose whose memory it becomes. Everything else is the note's text. Wiki links,
attachments and foreign keys stay text, nothing is resolved.

The turns of a note are of the day at their start ("2026-03-02: …", "- 2. März 2026 – …"), else of the day alone on a
line or in a heading above, else of the frontmatter's day, of that in the file's name, or of its last change.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

from ....store import calendar_day, has_unreadable_date, note_date, note_title, opened, parse_document, session_id
from ....store.model import Kind, NewTurn, SessionHead
from ....store.names import as_channel, as_label
from ....store.roles import Role
from ..items import NO_TURN, NoteRead, Remark, SessionRead, Skipped
from ..sanitize import first_line, tidy
from ..turns import in_batches

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

_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(.*?)[# \t]*")
_ITEM = re.compile(r"([ \t]*)([-*+•]|\d{1,3}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?")
_FENCE = re.compile(r" {0,3}(?:```|~~~)")
# The ends of a day at the start of a line, beside the line's own: a colon, dash or bracket; of an ISO date any space.
_DAY_ENDS = re.compile(r"[*_]{0,3}(?:[:|)\]][*_]{0,3}(?:[ \t]{1,3}[-–—])?|[ \t]{1,3}[-–—]{1,3})(?=\s)")
_ISO_DAY = re.compile(
    r"[*_\[(]{0,4}(\d{4}-\d\d-\d\d)(?:[T ]\d\d:\d\d(?::\d\d)?)?[*_\])]{0,4}(?:[ \t]{0,3}[:|–—-]{1,3})?(?:\s|$)"
)
_LONGEST_DAY = 40
_HASH_DIGITS = 12


def read(path: Path) -> Iterator[NoteRead | Remark | Skipped]:
    """Read the one note of a file, or yield the reason why there is none."""
    note = _read(path)
    if isinstance(note, Skipped):
        yield note
        return
    yield from _remarks(note)
    yield _note(note)


def read_entries(path: Path) -> Iterator[SessionRead | Remark | Skipped]:
    """Read a note as a session in its author's words, or yield the reason why there is none.

    An entry is known again by its day and words, so a note that has grown adds its new ones.
    """
    note = _read(path)
    if isinstance(note, Skipped):
        yield note
        return
    yield from _remarks(note)
    turns = list(_turns(note))
    if not turns:
        yield Skipped(path, None, NO_TURN)
        return
    named = hashlib.sha256(str(path.resolve()).encode("utf-8", "replace")).hexdigest()[:_HASH_DIGITS]
    # The channel is left to the importer, which knows the folder that was named.
    head = SessionHead(session_id(f"{path.stem}-{named}"), "", note.title, min(turn.at for turn in turns if turn.at))
    yield from in_batches(head, turns)


@dataclass(frozen=True, slots=True)
class _Note:
    """The content of a file; `day` is the frontmatter's or its name's."""

    path: Path
    meta: Mapping[str, Any]
    body: str
    written_at: datetime
    problem: str | None

    @property
    def title(self) -> str:
        return tidy(note_title(self.path.name, self.meta, self.body)) or self.path.stem

    @property
    def day(self) -> datetime:
        return note_date(self.path.name, self.meta) or self.written_at


def _read(path: Path) -> _Note | Skipped:
    # Ours and other programs' bundles have them: imported, they would repeat every note's title.
    if path.name in _CATALOGUES:
        return Skipped(path, None, "a catalogue of notes")
    with opened(path) as file:
        data = file.read(MAX_NOTE_BYTES + 1)
        written_at = datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, UTC)
    if len(data) > MAX_NOTE_BYTES:
        return Skipped(path, None, f"a note longer than {MAX_NOTE_BYTES // 2**20} MiB")
    try:
        data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return Skipped(path, None, f"not UTF-8 at byte {error.start}")
    document = parse_document(data.removeprefix(_BOM))
    body = tidy(document.body)
    if not body:
        return Skipped(path, None, "a note without text")
    return _Note(path, document.meta, body, written_at, document.problem)


def _remarks(note: _Note) -> Iterator[Remark]:
    if note.problem:
        yield Remark(note.path, BROKEN)
    elif has_unreadable_date(note.meta):
        yield Remark(note.path, UNDATED)


def _turns(note: _Note) -> Iterator[NewTurn]:
    seen: Counter[str] = Counter()
    for day, text in _Entries(note).found():
        key = hashlib.sha256(f"{day.isoformat()} {' '.join(text.split())}".encode("utf-8", "replace")).hexdigest()
        seen[key] += 1
        yield NewTurn(Role.USER.value, text, day, f"{key[:_HASH_DIGITS]}.{seen[key]}")


class _Entries:
    """The paragraphs and items of a note, each with its day.

    A day in a heading, alone on a line or at the start of a paragraph holds until the next day or heading, one at the
    start of an item for that item alone.
    """

    def __init__(self, note: _Note) -> None:
        self._note = note
        # A day after the file was written is one that it tells of.
        self._last = note.written_at.date() + timedelta(days=1)
        self._day = self._entry_day = note.day
        self._lines: list[str] = []
        self._indent = -1

    def found(self) -> Iterator[tuple[datetime, str]]:
        """Yield each entry."""
        in_fence = False
        for line in self._note.body.splitlines():
            in_fence ^= bool(_FENCE.match(line))
            if in_fence or (_FENCE.match(line) and self._lines):
                self._lines.append(line)
                continue
            heading, item = _HEADING.fullmatch(line), _ITEM.match(line)
            begins = self._day_at_start(line)[0] is not None
            if item and begins and item[2][0].isdigit():
                item = None  # "2. März 2026" looks like the second item of a list
            is_deeper = item is not None and len(item[1]) > self._indent >= 0
            ends = not line.strip() or heading or begins or (item and not is_deeper)
            if ends and not self._is_heading_alone():
                yield from self._finished()
            if heading:
                yield from self._finished()
                self._begin_section(line, heading[1])
            elif line.strip():
                self._add(line, item)
        yield from self._finished()

    def _is_heading_alone(self) -> bool:
        """Return True while the entry is a heading, which belongs to the next lines."""
        return len(self._lines) == 1 and self._indent < 0 and bool(_HEADING.fullmatch(self._lines[0]))

    def _finished(self) -> Iterator[tuple[datetime, str]]:
        text = "\n".join(self._lines).strip()
        if text and not self._is_heading_alone():
            yield self._entry_day, text
        self._lines, self._indent, self._entry_day = [], -1, self._day

    def _begin_section(self, line: str, words: str) -> None:
        day, rest = self._day_at_start(words)
        # A section without a day is of the day of the whole note.
        self._day = self._entry_day = day or self._note.day
        if day is None:
            self._lines = [line.strip()] if words != self._note.title else []
        elif rest:
            self._lines = [f"## {rest}"]

    def _add(self, line: str, item: re.Match[str] | None) -> None:
        if not self._lines or self._is_heading_alone():
            if item is not None:
                line = line[item.end() :]
            day, rest = self._day_at_start(line)
            self._indent = len(item[1]) if item else -1
            if day is not None:
                self._entry_day = day
                if item is None or not rest:
                    self._day = day
                line = rest
        if line.strip():
            self._lines.append(line)

    def _day_at_start(self, text: str) -> tuple[datetime | None, str]:
        """Return the day with which a text begins, if it does, and the words behind it."""
        if iso := _ISO_DAY.match(text):
            day, end = calendar_day(iso[1], self._note.day.date()), iso.end()
        else:
            ends = [(end.start(), end.end()) for end in _DAY_ENDS.finditer(text[:_LONGEST_DAY])]
            ends += [(len(text), len(text))] if len(text) <= _LONGEST_DAY else []
            found = ((calendar_day(text[:start], self._note.day.date()), end) for start, end in ends)
            day, end = next((one for one in found if one[0] is not None), (None, 0))
        if day is None or day > self._last:
            return None, text
        return datetime.combine(day, time(), UTC), text[end:].strip()


def _note(note: _Note) -> NoteRead:
    path, meta, body, title = note.path, note.meta, note.body, note.title
    kind, channel = meta.get("kind"), meta.get("channel")
    return NoteRead(
        path=path,
        title=title,
        text=body if _names(body, title) else f"# {title}\n\n{body}",
        tags=_tags(meta.get("tags")),
        created_at=note.day,
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
