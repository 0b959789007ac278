"""The memory of this machine as one of several: its changes for the others, and theirs.

Read as files, for these are the truth; changed through the one writer, as a run of kind `sync` that `undo` takes back.
Turns are appended, as they are everywhere: no run holds them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from .. import okf
from ..changes.links import is_over
from ..changes.run_kinds import FORKED, LEARNED_FROM, SYNC, AppliedRun, new_run_id
from ..changes.runs import Runs
from ..changes.session_plans import SessionPlans
from ..core import Core
from ..index.projection import is_session
from ..index.tombstones import TURN, fingerprint
from ..ledger import records
from ..ledger.journal import ChangeKind, FileChange, sha256
from ..ledger.questions import Probe
from ..ledger.records import Run, Write
from ..model import Action, ActionKind, Changeset, InvalidInput, Level, Memory, NodeId, SessionHead, Turn
from ..okf import session
from ..redaction import places_of_secrets
from ..vault.layout import SESSIONS_FOLDER
from ..vault.vault import FileStamp, is_kept
from ..writer.pending import PendingFiles
from ..writer.writer import Planned
from .merging import MemoryVersion, Merged, citing_anew, forked, is_same_turn, merged

ELSEWHERE: Final = "it came from another machine"
FORK: Final = "a session went on on two machines: these turns became one of their own"

SETTLED_WITHIN_S: Final = 120.0

MOST_NAMES: Final = 9
"""File names that are tried for a memory whose own is taken."""


class LocalFile(NamedTuple):
    """A memory's file as it is here; `sha256` is that of its bytes."""

    path: str
    node_id: NodeId
    channel: str
    level: Level
    sha256: str


class Replica:
    """Reads this memory, and lets in changes of others. One thread at a time; never the writer's."""

    def __init__(self, core: Core, runs: Runs, sessions: SessionPlans) -> None:
        self._core = core
        self._vault = core.vault
        self._runs = runs
        self._sessions = sessions
        self._seen: dict[FileStamp, LocalFile] = {}

    # ---- this machine

    @property
    def changes(self) -> int:
        """A number that grows with every change of a file."""
        return self._core.writer.acknowledged()

    def settle(self) -> None:
        """Wait until all that was acknowledged is in its file. Raises StoreBusy while the vault is away."""
        self._vault.raise_if_away()
        self._core.settle(SETTLED_WITHIN_S)

    def past_questions(self, limit: int) -> list[Probe]:
        """Return the person's past questions with their answers, at most so many."""
        return list(self._core.ledger.probes()[:limit])

    def memories(self) -> dict[NodeId, LocalFile]:
        """Return the file of each memory, of two with one id the first; unchanged ones are not read again."""
        seen: dict[FileStamp, LocalFile] = {}
        found: dict[NodeId, LocalFile] = {}
        for stamp in self._vault.walk():
            if is_session(stamp.path):
                continue
            file = self._seen.get(stamp) or self._read(stamp.path)
            if file is not None:
                seen[stamp] = file
                found.setdefault(file.node_id, file)
        self._seen = seen
        return found

    def _read(self, path: str) -> LocalFile | None:
        data = self._vault.read_if_any(path)
        if data is None:
            return None
        memory = okf.to_memory(path, okf.parse(data))
        return LocalFile(path, memory.node_id, memory.channel, memory.level, sha256(data))

    def content(self, path: str) -> bytes | None:
        """Return a file's bytes, None where there is none."""
        return self._vault.read_if_any(path)

    def holds_secret(self, data: bytes) -> bool:
        """Return True for a file that may not leave the machine as it is."""
        return bool(places_of_secrets(data))

    def is_deleted(self, node_id: NodeId) -> bool:
        """Return True if a file that is not there is believed to be deleted: a withheld one is not."""
        return self._core.catalog.path_of(node_id) is None

    def sessions(self) -> Iterator[tuple[str, int]]:
        """Yield the path and the size of each session."""
        return ((stamp.path, stamp.size) for stamp in self._vault.walk_folder(SESSIONS_FOLDER.rstrip("/")))

    def session(self, path: str) -> tuple[SessionHead, Sequence[Turn]]:
        """Return a session as its file is."""
        data = self._vault.read(path)
        head = session.head_of(path, okf.parse(data))
        return head, session.parse(data, session_id=head.session_id).turns

    def session_path(self, session_id: NodeId) -> str | None:
        """Return the path of a session, None for one that is not here."""
        return self._core.lookup.path_of_session(session_id)

    def tombstones(self) -> Collection[str]:
        """Return the keys of all that was forgotten, undone or rejected here."""
        return self._core.tombstones.names

    def forgotten_under(self, key: str) -> list[NodeId]:
        """Return the memories whose removal left a tombstone."""
        sql = (
            "SELECT DISTINCT action.node_id FROM tombstone JOIN action USING (run_id) WHERE tombstone.fingerprint = ?"
            " AND instr(action.fingerprint, tombstone.fingerprint) AND action.kind = 'delete'"
        )
        return [str(node) for (node,) in self._core.ledger.ask(sql, (key,))]

    def cursors(self) -> Mapping[NodeId, int]:
        """Return of each session the last turn that dreams have learned from."""
        return self._core.ledger.cursors(LEARNED_FROM)

    # ---- changes of others

    def add_turns(self, head: SessionHead, turns: Sequence[Turn]) -> int:
        """Append the turns of a session that it does not have, and return how many; they survive a power cut.

        Raises InvalidInput for names that no session can have.
        """
        self._core.door.check_names(head.channel, (head.agent_id, head.task_id, head.user_id))
        return self._core.writer.submit(self._sessions.replay(head, turns)).result()

    def clash(self, session_id: NodeId, turns: Sequence[Turn]) -> tuple[Turn, Turn] | None:
        """Return the first of these turns that the session here lacks, and the turn here that has its number."""
        path = self.session_path(session_id)
        here = {turn.ordinal: turn for turn in self.session(path)[1]} if path else {}
        for turn in sorted(turns, key=lambda one: one.ordinal):
            if turn.ordinal in here and not any(is_same_turn(turn, one) for one in here.values()):
                return turn, here[turn.ordinal]
        return None

    def fork(
        self, session_id: NodeId, first: int, line: SessionHead, elsewhere: Sequence[Turn]
    ) -> Mapping[NodeId, NodeId]:
        """Move a session's turns from number `first` on to the session `line`, and what names them; return the new ids.

        One run, which is not undone: two turns would have one number. `elsewhere` are the turns that get the numbers. A
        session with a secret in it is not moved.
        """
        named = f"{session_id}#".encode()
        citing = [file.path for file in self.memories().values() if named in (self.content(file.path) or b"")]
        path, line_path = self.session_path(session_id), self.session_path(line.session_id) or session.path_of(line)
        if path is None:
            return {}
        plan = partial(self._plan_fork, {session_id: path, line.session_id: line_path}, first, line, elsewhere, citing)
        ids = self._core.writer.submit(plan).result()
        self.settle()
        hidden = [old for old in ids if f"{TURN}{ids[old]}" in self._core.ledger.tombstones()]
        self._core.tombstones.read()
        if hidden:
            both = [*hidden, *(ids[old] for old in hidden)]
            self._core.tombstones.read_and_follow(self._core.opened, self._core.indexer, both)
        return ids

    def _plan_fork(
        self,
        paths: Mapping[NodeId, str],
        first: int,
        line: SessionHead,
        elsewhere: Sequence[Turn],
        citing: Sequence[str],
        files: PendingFiles,
    ) -> Planned[Mapping[NodeId, NodeId]]:
        (session_id, path), (_, line_path) = paths.items()
        before = {one: files.read(one) if files.exists(one) else None for one in (path, line_path, *citing)}
        image = before[path] or b""
        result = forked(image, first, line, before[line_path], elsewhere)
        if not result.ids or places_of_secrets(image):
            return Planned({})
        after = {path: result.kept}
        if any(new.startswith(f"{line.session_id}#") for new in result.ids.values()):
            after[line_path] = result.line
        after |= {one: citing_anew(data, result.ids, paths) for one in citing if (data := before[one]) is not None}
        now, changes = self._core.now(), list[FileChange]()
        run = Run(new_run_id(now, SYNC), SYNC, "applied", now, now, summary={"note": FORK, FORKED: session_id})
        writes = [records.record_run(run)]
        for place, content in after.items():
            was = before[place]
            if was == content:
                continue
            names = {path: session_id, line_path: line.session_id}
            node = names[place] if place in names else okf.to_memory(place, okf.parse(content)).node_id
            pre = None if was is None else sha256(was)
            action = Action(
                kind=ActionKind.CREATE if was is None else ActionKind.REPLACE,
                path=place,
                node_id=node,
                stage=SYNC,
                reason=FORK,
                pre_sha256=pre,
                content=content,
            )
            images = records.packed(was), records.packed(content)
            writes.append(records.record_action(run.run_id, len(changes), action, images, None))
            kind: ChangeKind = "create" if was is None else "replace"
            changes.append(FileChange(kind, place, content, 0, pre, run.run_id, len(changes)))
            self._sessions.changed(place)
        writes += self._renamed(result.ids, session_id, first, line.session_id)
        return Planned(result.ids, changes, writes)

    def _renamed(self, ids: Mapping[NodeId, NodeId], session_id: NodeId, first: int, line: NodeId) -> Iterator[Write]:
        """Yield the rows by which turns that were forgotten, and how far dreams have read, follow the new ids."""
        now, tombstones, read = self._core.now(), self._core.ledger.tombstones(), self.cursors().get(session_id, 0)
        for old, new in ids.items():
            if f"{TURN}{old}" in tombstones:
                yield records.leave_tombstone(f"{TURN}{new}", "", now, FORK)
        for old in ids:
            if f"{TURN}{old}" in tombstones and old not in ids.values():
                yield records.lift_tombstone(f"{TURN}{old}")
        if read >= first:
            yield records.move_cursor(LEARNED_FROM, session_id, first - 1)
            yield records.move_cursor(LEARNED_FROM, line, read)

    def go_on_as(self, lines: Mapping[NodeId, NodeId]) -> None:
        """Have what is observed here of a session be of another from now on, of which a fork here moved its turns."""
        self._sessions.lines = {**self._sessions.lines, **lines}

    def change_tombstones(self, left: Collection[str], lifted: Collection[str]) -> None:
        """Leave and lift tombstones as others did; those of turns hide and show them."""
        now = self._core.now()
        writes = [records.leave_tombstone(key, "", now, ELSEWHERE) for key in left]
        writes += [records.lift_tombstone(key) for key in lifted]
        if writes:
            self._core.writer.write(*writes).result()
            turns = [key.removeprefix(TURN) for key in (*left, *lifted) if key.startswith(TURN)]
            self._core.tombstones.read_and_follow(self._core.opened, self._core.indexer, turns)

    def move_cursors(self, cursors: Mapping[NodeId, int]) -> None:
        """Note how far dreams elsewhere have read sessions, where that is further than here."""
        here = self.cursors()
        moved = [records.move_cursor(LEARNED_FROM, one, to) for one, to in cursors.items() if to > here.get(one, 0)]
        if moved:
            self._core.writer.write(*moved).result()

    def putting(self, node_id: NodeId, data: bytes, wanted: str | None, here: LocalFile | None) -> Action:
        """Return the action by which a memory has this content, in its file or else at the path `wanted`, if free.

        Raises InvalidInput for a content that is no file of this memory.
        """
        path = here.path if here is not None else wanted if wanted and self._is_free(wanted) else None
        memory = okf.to_memory(path or "", okf.parse(data))
        if memory.node_id != node_id:
            raise InvalidInput("its content is another memory's")
        if here is not None:
            before = self._vault.read(here.path)
            return Action.replacing(here.path, node_id, before, data, stage=SYNC, reason=ELSEWHERE)
        # A page of this name may be another's here: then its file gets a part of its id, as all others have.
        places = ((memory.level, node_id), *((Level.FACT, f"{node_id}{n}") for n in range(MOST_NAMES)))
        named = (self._path_for(memory, level, name) for level, name in places)
        path = path or next((one for one in named if self._is_free(one)), None)
        if path is None:
            raise InvalidInput("its place is taken")
        memory = replace(memory, path=path)
        return Action(
            kind=ActionKind.CREATE,
            path=path,
            node_id=node_id,
            stage=SYNC,
            reason=ELSEWHERE,
            content=data,
            fingerprint=fingerprint(memory),
        )

    def disputed(self, data: bytes, other: NodeId) -> bytes | None:
        """Return the file of a live memory that another contradicts; None where it says so, or is over."""
        meta = okf.parse(data).meta
        listed = meta.get("contradicts")
        known = listed if isinstance(listed, list) else []
        if not meta or is_over(meta) or other in known:
            return None
        return okf.edit(data, {"contradicts": sorted({*map(str, known), other})})

    def dropping(self, here: LocalFile) -> Action:
        """Return the action by which a memory goes."""
        return Action(
            kind=ActionKind.DELETE,
            path=here.path,
            node_id=here.node_id,
            stage=SYNC,
            reason=ELSEWHERE,
            pre_sha256=here.sha256,
        )

    def _path_for(self, memory: Memory, level: Level, name: str) -> str:
        layout = self._core.layout
        return okf.path_for(level, memory.title, name, memory.channel, kind=memory.kind, layout=layout)

    def _is_free(self, path: str) -> bool:
        if not is_kept(path) or path.startswith(SESSIONS_FOLDER):
            return False
        try:
            return not self._vault.exists(path)
        except InvalidInput:
            return False

    def apply(self, actions: Sequence[Action], note: str) -> AppliedRun:
        """Carry these out as one run. Facts come before the pages that cite them."""
        ordered = sorted(actions, key=lambda action: action.kind is ActionKind.DELETE)
        changeset = Changeset(run_id=new_run_id(self._core.now(), SYNC), actions=tuple(ordered))
        applied = self._runs.apply(changeset, kind=SYNC, summary={"note": note, **_counts(actions)})
        self.settle()
        # Read now, by those who wait for these changes: the next sync, perhaps of one memory, would read all of them.
        for action in actions:
            stamp = self._vault.stamp(action.path)
            if stamp is not None and (file := self._read(action.path)) is not None:
                self._seen[stamp] = file
        return applied

    def merged(self, versions: Mapping[str, bytes], before: bytes | None) -> Merged:
        """Return the one file of several versions, by the names of these; the same on every machine."""
        return merged([MemoryVersion(name, data) for name, data in versions.items()], before)


def _counts(actions: Sequence[Action]) -> dict[str, int]:
    kinds = [action.kind for action in actions]
    counted = (("created", ActionKind.CREATE), ("replaced", ActionKind.REPLACE), ("deleted", ActionKind.DELETE))
    return {name: kinds.count(kind) for name, kind in counted if kind in kinds}
