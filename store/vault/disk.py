"""Files that must survive a crash: atomic writes, and syncs at the moments that the caller chooses.

A write is visible at once, and durable only after `fsync` of the file and `fsync_dir` of its folder, or after
`sync_filesystem`; only `replace` and `write_durably` sync by themselves. Tests use a disk in its place that forgets
what was not synced.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import os
import re
import stat
import sys
from collections.abc import Iterable
from errno import EINVAL
from pathlib import Path
from typing import BinaryIO

# A memory is private: nothing that we write is readable for others, whatever the umask says.
FILE_MODE = 0o600
FOLDER_MODE = 0o700

TEMP_PREFIX = ".dreamd-"
TEMP_SUFFIX = ".tmp"
ASIDE_SUFFIX = ".aside.tmp"
"""The ending of a temporary file that is exchanged with an existing one, and has its content afterwards."""

_TEMP_NAME = re.compile(r"\.dreamd-(\d+)-\d+(\.aside)?\.tmp")

_AT_FDCWD = -100  # linux/fcntl.h
_RENAME_EXCHANGE = 2  # linux/fs.h
_RENAME_SWAP = 2  # sys/stdio.h, macOS

# A file system that cannot swap two names answers with one of these; then three renames must do.
_CANNOT_EXCHANGE = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}

_libc = ctypes.CDLL(None, use_errno=True)
_temp_numbers = itertools.count()


class Disk:
    """Reads, writes and syncs of files. Every method raises OSError as the system does.

    `anchor` is a folder that is never made: while it is missing (a volume that is not mounted), no folder in it is.
    """

    anchor: Path | None = None

    def read(self, path: Path, from_offset: int = 0, most_bytes: int = -1) -> bytes:
        """Return the content of a regular file from an offset on, at most `most_bytes` of it."""
        with opened(path) as file:
            file.seek(from_offset)
            return file.read(most_bytes)

    def stat(self, path: Path) -> os.stat_result:
        """Return the status of the path itself; a symbolic link is not followed."""
        return os.lstat(path)

    def make_folder(self, path: Path) -> None:
        """Make a folder and those above it, up to the anchor. Their entries are durable once each parent is synced."""
        if self.anchor is None or not path.is_relative_to(self.anchor):
            path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            return
        folder = self.anchor
        for name in path.relative_to(self.anchor).parts:
            folder /= name
            folder.mkdir(mode=FOLDER_MODE, exist_ok=True)

    def write_temp_then_rename(self, path: Path, data: bytes) -> None:
        """Put a whole file in place: a reader sees the old content or the new, never a part. Makes missing folders.

        Not synced: after a power cut before the sync the name may be missing, old, or hold a part, or zeros.
        """
        temp = self.write_temp(path.parent, data)
        try:
            self.rename(temp, path)
        except BaseException:
            with contextlib.suppress(OSError):
                self.unlink(temp)
            raise

    def replace(self, path: Path, data: bytes, mode: int = FILE_MODE) -> None:
        """Put a whole file in place; a power cut leaves the old content or the new one, never a part.

        The content is synced before the rename: else the name may be durable first, and the file empty after a cut.
        """
        temp = self.write_temp(path.parent, data)
        try:
            temp.chmod(mode)
            self.fsync(temp)
            self.rename(temp, path)
        except BaseException:
            with contextlib.suppress(OSError):
                self.unlink(temp)
            raise

    def write_durably(self, path: Path, data: bytes) -> None:
        """Replace a file, with its name on the disk when this returns."""
        self.replace(path, data)
        self.fsync_dir(path.parent)

    def write_temp(self, folder: Path, data: bytes) -> Path:
        """Write a new hidden file into the folder and return its path; the caller renames or exchanges it."""
        temp = folder / f"{TEMP_PREFIX}{os.getpid()}-{next(_temp_numbers)}{TEMP_SUFFIX}"
        # O_EXCL: a name that is taken, or a link that was put there, is an error and is never written through.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            # Nearly always the folder is there: make it only when it turns out missing.
            fd = os.open(temp, flags, FILE_MODE)
        except FileNotFoundError:
            self.make_folder(folder)
            fd = os.open(temp, flags, FILE_MODE)
        try:
            _write_all(fd, data)
        except BaseException:
            with contextlib.suppress(OSError):
                temp.unlink()
            raise
        finally:
            os.close(fd)
        return temp

    def write_aside(self, folder: Path, data: bytes) -> Path:
        """Write a new hidden file that is to be exchanged with one that is there; its name says so."""
        temp = self.write_temp(folder, data)
        aside = temp.with_name(temp.name.removesuffix(TEMP_SUFFIX) + ASIDE_SUFFIX)
        self.rename(temp, aside)
        return aside

    def append(self, path: Path, data: bytes, offset: int | None = None) -> None:
        """Write at the end of an existing file, or at `offset` (a write that is done again after a crash)."""
        flags = os.O_WRONLY | os.O_CLOEXEC | (os.O_APPEND if offset is None else 0)
        fd = os.open(path, flags)
        try:
            # Not O_APPEND: what a crash left of the same bytes is overwritten instead of repeated.
            if offset is not None:
                os.lseek(fd, offset, os.SEEK_SET)
            _write_all(fd, data)
        finally:
            os.close(fd)

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file, replacing the one at the target."""
        source.replace(target)

    def exchange(self, a: Path, b: Path) -> bool:
        """Swap the files behind two names; both must exist. Returns whether it was one atomic step.

        Where the system cannot, `b` still always exists, but a save that lands on `b` between the steps is lost.
        """
        if _swap_names(os.fsencode(a), os.fsencode(b)):
            return True
        spare = a.with_name(f"{TEMP_PREFIX}{os.getpid()}-{next(_temp_numbers)}{ASIDE_SUFFIX}")
        # A second name for b's file first: b keeps a file at every step, and nothing is without a name.
        os.link(b, spare)
        a.replace(b)
        spare.replace(a)
        return False

    def unlink(self, path: Path) -> None:
        """Remove a name."""
        path.unlink()

    def set_written_at(self, path: Path, mtime_ns: int) -> None:
        """Set when a file counts as written."""
        os.utime(path, ns=(mtime_ns, mtime_ns))

    def remove_folder(self, path: Path) -> None:
        """Remove an empty folder; that is durable once its parent is synced."""
        path.rmdir()

    def fsync(self, path: Path) -> None:
        """Make a file's content durable; its name is the folder's matter.

        After an error the content in memory counts as clean, and a second fsync would lie: rewrite the file.
        """
        self._sync(path, os.O_RDONLY)

    def fsync_dir(self, path: Path) -> None:
        """Make the names in a folder durable."""
        self._sync(path, os.O_RDONLY | os.O_DIRECTORY)

    def sync_filesystem(self, path: Path, files: Iterable[Path] = (), folders: Iterable[Path] = ()) -> None:
        """Make everything below `path` durable in one call (syncfs); without it, sync the named files and folders."""
        if hasattr(_libc, "syncfs"):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                if _libc.syncfs(fd) != 0:
                    raise _os_error(path)
            finally:
                os.close(fd)
            return
        for file in files:
            with contextlib.suppress(FileNotFoundError):
                self.fsync(file)
        for folder in folders:
            with contextlib.suppress(FileNotFoundError):
                self.fsync_dir(folder)

    def _sync(self, path: Path, flags: int) -> None:
        fd = os.open(path, flags | os.O_CLOEXEC)
        try:
            sync_descriptor(fd)
        finally:
            os.close(fd)


def replace_file(path: Path, data: bytes, mode: int = FILE_MODE) -> None:
    """Replace a file atomically, with these permissions. Its content is synced, its name is not."""
    Disk().replace(path, data, mode)


def sync_descriptor(fd: int) -> None:
    """Push a file through to the medium; on macOS plain fsync stops at the drive's cache (`man 2 fsync`)."""
    if sys.platform == "darwin":
        import fcntl

        with contextlib.suppress(OSError):  # not every file system there knows it
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
            return
    os.fsync(fd)


def is_temp(name: str) -> bool:
    """Return True for the name of a file that an interrupted write left behind."""
    return _TEMP_NAME.fullmatch(name) is not None


def is_aside(name: str) -> bool:
    """Return True if such a file may have the earlier content of another one."""
    return name.endswith(ASIDE_SUFFIX)


def pid_of_temp(name: str) -> int:
    """Return the process that wrote such a file."""
    found = _TEMP_NAME.fullmatch(name)
    return int(found[1]) if found else 0


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _swap_names(a: bytes, b: bytes) -> bool:
    if sys.platform == "darwin":
        if not hasattr(_libc, "renamex_np"):
            return False
        failed = _libc.renamex_np(a, b, ctypes.c_uint(_RENAME_SWAP)) != 0
    elif hasattr(_libc, "renameat2"):
        failed = _libc.renameat2(_AT_FDCWD, a, _AT_FDCWD, b, ctypes.c_uint(_RENAME_EXCHANGE)) != 0
    else:
        return False
    if not failed:
        return True
    if ctypes.get_errno() in _CANNOT_EXCHANGE:
        return False
    raise _os_error(Path(os.fsdecode(b)))


def _os_error(path: Path) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code), str(path))


def opened(path: Path) -> BinaryIO:
    """Open a file for reading. Raises OSError for a link, a pipe, a device or a folder.

    Who names a link means its target and resolves it first; one that is met in a folder may lead anywhere, and may have
    taken a file's place since the folder was listed.
    """
    # Without O_NONBLOCK, opening a pipe waits for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def beginning(path: Path, size_bytes: int) -> bytes:
    """Return the first bytes of a file. Raises OSError as `opened` does."""
    with opened(path) as file:
        return file.read(size_bytes)
