"""Files of other programs that are followed: which, and how far each was read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from ..ledger import records
from ..ledger.ledger import Ledger
from ..model import ReadUpTo
from ..writer.writer import Writer

WATCH, NAMED = "watch:", "named:"
_KEY_DIGITS = 32
ACKNOWLEDGED_WITHIN_S = 10.0
"""An agent's hook waits for it."""


class Followed:
    """The list of what is followed is a promise to a person, and is carried over from a damaged ledger as flags are.

    How far a file was read is not: it is read again, and its turns are known. Every method may be called from any
    thread.
    """

    def __init__(self, ledger: Ledger, writer: Writer) -> None:
        self._ledger = ledger
        self._writer = writer

    def watches(self) -> Mapping[str, str]:
        """Return what is followed: places, and what was noted with each."""
        return {name.removeprefix(WATCH): value for name, value in self._ledger.flags(WATCH).items()}

    def watch(self, place: str, note: str) -> None:
        """Follow a place from now on, or note something else with it; wait until that is acknowledged."""
        self._writer.write(records.set_flag(WATCH + place, note)).result()

    def unwatch(self, place: str) -> None:
        """Follow a place no more; wait until that is acknowledged."""
        self._writer.write(records.clear_flag(WATCH + place)).result()

    def named(self) -> Mapping[str, str]:
        """Return the files that were named, and what was noted with each."""
        return {name.removeprefix(NAMED): value for name, value in self._ledger.flags(NAMED).items()}

    def name(self, path: str, note: str) -> None:
        """Note a file that another program named; wait until that is acknowledged."""
        self._writer.write(records.set_flag(NAMED + path, note)).result(ACKNOWLEDGED_WITHIN_S)

    def unname(self, path: str) -> None:
        """Forget that a file was named, within about a second."""
        self._writer.later(records.clear_flag(NAMED + path))

    def read_up_to(self, path: str) -> ReadUpTo | None:
        """Return how far a file was read."""
        found = self._ledger.followed(_key(path))
        return None if found is None else ReadUpTo(*found)

    def move(self, path: str, read: ReadUpTo) -> None:
        """Keep how far a file was read, within about a second; a crash before that has it read again."""
        self._writer.later(records.follow(_key(path), read.size_bytes, read.lines, read.mark))


def _key(path: str) -> str:
    return hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:_KEY_DIGITS]
