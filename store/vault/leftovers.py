"""Hidden files that killed writes left in the vault; removed unless their content may be a person's."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from .disk import is_aside, is_temp, pid_of_temp
from .vault import Vault

OLD_AFTER: Final = timedelta(minutes=1)
"""No write takes longer: an older file is not in use."""

MOST_AT_ONCE: Final = 1000


class Leftovers:
    """Sweeps the vault. `is_known` says if the ledger holds a content.

    If the process is killed during an exchange, such a file may be the only copy of a save that a person made at that
    moment. One whose content is not known is therefore kept and reported, never removed.
    """

    def __init__(self, vault: Vault, is_known: Callable[[bytes], bool], started_at: datetime) -> None:
        self._vault = vault
        self._is_known = is_known
        self._started_at = started_at
        self.held: tuple[str, ...] = ()

    def sweep(self, now: datetime, stopping: Callable[[], bool] = lambda: False) -> int:
        """Remove the files of an earlier process, or too old to be in use; return their number."""
        held: list[str] = []
        swept = 0
        for path in self._found():
            if stopping() or swept == MOST_AT_ONCE:
                break
            with contextlib.suppress(OSError):  # whoever used it was done with it, or it cannot be read
                if not self._is_over(path, now):
                    continue
                if self._is_ours(path):
                    self._vault.disk.unlink(path)
                    swept += 1
                else:
                    held.append(self._vault.relative(path) or str(path))
        self.held = tuple(sorted(held))
        return swept

    def remove(self, is_wanted: Callable[[bytes], bool]) -> int:
        """Remove the files whose content `is_wanted` gone, also a person's; return their number."""
        removed = 0
        for path in list(self._found()):
            with contextlib.suppress(OSError):  # it is gone, or no regular file
                if is_wanted(self._vault.disk.read(path)):
                    self._vault.disk.unlink(path)
                    removed += 1
        return removed

    def _found(self) -> Iterator[Path]:
        """Yield all files with such a name; other programs' hidden folders are not entered, links not followed."""
        for folder, folders, names in os.walk(self._vault.root):
            folders[:] = [name for name in folders if not name.startswith(".")]
            yield from (Path(folder, name) for name in names if is_temp(name))

    def _is_over(self, path: Path, now: datetime) -> bool:
        """Return True if a file is no longer in use; an exchange changes its ctime, not its mtime."""
        status = self._vault.disk.stat(path)
        changed = datetime.fromtimestamp(status.st_ctime, now.tzinfo)
        before_us = pid_of_temp(path.name) != os.getpid() and changed < self._started_at
        return stat.S_ISREG(status.st_mode) and (before_us or changed < now - OLD_AFTER)

    def _is_ours(self, path: Path) -> bool:
        if not is_aside(path.name):
            return True
        content = self._vault.disk.read(path)
        # NULs alone: a power cut came before the content reached the disk.
        return not content.strip(b"\0") or self._is_known(content) or self._lies_beside(path, content)

    def _lies_beside(self, path: Path, content: bytes) -> bool:
        """Return True if another file of the same folder has the same content."""
        beside = [
            Path(entry.path)
            for entry in os.scandir(path.parent)
            if not is_temp(entry.name)
            and entry.is_file(follow_symlinks=False)
            and entry.stat(follow_symlinks=False).st_size == len(content)
        ]
        return any(self._vault.disk.read(other) == content for other in beside)
