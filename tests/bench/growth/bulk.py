"""A new index filled many files at a time: the same rows as the store writes one by one, in a tenth of the time."""

from __future__ import annotations

import hashlib
import os
import time
import zlib
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from dreamd.daemon.clock import utc_now
from dreamd.daemon.settings import Settings
from dreamd.store import StorePaths
from dreamd.store.embedding.embedding import Embedder
from dreamd.store.embedding.vector_cache import EmbeddingCache
from dreamd.store.engine.database import open_database, transaction
from dreamd.store.engine.interface import Point
from dreamd.store.engine.sqlite_vec import SqliteVecStore
from dreamd.store.index.catalog import MIGRATIONS, NODE_COLUMNS, node_row
from dreamd.store.index.index import COLLECTION, YOUNG_NS, Index, embedded_text
from dreamd.store.index.open_index import MADE_BY_KEY, WHOLE_KEY
from dreamd.store.index.projection import (
    PROJECTION_VERSION,
    Node,
    Projection,
    is_session,
    project_memory,
    project_session,
    read_head,
)
from dreamd.store.index.visibility import Concealment
from dreamd.store.settings import ChunkSettings
from dreamd.store.text.chunking import chunk
from dreamd.store.vault.disk import Disk
from dreamd.store.vault.vault import Vault

from .sentences import Saying, Sentences

NODES_AT_ONCE = 4000
CACHED = 120_000
"""Nodes whose vectors are also kept by their texts: memories that are larger than that are not rebuilt here."""


class File(NamedTuple):
    """A file of the vault and what its searchable nodes say, in their order."""

    path: str
    data: bytes
    said: Sequence[Saying]


class Filling:
    """Writes files, and an index that has read them. A context: the end writes the rest."""

    def __init__(self, paths: StorePaths, sentences: Sentences, embedder: Embedder) -> None:
        self._vault_root = paths.vault
        self._sentences = sentences
        self._chunks = Settings().store.chunks
        self._rng = np.random.default_rng(13)
        self._open = ExitStack()
        for suffix in ("", "-wal", "-shm"):
            paths.index.with_name(paths.index.name + suffix).unlink(missing_ok=True)
        self._db = open_database(paths.index, durable=False, migrations=MIGRATIONS)
        self._open.callback(self._db.close)
        self._db.execute("PRAGMA synchronous = OFF")
        self._reader = open_database(paths.index, durable=False, read_only=True)
        self._open.callback(self._reader.close)
        self._cache = EmbeddingCache(paths.embeddings, embedder.model_id)
        self._open.callback(self._cache.close)
        store = SqliteVecStore(lambda: self._db, lambda: self._reader)
        vault = Vault(paths.vault, Disk())
        self._index = Index(
            lambda: self._db,
            store,
            vault,
            now=utc_now,
            dimension=embedder.dimension,
            chunks=ChunkSettings(),
            concealment=Concealment(),
        )
        self._waiting: list[tuple[File, os.stat_result]] = []
        self._nodes = self._done = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        if failed is None:
            self._write()
            self._index.set_meta(WHOLE_KEY, "1")
            self._index.keep_columns()  # as the daemon does while a memory grows
        self._open.close()

    def add(self, file: File) -> None:
        """Write a file to the vault, and to the index with some others."""
        full = self._vault_root / file.path
        if not full.parent.is_dir():
            full.parent.mkdir(parents=True)
        full.write_bytes(file.data)
        self._waiting.append((file, full.stat()))
        self._nodes += len(file.said)
        if self._nodes >= NODES_AT_ONCE:
            self._write()

    def _write(self) -> None:
        with self._index.batch():
            nodes: list[Node] = []
            for file, stat in self._waiting:
                projection = _projection(file)
                nodes += projection.nodes
                self._write_file(file, stat, projection)
            self._many("node", [(*node_row(node), node.digest()) for node in nodes], f"({NODE_COLUMNS}, digest)")
            self._write_chunks([node for node in nodes if node.searchable])
        self._done += self._nodes
        self._waiting, self._nodes = [], 0

    def _write_file(self, file: File, stat: os.stat_result, projection: Projection) -> None:
        seen_ns = time.time_ns() + YOUNG_NS  # as if it had been read in a while: then its stamp proves something
        stamp = (file.path, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        self._many("file", [(*stamp, seen_ns, projection.parsed_to, projection.problem, seen_ns, None)])
        self._many("image", [(file.path, 0, zlib.compress(file.data, 1))], "(path, from_offset, data)")
        links = [(link.source, link.target, link.kind, rank) for rank, link in enumerate(projection.links)]
        self._many("link", links, "(source, target, kind, rank)")

    def _write_chunks(self, nodes: Sequence[Node]) -> None:
        said = [saying for file, _ in self._waiting for saying in file.said]
        vectors = self._sentences.vectors(said, self._rng)
        rows, points = [], []
        for node, vector in zip(nodes, vectors, strict=True):
            for piece in chunk(node.node_id, node.text, self._chunks.max_tokens, self._chunks.overlap_tokens):
                text = embedded_text(node, piece.start, piece.end)
                text_hash = hashlib.sha256(text.encode()).digest()
                rows.append((piece.chunk_id, node.node_id, piece.start, piece.end, text_hash, 1))
                points.append(Point(piece.chunk_id, text, node.context, vector, node.payload()))
        self._many("chunk", rows)
        self._index.backend.upsert(COLLECTION, points)
        if self._done < CACHED:
            self._cache.put_many(
                {row[4]: point.vector for row, point in zip(rows, points, strict=True) if point.vector is not None}
            )

    def _many(self, table: str, rows: Sequence[tuple[Any, ...]], columns: str = "") -> None:
        if rows:
            self._db.executemany(f"INSERT INTO {table}{columns} VALUES({', '.join('?' * len(rows[0]))})", rows)


def adopt(index: Path, embedder: Embedder) -> None:
    """Have the index pass for one of this model: its vectors, which are made up, do for any."""
    database = open_database(index.resolve(), durable=False, migrations=MIGRATIONS)
    with transaction(database):
        made_by = (MADE_BY_KEY, f"{embedder.model_id}, projection {PROJECTION_VERSION}")
        database.execute("INSERT OR REPLACE INTO meta VALUES(?, ?)", made_by)
        database.execute("UPDATE chunk SET embedded = 1 WHERE embedded != 1")
    database.close()


def _projection(file: File) -> Projection:
    """Read a file as the index does; its facts do not rank, since the turns that they cite are found."""
    if is_session(file.path):
        return project_session(file.path, file.data, read_head(file.path, file.data)[0])
    projection = project_memory(file.path, file.data, utc_now())
    nodes = tuple(node._replace(ranks=False) for node in projection.nodes)
    return Projection(nodes, projection.links, projection.parsed_to, projection.problem)
