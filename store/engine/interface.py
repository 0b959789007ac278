"""The interface of a search engine: points in, matches out. Policy lives above it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import apsw
import numpy as np
from numpy.typing import NDArray

from ..filters import Filter, Payload
from ..model import InvalidInput, StoreError

Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Point:
    """A chunk as an engine stores it.

    `text` is matched by keyword with weight 1, `context` (a neighbour's words) with a smaller one. `vector` is None
    until it has been embedded; filters test `payload`.
    """

    id: str
    text: str
    context: str = ""
    vector: Vector | None = None
    payload: Mapping[str, Payload] = field(default_factory=dict)


class Match(NamedTuple):
    """A point that matched: higher scores are better. Vector scores are cosines in [-1, 1], keyword scores bm25 > 0."""

    id: str
    score: float


Hybrid: TypeAlias = tuple[list[Match], list[Match]]
"""The matches by words, and those by meaning."""


@dataclass(frozen=True, slots=True)
class EngineHome:
    """The surroundings of an engine: the path of the index's database and its connections, perhaps others at each call.

    `dimension` is that of the vectors; `most_held` bounds those that an engine may hold in memory.
    """

    path: Callable[[], Path]
    writing: Callable[[], apsw.Connection]
    reading: Callable[[], apsw.Connection]
    dimension: int
    most_held: int


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The abilities of an engine, just now, beside keyword search, which every one has.

    `note` says, in a sentence for the person who asked, what it cannot do at the moment; "" where there is nothing.
    """

    vector: bool
    server_side_hybrid: bool = False
    note: str = ""


class VectorStore(Protocol):
    """An engine. One instance serves one collection owner; methods may be called from any thread.

    Results are ordered best first, ties by id, so that every engine answers alike.
    """

    def capabilities(self) -> Capabilities:
        """Return the abilities of this engine."""
        ...

    def ensure_collection(self, name: str, dimension: int) -> None:
        """Make the collection if it is not there. Raises StoreError if it is there with another dimension."""
        ...

    def ensure_payload_index(self, name: str, field: str, *, is_number: bool = False) -> None:
        """Make filters on the payload field, of texts or of numbers, fast; a no-op where they already are."""
        ...

    def upsert(self, name: str, points: Sequence[Point]) -> None:
        """Write points; a point with a known id replaces text, context and payload, and its vector if one is given.

        Without one, the vector stays as long as the text does: a new text is never found by the meaning of the old one.
        """
        ...

    def set_vectors(self, name: str, vectors: Mapping[str, Vector]) -> None:
        """Give vectors to points that are there; ids that are not are passed over."""
        ...

    def delete(self, name: str, ids: Collection[str]) -> None:
        """Remove points; unknown ids are passed over."""
        ...

    def commit(self, name: str) -> None:
        """Make the changes since the last commit durable; a no-op where the owner's transaction does that."""
        ...

    def rollback(self, name: str) -> None:
        """Take back the changes since the last commit; a no-op where the owner's transaction does that."""
        ...

    def mark(self, name: str) -> str:
        """Return a name of the state that was last committed; "" where the owner's transaction covers the engine.

        The owner keeps it beside its own data: if the two differ at a start, one of them has lost changes.
        """
        ...

    def compact(self, name: str) -> None:
        """Remove the last traces of removed points from the engine's own structures; the database is the owner's."""
        ...

    def keep_columns(self, name: str, batch: Callable[[], AbstractContextManager[None]]) -> bool:
        """Get ready to answer, now and at the next start, writing in transactions of the owner's (`batch`).

        False where changes overtook it: it is worth another try.
        """
        ...

    def reading(self) -> AbstractContextManager[None]:
        """Let all that this thread reads inside see one state of the collections."""
        ...

    def search_vector(self, name: str, vector: Vector, limit: int, where: Filter = ()) -> list[Match]:
        """Return the nearest points by cosine."""
        ...

    def cosines(self, name: str, vector: Vector, ids: Collection[str]) -> dict[str, float]:
        """Return the cosines of these points; those without a vector, or unknown, are left out."""
        ...

    def fields(self, name: str, ids: Collection[str], fields: Sequence[str]) -> dict[str, tuple[Payload, ...]]:
        """Return some payload fields of these points, in the order of `fields`; unknown ids are left out."""
        ...

    def search_keyword(self, name: str, terms: Sequence[str], limit: int, where: Filter = ()) -> list[Match]:
        """Return the best points by bm25 over any of the terms (plain words; the engine stems and escapes them)."""
        ...

    def search_hybrid(
        self, name: str, terms: Sequence[str], vector: Vector, limit: int, filters: Sequence[Filter] = ((),)
    ) -> list[Hybrid]:
        """Return what `search_keyword` and `search_vector` do, for each filter.

        Both are searched together where `server_side_hybrid` says so.
        """
        ...

    def get(self, name: str, ids: Sequence[str]) -> list[Point]:
        """Return the points that are there, in the order asked, with their vectors as precisely as they are kept."""
        ...

    def count(self, name: str) -> int:
        """Return the number of points in the collection."""
        ...


class SearchServer(VectorStore, Protocol):
    """An engine in another process, perhaps on another machine: it may be away, slow or full at any moment.

    Then a call raises StoreBusy within the seconds that it was made for. What it holds is a copy; the owner keeps what
    that was made from, and gives it again where `mark` is not what it last gave.
    """

    def bring(self, name: str, points: Sequence[Point], gone: Collection[str], mark: str) -> None:
        """Write points with exactly their vectors, remove others, and then take the mark; all may be done again."""
        ...

    def drop(self, name: str) -> None:
        """Remove a collection with all that it holds; one that is not there is passed over."""
        ...

    def abort(self) -> None:
        """Break off every call under way, in whatever thread: it raises StoreBusy."""
        ...

    def close(self) -> None:
        """Close every connection."""
        ...


# ---- what every engine refuses alike


def refuse_name(name: str) -> None:
    """Raise InvalidInput for what cannot name a collection: it is part of the names of tables."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", name):
        raise InvalidInput(f"{name!r} cannot name a collection", "Use lower-case letters, digits and _.")


def refuse_dimension(name: str, held: int, given: int) -> None:
    """Raise StoreError for a collection that was made for vectors of another model."""
    if held != given:
        raise StoreError(
            f"collection {name} holds vectors of {held} numbers, the model gives {given}",
            "Run `dreamctl rebuild` to embed everything with the model of the settings.",
        )


def refuse_vector(vector: Vector, dimension: int) -> None:
    """Raise InvalidInput for a vector that a collection cannot hold."""
    if np.shape(vector) != (dimension,):
        raise InvalidInput(f"a vector of {len(vector)} numbers, where the collection has {dimension}")


# ---- texts and payloads as servers keep them

# A server keeps no NUL, or no half of a surrogate pair, in a text: each is written as the mark and its number.
_MARK: Final = "\ufdd1"
_UNKEPT: Final = re.compile(f"[\x00{_MARK}\ud800-\udfff]")
_MARKED: Final = re.compile(f"{_MARK}([0-9a-f]{{4}})")


def escaped(text: str) -> str:
    """Return a text in characters that every server keeps."""
    return _UNKEPT.sub(lambda found: f"{_MARK}{ord(found.group()):04x}", text)


def unescaped(text: str) -> str:
    """Return the text that `escaped` was given."""
    return _MARKED.sub(lambda found: chr(int(found.group(1), 16)), text)


def json_values(payload: Mapping[str, Payload]) -> dict[str, Any]:
    """Return a payload in values of JSON, with texts that every server keeps."""
    return {field: _json_value(value) for field, value in payload.items()}


def payload_of(held: Mapping[str, Any]) -> dict[str, Payload]:
    """Return the payload that `json_values` was given."""
    return {field: _value(value) for field, value in held.items()}


def _json_value(value: Payload) -> Any:
    if isinstance(value, str):
        return escaped(value)
    return list(map(escaped, value)) if isinstance(value, tuple) else value


def _value(value: Any) -> Payload:
    if isinstance(value, str):
        return unescaped(value)
    return tuple(map(unescaped, value)) if isinstance(value, list) else value
