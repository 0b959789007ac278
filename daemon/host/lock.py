"""The lock that allows one daemon a vault; it ends with its process, however that ends."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path

from .. import HintedError


class AlreadyRunning(HintedError):
    """Another daemon has locked this data folder or this vault."""


class DaemonLock:
    """Locks a file in the data folder, and the vault's folder itself.

    Both are `flock`s, so no stale lock is ever left. The vault is locked too, since two data folders may name one
    vault; a file system without locks (some network ones) counts as locked. A missing vault (a volume that is not
    mounted) is not made, and can be claimed later.
    """

    def __init__(self, data_dir: Path, vault: Path) -> None:
        self._data_dir = data_dir
        self._vault = vault
        self._file: int | None = None
        self._folder: int | None = None

    def acquire(self) -> None:
        """Lock the data folder, which is made if missing, and the vault if it exists.

        Raises AlreadyRunning, with the other daemon's pid if known.
        """
        self._data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._data_dir / "dreamd.lock"
        self._file = _open_lock(path)
        if not _try_lock(self._file):
            pid = os.pread(self._file, 32, 0).decode("ascii", "replace").strip() or "unknown"
            self.release()
            raise AlreadyRunning(
                f"Another dreamd (pid {pid}) already serves {self._data_dir}.",
                "Use that one (`dreamctl status`), or stop it first (`dreamctl stop`).",
            )
        # A full or read-only disk: the lock holds without the pid.
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)
        if not self.claim_vault():
            self.release()
            raise AlreadyRunning(
                f"Another dreamd, with another data folder, already serves the vault {self._vault}.",
                "Stop that one first, or set DREAMD_VAULT_DIR to another folder.",
            )

    def claim_vault(self) -> bool:
        """Lock the vault's present folder; return False if another daemon has it. May be called again."""
        try:
            folder = os.open(self._vault, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return True
        if self._folder is not None:
            # Locked already: a second descriptor of the same folder would not get the lock.
            if os.path.samestat(os.fstat(folder), os.fstat(self._folder)):
                os.close(folder)
                return True
            os.close(self._folder)  # the folder that this one has replaced
            self._folder = None
        try:
            free = _try_lock(folder)
        except OSError:
            free = True
        if not free:
            os.close(folder)
            return False
        self._folder = folder
        return True

    def release(self) -> None:
        """Release both locks; safe to call twice."""
        for descriptor in (self._file, self._folder):
            if descriptor is not None:
                os.close(descriptor)
        self._file = self._folder = None


def _open_lock(path: Path) -> int:
    """Open the lock file, on a read-only disk for reading alone, which is enough to lock it."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno != errno.EROFS or not path.exists():
            raise
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
