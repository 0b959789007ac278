"""A memory made in bulk is what the store itself makes of its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
from dreamd.daemon.clock import utc_now
from dreamd.daemon.settings import Settings
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.index.open_index import OpenIndex
from dreamd.store.vault.disk import Disk
from dreamd.store.vault.vault import Vault

from tests.stand_ins import STAND_INS

from .memories import WHOLE, memory
from .sentences import Sentences

TABLES = {
    "file": "path, size, parsed_to, problem",
    "node": "node_id, digest",
    "chunk": 'chunk_id, node_id, start, "end", text_hash, embedded',
    "link": "source, target, kind, rank",
    "image": "path, from_offset, data",
    "chunks_point": "id, size, payload",
}


def _opened(index: Path, vault: Path) -> OpenIndex:
    settings = Settings().store
    return OpenIndex(index, Vault(vault, Disk()), StubEmbedder(), settings, utc_now)


def _tables(index: Path) -> dict[str, list[Any]]:
    connection = apsw.Connection(str(index.resolve()))
    try:
        return {name: sorted(connection.execute(f"SELECT {rows} FROM {name}")) for name, rows in TABLES.items()}
    finally:
        connection.close()


def test_it_is_what_the_store_makes_of_its_files(tmp_path: Path) -> None:
    embedder = StubEmbedder()
    grown = memory(300, Sentences(STAND_INS, embedder, tmp_path), embedder, tmp_path)
    in_bulk = _opened(grown.paths.index, grown.paths.vault)
    assert in_bulk.reconcile().applied == 0
    assert in_bulk.catalog.counts()["chunks"] == grown.size
    in_bulk.close()
    one_by_one = _opened(tmp_path / "other.db", grown.paths.vault)
    one_by_one.reconcile()
    while pending := one_by_one.index.pending():
        one_by_one.index.set_vectors(pending, embedder.embed_passages([item.text for item in pending]))
    one_by_one.close()
    made, read = _tables(grown.paths.index), _tables(tmp_path / "other.db")
    assert [name for name in TABLES if made[name] != read[name]] == []


def test_it_is_made_once(tmp_path: Path) -> None:
    embedder = StubEmbedder()
    sentences = Sentences(STAND_INS, embedder, tmp_path)
    first = memory(30, sentences, embedder, tmp_path)
    made_at = (first.folder / WHOLE).stat().st_mtime_ns
    again = memory(30, sentences, embedder, tmp_path)
    assert (again.folder / WHOLE).stat().st_mtime_ns == made_at
