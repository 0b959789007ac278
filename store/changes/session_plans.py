"""Plans for the writer that append turns to the file of a session: redacted, and each turn once."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from .. import okf
from ..channel import may_read, not_this_users
from ..door import Door
from ..index.catalog import TurnsRead
from ..ledger import records
from ..ledger.journal import FileChange, sha256
from ..ledger.records import Run, Vanished
from ..model import NewTurn, NodeId, SessionHead, Turn
from ..okf import session
from ..redaction import REDACTED, places_of_secrets
from ..vault.layout import SESSIONS_FOLDER
from ..writer.pending import PendingFiles
from ..writer.writer import Plan, Planned
from .deletions import deletion, record_deletion
from .run_kinds import JOINED, JOINED_NOTE, new_run_id

# Sessions whose external ids stay in memory between appends; others are read again, from the index if it can say.
SESSIONS_IN_MIND = 64

# Sessions created here whose paths are held in memory before those are dropped that the index has read.
UNINDEXED_IN_MIND = 1024


@dataclass(frozen=True, slots=True)
class Observed:
    """Counts of a session's turns; `redacted` are the secrets removed from those that were added.

    The content of `purged` known turns was erased, and is not kept again.
    """

    session_id: NodeId
    added: int
    known: int
    redacted: int
    purged: int = 0


@dataclass(slots=True)
class _Known:
    """The state of a session's file: its size, the next ordinal, the external ids that it holds, and those purged.

    `sha256` is the file's hash if all of it came in through this process, and so was redacted.
    """

    size: int
    next_ordinal: int
    closing: bytes
    external_ids: set[str]
    purged: frozenset[str] = frozenset()
    sha256: hashlib._Hash | None = None


class SessionPlans:
    """Makes plans that append to sessions; they run in the writer's thread, and its state is used there alone.

    `vanished` returns the old content of a missing file that is about to be created: a withheld one is continued, the
    deletion of any other is recorded first. `redacted` is called with the hash of a file that came in through here.
    `as_read` returns the turns of a session's file from the index, and the bytes from its last turn on: to read a
    session of 150 MB in the writer's thread would delay every acknowledgement for seconds. `channel_of` returns the
    channel of a session that the index has read.
    """

    def __init__(
        self,
        door: Door,
        path_of_node: Callable[[NodeId], str | None],
        vanished: Callable[[str], Vanished] = lambda path: Vanished(),
        redacted: Callable[[bytes], None] = lambda sha256: None,
        as_read: Callable[[str], tuple[TurnsRead, bytes] | None] = lambda path: None,
        channel_of: Callable[[NodeId], str | None] = lambda session_id: None,
    ) -> None:
        self._door = door
        self._as_read = as_read
        self._channel_of = channel_of
        self._redacted = redacted
        self._path_of_node = path_of_node
        self._vanished = vanished
        self.lines: Mapping[NodeId, Sequence[NodeId]] = {}
        """Of sessions that went on on other machines too, the lines that they went on in here; replaced whole."""
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._created: dict[NodeId, str] = {}  # the index has read some of them
        self._created_until = UNINDEXED_IN_MIND

    def observe(self, head: SessionHead, turns: Sequence[NewTurn]) -> Plan[Observed]:
        """Plan to append the new turns. A turn is known by its external id; one without an id is new.

        The plan raises NotFound where the head names a user, and the session is in another user's part.
        """
        clean, secrets = [], []
        for turn in turns:
            text, role = self._door.turn(turn.text), self._door.name(turn.role)
            clean.append(replace(turn, text=text, role=role, external_id=self._door.name_if_any(turn.external_id)))
            secrets.append(text.count(REDACTED))
        if head.started_at is None:
            head = replace(head, started_at=next((turn.at for turn in turns if turn.at), None))
        return lambda files: self._append(files, head, clean, secrets)

    def _append(
        self, files: PendingFiles, head: SessionHead, turns: Sequence[NewTurn], secrets: Sequence[int]
    ) -> Planned[Observed]:
        seen, lines = set[str](), self.lines.get(head.session_id, ())
        for line in (head.session_id, *lines)[:-1]:  # turns before a fork are in the lines before
            before = self._path_of(line, files)
            held = self._read(files, before, line) if before else None
            seen |= held.external_ids if held else set()
        head = replace(head, session_id=(head.session_id, *lines)[-1])
        path = self._path_of(head.session_id, files) or session.path_of(head)
        known = self._read(files, path, head.session_id)
        gone = self._vanished(path) if known is None else Vanished()
        if gone.withheld:
            known = _parsed(gone.withheld, head.session_id)
        if known is not None:
            self._refuse_another_users(head, path, files)
        # The same turn may be twice in one batch, so ids of this batch are added on the way.
        seen |= known.external_ids if known else set()
        fresh, redacted = [], 0
        for turn, found in zip(turns, secrets, strict=True):
            if turn.external_id is None or turn.external_id not in seen:
                fresh.append(turn)
                redacted += found
                if turn.external_id is not None:
                    seen.add(turn.external_id)
        purged = sum(turn.external_id in known.purged for turn in turns) if known else 0
        observed = Observed(head.session_id, len(fresh), len(turns) - len(fresh), redacted, purged)
        if not fresh and known is not None:
            return Planned(observed)
        if known is None:
            content = session.open_file(head) + session.encode_turns(fresh, 1)
            change = FileChange("create", path, content)
            self._note_created(head.session_id, path)
            self._keep(
                path, _Known(len(content), len(fresh) + 1, b"", seen, sha256=self._noted(hashlib.sha256(), content))
            )
        else:
            content = known.closing + session.encode_turns(fresh, known.next_ordinal)
            change = FileChange("append", path, content, from_offset=known.size)
            # The file is not on the disk: it is created again, with its old content before the new turns.
            if gone.withheld:
                change = FileChange("create", path, gone.withheld + content)
            size, following = known.size + len(content), known.next_ordinal + len(fresh)
            sha256 = known.sha256 and self._noted(known.sha256, content)
            self._keep(path, _Known(size, following, b"", seen, known.purged, sha256))
        return Planned(observed, (change,), gone.recording)

    def _refuse_another_users(self, head: SessionHead, path: str, files: PendingFiles) -> None:
        """Raise NotFound for a session in another user's part; one that is not indexed yet says so in its file."""
        if head.user_id is None:
            return
        channel = self._channel_of(head.session_id)
        if channel is None and files.exists(path):
            channel = session.head_of(path, okf.parse(files.read(path))).channel
        if channel is not None and not may_read(head.user_id, channel):
            raise not_this_users(head.session_id)

    def replay(self, head: SessionHead, turns: Sequence[Turn]) -> Plan[int]:
        """Plan to append the turns of another machine that the session does not have, each under its own number.

        A turn whose number has another turn here gets the next one; none is lost. Returns the number of new turns.
        """
        return lambda files: self._replay(files, head, turns)

    def _replay(self, files: PendingFiles, head: SessionHead, turns: Sequence[Turn]) -> Planned[int]:
        head = self._door.head(head)
        path = self._path_of(head.session_id, files) or session.path_of(head)
        there = session.parse(files.read(path)) if files.exists(path) else None
        gone = self._vanished(path) if there is None else Vanished()
        before = gone.withheld or b""
        there = session.parse(before) if there is None and before else there
        known = list(there.turns) if there else []
        following, parts = there.next_ordinal if there else 1, list[bytes]()
        by_id = {turn.external_id for turn in known if turn.external_id is not None}
        nameless = [turn for turn in known if turn.external_id is None]
        for turn in sorted(turns, key=lambda one: one.ordinal):
            if turn.external_id in by_id if turn.external_id is not None else is_among(turn, nameless):
                continue
            ordinal = max(turn.ordinal, following)
            following = ordinal + 1
            by_id.add(turn.external_id) if turn.external_id is not None else nameless.append(turn)
            new = NewTurn(self._door.name(turn.role), self._door.turn(turn.text), turn.at, turn.external_id)
            parts.append(session.encode_turn(new, ordinal))
        if not parts and there is not None:
            return Planned(0)
        self._known.pop(path, None)
        if there is None:
            self._note_created(head.session_id, path)
            return Planned(
                len(parts), (FileChange("create", path, b"".join((session.open_file(head), *parts))),), gone.recording
            )
        content = b"".join((there.closing, *parts))
        if before:
            return Planned(len(parts), (FileChange("create", path, before + content),), gone.recording)
        size = files.size(path) or 0
        return Planned(len(parts), (FileChange("append", path, content, from_offset=size),), gone.recording)

    def changed(self, path: str) -> None:
        """Read a session's file again before the next append: another plan changes it. Runs in the writer's thread."""
        self._known.pop(path, None)

    def join(self, kept: str, other: str, session_id: NodeId, now: datetime) -> Plan[int]:
        """Plan to append to a session's file the turns that only another file of the same session holds; count them.

        The other file is deleted, as a run that holds its content, unless it holds a secret, which no run may.
        """
        return lambda files: self._join(files, kept, other, session_id, now)

    def _join(self, files: PendingFiles, kept: str, other: str, session_id: NodeId, now: datetime) -> Planned[int]:
        if not files.exists(kept) or not files.exists(other):
            return Planned(0)
        there, image = files.read(kept), files.read(other)
        parsed = session.parse(there)
        known = {session.identity(turn) for turn in parsed.turns}
        turns = [replace(turn, text=self._door.turn(turn.text)) for turn in session.parse(image).turns]
        fresh = [turn for turn in turns if session.identity(turn) not in known]
        changes = []
        # The other file's turns get the next numbers of this one: those it has are cited already.
        if fresh:
            content = session.continuation(parsed, fresh)
            changes.append(FileChange("append", kept, content, from_offset=len(there)))
            self._known.pop(kept, None)
        # A run holds the deleted file's content, and the history may hold no secret: then the file stays.
        if places_of_secrets(image):
            return Planned(len(fresh), changes)
        changes.append(FileChange("delete", other, pre_sha256=sha256(image)))
        run = Run(new_run_id(now, JOINED), JOINED, "applied", now, now, summary={"deleted": 1, "note": JOINED_NOTE})
        action = replace(deletion(other, image, is_session=True, now=now), stage=JOINED, reason=JOINED_NOTE)
        return Planned(
            len(fresh), changes, (records.record_run(run), *record_deletion(run.run_id, 0, action, image, now))
        )

    def _path_of(self, session_id: NodeId, files: PendingFiles) -> str | None:
        """Return the path of a session's file: one session has one file, whatever the days of its turns.

        The index knows a file once it has read it. Until then the path is known from here, or, after a crash, from the
        files that wait to be placed.
        """
        indexed = self._path_of_node(session_id)
        return indexed or self._created.get(session_id) or files.path_named(f"{session_id}.md", SESSIONS_FOLDER)

    def _note_created(self, session_id: NodeId, path: str) -> None:
        """Note the path of a new session, and drop those that are indexed each time that the number has doubled."""
        if len(self._created) >= self._created_until:
            self._created = {one: path for one, path in self._created.items() if self._path_of_node(one) is None}
            self._created_until = max(UNINDEXED_IN_MIND, 2 * len(self._created))
        self._created[session_id] = path

    def _read(self, files: PendingFiles, path: str, session_id: NodeId) -> _Known | None:
        size = files.size(path)
        if size is None:
            return None
        # A file of another size was changed by a person or another program: it is read again.
        known = self._known.get(path)
        if known is not None and known.size == size:
            return known
        # While writes wait to be placed, the index is behind the file as it will be.
        if not files.is_ahead(path) and (read := self._as_read(path)) is not None:
            turns, tail = read
            if turns.last_offset + len(tail) == size:
                return _continued(turns, tail)
        return _parsed(files.read(path), session_id)

    def _noted(self, before: hashlib._Hash, content: bytes) -> hashlib._Hash:
        """Report and return the hash of a file with this content appended; `before` stays, as a plan may be refused."""
        sha256 = before.copy()
        sha256.update(content)
        self._redacted(sha256.digest())
        return sha256

    def _keep(self, path: str, known: _Known) -> None:
        self._known[path] = known
        self._known.move_to_end(path)
        while len(self._known) > SESSIONS_IN_MIND:
            self._known.popitem(last=False)


def is_among(turn: Turn, there: Sequence[Turn]) -> bool:
    """Return True for a turn without an outside id that is there already; its text may have been purged."""
    for one in there:
        is_erased = session.ERASED in (one.text, turn.text)
        is_in_place = (one.ordinal, one.at, one.role) == (turn.ordinal, turn.at, turn.role)
        if is_in_place and (is_erased or turn.at is not None or one.text == turn.text):
            return True
        if turn.at is not None and (one.at, one.role, one.text) == (turn.at, turn.role, turn.text):
            return True
    return False


def _parsed(data: bytes, session_id: NodeId) -> _Known:
    parsed = session.parse(data, session_id=session_id)
    ids = {turn.external_id for turn in parsed.turns if turn.external_id is not None}
    purged = frozenset(turn.external_id for turn in parsed.turns if turn.external_id and turn.text == session.ERASED)
    return _Known(len(data), parsed.next_ordinal, parsed.closing, ids, purged)


def _continued(turns: TurnsRead, tail: bytes) -> _Known:
    """Return the state of a file from its turns without the last, and its bytes from the last turn on."""
    end = session.parse(tail, next_ordinal=turns.last_ordinal)
    size = turns.last_offset + len(tail)
    return _Known(size, end.next_ordinal, end.closing, set(turns.external_ids), turns.purged)
