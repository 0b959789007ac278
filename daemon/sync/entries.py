"""Entries of segments, and the graph of those that are known here.

A segment is the append-only list of the changes of one machine in one channel. An entry is a line of JSON:

    {"seq": 7, "at": "2026-11-26T20:00:00+00:00", "id": "9f…", "body": {"kind": "memory", …}, "path": "projects/…"}

`id` is the SHA-256 of the body, in canonical form (keys sorted, no spaces, ASCII): the same entry of two machines has
one id, and the second is nothing new. `seq` counts within the segment. `path` is where the file lay, a wish of its
writer.

| kind | body | means |
|---|---|---|
| machine | machine, host, was | the first entry of a machine; `was`: its id before a backup was put back |
| machine | machine, host, was, stays | a machine has that id still: the one that told otherwise is a copy of it |
| session | session, head | the head of a session, before its first turn |
| turn | session, ordinal, role, at, external_id, text, channel, after | one turn; `after`: the key of the one before |
| memory | node, channel, level, text, parents | a memory's file, and the entries that it was written after |
| gone | node, why, parents | a memory that was forgotten, deleted, undone or purged |
| tombstone, lifted | key, parents | a key that forbids dreams something, or hides a turn; and its end |
| cursor | session, ordinal | how far dreams have read a session |
| project | remote, channel | clones of the remote of this hash keep their memories in this channel |
| purge | nodes, secrets, at | ids (of turns the lasting names) that are to be erased everywhere, or all secrets |
| erased | order, machine | a machine has carried out that purge |

Successors, marks, disputes and reviews are in the files, and so in `memory`. Entries of one node form a
graph by their `parents`. Its heads are those that no other was written after. One head: it holds. Several: machines
wrote without knowing of each other; a `gone` among them holds, else the versions are merged
(`store/upkeep/merging.py`), and the merge is an entry after all of them. So the state is a function of the set of
entries, whatever their order and the clocks. Turns form a tree by `after`, and its lines are a function of
the set as well (`session_lines`, there). Turns of before have no `after`: they follow the nearest smaller number, of
their own writer if there is one.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import apsw

from ...store.model import SessionHead, Turn

GONE: Final = "gone"
"""In place of the hash of a file: there is none."""

STAYS: Final = -1
"""In the state of a machine: it has its id, whatever another said of it."""

THERE: Final = "there"
"""In place of the hash of a tombstone."""

TOMBSTONE: Final = "tombstone:"
"""Before a tombstone's key, as the node of its entries; the present one is the state that wins."""

PROJECT: Final = "project"
"""The kind of the entries that say which channels are of one project, whose clones have one remote."""

SHARED: Final = "_global"
"""The channel of entries that are of none."""

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS entry (
    id TEXT PRIMARY KEY, node TEXT NOT NULL, kind TEXT NOT NULL, sha TEXT NOT NULL, ref TEXT NOT NULL,
    batch TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS entry_by_node ON entry (node);
CREATE INDEX IF NOT EXISTS entry_by_ref ON entry (ref);
CREATE TABLE IF NOT EXISTS parent (
    parent TEXT NOT NULL, child TEXT NOT NULL, PRIMARY KEY (parent, child)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS parent_by_child ON parent (child);
CREATE TABLE IF NOT EXISTS base (node TEXT PRIMARY KEY, sha TEXT NOT NULL, heads TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS pending (node TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS place (
    ref TEXT PRIMARY KEY, tip TEXT NOT NULL, pushed TEXT, seq INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS purge (
    id TEXT PRIMARY KEY, nodes TEXT NOT NULL, secrets INTEGER NOT NULL, done INTEGER NOT NULL, acks TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS erasure (nodes TEXT NOT NULL, secrets INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS aside (name TEXT PRIMARY KEY, reason TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS machine (id TEXT PRIMARY KEY, host TEXT NOT NULL, retired INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS note (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
"""base: of each node the content here that entries stand for (its hash), and these entries. pending: nodes of which
there are entries that are not let in. place: how far a segment was read, or pushed. No content is in any of them."""


def canonical(body: Mapping[str, Any]) -> bytes:
    """Return the bytes that an entry's id is the hash of."""
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class SyncEntry:
    """One entry of a segment."""

    body: Mapping[str, Any]
    path: str | None = None
    seq: int = 0
    at: str = ""

    @property
    def entry_id(self) -> str:
        """The hash of its body."""
        return hashlib.sha256(canonical(self.body)).hexdigest()

    @property
    def kind(self) -> str:
        """The kind of its body."""
        return str(self.body.get("kind"))

    @property
    def node(self) -> str:
        """The node that it is about; entries of one node form a graph."""
        body = self.body
        if self.kind in ("memory", GONE):
            return str(body["node"])
        if self.kind in ("tombstone", "lifted"):
            return f"{TOMBSTONE}{body['key']}"
        return f"{self.kind}:{body.get('session', '')}"

    @property
    def data(self) -> bytes:
        """The file of a memory."""
        return str(self.body["text"]).encode("utf-8", "surrogateescape")

    @property
    def sha(self) -> str:
        """The state that it brings: the hash of a memory's file, GONE for none, a cursor's ordinal; else ""."""
        if self.kind == "memory":
            return hashlib.sha256(self.data).hexdigest()
        if self.kind == "cursor":
            return str(int(self.body["ordinal"]))
        return {GONE: GONE, "lifted": GONE, "tombstone": THERE}.get(self.kind, "")

    @property
    def turn(self) -> Turn | None:
        """The turn of it, as it was written; None for an entry of another kind."""
        if self.kind != "turn":
            return None
        body = self.body
        at = datetime.fromisoformat(body["at"]) if body["at"] else None
        external_id = None if body["external_id"] is None else str(body["external_id"])
        return Turn(str(body["session"]), int(body["ordinal"]), str(body["role"]), str(body["text"]), at, external_id)

    @property
    def head(self) -> SessionHead | None:
        """The head of a session; None for an entry of another kind."""
        if self.kind != "session":
            return None
        head = self.body["head"]
        started = head.get("started_at")
        return SessionHead(**{**head, "started_at": datetime.fromisoformat(started) if started else None})

    def line(self, seq: int, at: str) -> bytes:
        """Return it as a line of a segment."""
        written = {"seq": seq, "at": at, "id": self.entry_id, "body": self.body}
        return json.dumps(written | ({"path": self.path} if self.path else {}), sort_keys=True).encode() + b"\n"


def read_lines(data: bytes) -> Iterator[SyncEntry | str]:
    """Yield the entries of a batch, and, for one that is broken, the reason as a sentence."""
    for number, line in enumerate(data.splitlines(), 1):
        try:
            written = json.loads(line)
            entry = SyncEntry(written["body"], written.get("path"), int(written["seq"]), str(written["at"]))
            if not isinstance(entry.body, dict) or entry.entry_id != written["id"]:
                yield f"entry {number} is not what its id says"
                continue
            _ = entry.node, entry.sha, entry.turn, entry.head
            yield entry
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            yield f"entry {number} cannot be read"


@dataclass(frozen=True, slots=True)
class Standing:
    """The content of a node that is here (its hash), and the entries that it comes of."""

    sha: str
    heads: tuple[str, ...]


class Known:
    """The entries that are known here, in a small database beside the segments; it can be made again from these.

    Every method may be called from any thread.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.RLock()
        self._db = apsw.Connection(str(path))
        path.chmod(0o600)
        self._all("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA secure_delete = ON;" + _TABLES)

    @classmethod
    def opened(cls, path: Path) -> Known:
        """Open the database; one that is damaged is made again, for all of it can be read again."""
        try:
            return cls(path)
        except (apsw.CorruptError, apsw.NotADBError):
            for file in path.parent.glob(f"{path.name}*"):
                file.unlink()
            return cls(path)

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._db.close()

    def _all(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock:
            return list(self._db.execute(sql, values))

    def _run(self, sql: str, *rows: Sequence[Any]) -> None:
        with self._lock, self._db:
            self._db.executemany(sql, rows)

    # ---- entries

    def add(
        self,
        entries: Iterable[tuple[SyncEntry, str, str]],
        places: Mapping[str, str],
        standing: Mapping[str, Standing] = MappingProxyType({}),
    ) -> None:
        """Note entries, each with segment and batch, how far segments were read, and the state here; as one."""
        with self._lock, self._db:
            for entry, ref, batch in entries:
                named = entry.entry_id
                is_new = not self._all("SELECT 1 FROM entry WHERE id = ?", named)
                self._db.execute(
                    "INSERT OR REPLACE INTO entry VALUES (?, ?, ?, ?, ?, ?)",
                    (named, entry.node, entry.kind, entry.sha, ref, batch),
                )
                parents = [(str(one), named) for one in entry.body.get("parents", ())]
                self._db.executemany("INSERT OR IGNORE INTO parent VALUES (?, ?)", parents)
                if entry.sha and is_new:
                    self._db.execute("INSERT OR IGNORE INTO pending (node) VALUES (?)", (entry.node,))
            self._db.executemany(
                "INSERT INTO place VALUES (?, ?, NULL, 0) ON CONFLICT (ref) DO UPDATE SET tip = excluded.tip",
                list(places.items()),
            )
            self._stand(standing)

    def stand(self, standing: Mapping[str, Standing]) -> None:
        """Note the state here, and the entries that it comes of; a node that has no others waits no longer."""
        with self._lock, self._db:
            self._stand(standing)

    def _stand(self, standing: Mapping[str, Standing]) -> None:
        rows = [(node, one.sha, " ".join(one.heads)) for node, one in standing.items()]
        self._db.executemany("INSERT OR REPLACE INTO base VALUES (?, ?, ?)", rows)
        # One that was changed here may have come from elsewhere too: then it waits on.
        settled = [(node,) for node, one in standing.items() if not one.heads or {*self.heads(node)} == {*one.heads}]
        self._db.executemany("DELETE FROM pending WHERE node = ?", settled)

    def has(self, entry_id: str) -> bool:
        """Return True for a known entry."""
        return bool(self._all("SELECT 1 FROM entry WHERE id = ?", entry_id))

    def heads(self, node: str) -> dict[str, str]:
        """Return the entries of a node that no other was written after, each with the hash of its content."""
        sql = (
            "SELECT id, sha FROM entry WHERE node = ?"
            " AND NOT EXISTS (SELECT 1 FROM parent WHERE parent.parent = entry.id) ORDER BY id"
        )
        return dict(self._all(sql, node))

    def with_content(self, node: str, sha: str) -> list[str]:
        """Return the entries of a node that have this content."""
        return [one for (one,) in self._all("SELECT id FROM entry WHERE node = ? AND sha = ?", node, sha)]

    def place_of(self, entry_id: str) -> tuple[str, str] | None:
        """Return the segment and the batch of an entry."""
        return next(iter(self._all("SELECT ref, batch FROM entry WHERE id = ?", entry_id)), None)

    def of_node(self, node: str) -> list[str]:
        """Return the entries of a node."""
        return [one for (one,) in self._all("SELECT id FROM entry WHERE node = ?", node)]

    def turns_of(self, session_id: str) -> list[tuple[str, str]]:
        """Return the turns of a session and its lines, each with its segment."""
        sql = "SELECT id, ref FROM entry WHERE node = ? OR (node >= ? AND node < ?) ORDER BY id"
        return [(one, ref) for one, ref in self._all(sql, f"turn:{session_id}", *_lines_of(session_id))]

    def has_lines(self, session_id: str) -> bool:
        """Return True for a session of which there are turns in other lines than its own."""
        return bool(self._all("SELECT 1 FROM entry WHERE node >= ? AND node < ? LIMIT 1", *_lines_of(session_id)))

    def of_segment(self, ref: str) -> set[str]:
        """Return the entries that were last seen in a segment."""
        return {one for (one,) in self._all("SELECT id FROM entry WHERE ref = ?", ref)}

    def common(self, entries: Collection[str]) -> str | None:
        """Return an entry that all of these were written after, the nearest; None where there is none."""
        older = [self._before(one) for one in entries]
        shared = set.intersection(*(set(one) for one in older)) if older else set()
        return min(shared, key=lambda one: (sum(distances[one] for distances in older), one), default=None)

    def _before(self, entry_id: str) -> dict[str, int]:
        """Return the entries that one was written after, with their distances."""
        sql = (
            "WITH RECURSIVE before(id, far) AS (SELECT parent, 1 FROM parent WHERE child = ?"
            " UNION SELECT parent, far + 1 FROM parent JOIN before ON child = before.id WHERE far < 1000)"
            " SELECT id, min(far) FROM before GROUP BY id"
        )
        return dict(self._all(sql, entry_id))

    def drop(self, entries: Collection[str]) -> None:
        """Forget entries that were purged; those after them keep their place in the graph."""
        self._run("DELETE FROM entry WHERE id = ?", *((one,) for one in entries))

    # ---- the state here, and the nodes that wait

    def standing(self, prefix: str = "") -> dict[str, Standing]:
        """Return the state here of every node whose name begins so."""
        rows = self._all(
            "SELECT node, sha, heads FROM base WHERE node >= ? AND node < ?", prefix, f"{prefix}\U0010ffff"
        )
        return {node: Standing(sha, tuple(heads.split())) for node, sha, heads in rows}

    def standing_of(self, nodes: Iterable[str]) -> dict[str, Standing]:
        """Return the state here of these nodes."""
        rows = (row for node in nodes for row in self._all("SELECT node, sha, heads FROM base WHERE node = ?", node))
        return {node: Standing(sha, tuple(heads.split())) for node, sha, heads in rows}

    def pending(self) -> list[str]:
        """Return the nodes of which there are entries that are not let in, in the order in which these came."""
        return [node for (node,) in self._all("SELECT node FROM pending ORDER BY rowid")]

    def let_go(self, nodes: Iterable[str]) -> None:
        """Have these nodes wait no longer."""
        self._run("DELETE FROM pending WHERE node = ?", *((node,) for node in nodes))

    def set_aside(self, name: str, reason: str | None) -> None:
        """Note why something could not be let in; None: it was."""
        if reason is None:
            self._run("DELETE FROM aside WHERE name = ?", (name,))
        else:
            self._run("INSERT OR REPLACE INTO aside VALUES (?, ?)", (name, reason))

    def aside(self) -> dict[str, str]:
        """Return the names of all that could not be let in, with the reasons."""
        return dict(self._all("SELECT name, reason FROM aside ORDER BY name"))

    # ---- segments and machines

    def places(self) -> dict[str, tuple[str, str | None, int]]:
        """Return of each segment how far it was read, how far pushed, and its last number."""
        return {ref: (tip, pushed, seq) for ref, tip, pushed, seq in self._all("SELECT * FROM place")}

    def set_place(self, ref: str, tip: str, seq: int) -> None:
        """Note the last batch and number of one of our own segments."""
        sql = (
            "INSERT INTO place VALUES (?, ?, NULL, ?)"
            " ON CONFLICT (ref) DO UPDATE SET tip = excluded.tip, seq = max(seq, excluded.seq)"
        )
        self._run(sql, (ref, tip, seq))

    def set_pushed(self, ref: str, tip: str | None) -> None:
        """Note how far the remote has one of our own segments."""
        self._run("UPDATE place SET pushed = ? WHERE ref = ?", (tip, ref))

    def forget_places(self, refs: Collection[str]) -> None:
        """Have these segments read again from their beginning."""
        self._run("DELETE FROM place WHERE ref = ?", *((ref,) for ref in refs))

    def set_machine(self, machine: str, host: str, was: str | None, *, stays: bool = False) -> None:
        """Note a machine, and the id that it no longer has; `stays`: it has its id, although a copy of it told so."""
        sql = (
            "INSERT INTO machine VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET host = excluded.host,"
            " retired = CASE WHEN excluded.retired < 0 THEN excluded.retired ELSE retired END"
        )
        self._run(sql, (machine, host, STAYS if stays else 0))
        if was:
            retired = (
                "INSERT INTO machine VALUES (?, '', 1) ON CONFLICT (id) DO UPDATE SET retired = 1 WHERE retired = 0"
            )
            self._run(retired, (was,))

    def machines(self) -> dict[str, tuple[str, bool]]:
        """Return the machines: the host of each, and True for one that has another id by now."""
        rows = self._all("SELECT id, host, retired FROM machine")
        return {name: (host, retired > 0) for name, host, retired in rows}

    # ---- purges

    def note_erased(self, nodes: Collection[str], *, secrets: bool) -> None:
        """Note a purge of this machine, which the others are to be told."""
        self._run("INSERT INTO erasure VALUES (?, ?)", (json.dumps(sorted(nodes)), int(secrets)))

    def erased(self) -> list[tuple[int, list[str], bool]]:
        """Return the purges that the others are to be told, each with its number."""
        rows = self._all("SELECT rowid, nodes, secrets FROM erasure")
        return [(number, json.loads(nodes), bool(secrets)) for number, nodes, secrets in rows]

    def told(self, number: int) -> None:
        """Remove a purge that is in our segment."""
        self._run("DELETE FROM erasure WHERE rowid = ?", (number,))

    def add_purge(self, entry: SyncEntry, *, done: bool) -> None:
        """Note a purge that is to be carried out here, or was."""
        row = (entry.entry_id, json.dumps(entry.body["nodes"]), int(bool(entry.body.get("secrets"))), int(done), "[]")
        self._run(
            "INSERT INTO purge VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET done = max(done, excluded.done)", row
        )

    def carried_out(self, order: str) -> None:
        """Note that a purge is carried out here."""
        self._run("UPDATE purge SET done = 1 WHERE id = ?", (order,))

    def acknowledge(self, order: str, machine: str) -> None:
        """Note that a machine has carried out a purge."""
        for (acks,) in self._all("SELECT acks FROM purge WHERE id = ?", order):
            named = json.dumps(sorted({*json.loads(acks), machine}))
            self._run("UPDATE purge SET acks = ? WHERE id = ?", (named, order))

    def purges(self) -> list[tuple[str, list[str], bool, bool, list[str]]]:
        """Return the purges: id, nodes, of secrets, done here, and the machines that have carried it out."""
        rows = self._all("SELECT * FROM purge ORDER BY id")
        return [(one, json.loads(nodes), bool(s), bool(done), json.loads(acks)) for one, nodes, s, done, acks in rows]

    # ---- notes

    def note(self, key: str) -> str:
        """Return a note, "" for none."""
        return next((value for (value,) in self._all("SELECT value FROM note WHERE key = ?", key)), "")

    def set_note(self, key: str, value: str) -> None:
        """Keep a note."""
        self._run("INSERT OR REPLACE INTO note VALUES (?, ?)", (key, value))


def _lines_of(session_id: str) -> tuple[str, str]:
    """Return the bounds of the nodes of the turns in a session's lines (`session_lines`)."""
    return f"turn:{session_id}-fork-", f"turn:{session_id}-fork-\U0010ffff"
