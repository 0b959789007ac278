"""Undo of a run, or of some of its memories, and redo: its files as they were, with the links that were added since.

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
from ..model import Action, ActionKind, Conflict, InvalidInput, NodeId, NotFound, tombstone_keys
from ..okf import session
from ..redaction import places_of_secrets
from ..vault.vault import Vault
from ..writer.pending import PendingFiles
from ..writer.writer import Planned, Writer
from .apply import WRITTEN_WITHIN_S, hash_of, moved_on, raise_unless_written
from .edits import BY_PAGE, facts_changed, following, lines_changed, without_change
from .links import released
from .migration import as_moved
from .run_kinds import (
    CHANGED,
    HISTORY_DAYS,
    MIGRATE,
    PERSONAL,
    UNDID,
    UNDO,
    UNSAFE,
    Expired,
    SkippedAction,
    Undone,
    new_run_id,
)

# Keys whose entries are reverted one by one.
LISTS: Final = frozenset({"supersedes", "contradicts", "later", "reinforced", "proposals"})

# The keys by which memories are linked, or one is revived.
LINKS: Final = LISTS | {"superseded_by", "valid_from", "valid_to"}

# Memories of a run that are named where one is asked for that it did not change.
MOST_NAMED: Final = 5


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


@dataclass(frozen=True, slots=True)
class _Beside:
    """A change by which an undo of a run changed a file beside those of the run."""

    run_id: str
    action: RecordedAction

    def is_tied(self, nodes: Collection[NodeId]) -> bool:
        """Return True if it took a link to one of these nodes out of a file, or a line, or removed the file of one."""
        if self.action.post_image is None:
            return self.action.node_id in nodes
        if not lines_changed(self.action.pre_image, self.action.post_image).isdisjoint(nodes):
            return True
        was, left = (_linked_to(image) for image in (self.action.pre_image, self.action.post_image))
        return not (was - left).isdisjoint(nodes)

    def left(self, path: str, seen: bytes | None) -> bool:
        """Return True if it left this file as it was seen."""
        return self.action.path == path and self.action.post_sha256 == hash_of(seen)


@dataclass(slots=True)
class _Plan:
    """An undo or redo: the paths of the run with their reversals, `also` those of other files; `refusals` grow."""

    run: Run
    chains: Mapping[str, Sequence[RecordedAction]]
    reversals: Mapping[str, _Reversal]
    also: Sequence[_Reversal]
    refusals: dict[str, str]
    beside: Sequence[_Beside]
    is_partial: bool

    def placed(self, files: PendingFiles) -> Iterator[tuple[str, Sequence[RecordedAction]]]:
        """Yield the chains whose files may be changed, in reverse; refuse those that moved on."""
        for path, chain in reversed(list(self.chains.items())):
            if path not in self.refusals and moved_on(files, path, self.reversals[path].seen):
                self.refusals[path] = CHANGED
            if path not in self.refusals:
                yield path, chain

    def settled_beside(self) -> list[Write]:
        """Return the rows by which the changes of earlier undos hold no more."""
        return [
            write
            for one in self.beside
            for write in (records.action_state(one.run_id, one.action.ordinal, "undone"),)
            if one.action.path not in self.refusals
        ]

    def refused(self) -> tuple[SkippedAction, ...]:
        """Return the files that stay as they are."""
        return tuple(SkippedAction(path, self.chains[path][-1].node_id, why) for path, why in self.refusals.items())


class Reverting:
    """Undoes runs through the writer. Call from any thread but the writer's.

    `citing` returns the paths of the live memories that cite a node, `replaced_by` of those that it superseded;
    `settle` waits until acknowledged writes can be found, by default only until their files are written. `is_noted`:
    the history of the nodes tells of it.
    """

    def __init__(
        self,
        vault: Vault,
        ledger: Ledger,
        writer: Writer,
        citing: Callable[[NodeId], Collection[str]],
        replaced_by: Callable[[NodeId], Collection[str]],
        settle: Callable[[float], bool] | None = None,
        *,
        is_noted: bool = True,
    ) -> None:
        self._is_noted = is_noted
        self._vault = vault
        self._ledger = ledger
        self._writer = writer
        self._citing = citing
        self._replaced_by = replaced_by
        self._wait_until_found = settle or writer.barrier

    def undo(self, run_id: str, *, now: datetime, items: Collection[NodeId] = ()) -> Undone:
        """Restore the files as they were before a run; tombstones keep dreams from proposing it again.

        With `items` only those of these memories; pages that cite one of them lose the lines that do. A file that was
        only linked since keeps those links. A file that changed otherwise is skipped and named, and so is a node of the
        run that a live file outside the run cites. The predecessors of a removed node are live again. Raises NotFound,
        or Expired when the images are gone.
        """
        run = self._run(run_id)
        # A run may have changed a path several times. The actions on a path, in order, are its chain: the first one's
        # pre-image is the file before the run, the last one's post-image the file as the run left it.
        there = self._chains(run_id, "applied")
        chains = _chosen(there, run_id, items) if items else there
        beside = [] if items else [one for one in self._beside(run_id) if one.action.path in chains]
        reversals = {path: self._reversal(path, chain, beside) for path, chain in chains.items()}
        may_lose_lines = {page.path for page in self._pages_beside(reversals, may_lose=True)} if items else set[str]()
        refusals = self._objections(chains, reversals, may_lose_lines)
        restored = {path: r for path, r in reversals.items() if path not in refusals}
        also = [*self._released(restored), *self._pages_beside(restored, may_lose=bool(items))]
        plan = _Plan(run, chains, reversals, also, refusals, beside, is_partial=len(chains) < len(there))
        self._writer.submit(lambda files: self._plan_undo(files, plan, now)).result()
        self._settle()
        done = self._done(plan)
        self._vault.remove_empty_folders(done)
        if refusals and done:
            self._writer.write(records.run_undone(run_id, "partly_undone", now)).result()
        forbidden = bool(done) and run.kind not in PERSONAL
        return Undone(run_id, len(done), plan.refused(), forbidden=forbidden, left=len(there) - len(done))

    def redo(self, run_id: str, *, now: datetime, items: Collection[NodeId] = ()) -> Undone:
        """Change the files again that an undo of a run restored, or those of `items`; what it forbade is free again.

        A file that changed since the undo is skipped and named. Raises as `undo` does.
        """
        run = self._run(run_id)
        there = self._chains(run_id, "undone")
        chains = _chosen(there, run_id, items) if items else there
        nodes = {chain[-1].node_id for chain in chains.values()}
        told_of = facts_changed((one.pre_image, one.post_image) for chain in chains.values() for one in chain)
        beside = [one for one in self._beside(run_id) if one.is_tied(nodes | told_of.keys())]
        reversals = {path: self._again(path, chain, beside) for path, chain in chains.items()}
        refusals = {path: reversal.refusal for path, reversal in reversals.items() if reversal.refusal}
        others: dict[str, list[RecordedAction]] = {}
        for one in beside:
            if one.action.path not in chains:
                others.setdefault(one.action.path, []).append(one.action)
        back = [self._reversal(path, chain) for path, chain in others.items()]
        also = [reversal for reversal in back if not reversal.refusal]
        done_again = {path: one for path, one in reversals.items() if not one.refusal}
        also += [page for page in self._pages_beside(done_again, may_lose=bool(items)) if page.path not in others]
        plan = _Plan(run, chains, reversals, also, refusals, beside, is_partial=len(chains) < len(there))
        self._writer.submit(lambda files: self._plan_redo(files, plan, now)).result()
        self._settle()
        done = self._done(plan)
        self._vault.remove_empty_folders([path for path in done if reversals[path].restored is None])
        return Undone(run_id, len(done), plan.refused(), left=len(there) - len(done))

    def _run(self, run_id: str) -> Run:
        run = self._ledger.run(run_id)
        if run.expired:
            raise Expired(f"the history of run {run_id} has expired", hint=f"It is kept for {HISTORY_DAYS} days.")
        self._settle()
        return run

    def _chains(self, run_id: str, state: str) -> dict[str, list[RecordedAction]]:
        """Return the actions of a run that are in a state, in order, by the present path of their file."""
        chains: dict[str, list[RecordedAction]] = {}
        for action in self._actions(run_id):
            if action.state == state:
                chains.setdefault(action.path, []).append(action)
        return chains

    def _actions(self, run_id: str) -> list[RecordedAction]:
        """Return the actions of a run; files that were moved to the folders of projects since are followed there."""
        actions = self._ledger.actions(run_id)
        moves = self._ledger.moves_since(run_id, MIGRATE)
        return list(as_moved(actions, moves, self._vault.exists) if moves else actions)

    def _beside(self, run_id: str) -> list[_Beside]:
        """Return the changes that hold of files which undos of a run changed beside its own."""
        asked = self._ledger.runs_that_undid(run_id)
        return [_Beside(one, action) for one in asked for action in self._actions(one) if action.state == "applied"]

    def _done(self, plan: _Plan) -> list[str]:
        """Return the paths that were changed; a person may have saved a file between the plan and its placing."""
        places = {action.ordinal: path for path, chain in plan.chains.items() for action in chain}
        for action in self._ledger.actions(plan.run.run_id):
            if action.ordinal in places and action.state == "conflict":
                plan.refusals.setdefault(places[action.ordinal], CHANGED)
        return [path for path in plan.chains if path not in plan.refusals]

    def _reversal(self, path: str, chain: Sequence[RecordedAction], beside: Sequence[_Beside] = ()) -> _Reversal:
        """Plan the reversal of one path that a run changed; its links to other files are looked at later."""
        seen, before = self._vault.read_if_any(path), chain[0].pre_image
        # A page of the run lost lines when single memories of it were undone: that was part of the same undo.
        if any(one.left(path, seen) for one in beside):
            return _Reversal(path, chain[0].node_id, seen, before)
        # A session is only ever appended to, so it gets its lost turns back although it went on since.
        lost_turns = is_session(path) and chain[-1].post_sha256 is not None
        if lost_turns and seen is not None and before is not None:
            return _Reversal(path, chain[0].node_id, seen, with_lost_turns(before, seen))
        if hash_of(seen) == chain[-1].post_sha256:
            return _Reversal(path, chain[0].node_id, seen, before)
        try:
            restored = reverted(before, chain[-1].post_image, seen)
        except Conflict as error:
            if chain[-1].stage == BY_PAGE:  # a page that only follows keeps no fact from being taken back
                return self._followed_back(path, chain[0].node_id, before, chain[-1].post_image)
            later = self._ledger.run_that_left(path, hash_of(seen) or "")
            why = f"{error}: `dreamctl undo {later}` reverts the later change" if later else str(error)
            return _Reversal(path, chain[0].node_id, seen, seen, why)
        return _Reversal(path, chain[0].node_id, seen, restored)

    def _followed_back(self, path: str, node_id: NodeId, before: bytes | None, after: bytes | None) -> _Reversal:
        """Plan a page that has changed since without its run's change of its lines."""
        seen = self._vault.read_if_any(path)
        left = without_change(before, after, seen) if before and after and seen else None
        return _Reversal(path, node_id, seen, left if left and not places_of_secrets(left) else seen)

    def _again(self, path: str, chain: Sequence[RecordedAction], beside: Sequence[_Beside]) -> _Reversal:
        """Plan to change one path as a run did; with the links that were added to its file before the undo."""
        seen, before = self._vault.read_if_any(path), chain[0].pre_image
        linked = [one.action.pre_image for one in beside if one.action.path == path and one.action.post_sha256 is None]
        after = linked[-1] if linked else chain[-1].post_image
        try:
            restored = reverted(after, before, seen)
        except Conflict:
            if chain[-1].stage == BY_PAGE:
                return self._followed_back(path, chain[0].node_id, after, before)
            return _Reversal(path, chain[-1].node_id, seen, seen, CHANGED)
        if restored is not None and places_of_secrets(restored):
            return _Reversal(path, chain[-1].node_id, seen, seen, UNSAFE)
        return _Reversal(path, chain[-1].node_id, seen, restored)

    def _pages_beside(self, reversals: Mapping[str, _Reversal], *, may_lose: bool) -> list[_Reversal]:
        """Plan the pages beside these files as their facts are then.

        Unless they `may_lose` lines, those of facts that go are left: such a fact is not taken back.
        """
        changed = {
            node_id: change
            for node_id, change in facts_changed((one.seen, one.restored) for one in reversals.values()).items()
            if may_lose or change.now is not None
        }
        paths = {path for node_id in changed for path in self._citing(node_id)} - reversals.keys()
        trimmed = []
        for path in sorted(paths):
            seen = self._vault.read_if_any(path)
            left = seen and following(seen, changed)
            if seen and left and not places_of_secrets(left):
                trimmed.append(_Reversal(path, str(okf.parse(seen).meta.get("node_id")), seen, left))
        return trimmed

    def _objections(
        self,
        chains: Mapping[str, Sequence[RecordedAction]],
        reversals: Mapping[str, _Reversal],
        trimmed: Collection[str] = (),
    ) -> dict[str, str]:
        """Return the reason for each path that cannot be restored.

        A created file stays if a file that stays cites it, so this is repeated until no more files stay; one that is
        `trimmed` cites it no more.
        """
        refusals = {path: reversal.refusal for path, reversal in reversals.items() if reversal.refusal}
        created = {path: chain[0].node_id for path, chain in chains.items() if chain[0].pre_sha256 is None}
        citing = {path: set(self._citing(node_id)) - {path, *trimmed} for path, node_id in created.items()}
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

    def _plan_undo(self, files: PendingFiles, plan: _Plan, now: datetime) -> Planned[None]:
        run, changes, writes = plan.run, list[FileChange](), list[Write]()
        # In reverse: a run creates pages after the facts that they cite.
        for path, chain in plan.placed(files):
            changes += plan.reversals[path].changes(run.run_id, chain[-1].ordinal)
            for action in chain:
                writes.append(records.action_state(run.run_id, action.ordinal, "undone"))
                # The undo of a person's own run forbids nothing: it lifts what that run forbade.
                is_personal = run.kind in PERSONAL
                for key in _keys(action, of_edit=not is_personal):
                    leave = records.leave_tombstone(key, run.run_id, now, "undone")
                    writes.append(records.lift_tombstone(key) if is_personal else leave)
        if not writes:
            return Planned(None)
        is_partial = plan.is_partial or bool(plan.refusals)
        writes.append(records.run_undone(run.run_id, "partly_undone" if is_partial else "undone", now))
        writes += plan.settled_beside()
        writes += self._noted("undone", plan, now)
        also = [other for other in plan.also if not moved_on(files, other.path, other.seen)]
        linked = [
            plan.reversals[path]
            for path, chain in plan.chains.items()
            if path not in plan.refusals
            and plan.reversals[path].goes_with_links(chain[-1].post_sha256)
            and not any(one.left(path, plan.reversals[path].seen) for one in plan.beside)
        ]
        if also or linked:  # files that the run did not change, or not alone: the undo of them is a run too
            summary = {"note": f"undid {run.run_id}", UNDID: run.run_id}
            beside = Run(new_run_id(now, UNDO), UNDO, "applied", now, now, summary=summary)
            writes.append(records.record_run(beside))
            writes += [each.record(beside.run_id, ordinal) for ordinal, each in enumerate((*also, *linked))]
            changes += [change for n, each in enumerate(also) for change in each.changes(beside.run_id, n)]
        return Planned(None, changes, writes)

    def _plan_redo(self, files: PendingFiles, plan: _Plan, now: datetime) -> Planned[None]:
        run, changes, writes = plan.run, list[FileChange](), list[Write]()
        for path, chain in reversed(list(plan.placed(files))):
            changes += plan.reversals[path].changes(run.run_id, chain[-1].ordinal)
            for action in chain:
                writes.append(records.action_state(run.run_id, action.ordinal, "applied"))
                # What the undo forbade dreams is free again, and what a person's run forbade is forbidden again.
                is_personal = run.kind in PERSONAL
                for key in _keys(action, of_edit=not is_personal):
                    leave = records.leave_tombstone(key, run.run_id, run.started_at, action.reason)
                    writes.append(leave if is_personal else records.lift_tombstone(key))
        if not writes:
            return Planned(None)
        is_partial = plan.is_partial or bool(plan.refusals)
        writes.append(records.run_redone(run.run_id, is_partial=is_partial))
        writes += plan.settled_beside()
        writes += self._noted("done again", plan, now)
        pages = []
        for other in plan.also:
            if moved_on(files, other.path, other.seen):
                continue
            if known := [one for one in plan.beside if one.action.path == other.path][-1:]:
                changes += other.changes(known[0].run_id, known[0].action.ordinal)
            else:
                pages.append(other)
        if pages:
            run_again = Run(new_run_id(now, UNDO), UNDO, "applied", now, now, summary={"note": f"redid {run.run_id}"})
            writes.append(records.record_run(run_again))
            writes += [page.record(run_again.run_id, ordinal) for ordinal, page in enumerate(pages)]
            changes += [change for n, page in enumerate(pages) for change in page.changes(run_again.run_id, n)]
        return Planned(None, changes, writes)

    def _noted(self, what: str, plan: _Plan, now: datetime) -> list[Write]:
        """Return the rows of the history of the nodes whose files change."""
        nodes = [chain[-1].node_id for path, chain in plan.chains.items() if path not in plan.refusals]
        return records.note_events(what, nodes, now, {"run": plan.run.run_id}) if self._is_noted else []

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


def _chosen(
    chains: Mapping[str, Sequence[RecordedAction]], run_id: str, items: Collection[NodeId]
) -> dict[str, Sequence[RecordedAction]]:
    """Return the chains of some memories. Raises NotFound for one that has none."""
    there = {chain[-1].node_id for chain in chains.values()}
    if missing := [item for item in items if item not in there]:
        named = ", ".join(sorted(there)[:MOST_NAMED])
        raise NotFound(f"run {run_id} has no change of {missing[0]} to take back", hint=named and f"It has: {named}.")
    return {path: chain for path, chain in chains.items() if chain[-1].node_id in items}


def _keys(action: RecordedAction, *, of_edit: bool) -> Iterator[str]:
    """Yield the keys of the tombstones that stand for an action."""
    if of_edit and (key := edit_key(action.path, action.pre_image, action.post_image)):
        yield key
    yield from tombstone_keys(action.fingerprint)


def _linked_to(image: bytes | None) -> set[NodeId]:
    """Return the successor and the sources of a memory's file."""
    memory = okf.to_memory("", okf.parse(image or b""))
    return {*memory.sources, *([memory.superseded_by] if memory.superseded_by else ())}


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
