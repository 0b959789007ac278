"""The folder of markdown files that is the memory: safe paths, its files, and which of them are derived."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from ..model import InvalidInput, NodeId, NotFound, StoreBusy
from .disk import FOLDER_MODE, Disk
from .layout import RESERVED_NAMES, SESSIONS_FOLDER, is_named_for, suffix_of

MARKER = ".dreamd"
MARKER_CONTENT = b"This folder is a memory vault of dreamd. Without this file nothing in it is taken as deleted.\n"
_MARKER_ID = re.compile(rb"^id: ([0-9a-f]{16})$", re.MULTILINE)

INSIDE_FOR_S = 1.0
FOLDERS_IN_MIND = 1000

HEAD_BYTES = 2**16
"""The beginning of a file that holds its frontmatter."""

MOST_BYTES = 2**20
"""Of a larger memory only the beginning is searched: one file must not block all others."""

LARGEST_BYTES = 4 * 2**20
LARGEST_SESSION_BYTES = 2**30
LARGEST_PAGE_BYTES = 64 * 2**20
"""The largest memory, session and derived page that is read whole. A larger one is no file of ours (a document has a
MiB, a chat of a year 300): of a memory the beginning is searched, and none is ever rewritten."""

DIGESTS_FOLDER = "digests"
_DIGEST = re.compile(DIGESTS_FOLDER + r"/\d{4}-\d{2}-\d{2}\.(?:md|html)")


@dataclass(frozen=True, slots=True)
class FileStamp:
    """A cheap identity of a file's state: equal while it is still the one that was read."""

    path: str
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, path: str, status: os.stat_result) -> FileStamp:
        """Return the stamp that the system's answer about a path makes."""
        return cls(path, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@dataclass(frozen=True, slots=True)
class Absence:
    """Why the vault cannot be used now; it ends by itself when the vault is back."""

    reason: str
    hint: str

    def __str__(self) -> str:
        return self.reason


class Vault:
    """A vault on a disk. Paths are relative to its root, with `/`, and never lead out of it.

    `look` says why the vault cannot be used now, None when it is there (`presence.Presence` sets it).
    """

    def __init__(self, root: Path, disk: Disk) -> None:
        self.root = Path(os.path.realpath(root))
        self.disk = disk
        self.look: Callable[[], Absence | None] = lambda: None
        self._root = f"{self.root}/"
        self._inside: dict[str, float] = {}  # folders that were seen to be inside, and until when that is believed

    def resolve(self, path: str) -> Path:
        """Return where a path lies. Raises InvalidInput when it is not plainly inside the vault.

        Hidden names, `..`, empty parts, and folders that are symbolic links to somewhere else are refused.
        """
        parts = path.split("/")
        if "\0" in path or any(not part or part.startswith(".") for part in parts):
            raise InvalidInput(f"{path!r} is not a path inside the vault", "Use a relative path without '..'.")
        folder = path.rpartition("/")[0]
        # realpath asks the system for each part of a path; that a folder is inside is believed for a second.
        if monotonic() > self._inside.get(folder, 0.0):
            if not f"{os.path.realpath(self._root + folder)}/".startswith(self._root):
                raise InvalidInput(f"{path!r} leads out of the vault", "Replace the symbolic link by a real folder.")
            if len(self._inside) >= FOLDERS_IN_MIND:
                self._inside.clear()
            self._inside[folder] = monotonic() + INSIDE_FOR_S
        return Path(self._root + path)

    def relative(self, full: Path) -> str | None:
        """Return the vault's own path of a file, or None for one outside."""
        text = str(full)
        return text[len(self._root) :] if text.startswith(self._root) else None

    def read(self, path: str, from_offset: int = 0, most_bytes: int = -1) -> bytes:
        """Return a file's content from an offset on, at most `most_bytes` of it.

        Raises NotFound, StoreBusy while the vault is away, and InvalidInput for all of a file that is too large.
        """
        full = self.resolve(path)
        try:
            status = self.disk.stat(full)
            if not stat.S_ISREG(status.st_mode):
                raise NotFound(f"{path} is not a regular file in the vault")
            if most_bytes < 0 and status.st_size > largest(path):
                raise InvalidInput(f"{path} is larger than {largest(path) >> 20} MiB", "It stays as it is: split it.")
            return self.disk.read(full, from_offset, most_bytes)
        # A file of a vault that is away is not deleted, so it must not be reported as not found.
        except (FileNotFoundError, NotADirectoryError) as missing:
            self.raise_if_away()
            raise NotFound(f"there is no {path} in the vault") from missing

    def read_if_any(self, path: str) -> bytes | None:
        """Return a file's content, None where there is no such file, a blank one, or one that is too large."""
        if (stamp := self.stamp(path)) is not None and stamp.size > largest(path):
            return None
        try:
            data = self.read(path)
        except NotFound:
            return None
        return None if is_blank(path, len(data)) else data

    def exists(self, path: str) -> bool:
        """Return True if a regular file is there."""
        return self.stamp(path) is not None

    def stamp(self, path: str) -> FileStamp | None:
        """Return a file's stamp, or None when no regular file is there, or a blank one."""
        try:
            status = self.disk.stat(self.resolve(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        is_there = stat.S_ISREG(status.st_mode) and not is_blank(path, status.st_size)
        return FileStamp.of(path, status) if is_there else None

    def walk(self) -> Iterator[FileStamp]:
        """Yield every memory and session that is not blank, folder by folder in the order of names.

        Symbolic links are not followed: one that leads out is none of ours, one that stays inside is a file twice.
        """
        yield from (stamp for stamp in _walk(self.root, "", is_kept) if stamp.size)

    def walk_folder(self, folder: str) -> Iterator[FileStamp]:
        """Yield every memory below a folder, as `walk` does; none where there is no such folder."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            yield from (stamp for stamp in _walk(self.resolve(folder), f"{folder}/", is_kept) if stamp.size)

    def session_named(self, session_id: str) -> str | None:
        """Return the path of a session's file, on whatever day it began: one look a day folder, no list of files."""
        for folder in [*sorted(self.root.glob("sessions/[0-9]*/[0-9]*/[0-9]*")), self.root / "sessions/undated"]:
            path = f"{folder.relative_to(self.root)}/{session_id}.md"
            if self.exists(path):
                return path
        return None

    def is_of(self, path: str, node_id: NodeId) -> bool:
        """Return True if a file's name or, where that has a part of the id alone, its head says that it is this node's.

        One that a person renamed is not found so.
        """
        return is_named_for(path, node_id) and (node_id in path or says_id(self.read(path, 0, HEAD_BYTES), node_id))

    def contents(self) -> Iterator[tuple[str, bytes]]:
        """Yield every memory and session with its content."""
        for stamp in self.walk():
            if (data := self.read_if_any(stamp.path)) is not None:
                yield stamp.path, data

    def derived(self) -> Iterator[str]:
        """Yield the path of every file that has the name of a derived one, dreamd's or a person's."""
        yield from (stamp.path for stamp in _walk(self.root, "", is_derived))

    def remove_empty_folders(self, paths: Iterable[str]) -> None:
        """Remove the folders of these paths in which nothing is left, and those above them."""
        for path in paths:
            folder = path.rpartition("/")[0]
            with contextlib.suppress(OSError, InvalidInput):  # something is in it
                while folder:
                    self.disk.remove_folder(self.resolve(folder))
                    folder = folder.rpartition("/")[0]

    def raise_if_away(self) -> None:
        """Raise StoreBusy while the vault is away: then no file counts as deleted."""
        if (absence := self.look()) is not None:
            raise StoreBusy(absence.reason, hint=absence.hint)

    @property
    def marker(self) -> Path:
        """The file that says that this is a vault, and that it is all there."""
        return self.root / MARKER

    def has_marker(self) -> bool:
        """Return True if the marker is in place."""
        return self.marker.is_file()

    def marker_id(self) -> str | None:
        """Return the id in the marker, None where there is no marker or it holds none. Raises OSError as the disk does.

        One that cannot be read may be another vault's: it must not be overwritten.
        """
        try:
            found = _MARKER_ID.search(self.disk.read(self.marker))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found[1].decode() if found else None

    def mark(self, vault_id: str) -> None:
        """Make the vault's folder and its marker with this id, durably, where they are not so already."""
        if self.marker_id() == vault_id:
            return
        self.root.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        self.disk.write_durably(self.marker, MARKER_CONTENT + f"id: {vault_id}\n".encode())
        self.disk.fsync_dir(self.root.parent)


def largest(path: str) -> int:
    """Return the size of the largest file of this kind that is read whole."""
    if path.startswith(SESSIONS_FOLDER):
        return LARGEST_SESSION_BYTES
    return LARGEST_BYTES if is_kept(path) else LARGEST_PAGE_BYTES


def is_derived(path: str) -> bool:
    """Return True for the path of a file that is regenerated: a catalogue, a history, a digest."""
    return path.rpartition("/")[2] in RESERVED_NAMES or is_digest(path)


def is_digest(path: str) -> bool:
    """Return True for the path of a day's digest; any other file in their folder is a memory."""
    return _DIGEST.fullmatch(path) is not None


def is_blank(path: str, size: int) -> bool:
    """Return True for a memory or session without a byte, which counts as gone until it is written again.

    An editor that saves in place leaves one for a moment, a power cut or a full disk for good.
    """
    return size == 0 and is_kept(path)


def is_kept(path: str) -> bool:
    """Return True for the path of a memory or a session."""
    return path.endswith(".md") and not is_derived(path) and not any(part.startswith(".") for part in path.split("/"))


def _walk(folder: Path | str, prefix: str, wanted: Callable[[str], bool]) -> Iterator[FileStamp]:
    with os.scandir(folder) as scan:
        entries = sorted((entry for entry in scan if entry.name[0] != "."), key=lambda entry: entry.name)
    for entry in entries:
        path = prefix + entry.name
        try:
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(entry.path, f"{path}/", wanted)
            elif wanted(path) and entry.is_file(follow_symlinks=False):
                path.encode()  # a name that is not UTF-8 cannot be cited
                yield FileStamp.of(path, entry.stat(follow_symlinks=False))
        except (FileNotFoundError, UnicodeEncodeError):
            continue


class FileNames:
    """The paths of a vault's files by the ids in their names, for questions while the index is not available.

    For one thread; the vault is walked at the first question. A file that a person renamed is not found, nor one that
    was added later.
    """

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._paths: dict[str, list[str]] | None = None

    def path_of(self, node_id: NodeId) -> str | None:
        """Return the path of the memory or session with this id."""
        if self._paths is None and self._vault.look() is None:
            self._paths = {}
            for stamp in self._vault.walk():
                for name in _names_in(stamp.path):
                    self._paths.setdefault(name, []).append(stamp.path)
        found = self._paths or {}
        named = (*found.get(node_id, ()), *found.get(suffix_of(node_id), ()))
        return next((path for path in named if self._vault.is_of(path, node_id)), None)

    def forget(self) -> None:
        """Drop the names: the next question walks the vault again."""
        self._paths = None


def says_id(head: bytes, node_id: NodeId) -> bool:
    """Return True if the beginning of a file says, readably or not, that it is the file of this node."""
    return re.search(rb'\bnode_id: "?' + re.escape(node_id.encode()) + rb"\b", head) is not None


def _names_in(path: str) -> set[str]:
    """Return the parts of a file's name that may be an id, or the beginning of one."""
    stem = path.rpartition("/")[2].removesuffix(".md")
    return {stem, stem.rpartition("--")[2], stem.rpartition("-")[2]}
