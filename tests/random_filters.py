"""Random memories and random filters of the wire, and what a filter lets through, told by plain Python."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import numpy as np
from dreamd.ipc.filter_params import MOST_DEPTH, BoundedFilter
from dreamd.store.engine.database import Connections, open_database
from dreamd.store.engine.files import FilesStore
from dreamd.store.engine.interface import Point, VectorStore
from dreamd.store.engine.sqlite_vec import SqliteVecStore
from dreamd.store.filters import Filter
from dreamd.store.index.catalog import MIGRATIONS, NODE_COLUMNS, Catalog, node_row
from dreamd.store.index.index import NUMBERS, PAYLOAD_INDEXES
from dreamd.store.index.projection import Node
from dreamd.store.model import Kind, Level

DIMENSION = 64
NAME = "chunks"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
DAYS = 60

NAMES: dict[str, Sequence[str]] = {
    "channel": ("_global", "shop", "harbour"),
    "agent": ("claude-code", "codex", "gemini"),
    "session": tuple(f"s{n}" for n in range(9)),
    "task": ("T-1", "T-2"),
    "user": ("ines", "tom"),
}
SEVERAL: dict[str, Sequence[str]] = {
    "tags": ("db", "Cache", "release 2", "Ünïcode", "x'y\"z"),
    "entity": ("Ines", "Tom Okoro", "Postgres", "straße", "東京"),
}
UNKNOWN = ("nobody", "[]", "null", "0", "_global ")
CHOICES: Mapping[str, Sequence[str]] = {
    "level": [str(level) for level in Level],
    "kind": [str(kind) for kind in Kind],
    **{field: (*values, *UNKNOWN) for field, values in (NAMES | SEVERAL).items()},
}


def random_node(rng: random.Random, number: int) -> Node:
    """Return a memory with some of its fields null and some with several values."""
    at = BEGIN + timedelta(seconds=rng.randrange(DAYS * 86_400), microseconds=rng.choice((0, 0, 250_000)))
    away = rng.choice((UTC, timezone(timedelta(hours=5, minutes=30)), None))
    some = {name: rng.choice((None, *values)) for name, values in NAMES.items() if name != "channel"}
    entities = _some(rng, SEVERAL["entity"])
    return Node(
        node_id=f"n{number}",
        path=f"n{number}.md",
        level=rng.choice(list(Level)),
        kind=rng.choice([kind for kind in Kind if kind is not Kind.SESSION]),
        title="",
        text="word",
        channel=rng.choice(NAMES["channel"]),
        created_at=None if rng.random() < 0.1 else at.astimezone(away) if away else at.replace(tzinfo=None),
        session_id=some["session"],
        agent=some["agent"],
        task=some["task"],
        user=some["user"],
        tags=_some(rng, SEVERAL["tags"]),
        entities=tuple(name.casefold() for name in entities),
    )


def random_filter(rng: random.Random, depth: int = 1) -> dict[str, Any]:
    """Return a filter as the wire takes it."""
    if depth >= MOST_DEPTH or rng.random() < (0.3 if depth == 1 else 0.6):
        return _random_test(rng)
    parts = rng.sample(("must", "should", "must_not"), rng.randrange(1, 4))
    return {part: [random_filter(rng, depth + 1) for _ in range(rng.randrange(3))] for part in parts}


def normalised(given: Mapping[str, Any]) -> Filter:
    """Return the store's form of a filter of the wire."""
    return BoundedFilter.model_validate(given).normalised()


def lets_through(given: Mapping[str, Any], node: Node) -> bool:
    """Return True if a filter of the wire holds of a memory."""
    if "field" not in given:
        should = given.get("should", ())
        return (
            all(lets_through(one, node) for one in given.get("must", ()))
            and (not should or any(lets_through(one, node) for one in should))
            and not any(lets_through(one, node) for one in given.get("must_not", ()))
        )
    held = _held(node, given["field"])
    if "exists" in given:
        return bool(held) is given["exists"]
    if "range" in given:
        return bool(held) and all(_within(held[0], side, bound) for side, bound in given["range"].items())
    asked = given.get("in") or [given["eq"]]
    if given["field"] in SEVERAL:
        asked, held = [one.casefold() for one in asked], [one.casefold() for one in held]
    return any(one in asked for one in held)


def _held(node: Node, field: str) -> list[Any]:
    if field in SEVERAL:
        return list(node.tags if field == "tags" else node.entities)
    name = {"session": "session_id", "time": "created_at"}.get(field, field)
    value = getattr(node, name)
    return [] if value is None else [value if field == "time" else str(value)]


def _within(at: datetime, side: str, bound: str) -> bool:
    at = (at if at.tzinfo else at.replace(tzinfo=UTC)).replace(microsecond=0)
    if len(bound) == len("2026-01-01"):
        day, limit = at.astimezone(UTC).date(), date.fromisoformat(bound)
        return {"gte": day >= limit, "gt": day > limit, "lte": day <= limit, "lt": day < limit}[side]
    limit_at = datetime.fromisoformat(bound)
    return {"gte": at >= limit_at, "gt": at > limit_at, "lte": at <= limit_at, "lt": at < limit_at}[side]


def _some(rng: random.Random, values: Sequence[str]) -> tuple[str, ...]:
    return tuple(rng.sample(values, rng.choice((0, 0, 1, 1, 2, 3))))


def _random_test(rng: random.Random) -> dict[str, Any]:
    field = rng.choice(("level", "kind", "time", *NAMES, *SEVERAL))
    if rng.random() < 0.15:
        return {"field": field, "exists": rng.random() < 0.5}
    if field == "time":
        sides = rng.sample(("gte", "gt", "lte", "lt"), rng.choice((1, 1, 2)))
        return {"field": field, "range": {side: _random_bound(rng) for side in sides}}
    chosen = [_as_typed(rng, field, value) for value in rng.sample(CHOICES[field], rng.randrange(1, 4))]
    by_eq = len(chosen) == 1 and rng.random() < 0.5
    return {"field": field, "eq": chosen[0]} if by_eq else {"field": field, "in": chosen}


def _as_typed(rng: random.Random, field: str, value: str) -> str:
    return rng.choice((value, value.upper(), value.lower())) if field in SEVERAL else value


def _random_bound(rng: random.Random) -> str:
    at = BEGIN + timedelta(seconds=rng.randrange(DAYS * 86_400))
    if rng.random() < 0.5:
        return at.date().isoformat()
    if rng.random() < 0.3:
        at = datetime.combine(at.date(), time(), UTC)
    return at.astimezone(timezone(timedelta(hours=rng.randrange(-11, 12)))).isoformat()


@dataclass
class Engines:
    """The same memories in every engine, and in the catalogue."""

    stores: Mapping[str, VectorStore]
    catalog: Catalog
    nodes: Sequence[Node]

    def found(self, where: Filter) -> Iterator[tuple[str, set[str]]]:
        """Yield what each of them lets through: an engine by keyword and, where it can, by vector."""
        count = len(self.nodes)
        for name, store in self.stores.items():
            yield f"{name}, by keyword", {match.id for match in store.search_keyword(NAME, ["word"], count, where)}
            if store.capabilities().vector:
                vector = np.ones(DIMENSION, np.float32)
                yield f"{name}, by vector", {match.id for match in store.search_vector(NAME, vector, count, where)}
        every_kind = (*where, *normalised({"field": "kind", "in": [str(kind) for kind in Kind]}))
        yield "the catalogue", {node.node_id for node in self.catalog.listing(where=every_kind)}


@contextmanager
def engines(folder: Path, nodes: Sequence[Node], **servers: VectorStore) -> Iterator[Engines]:
    """Put memories into every engine and into a catalogue, in a folder; servers are their owner's to close."""
    rng = np.random.default_rng(7)
    vectors = rng.standard_normal((len(nodes), DIMENSION)).astype(np.float32)
    points = [
        Point(node.node_id, "word", vector=vector, payload=node.payload())
        for node, vector in zip(nodes, vectors, strict=True)
    ]
    files = FilesStore(lambda: folder / "files")
    held, not_held = _sqlite(folder / "held.db"), _sqlite(folder / "not held.db")
    stores: dict[str, VectorStore] = {"files": files, "sqlite": held.store, "sqlite, fields not held": not_held.store}
    stores |= servers
    for store in stores.values():
        store.ensure_collection(NAME, DIMENSION)
    for store in (held.store, *servers.values()):
        for field in PAYLOAD_INDEXES:
            store.ensure_payload_index(NAME, field, is_number=field in NUMBERS)
    for store in stores.values():
        store.upsert(NAME, points)
    catalogue = open_database(folder / "catalog.db", durable=False, migrations=MIGRATIONS)
    rows = [(*node_row(node), "") for node in nodes]
    marks = ", ".join("?" * len(rows[0]))
    catalogue.executemany(f"INSERT INTO node({NODE_COLUMNS}, digest) VALUES({marks})", rows)
    try:
        yield Engines(stores, Catalog(lambda: catalogue), nodes)
    finally:
        for each in (held, not_held):
            each.readers.close()
            each.writer.close()
        catalogue.close()


class _Sqlite(NamedTuple):
    store: SqliteVecStore
    writer: apsw.Connection
    readers: Connections


def _sqlite(path: Path) -> _Sqlite:
    writer = open_database(path, durable=False)
    readers = Connections(lambda: open_database(path, durable=False, read_only=True))
    return _Sqlite(SqliteVecStore(lambda: writer, readers.get), writer, readers)
