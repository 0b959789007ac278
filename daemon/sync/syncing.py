"""A sync: changes here become entries, those of other machines one run, and both go through the remote.

Every step may be done again, and a crash between two loses nothing: files are compared with entries, not with the
memory of a step.

1. fetch, and look for faults of our own segments (`peer.py`)
2. read new entries: turns are appended, the rest is noted as waiting; and join the clones of each remote
3. carry out the purges of others
4. write the changes here since the last sync as entries (`_publish`)
5. let in the entries that wait, as one run (`_let_in`), and write the merges among it as entries
6. after a purge: write our segments anew, without it
7. push

Example: both of two machines are offline. One changes fact F, the other forgets it. Each writes an entry after the same
one. Whoever syncs second finds two heads, of which `gone` holds: F is gone on both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ...store import Selection, ToldTurn, lasting_name, root_of, told_of, turn_key
from ...store.model import Action, InvalidInput, NodeId, SessionHead, StoreError, Turn
from .entries import GONE, PROJECT, SHARED, THERE, TOMBSTONE, Known, Standing, SyncEntry
from .peer import News, Peer
from .segments import machine_of

if TYPE_CHECKING:
    from ...store import LocalFile, MemoryStore

CURSOR: Final = "cursor:"
ERASED: Final = "[erased]"
"""The text of a turn that was purged."""

FILE: Final = "file:"
"""Before the path of a session, whose standing is the size up to which its turns are entries."""

CONTINUED: Final = " (went on on two machines)"
"""After the title of such a session."""

PASSED_OVER: Final = "passed over"
"""The note of a channel that stays out, and of which turns were not let in."""

Pieces = dict[str, list[tuple[SyncEntry, dict[str, Standing]]]]


@dataclass(slots=True)
class Outcome:
    """The outcome of a sync: entries written and read, turns added, and the run that let in the changes of others."""

    written: int = 0
    read: int = 0
    turns: int = 0
    run_id: str | None = None
    changed: int = 0
    purges_wait: bool = False
    pushed: bool = False
    notes: list[str] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        """Add the counts of another sync."""
        self.written, self.read, self.turns = (
            self.written + other.written,
            self.read + other.read,
            self.turns + other.turns,
        )
        self.changed, self.run_id = self.changed + other.changed, other.run_id or self.run_id
        self.notes += other.notes


class Syncing:
    """Carries out syncs of one store. One at a time: `gate` is held by the caller.

    `is_off` tells whether a channel stays on this machine. `may_purge`: no dream runs, so purges of others may be
    carried out.
    """

    def __init__(
        self,
        store: MemoryStore,
        known: Known,
        peer: Peer,
        is_off: Callable[[str], bool],
        now: Callable[[], datetime],
    ) -> None:
        self._store = store
        self._replica = store.replica
        self._known = known
        self._peer = peer
        self._is_off = is_off
        self._now = now
        self.before_change: Callable[[], None] = lambda: None
        """Called before the changes of others are let in, where there are any."""

    def run(self, *, may_purge: bool, keep_machine: Callable[[str], None]) -> Outcome:
        """Sync once. `keep_machine` is told a new id of this machine before anything is written under it.

        Raises RemoteAway and Contended; all that was read or written until then stays, and the next sync goes on.
        """
        outcome, written = Outcome(), self._peer.written
        self._replica.settle()
        self._peer.fetch()
        if self._peer.look_at_own():
            self._begin_anew(outcome, keep_machine)
        elif self._peer.machine not in self._known.machines():
            self._introduce(None)
        self._read(outcome)
        self._join_clones()
        if self._known.machines().get(self._peer.machine, ("", False))[1]:
            self._introduce(None, stays=True)  # a copy of this machine's data goes on elsewhere, as another
        if may_purge:
            self._carry_out_purges()
        elif any(not done for _, _, _, done, _ in self._known.purges()):
            outcome.purges_wait = True  # nothing of it may come into the history first
            return outcome
        self._tell_purges()
        here = self._replica.memories()
        self._publish(here)
        if self._let_in(here, outcome):
            self._publish(self._replica.memories())
        if self._known.note("rewrite"):
            self._rewrite()
        outcome.pushed = self._peer.push()
        outcome.written = self._peer.written - written
        return outcome

    def waiting(self) -> tuple[int, int]:
        """Return how many memories here are no entries yet, and how many nodes are not let in."""
        here = self._replica.memories()
        standing = self._known.standing()
        ours = sum(node not in standing or standing[node].sha != file.sha256 for node, file in self._syncable(here))
        return ours, len(self._known.pending())

    # ---- 1, 2: reading

    def _begin_anew(self, outcome: Outcome, keep_machine: Callable[[str], None]) -> None:
        from .peer import new_machine_id

        old, new = self._peer.machine, new_machine_id()
        keep_machine(new)
        lost = self._peer.begin_anew(new)
        self._introduce(None if lost else old)
        pieces: Pieces = {}
        for entry in lost:
            pieces.setdefault(str(entry.body.get("channel") or SHARED), []).append((entry, {}))
        self._write(pieces)
        outcome.notes.append(
            f"a backup was put back here, or the data folder copied: what had gone on without it as {old} is read, and "
            f"this machine is {new} from now on; there is nothing to do"
        )

    def _introduce(self, was: str | None, *, stays: bool = False) -> None:
        entry = self._peer.introduction(was, stays=stays)
        self._peer.write(SHARED, [(entry, {})])
        self._known.set_machine(self._peer.machine, str(entry.body["host"]), was, stays=stays)

    def _read(self, outcome: Outcome) -> None:
        passed_over = self._known.note(PASSED_OVER)
        is_let_in = bool(passed_over) and not self._is_off(passed_over)
        if is_let_in:  # its turns are read again; all else is known by now
            self._known.forget_places(list(self._known.places()))
            self._known.set_note(PASSED_OVER, "")
        news = self._peer.news()
        turns: dict[NodeId, list[ToldTurn]] = {}
        heads: dict[NodeId, SessionHead] = {}
        purged = {node for _, nodes, _, _, _ in self._known.purges() for node in nodes}
        purged |= {str(node) for entry, _, _ in news.entries if entry.kind == "purge" for node in entry.body["nodes"]}
        for entry, ref, _ in news.entries:
            if (told := _told(entry, ref)) is not None:
                if is_let_in or not self._known.has(entry.entry_id):
                    turns.setdefault(root_of(told.turn.session_id), []).append(told)
            elif (head := entry.head) is not None:
                heads.setdefault(str(entry.body["session"]), head)
        if turns:
            self._replica.settle_index()
        # Turns first, and before they count as read: done again after a crash, they are known by then.
        for session_id, some in turns.items():
            outcome.turns += self._add_session(session_id, some, heads, purged, outcome)
        seen = {entry.entry_id for entry, _, _ in news.entries}
        lost = [one for ref in sorted(news.rewritten) for one in self._known.of_segment(ref) - seen]
        self._known.add(news.entries, news.places)
        outcome.read = len(news.entries)
        self._note_others(news)
        self._write_again(lost)
        if news.rewritten:
            self._peer.prune()

    def _join_clones(self) -> None:
        """Note the channels that clones of a remote have elsewhere, behind those that they have here."""
        here = {_link(remote, channel).entry_id for remote, channel in self._replica.links()}
        for named in sorted({*self._known.of_node(f"{PROJECT}:")} - here):  # in one order on every machine
            entry = self._peer.entry(named)
            if entry is None:
                continue
            try:
                self._replica.link(str(entry.body.get("remote")), str(entry.body.get("channel")))
            except InvalidInput as error:
                self._known.set_aside(f"{PROJECT} {named[:10]}", str(error))

    def _head_of(self, root: NodeId, heads: Mapping[NodeId, SessionHead], line: NodeId) -> SessionHead:
        """Return the head of a line as it is here, or as an entry has it, or else that of its session, as a line's."""
        for session_id in dict.fromkeys((line, root)):
            path = self._replica.session_path(session_id)
            head = self._replica.session(path)[0] if path else heads.get(session_id) or self._known_head(session_id)
            if head is not None:
                return head if session_id == line else _line(head, line)
        return SessionHead(line, SHARED)

    def _known_head(self, session_id: NodeId) -> SessionHead | None:
        entries = map(self._peer.entry, self._known.of_node(f"session:{session_id}"))
        return next((entry.head for entry in entries if entry is not None), None)

    def _add_session(
        self,
        root: NodeId,
        told: Sequence[ToldTurn],
        heads: Mapping[NodeId, SessionHead],
        purged: Collection[NodeId],
        outcome: Outcome,
    ) -> int:
        """Add the turns of a session and its lines, and return how many there were; impossible names are set aside."""
        lines = {one.turn.session_id for one in told}
        for channel in {self._head_of(root, heads, line).channel for line in lines}:
            if self._is_off(channel):
                self._known.set_note(PASSED_OVER, channel)
                return 0
        head = partial(self._head_of, root, heads)
        try:
            if not self._extends(root, told):
                return self._arrange(root, told, head, purged, outcome)
            turns = [_unless(purged, one.turn) for one in told]
            every = {line: [turn for turn in turns if turn.session_id == line] for line in lines}
            return sum(self._replica.add_turns(head(line), some) for line, some in every.items())
        except InvalidInput as error:
            self._known.set_aside(f"session {root}", f"its turns are not as turns are: {error}")
            return 0

    def _extends(self, root: NodeId, told: Sequence[ToldTurn]) -> bool:
        """Return True if each of these was written after the last turn of its file here, or of these."""
        if self._known.has_lines(root) or any(one.turn.session_id != root for one in told):
            # One turn may have been told of in two lines; then all that is known says in which it is.
            names = [lasting_name(one.turn) for one in told]
            here = set(map(lasting_name, self._replica.turns_of(root)))
            if len(set(names)) < len(names) or here.intersection(names) or any(one.after is None for one in told):
                return False
        last: dict[NodeId, Turn | None] = {}
        for one in sorted(told, key=lambda one: one.turn.ordinal):
            session_id = one.turn.session_id
            if session_id not in last:
                path = self._replica.session_path(session_id)
                last[session_id] = next(reversed(self._replica.session(path)[1]), None) if path else None
            before = last[session_id]
            if before is not None and before.ordinal >= one.turn.ordinal:
                return False
            if one.after not in (None, turn_key(before) if before else ""):
                return False
            last[session_id] = one.turn
        return True

    def _arrange(
        self,
        root: NodeId,
        told: Sequence[ToldTurn],
        head: Callable[[NodeId], SessionHead],
        purged: Collection[NodeId],
        outcome: Outcome,
    ) -> int:
        """Have the lines here that all known turns of a session make; return how many turns came in with that."""
        entries = [(self._peer.entry(entry_id), ref) for entry_id, ref in self._known.turns_of(root)]
        every = [*told, *(one for entry, ref in entries if entry is not None and (one := _told(entry, ref)))]
        ours = {turn_key(one.turn) for one in every if machine_of(one.writer) == self._peer.machine}
        others = {turn_key(one.turn) for one in every} - ours
        moved = self._replica.arrange(root, every, head, purged, others)
        outcome.notes += [
            f"{session_id} went on elsewhere too: here it goes on as {lines[-1]}"
            for session_id, lines in moved.going_on.items()
        ]
        return moved.added + sum(self._replica.add_turns(head(line), new) for line, new in moved.lacking.items())

    def _write_again(self, lost: Sequence[str]) -> None:
        """Write entries again that vanished from the segment of another machine, but for purged ones."""
        if lost:
            self._replica.settle_index()
        purges = self._known.purges()
        purged = {node for _, nodes, _, _, _ in purges for node in nodes}
        texts: dict[NodeId, set[tuple[str, str]]] = {}
        pieces: Pieces = {}
        for entry in (found for one in lost if (found := self._peer.entry(one)) is not None):
            if (turn := entry.turn) is not None:
                root = root_of(turn.session_id)
                if root not in texts:
                    texts[root] = {(turn_key(one), one.text) for one in self._replica.turns_of(root)}
                is_wanted = (turn_key(turn), turn.text) in texts[root] and all(done for _, _, _, done, _ in purges)
            elif entry.sha:
                is_wanted = entry.entry_id in self._known.heads(entry.node) and (
                    entry.node not in purged or self._is_said_again(entry)
                )
            else:
                is_wanted = entry.kind != "machine"
            if is_wanted:
                pieces.setdefault(str(entry.body.get("channel") or SHARED), []).append((entry, {}))
        self._write(pieces)

    def _is_said_again(self, entry: SyncEntry) -> bool:
        """Return True for a memory that was purged, and is here: that was said again since, and is no old entry."""
        here = self._replica.memories().get(entry.node)
        return here is not None and here.sha256 == entry.sha

    def _note_others(self, news: News) -> None:
        for entry, _, _ in news.entries:
            body = entry.body
            if entry.kind == "machine":
                host, stays = str(body.get("host")), bool(body.get("stays"))
                self._known.set_machine(str(body["machine"]), host, body.get("was"), stays=stays)
            elif entry.kind == "purge":
                self._known.add_purge(entry, done=False)
        for entry, _, _ in news.entries:
            if entry.kind == "erased":
                self._known.acknowledge(str(entry.body["order"]), str(entry.body["machine"]))

    # ---- 3: purges

    def _carry_out_purges(self) -> None:
        orders = [(order, nodes, secrets) for order, nodes, secrets, done, _ in self._known.purges() if not done]
        if not orders:
            return
        self._replica.settle_index()
        named = {node for _, some, _ in orders for node in some}
        turns = [
            turn
            for root in {_session_of(node) for node in named if "!" in node}
            for turn in self._replica.turns_of(root)
        ]
        nodes = sorted(named | {turn.node_id for turn in turns if lasting_name(turn) in named})
        if nodes:
            self._store.purge(Selection(nodes=tuple(nodes), if_there=True))
        if any(secrets for _, _, secrets in orders):
            self._store.purge(Selection(secrets=True))
        self._known.set_note("rewrite", "due")
        for order, _, _ in orders:
            entry = SyncEntry({"kind": "erased", "order": order, "machine": self._peer.machine})
            self._peer.write(SHARED, [(entry, {})])
            self._known.acknowledge(order, self._peer.machine)
            self._known.carried_out(order)

    def _tell_purges(self) -> None:
        """Write the purges of this machine as entries: every node of them that was ever an entry is gone."""
        known_ids = {node for _, nodes, _, _, _ in self._known.purges() for node in nodes}
        for number, nodes, secrets in self._known.erased():
            pieces: list[tuple[SyncEntry, dict[str, Standing]]] = []
            for node in nodes:
                heads = self._known.heads(node)
                if heads and set(heads.values()) != {GONE}:
                    entry = SyncEntry({"kind": GONE, "node": node, "why": "purged", "parents": sorted(heads)})
                    pieces.append((entry, {node: Standing(GONE, (entry.entry_id,))}))
            if secrets or not known_ids.issuperset(nodes):
                order = SyncEntry({"kind": "purge", "nodes": nodes, "secrets": secrets, "at": self._now().isoformat()})
                ack = SyncEntry({"kind": "erased", "order": order.entry_id, "machine": self._peer.machine})
                pieces += [(order, {}), (ack, {})]
                self._known.add_purge(order, done=True)
                self._known.acknowledge(order.entry_id, self._peer.machine)
            self._peer.write(SHARED, pieces)
            self._known.set_note("rewrite", "due")
            self._known.told(number)

    def note_erased(self, nodes: Collection[NodeId], secrets: bool) -> None:
        """Note a purge of this machine, by names that last: the number of a turn is another's once it has moved."""
        sessions = {root_of(_session_of(node)) for node in nodes if "#" in node}
        turns = {turn.node_id: lasting_name(turn) for root in sessions for turn in self._replica.turns_of(root)}
        self._known.note_erased({turns.get(node, node) for node in nodes}, secrets=secrets)

    def _rewrite(self) -> None:
        """Write our segments anew: of memories the heads alone, turns as they are here."""
        self._replica.settle_index()
        purged = {node for _, nodes, _, _, _ in self._known.purges() for node in nodes}
        erased = {root_of(_session_of(node)) for node in purged}
        sessions: dict[NodeId, Mapping[str, Turn]] = {}

        def look(root: NodeId) -> Mapping[str, Turn]:
            if root not in sessions:
                sessions[root] = {lasting_name(turn): turn for turn in self._replica.turns_of(root)}
            return sessions[root]

        def kept(entry: SyncEntry) -> SyncEntry | None:
            if entry.kind == "memory":
                is_kept = entry.node not in purged or self._is_said_again(entry)
                return entry if is_kept and entry.entry_id in self._known.heads(entry.node) else None
            if entry.kind not in ("turn", "session"):
                return entry
            session_id = str(entry.body["session"])
            if entry.kind == "session":
                path = self._replica.session_path(session_id)
                return SyncEntry({**entry.body, "head": _head(self._replica.session(path)[0])}) if path else entry
            here = look(root_of(session_id)).get(lasting_name(entry.turn)) if entry.turn else None
            if here is not None:
                return SyncEntry({**entry.body, "text": here.text})
            return None if root_of(session_id) in erased else entry

        self._peer.rewrite(kept)
        self._known.set_note("rewrite", "")
        self._known.set_note("prune", "due")

    # ---- 4: changes here

    def _syncable(self, files: Mapping[NodeId, LocalFile]) -> Iterator[tuple[NodeId, LocalFile]]:
        return ((node, file) for node, file in files.items() if not self._is_off(file.channel))

    def _publish(self, here: Mapping[NodeId, LocalFile]) -> None:
        pieces: Pieces = {}
        self._add_sessions(pieces)
        self._add_memories(here, pieces)
        self._add_registers(here, pieces)
        self._add_links(pieces)
        self._write(pieces)

    def _write(self, pieces: Pieces) -> None:
        for channel, some in pieces.items():
            self._peer.write(channel, some)

    def _add_memories(self, here: Mapping[NodeId, LocalFile], pieces: Pieces) -> None:
        standing = self._known.standing()
        adopted: dict[str, Standing] = {}
        for node, file in self._syncable(here):
            stands = standing.get(node)
            if stands is not None and stands.sha == file.sha256 and len(stands.heads) == 1:
                continue
            found = self._as_known(node, file, stands)
            if found is not None:
                if found != stands:
                    adopted[node] = found
                continue
            data = self._replica.content(file.path)
            if data is None or hashlib.sha256(data).hexdigest() != file.sha256:
                continue  # it is being changed: the next sync sees it
            if self._replica.holds_secret(data):
                self._known.set_aside(node, "its file holds a secret: take that out first")
                continue
            body: dict[str, Any] = {"kind": "memory", "node": node, "channel": file.channel, "level": file.level.value}
            body |= {"text": data.decode("utf-8", "surrogateescape"), "parents": sorted(stands.heads if stands else ())}
            entry = SyncEntry(body, file.path)
            pieces.setdefault(file.channel, []).append((entry, {node: Standing(file.sha256, (entry.entry_id,))}))
            self._known.set_aside(node, None)
        away = {node: one for node, one in standing.items() if one.sha != GONE and node not in here}
        for node, stands in self._deleted(away).items():
            entry = SyncEntry({"kind": GONE, "node": node, "why": "deleted", "parents": sorted(stands.heads)})
            pieces.setdefault(SHARED, []).append((entry, {node: Standing(GONE, (entry.entry_id,))}))
        self._known.stand(adopted) if adopted else None

    def _deleted(self, away: Mapping[NodeId, Standing]) -> dict[NodeId, Standing]:
        """Return those of the memories whose files are not there that are believed to be deleted."""
        away = {node: stands for node, stands in away.items() if not _is_register(node)}
        if away:
            self._replica.settle_index()
        return {node: stands for node, stands in away.items() if self._replica.is_deleted(node)}

    def _as_known(self, node: NodeId, file: LocalFile, stands: Standing | None) -> Standing | None:
        """Return the entries that a file comes of although nothing was noted: after a crash, or a backup put back."""
        heads = self._known.heads(node)
        if stands is not None and len(stands.heads) > 1 and stands.sha == file.sha256:
            contents = {sha for head, sha in heads.items() if head in stands.heads}
            return stands if contents == {file.sha256} else None
        if heads and set(heads.values()) == {file.sha256}:
            return Standing(file.sha256, tuple(heads))
        if stands is None:
            older = self._known.with_content(node, file.sha256)
            return Standing(file.sha256, tuple(older[:1])) if older else None
        return None

    def _add_sessions(self, pieces: Pieces) -> None:
        sizes = self._known.standing(FILE)
        for path, size in self._replica.sessions():
            stands = sizes.get(FILE + path)
            if stands is not None and stands.sha == str(size):
                continue
            head, turns = self._replica.session(path)
            if self._is_off(head.channel):
                continue
            some = pieces.setdefault(head.channel, [])
            if not self._known.of_node(f"session:{head.session_id}"):
                some.append((SyncEntry({"kind": "session", "session": head.session_id, "head": _head(head)}), {}))
            some += [(one, {}) for told in told_of(turns) if (one := self._new_turn(told, head.channel)) is not None]
            done = {FILE + path: Standing(str(size), ())}
            if some:
                some[-1][1].update(done)
            else:
                self._known.stand(done)
        for channel in [channel for channel, some in pieces.items() if not some]:
            del pieces[channel]

    def _new_turn(self, told: ToldTurn, channel: str) -> SyncEntry | None:
        """Return the entry of a turn, None where there is one, perhaps from before they named the turn before."""
        turn = told.turn
        at = turn.at.isoformat() if turn.at else None
        body = {"kind": "turn", "session": turn.session_id, "ordinal": turn.ordinal, "role": turn.role, "at": at}
        body |= {"external_id": turn.external_id, "text": turn.text, "channel": channel}
        entry = SyncEntry({**body, "after": told.after})
        is_known = self._known.has(entry.entry_id) or self._known.has(SyncEntry(body).entry_id)
        return None if is_known else entry

    def _never_written(self, keys: Collection[str], files: Mapping[NodeId, LocalFile]) -> Iterator[SyncEntry]:
        """Yield entries of memories forgotten here before they were one: elsewhere or in a backup they may still be."""
        standing = self._known.standing() if keys else {}
        for node in sorted({node for key in keys for node in self._replica.forgotten_under(key)}):
            if node not in files and node not in standing:
                yield SyncEntry(
                    {"kind": GONE, "node": node, "why": "forgotten", "parents": sorted(self._known.heads(node))}
                )

    def _add_registers(self, files: Mapping[NodeId, LocalFile], pieces: Pieces) -> None:
        some: list[tuple[SyncEntry, dict[str, Standing]]] = []
        here, standing = set(self._replica.tombstones()), self._known.standing(TOMBSTONE)
        there = {node.removeprefix(TOMBSTONE) for node, one in standing.items() if one.sha != GONE}
        for key in sorted(here ^ there):
            node, kind = f"{TOMBSTONE}{key}", "tombstone" if key in here else "lifted"
            stands = standing.get(node)
            entry = SyncEntry({"kind": kind, "key": key, "parents": sorted(stands.heads) if stands else []})
            some.append((entry, {node: Standing(entry.sha, (entry.entry_id,))}))
        for entry in self._never_written(here - there, files):
            some.append((entry, {entry.node: Standing(GONE, (entry.entry_id,))}))
        cursors = self._known.standing(CURSOR)
        for session_id, ordinal in sorted(self._replica.cursors().items()):
            node = f"{CURSOR}{session_id}"
            if node not in cursors or int(cursors[node].sha) < ordinal:
                entry = SyncEntry({"kind": "cursor", "session": session_id, "ordinal": ordinal})
                some.append((entry, {node: Standing(str(ordinal), (entry.entry_id,))}))
        if some:
            pieces.setdefault(SHARED, []).extend(some)

    def _add_links(self, pieces: Pieces) -> None:
        for remote, channel in self._replica.links():
            entry = _link(remote, channel)
            if not self._is_off(channel) and not self._known.has(entry.entry_id):
                pieces.setdefault(channel, []).append((entry, {}))

    # ---- 5: changes elsewhere

    def _let_in(self, here: Mapping[NodeId, LocalFile], outcome: Outcome) -> bool:
        """Let in the entries that wait; return True where that leaves something to be written: merges, and disputes."""
        waiting = self._known.pending()
        self._let_in_tombstones([node for node in waiting if node.startswith(TOMBSTONE)])
        nodes = [node for node in waiting if not _is_register(node)]
        plan = _LetIn(here, self._known.standing_of(nodes))
        for node in nodes:
            self._plan_node(node, plan)
        for earlier, later in plan.rivals:
            self._settle_rivals(earlier, later, plan)
        self._known.stand(plan.stands)
        if plan.actions:
            changes = "1 change" if len(plan.actions) == 1 else f"{len(plan.actions)} changes"
            note = f"{changes} came from other machines"
            actions = sorted(plan.actions, key=lambda action: plan.levels.get(action.node_id, ""))
            self.before_change()
            applied = self._replica.apply(actions, note)
            skipped = {one.node_id: one.reason for one in applied.skipped}
            self._known.stand({node: one for node, one in plan.after.items() if node not in skipped})
            for action in actions:
                self._known.set_aside(action.node_id, skipped.get(action.node_id))
            outcome.run_id, outcome.changed = applied.run_id, applied.applied
        # Last: a session counts as read by dreams only with what these made of it.
        self._let_in_cursors([node for node in waiting if node.startswith(CURSOR)])
        return plan.is_merging

    def _let_in_tombstones(self, nodes: Sequence[str]) -> None:
        here, left, lifted = set(self._replica.tombstones()), list[str](), list[str]()
        stands: dict[str, Standing] = {}
        for node in nodes:
            key, heads = node.removeprefix(TOMBSTONE), self._known.heads(node)
            is_there = THERE in heads.values()
            stands[node] = Standing(THERE if is_there else GONE, tuple(heads))
            if is_there != (key in here):
                (left if is_there else lifted).append(key)
        self._replica.change_tombstones(left, lifted)
        self._known.stand(stands)

    def _plan_node(self, node: NodeId, plan: _LetIn) -> None:
        heads, stands, here = self._known.heads(node), plan.standing.get(node), plan.here.get(node)
        if not heads or (stands is not None and set(stands.heads) == set(heads)):
            self._known.let_go([node])
            return
        if here is None and stands is not None and stands.sha != GONE:
            return  # its file vanished, and may come back: nobody deleted it yet
        is_written = here is None or (stands is not None and stands.sha == here.sha256)
        if not is_written and here is not None and set(heads.values()) != {here.sha256}:
            return  # it was changed here meanwhile: that becomes an entry first
        if GONE in heads.values():
            self._plan_gone(node, heads, here, plan)
            return
        versions = {head: entry for head in heads if (entry := self._peer.entry(head)) is not None}
        if len(versions) < len(heads) and node in {one for _, nodes, _, _, _ in self._known.purges() for one in nodes}:
            self._known.drop([head for head in heads if head not in versions])  # it was purged where it was written
            self._plan_node(node, plan)
            return
        if len(versions) < len(heads):
            self._known.set_aside(node, "an entry of it cannot be read")
            return
        first = next(iter(versions.values()))
        if self._is_off(str(first.body["channel"])):
            return
        before = self._known.common(list(heads)) if len(heads) > 1 else None
        ancestor = self._peer.entry(before) if before else None
        result = self._replica.merged(
            {head: entry.data for head, entry in versions.items()},
            ancestor.data if ancestor is not None and ancestor.kind == "memory" else None,
        )
        plan.levels[node] = str(first.body.get("level", ""))
        plan.is_merging = plan.is_merging or len(heads) > 1
        self._put(node, result.data, first.path, heads, plan)
        plan.rivals += result.rivals
        for other, data in result.beside:
            if other not in plan.here and not self._known.heads(other):
                plan.levels[other] = plan.levels[node]
                self._put(other, data, None, {}, plan)

    def _put(self, node: NodeId, data: bytes, path: str | None, heads: Collection[str], plan: _LetIn) -> None:
        after = Standing(hashlib.sha256(data).hexdigest(), tuple(heads))
        here = plan.here.get(node)
        if here is not None and here.sha256 == after.sha:
            plan.stands[node] = after
            return
        try:
            plan.actions.append(self._replica.putting(node, data, path, here))
        except StoreError as error:
            self._known.set_aside(node, str(error))
            return
        plan.contents[node] = data
        if heads:
            plan.after[node] = after

    def _plan_gone(self, node: NodeId, heads: Collection[str], here: LocalFile | None, plan: _LetIn) -> None:
        gone = Standing(GONE, tuple(heads))
        if here is None:
            plan.stands[node] = gone
        else:
            plan.actions.append(self._replica.dropping(here))
            plan.after[node] = gone

    def _settle_rivals(self, earlier: NodeId, later: NodeId, plan: _LetIn) -> None:
        """Dispute two memories that replaced the same one on two machines, where both are here and hold."""
        for one, other in ((earlier, later), (later, earlier)):
            here = plan.here.get(one)
            before = plan.contents.get(one) or (self._replica.content(here.path) if here else None)
            after = self._replica.disputed(before, other) if before else None
            if before is None or after is None or other not in {*plan.here, *plan.contents}:
                continue
            # Nothing is noted as standing of it: so the next step writes it as an entry of ours.
            planned = [action for action in plan.actions if action.node_id == one]
            plan.actions = [action for action in plan.actions if action.node_id != one]
            if planned:
                plan.actions.append(replace(planned[0], content=after))
            elif here is not None:
                plan.actions.append(self._replica.putting(one, after, None, here))
            plan.contents[one] = after

    def _let_in_cursors(self, nodes: Sequence[str]) -> None:
        ordinals = {node: max(map(int, self._known.heads(node).values()), default=0) for node in nodes}
        self._replica.move_cursors({node.removeprefix(CURSOR): ordinal for node, ordinal in ordinals.items()})
        self._known.stand({node: Standing(str(ordinal), ()) for node, ordinal in ordinals.items()})


@dataclass(slots=True)
class _LetIn:
    """The changes to let in. `stands`: nothing has to change for it; `after`: true once the run is applied."""

    here: Mapping[NodeId, LocalFile]
    standing: Mapping[str, Standing]
    actions: list[Action] = field(default_factory=list)
    stands: dict[str, Standing] = field(default_factory=dict)
    after: dict[str, Standing] = field(default_factory=dict)
    contents: dict[NodeId, bytes] = field(default_factory=dict)
    levels: dict[NodeId, str] = field(default_factory=dict)
    rivals: list[tuple[NodeId, NodeId]] = field(default_factory=list)
    is_merging: bool = False


def _link(remote: str, channel: str) -> SyncEntry:
    return SyncEntry({"kind": PROJECT, "remote": remote, "channel": channel})


def _is_register(node: str) -> bool:
    return node.startswith((TOMBSTONE, CURSOR, FILE))


def _head(head: SessionHead) -> dict[str, Any]:
    started = head.started_at.isoformat() if head.started_at else None
    return {**asdict(head), "started_at": started}


def _line(head: SessionHead, line: NodeId) -> SessionHead:
    title = head.title if head.title.endswith(CONTINUED) else f"{head.title or head.session_id}{CONTINUED}"
    return replace(head, session_id=line, title=title)


def _session_of(node: NodeId) -> NodeId:
    return node.partition("!")[0].partition("#")[0]


def _unless(purged: Collection[NodeId], turn: Turn) -> Turn:
    """Return a turn, without its text where it is purged."""
    is_purged = {turn.session_id, turn.node_id, lasting_name(turn)}.intersection(purged)
    return replace(turn, text=ERASED) if is_purged else turn


def _told(entry: SyncEntry, ref: str) -> ToldTurn | None:
    """Return the turn of an entry with the key of the one before; None for an entry of another kind."""
    turn, after = entry.turn, entry.body.get("after")
    return None if turn is None else ToldTurn(turn, None if after is None else str(after), ref)
