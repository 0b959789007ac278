"""Undo of a run: its files as they were before it, with the links that were added since.

Links are made by dreamd itself: a later run that links a memory must not keep an earlier run from being undone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from .. import okf
from ..index.projection import is_session
from ..index.tombstones import edit_key
from ..ledger import records
from ..ledger.journal import ChangeKind, FileChange
from ..ledger.ledger import Ledger
from ..ledger.records import RecordedAction, Run, Write
from ..model import Action, ActionKind, Conflict, InvalidInput, NodeId, tombstone_keys
from ..okf import session
from ..redaction import places_of_secrets
from ..vault.vault import Vault
from ..writer.pending import PendingFiles
from ..writer.writer import Planned, Writer
from .apply import WRITTEN_WITHIN_S, hash_of, moved_on, raise_unless_written
from .links import released
from .run_kinds import CHANGED, HISTORY_DAYS, PERSONAL, UNDO, Expired, SkippedAction, Undone, new_run_id

# Keys whose entries are reverted one by one.
LISTS: Final = frozenset({"supersedes", "contradicts", "later", "reinforced", "proposals"})

# The keys by which memories are linked, or one is revived.
LINKS: Final = LISTS | {"superseded_by", "valid_from", "valid_to"}


@dataclass(frozen=True, slots=True)
class _Reversal:
    """A file as it is and as it is to be (None: no file); `refusal` is the reason to leave it as it is."""

    path: str
    node_id: NodeId
    seen: bytes | None
    restored: bytes | None
    refusal: str = ""

    def changes(self, run_id: str, ordinal: int) -> list[FileChange]:
        """Return the change that restores the file, if it differs."""
        if self.restored == self.seen:
            return []
        left = hash_of(self.seen)
        kind: ChangeKind = "delete" if self.restored is None else "create" if left is None else "replace"
        return [FileChange(kind, self.path, self.restored or b"", 0, left, run_id, ordinal)]

    def goes_with_links(self, left_by_run: str | None) -> bool:
        """Return True if the undo removes a file to which links were added since the run created it."""
        return self.restored is None and self.seen is not None and hash_of(self.seen) != left_by_run

    def record(self, run_id: str, ordinal: int) -> Write:
        """Return the row that records it as an action of another run."""
        action = Action(
            kind=ActionKind.DELETE if self.restored is None else ActionKind.REPLACE,
            path=self.path,
            node_id=self.node_id,
            stage=UNDO,
            reason="a memory that it is linked to was undone",
            pre_sha256=hash_of(self.seen),
            content=self.restored,
        )
        images = records.packed(self.seen), records.packed(self.restored)
        return records.record_action(run_id, ordinal, action, images, None)


class Reverting:
    """Undoes runs through the writer. Call from any thread but the writer's.

    `citing` returns the paths of the live memories that cite a node, `replaced_by` of those that it superseded;
    `settle` waits until acknowledged writes can be found, by default only until their files are written.
    """

    def __init__(
        self,
        vault: Vault,
        ledger: Ledger,
        writer: Writer,
        citing: Callable[[NodeId], Collection[str]],
        replaced_by: Callable[[NodeId], Collection[str]],
        settle: Callable[[float], bool] | None = None,
    ) -> None:
        self._vault = vault
        self._ledger = ledger
        self._writer = writer
        self._citing = citing
        self._replaced_by = replaced_by
        self._wait_until_found = settle or writer.barrier

    def undo(self, run_id: str, *, now: datetime) -> Undone:
        """Restore the files as they were before a run; tombstones keep dreams from proposing it again.

        A file that was only linked since keeps those links. A file that changed otherwise is skipped and named, and so
        is a node of the run that a live file outside the run cites. The predecessors of a removed node are live again.
        Raises NotFound, or Expired when the images are gone.
        """
        run = self._ledger.run(run_id)
        if run.expired:
            raise Expired(f"the history of run {run_id} has expired", hint=f"It is kept for {HISTORY_DAYS} days.")
        self._settle()
        # A run may have changed a path several times. The actions on a path, in order, are its chain: the first one's
        # pre-image is the file before the run, the last one's post-image the file as the run left it.
        chains: dict[str, list[RecordedAction]] = {}
        for action in self._ledger.actions(run_id):
            if action.state == "applied":
                chains.setdefault(action.path, []).append(action)
        reversals = {path: self._reversal(path, chain) for path, chain in chains.items()}
        refusals = self._objections(chains, reversals)
        released = self._released({path: r for path, r in reversals.items() if path not in refusals})
        self._writer.submit(
            lambda files: self._plan_undo(files, run, chains, reversals, released, refusals, now)
        ).result()
        self._settle()
        # A person may have saved a file between the plan and its placing: the writer then marked the action.
        undone = {action.ordinal for chain in chains.values() for action in chain}
        for action in self._ledger.actions(run_id):
            if action.ordinal in undone and action.state == "conflict":
                refusals.setdefault(action.path, CHANGED)
        restored = [path for path in chains if path not in refusals]
        self._vault.remove_empty_folders(restored)
        refused = tuple(SkippedAction(path, chains[path][-1].node_id, why) for path, why in refusals.items())
        if refused and restored:
            self._writer.write(records.run_undone(run_id, "partly_undone", now)).result()
        forbidden = bool(restored) and run.kind not in PERSONAL
        return Undone(run_id, len(restored), refused, forbidden=forbidden)

    def _reversal(self, path: str, chain: Sequence[RecordedAction]) -> _Reversal:
        """Plan the reversal of one path that a run changed; its links to other files are looked at later."""
        seen, before = self._vault.read_if_any(path), chain[0].pre_image
        # A session is only ever appended to, so it gets its lost turns back although it went on since.
        lost_turns = is_session(path) and chain[-1].post_sha256 is not None
        if lost_turns and seen is not None and before is not None:
            return _Reversal(path, chain[0].node_id, seen, with_lost_turns(before, seen))
        if hash_of(seen) == chain[-1].post_sha256:
            return _Reversal(path, chain[0].node_id, seen, before)
        try:
            restored = reverted(before, chain[-1].post_image, seen)
        except Conflict as error:
            later = self._ledger.run_that_left(path, hash_of(seen) or "")
            why = f"{error}: `dreamctl undo {later}` reverts the later change" if later else str(error)
            return _Reversal(path, chain[0].node_id, seen, seen, why)
        return _Reversal(path, chain[0].node_id, seen, restored)

    def _objections(
        self, chains: Mapping[str, Sequence[RecordedAction]], reversals: Mapping[str, _Reversal]
    ) -> dict[str, str]:
        """Return the reason for each path that cannot be restored.

        A created file stays if a file that stays cites it, so this is repeated until no more files stay.
        """
        refusals = {path: reversal.refusal for path, reversal in reversals.items() if reversal.refusal}
        created = {path: chain[0].node_id for path, chain in chains.items() if chain[0].pre_sha256 is None}
        citing = {path: set(self._citing(node_id)) - {path} for path, node_id in created.items()}
        # Example: the run created fact F and page P, P cites F, and a person edited P. P stays, so F stays too.
        while True:
            living = {path: sorted(citing[path] - (chains.keys() - refusals.keys())) for path in created}
            more = {path: f"{files[0]} rests on it" for path, files in living.items() if files and path not in refusals}
            if not more:
                return refusals
            refusals.update(more)

    def _released(self, reversals: Mapping[str, _Reversal]) -> list[_Reversal]:
        """Plan the revival of memories outside the run whose successor the undo removes."""
        revived = []
        for goes in [reversal.node_id for reversal in reversals.values() if reversal.restored is None]:
            for path in sorted(set(self._replaced_by(goes)) - reversals.keys()):
                seen = self._vault.read_if_any(path)
                meta = okf.parse(seen or b"").meta
                if seen is not None and meta.get("superseded_by") == goes:
                    with contextlib.suppress(InvalidInput):  # a file that cannot be edited is a person's
                        restored = released(seen, None)
                        if not places_of_secrets(restored):
                            revived.append(_Reversal(path, str(meta.get("node_id")), seen, restored))
        return revived

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
        # In reverse: a run creates pages after the facts that they cite.
        for path, chain in reversed(list(chains.items())):
            if path not in refusals and moved_on(files, path, reversals[path].seen):
                refusals[path] = CHANGED
            if path in refusals:
                continue
            changes += reversals[path].changes(run.run_id, chain[-1].ordinal)
            for action in chain:
                writes.append(records.action_undone(run.run_id, action.ordinal))
                # The undo of a person's own run forbids nothing: it lifts what that run forbade.
                if run.kind not in PERSONAL and (key := edit_key(path, action.pre_image, action.post_image)):
                    writes.append(records.leave_tombstone(key, run.run_id, now, "undone"))
                for key in tombstone_keys(action.fingerprint):
                    is_personal = run.kind in PERSONAL
                    leave = records.leave_tombstone(key, run.run_id, now, "undone")
                    writes.append(records.lift_tombstone(key) if is_personal else leave)
        if writes:
            writes.append(records.run_undone(run.run_id, "partly_undone" if refusals else "undone", now))
        released = [other for other in released if writes and not moved_on(files, other.path, other.seen)]
        linked = [
            reversals[path]
            for path, chain in chains.items()
            if path not in refusals and reversals[path].goes_with_links(chain[-1].post_sha256)
        ]
        if released or linked:  # files that the run did not change, or not alone: the undo of them is a run too
            also = Run(new_run_id(now, UNDO), UNDO, "applied", now, now, summary={"note": f"undid {run.run_id}"})
            writes.append(records.record_run(also))
            writes += [each.record(also.run_id, ordinal) for ordinal, each in enumerate((*released, *linked))]
            changes += [change for n, each in enumerate(released) for change in each.changes(also.run_id, n)]
        return Planned(None, changes, writes)

    def _settle(self) -> None:
        raise_unless_written(self._writer, written=self._wait_until_found(WRITTEN_WITHIN_S))


def reverted(before: bytes | None, after: bytes | None, current: bytes | None) -> bytes | None:
    """Return the `current` file without the change from `before` to `after`; None for no file.

    Raises Conflict, with the reason, if anything but links has changed since, or the same link has.
    """
    if current == after:
        return before
    if current is None or after is None:
        raise Conflict("the file is no longer as the run left it")
    old, left, now = (okf.parse(data or b"") for data in (before, after, current))
    if not left.meta or now.problem or left.body != now.body or set(_changed(left.meta, now.meta)) - LINKS:
        raise Conflict("the file is no longer as the run left it")
    if before is None:
        return None
    changes = {key: _reverted_value(key, old.meta, left.meta, now.meta) for key in _changed(old.meta, left.meta)}
    try:
        content = okf.edit(current, changes)
        return content if old.body == now.body else okf.with_body_of(content, before)
    except InvalidInput as error:
        raise Conflict(str(error)) from error


def with_lost_turns(before: bytes, current: bytes) -> bytes:
    """Return a session with the turns that it lost: as it was, or, if it went on since, with them at its end.

    There they get new numbers: their old ones belong to the turns that followed.
    """
    if before.startswith(current):
        return before
    there = session.parse(current)
    known = set(map(session.identity, there.turns))
    lost = [turn for turn in session.parse(before).turns if session.identity(turn) not in known]
    return current + session.continuation(there, lost)


def _changed(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    return (key for key in one.keys() | other.keys() if one.get(key) != other.get(key))


def _reverted_value(key: str, old: Mapping[str, Any], left: Mapping[str, Any], now: Mapping[str, Any]) -> Any:
    """Return the reverted value of a key that the run changed."""
    if now.get(key) == left.get(key) or now.get(key) == old.get(key):
        return old.get(key)
    if key not in LISTS:
        raise Conflict(f"its {key} has changed since")
    # Entries that the run removed come back, those that it added go, and those added since stay.
    was, set_, kept = _items(old.get(key)), _items(left.get(key)), _items(now.get(key))
    back = [item for item in was if item not in set_ and item not in kept]
    return [*back, *(item for item in kept if item in was or item not in set_)] or None


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
