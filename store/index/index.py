"""The projection of the vault that is searched: `apply` is the only way in, for writes, edits, imports and rebuilds."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

import apsw

from ..engine.database import empty_wal
from ..engine.interface import Point, Vector, VectorStore
from ..ledger.journal import Appended
from ..limits import NEIGHBOURS
from ..model import Kind, Level, NodeId, NotFound
from ..okf import session
from ..settings import ChunkSettings
from ..text.chunking import chunk
from ..vault.vault import MOST_BYTES, FileStamp, Vault, largest
from .catalog import NODE_COLUMNS, Catalog, FileRow, node_row
from .graph import remove_entity, remove_references, write_entity, write_references
from .images import Images
from .projection import (
    FORGOTTEN,
    SUCCESSOR,
    Link,
    Node,
    Projection,
    cues_of,
    is_session,
    is_turn,
    project_appended,
    project_memory,
    project_session,
    read_head,
)
from .visibility import Concealment

COLLECTION = "chunks"

# The catalogue's note of the engine's last commit.
MARK_KEY = "engine_mark"

PAYLOAD_INDEXES = (
    *("channel", "level", "live", "ranks", "kind", "valid_from", "valid_to"),
    *("session", "agent", "task", "user", "tags", "time", "entity", FORGOTTEN),
    *("role", "size", "asks"),
)

# Those that hold numbers; the others hold texts.
NUMBERS = frozenset({"live", "ranks", "valid_from", "valid_to", "time", "size"})

# A file changed less than this before it was read may have changed again within its timestamp's grain.
YOUNG_NS = 2_000_000_000

# The beginning of the problem of a file whose node id an earlier file has.
DOUBLE = "its node id belongs to "

# Chunks that are kept for the engine before it is given them: a session of 150 MB has a hundred thousand.
POINTS_AT_ONCE = 1024

# Bytes of a session in which secrets are looked for at once: 50 ms; all of one of 150 MB takes 30 s.
MASKED_AT_ONCE = 2**18

# The most files, and about the longest time, of one transaction of `apply_all`.
SLICE_FILES, SLICE_S = 64, 0.03


@dataclass(frozen=True, slots=True)
class PendingChunk:
    """A chunk that waits for its vector."""

    chunk_id: NodeId
    text: str
    text_hash: bytes


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The outcome of a comparison of vault and index: files applied, and known files that are gone."""

    applied: int = 0
    gone: tuple[str, ...] = ()


class MissingFiles(Protocol):
    """Decides about files that are gone. Called in the thread that applies them, inside its transaction."""

    def may_unlearn(self, file: FileRow, image: bytes | None) -> bool:
        """Return True to unlearn a file that is gone, and held `image`, at once; False: not before `unlearn`."""
        ...

    def is_there(self, path: str) -> None:
        """Note that a file is there."""
        ...

    def may_shorten(self, path: str, image: bytes) -> bool:
        """Return True to read a session's file that does not go on from `image`; False: not before a run holds that."""
        ...

    def is_withheld(self, path: str) -> bool:
        """Return True if a file that is gone stays known."""
        ...


class Unguarded:
    """For an index without a ledger (a copy): files that are gone are unlearned."""

    def may_unlearn(self, file: FileRow, image: bytes | None) -> bool:
        """Return True always."""
        return True

    def is_there(self, path: str) -> None:
        """Do nothing."""

    def may_shorten(self, path: str, image: bytes) -> bool:
        """Return True always."""
        return True

    def is_withheld(self, path: str) -> bool:
        """Return False always."""
        return False


class Noted:
    """Paths that were applied since they were last taken, in any thread."""

    def __init__(self) -> None:
        self._paths: dict[str, None] = {}
        self._lock = threading.Lock()

    def add(self, paths: Collection[str]) -> None:
        """Note these paths."""
        with self._lock:
            self._paths |= dict.fromkeys(paths)

    def take(self) -> list[str]:
        """Return the paths noted so far, and start over."""
        with self._lock:
            paths, self._paths = list(self._paths), {}
        return paths


class Index:
    """Writes of the projection. One writer at a time, whichever thread it is in; readers see whole files only.

    `connection` answers what is written to, always the same while a transaction is open.
    """

    def __init__(
        self,
        connection: Callable[[], apsw.Connection],
        backend: VectorStore,
        vault: Vault,
        *,
        now: Callable[[], datetime],
        dimension: int,
        chunks: ChunkSettings,
        concealment: Concealment,
    ) -> None:
        self._mask = concealment.mask
        self._connect = connection
        self.missing: MissingFiles = Unguarded()
        """Decides about files that are gone."""
        self._images = Images(connection)
        self._vault = vault
        self._now = now
        self._chunks = chunks
        self._is_hidden = concealment.is_hidden
        self._lock = threading.RLock()
        self._depth = 0
        self.generation = 0
        """The number of transactions that changed something: what was read before is perhaps no longer so."""
        self._points: list[Point] = []  # of this transaction, for the engine, which likes them many at a time
        self._noted: Noted | None = None
        self.fresh: dict[NodeId, Node] | None = None
        """Collects the memories and turns that were not known before, unless it is None."""
        self._catalog = Catalog(connection)  # sees what this transaction has written already
        self.between_slices: Callable[[], None] = lambda: None
        self.raise_if_stopped: Callable[[], None] = lambda: None
        """Asked within a long file, too: a stop ends it, and the transaction is taken back."""
        self.backend = backend
        self.wants_vectors = backend.capabilities().vector
        backend.ensure_collection(COLLECTION, dimension)
        for name in PAYLOAD_INDEXES:
            backend.ensure_payload_index(COLLECTION, name, is_number=name in NUMBERS)

    @property
    def _connection(self) -> apsw.Connection:
        return self._connect()

    @contextmanager
    def still(self) -> Iterator[None]:
        """Block writes meanwhile, so that the file that is written to may be exchanged."""
        with self._lock:
            if self._depth:
                raise RuntimeError("a transaction is open")
            yield

    @contextmanager
    def noting(self) -> Iterator[Noted]:
        """Note all paths that are applied meanwhile, also by a transaction that fails."""
        self._noted = noted = Noted()
        try:
            yield noted
        finally:
            self._noted = None

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Make all writes inside visible at once, or none of them."""
        with self._lock:
            if self._depth:
                yield
                return
            self._connection.execute("BEGIN IMMEDIATE")
            self._depth += 1
            try:
                before = self._connection.total_changes()
                yield
                self._send_points()
                self._commit_engine()
                self._connection.execute("COMMIT")
                self.generation += self._connection.total_changes() != before
            except BaseException:
                self._points.clear()
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                self.backend.rollback(COLLECTION)
                raise
            finally:
                self._depth -= 1

    def _commit_engine(self) -> None:
        """Commit an engine of its own files before the catalogue, which notes the engine's mark in its transaction.

        A crash between the two leaves marks that differ, and the next start makes the index anew (`is_in_step`).
        """
        self.backend.commit(COLLECTION)
        if (mark := self.backend.mark(COLLECTION)) and mark != self._catalog.meta(MARK_KEY):
            self._connection.execute("INSERT OR REPLACE INTO meta VALUES(?, ?)", (MARK_KEY, mark))

    def is_in_step(self) -> bool:
        """Return True if the engine has what the catalogue says it has."""
        mark = self.backend.mark(COLLECTION)
        return not mark or mark == (self._catalog.meta(MARK_KEY) or "0")

    def apply(self, path: str, from_offset: int = 0, appended: Appended | None = None) -> None:
        """Bring the index up to date with a file; one that is gone is unlearned if its deletion is recorded.

        Of an append to a session that began at `from_offset` only the tail is read, if nothing else has changed: the
        index has read the file exactly up to that offset (`parsed_to`), without a problem, and the stamp that the
        writer saw before it appended (`appended.before`) is the one under which the index read it. In any other case
        the whole file is read. The stamp recorded is that after the append, and the tail ends at its size, so that a
        later append is left to its own call. `is_as_read`: a whole read has already taken this append in.

        Example: a session was read whole at 1,000 bytes, under stamp A. Two appends of 200 bytes follow.
          apply(path, 1000, A to B)  parsed_to is 1000 and A the stamp as read: reads bytes 1000 to 1200, records B.
          (an editor changes a word and saves: stamp C)
          apply(path, 1200, C to D)  parsed_to is 1200, but the stamp as read is B and not C: reads the whole file.
        Without `appended` (something else wrote during the append) the tail is read and recorded without a ctime, so
        that the next comparison with the vault reads the whole file.
        """
        self._note([path])
        with self.batch():
            stamp = self._vault.stamp(path)
            known = self._catalog.file(path)
            if stamp is None:
                self._apply_missing(path)
                return
            self.missing.is_there(path)
            if appended is not None and is_as_read(stamp, known):
                return  # it was read whole, with this append and perhaps later ones, a moment ago
            if known is not None and self._goes_on(known, from_offset, appended):
                self._apply_tail(path, appended.after if appended else replace(stamp, ctime_ns=0), from_offset)
            else:
                self._apply_whole(path, stamp)

    def _apply_missing(self, path: str) -> None:
        self._vault.raise_if_away()
        known = self._catalog.file(path)
        if known is not None and self.missing.may_unlearn(known, self._images.of(path)):
            self._remove_file(path)

    @staticmethod
    def _goes_on(known: FileRow, from_offset: int, appended: Appended | None) -> bool:
        """Return True if an append begins where the index stopped, in a file that had not changed otherwise."""
        if not is_session(known.path) or known.problem or not known.parsed_to == from_offset > 0:
            return False
        return appended is None or _has_stamp(known, appended.before)

    def _note(self, paths: Collection[str]) -> None:
        if (noted := self._noted) is not None:
            noted.add(paths)

    def apply_held(self, path: str, data: bytes, mtime_ns: int) -> None:
        """Index a file that is gone from its stored content."""
        with self.batch():
            self._apply_whole(path, FileStamp(path, 0, len(data), mtime_ns, 0), data)

    def unlearn(self, paths: Collection[str]) -> None:
        """Unlearn files that are gone; apply those that are there again."""
        self._note(paths)
        with self.batch():
            for path in paths:
                if self._vault.exists(path):
                    self.apply(path)
                else:
                    self._remove_file(path)

    def reconcile(self, progress: Callable[[int, int], None] | None = None) -> Reconciled:
        """Compare every file's stamp with the one last seen, and apply what differs, sessions first."""
        with self._lock:
            seen, bare = self._catalog.files(), set(self._images.missing())
        found = {stamp.path: stamp for stamp in self._vault.walk()}
        bare = {path for path in bare if path in found and found[path].size <= largest(path)}
        changed = [path for path, stamp in found.items() if path in bare or not is_current(stamp, seen.get(path))]
        self.apply_all(sorted(changed, key=lambda path: (not is_session(path), path)), progress)
        return Reconciled(len(changed), tuple(path for path in seen if path not in found))

    def gone(self) -> list[str]:
        """Return the known files that are gone."""
        with self._lock:
            known = self._catalog.files()
        return [path for path in known if not self._vault.exists(path)]

    def apply_all(self, paths: Sequence[str], progress: Callable[[int, int], None] | None = None) -> None:
        """Apply many files, a short transaction at a time; `between_slices` is called after each."""
        done = 0
        while done < len(paths):
            until_s = time.monotonic() + SLICE_S
            with self.batch():
                for path in paths[done : done + SLICE_FILES]:
                    self.apply(path)
                    done += 1
                    if time.monotonic() >= until_s:
                        break
            if progress:
                progress(done, len(paths))
            self.between_slices()

    def reread(self, node_ids: Collection[NodeId]) -> None:
        """Apply the files of these nodes again in full; of one that is gone, its stored content."""
        with self.batch():
            for path in sorted({node.path for node in self._catalog.nodes(node_ids).values()}):
                known, image = self._catalog.file(path), self._images.of(path)
                if known is not None and image is not None and not self._vault.exists(path):
                    self.apply_held(path, image, known.mtime_ns)
                else:
                    self.apply(path)

    def live_among(self, node_ids: Collection[NodeId]) -> list[NodeId]:
        """Return those of some nodes that can be found."""
        with self._lock:
            return [node.node_id for node in self._catalog.nodes(node_ids).values() if node.live]

    def doubles(self) -> list[str]:
        """Return the files whose node id an earlier file has."""
        return [path for path, problem in self._catalog.problems() if problem.startswith(DOUBLE)]

    def reread_doubles(self) -> None:
        """Apply again the files whose node id an earlier file had: that file may be gone."""
        self.apply_all(self.doubles())

    def pending(self, limit: int = 256, of: Collection[NodeId] | None = None) -> list[PendingChunk]:
        """Return chunks, of these nodes or of any, that wait for a vector, with the text to embed."""
        if of is None:
            return self._waiting("embedded = 0", (limit,))
        among = "embedded = 0 AND node_id IN (SELECT value FROM json_each(?))"
        return self._waiting(among, (json.dumps(list(of)), limit))

    def near(self, limit: int) -> list[PendingChunk]:
        """Return chunks that have a vector of a near model, with the text to embed."""
        return self._waiting("embedded = 2", (limit,))

    def _waiting(self, which: str, given: tuple[object, ...]) -> list[PendingChunk]:
        sql = f'SELECT chunk_id, node_id, start, "end", text_hash FROM chunk WHERE {which} LIMIT ?'
        with self._lock:
            rows = list(self._connection.execute(sql, given))
            nodes = self._catalog.nodes({row[1] for row in rows})
        return [
            PendingChunk(chunk_id, embedded_text(nodes[node_id], start, end), text_hash)
            for chunk_id, node_id, start, end, text_hash in rows
            if node_id in nodes
        ]

    def set_vectors(
        self, pending: Sequence[PendingChunk], vectors: Sequence[Vector], *, are_near: bool = False
    ) -> None:
        """Give chunks their vectors, of the model or a near one; one whose text has changed meanwhile stays pending."""
        with self.batch():
            fresh = {
                item.chunk_id: vector
                for item, vector in zip(pending, vectors, strict=True)
                if self._connection.execute(
                    "UPDATE chunk SET embedded = ? WHERE chunk_id = ? AND text_hash = ? RETURNING 1",
                    (2 if are_near else 1, item.chunk_id, item.text_hash),
                ).fetchall()
            }
            if fresh:
                self._send_points()
                self.backend.set_vectors(COLLECTION, fresh)

    def hold_as_near(self) -> None:
        """Note that all vectors so far are of a near model."""
        with self.batch():
            if self.wants_vectors:
                self._connection.execute("UPDATE chunk SET embedded = 2 WHERE embedded = 1")

    def compact(self) -> None:
        """Leave nothing on the disk of what was unlearned: writes the whole file anew, while questions go on.

        Raises StoreBusy while another connection reads the old pages of the write-ahead log for too long.
        """
        with self._lock:
            if self._depth:
                raise RuntimeError("a transaction is open")
            self.backend.compact(COLLECTION)
            self._connection.execute("VACUUM")
            empty_wal(self._connection)

    def keep_columns(self) -> bool:
        """Have the engine ready to answer, now and at the next start; False where changes overtook that."""
        return self.backend.keep_columns(COLLECTION, self.batch)

    def set_meta(self, key: str, value: str) -> None:
        """Store a value about the index itself."""
        with self.batch():
            self._connection.execute("INSERT OR REPLACE INTO meta VALUES(?, ?)", (key, value))

    def note_searched(self, stamps: Iterable[FileStamp], rules: str) -> None:
        """Note that files with these stamps hold no secret by some rules; one that changed since is not noted."""
        rows = [(rules, one.path, one.inode, one.size, one.mtime_ns, one.ctime_ns) for one in stamps]
        unchanged = "path = ? AND inode = ? AND size = ? AND mtime_ns = ? AND ctime_ns = ?"
        with self.batch():
            self._connection.executemany(f"UPDATE file SET searched = ? WHERE {unchanged}", rows)

    def text_hashes(self) -> set[bytes]:
        """Return the hashes of all texts that have, or wait for, a vector."""
        with self._lock:
            return {text_hash for (text_hash,) in self._connection.execute("SELECT DISTINCT text_hash FROM chunk")}

    def _apply_tail(self, path: str, stamp: FileStamp, from_offset: int) -> None:
        before = self._catalog.last_turns(path, 2 * NEIGHBOURS)
        some_node = next(iter(before or self._catalog.nodes_of_file(path)), None)
        session_id = some_node.session_id if some_node else None
        head = self._catalog.session_head(session_id) if session_id else None
        tail = self._vault.read(path, from_offset, stamp.size - from_offset)  # no more than the stamp covers
        if not stamp.ctime_ns:  # something else than the writer may have added to it
            tail = self._mask.over(tail, self._session_parts)
        if head is None or len(tail) < stamp.size - from_offset:
            self._apply_whole(path, stamp)
            return
        projection = project_appended(path, tail, head, before, from_offset)
        self._images.append(path, from_offset, tail)
        self._note_new(projection.nodes)
        self._write(projection.nodes)
        self._record(stamp, projection)

    def _apply_whole(self, path: str, stamp: FileStamp, held: bytes | None = None) -> None:
        data = self._read(path) if held is None else held
        if not data:  # removed, or being saved, since its stamp was taken
            self._apply_missing(path)
            return
        if is_session(path):
            if held is None and not self._may_shorten(path, data):
                return
            data = data[: stamp.size]  # a later append comes with its own call
            head, problem = read_head(path, data)
            projection = project_session(path, data, head)
            projection = replace(projection, problem=problem or projection.problem)
        else:
            projection = project_memory(
                path, data[:MOST_BYTES], datetime.fromtimestamp(stamp.mtime_ns / 1e9).astimezone()
            )
            projection = self._of_its_session(self._ranked(projection))
        projection = self._hidden_by_successors(self._without_doubles(path, projection))
        known = dict(self._connection.execute("SELECT node_id, digest FROM node WHERE path = ?", (path,)))
        named = {node.node_id for node in projection.nodes}
        successors = self._successors(path, known.keys() | named)
        self._remove_nodes(known.keys() - named)
        self._note_new([node for node in projection.nodes if node.node_id not in known])
        self._write(projection.nodes, known)
        self._write_links(projection.nodes, projection.links)
        if projection.nodes and not is_session(path):
            write_references(self._connection, projection)
        if projection.entity and projection.nodes:
            write_entity(self._connection, projection.nodes[0], projection.entity)
        if stamp.size > largest(path):  # a person's: no deletion of it is undone
            self._images.drop(path)
        else:
            self._images.keep(path, self._whole(path, data, stamp) if held is None else [data])
        self._record(stamp, projection)
        self._reapply_affected(path, known.keys() ^ named, successors)

    def _note_new(self, nodes: Iterable[Node]) -> None:
        if (fresh := self.fresh) is not None:
            fresh.update({node.node_id: node for node in nodes if node.kind is not Kind.SESSION})

    def _may_shorten(self, path: str, data: bytes) -> bool:
        """Return False for a session that lost turns, as long as no run holds what was there."""
        image = self._images.of(path)
        return image is None or data.startswith(image) or self.missing.may_shorten(path, image)

    def _read(self, path: str) -> bytes:
        """Return what is indexed of a file, b"" for one that is gone; a secret in it, written by hand, is masked."""
        try:
            if is_session(path):
                return self._mask.over(self._vault.read(path, 0, largest(path)), self._session_parts)
            return self._mask.over(self._vault.read(path, 0, MOST_BYTES))
        except NotFound:
            return b""

    def _session_parts(self, data: bytes) -> Iterator[bytes]:
        """Yield a session in parts to be searched for secrets, with a check for a stop between them."""
        for part in session.parts(data, MASKED_AT_ONCE):
            self.raise_if_stopped()
            yield part

    def _hidden_by_successors(self, projection: Projection) -> Projection:
        """Hide superseded nodes whose successor has a file, archived or not, and is not superseded by them."""
        hidden = {link.source for link in projection.links if link.kind == SUCCESSOR and self._holds_its_place(link)}
        if not hidden:
            return projection
        nodes = (node._replace(live=node.live and node.node_id not in hidden) for node in projection.nodes)
        return replace(projection, nodes=tuple(nodes))

    def _holds_its_place(self, link: Link) -> bool:
        if link.target == link.source or self._catalog.path_of(link.target) is None:
            return False
        return link.source not in self._chain(link.target)

    def _chain(self, node_id: NodeId | None) -> list[NodeId]:
        """Return a memory and its successors, one after the other."""
        chain: dict[NodeId, None] = {}
        while node_id is not None and node_id not in chain:
            chain[node_id] = None
            node_id = next(iter(self._catalog.links(node_id, SUCCESSOR)), None)
        return list(chain)

    def _successors(self, path: str, node_ids: Collection[NodeId]) -> dict[NodeId, NodeId | None]:
        """Return the successor of each memory of a file, as the index has it."""
        if is_session(path):
            return {}
        return {node_id: next(iter(self._catalog.links(node_id, SUCCESSOR)), None) for node_id in node_ids}

    def _reapply_affected(
        self, path: str, came_or_went: Collection[NodeId], before: Mapping[NodeId, NodeId | None]
    ) -> None:
        """Apply again the files whose memories a change of this file hides or no longer hides.

        `before` maps each of this file's memories to its earlier successor.
        """
        after = self._successors(path, before.keys())
        touched: set[NodeId] = set()
        for node_id in before:
            if node_id in came_or_went:
                touched.update(self._catalog.cited_by(node_id, SUCCESSOR))
            if before[node_id] != after[node_id]:  # a circle may have closed, or opened
                touched.update(self._chain(before[node_id]), self._chain(after[node_id]))
        paths = {node.path for node in self._catalog.nodes(touched).values()} - {path}
        for other in sorted(paths):
            self.apply(other)

    def _whole(self, path: str, read: bytes, stamp: FileStamp) -> Iterator[bytes]:
        """Yield a file whole, of which perhaps no more than the beginning was read."""
        yield read
        if len(read) < stamp.size:
            yield self._mask.over(self._vault.read(path, len(read), stamp.size - len(read)))

    def _ranked(self, projection: Projection) -> Projection:
        """Take a fact out of the ranking where its turn can be found in its place.

        Short facts with names in them win every comparison against whole turns: ranked beside them, they lowered
        evidence recall@10 from .771 to .740 (LoCoMo, two conversations); shown for the turns that rank, .771 stays, and
        an envelope of 500 tokens holds .791 of the evidence instead of .759.
        """
        drawn_from = next((link.target for link in projection.links[:1] if link.kind == "cites"), None)
        turn = self._catalog.node(drawn_from) if drawn_from and is_turn(drawn_from) else None
        if turn is None or not turn.live or any(node.channel != turn.channel for node in projection.nodes):
            return projection  # a query in one of two channels might not find the turn
        return replace(
            projection,
            nodes=tuple(node._replace(ranks=node.level is not Level.FACT) for node in projection.nodes),
        )

    def _of_its_session(self, projection: Projection) -> Projection:
        """Give a memory the session of the turn that it was drawn from, and that session's agent, task and user.

        What its own file names stays.
        """
        drawn_from = next((link.target for link in projection.links if link.kind == "cites"), "")
        turn_of = drawn_from.partition("#")[0] if is_turn(drawn_from) else None
        node = projection.nodes[0]
        session_id = node.session_id or turn_of
        its_session = self._catalog.node(session_id) if session_id else None
        if its_session is None:
            return projection
        own = node._replace(
            session_id=session_id,
            agent=node.agent or its_session.agent,
            task=node.task or its_session.task,
            user=node.user or its_session.user,
        )
        return replace(projection, nodes=(own,))

    def _without_doubles(self, path: str, projection: Projection) -> Projection:
        """Leave a node id to the first file that claimed it, while that exists; the other is reported."""
        claimed = self._catalog.nodes([node.node_id for node in projection.nodes])
        owners = {node.path for node in claimed.values() if node.path != path}
        living = sorted(owner for owner in owners if self._vault.exists(owner))
        if not living:
            return projection
        kept = tuple(
            node for node in projection.nodes if node.node_id not in claimed or claimed[node.node_id].path == path
        )
        return replace(projection, nodes=kept, links=(), problem=f"{DOUBLE}{living[0]} already")

    def _record(self, stamp: FileStamp, projection: Projection) -> None:
        now_ns = int(self._now().timestamp() * 1e9)
        known = self._catalog.file(stamp.path)
        is_same = known is not None and _has_stamp(known, stamp)
        since_ns, searched = (known.since_ns, known.searched) if known is not None and is_same else (now_ns, None)
        self._connection.execute(
            "INSERT OR REPLACE INTO file VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(stamp.path, stamp.inode, stamp.size, stamp.mtime_ns, stamp.ctime_ns),
                *(now_ns, projection.parsed_to, projection.problem, since_ns, searched),
            ),
        )

    def _write(self, nodes: Collection[Node] | Iterator[Node], known: Mapping[NodeId, str] | None = None) -> None:
        """Write nodes whose digest is not the known one; chunks whose text is the same keep their vectors."""
        for given in nodes:
            self.raise_if_stopped()
            is_hidden = given.live and self._is_hidden(given.node_id)
            node = given._replace(live=False, forgotten=True) if is_hidden else given
            digest = node.digest()
            if known is not None and known.get(node.node_id) == digest:
                continue
            row = (*node_row(node), digest)
            self._connection.execute(
                f"INSERT OR REPLACE INTO node({NODE_COLUMNS}, digest) VALUES({', '.join('?' * len(row))})", row
            )
            self._write_cues(node)
            self._write_chunks(node)
            if len(self._points) >= POINTS_AT_ONCE:
                self._send_points()

    def _write_cues(self, node: Node) -> None:
        self._connection.execute("DELETE FROM cue WHERE node_id = ?", (node.node_id,))
        if cues := cues_of(node):
            rows = [(key, node.node_id) for key in cues]
            self._connection.executemany("INSERT OR IGNORE INTO cue VALUES(?, ?)", rows)

    def _send_points(self) -> None:
        if self._points:
            self.backend.upsert(COLLECTION, self._points)
            self._points.clear()

    def _write_chunks(self, node: Node) -> None:
        before = dict(
            self._connection.execute("SELECT chunk_id, text_hash FROM chunk WHERE node_id = ?", (node.node_id,))
        )
        limits = self._chunks.max_tokens, self._chunks.overlap_tokens
        pieces = chunk(node.node_id, node.text, *limits) if node.searchable else []
        payload = node.payload()
        for piece in pieces:
            text = embedded_text(node, piece.start, piece.end)
            text_hash = hashlib.sha256(text.encode()).digest()
            self._points.append(Point(piece.chunk_id, text, node.context, payload=payload))
            self._connection.execute(
                'INSERT INTO chunk(chunk_id, node_id, start, "end", text_hash, embedded) VALUES(?, ?, ?, ?, ?, ?)'
                " ON CONFLICT DO UPDATE SET node_id = excluded.node_id, start = excluded.start,"
                ' "end" = excluded."end", text_hash = excluded.text_hash,'
                " embedded = max(excluded.embedded, embedded * (text_hash = excluded.text_hash))",
                (piece.chunk_id, node.node_id, piece.start, piece.end, text_hash, int(not self.wants_vectors)),
            )
        self._remove_chunks(before.keys() - {piece.chunk_id for piece in pieces})

    def _write_links(self, nodes: Sequence[Node], links: Sequence[Link]) -> None:
        for node in nodes:
            if node.kind is not Kind.TURN:
                self._connection.execute("DELETE FROM link WHERE source = ?", (node.node_id,))
        rows = [(link.source, link.target, link.kind, rank, link.weight) for rank, link in enumerate(links)]
        self._connection.executemany("INSERT OR REPLACE INTO link VALUES(?, ?, ?, ?, ?)", rows)

    def _remove_file(self, path: str) -> None:
        gone = [node_id for (node_id,) in self._connection.execute("SELECT node_id FROM node WHERE path = ?", (path,))]
        successors = self._successors(path, gone)
        self._remove_nodes(gone)
        self._connection.execute("DELETE FROM file WHERE path = ?", (path,))
        self._images.drop(path)
        self._reapply_affected(path, gone, successors)

    def _remove_nodes(self, node_ids: Collection[NodeId]) -> None:
        for node_id in node_ids:
            self.raise_if_stopped()
            chunks = self._connection.execute("SELECT chunk_id FROM chunk WHERE node_id = ?", (node_id,))
            self._remove_chunks([chunk_id for (chunk_id,) in chunks])
            self._connection.execute("DELETE FROM link WHERE source = ?", (node_id,))
            self._connection.execute("DELETE FROM cue WHERE node_id = ?", (node_id,))
            remove_entity(self._connection, node_id)
            remove_references(self._connection, node_id)
            self._connection.execute("DELETE FROM node WHERE node_id = ?", (node_id,))

    def _remove_chunks(self, chunk_ids: Collection[NodeId]) -> None:
        if chunk_ids:
            self._send_points()
            self._connection.executemany(
                "DELETE FROM chunk WHERE chunk_id = ?", [(chunk_id,) for chunk_id in chunk_ids]
            )
            self.backend.delete(COLLECTION, chunk_ids)


def is_current(stamp: FileStamp, row: FileRow | None) -> bool:
    """Return True if a file is as last read, without a problem; a stamp that was young then proves nothing."""
    if row is None or row.problem is not None:
        return False
    return _has_stamp(row, stamp) and row.ctime_ns < row.seen_ns - YOUNG_NS


def is_as_read(stamp: FileStamp, row: FileRow | None) -> bool:
    """Return True if a file has the stamp under which it was last read, without a problem."""
    return row is not None and row.problem is None and _has_stamp(row, stamp)


def _has_stamp(row: FileRow, stamp: FileStamp) -> bool:
    return stamp == FileStamp(row.path, row.inode, row.size, row.mtime_ns, row.ctime_ns)


def embedded_text(node: Node, start: int, end: int) -> str:
    """Return the text of a chunk that is embedded and matched by keyword: the node's heading and its characters."""
    heading = node.heading()
    return f"{heading}: {node.text[start:end]}" if heading else node.text[start:end]
