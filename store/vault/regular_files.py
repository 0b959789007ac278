"""Files that others may have put there, opened with care: regular ones alone, and never through a link."""

from __future__ import annotations

import os
import stat
from errno import EINVAL
from pathlib import Path
from typing import BinaryIO


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
