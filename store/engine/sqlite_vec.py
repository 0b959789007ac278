"""The embedded engine: FTS5 finds words, vec0 keeps vectors, columns in memory rank both.

Measured at 10,000 points of real turns: FTS5's own `bm25()` took 10 ms a question, since it reads the positions and
the length of every match, where listing the matching rows takes 1 ms; vec0's scan took 4.7 ms for the nearest 200, and
6 ms under a filter, where an XOR over codes in memory takes .2 ms, and reading 200 vectors .5 ms more. So FTS5 lists
rows, and memory ranks them under the filter: by their words, or by their signs and the best of these by their vectors.

A collection with more vectors than may be held in memory is searched by vec0 on the disk: the nearest by whole numbers
(int8), whose cosines are then computed as in memory, so that both ways answer alike.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from ..filters import Condition, Filter, Payload, Scalar
from ..model import NotFound
from . import database, fts, kept_columns
from .bm25 import CHANGED_AT_MOST, GONE, Listed, Postings, Word
from .columns import COSINE_DIGITS, NO_VECTOR, Columns, RowScope
from .database import transaction
from .fts import WordIndex, rows_listed
from .interface import Capabilities, Hybrid, Match, Point, Vector, refuse_dimension, refuse_name, refuse_vector
from .vectors import Rows, cosines_of, factors_of, quantized, unit

RESCORED, RESCORED_OF = 1_000, 500
"""Rows whose vectors are compared, at least, after the scan of signs, and one of so many more: .2 ms a thousand. Of
10,000, 100,000 and a million turns, 100, 99.7 and 98.9 % of the best 10 by cosine are among them, and 97, 95 and 97 %
of the best 100; of 200 rows it were 96, 95 and 84 %, and 75, 75 and 67 %."""

TIES = 2_000
"""Points of equal score that are ordered by id; a question with more of them has no best answer."""

LAYOUT = """
CREATE TABLE {name}_point(
    row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, stamp INTEGER NOT NULL, size INTEGER NOT NULL,
    payload TEXT NOT NULL
);
CREATE INDEX {name}_point_stamp ON {name}_point(stamp);
CREATE TABLE {name}_text(row INTEGER PRIMARY KEY, text TEXT NOT NULL, context TEXT NOT NULL);
CREATE VIRTUAL TABLE {name}_vector USING vec0(
    row INTEGER PRIMARY KEY, embedding int8[{dimension}] distance_metric=cosine
);
CREATE TABLE {name}_gone(row INTEGER PRIMARY KEY, stamp INTEGER NOT NULL);
CREATE INDEX {name}_gone_stamp ON {name}_gone(stamp);
"""
"""`stamp` counts the collection's changes: holders of its columns read the rows that are newer than these."""

MOST_HELD = 2_000_000
"""Vectors in memory, 440 bytes each with their signs."""

MOST_NEAREST = 4096
"""vec0 answers no more."""

SURPLUS = 50
"""Rows that vec0 is asked for beyond the limit: it compares whole numbers with whole numbers, the order of the last of
them may change when their cosines with the question's floats are known."""


KEPT_AFTER, KEPT_SHARE = 5_000, 20
"""Changed rows, at least, and the part of all, after which the columns are kept again: to read so many is .05 s, and
.5 s at a million."""

READ_AT_ONCE = 4_000
"""Rows that are read into columns at a time: the rows of Python take five times the room of the columns."""


LATELY = 20_000
"""The most points whose row is remembered because they matched: of these the same question asks more."""


class _Lately(NamedTuple):
    """The rows, by id, of points that matched since the columns got their stamp: any change makes them void."""

    columns: Columns | None
    stamp: int
    rows: dict[str, int]

    def of(self, columns: Columns, stamp: int) -> dict[str, int]:
        """Return the rows if they are of these columns as they are, else none."""
        return self.rows if self.columns is columns and self.stamp == stamp else {}


class _Head(NamedTuple):
    """A collection in a snapshot: its stamp, the dimension of its vectors, the fields held in memory."""

    stamp: int
    dimension: int
    fields: list[str]


class _Seen(threading.local):
    """The heads that a thread has read in its open snapshot, by collection; None without one."""

    heads: dict[str, _Head] | None = None


class _Overtaken(Exception):
    """The columns changed while they were being kept."""


class SqliteVecStore:
    """Collections in one SQLite database.

    Writes go through the connection that `writer` answers, inside its transaction where one is open (then they are
    seen when it commits). Reads go through the connection that `reader` answers, one a thread; they see committed
    changes only. The two must be different connections wherever a transaction may be rolled back. Both may answer a
    connection to another file from one call to the next. `most_held`: the most vectors of a collection in memory.
    """

    def __init__(
        self,
        writer: Callable[[], apsw.Connection],
        reader: Callable[[], apsw.Connection],
        most_held: int = MOST_HELD,
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._most_held = most_held
        self._held: dict[str, tuple[str, Columns]] = {}  # by collection: the file that they are of, and they
        self._holding = threading.Lock()
        self._lately = _Lately(None, -1, {})
        self._words: dict[str, WordIndex] = {}
        self._seen = _Seen()

    def capabilities(self) -> Capabilities:
        """Both ways of searching."""
        return Capabilities(vector=True)

    def ensure_collection(self, name: str, dimension: int) -> None:
        """Make the collection if it is not there. Raises StoreError if it is there with another dimension."""
        refuse_name(name)
        with self._writing() as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS collection("
                "name TEXT PRIMARY KEY, dimension INTEGER NOT NULL, stamp INTEGER NOT NULL, fields TEXT NOT NULL)"
            )
            row = connection.execute("SELECT dimension FROM collection WHERE name = ?", (name,)).fetchone()
            if row is None:
                connection.execute("INSERT INTO collection VALUES (?, ?, 0, '[]')", (name, dimension))
                connection.execute((LAYOUT + fts.LAYOUT).format(name=name, dimension=dimension))
            else:
                refuse_dimension(name, row[0], dimension)
            connection.execute(kept_columns.LAYOUT.format(name=name))

    def ensure_payload_index(self, name: str, field: str, *, is_number: bool = False) -> None:
        """Hold the payload field in memory, where filters test it; a no-op where it already is."""
        with self._writing() as connection:
            fields = json.loads(_one(connection, "SELECT fields FROM collection WHERE name = ?", name))
            if field not in fields:
                connection.execute(
                    "UPDATE collection SET fields = ? WHERE name = ?", (json.dumps(sorted([*fields, field])), name)
                )

    def upsert(self, name: str, points: Sequence[Point]) -> None:
        """Write points; a point with a known id replaces text, context and payload, and its vector if one is given.

        A text that changed loses its vector.
        """
        latest = {point.id: point for point in points}
        with self._writing() as connection:
            stamp = self._next_stamp(connection, name)
            known = {
                row[1]: (row[0], row[2], row[3])
                for row in connection.execute(
                    f"SELECT p.row, p.id, t.text, t.context FROM json_each(?) AS wanted "
                    f"JOIN {name}_point AS p ON p.id = wanted.value JOIN {name}_text AS t ON t.row = p.row",
                    (json.dumps(list(latest)),),
                )
            }
            first = _one(connection, f"SELECT coalesce(max(row), 0) + 1 FROM {name}_point")
            new = {point_id: first + place for place, point_id in enumerate(latest.keys() - known.keys())}
            self._insert(connection, name, stamp, [(new[p.id], p) for p in latest.values() if p.id in new])
            self._replace(connection, name, stamp, [(*known[p.id], p) for p in latest.values() if p.id in known])
            given = [(new[p.id] if p.id in new else known[p.id][0], p.vector) for p in latest.values()]
            self._put_vectors(connection, name, stamp, [(row, v) for row, v in given if v is not None])
            self._word_index(name).merge_at_times(connection, len(latest), first)

    def set_vectors(self, name: str, vectors: Mapping[str, Vector]) -> None:
        """Give vectors to points that are there; ids that are not are passed over."""
        with self._writing() as connection:
            stamp = self._next_stamp(connection, name)
            rows = _rows_of(connection, name, list(vectors))
            self._put_vectors(connection, name, stamp, [(row, vectors[point_id]) for point_id, row in rows.items()])

    def delete(self, name: str, ids: Collection[str]) -> None:
        """Remove points; unknown ids are passed over."""
        with self._writing() as connection:
            stamp = self._next_stamp(connection, name)
            rows = [(row,) for row in _rows_of(connection, name, list(ids)).values()]
            for part, column in _PARTS:
                connection.executemany(f"DELETE FROM {name}_{part} WHERE {column} = ?", rows)
            connection.executemany(f"REPLACE INTO {name}_gone VALUES (?, {stamp})", rows)

    def commit(self, name: str) -> None:
        """Do nothing: the transaction is the owner's."""

    def rollback(self, name: str) -> None:
        """Do nothing: the transaction is the owner's."""

    def mark(self, name: str) -> str:
        """Return "": the owner's transaction covers all that is here."""
        return ""

    def compact(self, name: str) -> None:
        """Merge the segments of the inverted index, and drop the columns: both hold the words of rows that are gone."""
        with self._writing() as connection:
            self._word_index(name).merge(connection)
            kept_columns.drop(connection, name)
        with self._holding:
            self._held.pop(name, None)

    def keep_columns(self, name: str, batch: Callable[[], AbstractContextManager[None]]) -> bool:
        """Read the columns and frequent words into memory, and write a snapshot where many rows have changed.

        It is written in short transactions, each a `batch` of the owner's. False where changes overtook it.
        """
        self._hold_often_said(name)
        with self._reading() as connection, self._columns(connection, name) as columns:
            if columns.unkept < max(KEPT_AFTER, columns.count // KEPT_SHARE):
                return True
            file, about, arrays = connection.filename, columns.about(), columns.arrays()
        current = partial(self._is_current, name, file, columns, about["stamp"])
        pieces = ((part, *piece) for part, array in arrays.items() for piece in kept_columns.pieces_of(array))
        try:
            kept_columns.write(self._writer, partial(_guarded, batch, current), name, about, pieces)
        except _Overtaken:
            return False
        with self._holding:
            columns.unkept = 0 if columns.stamp == about["stamp"] else columns.unkept
        return True

    def _is_current(self, name: str, file: str, columns: Columns, stamp: int) -> bool:
        with self._holding:
            held = self._held.get(name) == (file, columns) and columns.stamp == stamp
        return held and self._writer().filename == file

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Let all that this thread reads inside see one state of the database, whatever else reads through it too."""
        with self._reading():
            yield

    def search_vector(self, name: str, vector: Vector, limit: int, where: Filter = ()) -> list[Match]:
        """Return the nearest points by cosine: a coarse scan by signs, then the cosines of the best."""
        asked = np.asarray(vector, np.float32)
        if limit < 1 or not np.any(asked):
            return []
        with self._reading() as connection:
            with self._columns(connection, name) as columns:
                scope = self._scope(connection, name, columns, where)
            if columns.holds_vectors:
                keep = max(2 * limit, RESCORED + scope.vectors // RESCORED_OF)
                rows = columns.signs.nearest(asked, keep, scope.with_vector, scope.vectors)
                scores = columns.cosines(rows, asked)
            else:
                among = None if scope.vectors == columns.vectors else np.flatnonzero(scope.with_vector)
                rows, scores = _nearest_on_disk(connection, name, asked, limit + SURPLUS, among)
            best = _highest(scores, limit)
            return self._matches(name, columns, rows[best], scores[best], limit)

    def cosines(self, name: str, vector: Vector, ids: Collection[str]) -> dict[str, float]:
        """Return the cosines of these points; those without a vector, or unknown, are left out."""
        with self._reading() as connection:
            found, rows = self._rows(connection, name, ids)
            asked = np.asarray(vector, np.float32)
            with self._columns(connection, name) as columns:
                if columns.holds_vectors:
                    scores = columns.cosines(rows, asked)
            if not columns.holds_vectors:
                scores = _cosines_on_disk(connection, name, rows, asked)
        return {point_id: score for point_id, score in zip(found, scores.tolist(), strict=True) if score > NO_VECTOR}

    def fields(self, name: str, ids: Collection[str], fields: Sequence[str]) -> dict[str, tuple[Payload, ...]]:
        """Return some payload fields of these points; those that filters test are in memory."""
        with self._reading() as connection:
            found, rows = self._rows(connection, name, ids)
            with self._columns(connection, name) as columns:
                if found and columns.has(fields):
                    return dict(zip(found, columns.fields(rows, fields), strict=True))
        return {point.id: tuple(point.payload.get(field) for field in fields) for point in self.get(name, found)}

    def _rows(self, connection: apsw.Connection, name: str, ids: Collection[str]) -> tuple[list[str], Rows]:
        """Return the ids that are there, and their rows: of those that matched lately without a statement."""
        with self._columns(connection, name) as columns:
            lately = self._lately.of(columns, columns.stamp)
        row_of = {one: row for one in ids if (row := lately.get(one)) is not None}
        if len(row_of) < len(ids):
            row_of |= _rows_of(connection, name, [one for one in ids if one not in row_of])
        return list(row_of), np.array(list(row_of.values()), np.int64)

    def _matches(self, name: str, columns: Columns, rows: Rows, scores: NDArray[np.float32], limit: int) -> list[Match]:
        """Return the matches of rows, best first, and note their rows."""
        stamp = columns.stamp
        ids = columns.ids(rows)
        lately = self._lately.of(columns, stamp)
        if not lately or len(lately) > LATELY:
            self._lately = _Lately(columns, stamp, lately := {})
        lately.update(zip(ids, rows.tolist(), strict=True))
        return _best_first(ids, scores)[:limit]

    def search_keyword(self, name: str, terms: Sequence[str], limit: int, where: Filter = ()) -> list[Match]:
        """Return the best points by bm25 over any of the terms, rare ones first while their postings are in bounds."""
        if limit < 1:
            return []
        with self._reading() as connection:
            with self._columns(connection, name) as columns:
                scope = self._scope(connection, name, columns, where)
            rows, scores, listed = self._word_index(name).scores(connection, terms, columns, scope)
            self._hold(connection, name, listed)
            best = _highest(scores, limit)
            return self._matches(name, columns, rows[best], scores[best], limit)

    def _hold(self, connection: apsw.Connection, name: str, listed: Mapping[Word, Listed]) -> None:
        """Keep the lists of this snapshot, unless it is an old one: a row may have changed since."""
        if not listed:
            return
        with self._columns(connection, name) as columns:
            if columns.stamp == self._head(connection, name).stamp:
                for word, rows in listed.items():
                    columns.postings.hold(word, rows)

    def _hold_often_said(self, name: str) -> None:
        """List the words that many points have before a question asks for them, once."""
        with self._reading() as connection, self._columns(connection, name) as columns:
            if columns.postings.is_prepared:
                return
            columns.postings.is_prepared = True
        index = self._word_index(name)
        for word, spelled in index.often_said(connection, columns):
            with self._reading() as reading:
                self._hold(reading, name, {word: index.listed(reading, word, spelled)})

    def search_hybrid(
        self, name: str, terms: Sequence[str], vector: Vector, limit: int, filters: Sequence[Filter] = ((),)
    ) -> list[Hybrid]:
        """Search in both ways, one after the other."""
        return [
            (self.search_keyword(name, terms, limit, where), self.search_vector(name, vector, limit, where))
            for where in filters
        ]

    def get(self, name: str, ids: Sequence[str]) -> list[Point]:
        """Return the points that are there, in the order asked, with their vectors."""
        found = {
            row[0]: Point(row[0], row[1], row[2], _vector(row[4]), json.loads(row[3]))
            for row in self._reader().execute(
                f"SELECT p.id, t.text, t.context, p.payload, v.embedding FROM json_each(?) AS wanted "
                f"JOIN {name}_point AS p ON p.id = wanted.value JOIN {name}_text AS t ON t.row = p.row "
                f"LEFT JOIN {name}_vector AS v ON v.row = p.row",
                (json.dumps(list(ids)),),
            )
        }
        return [found[point_id] for point_id in ids if point_id in found]

    def count(self, name: str) -> int:
        """Return the number of points in the collection."""
        return int(_one(self._reader(), f"SELECT count(*) FROM {name}_point"))

    def count_under(self, name: str, where: Filter) -> tuple[int, int]:
        """Return the number of points in memory, and of those that a filter leaves."""
        with self._reading() as connection, self._columns(connection, name) as columns:
            return columns.count, self._scope(connection, name, columns, where).points

    def _insert(self, connection: apsw.Connection, name: str, stamp: int, points: list[tuple[int, Point]]) -> None:
        connection.executemany(
            f"INSERT INTO {name}_point(row, id, stamp, size, payload) VALUES (?, ?, {stamp}, ?, ?)",
            [(row, p.id, _size(p), json.dumps(dict(p.payload))) for row, p in points],
        )
        connection.executemany(
            f"INSERT INTO {name}_text VALUES (?, ?, ?)", [(row, p.text, p.context) for row, p in points]
        )
        index = self._word_index(name)
        index.put_texts(connection, [(row, p.text) for row, p in points])
        index.put_contexts(connection, [(row, p.context) for row, p in points if p.context])

    def _replace(
        self, connection: apsw.Connection, name: str, stamp: int, points: list[tuple[int, str, str, Point]]
    ) -> None:
        connection.executemany(
            f"UPDATE {name}_point SET stamp = {stamp}, size = ?, payload = ? WHERE row = ?",
            [(_size(p), json.dumps(dict(p.payload)), row) for row, _, _, p in points],
        )
        stale = [(row,) for row, text, _, p in points if text != p.text and p.vector is None]
        connection.executemany(f"DELETE FROM {name}_vector WHERE row = ?", stale)
        connection.executemany(
            f"UPDATE {name}_text SET text = ?, context = ? WHERE row = ?",
            [(p.text, p.context, row) for row, text, context, p in points if (text, context) != (p.text, p.context)],
        )
        index = self._word_index(name)
        index.put_texts(connection, [(row, p.text) for row, text, _, p in points if text != p.text])
        index.put_contexts(connection, [(row, p.context) for row, _, context, p in points if context != p.context])

    def _put_vectors(
        self, connection: apsw.Connection, name: str, stamp: int, vectors: list[tuple[int, Vector]]
    ) -> None:
        if not vectors:
            return
        dimension = _one(connection, "SELECT dimension FROM collection WHERE name = ?", name)
        for _, vector in vectors:
            refuse_vector(vector, dimension)
        rows = [(row,) for row, _ in vectors]
        numbers = quantized(np.array([vector for _, vector in vectors], np.float32))
        # vec0 knows no REPLACE, and an UPDATE loses the type of its value.
        connection.executemany(f"DELETE FROM {name}_vector WHERE row = ?", rows)
        connection.executemany(
            f"INSERT INTO {name}_vector VALUES (?, vec_int8(?))",
            [(row, one.tobytes()) for (row,), one in zip(rows, numbers, strict=True)],
        )
        connection.executemany(f"UPDATE {name}_point SET stamp = {stamp} WHERE row = ?", rows)

    def _word_index(self, name: str) -> WordIndex:
        return self._words.setdefault(name, WordIndex(name))

    @contextlib.contextmanager
    def _writing(self) -> Iterator[apsw.Connection]:
        connection = self._writer()
        with connection if connection.in_transaction else transaction(connection):
            yield connection

    def _next_stamp(self, connection: apsw.Connection, name: str) -> int:
        sql = "UPDATE collection SET stamp = stamp + 1 WHERE name = ? RETURNING stamp"
        return int(_one(connection, sql, name))

    @contextlib.contextmanager
    def _reading(self) -> Iterator[apsw.Connection]:
        """One snapshot for all statements of a search."""
        connection = self._reader()
        if connection.in_transaction:
            yield connection
            return
        connection.execute("BEGIN")
        self._seen.heads = {}
        try:
            yield connection
        finally:
            self._seen.heads = None
            connection.execute("ROLLBACK")

    def _head(self, connection: apsw.Connection, name: str) -> _Head:
        """Return the head of a collection in the snapshot that this thread reads, with one statement."""
        heads = self._seen.heads
        if heads is not None and name in heads:
            return heads[name]
        row = connection.execute("SELECT stamp, dimension, fields FROM collection WHERE name = ?", (name,)).fetchone()
        if row is None:
            raise NotFound(f"there is no collection {name}")
        head = _Head(row[0], row[1], json.loads(row[2]))
        if heads is not None:
            heads[name] = head
        return head

    @contextlib.contextmanager
    def _columns(self, connection: apsw.Connection, name: str) -> Iterator[Columns]:
        """Return the collection's columns, brought up to the snapshot (or newer, by another thread)."""
        stamp, dimension, fields = self._head(connection, name)
        with self._holding:
            file, columns = self._held.get(name, ("", None))
            with database.lifted():  # the next question would begin it from the start
                if columns is not None and columns.holds_vectors and columns.count > self._most_held:
                    columns = None  # it grew beyond the bound: read again without vectors
                if columns is None or file != connection.filename or not columns.holds(fields):
                    holds = _one(connection, f"SELECT coalesce(max(row), 0) FROM {name}_point") <= self._most_held
                    fresh = Columns(dimension, fields, holds_vectors=holds)
                    columns = _kept_columns(connection, name, stamp, fresh) or fresh
                    self._held[name] = (connection.filename, columns)
                if columns.stamp < stamp:
                    self._bring_up(connection, name, columns)
                    columns.stamp = stamp
            yield columns

    def _bring_up(self, connection: apsw.Connection, name: str, columns: Columns) -> None:
        since = (columns.stamp,)
        gone = rows_listed(_one(connection, f"SELECT group_concat(row) FROM {name}_gone WHERE stamp > ?", *since))
        columns.remove(gone)
        changes = [gone]
        changed = connection.execute(
            f"SELECT p.row, p.id, p.size, v.embedding, p.payload "
            f"FROM {name}_point AS p LEFT JOIN {name}_vector AS v ON v.row = p.row WHERE p.stamp > ?",
            since,
        )
        if not columns.capacity:
            columns.reserve(1 + _one(connection, f"SELECT coalesce(max(row), 0) FROM {name}_point"))
        while some := list(islice(changed, READ_AT_ONCE)):
            rows, ids, sizes, vectors, payloads = zip(*some, strict=True)
            columns.put(np.array(rows), ids, sizes, vectors, [json.loads(payload) for payload in payloads])
            changes.append(np.array(rows))
        self._note_words(connection, name, columns.postings, np.concatenate(changes))

    def _note_words(self, connection: apsw.Connection, name: str, postings: Postings, rows: Rows) -> None:
        """Bring the lists of words in memory up to date with a change of rows."""
        if len(rows) > CHANGED_AT_MOST:
            postings.clear()
        elif len(postings):
            stems = self._word_index(name).stems(connection, rows)
            postings.change({row: stems.get(row, GONE) for row in rows.tolist()})

    def _scope(self, connection: apsw.Connection, name: str, columns: Columns, where: Filter) -> RowScope:
        if columns.knows(where):
            return columns.scope(where)
        other = partial(_rows_where, connection, name)
        return columns.measured(columns.mask(where, lambda condition: columns.test(condition, other)))


def _kept_columns(connection: apsw.Connection, name: str, stamp: int, columns: Columns) -> Columns | None:
    """Fill empty columns as they were kept; None where there is no whole snapshot of like columns."""
    about = kept_columns.read_head(connection, name)
    if about is None or about["stamp"] > stamp:
        return None
    if not columns.is_like(about):
        return None
    arrays = {part: np.empty(length, kind) for part, (kind, length) in about["arrays"].items()}
    if not all(kept_columns.read_array(connection, name, part, array) for part, array in arrays.items()):
        return None
    columns.restore(about, arrays)
    return columns


@contextlib.contextmanager
def _guarded(batch: Callable[[], AbstractContextManager[None]], is_current: Callable[[], bool]) -> Iterator[None]:
    """Open a transaction of the owner's, in which the file is not exchanged. Raises _Overtaken."""
    with batch():
        if not is_current():
            raise _Overtaken
        yield


_PARTS = (("point", "row"), ("text", "row"), ("vector", "row"), ("words", "rowid"), ("near", "rowid"))


def _size(point: Point) -> int:
    return len(point.text) + len(point.context)


def _one(connection: apsw.Connection, sql: str, *values: Scalar) -> Any:
    row = connection.execute(sql, values).fetchone()
    if row is None:
        raise NotFound(f"there is no collection {values[0]}")
    return row[0]


def _rows_of(connection: apsw.Connection, name: str, ids: list[str]) -> dict[str, int]:
    return dict(
        connection.execute(
            f"SELECT p.id, p.row FROM json_each(?) AS wanted JOIN {name}_point AS p ON p.id = wanted.value",
            (json.dumps(ids),),
        )
    )


def _highest(scores: NDArray[np.float32], limit: int) -> Rows:
    """Return the places of the highest scores, and of those that tie with the last of them (within TIES)."""
    if len(scores) <= limit:
        return np.arange(len(scores))
    last = np.partition(scores, len(scores) - limit)[len(scores) - limit]
    return np.concatenate([np.flatnonzero(scores > last), np.flatnonzero(scores == last)[:TIES]])


def _best_first(ids: list[str], scores: NDArray[np.float32]) -> list[Match]:
    """Return matches, best first, ties by id; a removed row has no id, and a row without a vector no cosine."""
    pairs = sorted((-score, point_id) for point_id, score in zip(ids, scores.tolist(), strict=True) if point_id)
    return [Match(point_id, -score) for score, point_id in pairs if -score > NO_VECTOR]


def _vector(blob: bytes | None) -> Vector | None:
    """Return the unit vector of whole numbers as vec0 keeps them."""
    if blob is None:
        return None
    numbers = np.frombuffer(blob, np.int8)[np.newaxis]
    return np.asarray(numbers[0] * factors_of(numbers)[0], np.float32)


def _nearest_on_disk(
    connection: apsw.Connection, name: str, vector: Vector, keep: int, among: Rows | None
) -> tuple[Rows, NDArray[np.float32]]:
    """Return the `keep` rows, of some or of all, that vec0 finds nearest to a vector, with their cosines."""
    sql = f"SELECT row, embedding FROM {name}_vector WHERE embedding MATCH vec_int8(?) AND k = ?"
    bindings: list[Any] = [quantized(vector[np.newaxis]).tobytes(), min(MOST_NEAREST, keep)]
    if among is not None:
        sql += " AND row IN (SELECT value FROM json_each(?))"
        bindings.append(json.dumps(among.tolist()))
    found: list[Any] = connection.execute(sql, bindings).fetchall()
    return np.array([row for row, _ in found], np.int64), _cosines_of(found, vector)


def _cosines_on_disk(connection: apsw.Connection, name: str, rows: Rows, vector: Vector) -> NDArray[np.float32]:
    """Return the cosines of rows with a vector, NO_VECTOR for those that have none."""
    asked = json.dumps(rows.tolist())
    sql = f"SELECT row, embedding FROM {name}_vector WHERE row IN (SELECT value FROM json_each(?))"
    found: list[Any] = connection.execute(sql, (asked,)).fetchall()
    known = dict(zip([row for row, _ in found], _cosines_of(found, vector).tolist(), strict=True))
    return np.array([known.get(row, NO_VECTOR) for row in rows.tolist()], np.float32)


def _cosines_of(found: Sequence[tuple[int, bytes]], vector: Vector) -> NDArray[np.float32]:
    """Return the cosines of rows that vec0 found, computed and rounded as of vectors in memory."""
    numbers = np.frombuffer(b"".join(blob for _, blob in found), np.int8).reshape(-1, len(vector))
    return np.round(cosines_of(numbers, unit(vector)), COSINE_DIGITS)


def _rows_where(connection: apsw.Connection, name: str, condition: Condition) -> Rows:
    """Return the rows for which a condition on a field without a column holds: a slow scan of all payloads."""
    path = f'$."{condition.field}"'
    listed = json.dumps([value for value in condition.values if value is not None])
    held = "SELECT 1 FROM json_each(payload, ?) AS held WHERE held.type != 'null'"
    null = f"NOT EXISTS ({held})"
    bindings: tuple[Scalar, ...] = (path,)
    if condition.op == "is_null":
        sql = null
    elif condition.op in ("in", "not_in"):
        sql, bindings = f"EXISTS ({held} AND held.value IN (SELECT value FROM json_each(?)))", (path, listed)
    else:
        first = condition.values[0]
        of_its_type = f"(held.type = 'text') = {int(isinstance(first, str))}"
        compared = f"held.value {_COMPARED[condition.op]} ?"
        sql, bindings = f"EXISTS ({held} AND {of_its_type} AND {compared})", (path, first)
    if None in condition.values:
        sql, bindings = f"({sql} OR {null})", (*bindings, path)
    if condition.op == "not_in":
        sql = f"NOT {sql}"
    return rows_listed(_one(connection, f"SELECT group_concat(row) FROM {name}_point WHERE {sql}", *bindings))


_COMPARED = {"lte": "<=", "lt": "<", "gte": ">=", "gt": ">"}
