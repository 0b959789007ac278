"""Runs: recorded changes that can be undone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from .. import okf
from ..core import Core
from ..door import outgoing
from ..index.projection import is_session
from ..index.repairs import refuse_without_history, repeated_after_repair
from ..index.tombstones import TURN
from ..ledger import records
from ..ledger.records import RecordedAction, Run
from ..model import SKILL, Changeset, InvalidInput, NodeId, StoreBusy
from ..results import RunChange
from ..text.sentences import GAP
from .apply import WRITTEN_WITHIN_S, Changes
from .migration import LayoutMigration
from .run_kinds import FILE_SHA256, FORGET, FORKED, MIGRATE, PURGE, REVIEW, TURN_FORGOTTEN, UNDID, AppliedRun, Undone
from .undo import Reverting

MOST_OF_A_PERSON = 50
"""Changes of a run that one person made: more are a dream's, an import's or a migration's."""

CHANGE_CHARS = 2000
"""Characters of a text before and after a change, around the first difference."""


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
        self.migration = LayoutMigration(core)
        lookup = core.lookup
        self.changes = Changes(*files, core.settle, lookup.paths_citing)
        is_noted = core.settings.history != "off"
        self.reverting = Reverting(
            *files, lookup.paths_citing, lookup.paths_replaced_by, core.settle, is_noted=is_noted
        )

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

    def undo(self, run_id: str, items: Collection[NodeId] = ()) -> Undone:
        """Restore the files as they were before a run, or those of some of its memories.

        The undo of an undo is a redo. Raises NotFound, Expired when its history is gone, and StoreError while that
        waits to be salvaged.
        """
        run = self._to_revert(run_id)
        if run.kind == MIGRATE:
            if items:
                raise InvalidInput("a move is taken back whole", hint=f"`dreamctl undo {run_id}` does that.")
            return self.migration.undo(run)
        if undid := run.summary.get(UNDID):
            return self.redo(str(undid), items or {action.node_id for action in self._ledger.actions(run_id)})
        undone = self.reverting.undo(run_id, now=self._now(), items=items)
        self._tombstones.read()
        # A run that forgot a turn changed no file: its tombstone hides the turn, and is lifted here.
        if run.kind == FORGET and self._tombstones.is_hidden(turn := str(run.summary.get("node_id", ""))):
            self._writer.write(
                records.lift_tombstone(f"{TURN}{turn}"), records.run_undone(run_id, "undone", self._now())
            ).result()
            self._tombstones.read_and_follow(self._core.opened, self._core.indexer, [turn]).result()
            undone = replace(undone, turns=1)
        return undone

    def redo(self, run_id: str, items: Collection[NodeId] = ()) -> Undone:
        """Change the files of an undone run again, or those of some of its memories. Raises as `undo` does."""
        run = self._to_revert(run_id)
        if run.kind == MIGRATE:
            raise InvalidInput("a move is no run to be done again", hint="`dreamctl migrate` moves the files anew.")
        if any(_is_outside(run, action) for action in self._ledger.actions(run_id)):
            raise InvalidInput(
                f"{run_id} changed a file outside of the vault", hint="Decide it anew: `dreamctl review`."
            )
        redone = self.reverting.redo(run_id, now=self._now(), items=items)
        self._tombstones.read()
        turn = str(run.summary.get(TURN_FORGOTTEN, ""))
        if turn and run.state == "undone" and not items and not self._tombstones.is_hidden(turn):
            forbid = records.leave_tombstone(f"{TURN}{turn}", run_id, self._now(), str(run.summary.get("note", "")))
            self._writer.write(forbid, records.run_redone(run_id, is_partial=bool(redone.left))).result()
            self._tombstones.read_and_follow(self._core.opened, self._core.indexer, [turn]).result()
            redone = replace(redone, turns=1)
        return redone

    def _to_revert(self, run_id: str) -> Run:
        refuse_without_history(self._core.paths.ledger)
        run = self._ledger.run(run_id)
        if run.kind == PURGE:
            raise InvalidInput("a purge cannot be undone", hint="What it removed is nowhere any more.")
        if FORKED in run.summary:
            raise InvalidInput(
                "the turns of a session that went on on two machines stay in two sessions",
                hint="In one, two turns would have one number, and what cites them would name the wrong one.",
            )
        self._core.settle(WRITTEN_WITHIN_S)  # the index reads the run's files before they change again
        return run

    def record_run(self, run: Run) -> None:
        """Record a run that changed nothing: a failed one, or one with nothing to do."""
        if run.state == "failed":  # perhaps because of a damaged index, of which it read a copy
            self.repairs.suspect_index()
        self._writer.write(records.record_run(run)).result()

    # ---- asking

    def run(self, run_id: str) -> Run:
        """Return a run. Raises NotFound."""
        return self._ledger.run(run_id)

    def changes_of(self, run_id: str, offset: int, limit: int) -> Sequence[RunChange]:
        """Return a page of the changes of a run, in their order. Raises NotFound."""
        self._ledger.run(run_id)
        return [_shown(action) for action in self._ledger.actions(run_id, offset, limit)]

    def channels_of(self, run_id: str) -> frozenset[str]:
        """Return the channels of the nodes that a run changed, or hid; none where they are too many, or unknown."""
        run = self._ledger.run(run_id)
        actions = self._ledger.actions(run_id, 0, MOST_OF_A_PERSON + 1)
        if len(actions) > MOST_OF_A_PERSON:
            return frozenset()
        images = [action.post_image or action.pre_image for action in actions]
        if not all(images):
            return frozenset()
        channels = {str(okf.parse(image or b"").meta.get("channel", "")) for image in images}
        if not actions and (node := self._core.catalog.node(str(run.summary.get("node_id", "")))) is not None:
            channels.add(node.channel)
        return frozenset(channels)

    def title_of(self, run_id: str) -> str:
        """Return the title of the first memory that a run changed, as the run left it; "" without any."""
        for action in self._ledger.actions(run_id, 0, 1):
            image = action.post_image or action.pre_image
            if image and action.path.endswith(".md") and not is_session(action.path):
                return outgoing(okf.to_memory(action.path, okf.parse(image)).title)
        return ""

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


def _shown(action: RecordedAction) -> RunChange:
    """Return a recorded action with its texts as they may be shown."""
    is_memory = not is_session(action.path) and action.path.endswith(".md")
    before, after = (
        okf.to_memory(action.path, okf.parse(image)) if image and is_memory else None
        for image in (action.pre_image, action.post_image)
    )
    memory = after or before
    was, left = _around_difference(*(outgoing(one.text) if one else "" for one in (before, after)))
    return RunChange(
        node_id=action.node_id,
        kind=action.kind,
        stage=action.stage,
        path=action.path,
        title=outgoing(memory.title) if memory else "",
        before=was,
        after=left,
        reason=outgoing(action.reason),
        state=action.state,
    )


def _around_difference(before: str, after: str) -> tuple[str, str]:
    """Return the two texts from a line before that in which they begin to differ, CHANGE_CHARS of each at most."""
    start = 0
    if before and after and max(len(before), len(after)) > CHANGE_CHARS:
        shorter = min(len(before), len(after))
        same = next((at for at in range(shorter) if before[at] != after[at]), shorter)
        start = before.rfind("\n", 0, max(0, before.rfind("\n", 0, same))) + 1
        start = max(start, same - CHANGE_CHARS // 4)
    head = f"{GAP}\n" if start else ""
    was, left = (head + text[start:][:CHANGE_CHARS] if text else "" for text in (before, after))
    return was, left


def _is_outside(run: Run, action: RecordedAction) -> bool:
    """Return True for an action behind which a file outside of the vault was changed, which a redo does not change."""
    was, left = (okf.parse(image or b"").meta for image in (action.pre_image, action.post_image))
    return was.get(SKILL) != left.get(SKILL) or (run.kind == REVIEW and was.get(FILE_SHA256) != left.get(FILE_SHA256))
