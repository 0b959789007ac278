"""The index's tables of files, nodes, chunks and links: their schema and the queries that read them."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from operator import attrgetter
from typing import Any, Literal, NamedTuple, TypedDict

import apsw

from ..engine.database import Migration
from ..filters import Filter, wanted_fields
from ..limits import LONGEST_CHAIN, LONGEST_CURATED
from ..model import Evidence, Kind, Level, NodeId, SessionHead
from ..okf.session import ERASED
from ..roles import MACHINES
from .projection import AWAITS, FORGOTTEN, IMPORT, SUCCESSOR, THE_PERSON, TURN_MARK, Link, Node
from .visibility import EVERYTHING, Scope, Withdrawn, node_filter

MIGRATIONS: tuple[Migration, ...] = (
    Migration(
        "m001_catalog",
        """
        CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
        CREATE TABLE file(
            path TEXT PRIMARY KEY, inode INT, size INT, mtime_ns INT, ctime_ns INT, seen_ns INT,
            parsed_to INT NOT NULL, problem TEXT
        ) WITHOUT ROWID;
        CREATE TABLE node(
            id INTEGER PRIMARY KEY, node_id TEXT NOT NULL UNIQUE, path TEXT NOT NULL, level TEXT NOT NULL,
            kind TEXT NOT NULL, title TEXT NOT NULL, text TEXT NOT NULL, context TEXT NOT NULL, channel TEXT NOT NULL,
            live INT NOT NULL, created_at TEXT, valid_from TEXT, valid_to TEXT, session_id TEXT, ordinal INT NOT NULL,
            role TEXT NOT NULL, external_id TEXT, offset INT NOT NULL, certainty REAL, tags TEXT NOT NULL,
            digest TEXT NOT NULL
        );
        CREATE INDEX node_of_file ON node(path, ordinal);
        CREATE INDEX node_of_channel ON node(channel, level, created_at);
        CREATE TABLE chunk(
            chunk_id TEXT PRIMARY KEY, node_id TEXT NOT NULL, start INT NOT NULL, "end" INT NOT NULL,
            text_hash BLOB NOT NULL, embedded INT NOT NULL DEFAULT 0
        ) WITHOUT ROWID;
        CREATE INDEX chunk_of_node ON chunk(node_id);
        CREATE INDEX chunk_pending ON chunk(chunk_id) WHERE embedded = 0;
        CREATE TABLE link(
            source TEXT NOT NULL, target TEXT NOT NULL, kind TEXT NOT NULL, rank INT NOT NULL,
            PRIMARY KEY(source, target, kind)
        ) WITHOUT ROWID;
        CREATE INDEX link_of_target ON link(target, kind);
        """,
    ),
    Migration("m002_stale", "ALTER TABLE node ADD COLUMN stale_after TEXT"),
    Migration(
        "m003_image",
        """
        CREATE TABLE image(id INTEGER PRIMARY KEY, path TEXT NOT NULL, from_offset INT NOT NULL, data BLOB NOT NULL);
        CREATE UNIQUE INDEX image_of_file ON image(path, from_offset);
        """,
    ),
    Migration(
        "m004_curated",
        """
        ALTER TABLE node ADD COLUMN curated INT NOT NULL DEFAULT 0;
        CREATE INDEX node_curated ON node(channel, curated) WHERE curated > 0;
        """,
    ),
    Migration(
        "m005_since",
        "ALTER TABLE file ADD COLUMN since_ns INT NOT NULL DEFAULT 0; UPDATE file SET since_ns = seen_ns",
    ),
    Migration("m006_marks", "ALTER TABLE node ADD COLUMN marks TEXT NOT NULL DEFAULT '{}'"),
    # `embedded`: 0 waits for a vector, 1 has one, 2 has one of a near model, which is made again when there is time.
    Migration("m007_near_vectors", "CREATE INDEX chunk_near ON chunk(chunk_id) WHERE embedded = 2"),
    # `status` counts without reading the rows: 1.5 ms instead of 18 with 12,000 of them.
    Migration("m008_counts", "CREATE INDEX node_counted ON node(kind, level, live, session_id)"),
    # The writer asks which turns a session has; their texts, which may be 100 MB, are not read for that.
    Migration(
        "m009_external_ids",
        f"""
        CREATE INDEX node_external ON node(path, external_id) WHERE external_id IS NOT NULL;
        CREATE INDEX node_erased ON node(path, external_id) WHERE text = '{ERASED}';
        """,
    ),
    # The keys, hashed, by which an agent's acts are found again (`projection.cues_of`).
    Migration(
        "m010_cues",
        """
        CREATE TABLE cue(key INT NOT NULL, node_id TEXT NOT NULL, PRIMARY KEY(key, node_id)) WITHOUT ROWID;
        CREATE INDEX cue_of_node ON cue(node_id);
        """,
    ),
    # People and things by their names, folded, and the relations between them (`graph.py`).
    Migration(
        "m011_entities",
        """
        CREATE TABLE entity(
            node_id TEXT PRIMARY KEY, channel TEXT NOT NULL, type TEXT NOT NULL, name TEXT NOT NULL, key TEXT NOT NULL,
            aliases TEXT NOT NULL, mentions INT NOT NULL, relations INT NOT NULL, last_mention TEXT
        ) WITHOUT ROWID;
        CREATE INDEX entity_of_channel ON entity(channel, mentions DESC);
        CREATE TABLE alias(
            key TEXT NOT NULL, channel TEXT NOT NULL, node_id TEXT NOT NULL, PRIMARY KEY(key, channel, node_id)
        ) WITHOUT ROWID;
        CREATE INDEX alias_of_node ON alias(node_id);
        CREATE TABLE relation(
            id INTEGER PRIMARY KEY, page TEXT NOT NULL, channel TEXT NOT NULL, subject TEXT NOT NULL,
            subject_key TEXT NOT NULL, relation TEXT NOT NULL, object TEXT NOT NULL, object_key TEXT NOT NULL,
            what TEXT NOT NULL, what_key TEXT NOT NULL, words TEXT NOT NULL, turn TEXT NOT NULL, since TEXT, until TEXT
        );
        CREATE INDEX relation_of_page ON relation(page);
        CREATE INDEX relation_of_subject ON relation(subject_key, channel);
        CREATE INDEX relation_of_object ON relation(object_key, channel);
        CREATE INDEX relation_of_turn ON relation(turn);
        """,
    ),
    # Names of memories, folded, and the links in texts by the names of their targets: `choice` 0 counts first. A target
    # is looked up when it is asked for, so that it does not matter which of two files was read first.
    Migration(
        "m012_references",
        """
        CREATE TABLE name(key TEXT NOT NULL, node_id TEXT NOT NULL, PRIMARY KEY(key, node_id)) WITHOUT ROWID;
        CREATE INDEX name_of_node ON name(node_id);
        CREATE TABLE reference(
            source TEXT NOT NULL, rank INT NOT NULL, choice INT NOT NULL, key TEXT NOT NULL, text TEXT NOT NULL,
            PRIMARY KEY(source, rank, choice)
        ) WITHOUT ROWID;
        CREATE INDEX reference_of_key ON reference(key);
        ALTER TABLE link ADD COLUMN weight REAL NOT NULL DEFAULT 1;
        """,
    ),
    # The rules of redaction by which the file, with this stamp, was found to hold no secret.
    Migration("m013_searched", "ALTER TABLE file ADD COLUMN searched TEXT"),
)

# Characters of a turn that say what was called, or asked.
SAID_CHARS = 1000

# Curated memories that are looked at for an envelope.
MOST_CURATED = 64


@dataclass(frozen=True, slots=True)
class FileRow:
    """A file as the index last read it.

    `seen_ns` is the wall clock then: a stamp as young as that proves little. `since_ns` is when this stamp was first
    seen: the file may have been read again since, for the sake of another. `searched` names the rules by which it
    holds no secret.
    """

    path: str
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    seen_ns: int
    parsed_to: int
    problem: str | None
    since_ns: int = 0
    searched: str | None = None


class Content(NamedTuple):
    """A line of a table of contents: a memory or a session, `at` the time that it is of."""

    path: str
    title: str
    channel: str
    level: Level
    is_live: bool
    at: datetime | None


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """Where a chunk lies in its node's text."""

    chunk_id: NodeId
    node_id: NodeId
    start: int
    end: int


class SaidTurn(NamedTuple):
    """A turn as it was said, its text cut."""

    session_id: NodeId
    ordinal: int
    channel: str
    role: str
    at: datetime | None
    text: str


class TurnForm(NamedTuple):
    """The speaker of a turn ("" for what is neither turn nor document), its size, and if it ends with a question.

    `time_s` is the time that a memory is of, in seconds of the epoch.
    """

    role: str = ""
    size_bytes: int = 0
    asks: bool = False
    time_s: int | None = None


@dataclass(frozen=True, slots=True)
class TurnsRead:
    """The turns of a session's file as the index read it: their external ids, those purged, and its last turn."""

    external_ids: frozenset[str]
    purged: frozenset[str]
    last_ordinal: int
    last_offset: int


class Catalog:
    """Reads of the index's own tables, through whichever connection the asking thread is given.

    `withdrawn` are the nodes that are withheld although the index still has them.
    """

    def __init__(self, connection: Callable[[], apsw.Connection], withdrawn: Withdrawn | None = None) -> None:
        self._connection = connection
        self._withdrawn = withdrawn or Withdrawn()

    @property
    def connection(self) -> Callable[[], apsw.Connection]:
        """Return the connection of the asking thread, for reads of other tables in the same state."""
        return self._connection

    def one_state(self) -> AbstractContextManager[None]:
        """Withhold throughout what is withdrawn now: entered before a transaction that reads one state of the index."""
        return self._withdrawn.pinned()

    def _rows(self, sql: str, bindings: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        return self._connection().execute(sql, bindings)

    def _all_rows(self, sql: str, *bindings: Any) -> list[tuple[Any, ...]]:
        """Return all rows at once, which is faster than one by one where they are few."""
        return self._connection().execute(sql, bindings).fetchall()

    def _nodes(self, sql: str, bindings: Sequence[Any] = ()) -> Iterator[Node]:
        """Yield the nodes of some rows, without what was deleted or forgotten before the rows are read."""
        withheld = self._withdrawn.now()
        return withheld.shown(map(_node, self._rows(sql, bindings)))

    def node(self, node_id: NodeId) -> Node | None:
        """Return one node by id."""
        return self.nodes([node_id]).get(node_id)

    def nodes(self, node_ids: Collection[NodeId]) -> dict[NodeId, Node]:
        """Return the nodes that are there."""
        sql = f"SELECT {NODE_COLUMNS} FROM node WHERE node_id IN (SELECT value FROM json_each(?))"
        return {node.node_id: node for node in self._nodes(sql, (json.dumps(list(node_ids)),))}

    def living(self, node_ids: Collection[NodeId]) -> set[NodeId]:
        """Return those of some nodes that are live and may be shown; their texts are not read."""
        withheld = self._withdrawn.now()
        columns = "node_id, path, kind, stale_after"
        sql = f"SELECT {columns} FROM node WHERE live AND node_id IN (SELECT value FROM json_each(?))"
        rows = self._all_rows(sql, json.dumps(list(node_ids)))
        there = {name for name, path, kind, at in rows if not withheld.is_gone(path, _KINDS[kind], _instant(at))}
        return there - withheld.hidden

    def beginnings(self, node_ids: Collection[NodeId], chars: int) -> dict[NodeId, str]:
        """Map the nodes that are there to the first characters of their texts."""
        sql = "SELECT node_id, substr(text, 1, ?) FROM node WHERE node_id IN (SELECT value FROM json_each(?))"
        return dict(self._all_rows(sql, chars, json.dumps(list(node_ids))))

    def roles(self, node_ids: Collection[NodeId]) -> dict[NodeId, str]:
        """Map the nodes that are there to their speaker's name or role: "" for what is neither turn nor document."""
        sql = (
            "SELECT node_id, CASE WHEN kind IN ('turn', 'document') THEN role ELSE '' END FROM node"
            " WHERE node_id IN (SELECT value FROM json_each(?))"
        )
        return dict(self._all_rows(sql, json.dumps(list(node_ids))))

    def speakers(self, node_ids: Collection[NodeId]) -> dict[NodeId, TurnForm]:
        """Map the nodes that are there to their speaker and form."""
        nodes = self.nodes(node_ids).items()
        return {name: TurnForm(node.speaker, node.size_bytes, node.asks, node.time_s) for name, node in nodes}

    def path_of(self, node_id: NodeId) -> str | None:
        """Where a node's file lies."""
        path = self._one("SELECT path FROM node WHERE node_id = ?", (node_id,))
        return None if path is None else str(path)

    def nodes_of_file(self, path: str) -> list[Node]:
        """Return the nodes of one file, in its order."""
        return list(self._nodes(f"SELECT {NODE_COLUMNS} FROM node WHERE path = ? ORDER BY ordinal", (path,)))

    def last_turns(self, path: str, count: int) -> list[Node]:
        """Return the last turns of a session's file, oldest first."""
        sql = f"SELECT {NODE_COLUMNS} FROM node WHERE path = ? AND ordinal > 0 ORDER BY ordinal DESC LIMIT ?"
        return list(self._nodes(sql, (path, count)))[::-1]

    def turns_read(self, path: str) -> TurnsRead | None:
        """Return the turns of a session's file without their texts, None where it has none."""
        sql = "SELECT ordinal, offset FROM node WHERE path = ? AND ordinal > 0 ORDER BY ordinal DESC LIMIT 1"
        if (last := next(self._rows(sql, (path,)), None)) is None:
            return None
        known = "SELECT external_id FROM node WHERE path = ? AND external_id IS NOT NULL"
        external_ids, purged = (
            frozenset(external_id for (external_id,) in self._rows(ids, (path,)))
            for ids in (known, f"{known} AND text = '{ERASED}'")  # as text, or its index does not serve
        )
        return TurnsRead(external_ids, purged, *last)

    def turns(self, session_id: NodeId, after: int = 0) -> list[Node]:
        """Return the turns of a session after an ordinal, oldest first."""
        path = self._one("SELECT path FROM node WHERE node_id = ?", (session_id,))
        if path is None:
            return []
        sql = f"SELECT {NODE_COLUMNS} FROM node WHERE path = ? AND ordinal > ? ORDER BY ordinal"
        return list(self._nodes(sql, (path, after)))

    def learned_in(self, session_id: NodeId) -> list[Node]:
        """Return the facts that were learned in a session and cite none of its turns, nor anything else."""
        sql = (
            f"SELECT {NODE_COLUMNS} FROM node WHERE session_id = ? AND level = 'L1'"
            " AND NOT EXISTS (SELECT 1 FROM link WHERE link.source = node.node_id AND link.kind = 'cites')"
        )
        return list(self._nodes(sql, (session_id,)))

    def beginning(self, prefix: str) -> list[tuple[NodeId, str]]:
        """Return the memories and sessions whose ids begin with a text, each with its channel."""
        sql = (
            "SELECT node_id, channel FROM node WHERE +kind != 'turn' AND node_id >= ? AND node_id < ? ORDER BY node_id"
        )
        return list(self._rows(sql, (prefix, f"{prefix}\U0010ffff")))

    def sessions(self) -> dict[NodeId, int]:
        """Map all sessions to their last ordinal."""
        where = "level = 'L0' AND kind != 'document'"
        return dict(self._rows(f"SELECT session_id, max(ordinal) FROM node WHERE {where} GROUP BY session_id"))

    def sessions_outside(self, channels: Collection[str]) -> dict[NodeId, int]:
        """Map the sessions in none of these channels to their last ordinal."""
        sql = (
            "SELECT session_id, max(ordinal) FROM node WHERE level = 'L0' AND kind != 'document'"
            " AND channel NOT IN (SELECT value FROM json_each(?)) GROUP BY session_id"
        )
        return dict(self._rows(sql, (json.dumps(list(channels)),)))

    def last_said(self, sessions: Collection[NodeId]) -> dict[NodeId, datetime]:
        """Map sessions to the time of their newest turn, those that have one."""
        sql = (
            "SELECT session_id, max(created_at) FROM node WHERE kind = 'turn' AND created_at IS NOT NULL"
            " AND session_id IN (SELECT value FROM json_each(?)) GROUP BY session_id"
        )
        return {name: datetime.fromisoformat(at) for name, at in self._rows(sql, (json.dumps(list(sessions)),))}

    def sizes_of(self, node_ids: Collection[NodeId]) -> dict[NodeId, int]:
        """Return the bytes of the files of memories or sessions."""
        sql = "SELECT node_id, size FROM node JOIN file USING (path) WHERE node_id IN (SELECT value FROM json_each(?))"
        return dict(self._all_rows(sql, json.dumps(list(node_ids)))) if node_ids else {}

    def size_of_files(self) -> int:
        """Return the bytes of all memories and sessions of the vault."""
        return self._one("SELECT sum(size) FROM file") or 0

    def listing(
        self,
        channel: str | None = None,
        level: Level | None = None,
        kind: Kind | None = None,
        limit: int = -1,
        offset: int = 0,
        *,
        curated: bool = False,
        where: Filter = (),
    ) -> list[Node]:
        """Nodes, newest first; turns only when asked for by kind. `curated`: only those of every envelope."""
        of_all, bindings = _listed(channel, level, kind, where)
        of_all += " AND curated > 0" if curated else ""
        sql = f"SELECT {NODE_COLUMNS} FROM node WHERE {of_all} ORDER BY created_at DESC, node_id LIMIT ? OFFSET ?"
        return list(self._nodes(sql, (*bindings, limit, offset)))

    def newest_of_each_kind(self, channel: str, level: Level, limit: int) -> list[Node]:
        """Return the newest nodes of each kind, at most so many; imported and curated ones are counted for themselves.

        Reads every row of the channel and level: 1.5 µs each.
        """
        sql = f"""
        SELECT {NODE_COLUMNS} FROM node WHERE id IN (SELECT id FROM (
            SELECT id, row_number() OVER (
                PARTITION BY kind, role = ?, curated > 0 ORDER BY created_at DESC, node_id
            ) AS place FROM node WHERE channel = ? AND level = ?
        ) WHERE place <= ?) ORDER BY created_at DESC, node_id"""
        return list(self._nodes(sql, (IMPORT, channel, str(level), limit)))

    def tags(
        self, channel: str | None = None, level: Level | None = None, kind: Kind | None = None, where: Filter = ()
    ) -> list[tuple[tuple[str, ...], int]]:
        """Return the tags that live memories have together, and the number of these."""
        of_all, bindings = _listed(channel, level, kind, where)
        sql = f"SELECT tags, count(*) FROM node WHERE {of_all} AND live AND tags != '[]' GROUP BY tags ORDER BY tags"
        return [(tuple(json.loads(tags)), number) for tags, number in self._rows(sql, bindings)]

    def newest_turns(self, most: int, least_chars: int, most_chars: int, within: int) -> list[str]:
        """Return the beginnings of people's turns that are not short, of the newest `within` rows, newest first."""
        sql = """
        SELECT substr(text, 1, ?) FROM node
        WHERE id > (SELECT max(id) FROM node) - ? AND +kind = 'turn' AND +live
        AND role NOT IN (SELECT value FROM json_each(?)) AND length(text) >= ?
        ORDER BY id DESC LIMIT ?"""  # the unary + keeps SQLite from an index and from sorting what that finds
        machines = json.dumps(sorted(MACHINES))
        return [text for (text,) in self._rows(sql, (most_chars, within, machines, least_chars, most))]

    def said_lately(self, channel: str | None, limit: int) -> list[SaidTurn]:
        """Return the live turns that were read last, of one channel or of all, newest first, by their beginnings."""
        sql = """
        SELECT session_id, ordinal, channel, role, created_at, substr(text, 1, ?) FROM node
        WHERE +kind = 'turn' AND +live AND (? IS NULL OR +channel = ?) ORDER BY id DESC LIMIT ?"""
        return [
            SaidTurn(session, ordinal, place, role, _instant(at), text)
            for session, ordinal, place, role, at, text in self._rows(sql, (SAID_CHARS, channel, channel, limit))
        ]

    def said_between(self, since: datetime, until: datetime, channels: Collection[str], limit: int) -> list[Node]:
        """Return the newest turns and facts of each channel that were said from `since` until before `until`."""
        sql = (
            f"SELECT {NODE_COLUMNS} FROM node WHERE channel = ? AND level = ? AND created_at BETWEEN ? AND ?"
            " AND kind NOT IN ('session', 'document') ORDER BY created_at DESC LIMIT ?"
        )
        day = timedelta(days=1)  # other zones' times are other texts
        bounds = (since - min(day, since - _FIRST)).isoformat(), (until + min(day, _LAST - until)).isoformat()
        found = (
            node
            for channel in sorted(channels)
            for level in (Level.FACT, Level.SESSION)
            for node in self._nodes(sql, (channel, level.value, *bounds, limit))
        )
        first, last = since.timestamp(), until.timestamp()
        return [node for node in found if node.time_s is not None and first <= node.time_s < last]

    def curated(self, channels: Collection[str]) -> list[Node]:
        """Return the live curated memories of these channels: the highest priority first, then the newest."""
        sql = (
            f"SELECT {NODE_COLUMNS} FROM node WHERE curated > 0 AND live AND length(text) <= ? AND channel IN"
            " (SELECT value FROM json_each(?)) ORDER BY curated DESC, created_at DESC, node_id LIMIT ?"
        )
        return list(self._nodes(sql, (LONGEST_CURATED, json.dumps(sorted(channels)), MOST_CURATED)))

    def contents(self) -> list[Content]:
        """Return the entries of the catalogue page: all memories and sessions, newest first."""
        sql = (
            "SELECT path, title, channel, level, live, created_at FROM node WHERE kind != 'turn'"
            " ORDER BY created_at DESC, node_id"
        )
        gone = self._withdrawn.now().gone
        return [
            Content(path, title, channel, Level(level), bool(live), _instant(at))
            for path, title, channel, level, live, at in self._rows(sql)
            if path not in gone
        ]

    def turn_ids(self) -> list[NodeId]:
        """Return the ids of all live turns, in the order in which they were read."""
        return [node_id for (node_id,) in self._rows("SELECT node_id FROM node WHERE +kind = 'turn' AND live")]

    def facts_alone(self) -> list[NodeId]:
        """Return the ids of all live facts without evidence: a person's notes."""
        sql = (
            "SELECT node_id FROM node WHERE level = 'L1' AND live"
            " AND NOT EXISTS (SELECT 1 FROM link WHERE link.source = node.node_id AND link.kind = 'cites')"
        )
        return [node_id for (node_id,) in self._rows(sql)]

    def chunks_of(self, node_ids: Collection[NodeId]) -> dict[NodeId, list[ChunkRow]]:
        """Return the chunks of some nodes, each node's in the order of its text."""
        sql = (
            'SELECT chunk_id, node_id, start, "end" FROM chunk WHERE node_id IN (SELECT value FROM json_each(?))'
            ' ORDER BY node_id, start, "end"'
        )
        found: dict[NodeId, list[ChunkRow]] = {}
        for row in self._all_rows(sql, json.dumps(list(node_ids))):
            found.setdefault(row[1], []).append(ChunkRow(*row))
        return found

    def pieces(self, node_ids: Collection[NodeId]) -> dict[NodeId, NodeId]:
        """Map the chunks of some nodes to their nodes."""
        sql = "SELECT chunk_id, node_id FROM chunk WHERE node_id IN (SELECT value FROM json_each(?))"
        return dict(self._rows(sql, (json.dumps(list(node_ids)),)))

    def evidence(self, node_ids: Collection[NodeId], scope: Scope = EVERYTHING) -> dict[NodeId, tuple[Evidence, ...]]:
        """Return the turns that each node contains or cites, directly or through facts, in the order of its sources.

        Only those of the scope's channels, and of what was said by the time that it is of.
        """
        turns: dict[NodeId, dict[Evidence, None]] = {node_id: {} for node_id in node_ids}
        sql = """
        WITH RECURSIVE cited(root, place, node_id) AS (
            SELECT value, rank, target FROM json_each(?1) JOIN link ON link.source = value AND link.kind = 'cites'
        ), under(root, place, node_id, depth) AS (
            SELECT root, place, node_id, 0 FROM cited
            UNION SELECT value, 0, value, 0 FROM json_each(?1) WHERE value NOT IN (SELECT root FROM cited)
            UNION SELECT root, place, link.target, depth + 1 FROM under JOIN link ON link.source = under.node_id
            WHERE link.kind = 'cites' AND depth < 4
        )
        SELECT root, node.node_id, external_id, channel, created_at
        FROM under CROSS JOIN node ON node.node_id = under.node_id
        WHERE kind = 'turn' ORDER BY root, place, session_id, ordinal
        """  # CROSS, or SQLite reads every node to find these few
        for root, turn, name, channel, said_at in self._all_rows(sql, json.dumps(list(turns))) if turns else ():
            if scope.holds(channel) and (scope.as_of is None or scope.is_past(_instant(said_at))):
                turns[root][Evidence(turn, name)] = None
        return {node_id: tuple(listed) for node_id, listed in turns.items()}

    def units(self, node_ids: Collection[NodeId], scope: Scope = EVERYTHING) -> dict[NodeId, NodeId]:
        """Return the unit of each node: the first turn that a fact cites, the node itself for anything else.

        A fact is its own unit where that turn was forgotten, or is of no channel in the scope. Deleted and forgotten
        nodes have none.
        """
        withheld = self._withdrawn.now()
        turns = {node_id for node_id in node_ids if TURN_MARK in node_id}
        units = {node_id: node_id for node_id in turns - withheld.hidden}
        others = [node_id for node_id in node_ids if node_id not in turns]
        if withheld.gone and units:
            units = {node_id: node_id for node_id in self.nodes(units)}
        if others:
            sql = """
            SELECT node.node_id, node.path, node.kind, node.stale_after, link.target, turn.channel, turn.live
            FROM node
            LEFT JOIN link ON link.source = node.node_id AND link.kind = 'cites' AND link.rank = 0 AND node.level = 'L1'
            LEFT JOIN node AS turn ON turn.node_id = link.target
            WHERE node.node_id IN (SELECT value FROM json_each(?))
            """
            for node_id, path, kind, stale_after, target, channel, live in self._all_rows(sql, json.dumps(others)):
                if withheld.is_gone(path, _KINDS[kind], _instant(stale_after)):
                    continue
                live = live and target not in withheld.hidden
                is_in_scope = channel is None or (live and scope.holds(channel) and not scope.is_each_alone)
                units[node_id] = target if target is not None and is_in_scope else node_id
        return units

    def fact_links(self, units: Collection[NodeId]) -> list[Link]:
        """Return the links that say which facts were drawn from some units, and what became of these facts.

        A fact is drawn from the turn that its first link cites or rewords; a unit that is a memory is a fact itself.
        From each fact all links of supersession and contradiction are followed, whichever file has them, and from
        their other ends the successors, up to LONGEST_CHAIN of them: a successor may have been superseded too. Of
        every node that is reached its first citation is returned as well, which names its unit.
        """
        sql = """
        WITH RECURSIVE unit(id) AS (SELECT value FROM json_each(?1)),
        reached(id, depth) AS (
            SELECT link.source, 0 FROM unit CROSS JOIN link ON link.target = unit.id
                JOIN node ON node.node_id = link.source AND node.level = 'L1'
                WHERE link.kind IN ('cites', 'rewords') AND link.rank = 0
            UNION SELECT id, 0 FROM unit WHERE id NOT LIKE '%#%'
            UNION SELECT link.target, depth + 1 FROM reached CROSS JOIN link ON link.source = reached.id
                WHERE (link.kind = 'superseded_by' AND depth < ?2)
                OR (link.kind IN ('later', 'contradicts') AND depth = 0)
            UNION SELECT link.source, depth + 1 FROM reached CROSS JOIN link ON link.target = reached.id
                WHERE (link.kind = 'supersedes' AND depth < ?2) OR (link.kind = 'contradicts' AND depth = 0)
        )
        SELECT source, target, kind FROM reached CROSS JOIN link ON link.source = reached.id
            WHERE kind IN ('superseded_by', 'supersedes', 'later', 'contradicts')
            OR (kind IN ('cites', 'rewords') AND rank = 0)
        UNION SELECT source, target, kind FROM reached CROSS JOIN link ON link.target = reached.id
            WHERE kind IN ('supersedes', 'contradicts')
        """  # CROSS: the facts come first, or SQLite reads every link
        return [Link(*row) for row in self._all_rows(sql, json.dumps(list(units)), LONGEST_CHAIN)]

    def files_of_facts(self, node_ids: Collection[NodeId]) -> list[tuple[NodeId, str]]:
        """Return each of some ids with the file of its fact: itself, or those that were drawn from it as a turn."""
        sql = """
        SELECT node.node_id, node.path FROM json_each(?1) AS named
        CROSS JOIN node ON node.node_id = named.value AND node.level = 'L1'
        UNION ALL SELECT link.target, node.path FROM json_each(?1) AS named
        CROSS JOIN link ON link.target = named.value AND link.kind = 'cites' AND link.rank = 0
        JOIN node ON node.node_id = link.source AND node.level = 'L1'
        """
        return [(named, path) for named, path in self._all_rows(sql, json.dumps(list(node_ids)))]

    def drawn_among(self, facts: Collection[NodeId], units: Collection[NodeId]) -> list[tuple[NodeId, NodeId]]:
        """Return those of some facts whose first evidence is one of these turns, each after its turn."""
        sql = """
        SELECT link.target, link.source FROM json_each(?1) AS unit
        CROSS JOIN link ON link.target = unit.value AND link.kind = 'cites' AND link.rank = 0
        JOIN node ON node.node_id = link.source AND node.level = 'L1'
        WHERE link.source IN (SELECT value FROM json_each(?2))
        """
        return [(unit, fact) for unit, fact in self._all_rows(sql, json.dumps(list(units)), json.dumps(list(facts)))]

    def cited_by(self, node_id: NodeId, kind: str = "cites") -> list[NodeId]:
        """Return the nodes that point at this one."""
        rows = self._rows("SELECT source FROM link WHERE target = ? AND kind = ? ORDER BY source", (node_id, kind))
        return [source for (source,) in rows]

    def links(self, node_id: NodeId, kind: str) -> list[NodeId]:
        """Return the nodes that this one points at."""
        rows = self._rows("SELECT target FROM link WHERE source = ? AND kind = ? ORDER BY rank", (node_id, kind))
        return [target for (target,) in rows]

    def opposed(self, node_ids: Collection[NodeId]) -> list[tuple[NodeId, NodeId, str]]:
        """Return the links of some nodes to their successors, and the disputes from either end."""
        sql = """
        WITH one AS (SELECT value AS id FROM json_each(?))
        SELECT source, target, kind FROM one JOIN link ON link.source = one.id
            WHERE kind IN ('superseded_by', 'contradicts')
        UNION SELECT target, source, kind FROM one JOIN link ON link.target = one.id WHERE kind = 'contradicts'
        """
        return self._all_rows(sql, json.dumps(list(node_ids)))

    def links_around(self, node_ids: Collection[NodeId]) -> list[tuple[NodeId, NodeId, str]]:
        """Return the links of some nodes to others, in both directions, and of pages that cite them all links."""
        sql = """
        WITH one AS (SELECT value AS id FROM json_each(?1)),
        page AS (
            SELECT DISTINCT link.source AS id FROM one JOIN link ON link.target = one.id AND link.kind = 'cites'
            JOIN node ON node.node_id = link.source WHERE node.level IN ('L2', 'L3')
        )
        SELECT source, target, link.kind FROM one JOIN link ON source = one.id WHERE link.kind != ?2
        UNION SELECT source, target, link.kind FROM one JOIN link ON target = one.id WHERE link.kind != ?2
        UNION SELECT source, target, link.kind FROM page JOIN link ON source = page.id WHERE link.kind = 'cites'
        ORDER BY 1, 2, 3
        """
        return [(*row,) for row in self._all_rows(sql, json.dumps(list(node_ids)), AWAITS)]

    def conflicts(self) -> list[tuple[NodeId, NodeId]]:
        """Return pairs of live memories of which the first says that it contradicts the second."""
        sql = """
        SELECT link.source, link.target FROM link JOIN node AS one ON one.node_id = link.source
        JOIN node AS other ON other.node_id = link.target
        WHERE link.kind = 'contradicts' AND one.live AND other.live ORDER BY 1, 2
        """
        return [(source, target) for source, target in self._rows(sql)]

    def marks(self) -> list[tuple[NodeId, NodeId, Literal["replaced", "likely"]]]:
        """Return the pairs of which the first says that the second took its place, or, both living, that it likely did.

        Of a pair with both marks the first alone.
        """
        sql = """
        SELECT link.source, link.target, max(link.kind) FROM link JOIN node AS one ON one.node_id = link.source
        JOIN node AS other ON other.node_id = link.target
        WHERE link.kind = 'superseded_by' OR (link.kind = 'later' AND one.live AND other.live) GROUP BY 1, 2
        """
        return [(older, newer, "replaced" if kind == SUCCESSOR else "likely") for older, newer, kind in self._rows(sql)]

    def waiting(self) -> list[NodeId]:
        """Return the live memories that wait for review, the newest first."""
        sql = (
            "SELECT node_id FROM link JOIN node ON node.node_id = link.source"
            " WHERE link.target = ? AND link.kind = ? AND node.live ORDER BY created_at DESC, node_id"
        )
        return [node_id for (node_id,) in self._rows(sql, (THE_PERSON, AWAITS))]

    def resting(self) -> list[tuple[NodeId, NodeId]]:
        """Living pages with each of the living facts that they cite."""
        sql = """
        SELECT link.source, link.target FROM link JOIN node AS page ON page.node_id = link.source
        JOIN node AS fact ON fact.node_id = link.target
        WHERE link.kind = 'cites' AND page.live AND fact.live AND fact.level = 'L1'
        """
        return [(source, target) for source, target in self._rows(sql)]

    def old_facts(self, before: datetime) -> Iterator[tuple[NodeId, str, datetime | None]]:
        """Yield the live facts that were stated before a moment, or have no date: id, path and time."""
        sql = "SELECT node_id, path, created_at FROM node WHERE level = 'L1' AND live"
        for node_id, path, stated in self._rows(sql):
            at = _instant(stated)
            if at is None or at < before:
                yield node_id, path, at

    def said(self) -> Iterator[Node]:
        """Return every turn, fact and document, archived or not: what was said, beside the pages made of it."""
        return self._nodes(f"SELECT {NODE_COLUMNS} FROM node WHERE kind IN ('turn', 'document') OR level = 'L1'")

    def pointing_at(self, node_ids: Collection[NodeId]) -> set[NodeId]:
        """Return the nodes with a link of any kind to one of these."""
        sql = "SELECT DISTINCT source FROM link WHERE target IN (SELECT value FROM json_each(?))"
        return {source for (source,) in self._rows(sql, (json.dumps(list(node_ids)),))}

    def file(self, path: str) -> FileRow | None:
        """Return a file as it was last read."""
        row = next(self._rows("SELECT * FROM file WHERE path = ?", (path,)), None)
        return FileRow(*row) if row else None

    def files(self) -> dict[str, FileRow]:
        """Return all files as they were last read, by path."""
        return {row[0]: FileRow(*row) for row in self._rows("SELECT * FROM file")}

    def known_files(self, paths: Collection[str]) -> set[str]:
        """Return the paths among these that the index has read."""
        sql = "SELECT path FROM file WHERE path IN (SELECT value FROM json_each(?))"
        return {row[0] for row in self._rows(sql, (json.dumps(list(paths)),))}

    def cut_files(self) -> list[str]:
        """Memories so large that only their beginning was read."""
        rows = self._rows("SELECT path FROM file WHERE size > parsed_to AND path NOT LIKE 'sessions/%' ORDER BY path")
        return [path for (path,) in rows]

    def problems(self) -> list[tuple[str, str]]:
        """Files that could not be read as they should, and why."""
        return list(self._rows("SELECT path, problem FROM file WHERE problem IS NOT NULL ORDER BY path"))

    def cued(
        self, keys: Collection[int], channels: Collection[str], session: NodeId, limit: int
    ) -> dict[int, list[Node]]:
        """Return the live nodes of some channels that have a cue, by its key, the newest first.

        At most `limit` of each; those of a session are left out, and so is a key without any.
        """
        sql = f"""
        WITH found AS (
            SELECT key, node.node_id AS named,
            row_number() OVER (PARTITION BY key ORDER BY created_at DESC, node.node_id) AS place
            FROM cue CROSS JOIN node ON node.node_id = cue.node_id
            WHERE key IN (SELECT value FROM json_each(?)) AND live
            AND channel IN (SELECT value FROM json_each(?)) AND session_id IS NOT ?
        )
        SELECT key, {_OF_NODE} FROM found CROSS JOIN node ON node.node_id = named WHERE place <= ? ORDER BY key, place
        """
        withheld = self._withdrawn.now()
        bindings = json.dumps(sorted(keys)), json.dumps(sorted(channels)), session, limit
        rows = [(row[0], _node(row[1:])) for row in self._rows(sql, bindings)]
        shown = {node.node_id for node in withheld.shown(node for _, node in rows) if node.live}
        cued: dict[int, list[Node]] = {}
        for key, node in rows:
            if node.node_id in shown:
                cued.setdefault(key, []).append(node)
        return cued

    def facts_of_exchanges(self, key: int, channels: Collection[str], session: NodeId, limit: int) -> list[Node]:
        """Return the live facts of the exchanges that the newest turns with a cue belong to, the newest first.

        An exchange begins with the nearest turn of a person before; those of a session are left out.
        """
        sql = f"""
        WITH act AS (
            SELECT path, ordinal FROM cue CROSS JOIN node ON node.node_id = cue.node_id WHERE key = ? AND live
            AND channel IN (SELECT value FROM json_each(?)) AND session_id IS NOT ? ORDER BY created_at DESC LIMIT ?
        ), asked AS (
            SELECT DISTINCT (
                SELECT node_id FROM node WHERE node.path = act.path AND node.ordinal < act.ordinal
                AND node.role = 'user' ORDER BY node.ordinal DESC LIMIT 1
            ) AS turn FROM act
        )
        SELECT {_OF_NODE} FROM asked CROSS JOIN link ON link.target = asked.turn AND link.kind = 'cites'
        AND link.rank = 0 JOIN node ON node.node_id = link.source WHERE node.level = 'L1' AND node.live
        ORDER BY node.created_at DESC, node.node_id
        """  # CROSS: the few turns come first
        bindings = key, json.dumps(sorted(channels)), session, limit
        return [node for node in self._nodes(sql, bindings) if node.live]

    def turns_around(self, path: str, first: int, last: int) -> list[Node]:
        """Return the live turns of a session's file from one ordinal to another, oldest first."""
        sql = f"SELECT {NODE_COLUMNS} FROM node WHERE path = ? AND ordinal BETWEEN ? AND ? ORDER BY ordinal"
        return [node for node in self._nodes(sql, (path, first, last)) if node.live]

    def session_head(self, session_id: NodeId) -> SessionHead | None:
        """Return the head of a session."""
        node = self.node(session_id)
        if node is None:
            return None
        title = "" if node.title == session_id else node.title
        return SessionHead(session_id, node.channel, title, node.created_at, node.agent, node.task, node.user)

    def counts(self) -> dict[str, int]:
        """Return the numbers of files, memories by level, turns, chunks, and chunks that wait for a vector.

        A turn that was purged or forgotten is counted as that alone, and a session of nothing else not at all.
        """
        sql = "SELECT level, count(*) FROM node WHERE kind NOT IN ('turn', 'document') GROUP BY level"
        levels = dict(self._rows(sql))
        sql = (
            "SELECT session_id, sum(text = ?), count(*) FROM node WHERE kind = 'turn' AND NOT live GROUP BY session_id"
        )
        erased = {session: (purged, all_) for session, purged, all_ in self._rows(sql, (ERASED,))}
        purged, hidden = (sum(column) for column in zip(*erased.values(), strict=True)) if erased else (0, 0)
        sql = "SELECT DISTINCT session_id FROM node WHERE kind = 'turn' AND live AND session_id IN (SELECT value FROM"
        gone = erased.keys() - {name for (name,) in self._rows(f"{sql} json_each(?))", (json.dumps(list(erased)),))}
        return {
            "files": self._one("SELECT count(*) FROM file") or 0,
            "sessions": levels.get("L0", 0) - len(gone),
            "facts": levels.get("L1", 0),
            "scenarios": levels.get("L2", 0),
            "profiles": levels.get("L3", 0),
            "turns": (self._one("SELECT count(*) FROM node WHERE kind = 'turn'") or 0) - hidden,
            "turns_purged": purged,
            "turns_forgotten": hidden - purged,
            "chunks": self._one("SELECT count(*) FROM chunk") or 0,
            "embedding_queue": self.without_vector(),
            "near_vectors": self._one("SELECT count(*) FROM chunk WHERE embedded = 2") or 0,
        }

    def without_vector(self) -> int:
        """Return the number of chunks that wait for their vector."""
        return self._one("SELECT count(*) FROM chunk WHERE embedded = 0") or 0

    def channels(self) -> dict[str, int]:
        """Map all channels to the number of their memories and turns; turns that were purged are none."""
        sql = "SELECT channel, count(*) FROM node WHERE kind != 'session' AND text != ? GROUP BY channel ORDER BY 1"
        return dict(self._rows(sql, (ERASED,)))

    def channel_names(self) -> list[str]:
        """Return the names of all channels; a step through the index for each, no scan."""
        sql = """
        WITH RECURSIVE held(name) AS (
            SELECT min(channel) FROM node
            UNION ALL SELECT (SELECT min(channel) FROM node WHERE channel > name) FROM held WHERE name IS NOT NULL)
        SELECT name FROM held WHERE name IS NOT NULL
        """
        return [name for (name,) in self._rows(sql)]

    def meta(self, key: str) -> str | None:
        """Return a value that the index keeps about itself."""
        value = self._one("SELECT value FROM meta WHERE key = ?", (key,))
        return None if value is None else str(value)

    def _one(self, sql: str, bindings: Sequence[Any] = ()) -> Any:
        row = next(self._rows(sql, bindings), None)
        return row[0] if row else None


def _listed(
    channel: str | None, level: Level | None, kind: Kind | None, where: Filter
) -> tuple[str, list[str | int | float | None]]:
    """Return the test of the nodes of a listing, and its bindings; turns only when asked for by kind."""
    asks_kind = kind is not None or "kind" in wanted_fields(where)
    given = {"channel": channel, "level": level, "kind": kind}
    chosen = {column: str(value) for column, value in given.items() if value is not None}
    test, bound = node_filter(where)
    tests = [*([] if asks_kind else ["kind != 'turn'"]), *(f"{column} = ?" for column in chosen), test]
    return " AND ".join(tests), [*chosen.values(), *bound]


_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def _instant(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


class _Form(NamedTuple):
    """The conversions of a value to its column and back."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


_LEVELS = {level.value: level for level in Level}
# Looked up five times as fast as by a call of the enumeration.
_KINDS = {kind.value: kind for kind in Kind}
_TIME = _Form(lambda at: at.isoformat() if at else None, _instant)

# The columns whose values are not those of the node's field as they are.
_FORMS = {
    "level": _Form(attrgetter("value"), _LEVELS.__getitem__),
    "kind": _Form(attrgetter("value"), _KINDS.__getitem__),
    "live": _Form(int, bool),
    **dict.fromkeys(("created_at", "valid_from", "valid_to", "stale_after"), _TIME),
    "tags": _Form(json.dumps, lambda text: tuple(json.loads(text)) if text != "[]" else ()),
}

# A node's first fields have a column each, by their names; those after `ranks`, which is not kept, share `marks`.
_COLUMNS = Node._fields[: Node._fields.index("ranks")]
_CONVERTED = tuple((place, _FORMS[name]) for place, name in enumerate(_COLUMNS) if name in _FORMS)

NODE_COLUMNS = ", ".join((*_COLUMNS, "marks"))
"""The columns of a node in the order of `node_row`."""

# The same where other tables are joined.
_OF_NODE = ", ".join(f"node.{name}" for name in (*_COLUMNS, "marks"))


def _node(row: tuple[Any, ...]) -> Node:
    *values, marks = row
    for place, form in _CONVERTED:
        values[place] = form.read(values[place])
    return Node(*values, **_marks(marks))


def node_row(node: Node) -> tuple[Any, ...]:
    """Return a node as bindings, in the order of NODE_COLUMNS."""
    values: list[Any] = list(node[: len(_COLUMNS)])
    for place, form in _CONVERTED:
        values[place] = form.write(values[place])
    return (*values, json.dumps(node.marks()))


class _Marks(TypedDict):
    agent: str | None
    task: str | None
    user: str | None
    entities: tuple[str, ...]
    forgotten: bool


@lru_cache(maxsize=4096)
def _marks(text: str) -> _Marks:
    """Read the marks of a node but for its tags, whose own column has them as they were written.

    Kept for the next node: those of a speaker in a session are the same.
    """
    marks = json.loads(text)
    return _Marks(
        agent=marks.get("agent"),
        task=marks.get("task"),
        user=marks.get("user"),
        entities=tuple(marks.get("entity", ())),
        forgotten=FORGOTTEN in marks,
    )
