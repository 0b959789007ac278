"""The journal: acknowledged changes to files, and the recovery of a file that a crash left on the way. No I/O."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from ..vault.vault import FileStamp

ChangeKind = Literal["create", "append", "replace", "delete"]

BLIND: Final = "blind"
"""The state of a journal entry that was planned while the vault was away, or salvaged: it is fitted to the files."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """One change to one vault file, as a plan asks for it.

    `content` is the whole file, for "append" the bytes added at `from_offset`, for "delete" empty. `pre_sha256` guards
    "replace" and "delete": a file with another hash is a person's and stays. `run_id` and `ordinal` name the recorded
    action that this carries out, if any.
    """

    kind: ChangeKind
    path: str
    content: bytes = b""
    from_offset: int = 0
    pre_sha256: str | None = None
    run_id: str | None = None
    ordinal: int | None = None


class Entry(NamedTuple):
    """A row of the journal: a change that has been acknowledged and may not be on the disk yet."""

    seq: int
    kind: ChangeKind
    path: str
    content: bytes
    from_offset: int
    pre_sha256: str | None
    run_id: str | None
    ordinal: int | None


class Appended(NamedTuple):
    """An append during which nobody else changed the file: the file's stamps before and after it."""

    before: FileStamp
    after: FileStamp


class AppliedFile(NamedTuple):
    """A file that has changed: its bytes from `from_offset` on are new. A path that is gone was deleted."""

    path: str
    from_offset: int
    appended: Appended | None = None


class Settled(NamedTuple):
    """The content that a file shall have (None: no file), and the entries kept out by a person's edit."""

    content: bytes | None
    kept_out: tuple[Entry, ...] = ()


class _State(NamedTuple):
    content: bytes | None
    pre_sha256: str | None


def settle(found: bytes | None, entries: Sequence[Entry]) -> Settled:
    """Decide the content of one path from the file as found and its entries, oldest first.

    A file in any state that the entries lead through, or torn on the way to one (a prefix, or NULs where bytes should
    be), goes on to the last state. Anything else is a person's edit: it stays, appended content is put at its end
    unless it is there already, and the entries that would have replaced it are kept out.

    Example: the file was "ab", and two entries wait: append "cd" at 2, then replace by "EF" (of the hash of "abcd").
    "ab" (nothing was written yet), "abc" (torn in the append), "E" and a NUL (torn in the replacement) and "EF" (all
    was written) become "EF". "abx" is a person's edit and becomes "abx", a newline, "cd"; the replacement is kept out.
    """
    states, tail = _fold(entries)
    # With a whole file among the entries, all that matters is whether `found` lies on the way to the last of them.
    if states:
        if found == states[-1].content or _leads_through(found, states, tail):
            return Settled(states[-1].content)
    # With appends alone, the bytes before the first of them are a person's business; those behind must be ours.
    elif tail is not None and found is not None:
        base, rest = found[: tail.from_offset], found[tail.from_offset :]
        if len(base) == tail.from_offset and is_torn(rest, tail.content):
            return Settled(base + tail.content)
    return _keep_edit(found, entries)


def _fold(entries: Sequence[Entry]) -> tuple[list[_State], Entry | None]:
    """Return the whole files that the entries lead through, and the appends before the first of them as one entry."""
    states: list[_State] = []
    tail: Entry | None = None
    for entry in entries:
        if entry.kind != "append":
            states.append(_State(None if entry.kind == "delete" else entry.content, entry.pre_sha256))
        elif states:
            before = states[-1].content or b""
            states[-1] = _State(before[: entry.from_offset] + entry.content, states[-1].pre_sha256)
        elif tail is None:
            tail = entry
        else:
            tail = tail._replace(content=tail.content[: entry.from_offset - tail.from_offset] + entry.content)
    return states, tail


def _leads_through(found: bytes | None, states: Sequence[_State], tail: Entry | None) -> bool:
    first = states[0]
    if found is None:
        # Gone because it was never made, or because one of these deleted it; not if a person deleted it.
        return (tail is None and first.pre_sha256 is None) or any(state.content is None for state in states)
    # An empty file counts as torn: that is what a power cut leaves of a rename that was not synced.
    if any(state.content is not None and is_torn(found, state.content) for state in states):
        return True
    if tail is not None:
        if not is_torn(found[tail.from_offset :], tail.content):  # a person wrote behind it
            return False
        found = found[: tail.from_offset] + tail.content
    return first.pre_sha256 is not None and sha256(found) == first.pre_sha256


def _keep_edit(found: bytes | None, entries: Sequence[Entry]) -> Settled:
    content, kept_out = found, []
    for entry in entries:
        if entry.kind != "append" or content is None:
            kept_out.append(entry)
        elif entry.content not in content:
            content = content + (b"" if content.endswith(b"\n") or not content else b"\n") + entry.content
    return Settled(content, tuple(kept_out))


def is_torn(found: bytes, wanted: bytes) -> bool:
    """Return True if a crash may leave `found` of `wanted`: all or part of it, or NULs where its bytes should be."""
    if wanted.startswith(found):
        return True
    if len(found) > len(wanted) or b"\0" not in found:
        return False
    return all(a in (0, b) for a, b in zip(found, wanted, strict=False))


def sha256(data: bytes) -> str:
    """Return the hash that guards a file, in hex."""
    return hashlib.sha256(data).hexdigest()


def by_path(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    """Group entries by path: paths in the order of their first entry, entries in their own."""
    grouped: dict[str, list[Entry]] = {}
    for entry in entries:
        grouped.setdefault(entry.path, []).append(entry)
    return grouped
