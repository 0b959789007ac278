"""A database whose disk cannot be written (full, or read-only) at the start: read meanwhile from a copy in memory.

SQLite cannot even read a database in WAL mode where it may not write beside it, so its files are copied elsewhere.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

import apsw

from ..model import StoreBusy

PROBE_BYTES: Final = 2**18
"""More than SQLite writes to open a database: its shared memory, and a page or two."""

_PASSING: Final = frozenset({errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS})
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 (a file system in memory, where there is one)


def is_full(error: BaseException) -> bool:
    """Tell whether a write failed for want of room."""
    return isinstance(error, apsw.FullError) or (isinstance(error, OSError) and error.errno in _NO_ROOM)


def may_pass(error: BaseException | None) -> bool:
    """Tell whether an error of a file lies in its disk (it cannot be read, is full, or may not be written now)."""
    return isinstance(error, OSError) and error.errno in _PASSING


def can_be_written(folder: Path) -> bool:
    """Tell whether the folder's disk takes a little more, by trying; nothing is left behind."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".dreamd-", suffix=".tmp") as probe:
            probe.write(bytes(PROBE_BYTES))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError:
        return False
    return True


def copy_to_memory(path: Path) -> Path:
    """Copy a database with its write-ahead log to where it can be opened, and return the copy's path.

    It goes with this process. Raises StoreBusy where there is nothing to copy, or no room for it.
    """
    base = _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="dreamd-", dir=base))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    real = path.resolve()
    try:
        shutil.copyfile(real, folder / path.name)
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(real.with_name(real.name + "-wal"), folder / f"{path.name}-wal")
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise StoreBusy(
            f"the disk of {path} cannot be written, and {path.name} cannot be copied ({error.strerror})",
            hint="Make room, or make it writable, and start dreamd again.",
        ) from error
    return folder / path.name
