"""Disks that are full at chosen places, or cannot be read, for as long as a test says so."""

from __future__ import annotations

import errno
import itertools
import os
import threading
from collections.abc import Collection
from pathlib import Path
from typing import Any

import apsw
from dreamd.store.vault.disk import Disk

READS = frozenset({"read", "stat"})
WRITES = tuple(
    name for name, value in vars(Disk).items() if callable(value) and not name.startswith("_") and name not in READS
)
"""Every operation of the vault's disk that may need room, as the disk has them today."""

_numbers = itertools.count(1)


class Room:
    """Which sites have none now: `vault: append`, `ledger.db-wal: write`. Notes the sites come by while watched."""

    def __init__(self) -> None:
        self.is_watched = False
        self.full_at: frozenset[str] = frozenset()
        self.seen: set[str] = set()
        self.refused: set[str] = set()
        self._lock = threading.Lock()

    def has_none(self, site: str) -> bool:
        """Whether a write fails here now."""
        with self._lock:
            if self.is_watched:
                self.seen.add(site)
            if site in self.full_at:
                self.refused.add(site)
                return True
            return False

    def fill(self, sites: Collection[str]) -> None:
        """Have no room at these sites from now on; at none of them: have room everywhere."""
        self.full_at = frozenset(sites)


class FullDisk(Disk):
    """The vault's disk. A write that finds no room leaves a part of what it wrote, as a real one does."""

    def __init__(self, room: Room) -> None:
        self._room = room

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in WRITES:
            return found
        room: Room = super().__getattribute__("_room")

        def write(*arguments: Any, **named: Any) -> Any:
            if not room.has_none(f"vault: {name}"):
                return found(*arguments, **named)
            if name == "append":
                path, data, *offset = arguments
                found(path, data[: len(data) // 2], *offset, **named)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(arguments[0]))

        return write


class FullVFS(apsw.VFS):
    """SQLite's view of the same, for every database that is opened from now on in this process."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.below = apsw.vfs_names()[0]
        self.name = f"full-{next(_numbers)}"
        super().__init__(self.name, self.below, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _File(self, name, flags)


class _File(apsw.VFSFile):
    def __init__(self, vfs: FullVFS, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._room = vfs.room
        filename = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._name = Path(filename).name if filename else "temporary"
        super().__init__(vfs.below, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._need_room("write", apsw.SQLITE_FULL)
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._need_room("sync", apsw.SQLITE_IOERR_FSYNC)
        super().xSync(flags)

    def _need_room(self, operation: str, code: int) -> None:
        if self._room.has_none(f"{self._name}: {operation}"):
            raise apsw.exception_for(code)


class HiccupingVFS(apsw.VFS):
    """The disk, with reads of one file that fail while `fails` is true: as often as it says, or always.

    The default VFS while it is registered.
    """

    def __init__(self, name: str, error: type[apsw.Error] = apsw.IOError) -> None:
        self.base = apsw.vfs_names()[0]
        super().__init__("hiccup", base=self.base, makedefault=True)
        self.name = name
        self.error = error
        self.fails: bool | int = False

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _HiccupingFile(self, name, flags)


class _HiccupingFile(apsw.VFSFile):
    def __init__(self, disk: HiccupingVFS, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__(disk.base, name, flags)
        self._disk = disk
        self._is_meant = str(name.filename() if isinstance(name, apsw.URIFilename) else name).endswith(disk.name)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        if self._disk.fails and self._is_meant:
            self._disk.fails = self._disk.fails is True or self._disk.fails - 1
            raise self._disk.error("the disk hiccups")
        return super().xRead(amount, offset)
