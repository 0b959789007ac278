"""Place the journal's entries in the vault's files, and make them durable there by a checkpoint.

An entry is first in the journal, durable; then in its file, visible (`Placer.place`); then its file is synced
(`Checkpoint.begin`), and only after that the journal forgets the entry (`Checkpoint.end`). A crash at any point leaves
the entry in the journal or the file on the disk.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import stat
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Final, NamedTuple

from ..ledger.journal import Appended, AppliedFile, ChangeKind, Entry, by_path, settle
from ..ledger.ledger import Ledger
from ..model import InvalidInput
from ..vault.vault import FileStamp, Vault, is_blank

SYNC_ALL_FROM: Final = 8
"""From this number of files on, one sync of the whole file system is quicker than one for each (measured on ext4)."""

DUE_ROWS: Final = 5_000
DUE_BYTES: Final = 64 * 2**20
DUE_AFTER_S: Final = 1.0
"""A checkpoint is due after these rows or bytes, and, while no request comes in, after this time."""

MAX_ROWS: Final = 20_000
"""With this many rows written while a sync is still under way, everything waits for it."""

_TRIES: Final = 5

WHOLE_DISK: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ENODEV, errno.ENXIO, errno.ENOTCONN, errno.ESTALE}
    | {errno.ENOENT, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
)
"""Errors that the next file would meet as well; any other is of one file alone (a folder without permission)."""

logger = logging.getLogger(__name__)


class Placed(NamedTuple):
    """Files that changed, entries kept out by a person's edit, and entries of files that cannot be written."""

    applied: list[AppliedFile]
    kept_out: list[Entry]
    held: list[Entry]


class Placer:
    """Writes entries into files, whole or by appending, and keeps the set of files that are not durable yet.

    Raises OSError as the disk does. A person may save any of the files at any moment: their version is never lost.
    """

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._disk = vault.disk
        self._folders: dict[str, Path] = {}
        self._unsynced: set[str] = set()

    def place(self, entries: Sequence[Entry]) -> Placed:
        """Make entries visible in the vault; entries that have been placed before are found to be there.

        Raises OSError for a fault of the whole disk; where one file cannot be written, its entries are held.
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
        # The size is the guard: a file of another size is torn, or was changed by a person, and is settled.
        if first.kind not in {"create", "append"} or (before.size if before else 0) != first.from_offset:
            return None
        if (before and first.kind == "create") or any(entry.kind != "append" for entry in group[1:]):
            return None
        content = first.content if len(group) == 1 else b"".join([entry.content for entry in group])
        if before is None:
            self._disk.write_temp_then_rename(full, content)
            return AppliedFile(path, 0)
        self._disk.append(full, content)
        # If the file has grown by our bytes alone, the index may read only these; else it reads the whole file.
        after = self.stamp(path)
        alone = after is not None and (after.inode, after.size) == (before.inode, before.size + len(content))
        return AppliedFile(path, first.from_offset, Appended(before, after) if after and alone else None)

    def _settle(self, full: Path, group: Sequence[Entry]) -> tuple[Entry, ...]:
        """Bring a file, in whatever state it is found, to the state its entries lead to; return those kept out."""
        for _ in range(_TRIES):
            found = self._read(full)
            # Decide by the file as read, then act only if it still is as read; else read again.
            content, kept_out = settle(found, group)
            if content == found or self._turn_into(full, found, content, group[0].kind):
                return kept_out
        return tuple(group)  # a program saves this file faster than we can read it

    def _turn_into(self, full: Path, found: bytes | None, wanted: bytes | None, first: ChangeKind) -> bool:
        """Turn a file from `found` into `wanted`; False, with all as it was, when it no longer is as found.

        `first` is the kind of the first entry: after an append, the journal holds the end of the file alone.
        """
        if wanted is None:
            return found is None or self._remove(full, found)
        if found is None:
            self._disk.write_temp_then_rename(full, wanted)
            return True
        # Appending keeps the file's inode, by which editors and the watcher follow it.
        if first != "replace" and wanted.startswith(found):
            self._disk.append(full, wanted[len(found) :])
            return True
        return self._replace(full, found, wanted, sync_first=first == "append")

    def _replace(self, full: Path, found: bytes, wanted: bytes, *, sync_first: bool) -> bool:
        """Put a new file in the place of an old one; False when a person has saved it meanwhile.

        It must be synced first when it has bytes that only the old one has held durably so far.
        """
        temp = self._disk.write_aside(full.parent, wanted)
        try:
            # Without this a power cut could leave the new name with an empty file, and the old content gone.
            if sync_first:
                self._disk.fsync(temp)
            return self._exchange(temp, full, found, wanted)
        except FileNotFoundError:  # deleted in the meantime
            return False
        finally:
            with contextlib.suppress(FileNotFoundError):
                self._disk.unlink(temp)

    def _exchange(self, temp: Path, full: Path, expected: bytes, placing: bytes) -> bool:
        """Swap two files. If the old one is not as expected, an editor has saved it in between: swap it back.

        The file that the swap back takes out must be the one placed before, or it is a still newer save, and so on.
        Example: "a" was read, "b" is to be placed, and an editor saves "x" and then "y" meanwhile.
          swap 1  places "b" and takes out "x": not "a", so it must go back.
          swap 2  places "x" and takes out "y": not "b", so that is a newer save, and must go back.
          swap 3  places "y" and takes out "x", which is what swap 2 placed: "y" stays, and nothing was lost.
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
        # Rename first, compare then: nobody can save into a file that has left its place.
        self._disk.rename(full, aside)
        if self._disk.read(aside) == found:
            self._disk.unlink(aside)
            return True
        # A person saved before the rename: give the file back, unless yet another one has its place.
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
        # All files missing is no success but a vault that is gone: stat raises then.
        self._disk.stat(self._vault.root)

    def rescue(self, entries: Sequence[Entry]) -> list[Entry]:
        """Rewrite every file of these entries and sync it: after a failed fsync the old ones cannot be trusted."""
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
        # Only the folder is remembered; an odd name takes the long way, which refuses it.
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


class Checkpoint:
    """The entries that were placed since the last sync, and the sync that is under way, if any.

    Belongs to the writer's thread; only the sync itself runs in one of its own, since the system may take seconds for
    it when others have written much.
    """

    def __init__(self, placer: Placer, ledger: Ledger, monotonic: Callable[[], float]) -> None:
        self._placer = placer
        self._ledger = ledger
        self._monotonic = monotonic
        self._rows = self._bytes = 0
        self._ended_at = monotonic()
        self._syncing: Future[None] | None = None
        self._unfinished = False  # the sync has ended, and `end` has not gone through
        self._distrusted = False  # a sync failed, and the files are not rewritten yet
        self._up_to_seq = 0

    def note(self, entries: Sequence[Entry]) -> None:
        """Count entries that are in their files now."""
        self._rows += len(entries)
        self._bytes += sum(len(entry.content) for entry in entries)

    @property
    def is_running(self) -> bool:
        """Return True while a sync runs, or until `end` has been called after it."""
        return self._syncing is not None or self._unfinished

    @property
    def must_end(self) -> bool:
        """Return True once the sync has ended, or must be waited for."""
        return self._unfinished or (self._syncing is not None and (self._syncing.done() or self._rows >= MAX_ROWS))

    def is_due(self, *, idle: bool) -> bool:
        """Return True when a checkpoint should begin; `idle` says that no request comes in."""
        if self.is_running:
            return False
        if self._rows >= DUE_ROWS or self._bytes >= DUE_BYTES:
            return True
        return idle and self.due_in_s() == 0.0

    def due_in_s(self) -> float | None:
        """Return the seconds until one is due if nothing happens; None while one runs, or if there is nothing to do."""
        if self.is_running or not (self._rows or self._ledger.has_later):
            return None
        return max(0.0, self._ended_at + DUE_AFTER_S - self._monotonic())

    def hurry(self) -> None:
        """Make a checkpoint due at the next moment in which no request comes in."""
        self._ended_at = float("-inf")

    def begin(self, visible_seq: int, ended: Callable[[], None]) -> None:
        """Sync the files of entries up to `visible_seq`; then `ended` is called, in any thread, and `end` may be."""
        # Count from here: entries that are placed during the sync belong to the next checkpoint.
        self._rows = self._bytes = 0
        self._up_to_seq = visible_seq
        self._syncing = self._sync(self._placer.take_unsynced())
        self._syncing.add_done_callback(lambda _: ended())

    def abandon(self) -> None:
        """Drop the sync that is under way: the folder that it syncs is no longer the vault."""
        if self._syncing is not None:
            self._syncing.exception()
        self._syncing = None
        self._unfinished = self._distrusted = False
        self._rows = self._bytes = 0

    def _sync(self, paths: set[str]) -> Future[None]:
        syncing: Future[None] = Future()

        def run() -> None:
            try:
                self._placer.sync(paths)
            except BaseException as error:
                syncing.set_exception(error)
            else:
                syncing.set_result(None)

        threading.Thread(target=run, name="dreamd-sync", daemon=True).start()
        return syncing

    def end(self, visible_seq: int, unplaced: Collection[int] = (), *, closing: bool = False) -> list[Entry]:
        """Wait for the sync, then remove its entries from the journal; return those that a person's file kept out.

        After a sync that failed, every visible file is rewritten, since the system takes the old pages for clean.
        Raises OSError, apsw.Error or StoreError when that, or forgetting, fails: then `end` is to be called again.
        Entries that are `unplaced`, not in their files yet or held back, stay in the journal.
        """
        if not self.is_running:
            return []
        # Set until all below has succeeded: if writing or forgetting fails, `end` is called again and goes on here.
        self._unfinished = True
        if self._syncing is not None:
            syncing, self._syncing = self._syncing, None
            if (error := syncing.exception()) is not None:
                logger.warning("a sync failed (%s); writing the files anew", type(error).__name__)
                self._distrusted = True
        kept_out = self._write_anew(visible_seq, unplaced) if self._distrusted else []
        self._distrusted = False
        self._ledger.forget_done(self._up_to_seq, [seq for seq in unplaced if seq <= self._up_to_seq])
        self._ledger.checkpoint(anyway=closing)
        self._ended_at = self._monotonic()
        self._unfinished = False
        return kept_out

    def _write_anew(self, visible_seq: int, unplaced: Collection[int]) -> list[Entry]:
        """Write every placed file again, each with all of its entries that the journal still holds."""
        entries = [entry for entry in self._ledger.pending() if entry.seq not in unplaced]
        kept_out = self._placer.rescue(entries)
        self._ledger.keep_out(kept_out)
        self._up_to_seq = visible_seq
        return kept_out
