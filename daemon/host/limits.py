"""The limit of open files."""

from __future__ import annotations

import contextlib
import resource

WANTED_FILES = 4096
"""Each client has one descriptor, each thread that answers a handful for SQLite, a dream some dozens."""


def raise_file_limit(wanted: int = WANTED_FILES) -> int:
    """Raise the soft limit of open files as far as is wanted and allowed; return what it is then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    goal = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < goal:
        with contextlib.suppress(ValueError, OSError):  # macOS allows less than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (goal, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
