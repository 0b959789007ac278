"""The shadow index: a copy of the index in which proposals overlay the vault, searched by the store's own code."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

from ...store.embedding.embedding import Embedder
from ...store.engine.interface import Vector
from ...store.index.open_index import OpenIndex, copy_engine
from ...store.index.projection import is_turn
from ...store.index.visibility import Concealment
from ...store.model import Level, NodeId, NotFound
from ...store.search.gathering import Ranking
from ...store.search.question import BY_DEFAULT, Question
from ...store.search.search import Search, trusted
from ...store.settings import StoreSettings
from ...store.vault.disk import Disk
from ...store.vault.vault import FileStamp, Vault
from ..workspace.view import Embed

APPLIED_AT_ONCE = 256


class Overlay(Vault):
    """A vault in which some files differ from those on disk; None is a deleted file."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, Disk())
        self.overlaid: dict[str, bytes | None] = {}

    def read(self, path: str, from_offset: int = 0, most_bytes: int = -1) -> bytes:
        """Return a file's content, overlaid or from disk. Raises NotFound."""
        if path not in self.overlaid:
            return super().read(path, from_offset, most_bytes)
        data = self.overlaid[path]
        if data is None:
            raise NotFound(f"there is no {path} in the vault")
        return data[from_offset:] if most_bytes < 0 else data[from_offset : from_offset + most_bytes]

    def stamp(self, path: str) -> FileStamp | None:
        """Return a file's stamp; an overlaid file has no time of its own."""
        if path not in self.overlaid:
            return super().stamp(path)
        data = self.overlaid[path]
        return None if data is None else FileStamp(path, 0, len(data), 0, 0)


class ShadowIndex:
    """An index in which proposals are tried, in a file of its own; unusable once closed."""

    def __init__(
        self,
        index: Path,
        vault: Path,
        settings: StoreSettings,
        embedder: Embedder,
        embed: Embed,
        now: datetime,
        hidden: Collection[NodeId] = (),
    ) -> None:
        """Copy the file of an index that no process is writing."""
        path = index.with_name("trial.db")
        shutil.copyfile(index, path)
        copy_engine(index, path)
        self._embed = embed
        self._overlay = Overlay(vault)
        self._closing = ExitStack()
        concealment = Concealment(frozenset(hidden).__contains__)
        opened = OpenIndex(path, self._overlay, embedder, settings, lambda: now, concealment)
        self._closing.callback(opened.close)
        self._index, self.catalog = opened.index, opened.catalog
        queries = CachedQueries(embedder)
        self._search = Search(opened.catalog, opened.index.backend, queries, settings.search, lambda: now)
        self._closing.callback(self._search.close)

    def __enter__(self) -> ShadowIndex:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the copy."""
        self._closing.close()

    def overlay(
        self, files: Mapping[str, bytes | None], on_progress: Callable[[int, int], None] = lambda done, total: None
    ) -> None:
        """Overlay these files (None = deleted) and re-index them."""
        self._overlay.overlaid |= files
        paths = sorted(files)
        # In portions, between which progress is reported: a silent child would be ended.
        for start in range(0, len(paths), APPLIED_AT_ONCE):
            self._index.apply_all(paths[start : start + APPLIED_AT_ONCE])
            on_progress(min(start + APPLIED_AT_ONCE, len(paths)), len(paths))
        self._embed_ranking(paths)

    def read(self, path: str) -> bytes | None:
        """Return a file as it is here, overlaid or from disk."""
        return self._overlay.read_if_any(path)

    def answers(self, paths: Iterable[str]) -> bool:
        """Return True if a memory in these files may answer a question that names no level."""
        return any(node.level in BY_DEFAULT for path in paths for node in self.catalog.nodes_of_file(path))

    def cites(self, node_id: NodeId) -> list[NodeId]:
        """Return the turns and memories that a node cites."""
        return list(self.catalog.links(node_id, "cites"))

    def rank(self, question: Question) -> Ranking:
        """Rank the nodes that answer a question."""
        return self._search.rank(question)

    def trust(self, feedback: Mapping[NodeId, Mapping[str, int]]) -> None:
        """Rank by this feedback from here on."""
        self._search.trusted = trusted(feedback)

    def _embed_ranking(self, paths: Sequence[str]) -> None:
        """Embed the facts that are ranked by themselves; one that is found by its turn needs no vector."""
        found = [node for path in paths for node in self.catalog.nodes_of_file(path) if node.level is Level.FACT]
        ranking = [node.node_id for node in found if not self._is_found_by_its_turn(node.node_id)]
        while pending := self._index.pending(APPLIED_AT_ONCE, ranking):
            self._index.set_vectors(pending, list(self._embed([item.text for item in pending])))

    def _is_found_by_its_turn(self, node_id: NodeId) -> bool:
        drawn_from = next(iter(self.cites(node_id)), None)
        turn = self.catalog.node(drawn_from) if drawn_from and is_turn(drawn_from) else None
        return turn is not None and turn.live


class CachedQueries:
    """Embeds each question once: the probes are asked again after every stage."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, Vector] = {}

    def embed_query(self, text: str) -> Vector:
        """Return the vector of a question."""
        if text not in self._known:
            self._known[text] = self._embedder.embed_query(text)
        return self._known[text]
