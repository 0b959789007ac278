"""Bundles: the files of a memory for another, in an archive or a folder; and a new memory that is made of one.

Three kinds are read: the folder of a vault, an OKF bundle (a `.tar.gz` of such files), and an OCF bundle, which is a
committed state: a plain `.tar` of the files with `snapshot.json` (each memory, and the hash of each file) and
`qualify.jsonl` (a line for each decision by which the state came about, with the hash of the line before). The same
state makes the same bytes.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final, Literal

from .. import okf
from ..changes.run_kinds import FORBIDDEN
from ..core import Core
from ..engine.database import open_database, transaction
from ..index.projection import memory_links
from ..ledger import records
from ..ledger.schema import MIGRATIONS
from ..model import Corrupt, InvalidInput, Memory, NodeId
from ..okf import session
from ..settings import StorePaths
from ..vault.disk import FILE_MODE, FOLDER_MODE, Disk, opened
from ..vault.layout import SESSIONS_FOLDER
from ..vault.vault import Vault, is_kept, largest
from .backup import put_in_place, refuse_living
from .backup_archive import Progress, silent
from .export import ExportedFile, plain
from .history import FORBIDS

FORMAT, VERSION = "ocf", 2
UNCHAINED: Final = 1
"""The version whose decisions had no hashes of their own."""

SNAPSHOT, QUALIFY, ROOT = "snapshot.json", "qualify.jsonl", "index.md"
PREVIOUS: Final = "previous"
"""The key of a decision with the hash of the line before it, "" in the first; the snapshot has that of the last."""

EXPORTED: Final = "Exported by dreamd"
_OWN: Final = frozenset({SNAPSHOT, QUALIFY})

LARGEST_OWN: Final = 2**30
MOST_FILES: Final = 10**6

MOST_DIFFERENCES: Final = 20
_ALTERED: Final = "Take another copy of it; nothing was made of this one."

BundleKind = Literal["vault", "okf", "ocf"]
Contents = Iterator[tuple[str, bytes, int]]
"""Paths with their contents, and the nanoseconds at which each was written, 0 where that is not known."""


# ---- a committed state


def committed(
    files: Sequence[ExportedFile], decisions: Iterable[Mapping[str, Any]], title: str, channel: str | None
) -> bytes:
    """Return the archive of a state: the files of its memories, their records, and the decisions about them."""
    contents = {file.path: _Content(file.content, file.written_s) for file in files}
    contents[ROOT] = _Content(root_page(title, len(files)))
    lines, head = list[bytes](), ""
    for one in decisions:
        lines.append(canonical({**one, PREVIOUS: head}))
        head = hashlib.sha256(lines[-1]).hexdigest()
    contents[QUALIFY] = _Content(b"".join(lines))
    snapshot = {
        "format": FORMAT,
        "version": VERSION,
        "decisions": head,
        "channel": channel,
        "memories": [file.record for file in sorted(files, key=lambda file: str(file.record["node_id"]))],
        "files": [contents[path].listed(path) for path in sorted(contents)],
    }
    snapshot["state"] = _hash_of(snapshot)
    return _archive({**contents, SNAPSHOT: _Content(canonical(snapshot))})


def root_page(title: str, files: int, day: date | None = None) -> bytes:
    """Return the page at the root of a bundle; no day where the same state is to make the same bytes."""
    on = f" on {day}" if day else ""
    return f'---\nokf_version: "{okf.OKF_VERSION}"\n---\n\n# {title}\n\n{EXPORTED}{on}: {files} files.\n'.encode()


@dataclass(frozen=True, slots=True)
class _Content:
    """A file of an archive; `written_s` is its time in whole seconds, 0 where its text says when it is of."""

    data: bytes
    written_s: int = 0

    def listed(self, path: str) -> dict[str, Any]:
        """Return its entry in a snapshot."""
        digest = hashlib.sha256(self.data).hexdigest()
        return {"path": path, "sha256": digest, "size": len(self.data), "written": self.written_s}


def canonical(value: Mapping[str, Any]) -> bytes:
    """Return a line of JSON in the one form that equal values have: sorted keys, no spaces, UTF-8."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=plain)
    return text.encode("utf-8", "replace") + b"\n"


def _hash_of(snapshot: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical({key: snapshot[key] for key in snapshot if key != "state"})).hexdigest()


def _archive(contents: Mapping[str, _Content]) -> bytes:
    # Not compressed: the bytes of a compressor differ from one of its versions to the next.
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(contents, key=lambda path: (path != SNAPSHOT, path)):
            entry, one = tarfile.TarInfo(path), contents[path]
            entry.size, entry.mode, entry.mtime = len(one.data), FILE_MODE, one.written_s
            tar.addfile(entry, io.BytesIO(one.data))
    return content.getvalue()


# ---- reading one


@dataclass(frozen=True, slots=True)
class CheckedBundle:
    """A bundle whose files were read and, of an OCF, compared with their hashes; `state` is the hash of its state."""

    path: str
    kind: BundleKind
    files: int
    memories: int
    sessions: int
    decisions: int
    state: str


def check_bundle(source: Path, progress: Progress = silent) -> CheckedBundle:
    """Read a bundle to its end. Raises InvalidInput for no bundle, and Corrupt for one that is torn or altered."""
    own: dict[str, bytes] = {}
    found: dict[str, tuple[str, int]] = {}
    for path, data, _ in _contents(source):
        progress("verify", len(found), 0)
        if path in _OWN:
            own[path] = data
        if path != SNAPSHOT:
            found[path] = hashlib.sha256(data).hexdigest(), len(data)
    kept = [path for path in found if is_kept(path)]
    sessions = sum(path.startswith(SESSIONS_FOLDER) for path in kept)
    kind: BundleKind = "ocf" if SNAPSHOT in own else "vault" if source.is_dir() else "okf"
    if not kept and kind != "ocf":
        raise InvalidInput(f"{source} holds no memory", hint="Name a vault's folder, or a bundle of `dreamctl export`.")
    state = _verified(source, own, found) if kind == "ocf" else ""
    decisions = own.get(QUALIFY, b"").count(b"\n")
    return CheckedBundle(str(source), kind, len(found), len(kept) - sessions, sessions, decisions, state)


def _verified(source: Path, own: Mapping[str, bytes], found: Mapping[str, tuple[str, int]]) -> str:
    """Compare an OCF with its snapshot, and an archive of one, byte for byte, with that of its files."""
    try:
        snapshot = json.loads(own[SNAPSHOT])
        is_chained = snapshot["version"] != UNCHAINED
        if snapshot["format"] != FORMAT or (is_chained and snapshot["version"] != VERSION):
            raise InvalidInput(f"{source} is of another version of the format", hint="Update dreamd.")
        listed = {one["path"]: (one["sha256"], one["size"]) for one in snapshot["files"]}
        times = {one["path"]: int(one["written"]) for one in snapshot["files"]}
        head = str(snapshot["decisions"]) if is_chained else ""
        is_whole = canonical(snapshot) == own[SNAPSHOT] and snapshot["state"] == _hash_of(snapshot)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Corrupt(f"the snapshot of {source} cannot be read", hint=_ALTERED) from error
    if not is_whole:
        raise Corrupt(f"the snapshot of {source} is not as it was written", hint=_ALTERED)
    if is_chained:
        _follow(source, own.get(QUALIFY, b""), head)
    if wrong := next((path for path in sorted({*listed, *found}) if listed.get(path) != found.get(path)), None):
        raise Corrupt(f"{wrong} in {source} is not as it was written", hint=_ALTERED)
    # What lies between the files is compared too: a header that was altered holds no hash.
    read = {} if source.is_dir() else {path: _Content(data, times.get(path, 0)) for path, data, _ in _contents(source)}
    if read and _archive(read) != _read(source):
        raise Corrupt(f"{source} is not as it was written", hint=_ALTERED)
    return str(snapshot["state"])


def _follow(source: Path, log: bytes, head: str) -> None:
    """Raise Corrupt where a line of the decisions was changed, left out, put in or moved; `head` is the last's hash."""
    last = ""
    for number, line in enumerate(log.splitlines(keepends=True), 1):
        try:
            is_next = json.loads(line)[PREVIOUS] == last
        except (ValueError, TypeError, KeyError, RecursionError):
            is_next = False
        if not is_next:
            raise Corrupt(f"{QUALIFY} in {source} is not as it was written, at or before line {number}", hint=_ALTERED)
        last = hashlib.sha256(line).hexdigest()
    if last != head:
        raise Corrupt(f"{QUALIFY} in {source} is not as it was written, at its end", hint=_ALTERED)


def _read(source: Path) -> bytes:
    with opened(source) as file:
        return file.read()


def _contents(source: Path) -> Contents:
    """Yield the files of a folder or an archive, hidden ones and those that are none left out. Raises as the checks."""
    seen: set[str] = set()
    for path, data, written_ns in _of_folder(source) if source.is_dir() else _of_archive(source):
        if path in seen or len(seen) >= MOST_FILES:
            raise Corrupt(f"{source} holds {path} twice, or too many files", hint=_ALTERED)
        seen.add(path)
        yield path, data, written_ns


def _of_folder(source: Path) -> Contents:
    for folder, folders, names in os.walk(source):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            file = Path(folder, name)
            if name.startswith(".") or file.is_symlink() or not file.is_file():
                continue
            path = file.relative_to(source).as_posix()
            _refuse_odd(path, file.stat().st_size)
            yield path, _read(file), file.stat().st_mtime_ns


def _of_archive(source: Path) -> Contents:
    try:
        with opened(Path(os.path.realpath(source))) as file:
            is_packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            raw: Any = gzip.GzipFile(fileobj=file) if is_packed else file
            with tarfile.open(fileobj=raw, mode="r|") as tar:
                for entry in tar:
                    content = tar.extractfile(entry) if entry.isreg() else None
                    if content is None:
                        raise Corrupt(f"{entry.name} in {source} is no file", hint=_ALTERED)
                    _refuse_odd(entry.name, entry.size)
                    yield entry.name, content.read(), int(entry.mtime) * 10**9
    except FileNotFoundError:
        raise InvalidInput(f"there is no {source}", hint="Name a vault's folder, or a bundle.") from None
    except (EOFError, zlib.error, tarfile.TarError, gzip.BadGzipFile, ValueError) as error:
        raise Corrupt(f"{source} is torn, or no bundle ({type(error).__name__})", hint=_ALTERED) from error


def _refuse_odd(path: str, size: int) -> None:
    """Raise Corrupt for a path that leads out of a folder, or is hidden in it, and for a file that is too large."""
    if "\0" in path or any(not part or part.startswith(".") for part in path.split("/")):
        raise Corrupt(f"{path!r} is no path within a bundle", hint=_ALTERED)
    if size > (LARGEST_OWN if path in _OWN else largest(path)):
        raise Corrupt(f"{path} is too large for a file of a memory", hint="It is no file of dreamd's.")


# ---- a memory that is made of one


@dataclass(frozen=True, slots=True)
class MadeMemory:
    """The memory that was made of a bundle; `differences` are sentences."""

    bundle: CheckedBundle
    vault: str
    memories: int
    turns: int
    links: int
    unread: int
    forbidden: int
    differences: Sequence[str] = ()


@dataclass(slots=True)
class LaidFiles:
    """The files of a bundle in a vault: its memories as they were in the bundle, and the turns of each session.

    `forbidden` are the keys of tombstones where the bundle was made, each with its moment.
    """

    bundle: CheckedBundle
    forbidden: dict[str, datetime] = field(default_factory=dict)
    memories: list[Memory] = field(default_factory=list)
    sessions: dict[NodeId, int] = field(default_factory=dict)


def lay_bundle(source: Path, paths: StorePaths, progress: Progress = silent) -> LaidFiles:
    """Lay the files of a bundle where nothing is remembered; all of it is verified before the first name is given.

    The caller holds the daemon's lock. Raises InvalidInput where something is remembered already.
    """
    refuse_living(paths)
    laid = LaidFiles(check_bundle(source, progress))
    if paths.vault.resolve().is_relative_to(source.resolve()):
        raise InvalidInput(f"{paths.vault} lies within {source}", hint="Choose another folder (DREAMD_DATA_DIR).")
    staged = paths.vault.with_name(f".{paths.vault.name}.rebuilding")
    shutil.rmtree(staged, ignore_errors=True)
    try:
        staged.mkdir(mode=FOLDER_MODE, parents=True)
        marker = Vault(paths.vault, Disk()).marker_id() if paths.vault.exists() else None
        for number, (path, data, written_ns) in enumerate(_contents(source)):
            progress("lay", number, laid.bundle.files)
            if path == QUALIFY and laid.bundle.kind == "ocf":
                laid.forbidden = _forbidden(source, data)
            if path in _OWN or (path == ROOT and EXPORTED.encode() in data):  # of the bundle, and none of the memory
                continue
            target = staged / path
            target.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            Disk().write_temp_then_rename(target, data)
            if written_ns:  # when a note was written is its time, where it names none
                os.utime(target, ns=(written_ns, written_ns))
            if is_kept(path):
                _note(laid, path, data, target.stat().st_mtime)
        if marker is not None:  # of an empty memory, whose ledger knows it
            Vault(staged, Disk()).mark(marker)
        Disk().sync_filesystem(staged, staged.rglob("*"), [staged])
        _forbid(paths.ledger, laid.forbidden)  # first: a crash between the two leaves no memory
        put_in_place(staged, paths.vault)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return laid


def _forbidden(source: Path, log: bytes) -> dict[str, datetime]:
    """Return the keys that no dream may propose, by the decisions of a bundle."""
    try:
        decisions = map(json.loads, log.splitlines())
        return {str(one["key"]): datetime.fromisoformat(one["at"]) for one in decisions if one["decision"] == FORBIDS}
    except (ValueError, TypeError, KeyError) as error:
        raise Corrupt(f"{QUALIFY} in {source} cannot be read", hint=_ALTERED) from error


def _forbid(path: Path, forbidden: Mapping[str, datetime]) -> None:
    """Have a ledger that no store has open forbid these; it is made if it is not there."""
    if not forbidden:
        return
    path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    with closing(open_database(path, durable=True, migrations=MIGRATIONS)) as ledger, transaction(ledger):
        for key, at in forbidden.items():
            ledger.execute(*records.leave_tombstone(key, "", at, FORBIDDEN))


def _note(laid: LaidFiles, path: str, data: bytes, written_s: float) -> None:
    if path.startswith(SESSIONS_FOLDER):
        parsed = session.parse(data)
        laid.sessions[session.head_of(path, okf.parse(data)).session_id] = len(parsed.turns)
    else:
        laid.memories.append(okf.to_memory(path, okf.parse(data), datetime.fromtimestamp(written_s).astimezone()))


def made_of(core: Core, laid: LaidFiles) -> MadeMemory:
    """Compare the memories of a store with those of the bundle that it was made of: ids, validity and links."""
    differences: list[str] = []
    links = unread = 0
    for memory in laid.memories:
        node = core.catalog.node(memory.node_id)
        if node is None or node.path != memory.path:
            unread += 1
            differences.append(f"{memory.path}: {'its id is that of another file' if node else 'it is not found'}")
            continue
        were = {(link.kind, link.target) for link in memory_links(memory)}
        kinds = {kind for kind, _ in were}
        links += len(were)
        held = {(kind, target) for kind in kinds for target in core.catalog.links(memory.node_id, kind)}
        changed = sorted(kinds) if were != held else []
        changed += [
            name
            for name, was, now in (
                ("channel", memory.channel, node.channel),
                ("kind", memory.kind, node.kind),
                ("valid_to", memory.valid_to, node.valid_to),
            )
            if was != now
        ]
        if changed:
            differences.append(f"{memory.path}: its {', '.join(changed)} differ")
    for name, number in laid.sessions.items():
        if (there := len(core.catalog.turns(name))) != number:
            differences.append(f"session {name}: {there} of its {number} turns are found")
    return MadeMemory(
        laid.bundle,
        str(core.vault.root),
        len(laid.memories) - unread,
        sum(laid.sessions.values()),
        links,
        unread,
        len(laid.forbidden),
        tuple(differences[:MOST_DIFFERENCES]),
    )
