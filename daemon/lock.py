"""One daemon a vault: a lock that ends with its process, whatever ends it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class AlreadyRunning(Exception):
    """Another daemon holds this data folder or this vault."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class DaemonLock:
    """Holds a lock file in the data folder, and the vault's folder itself.

    Both are `flock`s, so no stale lock is ever left. The vault is locked too because two data folders may name one
    vault; a file system that knows no locks (some network ones) is let pass there.
    """

    def __init__(self, data_dir: Path, vault: Path) -> None:
        self._data_dir = data_dir
        self._vault = vault
        self._held: list[int] = []

    def acquire(self) -> None:
        """Make both folders where missing and lock them. Raises AlreadyRunning, naming the other's pid if known."""
        self._data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._vault.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._data_dir / "dreamd.lock"
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._held.append(file)
        if not _try_lock(file):
            pid = os.pread(file, 32, 0).decode("ascii", "replace").strip() or "unknown"
            self.release()
            raise AlreadyRunning(
                f"Another dreamd (pid {pid}) already serves {self._data_dir}.",
                "Use that one (`dreamctl status`), or stop it first (`dreamctl stop`).",
            )
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        folder = os.open(self._vault, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._held.append(folder)
        try:
            free = _try_lock(folder)
        except OSError:
            free = True
        if not free:
            self.release()
            raise AlreadyRunning(
                f"Another dreamd, with another data folder, already serves the vault {self._vault}.",
                "Stop that one first, or set DREAMD_VAULT_DIR to another folder.",
            )

    def release(self) -> None:
        """Let go; safe to call twice."""
        while self._held:
            os.close(self._held.pop())


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
