"""Idempotent writes: one with a known key changes nothing, and is answered as the first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Generic, TypeVar

from ..ledger.ledger import Ledger
from ..ledger.records import hashed, keep_answer
from ..writer.pending import PendingFiles
from ..writer.writer import Plan, Planned

T = TypeVar("T")


class Once(Generic[T]):
    """A plan that is carried out once for each key. Runs in the writer's thread.

    Two of one key in one transaction are both carried out: neither was acknowledged before. The plan sets
    `was_repeated`.
    """

    def __init__(
        self,
        plan: Plan[T],
        ledger: Ledger,
        method: str,
        key: str,
        now: datetime,
        *,
        write: Callable[[T], str],
        read: Callable[[str], T],
    ) -> None:
        self.was_repeated = False
        self._plan = plan
        self._ledger = ledger
        self._key = hashed(method, key)
        self._now = now
        self._write = write
        self._read = read

    def __call__(self, files: PendingFiles) -> Planned[T]:
        """Answer as before, or plan and keep the answer beside the changes."""
        if (known := self._ledger.answered(self._key)) is not None:
            self.was_repeated = True
            return Planned(self._read(known))
        planned = self._plan(files)
        kept = keep_answer(self._key, self._write(planned.result), self._now)
        return replace(planned, writes=(*planned.writes, *kept))
