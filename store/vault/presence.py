"""Check that the vault of this ledger is there: a folder that is not mounted is waited for, never made again.

A vault and its ledger are matched by an id, which is in the vault's marker and in the ledger.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable
from typing import Final

from ..model import StoreBusy
from .vault import Absence, Vault

RootIdentity = tuple[int, int]
"""Device and inode of the vault's folder: another folder at the same path has another one."""

_ACCEPT: Final = "`dreamctl check --accept` takes the folder that is there, or a new one, for the vault."


class Presence:
    """Looks for the vault with the right id. `look` may be called from any thread; it costs two stats.

    `known_id` is the id that the ledger remembers, None where it remembers none. A vault is made only for a ledger
    that `is_new`. `bound` is called with an id that the ledger shall remember from now on. `claim` locks the vault's
    folder against other daemons; False when one of them has it.
    """

    def __init__(
        self,
        vault: Vault,
        known_id: str | None,
        bound: Callable[[str], None],
        *,
        is_new: bool,
        claim: Callable[[], bool] = lambda: True,
    ) -> None:
        self._vault = vault
        self._id = known_id
        self._bound = bound
        self._is_new = is_new
        self._claim = claim
        self._lock = threading.RLock()
        self._seen: tuple[int, ...] | None = None
        vault.disk.anchor = vault.root
        vault.look = self.look

    @property
    def vault_id(self) -> str | None:
        """The id of the vault that belongs to this ledger, None while none is known."""
        return self._id

    def identity(self) -> RootIdentity | None:
        """Return which folder is at the vault's path now, None where there is none."""
        try:
            root = os.stat(self._vault.root)  # noqa: PTH116
        except OSError:
            return None
        return root.st_dev, root.st_ino

    def look(self) -> Absence | None:
        """Return why the vault cannot be used, None when it is there."""
        seen = self._stamps()
        # Called before every write: two stats, without the lock, while nothing has changed.
        if seen is not None and seen == self._seen:
            return None
        with self._lock:
            absence = self._look_closely()
            self._seen = None if absence else self._stamps()
            return absence

    def accept(self) -> None:
        """Accept the folder at the vault's path as the vault: another vault, a folder without marker, or a new folder.

        Raises StoreBusy while its marker cannot be read or written.
        """
        with self._lock:
            try:
                there = self._vault.marker_id()
                self._bind(there or (self._id if self.identity() and self._id else _new_id()))
            except OSError as error:
                absence = self._unreadable(error)
                raise StoreBusy(absence.reason, hint=absence.hint) from error
            self._seen = None

    def _stamps(self) -> tuple[int, ...] | None:
        """Return a cheap stamp of folder and marker, equal while they are those that were looked at last."""
        try:
            root = os.stat(self._vault.root)  # noqa: PTH116
            marker = os.stat(self._vault.marker)  # noqa: PTH116
        except OSError:
            return None
        return root.st_dev, root.st_ino, marker.st_ino, marker.st_mtime_ns, marker.st_size

    def _look_closely(self) -> Absence | None:
        try:
            return self._compare()
        except OSError as error:
            return self._unreadable(error)

    def _unreadable(self, error: OSError) -> Absence:
        reason = f"the marker of the vault {self._vault.root} cannot be read or written: {error.strerror}"
        return Absence(reason, "Look at the disk.")

    def _compare(self) -> Absence | None:
        if self._is_new and self._id is None:
            self._bind(self._vault.marker_id() or _new_id())
        root = self._vault.root
        if self.identity() is None:
            return Absence(f"the vault {root} is not there", f"Mount or restore it; {_ACCEPT}")
        if not self._vault.has_marker():
            return Absence(f"{root} is not marked as a vault (its `.dreamd` is gone)", f"Restore it; {_ACCEPT}")
        there = self._vault.marker_id()
        if self._id is None or there is None:  # marked by a version that gave no ids
            self._bind(there or self._id or _new_id())
        elif there != self._id:
            return Absence(f"{root} is another vault than the one that belongs to this ledger", _ACCEPT)
        if not self._claim():
            return Absence(f"another dreamd serves the vault {root}", "Stop that one, or choose another vault.")
        return None

    def _bind(self, vault_id: str) -> None:
        """Write the marker first: a crash before the ledger knows the id finds it there and takes it."""
        self._vault.mark(vault_id)
        self._id = vault_id
        self._bound(vault_id)


def _new_id() -> str:
    return secrets.token_hex(8)
