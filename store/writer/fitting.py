"""Fits what was acknowledged while the vault was away to the files that are found when it is back."""

from __future__ import annotations

from ..ledger.journal import Entry, FileChange
from ..okf import session
from ..vault.vault import SESSIONS_FOLDER
from .pending import PendingFiles


def fit(entry: Entry, files: PendingFiles) -> FileChange | None:
    """Return the change that keeps an entry's content in the files that are there; None when it is kept already.

    The entry was planned without sight of the vault, so a file that it creates may exist: a session's turns then go
    behind those that are there (each once by its external id), and a memory with the same path is the same memory.
    """
    size = files.size(entry.path)
    fits = size is None if entry.kind == "create" else size == entry.from_offset
    if entry.kind not in {"create", "append"} or fits:
        return _as_planned(entry)
    if not entry.path.startswith(SESSIONS_FOLDER):
        return None
    return _append_turns(entry, files.read(entry.path) if size is not None else None)


def _as_planned(entry: Entry) -> FileChange:
    return FileChange(
        entry.kind, entry.path, entry.content, entry.from_offset, entry.pre_sha256, entry.run_id, entry.ordinal
    )


def _append_turns(entry: Entry, found: bytes | None) -> FileChange | None:
    there = session.parse(found or b"")
    known = {turn.external_id for turn in there.turns if turn.external_id is not None}
    fresh = [
        turn for turn in session.parse(entry.content).turns if turn.external_id is None or turn.external_id not in known
    ]
    if not fresh:
        return None
    content = session.continuation(there, fresh)
    if found is None:
        return FileChange("create", entry.path, content)
    return FileChange("append", entry.path, content, from_offset=len(found))
