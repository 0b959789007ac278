"""Postgres with pgvector: words in a sparsevec, vectors in a halfvec, payloads in jsonb; both searches in one query.

A collection is a table of the schema `dreamd`. Words are split as for every other engine and ranked by the same bm25; a
word is kept as its number, 27 bits of a hash. Up to EXACT_UP_TO points, and wherever a filter leaves no more, bm25 and
cosines of all of them are exact: one query counts the points under the filter that have each word, the next ranks.

Of more points an HNSW index finds the nearest, and goes on looking where a filter left too few. Words are looked up in
lists of the rows that have them, which `keep_columns` makes: one for each word and kind, its place in a row and the
row's size, which say how much it weighs there. The lists that promise most are taken, MOST_LISTED rows in all. The
machine that asks adds them up, which takes it 20 ns a row and the server 300, and the server weighs the best of these
rows by all words. A row gets a new number when it is written, and all rows behind the last one listed are weighed too.

Example, of a million points: kayak is in 400 rows, which are all listed. Of the 63,000 with team the lists of short
texts come before the kayaks of long ones, and those of long texts with a team beside them are not taken; a row of these
that has a kayak too is weighed by both.
"""

from __future__ import annotations

import json
import math
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..filters import Clause, Condition, Filter, Payload, Scalar
from ..model import NotFound, StoreBusy, StoreError
from . import bm25
from .bm25 import number_of, words
from .fts import COMMON
from .interface import (
    Capabilities,
    Hybrid,
    Match,
    Point,
    Vector,
    escaped,
    json_values,
    payload_of,
    refuse_dimension,
    refuse_name,
    refuse_vector,
    unescaped,
)

if TYPE_CHECKING:
    import psycopg

EXACT_UP_TO: Final = 20_000
"""Points that are all compared, 7 us each, of which words take 5; the index of more is worth its build."""

EXACT_SHARE, MOST_EXACT = 0.02, 60_000
"""Of a large collection the share of points that is compared one by one, of which an HNSW index would look at 50 for
each, and at most how many."""

SMALLEST, STEP, SIZES = 40, 1.6, 10
"""Characters of the largest of the smallest points, how many times larger one kind of size is than the one before, and
the kinds: a word's rows are listed by these and by its place, which together say how much it weighs there."""

MOST_LISTED, WEIGHED = 300_000, 1_000
"""Rows of lists that a question adds up, and the best of them, which the server weighs. Of a million points the ten and
the hundred best by bm25 are found to 99.1 and 98.5 % with 200,000 rows, and to 99.2 and 99.4 % with 400,000. Of
sqlite-vec's ten best for a question 1,000 weighed rows find 96.0 %, 2,000 find 96.1, 700 find 95.9; a thousand take
some 5 ms."""

MOST_TIMES: Final = 5.0
"""The most times as many that are weighed where a filter leaves a small share."""

MOST_UNLISTED, MOST_PARTS = 2_000, 16
"""Rows that a question weighs because they are not listed yet, and parts of the lists before they are made anew."""

SAMPLED, SAMPLED_ANEW_S, MOST_SCOPES = 10_000, 600.0, 256
"""Points that a count under a filter looks at, how long it stands, and how many are kept."""

CONSIDERED: Final = 200
"""Candidates from which the HNSW index chooses a new point's links (`ef_construction`). Of 200,000 points the nearest
hundred are found to 98.7 % by 400 candidates where the index was built so, and to 96.5 % where it was built with
pgvector's own 64, which takes a third of the time."""

NEIGHBOURS: Final = 700
"""Candidates that HNSW keeps while it looks for the nearest (`hnsw.ef_search`). Of a million points, under the usual
filter, 300 find 97.6 % of the ten nearest and 95.0 % of the hundred, 500 find 99.1 and 97.1 %. Of sqlite-vec's ten best
for a question 500 find 94.6 %, 700 and 800 find 95.3."""

SURPLUS: Final = 50
"""Points that the HNSW index is asked for beyond the limit: those that tie with the last are ordered by id."""

BUILT_IN_B, LISTED_IN_B, MOST_MIB = 1_600, 2_000, 2_048
"""Memory that building may take: bytes a point for HNSW (of 384 numbers, with its neighbours), and for sorting its 80
words, and at most."""

MOST_WORDS: Final = 16_000
"""Different words of a point; a sparsevec takes no more."""

OFTEN: Final = (bm25.CONTEXT_WEIGHT, 1.0, 1.0 + bm25.CONTEXT_WEIGHT)
IN_CONTEXT, IN_TEXT, IN_BOTH = PLACES = range(len(OFTEN))
"""The places of a word in a point, and how often that is said to have it. One that more than COMMON of all contexts
have is looked for in texts alone, as sqlite-vec does."""
TEXTS: Final = (IN_TEXT, IN_BOTH)

DIGIT: Final = 2**17
"""More points than are compared one by one; a sum of squares of it, as many, is exact in 53 bits."""

INT4: Final = 23
"""Postgres' number of the type int."""

CONNECT_S: Final = 3
"""The longest wait for a connection: Postgres' own, in whole seconds, of which libpq takes at least 2."""

LAYOUT_VERSION: Final = 2
LAYOUT: Final = """
    CREATE SCHEMA IF NOT EXISTS dreamd;
    CREATE EXTENSION IF NOT EXISTS vector;
    CREATE TABLE IF NOT EXISTS dreamd.collection(
        name text PRIMARY KEY, dimension int NOT NULL, mark text NOT NULL DEFAULT '');
    DO $$ BEGIN
        IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'dreamd.collection'::regclass AND attname = 'listed')
        THEN ALTER TABLE dreamd.collection ADD layout int NOT NULL DEFAULT 1, ADD listed int[] NOT NULL DEFAULT '{}';
        END IF;
    END $$
"""
"""`listed` are the last rows of each part of the lists. Altering a table waits for all that read it: once will do."""

# `terms` are the words of a point with their kinds, `words` has a number for each word in each of PLACES.
TABLE: Final = """
    CREATE TABLE IF NOT EXISTS dreamd.{name}(
        id text COLLATE "C" PRIMARY KEY, body text NOT NULL, context text NOT NULL, size int NOT NULL,
        terms int[] NOT NULL, words sparsevec NOT NULL, payload jsonb NOT NULL, vector halfvec({dimension}),
        row int NOT NULL GENERATED ALWAYS AS IDENTITY UNIQUE);
    ALTER TABLE dreamd.{name}
        ALTER words SET STORAGE MAIN, ALTER vector SET STORAGE MAIN, ALTER payload SET STORAGE MAIN,
        ALTER words SET STATISTICS 0, ALTER terms SET STATISTICS 0, ALTER vector SET STATISTICS 0,
        ALTER body SET STATISTICS 0, ALTER context SET STATISTICS 0
"""
"""A row is larger than Postgres likes; what is stored beside it is its texts, since to fetch a vector from there takes
17 us, and 2 otherwise."""


COLUMNS: Final = "id, body, context, size, terms, words, payload, vector"
BROUGHT: Final = """
    CREATE TEMPORARY TABLE IF NOT EXISTS brought(id text, body text, context text, size int, terms int[],
        words sparsevec, payload jsonb, vector halfvec) ON COMMIT DELETE ROWS
"""
UPSERT: Final = f"""
    INSERT INTO dreamd.{{name}} AS known({COLUMNS}) SELECT {COLUMNS} FROM brought
    ON CONFLICT(id) DO UPDATE SET body = excluded.body, context = excluded.context, size = excluded.size,
        terms = excluded.terms, words = excluded.words, payload = excluded.payload, row = DEFAULT, vector = {{vector}}
"""
KEPT_VECTOR: Final = "coalesce(excluded.vector, CASE WHEN known.body = excluded.body THEN known.vector END)"

LISTS: Final = """
    CREATE TABLE dreamd.{name}_lists(term int, part int, rows bytea NOT NULL, PRIMARY KEY(term, part));
    ALTER TABLE dreamd.{name}_lists ALTER rows SET STORAGE EXTERNAL
"""

# In order: the number of this part, the last row listed before.
LIST: Final = """
    INSERT INTO dreamd.{name}_lists SELECT term, %s::int, string_agg(int4send(row), '')
    FROM (SELECT row, unnest(terms) AS term FROM dreamd.{name} WHERE row > %s) AS each GROUP BY term
"""

SAMPLE: Final = """
    SELECT count(*) FILTER (WHERE is_left), avg(size) FILTER (WHERE is_left)::float8,
        sum(words) FILTER (WHERE is_left)::float8 / nullif(sum(words), 0) FROM (
        SELECT size, -(words <#> words) AS words, {where} AS is_left
        FROM dreamd.{name} TABLESAMPLE SYSTEM({percent}) REPEATABLE(1)) AS sample
"""

# In order: the terms, the contexts that make a word common, the kinds from which such a word is looked for, the number
# of points, the weights of the kinds. The last list that is taken is cut.
LISTED: Final = """
    WITH listed AS MATERIALIZED (
        SELECT term >> 5 AS word, term & 31 AS kind, octet_length(rows) / 4 AS count, rows
        FROM dreamd.{name}_lists WHERE term = ANY(%s::int[])),
    common AS (
        SELECT word, sum(count) FILTER (WHERE kind / {sizes} <> {in_text}) > %s AS is_common FROM listed GROUP BY word),
    found AS (
        SELECT listed.*, is_common, sum(count) OVER (PARTITION BY word) AS having_it FROM listed JOIN common USING(word)
        WHERE is_common IS NOT TRUE OR kind >= {in_text} * {sizes}),
    ordered AS (
        SELECT *, sum(count) OVER (
            ORDER BY ln(1.0 + %s::float8 / having_it) * (%s::float8[])[kind + 1] DESC, word, kind) AS upto FROM found)
    SELECT word, kind, having_it::float8, is_common IS TRUE,
        CASE WHEN upto - count < {most} THEN substr(rows, 1, 4 * ({most} - upto + count)::int) END
    FROM ordered
"""

# In order: the words in their three places with how the size weighs.
SCORE: Final = " + ".join(
    f"-(words <#> %s::sparsevec) * {(bm25.K1 + 1.0) * often}::float8"
    f" / ({often + bm25.K1 * (1.0 - bm25.B)}::float8 + %s::float8 * size)"
    for often in OFTEN
)

# In order: the values of the score, of the condition within, of that beside the score, the limit.
WEIGH: Final = f"""
    SELECT id, score FROM (
        SELECT id, payload, ({SCORE})::real::float8 AS score FROM dreamd.{{name}} WHERE {{among}}
        ORDER BY score DESC, id OFFSET 0) AS weighed
    WHERE score > 0.0 AND {{where}} LIMIT %s
"""

# In order: the vector, the filter, the vector, the candidates, the limit.
NEAREST: Final = """
    SELECT id, coalesce(nullif(1.0 - distance, 'NaN'), 0.0) AS score FROM (
        SELECT id, vector <=> %s::halfvec AS distance FROM dreamd.{name}
        WHERE vector IS NOT NULL AND {where} ORDER BY vector <=> %s::halfvec{ties} LIMIT %s) AS near
    ORDER BY score DESC, id LIMIT %s
"""

Parameters = list[Any]


class Sampled(NamedTuple):
    """About how many points a filter leaves of a large collection, their mean size, and their share of its words."""

    points: float
    mean_size: float
    share: float = 1.0


class Counted(NamedTuple):
    """The number of points of a scope that have a word; of a common one, in their texts."""

    points: float
    is_common: bool


class PostgresStore:
    """Collections in a Postgres of at least version 14 with pgvector 0.8. Any thread may call; each call is a
    transaction.

    `dsn` is a connection string; a search ends after `search_s`, a write after `write_s`; what builds has no end.
    """

    def __init__(self, dsn: str, *, search_s: float = 1.0, write_s: float = 120.0) -> None:
        self._dsn = dsn
        self._limits_s = {"search": search_s, "write": write_s, "alone": 0.0, "build": 0.0}
        self._idle: dict[str, list[psycopg.Connection[Any]]] = {way: [] for way in self._limits_s}
        self._open: set[psycopg.Connection[Any]] = set()
        self._dimensions: dict[str, int] = {}
        self._fields: dict[str, dict[str, bool]] = {}
        self._is_indexed: set[str] = set()
        self._has_hnsw: dict[str, int] = {}  # how many points it was built of, or there were at the start
        self._listed_to: dict[str, int] = {}
        self._scopes: dict[tuple[str, Filter], tuple[float, Sampled]] = {}
        self._lock = threading.Lock()

    def capabilities(self) -> Capabilities:
        """Both ways of searching, in one query."""
        return Capabilities(vector=True, server_side_hybrid=True)

    def ensure_collection(self, name: str, dimension: int) -> None:
        """Make the collection if it is not there. Raises StoreError if it is there with another dimension."""
        refuse_name(name)
        with self._writing() as connection:
            # Two daemons that start at once would both find no schema.
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('dreamd'))")
            connection.execute(LAYOUT)
            row = connection.execute(
                "SELECT dimension, layout FROM dreamd.collection WHERE name = %s", (name,)
            ).fetchone()
            if row is None:
                connection.execute(
                    "INSERT INTO dreamd.collection(name, dimension, layout) VALUES(%s, %s, %s)",
                    (name, dimension, LAYOUT_VERSION),
                )
                connection.execute(TABLE.format(name=name, dimension=dimension).encode())
            else:
                refuse_dimension(name, row[0], dimension)
                if row[1] != LAYOUT_VERSION:
                    raise StoreError(f"collection {name} was made by another version")

    def ensure_payload_index(self, name: str, field: str, *, is_number: bool = False) -> None:
        """Have `keep_columns` index the payload field: a table is filled in half the time without."""
        self._fields.setdefault(name, {})[field] = is_number

    def upsert(self, name: str, points: Sequence[Point]) -> None:
        """Write points; a text that changed loses its vector unless one is given."""
        rows = self._rows(name, points)
        with self._writing() as connection:
            _put(connection, rows, UPSERT.format(name=name, vector=KEPT_VECTOR))

    def bring(self, name: str, points: Sequence[Point], gone: Collection[str], mark: str) -> None:
        """Write points with exactly their vectors, remove others, and take the mark, in one transaction."""
        rows = self._rows(name, points)
        with self._writing() as connection:
            if rows:
                _put(connection, rows, UPSERT.format(name=name, vector="excluded.vector"))
            if gone:
                sql = f"DELETE FROM dreamd.{name} WHERE id = ANY(%s)"
                connection.execute(sql.encode(), (list(gone),))
            connection.execute("UPDATE dreamd.collection SET mark = %s WHERE name = %s", (mark, name))

    def set_vectors(self, name: str, vectors: Mapping[str, Vector]) -> None:
        """Give vectors to points that are there; ids that are not are passed over."""
        rows = [(_text_of(self._checked(name, vector)), point_id) for point_id, vector in vectors.items()]
        with self._writing() as connection:
            sql = f"UPDATE dreamd.{name} SET vector = %s::halfvec WHERE id = %s"
            connection.cursor().executemany(sql.encode(), rows)

    def delete(self, name: str, ids: Collection[str]) -> None:
        """Remove points; unknown ids are passed over."""
        with self._writing() as connection:
            connection.execute(f"DELETE FROM dreamd.{name} WHERE id = ANY(%s)".encode(), (list(ids),))

    def drop(self, name: str) -> None:
        """Remove a collection with all that it holds; one that is not there is passed over."""
        with self._writing() as connection:
            connection.execute(LAYOUT)
            connection.execute(f"DROP TABLE IF EXISTS dreamd.{name}, dreamd.{name}_lists".encode())
            connection.execute("DELETE FROM dreamd.collection WHERE name = %s", (name,))
        self._is_indexed.discard(name)
        self._has_hnsw.pop(name, None)

    def commit(self, name: str) -> None:
        """Do nothing: each call is a transaction."""

    def rollback(self, name: str) -> None:
        """Do nothing: each call is a transaction."""

    def mark(self, name: str) -> str:
        """Return the mark that was brought last."""
        row = self._one("search", "SELECT mark FROM dreamd.collection WHERE name = %s", [name])
        if row is None:
            raise NotFound(f"there is no collection {name}")
        return str(row[0])

    def compact(self, name: str) -> None:
        """Free the room of removed points: no file of the database holds their texts then. Minutes for a million.

        The planner's statistics hold values of rows too, and are made anew; the file of the old ones is written anew
        where the user owns the database, and is passed over by the server otherwise.
        """
        with self._writing() as connection:
            connection.execute(f"DROP TABLE IF EXISTS dreamd.{name}_lists".encode())
            connection.execute("UPDATE dreamd.collection SET listed = '{}' WHERE name = %s", (name,))
        self._has_hnsw.pop(name, None)
        count = self.count(name)
        with self._connected("alone") as connection:
            connection.execute(f"SET maintenance_work_mem = '{_room_mib(count, BUILT_IN_B)}MB'".encode())
            connection.execute(f"VACUUM (FULL, ANALYZE) dreamd.{name}".encode())
            connection.execute("VACUUM FULL pg_catalog.pg_statistic")

    def keep_columns(self, name: str, batch: Callable[[], AbstractContextManager[None]]) -> bool:
        """Index the payload fields, and of many points list the words and build HNSW: some minutes for a million."""
        count = self._has_hnsw.get(name) or self.count(name)
        if name not in self._has_hnsw and (name not in self._is_indexed or count > EXACT_UP_TO):
            self._build(name, count)
        if count > EXACT_UP_TO:
            self._list(name)
            self._has_hnsw[name] = count
        return True

    def _build(self, name: str, count: int) -> None:
        with self._connected("build") as connection:
            connection.execute(f"SET LOCAL maintenance_work_mem = '{_room_mib(count, BUILT_IN_B)}MB'".encode())
            for field, is_number in self._fields.get(name, {}).items():
                on = f"btree (({_column(field)}))" if is_number else f"gin (({_column(field)}))"
                sql = f"CREATE INDEX IF NOT EXISTS {name}_by_{field} ON dreamd.{name} USING {on}"
                connection.execute(sql.encode())
            has_near = connection.execute("SELECT to_regclass(%s)", (f"dreamd.{name}_near",)).fetchone() != (None,)
            if count > EXACT_UP_TO and not has_near:
                on = f"{name}_near ON dreamd.{name} USING hnsw (vector halfvec_cosine_ops)"
                connection.execute(f"CREATE INDEX {on} WITH (ef_construction = {CONSIDERED})".encode())
                connection.execute(f"ANALYZE dreamd.{name}".encode())
        self._is_indexed.add(name)

    def _list(self, name: str) -> None:
        """List the words of rows that are not listed yet, where they are many; after MOST_PARTS times of all rows."""
        sql = f"SELECT listed, (SELECT max(row) FROM dreamd.{name}) FROM dreamd.collection WHERE name = %s FOR UPDATE"
        with self._connected("build") as connection:
            row = connection.execute(sql.encode(), (name,)).fetchone()
            if row is None:
                raise NotFound(f"there is no collection {name}")
            listed, newest = row
            if not listed or newest - listed[-1] > MOST_UNLISTED:
                if not listed or len(listed) >= MOST_PARTS:
                    listed = []
                    connection.execute(f"DROP TABLE IF EXISTS dreamd.{name}_lists".encode())
                    connection.execute(LISTS.format(name=name).encode())
                last = listed[-1] if listed else 0
                mib = _room_mib(newest - last, LISTED_IN_B)
                # By sorting: a list that grows while others do takes a kilobyte, and most are of one row.
                connection.execute(f"SET LOCAL work_mem = '{mib}MB'; SET LOCAL enable_hashagg = off".encode())
                connection.execute(LIST.format(name=name).encode(), [len(listed), last])
                listed = [*listed, newest]
                connection.execute("UPDATE dreamd.collection SET listed = %s WHERE name = %s", (listed, name))
        self._listed_to[name] = listed[-1]

    def reading(self) -> AbstractContextManager[None]:
        """Hold nothing: each search reads by itself."""
        return nullcontext()

    def search_vector(self, name: str, vector: Vector, limit: int, where: Filter = ()) -> list[Match]:
        """Return the nearest points by cosine."""
        if limit <= 0 or not vector.any():
            return []
        return [Match(*row) for row in self._rows_of(*self._nearest(name, vector, limit, where))]

    def search_keyword(self, name: str, terms: Sequence[str], limit: int, where: Filter = ()) -> list[Match]:
        """Return the best points by bm25 over any of the terms."""
        return self._with_words(name, _asked(terms), limit, where)

    def _with_words(self, name: str, asked: Sequence[int], limit: int, where: Filter) -> list[Match]:
        if limit <= 0 or not asked:
            self._rows_of(f"SELECT 1 FROM dreamd.{name} LIMIT 0", [])
            return []
        return [Match(*row) for row in self._rows_of(*self._by_words(name, asked, limit, where))]

    def search_hybrid(
        self, name: str, terms: Sequence[str], vector: Vector, limit: int, filters: Sequence[Filter] = ((),)
    ) -> list[Hybrid]:
        """Search in both ways; scores are those of each, since the fusion reads more than ranks.

        In one query for each filter; or in two that the server works on at the same time, where so much is left that
        it searches lists and the HNSW index.
        """
        asked = _asked(terms)
        return [self._in_both_ways(name, asked, vector, limit, where) for where in filters]

    def _in_both_ways(self, name: str, asked: Sequence[int], vector: Vector, limit: int, where: Filter) -> Hybrid:
        if limit <= 0 or not asked or not vector.any():
            return self._with_words(name, asked, limit, where), self.search_vector(name, vector, limit, where)
        if self._wide(name, where) is not None:
            return self._both_at_once(name, asked, vector, limit, where)
        (left, left_values), (right, right_values) = (
            self._by_words(name, asked, limit, where),
            self._nearest(name, vector, limit, where),
        )
        sql = f"(SELECT 0, id, score FROM ({left}) AS l) UNION ALL (SELECT 1, id, score FROM ({right}) AS r)"
        arms: tuple[list[Match], list[Match]] = [], []
        for arm, point_id, score in self._rows_of(sql, [*left_values, *right_values]):
            arms[arm].append(Match(point_id, score))
        for found in arms:
            found.sort(key=lambda match: (-match.score, match.id))
        return arms

    def _both_at_once(self, name: str, asked: Sequence[int], vector: Vector, limit: int, where: Filter) -> Hybrid:
        sql, values = self._nearest(name, vector, limit, where)
        with self._connected("search") as other, other.pipeline():
            near = other.execute(sql.encode(), values)  # it is sent, and not waited for
            by_words = self._rows_of(*self._by_words(name, asked, limit, where))
            return [Match(*row) for row in by_words], [Match(*row) for row in near.fetchall()]

    def cosines(self, name: str, vector: Vector, ids: Collection[str]) -> dict[str, float]:
        """Return the cosines of these points; those without a vector, or unknown, are left out."""
        sql = (
            "SELECT id, coalesce(nullif(1.0 - (vector <=> %s::halfvec), 'NaN'), 0.0)"
            f" FROM dreamd.{name} WHERE id = ANY(%s) AND vector IS NOT NULL"
        )
        return dict(self._rows_of(sql, [_text_of(vector), list(ids)]))

    def fields(self, name: str, ids: Collection[str], fields: Sequence[str]) -> dict[str, tuple[Payload, ...]]:
        """Return some payload fields of these points, in the order of `fields`; unknown ids are left out."""
        rows = self._rows_of(f"SELECT id, payload FROM dreamd.{name} WHERE id = ANY(%s)", [list(ids)])
        payloads = ((point_id, payload_of(held)) for point_id, held in rows)
        return {point_id: tuple(payload.get(field) for field in fields) for point_id, payload in payloads}

    def get(self, name: str, ids: Sequence[str]) -> list[Point]:
        """Return the points that are there, in the order asked, with their vectors as precisely as they are kept."""
        sql = f"SELECT id, body, context, vector::text, payload FROM dreamd.{name} WHERE id = ANY(%s)"
        found = {
            point_id: Point(
                point_id,
                unescaped(body),
                unescaped(context),
                None if vector is None else np.array(json.loads(vector), np.float32),
                payload_of(payload),
            )
            for point_id, body, context, vector, payload in self._rows_of(sql, [list(ids)])
        }
        return [found[point_id] for point_id in ids if point_id in found]

    def count(self, name: str) -> int:
        """Return the number of points in the collection."""
        row = self._one("write", f"SELECT count(*) FROM dreamd.{name}", [])
        return int(row[0]) if row else 0

    def abort(self) -> None:
        """Shut the sockets of all connections: a call that waits for an answer ends at once."""
        for connection in self._forget():
            with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as shut:
                shut.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close every connection; no call may be under way."""
        for connection in self._forget():
            connection.close()

    def _forget(self) -> set[psycopg.Connection[Any]]:
        """Close the connections that are not used, and return the others, which are closed after their use."""
        with self._lock:
            idle = [connection for some in self._idle.values() for connection in some]
            used, self._open = self._open.difference(idle), set()
            self._idle = {way: [] for way in self._limits_s}
        for connection in idle:
            connection.close()
        return used

    # ---- queries

    def _nearest(self, name: str, vector: Vector, limit: int, where: Filter) -> tuple[str, Parameters]:
        condition, values = _condition(where)
        is_exact = self._wide(name, where) is None
        sql = NEAREST.format(name=name, where=condition, ties=", id" if is_exact else "")
        text = _text_of(vector)
        return sql, [text, *values, text, limit if is_exact else limit + SURPLUS, limit]

    def _by_words(self, name: str, asked: Sequence[int], limit: int, where: Filter) -> tuple[str, Parameters]:
        """Return the query that weighs points by the words asked for, after one that counts these."""
        condition, values = _condition(where)
        if (scope := self._wide(name, where)) is None:
            scope, counted = self._counted(name, asked, condition, values)
            sql, among = WEIGH.format(name=name, among=condition, where="true"), values
            values = []
        else:
            counted, best = self._listed(name, asked, scope)
            sql = WEIGH.format(name=name, among="(row = ANY(%s::int[]) OR row > %s)", where=condition)
            among = [best, self._listed_to[name]]
        by_size = bm25.K1 * bm25.B / scope.mean_size
        score = [value for sparse in _rarities(counted, scope.points) for value in (sparse, by_size)]
        return sql, [*score, *among, *values, limit]

    def _counted(
        self, name: str, asked: Sequence[int], condition: str, values: Parameters
    ) -> tuple[Sampled, dict[int, Counted]]:
        """Return what a filter leaves, and how often each word is there.

        A row has a word in one place, which counts as 1, DIGIT or its square; so one sum has the counts of all three.
        """
        sums = ", ".join(["sum(-(words <#> %s::sparsevec))"] * len(asked))
        sql = f"SELECT count(*), avg(size)::float8, ARRAY[{sums}] FROM dreamd.{name} WHERE {condition}"
        digits = [_sparse({(word, place): float(DIGIT**place) for place in PLACES}) for word in asked]
        points, mean_size, found = self._rows_of(sql, [*digits, *values])[0]
        counted = {}
        for word, total in zip(asked, found, strict=True):
            counts = [int(total or 0) // DIGIT**place % DIGIT for place in PLACES]
            is_common = counts[IN_CONTEXT] + counts[IN_BOTH] > COMMON * max(points, 100)
            counted[word] = Counted(sum(counts[IN_TEXT if is_common else IN_CONTEXT :]), is_common)
        return Sampled(points, max(1.0, mean_size or 1.0)), counted

    def _listed(self, name: str, asked: Sequence[int], scope: Sampled) -> tuple[dict[int, Counted], list[int]]:
        """Return about how often each word is in a scope, and the rows that promise most."""
        count = self._has_hnsw[name]
        terms = [_term(word, kind) for word in asked for kind in range(len(OFTEN) * SIZES)]
        weights = _weights_of_kinds(scope.mean_size)
        values = [terms, COMMON * count, float(count), weights.tolist()]
        counted = dict.fromkeys(asked, Counted(0.0, False))
        promised = []
        sql = LISTED.format(name=name, in_text=IN_TEXT, sizes=SIZES, most=MOST_LISTED)
        for shifted, kind, having, is_common, rows in self._rows_of(sql, values, binary=True):
            counted[word := shifted + FIRST_WORD] = Counted(min(scope.points, having * scope.share), is_common)
            if rows is not None:
                promise = bm25.idf(scope.points, counted[word].points) * weights[kind]
                promised.append((np.frombuffer(rows, ">i4"), promise))
        return counted, _best(promised, round(WEIGHED * min(MOST_TIMES, max(1.0, count / scope.points))))

    def _wide(self, name: str, where: Filter) -> Sampled | None:
        """Return a sample's counts of the points under a filter; None where all of them are to be compared."""
        if (count := self._has_hnsw.get(name)) is None:
            return None
        now = time.monotonic()
        known, scope = self._scopes.get((name, where), (0.0, None))
        if scope is None or now > known + SAMPLED_ANEW_S:
            condition, values = _condition(where)
            part = min(1.0, SAMPLED / count)
            row = self._one("search", SAMPLE.format(name=name, where=condition, percent=100 * part), values)
            points, mean, share = row or (0, None, None)
            if len(self._scopes) >= MOST_SCOPES:
                self._scopes = {}
            self._scopes[name, where] = now, (scope := Sampled(points / part, max(1.0, mean or 1.0), share or 0.0))
        return scope if scope.points > max(EXACT_UP_TO, min(EXACT_SHARE * count, MOST_EXACT)) else None

    def _rows(self, name: str, points: Sequence[Point]) -> list[Parameters]:
        latest = {point.id: point for point in points}
        return [
            [
                *(point.id, escaped(point.text), escaped(point.context), len(point.text) + len(point.context)),
                *(*_words_of(point), b"\x01" + json.dumps(json_values(point.payload)).encode()),
                None if point.vector is None else _bytes_of(self._checked(name, point.vector)),
            ]
            for point in latest.values()
        ]

    def _checked(self, name: str, vector: Vector) -> Vector:
        if (dimension := self._dimensions.get(name)) is None:
            row = self._one("search", "SELECT dimension FROM dreamd.collection WHERE name = %s", [name])
            if row is None:
                raise NotFound(f"there is no collection {name}")
            dimension = self._dimensions[name] = int(row[0])
        refuse_vector(vector, dimension)
        return vector

    def _one(self, way: str, sql: str, values: Parameters) -> tuple[Any, ...] | None:
        with self._connected(way) as connection:
            found: tuple[Any, ...] | None = connection.execute(sql.encode(), values).fetchone()
        return found

    def _rows_of(self, sql: str, values: Parameters, *, binary: bool = False) -> list[tuple[Any, ...]]:
        with self._connected("search") as connection:
            return connection.execute(sql.encode(), values, binary=binary).fetchall()

    # ---- connections

    @contextmanager
    def _writing(self) -> Iterator[psycopg.Connection[Any]]:
        with self._connected("write") as connection:
            yield connection

    @contextmanager
    def _connected(self, way: str) -> Iterator[psycopg.Connection[Any]]:
        """Lend a connection for one transaction. Raises StoreBusy where the server is away, slow or full."""
        import psycopg

        connection = None
        try:
            with self._lock:
                connection = self._idle[way].pop() if self._idle[way] else None
            connection = connection or self._connect(way)
            with nullcontext() if connection.autocommit else connection.transaction():
                yield connection
            with self._lock:
                if connection in self._open:
                    self._idle[way].append(connection)
                    connection = None
        except psycopg.errors.UndefinedTable:
            raise NotFound("the server has no such collection") from None
        except psycopg.Error as error:  # its message may hold texts, or where the server is
            why = reason_of(error, is_connected=connection is not None)
            raise StoreBusy(f"Postgres cannot be used now: {why}", "It is tried again.") from None
        finally:
            if connection is not None:
                with self._lock:
                    self._open.discard(connection)
                connection.close()

    def _connect(self, way: str) -> psycopg.Connection[Any]:
        import psycopg

        options = f"-c statement_timeout={int(self._limits_s[way] * 1000)} -c hnsw.ef_search={NEIGHBOURS}"
        options += " -c hnsw.iterative_scan=strict_order -c random_page_cost=1.1 -c jit=off"
        if way == "search":
            options += " -c max_parallel_workers_per_gather=0"  # to start one takes longer than a search
        connection = psycopg.connect(
            self._dsn,
            connect_timeout=CONNECT_S,
            application_name="dreamd",
            options=options,
            prepare_threshold=None,
            autocommit=way == "alone",  # for what runs in no transaction
        )
        with self._lock:
            self._open.add(connection)
        return connection


REASONS: Final = {
    "0A": "it lacks an extension",
    "08": "the connection to it broke off",
    "22": "it cannot take what it was given",
    "23": "its table has other rules than were expected",
    "25006": "it can only be read",
    "28": "it refuses the login",
    "3D": "it has no such database",
    "42": "its tables are others than were expected",
    "42501": "the login may not do that",
    "53": "it has too little memory",
    "53100": "its disk is full",
    "53300": "it has no connection left",
    "57": "it is stopping or starting",
    "57014": "it took too long",
    "58": "its disk fails, or an extension is not there",
}
"""Why a server cannot be used, by its code of the error, or by the class of that (appendix A of Postgres' manual)."""


def reason_of(error: psycopg.Error, *, is_connected: bool) -> str:
    """Return why a server cannot be used, by its code of it, if it has one, or how far it was reached.

    Its own message is not told: it may hold texts, or where the server is.
    """
    import psycopg

    code = error.sqlstate
    if code is not None:
        return REASONS.get(code) or REASONS.get(code[:2]) or f"it failed with code {code}"
    if isinstance(error, psycopg.errors.ConnectionTimeout):
        return "it does not answer"
    return "it ended the connection" if is_connected else "it refuses connections"


def _put(connection: psycopg.Connection[Any], rows: Sequence[Parameters], upsert: str) -> None:
    """Write rows by COPY, in Postgres' binary form, into a table of this connection, and from there."""
    connection.execute(BROUGHT)
    with connection.cursor().copy(f"COPY brought({COLUMNS}) FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types(["text", "text", "text", "int4", "bytea", "bytea", "bytea", "bytea"])
        for row in rows:
            copy.write_row(row)
    connection.execute(upsert.encode())


def _room_mib(count: int, each_b: int) -> int:
    return min(MOST_MIB, max(64, each_b * count // 2**20))


# ---- words

FIRST_WORD: Final = 2**26
DIMENSIONS: Final = len(PLACES) * 2**27


def _number(word: str) -> int:
    return number_of(word) >> 5


def _term(word: Any, kind: Any) -> Any:
    """Return the number of a word of a kind, its place and size, as one of 32 bits with a sign."""
    return (word - FIRST_WORD) * 32 + kind


def _weights_of_kinds(mean_size: float) -> NDArray[np.float32]:
    """Return the weights of a word by its place and size."""
    sizes = (SMALLEST * STEP ** (np.arange(SIZES) - 0.5)).astype(np.int32)
    return np.concatenate([bm25.weight(np.float32(often), sizes, mean_size) for often in OFTEN])


def _asked(terms: Sequence[str]) -> list[int]:
    return list(dict.fromkeys(map(_number, words(" ".join(terms), query=True))))


def _words_of(point: Point) -> tuple[bytes, bytes]:
    """Return the terms of a point and its words in their places, as an array and a sparsevec are sent."""
    places = dict.fromkeys(map(_number, words(point.text)), IN_TEXT)
    for word in set(map(_number, words(point.context))):
        places[word] = IN_BOTH if word in places else IN_CONTEXT
    numbers = np.fromiter(islice(places, MOST_WORDS), np.int64)
    place = np.fromiter(islice(places.values(), MOST_WORDS), np.int64)
    size = max(len(point.text) + len(point.context), SMALLEST)
    terms = np.full((len(numbers), 2), 4, ">i4")  # each with its length before it
    terms[:, 1] = _term(numbers, place * SIZES + min(SIZES - 1, math.ceil(math.log(size / SMALLEST, STEP))))
    dimensions = np.sort(len(PLACES) * numbers + place).astype(">i4")
    array = struct.pack(">iiiii", 1, 0, INT4, len(terms), 1) if len(terms) else struct.pack(">iii", 0, 0, INT4)
    sparse = struct.pack(">iii", DIMENSIONS, len(dimensions), 0)
    return array + terms.tobytes(), sparse + dimensions.tobytes() + np.ones(len(dimensions), ">f4").tobytes()


def _rarities(counted: Mapping[int, Counted], points: float) -> list[str]:
    """Return for each place the words that count there, with their rarities; both are the text of a common word."""
    rarity = {word: bm25.idf(points, found.points) for word, found in counted.items()}
    common = {word: rarity[word] for word, found in counted.items() if found.is_common}
    others = {word: rarity[word] for word in counted.keys() - common.keys()}
    in_place = [{(word, place): weight for word, weight in others.items()} for place in PLACES]
    in_place[IN_TEXT] |= {(word, place): weight for word, weight in common.items() for place in TEXTS}
    return [_sparse(weights) for weights in in_place]


def _sparse(weights: Mapping[tuple[int, int], float]) -> str:
    """Return the weights of words in places as the text of a sparsevec."""
    each = (f"{len(PLACES) * word + place + 1}:{weight}" for (word, place), weight in weights.items())
    return "{" + ",".join(each) + "}/" + str(DIMENSIONS)


def _best(promised: Sequence[tuple[NDArray[Any], float]], most: int) -> list[int]:
    """Return the rows that were promised most in all, in no order. Each of the lists has a row once.

    Example: rows 3 and 7 are promised 2.0 and rows 7 and 9 1.5. That makes 2.0 for row 3, 3.5 for row 7 and 1.5 for
    row 9; the best two are 3 and 7.
    """
    sums = np.zeros(1 + max((int(rows.max(initial=0)) for rows, _ in promised), default=0), np.float32)
    for rows, promise in promised:
        sums[rows] += np.float32(promise)
    found = np.flatnonzero(sums > 0.0)
    best = np.argpartition(sums[found], -most)[-most:] if len(found) > most else slice(None)
    return list(found[best].tolist())


def _bytes_of(vector: Vector) -> bytes:
    """Return a vector as a halfvec is sent."""
    return struct.pack(">hh", len(vector), 0) + vector.astype(">f2").tobytes()


def _text_of(vector: Vector) -> str:
    return "[" + ",".join(map(repr, vector.tolist())) + "]"


# ---- filters


def _condition(where: Filter) -> tuple[str, Parameters]:
    """Return a filter as a condition of SQL and its values."""
    return _joined(where, " AND ", "true", is_top=True)


def _joined(clauses: Sequence[Clause], by: str, of_none: str, *, is_top: bool = False) -> tuple[str, Parameters]:
    parts = [_test(one, is_top=is_top) if isinstance(one, Condition) else _group(one) for one in clauses]
    text = by.join(text for text, _ in parts)
    return f"({text})" if parts else of_none, [value for _, values in parts for value in values]


def _group(clause: Any) -> tuple[str, Parameters]:
    must, values = _joined(clause.must, " AND ", "true")
    should, more = _joined(clause.should, " OR ", "true")
    must_not, most = _joined(clause.must_not, " OR ", "false")
    return f"({must} AND {should} AND NOT {must_not})", [*values, *more, *most]


def _test(condition: Condition, *, is_top: bool) -> tuple[str, Parameters]:
    """Test a field; never unknown, but at the top, where that is as good as false and an index finds what holds."""
    column = _column(condition.field)
    if condition.op == "is_null":
        return _is_null(column), []
    if condition.op in ("in", "not_in"):
        text, values = _is_among(column, condition.values)
        if condition.op == "not_in":
            return f"NOT coalesce({text}, false)", values
    else:
        text, values = _compares(column, condition.op, condition.values)
    return text if is_top else f"coalesce({text}, false)", values


def _is_among(column: str, among: Sequence[Scalar]) -> tuple[str, Parameters]:
    """Test a field for texts, of which it may have several, for numbers and for null."""
    tests: list[str] = []
    values: Parameters = []
    if texts := [escaped(value) for value in among if isinstance(value, str)]:
        tests.append(f"{column} ?| %s::text[]")
        values.append(texts)
    if numbers := [json.dumps(value) for value in among if isinstance(value, int | float)]:
        tests.append(f"{column} = ANY(%s::jsonb[])")
        values.append(numbers)
    if None in among:
        tests.append(_is_null(column))
    return f"({' OR '.join(tests)})" if tests else "false", values


def _compares(column: str, op: str, values: Sequence[Scalar]) -> tuple[str, Parameters]:
    or_null = f" OR {_is_null(column)}" if None in values else ""
    bound = values[0] if values else None
    sign, other_end = _SIGNS[op]
    if isinstance(bound, str):
        each = f"jsonb_array_elements_text(CASE jsonb_typeof({column}) WHEN 'array' THEN {column}"
        each += f" WHEN 'string' THEN jsonb_build_array({column}) ELSE '[]' END)"
        test = f'EXISTS(SELECT 1 FROM {each} AS each(text) WHERE each.text COLLATE "C" {sign} %s)'
        return f"({test}{or_null})", [escaped(bound)]
    if bound is None:
        return (f"({or_null.removeprefix(' OR ')})" if or_null else "false"), []
    return f"(({column} {sign} %s::jsonb AND {column} {other_end}){or_null})", [json.dumps(bound)]


def _column(field: str) -> str:
    return "payload -> '" + field.replace("'", "''").replace("%", "%%") + "'"


def _is_null(column: str) -> str:
    return f"(coalesce({column}, 'null') IN ('null', '[]'))"


# With the other end of the numbers in jsonb's order, where null and texts come before, true, false and lists after.
_SIGNS: Final = {
    "lte": ("<=", ">= '-1e400'"),
    "lt": ("<", ">= '-1e400'"),
    "gte": (">=", "< 'false'"),
    "gt": (">", "< 'false'"),
}
