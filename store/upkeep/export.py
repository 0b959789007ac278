"""All that leaves the store: backups, past questions, and memories for other programs and people.

Each file is given once, redacted again; nothing that is private, waits for review or was taken back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from .. import okf
from ..core import Core
from ..door import outgoing_envelope
from ..ledger.questions import PastQuestion
from ..model import Envelope, InvalidInput, Level, Memory
from ..okf import session
from ..redaction import redact
from ..results import BackedUp
from ..search.gathering import Ranking
from ..search.packing import envelope
from ..search.question import Question
from ..vault.layout import SESSIONS_FOLDER
from .backup import backup_of
from .backup_archive import Progress, silent


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """One memory or session: its file's content, and its fields as one JSON object. `redacted` counts secrets."""

    path: str
    content: bytes
    record: Mapping[str, Any]
    redacted: int

    def line(self) -> bytes:
        """Return the record as one line of JSON."""
        return json.dumps(self.record, ensure_ascii=False, default=_plain).encode() + b"\n"


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
    if channel is not None and channel in private:
        raise InvalidInput(f"learning in {channel} is off: what is there is private", "`dreamctl channel` switches it.")
    core.settle()
    for path, data in core.vault.contents():
        document = okf.parse(data)
        if path.startswith(SESSIONS_FOLDER):
            found = _session(core, path, data) if sessions else None
            named = session.head_of(path, document).channel if found else ""
        else:
            memory = okf.to_memory(path, document)
            found, named = _memory(memory, data), memory.channel
            if memory.is_waiting or core.tombstones.is_hidden(memory.node_id):
                continue
        if found is not None and named not in private and channel in (None, named):
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


def _plain(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime) else list(value) if isinstance(value, tuple) else str(value)
