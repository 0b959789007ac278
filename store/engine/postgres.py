"""Postgres with pgvector: words in a tsvector, vectors in a halfvec, payloads in jsonb; both searches in one query.

A collection is a table of the schema `dreamd`. Words are split as for every other engine and ranked by the same bm25.
Up to EXACT_UP_TO points, and wherever a filter leaves no more, cosines are exact, and the query counts how many points
under the filter have each word.

Of more points an HNSW index finds the nearest, and goes on looking where a filter left too few. Points under a filter
are counted in a sample, and a question's words are looked up rarest first while they are in no more than MOST_FOUND
points; the others only weigh the points of these, by how often the server's statistics have them. Example, of a million
points: of "did the team decide on kayaks" 400 have kayak, 63,000 decide, 890,000 the: the 400 are ranked by all
words.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ..filters import Clause, Condition, Filter, Payload, Scalar
from ..model import NotFound, StoreBusy
from . import bm25
from .bm25 import words
from .interface import (
    Capabilities,
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
"""Points whose cosines are all computed, some 10 ms; the index of more is worth its build."""

EXACT_SHARE: Final = 0.02
"""Of a large collection the share of points that is compared one by one: an HNSW index would look at 50 for each."""

MOST_FOUND: Final = 15_000
"""Points of many that a question's words are looked up in, some 200 ms."""

SAMPLED, SAMPLED_ANEW_S, MOST_SCOPES = 20_000, 60.0, 256
"""Points that a count under a filter looks at, how long it stands, and how many are kept."""

NEIGHBOURS: Final = 200
"""Candidates that HNSW keeps while it looks for the nearest (`hnsw.ef_search`): more than recall asks for."""

SURPLUS: Final = 50
"""Points that the HNSW index is asked for beyond the limit: those that tie with the last are ordered by id."""

BUILT_IN_B, MOST_MIB = 1_200, 2_048
"""Memory that the build of HNSW may take: bytes a point (of 384 numbers, with its neighbours), and at most."""

LONGEST_WORD: Final = 500
"""Characters of a word that are kept; a tsvector takes no more than 2,046 bytes."""

CONNECT_S: Final = 3
"""The longest wait for a connection: Postgres' own, in whole seconds, of which libpq takes at least 2."""

LAYOUT: Final = """
    CREATE SCHEMA IF NOT EXISTS dreamd;
    CREATE EXTENSION IF NOT EXISTS vector;
    CREATE TABLE IF NOT EXISTS dreamd.collection(
        name text PRIMARY KEY, dimension int NOT NULL, mark text NOT NULL DEFAULT '')
"""

TABLE: Final = """
    CREATE TABLE IF NOT EXISTS dreamd.{name}(
        id text COLLATE "C" PRIMARY KEY, body text NOT NULL, context text NOT NULL, size int NOT NULL,
        words tsvector NOT NULL, payload jsonb NOT NULL, vector halfvec({dimension}));
    CREATE INDEX IF NOT EXISTS {name}_words ON dreamd.{name} USING gin(words)
"""

UPSERT: Final = """
    INSERT INTO dreamd.{name} AS known VALUES(%s, %s, %s, %s, %s::tsvector, %s::jsonb, %s::halfvec)
    ON CONFLICT(id) DO UPDATE SET body = excluded.body, context = excluded.context, size = excluded.size,
        words = excluded.words, payload = excluded.payload, vector = {vector}
"""
KEPT_VECTOR: Final = "coalesce(excluded.vector, CASE WHEN known.body = excluded.body THEN known.vector END)"

# The words of a point are at one place each, with the weight A in its text and D in its context. `%%s` are, in order:
# the filter, words to look up as one query, the filter, all words as queries (any place, text, context) with the share
# of points that have them (null: it is counted), the limit.
KEYWORD: Final = f"""
    WITH scope AS MATERIALIZED (
        SELECT count(*) AS points, greatest(avg(size), 1.0)::float8 AS mean FROM dreamd.{{name}} WHERE {{where}}),
    found AS MATERIALIZED (
        SELECT id, size, words FROM dreamd.{{name}} WHERE words @@ %s::tsquery AND {{where}}),
    asked AS (
        SELECT * FROM unnest(%s::tsquery[], %s::tsquery[], %s::tsquery[], %s::float8[])
        WITH ORDINALITY AS asked(word, in_text, in_context, share, number)),
    hit AS MATERIALIZED (
        SELECT id, size, number, share,
            (words @@ in_text)::int + {bm25.CONTEXT_WEIGHT}::float8 * (words @@ in_context)::int AS often
        FROM found, asked WHERE words @@ word),
    counted AS (
        SELECT number, greatest(points, 1) AS points,
            least(coalesce(max(share) * points, count(*)), points) AS having_it
        FROM hit, scope GROUP BY number, points),
    rarity AS MATERIALIZED (
        SELECT number, ln(1.0 + (points - having_it + 0.5) / (having_it + 0.5))::float8 AS idf FROM counted)
    SELECT id, sum(idf * often * {bm25.K1 + 1.0}::float8
        / (often + {bm25.K1}::float8 * ({1.0 - bm25.B}::float8 + {bm25.B}::float8 * size / mean))
        ORDER BY number)::real::float8 AS score
    FROM hit JOIN rarity USING(number), scope GROUP BY id ORDER BY score DESC, id LIMIT %s
"""

# Of many points: a sample says how many the filter leaves and their mean size, and no more than MOST_FOUND are found.
WIDE: Final = KEYWORD.replace(
    "SELECT count(*) AS points, greatest(avg(size), 1.0)::float8 AS mean FROM dreamd.{name} WHERE {where}",
    "SELECT %s::float8 AS points, %s::float8 AS mean",
).replace("AND {where})", f"AND {{where}} LIMIT {MOST_FOUND})")

# In order: the vector, the filter, the vector, the candidates, the limit.
NEAREST: Final = """
    SELECT id, coalesce(nullif(1.0 - distance, 'NaN'), 0.0) AS score FROM (
        SELECT id, vector <=> %s::halfvec AS distance FROM dreamd.{name}
        WHERE vector IS NOT NULL AND {where} ORDER BY vector <=> %s::halfvec{ties} LIMIT %s) AS near
    ORDER BY score DESC, id LIMIT %s
"""

Parameters = list[Any]


class Sampled(NamedTuple):
    """About how many points a filter leaves of a large collection, and their mean size."""

    points: float
    mean_size: float


class PostgresStore:
    """Collections in a Postgres of at least version 14 with pgvector 0.8. Any thread may call; each call is a
    transaction.

    `dsn` is a connection string; a search ends after `search_s`, and everything else after `write_s`.
    """

    def __init__(self, dsn: str, *, search_s: float = 1.0, write_s: float = 120.0) -> None:
        self._dsn = dsn
        self._limits_s = {"search": search_s, "write": write_s, "alone": write_s, "build": 0.0}
        self._idle: dict[str, list[psycopg.Connection[Any]]] = {way: [] for way in self._limits_s}
        self._open: set[psycopg.Connection[Any]] = set()
        self._dimensions: dict[str, int] = {}
        self._fields: dict[str, dict[str, bool]] = {}
        self._is_indexed: set[str] = set()
        self._has_hnsw: dict[str, int] = {}  # how many points it was built of, or there were at the start
        self._shares: dict[str, dict[str, float]] = {}
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
            row = connection.execute("SELECT dimension FROM dreamd.collection WHERE name = %s", (name,)).fetchone()
            if row is None:
                connection.execute("INSERT INTO dreamd.collection VALUES(%s, %s)", (name, dimension))
                connection.execute(TABLE.format(name=name, dimension=dimension).encode())
            else:
                refuse_dimension(name, row[0], dimension)

    def ensure_payload_index(self, name: str, field: str, *, is_number: bool = False) -> None:
        """Have `keep_columns` index the payload field: a table is filled in half the time without."""
        self._fields.setdefault(name, {})[field] = is_number

    def upsert(self, name: str, points: Sequence[Point]) -> None:
        """Write points; a text that changed loses its vector unless one is given."""
        rows = self._rows(name, points)
        with self._writing() as connection:
            connection.cursor().executemany(UPSERT.format(name=name, vector=KEPT_VECTOR).encode(), rows)

    def bring(self, name: str, points: Sequence[Point], gone: Collection[str], mark: str) -> None:
        """Write points with exactly their vectors, remove others, and take the mark, in one transaction."""
        rows = self._rows(name, points)
        with self._writing() as connection:
            if rows:
                connection.cursor().executemany(UPSERT.format(name=name, vector="excluded.vector").encode(), rows)
            if gone:
                sql = f"DELETE FROM dreamd.{name} WHERE id = ANY(%s)"
                connection.execute(sql.encode(), (list(gone),))
            connection.execute("UPDATE dreamd.collection SET mark = %s WHERE name = %s", (mark, name))

    def set_vectors(self, name: str, vectors: Mapping[str, Vector]) -> None:
        """Give vectors to points that are there; ids that are not are passed over."""
        rows = [(self._written(name, vector), point_id) for point_id, vector in vectors.items()]
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
            connection.execute(f"DROP TABLE IF EXISTS dreamd.{name}".encode())
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
        """Free the room of removed points, so that the files of the table no longer hold their texts."""
        with self._connected("alone") as connection:
            connection.execute(f"VACUUM FULL dreamd.{name}".encode())

    def keep_columns(self, name: str, batch: Callable[[], AbstractContextManager[None]]) -> bool:
        """Index the payload fields, and vectors by HNSW once there are many: some minutes for a million points."""
        if name in self._has_hnsw:
            return True
        count = self.count(name)
        if name not in self._is_indexed or count > EXACT_UP_TO:
            with self._connected("build") as connection:
                mib = min(MOST_MIB, max(64, BUILT_IN_B * count // 2**20))
                connection.execute(f"SET LOCAL maintenance_work_mem = '{mib}MB'".encode())
                for field, is_number in self._fields.get(name, {}).items():
                    on = f"btree (({_column(field)}))" if is_number else f"gin (({_column(field)}))"
                    sql = f"CREATE INDEX IF NOT EXISTS {name}_by_{field} ON dreamd.{name} USING {on}"
                    connection.execute(sql.encode())
                has_near = connection.execute("SELECT to_regclass(%s)", (f"dreamd.{name}_near",)).fetchone() != (None,)
                if count > EXACT_UP_TO and not has_near:
                    on = f"{name}_near ON dreamd.{name} USING hnsw (vector halfvec_cosine_ops)"
                    connection.execute(f"CREATE INDEX {on}".encode())
                    connection.execute(f"ANALYZE dreamd.{name}".encode())  # also of how frequent words are
            self._is_indexed.add(name)
        if count > EXACT_UP_TO:
            self._shares[name] = self._shares_of(name)
            self._has_hnsw[name] = count
        return True

    def _shares_of(self, name: str) -> dict[str, float]:
        """Return the shares of points that have the most frequent words."""
        sql = "SELECT most_common_elems::text::text[], most_common_elem_freqs FROM pg_stats"
        row = self._one("search", f"{sql} WHERE schemaname = 'dreamd' AND tablename = %s AND attname = 'words'", [name])
        return {} if row is None or row[0] is None else dict(zip(row[0], row[1], strict=False))  # bounds come last

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
        asked = _asked(terms)
        if limit <= 0 or not asked:
            self._rows_of(f"SELECT 1 FROM dreamd.{name} LIMIT 0", [])
            return []
        return [Match(*row) for row in self._rows_of(*self._by_words(name, asked, limit, where))]

    def search_hybrid(
        self, name: str, terms: Sequence[str], vector: Vector, limit: int, where: Filter = ()
    ) -> tuple[list[Match], list[Match]]:
        """Search in both ways in one query; scores are those of each, since what fuses them reads more than ranks."""
        asked = _asked(terms)
        if limit <= 0 or not asked or not vector.any():
            return self.search_keyword(name, terms, limit, where), self.search_vector(name, vector, limit, where)
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

    def _by_words(self, name: str, asked: Sequence[str], limit: int, where: Filter) -> tuple[str, Parameters]:
        condition, values = _condition(where)
        wide, shares = self._wide(name, where), self._shares.get(name, {})
        looked_up = asked if wide is None else self._rarest(name, asked)
        quoted = [_quoted(word) for word in asked]
        by_place = [quoted, [f"{word}:A" for word in quoted], [f"{word}:D" for word in quoted]]
        counted = [None if word in looked_up else shares.get(word) for word in asked]
        found = [" | ".join(map(_quoted, looked_up)), *values, *by_place, counted, limit]
        if wide is None:
            return KEYWORD.format(name=name, where=condition), [*values, *found]
        return WIDE.format(name=name, where=condition), [*wide, *found]

    def _rarest(self, name: str, asked: Sequence[str]) -> list[str]:
        """Return words, rarest first, while no more than MOST_FOUND points have them; the first in any case."""
        shares, found = self._shares.get(name, {}), 0.0
        taken: list[str] = []
        for word in sorted(asked, key=lambda word: shares.get(word, 0.0)):
            found += shares.get(word, 0.0) * self._has_hnsw[name]
            if taken and found > MOST_FOUND:
                break
            taken.append(word)
        return taken

    def _wide(self, name: str, where: Filter) -> Sampled | None:
        """Return a sample's counts of the points under a filter; None where all of them are to be compared."""
        if (count := self._has_hnsw.get(name)) is None:
            return None
        now = time.monotonic()
        known, scope = self._scopes.get((name, where), (0.0, None))
        if scope is None or now > known + SAMPLED_ANEW_S:
            condition, values = _condition(where)
            share = min(1.0, SAMPLED / count)
            sample = f"dreamd.{name} TABLESAMPLE SYSTEM({100 * share}) REPEATABLE(1)"
            row = self._one("search", f"SELECT count(*), avg(size)::float8 FROM {sample} WHERE {condition}", values)
            points, mean = row or (0, None)
            if len(self._scopes) >= MOST_SCOPES:
                self._scopes = {}
            self._scopes[name, where] = now, (scope := Sampled(points / share, max(1.0, mean or 1.0)))
        return scope if scope.points > max(EXACT_UP_TO, EXACT_SHARE * count) else None

    def _rows(self, name: str, points: Sequence[Point]) -> list[Parameters]:
        latest = {point.id: point for point in points}
        return [
            [
                *(point.id, escaped(point.text), escaped(point.context), len(point.text) + len(point.context)),
                *(_words_of(point), json.dumps(json_values(point.payload))),
                None if point.vector is None else self._written(name, point.vector),
            ]
            for point in latest.values()
        ]

    def _written(self, name: str, vector: Vector) -> str:
        if (dimension := self._dimensions.get(name)) is None:
            row = self._one("search", "SELECT dimension FROM dreamd.collection WHERE name = %s", [name])
            if row is None:
                raise NotFound(f"there is no collection {name}")
            dimension = self._dimensions[name] = int(row[0])
        refuse_vector(vector, dimension)
        return _text_of(vector)

    def _one(self, way: str, sql: str, values: Parameters) -> tuple[Any, ...] | None:
        with self._connected(way) as connection:
            found: tuple[Any, ...] | None = connection.execute(sql.encode(), values).fetchone()
        return found

    def _rows_of(self, sql: str, values: Parameters) -> list[tuple[Any, ...]]:
        with self._connected("search") as connection:
            return connection.execute(sql.encode(), values).fetchall()

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
            raise StoreBusy(f"Postgres cannot be used now ({type(error).__name__})", "It is tried again.") from None
        finally:
            if connection is not None:
                with self._lock:
                    self._open.discard(connection)
                connection.close()

    def _connect(self, way: str) -> psycopg.Connection[Any]:
        import psycopg

        options = f"-c statement_timeout={int(self._limits_s[way] * 1000)} -c hnsw.ef_search={NEIGHBOURS}"
        options += " -c hnsw.iterative_scan=strict_order"
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


def _asked(terms: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(word[:LONGEST_WORD] for word in words(" ".join(terms), query=True)))


def _words_of(point: Point) -> str:
    """Return the words of a point as a tsvector: each at 1, with A where the text has it, at 2, with D, the context."""
    places = dict.fromkeys((word[:LONGEST_WORD] for word in words(point.text)), "1A")
    for word in {word[:LONGEST_WORD] for word in words(point.context)}:
        places[word] = "1A,2D" if word in places else "2D"
    return " ".join(f"{_quoted(word)}:{at}" for word, at in places.items())


def _quoted(word: str) -> str:
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"


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
