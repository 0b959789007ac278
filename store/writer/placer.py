"""Placement of the journal's entries in the vault's files, and the syncs that make them durable there."""

from __future__ import annotations

import contextlib
import errno
import stat
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ..ledger.journal import Appended, AppliedFile, ChangeKind, Entry, by_path, settle
from ..model import InvalidInput
from ..vault.disk import Disk
from ..vault.vault import FileStamp, Vault, is_blank

SYNC_ALL_FROM: Final = 8
"""From so many files on, one sync of the whole file system is quicker than one for each (measured on ext4)."""

_TRIES: Final = 5


WHOLE_DISK: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ENODEV, errno.ENXIO, errno.ENOTCONN, errno.ESTALE}
    | {errno.ENOENT, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
)
"""Errors that the next file would meet as well; any other is of one file alone (a folder without permission)."""


class Placed(NamedTuple):
    """Files that changed, entries kept out by a person's edit, and entries of files that cannot be written."""

    applied: list[AppliedFile]
    kept_out: list[Entry]
    held: list[Entry]


class Placer:
    """Writes entries into files, whole or by appending, and knows which of them are not durable yet.

    Raises OSError as the disk does. A person may save any of the files at any moment: their version is never lost.
    """

    def __init__(self, vault: Vault, disk: Disk) -> None:
        self._vault = vault
        self._disk = disk
        self._folders: dict[str, Path] = {}
        self._unsynced: set[str] = set()

    def place(self, entries: Sequence[Entry]) -> Placed:
        """Make entries visible in the vault; entries that have been placed before are found to be there.

        Raises OSError for what concerns the whole disk; of one file, its entries are held.
        """
        placed = Placed([], [], [])
        for path, group in by_path(entries).items():
            try:
                full = self.locate(path)
                applied = self._place_simply(path, full, group)
                if applied is None:
                    placed.kept_out.extend(self._settle(full, group))
                    applied = AppliedFile(path, 0)
            except (InvalidInput, IsADirectoryError, NotADirectoryError):  # a person put something else there
                placed.kept_out.extend(group)
                continue
            except OSError as error:
                if error.errno in WHOLE_DISK:
                    raise
                placed.held.extend(group)
                continue
            self._unsynced.add(path)
            placed.applied.append(applied)
        return placed

    def _place_simply(self, path: str, full: Path, group: Sequence[Entry]) -> AppliedFile | None:
        """Create a file or append to one, which is nearly always all there is to do; return None for anything else."""
        first = group[0]
        before = self.stamp(path)
        if first.kind not in {"create", "append"} or (before.size if before else 0) != first.from_offset:
            return None
        if (before and first.kind == "create") or any(entry.kind != "append" for entry in group[1:]):
            return None
        content = first.content if len(group) == 1 else b"".join([entry.content for entry in group])
        if before is None:
            self._disk.write_temp_then_rename(full, content)
            return AppliedFile(path, 0)
        self._disk.append(full, content)
        after = self.stamp(path)
        alone = after is not None and (after.inode, after.size) == (before.inode, before.size + len(content))
        return AppliedFile(path, first.from_offset, Appended(before, after) if after and alone else None)

    def _settle(self, full: Path, group: Sequence[Entry]) -> tuple[Entry, ...]:
        """Bring a file, in whatever state it is found, to the state its entries lead to; return those kept out."""
        for _ in range(_TRIES):
            found = self._read(full)
            content, kept_out = settle(found, group)
            if content == found or self._turn_into(full, found, content, group[0].kind):
                return kept_out
        return tuple(group)  # a program saves this file faster than we can read it

    def _turn_into(self, full: Path, found: bytes | None, wanted: bytes | None, first: ChangeKind) -> bool:
        """Make what was found into what is wanted; False, with everything as it was, when it is no longer there.

        `first` is the kind of the first entry: after an append, the journal holds the end of the file alone.
        """
        if wanted is None:
            return found is None or self._remove(full, found)
        if found is None:
            self._disk.write_temp_then_rename(full, wanted)
            return True
        if first != "replace" and wanted.startswith(found):
            self._disk.append(full, wanted[len(found) :])
            return True
        return self._replace(full, found, wanted, sync_first=first == "append")

    def _replace(self, full: Path, found: bytes, wanted: bytes, *, sync_first: bool) -> bool:
        """Put a new file in the place of an old one; False when a person was there first.

        It must be synced first when it holds what only the old one has held durably so far.
        """
        temp = self._disk.write_aside(full.parent, wanted)
        try:
            if sync_first:
                self._disk.fsync(temp)
            return self._exchange(temp, full, found, wanted)
        except FileNotFoundError:  # deleted in the meantime
            return False
        finally:
            with contextlib.suppress(FileNotFoundError):
                self._disk.unlink(temp)

    def _exchange(self, temp: Path, full: Path, expected: bytes, placing: bytes) -> bool:
        """Swap two files. If what comes out is not as expected, an editor has saved it in between: put that back.

        What comes out then must be what was placed before, or it is a still newer save, and so on.
        """
        self._disk.exchange(temp, full)
        came_out = self._disk.read(temp)
        if came_out == expected:
            return True
        while came_out != expected:
            expected, placing = placing, came_out
            self._disk.exchange(temp, full)
            came_out = self._disk.read(temp)
        return False

    def _remove(self, full: Path, found: bytes) -> bool:
        aside = self._disk.write_aside(full.parent, b"")
        self._disk.rename(full, aside)
        if self._disk.read(aside) == found:
            self._disk.unlink(aside)
            return True
        if self._read(full) is None:
            self._disk.rename(aside, full)
        return False

    # ---- durability

    def take_unsynced(self) -> set[str]:
        """Return the files written since the last call, for `sync`."""
        paths, self._unsynced = self._unsynced, set()
        self._folders.clear()
        return paths

    def sync(self, paths: Collection[str]) -> None:
        """Make files durable, with the folders that name them. May be called from another thread.

        A file that a person removed meanwhile is passed over; raises FileNotFoundError where the vault itself is gone.
        """
        files = [self._vault.root / path for path in paths]
        folders = self._folders_of(paths)
        if len(files) >= SYNC_ALL_FROM:
            self._disk.sync_filesystem(self._vault.root, files, folders)
            return
        for file in files:
            with contextlib.suppress(FileNotFoundError):
                self._disk.fsync(file)
        for folder in folders:
            with contextlib.suppress(FileNotFoundError):
                self._disk.fsync_dir(folder)
        self._disk.stat(self._vault.root)

    def rescue(self, entries: Sequence[Entry]) -> list[Entry]:
        """Write every file of these entries anew and sync it: after a failed fsync the old ones cannot be trusted."""
        kept_out: list[Entry] = []
        self._folders.clear()
        for path, group in by_path(entries).items():
            full = self.locate(path)
            found = self._read(full)
            settled = settle(found, group)
            kept_out.extend(settled.kept_out)
            if found is not None and settled.content is not None:
                self._replace(full, found, settled.content, sync_first=True)
            else:
                self._turn_into(full, found, settled.content, group[0].kind)
            self._unsynced.add(path)
        self.sync(self.take_unsynced())
        return kept_out

    def _folders_of(self, paths: Collection[str]) -> list[Path]:
        """Return all folders above these files, deepest first, up to the root: a new folder is a name in its parent."""
        names = {path.rpartition("/")[0] for path in paths}
        for name in list(names):
            while name:
                name = name.rpartition("/")[0]
                names.add(name)
        return [self._vault.root / name for name in sorted(names, key=len, reverse=True)]

    # ---- paths and stamps

    def locate(self, path: str) -> Path:
        """Return where a path lies. Raises InvalidInput for one that leads out of the vault.

        Folders are looked at once between two syncs: asking the system costs more than writing a small file.
        """
        folder, _, name = path.rpartition("/")
        parent = self._folders.get(folder)
        if parent is None or not name or name[0] == "." or "\0" in name:
            full = self._vault.resolve(path)
            self._folders[folder] = full.parent
            return full
        return parent / name

    def size(self, path: str) -> int | None:
        """Return a file's size, None for none or a blank one. Raises InvalidInput when something else has its name."""
        stamp = self.stamp(path)
        return None if stamp is None or is_blank(path, stamp.size) else stamp.size

    def stamp(self, path: str) -> FileStamp | None:
        """Return a file's stamp, None when there is none. Raises InvalidInput when something else has its name."""
        try:
            status = self._disk.stat(self.locate(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not stat.S_ISREG(status.st_mode):
            raise InvalidInput(f"{path} is not a regular file in the vault")
        return FileStamp.of(path, status)

    def _read(self, full: Path) -> bytes | None:
        try:
            return self._disk.read(full)
        except (FileNotFoundError, NotADirectoryError):
            return None
