"""Runs: recorded changes that can be undone, and the questions about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from ..changes.runs import FORGET, LEARNED_FROM, PURGE, AppliedRun, Changes, Undone
from ..index.indexer import Indexer
from ..index.opening import OpenIndex
from ..ledger import records
from ..ledger.ledger import Ledger
from ..ledger.records import LINK, Run
from ..model import Changeset, InvalidInput, StoreBusy
from ..vault.vault import Vault
from ..writer.writer import Writer
from .damage import Repairs, refuse_without_history, repeated_after_repair
from .switches import Switches
from .tombstones import TURN, Tombstones
from .visibility import Visibility

WRITTEN_WITHIN_S = 120.0
"""The longest wait of an undo for what was acknowledged before it."""


class Runs:
    """Applies, undoes and lists runs. Every method may be called from any thread."""

    def __init__(
        self,
        changes: Changes,
        ledger: Ledger,
        ledger_path: Path,
        writer: Writer,
        vault: Vault,
        opened: OpenIndex,
        indexer: Indexer,
        tombstones: Tombstones,
        switches: Switches,
        visibility: Visibility,
        repairs: Repairs,
        now: Callable[[], datetime],
        is_purging: Callable[[], bool],
    ) -> None:
        self.repairs = repairs
        self._is_purging = is_purging
        self._changes = changes
        self._ledger = ledger
        self._ledger_path = ledger_path
        self._writer = writer
        self._vault = vault
        self._opened = opened
        self._indexer = indexer
        self._tombstones = tombstones
        self._switches = switches
        self._visibility = visibility
        self._now = now

    # ---- changing

    def apply(
        self,
        changeset: Changeset,
        *,
        kind: str = "daily",
        started_at: datetime | None = None,
        summary: Mapping[str, Any] | None = None,
    ) -> AppliedRun:
        """Make a changeset real: journaled whole, then file by file, each guarded by the hash of what it replaces."""
        return self._changes.apply(changeset, kind=kind, now=self._now(), started_at=started_at, summary=summary)

    def link(self, changeset: Changeset, note: str) -> None:
        """Apply the links of a memory that was just remembered."""
        self._visibility.settle()
        self.apply(changeset, kind=LINK, summary={"note": note})

    def undo(self, run_id: str) -> Undone:
        """Bring back what was there before a run.

        Raises NotFound, Expired when its history is gone, and StoreError while that waits to be salvaged.
        """
        refuse_without_history(self._ledger_path)
        run = self._ledger.run(run_id)
        if run.kind == PURGE:
            raise InvalidInput("a purge cannot be undone", hint="What it removed is nowhere any more.")
        self._visibility.settle(WRITTEN_WITHIN_S)  # what it brought back is read before it is undone, not after
        undone = self._changes.undo(run_id, now=self._now())
        self._tombstones.read()
        # The run that forgot a turn changed no file: its tombstone hides the turn, and is what there is to undo.
        if run.kind == FORGET and self._tombstones.is_hidden(turn := str(run.summary.get("node_id", ""))):
            self._writer.write(
                records.lift_tombstone(f"{TURN}{turn}"), records.run_undone(run_id, "undone", self._now())
            ).result()
            self._tombstones.read_and_follow(self._opened, self._indexer, [turn]).result()
            undone = replace(undone, turns=1)
        return undone

    def record_run(self, run: Run) -> None:
        """Write down a run that changed nothing: a failed one, or one with nothing to do."""
        if run.state == "failed":  # it read a copy of the index
            self.repairs.suspect_index()
        self._writer.write(records.record_run(run)).result()

    # ---- asking

    def run(self, run_id: str) -> Run:
        """Return a run. Raises NotFound."""
        return self._ledger.run(run_id)

    @repeated_after_repair
    def runs(
        self, limit: int = 20, *, kinds: Sequence[str] = (), states: Sequence[str] = (), hidden: Sequence[str] = ()
    ) -> Sequence[Run]:
        """Return the latest runs, newest first: `limit` of each of these kinds, or in all of every kind not `hidden`.

        With `states` only those that ended so; only for `kinds`.
        """
        return self._ledger.runs(limit, kinds=kinds, states=states, hidden=hidden)

    def runs_since(self, moment: datetime, kinds: Sequence[str]) -> Sequence[Run]:
        """Return every run of these kinds that began after a moment, newest first."""
        return self._ledger.runs_since(moment, kinds)

    @repeated_after_repair
    def waiting_turns(self) -> int:
        """Count the turns that no dream has read yet, in channels in which learning is on. Reads every turn's row."""
        read = self._ledger.cursors(LEARNED_FROM)
        ends = self._opened.catalog.sessions_outside(self._switches.channels_off)
        return sum(max(0, last - read.get(session_id, 0)) for session_id, last in ends.items())

    def refuse_to_dream(self) -> None:
        """Raise StoreError while a dream would not know what there is, or what was done and undone before it."""
        self._vault.raise_if_away()
        refuse_without_history(self._ledger_path)
        if self._is_purging():
            raise StoreBusy("a purge is under way", hint="A dream begins when it is done.")
        if note := self._opened.note:
            raise StoreBusy(note, hint="Try again in a moment.")
