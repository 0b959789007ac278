"""A step that must be finished once it is begun, whatever ends the process: written down before, removed after it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from .disk import Disk


class Intent:
    """One small file beside the databases. Every method raises OSError as the disk does."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self._path = path
        self._disk = disk

    @property
    def is_there(self) -> bool:
        """Return True while a step is under way, or was when the process ended."""
        return self._path.exists()

    def write(self, intent: dict[str, Any]) -> None:
        """Write it down, durably."""
        self._disk.write_temp_then_rename(self._path, json.dumps(intent).encode())
        self._disk.fsync(self._path)
        self._disk.fsync_dir(self._path.parent)

    def read(self) -> dict[str, Any] | None:
        """Return what was written down, None where nothing is."""
        try:
            found = json.loads(self._disk.read(self._path))
        except FileNotFoundError:
            return None
        return found if isinstance(found, dict) else None

    def remove(self) -> None:
        """Overwrite it, and remove it durably: the step is done."""
        with self._path.open("r+b") as file:
            file.write(bytes(os.fstat(file.fileno()).st_size))
            file.flush()
            os.fsync(file.fileno())
        self._disk.unlink(self._path)
        self._disk.fsync_dir(self._path.parent)
