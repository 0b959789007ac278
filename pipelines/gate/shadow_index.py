"""The trial: a copy of the index in which proposals are laid over the vault, searched by the store's own code."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

from ...store.find.backends.interface import Vector
from ...store.find.embedding.embedding import Embedder
from ...store.find.index.opening import OpenIndex
from ...store.find.index.projection import is_turn
from ...store.find.search.search import BY_DEFAULT, Question, Ranking, Search
from ...store.keep.files.disk import Disk
from ...store.keep.files.vault import FileStamp, Vault
from ...store.model import Level, NodeId, NotFound
from ...store.settings import StoreSettings
from ..workspace.view import Embed

APPLIED_AT_ONCE = 256


class Overlay(Vault):
    """A vault with some of its files other than they are on the disk; None is a file that is gone."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, Disk())
        self.laid: dict[str, bytes | None] = {}

    def read(self, path: str, from_offset: int = 0, most_bytes: int = -1) -> bytes:
        """A file's content as it is laid over, else as it is."""
        if path not in self.laid:
            return super().read(path, from_offset, most_bytes)
        data = self.laid[path]
        if data is None:
            raise NotFound(f"there is no {path} in the vault")
        return data[from_offset:] if most_bytes < 0 else data[from_offset : from_offset + most_bytes]

    def stamp(self, path: str) -> FileStamp | None:
        """A file's stamp; what is laid over has no time of its own."""
        if path not in self.laid:
            return super().stamp(path)
        data = self.laid[path]
        return None if data is None else FileStamp(path, 0, len(data), 0, 0)


class Trial:
    """An index to try things in, made of a copy that nobody else writes; closed, it is of no more use."""

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
        """Copy the file of an index that is not being written."""
        path = index.with_name("trial.db")
        shutil.copyfile(index, path)
        self._embed = embed
        self._overlay = Overlay(vault)
        self._closing = ExitStack()
        opened = OpenIndex(path, self._overlay, embedder, settings, lambda: now, frozenset(hidden).__contains__)
        self._closing.callback(opened.close)
        self._index, self.catalog = opened.index, opened.catalog
        self._search = Search(opened.catalog, opened.index.backend, AskedOnce(embedder), settings.search)
        self._closing.callback(self._search.close)

    def __enter__(self) -> Trial:
        """Be used."""
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of the copy."""
        self._closing.close()

    def lay(
        self, files: Mapping[str, bytes | None], tell: Callable[[int, int], None] = lambda done, all_: None
    ) -> None:
        """Let these files be so (None: gone), and find what they say."""
        self._overlay.laid |= files
        paths = sorted(files)
        for start in range(0, len(paths), APPLIED_AT_ONCE):
            self._index.apply_all(paths[start : start + APPLIED_AT_ONCE])
            tell(min(start + APPLIED_AT_ONCE, len(paths)), len(paths))
        self._give_vectors(paths)

    def read(self, path: str) -> bytes | None:
        """A file as it is here."""
        return self._overlay.read_if_any(path)

    def answers(self, paths: Iterable[str]) -> bool:
        """Whether anything in these files may answer a question that names no level."""
        return any(node.level in BY_DEFAULT for path in paths for node in self.catalog.nodes_of_file(path))

    def rank(self, question: Question) -> Ranking:
        """Rank what answers a question."""
        return self._search.rank(question)

    def _give_vectors(self, paths: Sequence[str]) -> None:
        """Embed what ranks by itself; a fact that is found by its turn needs no vector to be told."""
        found = [node for path in paths for node in self.catalog.nodes_of_file(path) if node.level is Level.FACT]
        ranking = [node.node_id for node in found if not self._is_found_by_its_turn(node.node_id)]
        while pending := self._index.pending(APPLIED_AT_ONCE, ranking):
            self._index.set_vectors(pending, list(self._embed([item.text for item in pending])))

    def _is_found_by_its_turn(self, node_id: NodeId) -> bool:
        drawn_from = next(iter(self.catalog.links(node_id, "cites")), None)
        turn = self.catalog.node(drawn_from) if drawn_from and is_turn(drawn_from) else None
        return turn is not None and turn.live


class AskedOnce:
    """An embedder that reads each question once, since the same ones are asked again and again."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, Vector] = {}

    @property
    def model_id(self) -> str:
        """The model's name."""
        return self._embedder.model_id

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        return self._embedder.dimension

    @property
    def ready(self) -> bool:
        """Whether it is loaded."""
        return self._embedder.ready

    def start(self) -> None:
        """Load."""
        self._embedder.start()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it is loaded."""
        return self._embedder.wait(timeout_s)

    def embed_query(self, text: str) -> Vector:
        """The vector of a question."""
        if text not in self._known:
            self._known[text] = self._embedder.embed_query(text)
        return self._known[text]

    def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        """The vectors of texts."""
        return self._embedder.embed_passages(texts)
