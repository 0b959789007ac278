"""The smallest engine: keyword search over a file of JSON lines, no vectors and no memory for them."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..filters import Filter, Payload, holds
from ..model import Corrupt, NotFound
from . import bm25
from .bm25 import words
from .interface import Capabilities, Hybrid, Match, Point, Vector, refuse_dimension, refuse_name

COMPACT_AT = 1_000
"""Lines that say nothing any more: a file with more of them, and more than half, is written anew."""

IN_TEXT, IN_CONTEXT = 1, 2


@dataclass(slots=True)
class Collected:
    """A collection in memory: its points, and for each word the points that have it and where."""

    dimension: int
    points: dict[str, Point] = field(default_factory=dict)
    postings: dict[str, dict[str, int]] = field(default_factory=dict)
    lines: int = 0
    commits: int = 0
    waiting: list[Mapping[str, Any]] = field(default_factory=list)
    """The changes since the last commit."""

    def put(self, point: Point) -> None:
        """Hold a point as it is now."""
        self.remove(point.id)
        self.points[point.id] = point
        for word, places in _places(point).items():
            self.postings.setdefault(word, {})[point.id] = places

    def remove(self, point_id: str) -> None:
        """Forget a point; an unknown one is passed over."""
        point = self.points.pop(point_id, None)
        if point is None:
            return
        for word in _places(point):
            listed = self.postings[word]
            del listed[point_id]
            if not listed:
                del self.postings[word]


class FilesStore:
    """Collections as files of JSON lines beside a database: a line a change, read whole at the first use.

    For one process. `path` answers the database's path, perhaps another from one call to the next. A torn last line, as
    a crash leaves it, is dropped. Not synced: the index can be rebuilt from the vault, and `mark` shows when it must
    be.
    """

    def __init__(self, path: Callable[[], Path]) -> None:
        self._path = path
        self._held: dict[Path, Collected] = {}
        self._lock = threading.RLock()

    def capabilities(self) -> Capabilities:
        """Keyword search alone."""
        return Capabilities(vector=False)

    def ensure_collection(self, name: str, dimension: int) -> None:
        """Make the collection if it is not there. Raises StoreError if it is there with another dimension."""
        refuse_name(name)
        with self._lock:
            file = self._file(name)
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(_encoded([{"dimension": dimension}]), encoding="ascii")
            refuse_dimension(name, self._collected(name).dimension, dimension)

    def ensure_payload_index(self, name: str, field: str, *, is_number: bool = False) -> None:
        """Do nothing: all payloads are in memory."""

    def upsert(self, name: str, points: Sequence[Point]) -> None:
        """Write points; a point with a known id replaces text, context and payload. Vectors are not kept."""
        with self._lock:
            held = self._collected(name)
            kept = [Point(point.id, point.text, point.context, None, dict(point.payload)) for point in points]
            for point in kept:
                held.put(point)
            held.waiting += map(_line, kept)

    def set_vectors(self, name: str, vectors: Mapping[str, Vector]) -> None:
        """Vectors are not kept."""

    def delete(self, name: str, ids: Collection[str]) -> None:
        """Remove points; unknown ids are passed over."""
        with self._lock:
            held = self._collected(name)
            known = [point_id for point_id in ids if point_id in held.points]
            for point_id in known:
                held.remove(point_id)
            held.waiting += ({"gone": point_id} for point_id in known)

    def commit(self, name: str) -> None:
        """Append the changes to the file, and a line that numbers the commit."""
        with self._lock:
            held = self._collected(name)
            if not held.waiting:
                return
            held.commits += 1
            lines = [*held.waiting, {"commit": held.commits}]
            with self._file(name).open("a", encoding="ascii") as file:
                file.write(_encoded(lines))
            held.waiting.clear()
            held.lines += len(lines)
            idle = held.lines - len(held.points)
            if idle > COMPACT_AT and idle > held.lines // 2:
                self._compact(name, held)

    def rollback(self, name: str) -> None:
        """Drop the collection from memory; the file holds all commits."""
        with self._lock:
            self._held.pop(self._file(name), None)

    def mark(self, name: str) -> str:
        """Return the number of the last commit."""
        with self._lock:
            return str(self._collected(name).commits)

    def compact(self, name: str) -> None:
        """Write the file anew, without the lines of removed points."""
        with self._lock:
            self.commit(name)
            self._compact(name, self._collected(name))

    def keep_columns(self, name: str, batch: object) -> bool:
        """Do nothing: there are none."""
        return True

    def search_vector(self, name: str, vector: Vector, limit: int, where: Filter = ()) -> list[Match]:
        """Return nothing: there are no vectors here."""
        return []

    def reading(self) -> AbstractContextManager[None]:
        """Hold nothing: each search reads by itself."""
        return nullcontext()

    def cosines(self, name: str, vector: Vector, ids: Collection[str]) -> dict[str, float]:
        """None: there are no vectors here."""
        return {}

    def fields(self, name: str, ids: Collection[str], fields: Sequence[str]) -> dict[str, tuple[Payload, ...]]:
        """Return some payload fields of these points."""
        with self._lock:
            points = self._collected(name).points
            return {
                point_id: tuple(points[point_id].payload.get(field) for field in fields)
                for point_id in ids
                if point_id in points
            }

    def search_keyword(self, name: str, terms: Sequence[str], limit: int, where: Filter = ()) -> list[Match]:
        """Return the best points by bm25 over any of the terms."""
        with self._lock:
            held = self._collected(name)
            scope = {key: len(p.text) + len(p.context) for key, p in held.points.items() if holds(p.payload, where)}
            mean_size = sum(scope.values()) / len(scope) if scope else 1.0
            scores: dict[str, float] = {}
            for word in dict.fromkeys(words(" ".join(terms), query=True)):
                listed = [(key, places) for key, places in held.postings.get(word, {}).items() if key in scope]
                rarity = bm25.idf(len(scope), len(listed))
                frequencies = np.array([_FREQUENCY[places] for _, places in listed], np.float32)
                sizes = np.array([scope[key] for key, _ in listed], np.int32)
                for (key, _), weight in zip(listed, bm25.weight(frequencies, sizes, mean_size).tolist(), strict=True):
                    scores[key] = scores.get(key, 0.0) + rarity * weight
        best = sorted(scores.items(), key=lambda scored: (-scored[1], scored[0]))
        return [Match(key, score) for key, score in best[: max(0, limit)]]

    def search_hybrid(
        self, name: str, terms: Sequence[str], vector: Vector, limit: int, filters: Sequence[Filter] = ((),)
    ) -> list[Hybrid]:
        """Search in both ways, one after the other."""
        return [
            (self.search_keyword(name, terms, limit, where), self.search_vector(name, vector, limit, where))
            for where in filters
        ]

    def get(self, name: str, ids: Sequence[str]) -> list[Point]:
        """Return the points that are there, in the order asked."""
        with self._lock:
            points = self._collected(name).points
            return [points[point_id] for point_id in ids if point_id in points]

    def count(self, name: str) -> int:
        """Return the number of points in the collection."""
        with self._lock:
            return len(self._collected(name).points)

    def _file(self, name: str) -> Path:
        path = self._path()
        return path.with_name(path.name + suffix_of(name))

    def _collected(self, name: str) -> Collected:
        file = self._file(name)
        held = self._held.get(file)
        if held is None:
            # A file that is gone was exchanged for another and is not asked for again.
            self._held = {known: one for known, one in self._held.items() if known.exists()}
            held = self._held[file] = self._read(file, name)
        return held

    def _read(self, file: Path, name: str) -> Collected:
        try:
            data = file.read_bytes()
        except FileNotFoundError:
            raise NotFound(f"there is no collection {name}") from None
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.truncate(file, len(whole))
        held = Collected(0)
        for line in whole.splitlines():
            try:
                _follow(held, json.loads(line))
            except (ValueError, KeyError, TypeError) as error:  # zeros, as a power cut may leave them
                raise Corrupt(f"{file.name} holds a line that is none of this engine's") from error
            held.lines += 1
        if not held.lines:
            raise Corrupt(f"{file.name} is empty")
        return held

    def _compact(self, name: str, held: Collected) -> None:
        file = self._file(name)
        fresh = file.with_name(f"{file.name}.tmp")
        lines = [{"dimension": held.dimension}, *map(_line, held.points.values()), {"commit": held.commits}]
        fresh.write_text(_encoded(lines), encoding="ascii")
        fresh.replace(file)
        held.lines = len(lines)


def suffix_of(name: str) -> str:
    """Return the ending of the name of a collection's file, after the name of its database."""
    return f"-{name}.jsonl"


def _follow(held: Collected, change: Mapping[str, Any]) -> None:
    """Apply the change of one line to a collection."""
    if "dimension" in change:
        held.dimension = change["dimension"]
    elif "commit" in change:
        held.commits = change["commit"]
    elif "gone" in change:
        held.remove(change["gone"])
    else:
        held.put(Point(change["id"], change["text"], change["context"], None, change["payload"]))


def _encoded(lines: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)


_FREQUENCY = {
    IN_TEXT: 1.0,
    IN_CONTEXT: bm25.CONTEXT_WEIGHT,
    IN_TEXT | IN_CONTEXT: 1.0 + bm25.CONTEXT_WEIGHT,
}


def _places(point: Point) -> dict[str, int]:
    places = dict.fromkeys(words(point.text), IN_TEXT)
    for word in set(words(point.context)):
        places[word] = places.get(word, 0) | IN_CONTEXT
    return places


def _line(point: Point) -> dict[str, Any]:
    return {"id": point.id, "text": point.text, "context": point.context, "payload": dict(point.payload)}
