"""Application of a run's changes to the vault, and their undo: guarded by hashes, recorded with both images."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from .. import okf
from ..index.projection import is_session
from ..ledger import records
from ..ledger.journal import ChangeKind, FileChange, sha256
from ..ledger.ledger import Ledger
from ..ledger.ranking import record_ranking
from ..ledger.records import RecordedAction, Run, Write
from ..model import (
    Action,
    ActionKind,
    Changeset,
    Conflict,
    InvalidInput,
    Level,
    Memory,
    NodeId,
    NotFound,
    StoreBusy,
    StoreError,
    tombstone_keys,
)
from ..redaction import places_of_secrets
from ..text.words import folded_words
from ..vault.vault import Vault
from ..writer.pending import PendingFiles
from ..writer.writer import Planned, Writer
from . import standing
from .edits import edit_key
from .reverting import reverted, with_lost_turns

FORGET: Final = "forget"
REVIEW: Final = "review"
DELETED: Final = "deleted"
EDIT: Final = "edit"
"""The kinds of run that a person starts: they leave their tombstones when applied and lift them when undone."""

TURN_FORGOTTEN: Final = "turn"
"""The key in the summary of a run that hides a turn, which is no file of its own."""

JOINED: Final = "joined"
JOINED_NOTE: Final = "a second file of one session was joined to the first"
"""The kind of run that keeps the second file of a session whose turns are in its first file since."""

LEARNED_FROM: Final = "consolidate"
"""The stage whose cursors say up to which turn dreams have learned from a session."""

PURGE: Final = "purge"
"""The kind of run that says that something was purged, and nothing of what it was."""

UNDO: Final = "undo"
"""The kind of the run that records what an undo changed in files beside those of the undone run."""

FORBIDDEN: Final = "it was undone, forgotten or rejected before"
CHANGED: Final = "the file was changed in the meantime"
UNSAFE: Final = "it holds a secret, which the history may not: take that out first"
"""The reasons for a skipped action."""

_PERSONAL: Final = frozenset({FORGET, REVIEW, DELETED, EDIT})

HISTORY_DAYS: Final = 90
HISTORY_BYTES: Final = 2**30
PRUNED_EVERY: Final = 100
"""Runs between two removals of old history, whether or not a dream is ever applied."""

_SETTLE_S: Final = 120.0


class Expired(StoreError):
    """The images that an undo needs are older than the history that is kept."""


class Overtaken(Conflict):
    """Another run of dreamd changed a file since a changeset was planned; nothing of the changeset was applied."""


@dataclass(frozen=True, slots=True)
class SkippedAction:
    """An action that was not carried out, and the reason as a sentence."""

    path: str
    node_id: NodeId
    reason: str


@dataclass(frozen=True, slots=True)
class AppliedRun:
    """The outcome of a changeset: the number of applied actions, and those that were skipped.

    A fitted ranking counts as one. `undone`: the run was undone at once.
    """

    run_id: str
    applied: int
    skipped: tuple[SkippedAction, ...] = ()
    undone: bool = False


@dataclass(frozen=True, slots=True)
class Undone:
    """The outcome of an undo: the number of restored files, and those that stay as they are.

    `ranking`: the weights of the ranking are those of before. `turns`: the number of turns that are found again.
    `forbidden`: tombstones keep dreams from proposing it again.
    """

    run_id: str
    restored: int
    skipped: tuple[SkippedAction, ...] = ()
    ranking: bool = False
    turns: int = 0
    forbidden: bool = False


_run_numbers = itertools.count(secrets.randbelow(2**16))
"""Starts at random, so that two processes in the same microsecond hardly make the same id."""


def new_run_id(now: datetime, kind: str) -> str:
    """Return the id of a run: it sorts by time, and differs for two runs of the same instant."""
    return f"{now:%Y%m%d-%H%M%S-%f}-{kind}-{next(_run_numbers) % 2**16:04x}"


def fingerprint(memory: Memory) -> str:
    """Return the key under which a tombstone forbids a memory: of a fact its words, of a page its sources.

    Case, punctuation, spacing and formatting do not count; channel and level do.
    """
    if memory.level in {Level.SESSION, Level.FACT} or not memory.sources:
        words = folded_words(memory.text)
    else:
        words = [memory.kind.value, *sorted(set(memory.sources))]
    digest = hashlib.sha256("\0".join((memory.channel, *words)).encode("utf-8", "surrogatepass")).hexdigest()
    return f"{memory.level.value}:{digest[:32]}"


@dataclass(slots=True)
class _Step:
    """An action to apply: `before` is the file that it was planned against, `refusal` the reason to skip it."""

    ordinal: int
    action: Action
    before: bytes | None
    images: tuple[bytes | None, bytes | None]
    refusal: str | None


@dataclass(frozen=True, slots=True)
class _Reversal:
    """A file as found and as it shall be restored (None: no file); `refusal` is the reason to leave it."""

    path: str
    node_id: NodeId
    seen: bytes | None
    restored: bytes | None
    refusal: str = ""

    def changes(self, run_id: str, ordinal: int) -> list[FileChange]:
        """Return the change that restores the file, if it differs."""
        if self.restored == self.seen:
            return []
        left = _hash(self.seen)
        kind: ChangeKind = "delete" if self.restored is None else "create" if left is None else "replace"
        return [FileChange(kind, self.path, self.restored or b"", 0, left, run_id, ordinal)]

    def goes_with_links(self, left_by_run: str | None) -> bool:
        """Return True if a file is removed to which links were added since the run created it."""
        return self.restored is None and self.seen is not None and _hash(self.seen) != left_by_run

    def record(self, run_id: str, ordinal: int) -> Write:
        """Record it as an action of a run of its own."""
        action = Action(
            kind=ActionKind.DELETE if self.restored is None else ActionKind.REPLACE,
            path=self.path,
            node_id=self.node_id,
            stage=UNDO,
            reason="a memory that it is linked to was undone",
            pre_sha256=_hash(self.seen),
            content=self.restored,
        )
        images = records.packed(self.seen), records.packed(self.restored)
        return records.record_action(run_id, ordinal, action, images, None)


class Changes:
    """Applies and undoes runs through the writer. Call from any thread but the writer's; both wait for the files.

    `citing` returns the paths of the live memories that cite a node, `replaced_by` of those that it superseded;
    `settle` waits until acknowledged writes can be found. `on_ranking` is called when other weights are in use.
    """

    def __init__(
        self,
        vault: Vault,
        ledger: Ledger,
        writer: Writer,
        citing: Callable[[NodeId], Collection[str]],
        replaced_by: Callable[[NodeId], Collection[str]],
        settle: Callable[[float], bool] | None = None,
        on_ranking: Callable[[], None] = lambda: None,
    ) -> None:
        self._vault = vault
        self._ledger = ledger
        self._writer = writer
        self._citing = citing
        self._replaced_by = replaced_by
        self._runs_to_pruning = PRUNED_EVERY
        self._wait_until_found = settle or writer.barrier
        self._on_ranking = on_ranking

    # ---- apply

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

        An action whose file is no longer what it was planned against, or whose fingerprint has a tombstone, is left
        out and named. A crash after the transaction is finished by the next start. A run that is recorded already is
        not applied again. Unless it `may_be_overtaken`, Overtaken is raised where another run changed one of its files:
        it can be planned again.
        """
        try:
            self._ledger.run(changeset.run_id)
        except NotFound:
            wait = self._wait_for_files if kind == FORGET else self._settle
            wait()
            run = Run(changeset.run_id, kind, "applied", started_at or now, now, summary=summary or {})
            steps = self._steps(changeset, forbidden=set() if kind in _PERSONAL else self._ledger.tombstones())
            guarded = () if may_be_overtaken else changeset.actions
            self._submit(lambda files: self._plan_apply(files, run, steps, changeset, guarded)).result()
            wait()
            if changeset.ranking is not None:
                self._on_ranking()
            self._prune_now_and_then(now)
        return self._applied(changeset)

    def _steps(self, changeset: Changeset, forbidden: set[str]) -> list[_Step]:
        """Read what each action was planned against; later actions on a path see what earlier ones make of it."""
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
            if step.refusal is None and action.path not in touched and _moved_on(files, action.path, step.before):
                step.refusal = CHANGED
            if step.refusal is None and action.node_id in said_again and _puts_away(step):
                step.refusal = "it was said again in the meantime"
            if step.refusal is None:
                touched.add(action.path)
                changes.append(_change(action, run.run_id, step.ordinal))
        if not changes and changeset.ranking is None and TURN_FORGOTTEN not in run.summary:
            run = replace(run, state="nothing")
        writes = [records.record_run(run)]
        if changeset.ranking is not None:
            writes.append(record_ranking(run.run_id, changeset.ranking))
        writes += [records.record_action(run.run_id, s.ordinal, s.action, s.images, s.refusal) for s in steps]
        if changes or all(step.refusal == FORBIDDEN for step in steps):  # else what was read is to be read again
            writes += [records.move_cursor(*key, ordinal) for key, ordinal in changeset.cursors.items()]
        if run.kind in _PERSONAL:
            writes += [
                records.leave_tombstone(key, run.run_id, run.started_at, step.action.reason)
                for step in steps
                if step.refusal is None
                for key in tombstone_keys(step.action.fingerprint)
            ]
        return Planned(None, changes, writes, awaited=run.kind == FORGET)

    def _raise_if_overtaken(self, files: PendingFiles, actions: Sequence[Action]) -> None:
        """Raise Overtaken if a run has left other content than an action was planned against, on the disk or before it.

        What a person left there is no run's: it is refused when the file is written.
        """
        first_of_each = {action.path: action for action in reversed(actions)}
        for path, action in first_of_each.items():
            there = _hash(files.read(path)) if files.exists(path) else None
            if there == action.pre_sha256:
                continue
            if files.is_ahead(path) or (there is not None and self._ledger.run_that_left(path, there)):
                raise Overtaken(f"{path} was changed by dreamd itself meanwhile", hint="Try again.")

    def _applied(self, changeset: Changeset) -> AppliedRun:
        actions = self._ledger.actions(changeset.run_id)
        refused = tuple(
            SkippedAction(action.path, action.node_id, action.refusal or "a file edited by hand is there")
            for action in actions
            if action.state == "conflict"
        )
        applied = sum(action.state == "applied" for action in actions) + (changeset.ranking is not None)
        return AppliedRun(changeset.run_id, applied, refused)

    def _fitted_ranking(self, run_id: str) -> bool:
        return any(one.run_id == run_id for one in self._ledger.rankings())

    # ---- undo

    def undo(self, run_id: str, *, now: datetime) -> Undone:
        """Bring back what was there before a run, and leave tombstones so that no dream proposes it again.

        What was only linked since keeps its links. Left as they are, and named: a file that changed otherwise, and a
        node that the run made and that a living file outside the run rests on. What a node that goes had taken the
        place of holds again. A ranking that it fitted is not used any more. Raises NotFound, or Expired when the images
        are gone.
        """
        run = self._ledger.run(run_id)
        if run.expired:
            raise Expired(f"the history of run {run_id} has expired", hint=f"It is kept for {HISTORY_DAYS} days.")
        self._settle()
        chains: dict[str, list[RecordedAction]] = {}
        for action in self._ledger.actions(run_id):
            if action.state == "applied":
                chains.setdefault(action.path, []).append(action)
        reversals = {path: self._reversal(path, chain) for path, chain in chains.items()}
        refusals = self._objections(chains, reversals)
        released = self._released({path: r for path, r in reversals.items() if path not in refusals})
        self._submit(lambda files: self._plan_undo(files, run, chains, reversals, released, refusals, now)).result()
        self._settle()
        ranking = run.state == "applied" and self._fitted_ranking(run_id)
        if ranking and not chains:
            self._writer.write(records.run_undone(run_id, "undone", now)).result()
        undone = {action.ordinal for chain in chains.values() for action in chain}
        for action in self._ledger.actions(run_id):
            if action.ordinal in undone and action.state == "conflict":
                refusals.setdefault(action.path, CHANGED)
        restored = [path for path in chains if path not in refusals]
        self._vault.remove_empty_folders(restored)
        refused = tuple(SkippedAction(path, chains[path][-1].node_id, why) for path, why in refusals.items())
        if refused and (restored or ranking):
            self._writer.write(records.run_undone(run_id, "partly_undone", now)).result()
        if ranking:
            self._on_ranking()
        forbidden = bool(restored) and run.kind not in _PERSONAL
        return Undone(run_id, len(restored), refused, ranking, forbidden=forbidden)

    def _reversal(self, path: str, chain: Sequence[RecordedAction]) -> _Reversal:
        """Plan the reversal of one path that a run changed, from its own file alone."""
        seen, before = self._vault.read_if_any(path), chain[0].pre_image
        lost_turns = is_session(path) and chain[-1].post_sha256 is not None
        if lost_turns and seen is not None and before is not None:
            return _Reversal(path, chain[0].node_id, seen, with_lost_turns(before, seen))
        if _hash(seen) == chain[-1].post_sha256:
            return _Reversal(path, chain[0].node_id, seen, before)
        try:
            restored = reverted(before, chain[-1].post_image, seen)
        except Conflict as error:
            later = self._ledger.run_that_left(path, _hash(seen) or "")
            why = f"{error}: `dreamctl undo {later}` reverts the later change" if later else str(error)
            return _Reversal(path, chain[0].node_id, seen, seen, why)
        return _Reversal(path, chain[0].node_id, seen, restored)

    def _objections(
        self, chains: Mapping[str, Sequence[RecordedAction]], reversals: Mapping[str, _Reversal]
    ) -> dict[str, str]:
        """Return the reason for each path that cannot be restored; a path that such a file cites cannot be either."""
        refusals = {path: reversal.refusal for path, reversal in reversals.items() if reversal.refusal}
        created = {path: chain[0].node_id for path, chain in chains.items() if chain[0].pre_sha256 is None}
        citing = {path: set(self._citing(node_id)) - {path} for path, node_id in created.items()}
        while True:
            living = {path: sorted(citing[path] - (chains.keys() - refusals.keys())) for path in created}
            more = {path: f"{files[0]} rests on it" for path, files in living.items() if files and path not in refusals}
            if not more:
                return refusals
            refusals.update(more)

    def _released(self, reversals: Mapping[str, _Reversal]) -> list[_Reversal]:
        """Plan the revival of memories outside the run that a node which is removed had superseded."""
        released = []
        for goes in [reversal.node_id for reversal in reversals.values() if reversal.restored is None]:
            for path in sorted(set(self._replaced_by(goes)) - reversals.keys()):
                seen = self._vault.read_if_any(path)
                meta = okf.parse(seen or b"").meta
                if seen is not None and meta.get("superseded_by") == goes:
                    with contextlib.suppress(InvalidInput):  # a file that cannot be edited stays; nothing hides it
                        restored = standing.released(seen, None)
                        if not places_of_secrets(restored):
                            released.append(_Reversal(path, str(meta.get("node_id")), seen, restored))
        return released

    def _plan_undo(
        self,
        files: PendingFiles,
        run: Run,
        chains: Mapping[str, Sequence[RecordedAction]],
        reversals: Mapping[str, _Reversal],
        released: Sequence[_Reversal],
        refusals: dict[str, str],
        now: datetime,
    ) -> Planned[None]:
        changes: list[FileChange] = []
        writes: list[Write] = []
        for path, chain in reversed(list(chains.items())):
            if path not in refusals and _moved_on(files, path, reversals[path].seen):
                refusals[path] = CHANGED
            if path in refusals:
                continue
            changes += reversals[path].changes(run.run_id, chain[-1].ordinal)
            for action in chain:
                writes.append(records.action_undone(run.run_id, action.ordinal))
                if run.kind not in _PERSONAL and (key := edit_key(path, action.pre_image, action.post_image)):
                    writes.append(records.leave_tombstone(key, run.run_id, now, "undone"))
                for key in tombstone_keys(action.fingerprint):
                    is_personal = run.kind in _PERSONAL
                    leave = records.leave_tombstone(key, run.run_id, now, "undone")
                    writes.append(records.lift_tombstone(key) if is_personal else leave)
        if writes:
            writes.append(records.run_undone(run.run_id, "partly_undone" if refusals else "undone", now))
        released = [other for other in released if writes and not _moved_on(files, other.path, other.seen)]
        linked = [
            reversals[path]
            for path, chain in chains.items()
            if path not in refusals and reversals[path].goes_with_links(chain[-1].post_sha256)
        ]
        if released or linked:  # what the run itself did not know of is a run of its own
            also = Run(new_run_id(now, UNDO), UNDO, "applied", now, now, summary={"note": f"undid {run.run_id}"})
            writes.append(records.record_run(also))
            writes += [each.record(also.run_id, ordinal) for ordinal, each in enumerate((*released, *linked))]
            changes += [change for n, each in enumerate(released) for change in each.changes(also.run_id, n)]
        return Planned(None, changes, writes)

    # ---- history

    def prune(self, now: datetime) -> int:
        """Remove images older than 90 days or beyond 1 GiB, oldest first; return how many runs that expires."""
        cutoff = now - timedelta(days=HISTORY_DAYS)
        expired, held_bytes = [], 0
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

    # ---- the writer

    def _submit(self, plan: Callable[[PendingFiles], Planned[None]]) -> Future[None]:
        return self._writer.submit(plan)

    def _settle(self) -> None:
        self._raise_unless(written=self._wait_until_found(_SETTLE_S))

    def _wait_for_files(self) -> None:
        """Wait for the files, but not for the index: what is deleted is told no more once it is acknowledged."""
        self._raise_unless(written=self._writer.barrier(_SETTLE_S))

    def _raise_unless(self, *, written: bool) -> None:
        if not written:
            raise self._writer.trouble or StoreBusy("the vault is still being written", hint="Try again in a minute.")


def _objection(action: Action, before: bytes | None, forbidden: Collection[str]) -> str | None:
    keys = {*tombstone_keys(action.fingerprint), edit_key(action.path, before, action.content)} if forbidden else set()
    if not keys.isdisjoint(forbidden):
        return FORBIDDEN
    if action.content is not None and places_of_secrets(action.content):
        return UNSAFE
    if _hash(before) != action.pre_sha256:
        return "there is a file already" if action.pre_sha256 is None else CHANGED
    return None


def _puts_away(step: _Step) -> bool:
    """Return True if an action deletes, archives or supersedes a memory that held."""
    if step.before is None or step.action.content is None:
        return step.before is not None
    return standing.is_over(okf.parse(step.action.content).meta) and not standing.is_over(okf.parse(step.before).meta)


def _moved_on(files: PendingFiles, path: str, seen: bytes | None) -> bool:
    """Return True if an acknowledged write that is not in the file yet changes what was seen."""
    if not files.is_ahead(path):
        return False
    return files.exists(path) != (seen is not None) or (seen is not None and files.read(path) != seen)


def _change(action: Action, run_id: str, ordinal: int) -> FileChange:
    if action.kind is ActionKind.DELETE or action.content is None:
        return FileChange("delete", action.path, b"", 0, action.pre_sha256, run_id, ordinal)
    kind: ChangeKind = "create" if action.pre_sha256 is None else "replace"
    return FileChange(kind, action.path, action.content, 0, action.pre_sha256, run_id, ordinal)


def _hash(data: bytes | None) -> str | None:
    return None if data is None else sha256(data)
