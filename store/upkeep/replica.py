"""The memory of this machine as one of several: its changes for the others, and theirs.

Read as files, for these are the truth; changed through the one writer, as a run of kind `sync` that `undo` takes back.
Turns are appended, as they are everywhere: no run holds them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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
from .merging import (
    Arranged,
    MemoryVersion,
    Merged,
    ToldTurn,
    arranged,
    citing_anew,
    merged,
    root_of,
    session_lines,
    told_of,
    turn_key,
)

ELSEWHERE: Final = "it came from another machine"
FORK: Final = "a session went on on two machines: these turns became one of their own"

LINE: Final = "line:"
"""The ledger's flag, before the id of a session, of the lines in which it went on here, the present one last."""

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


class MovedTurns(NamedTuple):
    """The new ids of turns that moved to other lines, how many came in with them, and those that lines lack still.

    `going_on` are the lines in which sessions of this machine go on, by the sessions.
    """

    ids: Mapping[NodeId, NodeId]
    added: int
    lacking: Mapping[NodeId, Sequence[Turn]]
    going_on: Mapping[NodeId, Sequence[NodeId]]


class Replica:
    """Reads this memory, and lets in changes of others. One thread at a time; never the writer's."""

    def __init__(self, core: Core, runs: Runs, sessions: SessionPlans) -> None:
        self._core = core
        self._vault = core.vault
        self._runs = runs
        self._sessions = sessions
        self._seen: dict[FileStamp, LocalFile] = {}
        self._read_lines()

    # ---- this machine

    @property
    def changes(self) -> int:
        """A number that grows with every change of a file."""
        return self._core.writer.acknowledged()

    def settle(self) -> None:
        """Wait until all that was acknowledged is in its file. Raises StoreBusy while the vault is away."""
        self._vault.raise_if_away()
        self._core.writer.barrier(SETTLED_WITHIN_S)

    def settle_index(self) -> None:
        """Wait until all that was acknowledged can be found: paths of sessions, and deletions."""
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

    def links(self) -> list[tuple[str, str]]:
        """Return the channels of clones that have memories, each after the hash of its remote."""
        for channel in self._core.catalog.channel_names():
            self._core.projects.learn(channel)
        return self._core.projects.links()

    # ---- changes of others

    def link(self, remote: str, channel: str) -> None:
        """Note a channel of clones of a remote, after those known here. Raises InvalidInput for what can be none."""
        self._core.projects.link(remote, channel)

    def add_turns(self, head: SessionHead, turns: Sequence[Turn]) -> int:
        """Append the turns of a session that it does not have, and return how many; they survive a power cut.

        Raises InvalidInput for names that no session can have.
        """
        self._core.door.check_names(head.channel, (head.agent_id, head.task_id, head.user_id))
        return self._core.writer.submit(self._sessions.replay(head, turns)).result()

    def turns_of(self, session_id: NodeId) -> list[Turn]:
        """Return the turns of a session and its lines."""
        return [turn for path in self._family(session_id).values() for turn in self.session(path)[1]]

    def _family(self, session_id: NodeId) -> dict[NodeId, str]:
        """Return the paths of a session's lines that are here."""
        named = {path.rpartition("/")[2].removesuffix(".md"): path for path, _ in self.sessions()}
        found = {name: path for name, path in named.items() if root_of(name) == session_id}
        path = self.session_path(session_id)
        return found | ({session_id: path} if path else {})

    def arrange(
        self,
        root: NodeId,
        told: Sequence[ToldTurn],
        head: Callable[[NodeId], SessionHead],
        purged: Collection[NodeId],
        others: Collection[str],
    ) -> MovedTurns:
        """Move the turns here to the lines in which all these have them; `head` returns the head of a line.

        One run, which is not undone: two turns would have one number. What names the turns follows, and turns that are
        observed from its commit on, also after a crash, go where those of this machine went: `others` are the keys of
        turns that other machines alone told of. Its images have no secret (`records.packed`), so a file with one moves
        as any other does: else the machines would differ.
        """
        for line in {one.turn.session_id for one in told}:
            self._core.door.check_names(head(line).channel)
        self.settle_index()
        told = list(map(self._clean, told))
        family, arrange = self._family(root), partial(self._arranged, root, told, head, purged)
        result, lacking = arrange({line: self._vault.read(path) for line, path in family.items()})
        if not result.files:
            return MovedTurns({}, 0, lacking, {})
        named = root.encode()
        citing = [file.path for file in self.memories().values() if named in (self.content(file.path) or b"")]
        plan = partial(self._plan_lines, root, family, arrange, head, citing, others)
        try:
            moved = self._core.writer.submit(plan).result()
        finally:
            self._read_lines()  # the plan set them, and may not be committed
        self.settle_index()
        hidden = [old for old in moved.ids if f"{TURN}{moved.ids[old]}" in self._core.ledger.tombstones()]
        self._core.tombstones.read()
        if hidden:
            both = [*hidden, *(moved.ids[old] for old in hidden)]
            self._core.tombstones.read_and_follow(self._core.opened, self._core.indexer, both)
        return moved

    def _arranged(
        self,
        root: NodeId,
        told: Sequence[ToldTurn],
        head: Callable[[NodeId], SessionHead],
        purged: Collection[NodeId],
        images: Mapping[NodeId, bytes],
    ) -> tuple[Arranged, Mapping[NodeId, Sequence[Turn]]]:
        """Return the files in which turns of these images move, and the turns that lines lack."""
        here = [one for line, image in images.items() for one in told_of(session.parse(image, session_id=line).turns)]
        lines = session_lines(root, [*told, *here], purged)
        lacking = {line: new for line, turns in lines.items() if (new := [one.turn for one in turns if not one.here])}
        return arranged(lines, images, lambda line: session.open_file(self._core.door.head(head(line)))), lacking

    def _plan_lines(
        self,
        root: NodeId,
        family: Mapping[NodeId, str],
        arrange: Callable[[Mapping[NodeId, bytes]], tuple[Arranged, Mapping[NodeId, Sequence[Turn]]]],
        head: Callable[[NodeId], SessionHead],
        citing: Sequence[str],
        others: Collection[str],
        files: PendingFiles,
    ) -> Planned[MovedTurns]:
        images = {line: files.read(path) for line, path in family.items() if files.exists(path)}
        result, lacking = arrange(images)
        if not result.files:
            return Planned(MovedTurns({}, 0, lacking, {}))
        names = {
            family.get(line) or session.path_of(self._core.door.head(head(line))): line
            for line in {*images, *result.files}
        }
        paths = {line: path for path, line in names.items()}
        before = {paths[line]: images.get(line) for line in result.files}
        after = {paths[line]: data for line, data in result.files.items()}
        for path in citing if result.ids else ():
            if files.exists(path):
                before[path] = data = files.read(path)
                after[path] = citing_anew(data, result.ids, paths)
        changes, writes = self._recorded(root, before, after, names)
        here = [turn for line, image in images.items() for turn in session.parse(image, session_id=line).turns]
        own = [turn.node_id for turn in here if turn.node_id in result.ids and turn_key(turn) not in others]
        going_on = self._going_on(root, {old: result.ids[old] for old in own})
        self._sessions.lines = {**self._sessions.lines, **going_on}
        follow = [records.set_flag(f"{LINE}{one}", " ".join(lines)) for one, lines in going_on.items()]
        moved = MovedTurns(result.ids, sum(map(len, lacking.values())), {}, going_on)
        return Planned(moved, changes, [*writes, *follow, *self._renamed(result.ids)])

    def _recorded(
        self,
        root: NodeId,
        before: Mapping[str, bytes | None],
        after: Mapping[str, bytes | None],
        names: Mapping[str, NodeId],
    ) -> tuple[Sequence[FileChange], Sequence[Write]]:
        """Return the changes of files, and the rows of their run; `names` are the lines by their paths."""
        now, changes = self._core.now(), list[FileChange]()
        run = Run(new_run_id(now, SYNC), SYNC, "applied", now, now, summary={"note": FORK, FORKED: root})
        writes = [records.record_run(run)]
        for place, content in after.items():
            was = before[place]
            if was == content:
                continue
            pre = None if was is None else sha256(was)
            kind = ActionKind.DELETE if content is None else ActionKind.CREATE if was is None else ActionKind.REPLACE
            node = names.get(place) or okf.to_memory(place, okf.parse(content or b"")).node_id
            action = Action(
                kind=kind, path=place, node_id=node, stage=SYNC, reason=FORK, pre_sha256=pre, content=content
            )
            images = records.packed(was), records.packed(content)
            writes.append(records.record_action(run.run_id, len(changes), action, images, None))
            done: ChangeKind = "delete" if content is None else "create" if was is None else "replace"
            changes.append(FileChange(done, place, content or b"", 0, pre, run.run_id, len(changes)))
            self._sessions.changed(place)
        return changes, writes

    def _clean(self, told: ToldTurn) -> ToldTurn:
        """Let a turn of elsewhere in through the door: redacted, and of a role that may be."""
        turn = told.turn
        return replace(
            told, turn=replace(turn, role=self._core.door.name(turn.role), text=self._core.door.turn(turn.text))
        )

    def _renamed(self, ids: Mapping[NodeId, NodeId]) -> Iterator[Write]:
        """Yield the rows by which turns that were forgotten, and how far dreams have read, follow the new ids."""
        now, tombstones, read = self._core.now(), self._core.ledger.tombstones(), self.cursors()
        for old, new in ids.items():
            if f"{TURN}{old}" in tombstones:
                yield records.leave_tombstone(f"{TURN}{new}", "", now, FORK)
        for old in ids:
            if f"{TURN}{old}" in tombstones and old not in ids.values():
                yield records.lift_tombstone(f"{TURN}{old}")
        places = [(*_place(old), *_place(new)) for old, new in ids.items()]
        moved = [place for place in places if place[1] <= read.get(place[0], 0)]
        for session_id in {place[0] for place in moved}:
            first = min(place[1] for place in moved if place[0] == session_id)
            yield records.move_cursor(LEARNED_FROM, session_id, first - 1)
        for line in {place[2] for place in moved}:
            last = max(place[3] for place in moved if place[2] == line)
            yield records.move_cursor(LEARNED_FROM, line, last)

    def _going_on(self, root: NodeId, own: Mapping[NodeId, NodeId]) -> dict[NodeId, Sequence[NodeId]]:
        """Return the lines of the sessions whose last line these turns of this machine, by their ids before, left."""
        going_on: dict[NodeId, Sequence[NodeId]] = {}
        for session_id, lines in {root: (), **self._sessions.lines}.items():
            present = (session_id, *lines)[-1]
            moved = [_place(new)[0] for old, new in own.items() if _place(old)[0] == present]
            if moved and moved[-1] != present:
                going_on[session_id] = (*lines, moved[-1])
        return going_on

    def _read_lines(self) -> None:
        """Have turns observed here of a session go to the last of the lines that its turns moved to, from now on."""
        kept = self._core.ledger.flags(LINE)
        self._sessions.lines = {name.removeprefix(LINE): lines.split() for name, lines in kept.items()}

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


def _place(turn: NodeId) -> tuple[NodeId, int]:
    """Return the session and the number of a turn."""
    session_id, _, number = turn.rpartition("#")
    return session_id, int(number)


def _counts(actions: Sequence[Action]) -> dict[str, int]:
    kinds = [action.kind for action in actions]
    counted = (("created", ActionKind.CREATE), ("replaced", ActionKind.REPLACE), ("deleted", ActionKind.DELETE))
    return {name: kinds.count(kind) for name, kind in counted if kind in kinds}
