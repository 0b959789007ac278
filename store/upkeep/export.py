"""All that leaves the store: backups, past questions, memories for other programs and people, and derived pages.

Each file is given once, redacted again; nothing that is private, waits for review or was taken back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from .. import okf
from ..channel import enclosing
from ..core import Core
from ..door import outgoing, outgoing_envelope
from ..index.catalog import Content
from ..ledger.questions import PastQuestion
from ..model import Envelope, InvalidInput, Level, Memory
from ..okf import session
from ..redaction import masked, redact
from ..results import BackedUp, Digest
from ..search.gathering import Ranking
from ..search.packing import envelope
from ..search.question import Question
from ..vault.layout import SESSIONS_FOLDER
from ..vault.vault import is_digest
from ..writer.derived import DerivedFiles, unmarked
from .backup import backup_of
from .backup_archive import Progress, silent
from .history import decisions


class Pages:
    """Reads and writes derived pages. Every method may be called from any thread."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._vault = core.vault
        self._folder = core.paths.vault  # not resolved: digests are shown with the path that a person gave
        self.derived = DerivedFiles(core.vault, core.ledger, core.writer)

    def written(self) -> Collection[str]:
        """Return the paths that we wrote once, also those that a person has changed since."""
        return self.derived.ours()

    def may_write(self, path: str) -> bool:
        """Return whether a path may be written: nothing is there, or what we wrote last."""
        return self.derived.is_ours(path)

    def write(self, pages: Mapping[str, str | None]) -> Sequence[str]:
        """Write these derived pages (None: delete); return the paths of a person's own files, which stay.

        A digest quotes files; every other page is made of the index, which holds no secret.
        """
        foreign = self.derived.write(
            {path: self._core.door.page(text) if text and is_digest(path) else text for path, text in pages.items()}
        )
        if gone := [path for path, text in pages.items() if text is None]:
            self._core.settle()
            self._vault.remove_empty_folders(gone)
        return foreign

    def contents(self) -> Sequence[Content]:
        """Return a line for every memory and session whose file is there, after acknowledged writes can be found."""
        self._core.settle()
        return [
            line for line in self._core.catalog.contents() if self._vault.exists(line.path)
        ]  # the index knows a deleted file for a moment longer

    def text(self, path: str) -> str:
        """Return a page's text, "" where there is no such file."""
        return unmarked(self._vault.read_if_any(path) or b"").decode("utf-8", "replace")

    def description(self, path: str) -> str:
        """Return the description in a memory's frontmatter, "" where there is no such file."""
        data = self._vault.read_if_any(path)
        return "" if data is None else okf.to_memory(path, okf.parse(masked(data))).description

    def digest(self, day: date | None = None) -> Digest | None:
        """Return a day's digest, or the newest; None where there is none."""
        name = f"{day.isoformat()}.md" if day else "*.md"
        found = (path for path in self._folder.glob(f"digests/{name}") if is_digest(f"digests/{path.name}"))
        for path in sorted(found, reverse=True):
            if (data := self._vault.read_if_any(f"digests/{path.name}")) is not None:
                page = path.with_suffix(".html")
                text = outgoing(okf.parse(unmarked(data)).body)
                return Digest(path.stem, path, page if page.exists() else None, text)
        return None


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """One memory or session: its file's content, and its fields as one JSON object. `redacted` counts secrets.

    `written_s` is when the file was written, 0 where its text says of when it is.
    """

    path: str
    content: bytes
    record: Mapping[str, Any]
    redacted: int
    written_s: int = 0

    def line(self) -> bytes:
        """Return the record as one line of JSON."""
        return json.dumps(self.record, ensure_ascii=False, default=plain).encode() + b"\n"


def _begun(file: ExportedFile) -> datetime | None:
    """Return when a memory was made, as its text, its first turn or its file says."""
    said_at = file.record.get("created_at") or next((turn["at"] for turn in file.record.get("turns", ())), None)
    return said_at or (datetime.fromtimestamp(file.written_s, UTC) if file.written_s else None)


class Exports:
    """Gives copies out: backups, files for others, and past questions. Any thread may call."""

    def __init__(self, core: Core, rank: Callable[[Question], Ranking]) -> None:
        self._core = core
        self._rank = rank

    @property
    def vault_id(self) -> str:
        """The id of the vault, by which its copies are known; "" while none is known."""
        return self._core.presence.vault_id or ""

    def backup(self, target: Path, version: str, settings: bytes | None, progress: Progress = silent) -> BackedUp:
        """Write vault, ledger and settings of one moment into an archive, and read it back; writes go on meanwhile."""
        return backup_of(self._core, target, version, settings, progress)

    def files(self, channel: str | None, *, sessions: bool = False) -> Iterator[ExportedFile]:
        """Yield the memories of a channel, or of all, redacted again; nothing private, forgotten or waiting."""
        return exported(self._core, channel, sessions=sessions)

    def decisions(
        self, files: Sequence[ExportedFile], is_within: Callable[[str], bool], *, whole: bool
    ) -> list[dict[str, Any]]:
        """Return the decisions by which these files came about, and the tombstones (`history.decisions`)."""
        records = {str(file.record["node_id"]): {**file.record, "created_at": _begun(file)} for file in files}
        return decisions(self._core, records, is_within, whole=whole)

    def asked(self) -> Sequence[PastQuestion]:
        """Return the recorded questions, newest first."""
        return self._core.ledger.asked()

    def replay(self, query: str, channel: str, budget_tokens: int) -> Envelope:
        """Return the envelope of a past question, of the memory of today; nothing of it is counted or kept."""
        ranking = self._rank(Question(text=query, limit=max(10, budget_tokens // 10), channel=channel))
        return outgoing_envelope(envelope(ranking, self._core.catalog, budget_tokens, self._core.now()))


def exported(core: Core, channel: str | None, *, sessions: bool) -> Iterator[ExportedFile]:
    """Yield the memories of a channel, or of all; never of a channel in which learning is off, and nothing that waits.

    A session with turns that were forgotten is left out. Raises InvalidInput for a channel in which learning is off.
    """
    private = core.switches.channels_off
    if channel is not None and not private.isdisjoint(enclosing(channel)):
        raise InvalidInput(f"learning in {channel} is off: what is there is private", "`dreamctl channel` switches it.")
    core.settle()
    for stamp in core.vault.walk():
        path, data = stamp.path, core.vault.read_if_any(stamp.path)
        if data is None:
            continue
        document = okf.parse(data)
        if path.startswith(SESSIONS_FOLDER):
            found = _session(core, path, data) if sessions else None
            named = session.head_of(path, document).channel if found else ""
        else:
            memory = okf.to_memory(path, document)
            found, named = _memory(memory, data), memory.channel
            if memory.is_waiting or core.tombstones.is_hidden(memory.node_id):
                continue
            if memory.created_at is None:
                found = replace(found, written_s=stamp.mtime_ns // 10**9)
        if found is not None and private.isdisjoint(enclosing(named)) and channel in (None, named):
            yield found


def _memory(memory: Memory, data: bytes) -> ExportedFile:
    masked = redact(data.decode("utf-8", "replace"))
    text = redact(memory.text).text
    record = {
        "node_id": memory.node_id,
        "level": memory.level.value,
        "kind": memory.kind.value,
        "channel": memory.channel,
        "title": redact(memory.title).text,
        "text": text,
        "holds": memory.is_live,
        "said_by": memory.said_by,
        "created_at": memory.created_at,
        "valid_from": memory.valid_from,
        "valid_to": memory.valid_to,
        "about": memory.about,
        "tags": memory.tags,
        "sources": memory.sources,
        "supersedes": memory.supersedes,
        "superseded_by": memory.superseded_by,
        "contradicts": memory.contradicts,
        "path": memory.path,
    }
    return ExportedFile(memory.path, masked.text.encode(), record, len(masked.found))


def _session(core: Core, path: str, data: bytes) -> ExportedFile | None:
    head = session.head_of(path, okf.parse(data))
    nodes = [node for node in core.catalog.turns(head.session_id) if node.kind == "turn"]
    if any(not node.live for node in nodes):
        return None
    masked = redact(data.decode("utf-8", "replace"))
    turns = [
        {"node_id": node.node_id, "role": node.role, "at": node.created_at, "text": redact(node.text).text}
        for node in nodes
    ]
    record: dict[str, Any] = {
        "node_id": head.session_id,
        "level": Level.SESSION.value,
        "kind": "session",
        "channel": head.channel,
    }
    record |= {"title": redact(head.title or "").text, "turns": turns, "path": path}
    return ExportedFile(path, masked.text.encode(), record, len(masked.found))


def plain(value: object) -> object:
    """Return a value that JSON does not know as one that it does."""
    return value.isoformat() if isinstance(value, datetime) else list(value) if isinstance(value, tuple) else str(value)
