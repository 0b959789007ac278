"""The end of the process that started this one, as a descriptor that becomes readable.

The whole process is meant. PR_SET_PDEATHSIG fires when the thread that forked ends, and agents fork from threads of a
pool.
"""

from __future__ import annotations

import os
import select
import sys

POLL_S = 1.0
"""The pause between two looks, where a kernel tells nothing."""


class Parent:
    """The parent as it is now. `descriptor` is None where its end is seen by polling alone."""

    def __init__(self) -> None:
        self._pid = os.getppid()
        self.descriptor: int | None = None
        try:
            self.descriptor = self._watch()
        except OSError:  # an old kernel, a sandbox that forbids it, or it is gone: `is_gone` knows
            return

    def is_gone(self) -> bool:
        """Say whether it has ended: its children have another parent then."""
        return os.getppid() != self._pid

    def _watch(self) -> int:
        if sys.platform == "linux":
            return os.pidfd_open(self._pid)
        self._queue = select.kqueue()
        ended = select.kevent(self._pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD, select.KQ_NOTE_EXIT)
        self._queue.control([ended], 0)
        return self._queue.fileno()
