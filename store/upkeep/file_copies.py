"""Copies of the files that agent programs read by themselves: a rule in one of them is found from all programs.

A copy is a document of the file's words in its project's channel. Its words are a file's: no dream draws a fact from
them. A dream may propose to change a line that a later statement has overtaken; accepted, the file itself is changed,
in that line alone, and `undo` changes it back.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from .. import okf
from ..changes import document_file
from ..changes.run_kinds import FILE_SHA256, REVIEW, Undone, new_run_id
from ..changes.runs import Runs
from ..core import Core
from ..door import Door, outgoing
from ..ledger.journal import FileChange, sha256
from ..model import Action, Changeset, Conflict, Kind, Level, Memory, NodeId, NotFound, Status, StoreReadOnly
from ..okf import session
from ..results import Decided, FileProposal, ProgramFile
from ..roles import MACHINES
from ..text.judging import line_after
from ..vault.disk import Disk, beginning
from ..writer.pending import PendingFiles
from ..writer.writer import Planned

SPACE: Final = "files"
"""The first part of the space in which copies are documents; the second is their channel."""

FOLDER: Final = f"{document_file.FOLDER}/{SPACE}"

RESOURCE, READ_BY, PROPOSALS, LINE_TIMES = "resource", "read_by", "proposals", "line_times"
_CHANGED: Final = "changed"
"""The key of the last accepted change: where it begins in the file, and its length, both in bytes."""

MOST_BYTES: Final = 2**16
"""Of a longer file the beginning is copied; it is never changed."""

SESSIONS_ASKED, HEAD_BYTES = 40, 16_384
"""The newest sessions whose folders are asked, and the beginning of a session's file that names its folder."""

_BETWEEN_BLOCKS = re.compile(r"\n\s*\n")
_SAYS = re.compile(r"^[ \t]*[^#@\s]", re.MULTILINE)
"""A line that is no heading, and no import of another file."""

_DIGITS: Final = 8
_OBSERVED: Final = "observed"


class _FoundLine(NamedTuple):
    """A proposal with its copy, and the file as it is: `start` and `end` bound the old words in its bytes."""

    proposal_id: str
    key: str
    path: str
    copy: Memory
    data: bytes
    old: str
    start: int
    end: int
    words: str
    said_at: datetime | None
    because: NodeId


def proposal_key(copy: NodeId, old: str, because: str) -> str:
    """Return the key under which a tombstone forbids dreams a proposal: its file, the words there, and the reason."""
    return f"line:{copy}:{hashlib.sha256(old.encode()).hexdigest()[:16]}:{because}"


def line_hash(line: str) -> str:
    """Return the hash by which a line is known again; the space in it does not count."""
    return hashlib.sha256(" ".join(line.split()).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def times_of_lines(copy: Memory) -> dict[str, datetime]:
    """Return since when each line of a copy is known to stand in its file, by its hash."""
    kept = copy.extra.get(LINE_TIMES)
    entries = kept.items() if isinstance(kept, Mapping) else ()
    return {line: at for when, lines in entries if (at := okf.instant(when)) for line in str(lines).split()}


class FileCopies:
    """Keeps the copies, and changes their files. Every method may be called from any thread but the writer's."""

    def __init__(self, core: Core, runs: Runs) -> None:
        self._core = core
        self._runs = runs
        self.disk = Disk()
        self._read_by: dict[NodeId, frozenset[str]] | None = None

    # ---- copying

    def keep(self, channel: str, files: Sequence[ProgramFile]) -> None:
        """Copy the files of a channel that changed. A block of lines that an earlier one has is left out of a later.

        A file that is gone is archived in its copy, unless its whole folder is away. Nothing is copied where learning
        is off.
        """
        with suppress(StoreReadOnly):
            self._core.switches.refuse_if_off(channel)
            self._core.vault.raise_if_away()
            # In one order, whoever calls: which of two files is said to have a block does not change then.
            known = sorted(files, key=lambda one: (one.speaker in MACHINES, one.key))
            read = [(one, data) for one in known if (data := _read(Path(one.path))) is not None]
            apart = _apart((one, data, _words(data, self._core.door)) for one, data in read)
            contents = {one.key: (one, data, text) for one, data, text in apart}
            silent = {one.key for one, _ in read} - contents.keys()
            if self._core.writer.submit(lambda files: self._plan(files, channel, contents, silent)).result():
                self._read_by = None

    def drop(self) -> None:
        """Archive every copy: no file is to be read any more."""
        paths = [path for path, _ in self._copies()]
        if paths:
            over = self._core.writer.submit(lambda files: Planned(None, [self._over(files, path) for path in paths]))
            over.result()
        self._read_by = None

    def folders(self) -> list[str]:
        """Return the folders in which the newest sessions ran, each once."""
        sessions = self._core.catalog.listing(None, Level.SESSION, Kind.SESSION, SESSIONS_ASKED)
        files = ((one.path, self._core.vault.read(one.path, 0, HEAD_BYTES)) for one in sessions)
        heads = (session.head_of(path, okf.parse(data)) for path, data in files)
        return list(dict.fromkeys(head.cwd for head in heads if head.cwd))

    def refresh(self) -> None:
        """Copy the files again of which there are copies."""
        known: dict[str, list[ProgramFile]] = {}
        for _, copy in self._copies():
            known.setdefault(copy.channel, []).append(_file_of(copy))
        for channel, files in known.items():
            self.keep(channel, files)

    def _plan(
        self,
        files: PendingFiles,
        channel: str,
        contents: Mapping[str, tuple[ProgramFile, bytes, str]],
        silent: Collection[str],
    ) -> Planned[bool]:
        """Plan the copies of a channel; those of files that are gone, or `silent` beside others, are archived."""
        changes = []
        for key, (file, data, text) in contents.items():
            path = document_file.path_of((SPACE, channel), key)
            before = files.read(path) if files.exists(path) else None
            if before is None and self._is_forgotten(document_file.node_id_of((SPACE, channel), key)):
                continue
            content = _content(before, channel, file, data, text)
            if before is None:
                changes.append(FileChange("create", path, content))
            elif content != before:
                changes.append(FileChange("replace", path, content, 0, sha256(before)))
        for path, copy in self._copies(channel):
            file = _file_of(copy)
            is_over = file.key in silent or (file.key not in contents and _is_gone(file))
            if is_over and files.exists(path):
                changes.append(self._over(files, path))
        return Planned(bool(changes), changes)

    def _over(self, files: PendingFiles, path: str) -> FileChange:
        before = files.read(path)
        over = {"status": Status.DEPRECATED.value, "archived_at": self._core.now().isoformat(), PROPOSALS: None}
        return FileChange("replace", path, okf.edit(before, over), 0, sha256(before))

    def _is_forgotten(self, node_id: NodeId) -> bool:
        return self._core.ledger.run_about("forget", node_id) is not None

    def _copies(self, channel: str | None = None) -> Iterator[tuple[str, Memory]]:
        """Yield the live copies with their paths."""
        folder = FOLDER if channel is None else document_file.folder_of((SPACE, channel))
        for stamp in self._core.vault.walk_folder(folder):
            data = self._core.vault.read_if_any(stamp.path)
            if data is not None and (copy := copy_in(stamp.path, data)) is not None:
                yield stamp.path, copy

    # ---- who has them already

    def read_by(self, agent: str) -> frozenset[NodeId]:
        """Return the copies of files that a program has in its context by itself."""
        if self._read_by is None:
            self._read_by = {copy.node_id: _file_of(copy).read_by for _, copy in self._copies()}
        return frozenset(name for name, programs in self._read_by.items() if agent in programs)

    # ---- proposals

    def proposals(self) -> list[FileProposal]:
        """Return the proposed changes of files that are as they were when their copies were made."""
        self.refresh()
        self._core.settle()
        found = []
        for path, copy in self._copies():
            for one in self._lines(path, copy):
                after = _spliced(one, self._put(one))
                name = str(copy.extra[RESOURCE])
                found.append(
                    FileProposal(
                        one.proposal_id,
                        name,
                        copy.channel,
                        one.because,
                        outgoing(one.words),
                        one.said_at,
                        _diff(name, one.data, after),
                    )
                )
        return found

    def names(self, proposal_id: str) -> bool:
        """Return True if a proposal has this id."""
        return any(one.proposal_id == proposal_id for path, copy in self._copies() for one in self._lines(path, copy))

    def accept(self, proposal_id: str, text: str = "") -> Decided:
        """Change the file of a proposal, as a run that `undo` reverts; with `text` the line says that instead.

        Raises NotFound, and Conflict where the file changed since, or cannot be changed.
        """
        one = self._find(proposal_id)
        put = self._core.door.line(text) if text else self._put(one)
        after = _spliced(one, put)
        before = self._core.vault.read(one.path)
        changed = {"start": one.start, "length": len(put.encode())}
        body = one.copy.text.replace(one.old, put, 1)
        changes = {FILE_SHA256: sha256(after), _CHANGED: changed, LINE_TIMES: _times(one.copy, body, self._core.now())}
        content = _with_body(okf.edit(before, self._without(one) | changes), body)
        target = _target(one.copy)
        _refuse_unsafe(target)
        run_id = self._decide(one, before, content, f"changed a line of {target.name}")
        try:
            self._exchange(target, one.data, after)
        except (OSError, Conflict) as error:
            self._runs.undo(run_id)
            raise Conflict(f"{target} stays as it is: {_reason(error)}", hint="Look at it, and try again.") from error
        return Decided(proposal_id, run_id, "change", (str(target),))

    def reject(self, proposal_id: str) -> Decided:
        """Drop a proposal, as a run that `undo` reverts; no dream makes it again. Raises NotFound."""
        one = self._find(proposal_id)
        before = self._core.vault.read(one.path)
        run_id = self._decide(one, before, okf.edit(before, self._without(one)), "left a line of a file as it is")
        return Decided(proposal_id, run_id, "leave", (str(one.copy.extra[RESOURCE]),))

    def undo(self, run_id: str, items: Collection[NodeId] = ()) -> Undone:
        """Undo a run, or some memories of it; a file outside of the vault that it changed is changed back.

        Raises Conflict where the file is no longer as the run left it, and then undoes nothing.
        """
        back = list(self._changes_back(run_id, items))
        undone = self._runs.undo(run_id, items)
        if undone.restored:
            for target, now, before in back:
                self._exchange(target, now, before)
        self._read_by = None
        return undone

    def _changes_back(self, run_id: str, items: Collection[NodeId]) -> Iterator[tuple[Path, bytes, bytes]]:
        """Yield each file that a run changed, its content, and that before the run. Raises Conflict."""
        try:
            kind = self._core.ledger.run(run_id).kind
        except NotFound:
            return  # the undo itself says why: a ledger that was set aside is one reason
        if kind != REVIEW:
            return
        for action in self._core.ledger.actions(run_id):
            if not action.path.startswith(f"{FOLDER}/") or action.state != "applied":
                continue
            if items and action.node_id not in items:
                continue
            was, left = (copy_in(action.path, image or b"") for image in (action.pre_image, action.post_image))
            if was is None or left is None or was.extra.get(FILE_SHA256) == left.extra.get(FILE_SHA256):
                continue
            target, place = _target(left), left.extra[_CHANGED]
            now = _read(target) or b""
            olds = {one["old"] for one in entries_of(was)} - {one["old"] for one in entries_of(left)}
            newline = _newline_of(now)
            candidates = [
                now[: place["start"]] + old.replace("\n", newline).encode() + now[place["start"] + place["length"] :]
                for old in olds
            ]
            before = next((data for data in candidates if sha256(data) == was.extra[FILE_SHA256]), None)
            if sha256(now) != left.extra[FILE_SHA256] or before is None:
                raise Conflict(
                    f"{target} was changed since",
                    hint="Undo a later change of it first, or change the line back by hand.",
                )
            yield target, now, before

    # ---- inside

    def _find(self, proposal_id: str) -> _FoundLine:
        self._core.settle()
        for path, copy in self._copies():
            for one in self._lines(path, copy):
                if one.proposal_id == proposal_id:
                    return one
        raise NotFound(f"no change {proposal_id} of a file waits", hint="`dreamctl review --list` shows those that do.")

    def _lines(self, path: str, copy: Memory) -> Iterator[_FoundLine]:
        """Yield the proposals of a copy whose file is unchanged, whose words stand in it once, and whose reason holds.

        The lines around are no part of the proposal: a change elsewhere in the file brings it back with the next copy.
        """
        entries = entries_of(copy)
        data = _read(_target(copy)) if entries else None
        if data is None or sha256(data) != copy.extra.get(FILE_SHA256):
            return
        for entry in entries:
            old = entry["old"].replace("\n", _newline_of(data)).encode()
            later = self._later(entry)
            key = proposal_key(copy.node_id, entry["old"], entry["because"])
            if data.count(old) != 1 or later is None or key in self._core.tombstones.names:
                continue
            words, said_at, because = later
            start = data.index(old)
            end = start + len(old)
            yield _FoundLine(
                hashlib.sha256(key.encode()).hexdigest()[:_DIGITS],
                key,
                path,
                copy,
                data,
                entry["old"],
                start,
                end,
                words,
                said_at,
                because,
            )

    def _later(self, entry: Mapping[str, Any]) -> tuple[str, datetime | None, NodeId] | None:
        """Return the words of the later statement, of a fact or of another file's line; None where it holds no more."""
        node = self._core.catalog.node(entry["because"].partition("#")[0])
        if node is None or not node.live:
            return None
        words = entry.get("words") or node.text
        return (words, node.since, node.node_id) if line_after(entry["old"], words) else None

    def _put(self, one: _FoundLine) -> str:
        return line_after(one.old, one.words) or one.old

    def _without(self, one: _FoundLine) -> dict[str, Any]:
        left = [
            entry
            for entry in entries_of(one.copy)
            if proposal_key(one.copy.node_id, entry["old"], entry["because"]) != one.key
        ]
        return {PROPOSALS: left or None}

    def _decide(self, one: _FoundLine, before: bytes, content: bytes, note: str) -> str:
        now = self._core.now()
        action = Action.replacing(
            one.path, one.copy.node_id, before, content, stage=REVIEW, reason=note, fingerprint=one.key
        )
        changeset = Changeset(run_id=new_run_id(now, REVIEW), actions=(action,))
        applied = self._runs.apply(changeset, kind=REVIEW, summary={"note": note})
        for refused in applied.skipped:
            raise Conflict(f"{refused.path} stays as it is: {refused.reason}", hint="Look at it, and try again.")
        self._core.tombstones.read()
        return applied.run_id

    def _exchange(self, target: Path, before: bytes, after: bytes) -> None:
        """Put new content in a file's place in one step. Raises Conflict if it was not as expected, and OSError."""
        aside = self.disk.write_aside(target.parent, after)
        try:
            shutil.copystat(target, aside)
            os.utime(aside)
            self.disk.fsync(aside)
            self.disk.exchange(aside, target)
            if self.disk.read(aside) != before:  # it was saved in between
                self.disk.exchange(aside, target)
                raise Conflict("it was changed in the meantime")
            self.disk.fsync_dir(target.parent)
        finally:
            self.disk.unlink(aside)


# ---- a copy


def copy_in(path: str, data: bytes) -> Memory | None:
    """Read a live copy; None for any other file."""
    copy = okf.to_memory(path, okf.parse(data))
    is_copy = copy.kind is Kind.DOCUMENT and isinstance(copy.extra.get(RESOURCE), str) and FILE_SHA256 in copy.extra
    return copy if is_copy and copy.is_live else None


def entries_of(copy: Memory) -> list[dict[str, Any]]:
    """Return the proposals that dreams wrote into a copy: the `old` words, and the node `because` of which."""
    listed = copy.extra.get(PROPOSALS)
    entries = listed if isinstance(listed, list) else []
    return [
        dict(one)
        for one in entries
        if isinstance(one, Mapping) and all(isinstance(one.get(key), str) for key in ("old", "because"))
    ]


def _file_of(copy: Memory) -> ProgramFile:
    read_by = copy.extra.get(READ_BY)
    names = frozenset(map(str, read_by)) if isinstance(read_by, list) else frozenset[str]()
    key, root = str(copy.extra.get("key")), str(copy.extra.get("root", ""))
    return ProgramFile(key, str(copy.extra[RESOURCE]), root, names, copy.said_by or "")


def _content(before: bytes | None, channel: str, file: ProgramFile, data: bytes, text: str) -> bytes:
    """Return the copy of a file; proposals about words that still stand there are kept."""
    known = copy_in("", before) if before is not None else None
    at = datetime.fromtimestamp(Path(file.path).stat().st_mtime, UTC)
    is_same = known is not None and known.extra.get(FILE_SHA256) == sha256(data) and known.text == text
    if before is not None and known is not None and is_same and _file_of(known) == file:
        return before
    extra: dict[str, Any] = {"space": [SPACE, channel], "key": file.key, "format": "text"}
    extra |= {RESOURCE: file.path, "root": file.root, READ_BY: sorted(file.read_by), FILE_SHA256: sha256(data)}
    extra[LINE_TIMES] = _times(known, text, at)
    if known is not None and (kept := [one for one in entries_of(known) if one["old"] in text]):
        extra[PROPOSALS] = kept
    if known is not None and is_same and _CHANGED in known.extra:
        extra[_CHANGED] = known.extra[_CHANGED]
    memory = Memory(
        node_id=document_file.node_id_of((SPACE, channel), file.key),
        level=Level.SESSION,
        kind=Kind.DOCUMENT,
        title=file.key,
        text=text,
        channel=channel,
        created_at=at,
        provenance=_OBSERVED,
        said_by=file.speaker,
        extra=extra,
    )
    return okf.from_memory(memory)


def _times(known: Memory | None, text: str, at: datetime) -> dict[str, str]:
    """Return when each line was there first, as hashes by the time: lines that were known before keep theirs."""
    before = times_of_lines(known) if known is not None else {}
    times: dict[str, list[str]] = {}
    for line in dict.fromkeys(line_hash(line) for line in text.splitlines() if line.strip()):
        times.setdefault(before.get(line, at).isoformat(), []).append(line)
    return {when: " ".join(lines) for when, lines in sorted(times.items())}


def _apart(files: Iterable[tuple[ProgramFile, bytes, str]]) -> Iterator[tuple[ProgramFile, bytes, str]]:
    """Yield each file with its words but for the blocks that one before has; none that has nothing else to say.

    The readers of a file that is left out have all of it in the other one, if one has it all.
    """
    kept: list[tuple[ProgramFile, bytes, str, set[str]]] = []
    for file, data, text in files:
        blocks = {" ".join(block.split()): block for block in _BETWEEN_BLOCKS.split(text) if block.strip()}
        fresh = [one for one in blocks if not any(one in said for *_, said in kept)]
        if any(_SAYS.search(blocks[one]) for one in fresh):
            left = text if len(fresh) == len(blocks) else "\n\n".join(blocks[one] for one in fresh)
            kept.append((file, data, left, set(blocks)))
            continue
        told = {one for one, block in blocks.items() if _SAYS.search(block)}
        whole = next((place for place, (*_, said) in enumerate(kept) if told and told <= said), None)
        if whole is not None:
            known = kept[whole]
            kept[whole] = (replace(known[0], read_by=known[0].read_by | file.read_by), *known[1:])
    return ((file, data, text) for file, data, text, _ in kept)


def _with_body(content: bytes, body: str) -> bytes:
    return okf.with_body_of(content, okf.render({"type": "x"}, f"\n{body}\n"))


# ---- the file itself


def _target(copy: Memory) -> Path:
    """Return where a file really lies: its name may be a link."""
    return Path(os.path.realpath(str(copy.extra[RESOURCE])))


def _read(path: Path) -> bytes | None:
    try:
        return beginning(Path(os.path.realpath(path)), MOST_BYTES)
    except OSError:
        return None


def _is_gone(file: ProgramFile) -> bool:
    """Return True for a file that is not there, below a folder that is, and not empty: it may be a disk not mounted."""
    try:
        with os.scandir(file.root) as entries:
            return not os.path.lexists(file.path) and any(entries)
    except OSError:
        return False


def _words(data: bytes, door: Door) -> str:
    return door.text(_one_newline(data.decode("utf-8-sig", "replace")))


def _one_newline(text: str) -> str:
    return text.replace("\r\n", "\n")


def _newline_of(data: bytes) -> str:
    return "\r\n" if b"\r\n" in data else "\n"


def _spliced(one: _FoundLine, put: str) -> bytes:
    return one.data[: one.start] + put.encode() + one.data[one.end :]


def _diff(name: str, before: bytes, after: bytes) -> str:
    old, new = (data.decode("utf-8", "replace").splitlines(keepends=True) for data in (before, after))
    lines = difflib.unified_diff(old, new, name, name)
    return outgoing("".join(line if line.endswith("\n") else f"{line}\n" for line in lines))


def _refuse_unsafe(target: Path) -> None:
    status = target.stat()
    if status.st_nlink > 1:
        raise Conflict(f"{target} has several names (hard links)", hint="Change the line by hand.")
    if status.st_size > MOST_BYTES:
        raise Conflict(f"{target} is too long to be changed", hint="Change the line by hand.")


def _reason(error: Exception) -> str:
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else str(error)
