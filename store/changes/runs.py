"""Runs: recorded changes that can be undone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ..core import Core
from ..index.repairs import refuse_without_history, repeated_after_repair
from ..index.tombstones import TURN
from ..ledger import records
from ..ledger.records import Run
from ..model import Changeset, InvalidInput, StoreBusy
from .apply import WRITTEN_WITHIN_S, Changes
from .run_kinds import FORGET, PURGE, AppliedRun, Undone
from .undo import Reverting


class Runs:
    """Applies, undoes and lists runs. Every method may be called from any thread."""

    def __init__(self, core: Core) -> None:
        self.repairs = core.repairs
        self._core = core
        self._ledger = core.ledger
        self._writer = core.writer
        self._tombstones = core.tombstones
        self._now = core.now
        files = core.vault, core.ledger, core.writer
        self.changes = Changes(*files, core.settle)
        lookup = core.lookup
        self.reverting = Reverting(*files, lookup.paths_citing, lookup.paths_replaced_by, core.settle)

    # ---- changing

    def apply(
        self,
        changeset: Changeset,
        *,
        kind: str = "daily",
        started_at: datetime | None = None,
        summary: Mapping[str, Any] | None = None,
    ) -> AppliedRun:
        """Apply a changeset: journaled whole, then file by file, each guarded by the hash of the old content."""
        return self.changes.apply(changeset, kind=kind, now=self._now(), started_at=started_at, summary=summary)

    def undo(self, run_id: str) -> Undone:
        """Restore the files as they were before a run.

        Raises NotFound, Expired when its history is gone, and StoreError while that waits to be salvaged.
        """
        refuse_without_history(self._core.paths.ledger)
        run = self._ledger.run(run_id)
        if run.kind == PURGE:
            raise InvalidInput("a purge cannot be undone", hint="What it removed is nowhere any more.")
        self._core.settle(WRITTEN_WITHIN_S)  # the index reads the run's files before they change again
        undone = self.reverting.undo(run_id, now=self._now())
        self._tombstones.read()
        # A run that forgot a turn changed no file: its tombstone hides the turn, and is lifted here.
        if run.kind == FORGET and self._tombstones.is_hidden(turn := str(run.summary.get("node_id", ""))):
            self._writer.write(
                records.lift_tombstone(f"{TURN}{turn}"), records.run_undone(run_id, "undone", self._now())
            ).result()
            self._tombstones.read_and_follow(self._core.opened, self._core.indexer, [turn]).result()
            undone = replace(undone, turns=1)
        return undone

    def record_run(self, run: Run) -> None:
        """Record a run that changed nothing: a failed one, or one with nothing to do."""
        if run.state == "failed":  # perhaps because of a damaged index, of which it read a copy
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
    def refuse_to_dream(self) -> None:
        """Raise StoreError while vault, index or history are incomplete: a dream could not know what there is."""
        self._core.vault.raise_if_away()
        refuse_without_history(self._core.paths.ledger)
        if self._core.is_purging:
            raise StoreBusy("a purge is under way", hint="A dream begins when it is done.")
        if note := self._core.opened.note:
            raise StoreBusy(note, hint="Try again in a moment.")
