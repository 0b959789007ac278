"""Application of a run's changes to the vault: guarded by hashes, recorded with both images of each file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from .. import okf
from ..index.tombstones import edit_key
from ..ledger import records
from ..ledger.journal import ChangeKind, FileChange, sha256
from ..ledger.ledger import Ledger
from ..ledger.records import Run
from ..model import Action, ActionKind, Changeset, NodeId, NotFound, StoreBusy, tombstone_keys
from ..redaction import places_of_secrets
from ..vault.vault import Vault
from ..writer.pending import PendingFiles
from ..writer.writer import Planned, Writer
from .edits import BY_PAGE, facts_changed, following
from .links import is_over
from .run_kinds import (
    CHANGED,
    FOLLOWED,
    FORBIDDEN,
    FORGET,
    HISTORY_DAYS,
    PERSONAL,
    SYNC,
    TURN_FORGOTTEN,
    UNSAFE,
    AppliedRun,
    Overtaken,
    SkippedAction,
)

# Images beyond this go, oldest first.
HISTORY_BYTES: Final = 2**30

# Runs between two removals of old history: it is bounded although no dream is ever applied.
PRUNED_EVERY: Final = 100

# The longest wait for files that were acknowledged before, and for those of the run.
WRITTEN_WITHIN_S: Final = 120.0


@dataclass(slots=True)
class _Step:
    """An action to apply: `before` is the file that it was planned against, `refusal` the reason to skip it."""

    ordinal: int
    action: Action
    before: bytes | None
    images: tuple[bytes | None, bytes | None]
    refusal: str | None


class Changes:
    """Applies changesets through the writer, and removes old history. Call from any thread but the writer's.

    `settle` waits until acknowledged writes can be found, by default only until their files are written; `citing`
    returns the paths of the live memories that cite a node.
    """

    def __init__(
        self,
        vault: Vault,
        ledger: Ledger,
        writer: Writer,
        settle: Callable[[float], bool] | None = None,
        citing: Callable[[NodeId], Collection[str]] = lambda node_id: (),
    ) -> None:
        self._vault = vault
        self._ledger = ledger
        self._writer = writer
        self._runs_to_pruning = PRUNED_EVERY
        self._wait_until_found = settle or writer.barrier
        self._citing = citing

    def apply(
        self,
        changeset: Changeset,
        *,
        kind: str,
        now: datetime,
        started_at: datetime | None = None,
        summary: Mapping[str, Any] | None = None,
        may_be_overtaken: bool = True,
    ) -> AppliedRun:
        """Journal the whole changeset in one transaction, then let the files follow.

        An action is skipped, and named, if its file changed since it was planned, or its fingerprint has a tombstone.
        After a crash that follows the transaction, the next start places the files. A run that is recorded already is
        not applied again. Unless it `may_be_overtaken`, raises Overtaken if another run changed one of its files: then
        it can be planned again.
        """
        try:
            self._ledger.run(changeset.run_id)
        except NotFound:
            # Files in the journal are placed first, so that the hashes below are of the newest content.
            wait = self._wait_for_files if kind == FORGET else self._settle
            wait()
            run = Run(changeset.run_id, kind, "applied", started_at or now, now, summary=summary or {})
            if kind in FOLLOWED:
                changeset = replace(changeset, actions=(*changeset.actions, *self._followers(changeset.actions)))
            steps = self._steps(changeset, forbidden=set() if kind in {*PERSONAL, SYNC} else self._ledger.tombstones())
            guarded = () if may_be_overtaken else changeset.actions
            self._writer.submit(lambda files: self._plan_apply(files, run, steps, changeset, guarded)).result()
            wait()
            self._prune_now_and_then(now)
        return self._applied(changeset)

    def _followers(self, actions: Sequence[Action]) -> Iterator[Action]:
        """Yield the changes of dreams' pages that follow these actions: no dream need come first."""
        files = [(self._vault.read_if_any(one.path), one.content) for one in actions]
        changed = facts_changed(iter(files))
        paths = {path for node_id in changed for path in self._citing(node_id)} - {one.path for one in actions}
        for path in sorted(paths):
            before = self._vault.read_if_any(path)
            after = following(before, changed) if before is not None else None
            if before is not None and after is not None and not places_of_secrets(after):
                node_id = okf.to_memory(path, okf.parse(before)).node_id
                yield Action.replacing(path, node_id, before, after, stage=BY_PAGE, reason="a fact of it was changed")

    def _steps(self, changeset: Changeset, forbidden: set[str]) -> list[_Step]:
        """Read the file of each action, as earlier actions of the changeset leave it, and pack both images."""
        # Packing takes time, so it is done here, before the plan runs in the writer's thread.
        now_at: dict[str, bytes | None] = {}
        steps = []
        for ordinal, action in enumerate(changeset.actions):
            before = now_at[action.path] if action.path in now_at else self._vault.read_if_any(action.path)
            images = records.packed(before), records.packed(action.content)
            step = _Step(ordinal, action, before, images, _objection(action, before, forbidden))
            now_at[action.path] = before if step.refusal else action.content
            steps.append(step)
        return steps

    def _plan_apply(
        self,
        files: PendingFiles,
        run: Run,
        steps: Sequence[_Step],
        changeset: Changeset,
        guarded: Sequence[Action] = (),
    ) -> Planned[None]:
        self._raise_if_overtaken(files, guarded)
        changes: list[FileChange] = []
        touched: set[str] = set()
        said_again = self._ledger.reinforced_since(run.started_at)
        for step in steps:
            action = step.action
            # `before` was read outside the writer's thread: an acknowledged write may have come in between.
            if step.refusal is None and action.path not in touched and moved_on(files, action.path, step.before):
                step.refusal = CHANGED
            if step.refusal is None and action.node_id in said_again and _ends_memory(step):
                step.refusal = "it was said again in the meantime"
            if step.refusal is None:
                touched.add(action.path)
                changes.append(_change(action, run.run_id, step.ordinal))
        if not changes and TURN_FORGOTTEN not in run.summary:
            run = replace(run, state="nothing")
        writes = [records.record_run(run)]
        writes += [records.record_action(run.run_id, s.ordinal, s.action, s.images, s.refusal) for s in steps]
        if changes or all(
            step.refusal == FORBIDDEN for step in steps
        ):  # else the same turns are read again by the next dream
            writes += [records.move_cursor(*key, ordinal) for key, ordinal in changeset.cursors.items()]
        if run.kind in PERSONAL:
            writes += [
                records.leave_tombstone(key, run.run_id, run.started_at, step.action.reason)
                for step in steps
                if step.refusal is None
                for key in tombstone_keys(step.action.fingerprint)
            ]
        return Planned(None, changes, writes, awaited=run.kind == FORGET)

    def _raise_if_overtaken(self, files: PendingFiles, actions: Sequence[Action]) -> None:
        """Raise Overtaken if a run changed a file since an action was planned, on the disk or still in the journal.

        A person's edit is no run: the action is refused when the file is written.
        """
        # Only the first action on a path was planned against the file itself; later ones follow from it.
        first_of_each = {action.path: action for action in reversed(actions)}
        for path, action in first_of_each.items():
            there = hash_of(files.read(path)) if files.exists(path) else None
            if there == action.pre_sha256:
                continue
            if files.is_ahead(path) or (there is not None and self._ledger.run_that_left(path, there)):
                raise Overtaken(f"{path} was changed by dreamd itself meanwhile", hint="Try again.")

    def _applied(self, changeset: Changeset) -> AppliedRun:
        actions = self._ledger.actions(changeset.run_id)
        refused = tuple(
            SkippedAction(action.path, action.node_id, action.refusal or "a file edited by hand is there")
            for action in actions
            if action.state == "conflict" and action.stage != BY_PAGE  # a person's page, or one that a dream rewrote
        )
        applied = sum(action.state == "applied" for action in actions)
        return AppliedRun(changeset.run_id, applied, refused)

    # ---- history

    def prune(self, now: datetime) -> int:
        """Remove images older than 90 days or beyond 1 GiB, oldest first; return how many runs that expires."""
        cutoff = now - timedelta(days=HISTORY_DAYS)
        expired, held_bytes = [], 0
        # Newest first: a run expires once the images of it and all newer runs exceed the bound.
        for run_id, started_at, size_bytes in self._ledger.image_sizes():
            held_bytes += size_bytes
            if started_at < cutoff or held_bytes > HISTORY_BYTES:
                expired.append(run_id)
        self._writer.write(*records.expire(expired), *records.forget_before(cutoff, now)).result()
        return len(expired)

    def _prune_now_and_then(self, now: datetime) -> None:
        self._runs_to_pruning -= 1
        if self._runs_to_pruning <= 0:
            self._runs_to_pruning = PRUNED_EVERY
            self.prune(now)

    # ---- waiting

    def _settle(self) -> None:
        raise_unless_written(self._writer, written=self._wait_until_found(WRITTEN_WITHIN_S))

    def _wait_for_files(self) -> None:
        """Wait for the files, but not for the index: a deleted file is in no answer once that is acknowledged."""
        raise_unless_written(self._writer, written=self._writer.barrier(WRITTEN_WITHIN_S))


def raise_unless_written(writer: Writer, *, written: bool) -> None:
    """Raise the reason why files are not written yet."""
    if not written:
        raise writer.trouble or StoreBusy("the vault is still being written", hint="Try again in a minute.")


def _objection(action: Action, before: bytes | None, forbidden: Collection[str]) -> str | None:
    keys = {*tombstone_keys(action.fingerprint), edit_key(action.path, before, action.content)} if forbidden else set()
    if not keys.isdisjoint(forbidden):
        return FORBIDDEN
    if action.content is not None and places_of_secrets(action.content):
        return UNSAFE
    if hash_of(before) != action.pre_sha256:
        return "there is a file already" if action.pre_sha256 is None else CHANGED
    return None


def _ends_memory(step: _Step) -> bool:
    """Return True if an action deletes, archives or supersedes a live memory."""
    if step.before is None or step.action.content is None:
        return step.before is not None
    return is_over(okf.parse(step.action.content).meta) and not is_over(okf.parse(step.before).meta)


def moved_on(files: PendingFiles, path: str, seen: bytes | None) -> bool:
    """Return True if an acknowledged write, not in its file yet, makes it other than it was seen."""
    if not files.is_ahead(path):
        return False
    return files.exists(path) != (seen is not None) or (seen is not None and files.read(path) != seen)


def _change(action: Action, run_id: str, ordinal: int) -> FileChange:
    if action.kind is ActionKind.DELETE or action.content is None:
        return FileChange("delete", action.path, b"", 0, action.pre_sha256, run_id, ordinal)
    kind: ChangeKind = "create" if action.pre_sha256 is None else "replace"
    return FileChange(kind, action.path, action.content, 0, action.pre_sha256, run_id, ordinal)


def hash_of(data: bytes | None) -> str | None:
    """Return the SHA-256 of a file's content, None for no file."""
    return None if data is None else sha256(data)
