"""Qdrant: words as sparse vectors that it weighs by bm25, vectors of a byte a number, typed payloads; one request.

A collection is one of Qdrant's, `dreamd_NAME`. Words are split as for every other engine, and a word's rarity is
counted by the server among the points that the filter leaves; a point's length is compared with MEAN_SIZE, since the
weights of its words are worked out when it is written. The nearest are found by whole numbers of a byte, through HNSW
where Qdrant has built it, and ranked by their floats. The arms keep the scores of each, which recall fuses.
"""

from __future__ import annotations

import hashlib
import re
import socket
import threading
import uuid
import warnings
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import numpy as np

from ..filters import Clause, Condition, Filter, Payload, Scalar, compares
from ..model import NotFound, StoreBusy, StoreError
from .bm25 import CONTEXT_WEIGHT, MEAN_SIZE, number_of, weight, words
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
    from qdrant_client import QdrantClient, models

WORDS, MEANING = "words", "meaning"
"""The names of a point's two vectors."""

NEIGHBOURS: Final = 128
"""Candidates that HNSW keeps while it looks for the nearest (`hnsw_ef`)."""

OVERSAMPLED: Final = 2.0
"""Candidates by bytes, in parts of those asked for, that are ranked by floats."""

SURPLUS, MOST_TIED = 50, 20_000
"""Points that are asked for beyond the limit, first and at most: those that tie with the last are ordered by id."""

DIGITS: Final = 6
"""Of a score: two points with the same vector, or the same words, may differ in the next."""

MOST_TEXTS: Final = 10_000
"""Texts of a field that a comparison by order can tell apart."""

MARK: Final = str(uuid.UUID(int=0))
"""The id of the point that holds a collection's mark, and has neither vector: no search finds it."""

WRITES_IN_S: Final = 30.0


class QdrantStore:
    """Collections in a Qdrant of at least version 1.19, in any of its clients. Any thread may call.

    `searching` and `writing` are clients with the time limits of each. Each batch of a call is applied whole; a mark is
    written after the points that it stands for.
    """

    def __init__(
        self, searching: QdrantClient, writing: QdrantClient, abort: Callable[[], None] = lambda: None
    ) -> None:
        self._searching = searching
        self._writing = writing
        self._abort = abort
        self._dimensions: dict[str, int] = {}

    def capabilities(self) -> Capabilities:
        """Both ways of searching, in one request."""
        return Capabilities(vector=True, server_side_hybrid=True)

    def ensure_collection(self, name: str, dimension: int) -> None:
        """Make the collection if it is not there. Raises StoreError if it is there with another dimension."""
        from qdrant_client import models

        refuse_name(name)
        with _told():
            if not self._writing.collection_exists(_named(name)):
                self._writing.create_collection(
                    _named(name),
                    vectors_config={
                        MEANING: models.VectorParams(size=dimension, distance=models.Distance.COSINE, on_disk=True)
                    },
                    sparse_vectors_config={WORDS: models.SparseVectorParams(modifier=models.Modifier.IDF)},
                    quantization_config=models.ScalarQuantization(
                        scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
                    ),
                    shard_number=1,  # rarity is counted a shard
                )
        self._dimensions.pop(name, None)
        refuse_dimension(name, self._dimension(name), dimension)

    def ensure_payload_index(self, name: str, field: str, *, is_number: bool = False) -> None:
        """Index the payload field, by numbers or by whole texts."""
        from qdrant_client import models

        schema = models.PayloadSchemaType.FLOAT if is_number else models.PayloadSchemaType.KEYWORD
        with _told():
            self._writing.create_payload_index(_named(name), _key(field), schema)

    def upsert(self, name: str, points: Sequence[Point]) -> None:
        """Write points; a text that changed loses its vector unless one is given."""
        bare = [point.id for point in points if point.vector is None]
        held = {point.id: point for point in self.get(name, bare)}
        latest = {point.id: point for point in points}
        self._put(name, [_with_vector_of(point, held.get(point.id)) for point in latest.values()])

    def bring(self, name: str, points: Sequence[Point], gone: Collection[str], mark: str) -> None:
        """Write points with exactly their vectors, remove others, and then take the mark."""
        from qdrant_client import models

        self._put(name, points)
        self.delete(name, gone)
        with _told():
            self._writing.upsert(_named(name), [models.PointStruct(id=MARK, vector={}, payload={"mark": mark})])

    def set_vectors(self, name: str, vectors: Mapping[str, Vector]) -> None:
        """Give vectors to points that are there; ids that are not are passed over."""
        from qdrant_client import models

        known = [point_id for point_id, _ in self._payloads(name, list(vectors), ["id"])]
        given = [
            models.PointVectors(id=_uuid(point_id), vector={MEANING: self._checked(name, vectors[point_id])})
            for point_id in known
        ]
        if given:
            with _told():
                self._writing.update_vectors(_named(name), given)

    def delete(self, name: str, ids: Collection[str]) -> None:
        """Remove points; unknown ids are passed over."""
        if ids:
            with _told():
                self._writing.delete(_named(name), [_uuid(point_id) for point_id in ids])

    def drop(self, name: str) -> None:
        """Remove a collection with all that it holds; one that is not there is passed over."""
        with _told():
            if self._writing.collection_exists(_named(name)):
                self._writing.delete_collection(_named(name))

    def commit(self, name: str) -> None:
        """Do nothing: each call is durable."""

    def rollback(self, name: str) -> None:
        """Do nothing: each call is durable."""

    def mark(self, name: str) -> str:
        """Return the mark that was brought last."""
        with _told():
            found = self._searching.retrieve(_named(name), [MARK])
        return str((found[0].payload or {}).get("mark", "")) if found else ""

    def compact(self, name: str) -> None:
        """Remove the collection: Qdrant rewrites its files when it likes, and removed points stay there until then.

        The owner gives it everything again, as after any loss.
        """
        self.drop(name)

    def keep_columns(self, name: str, batch: Callable[[], AbstractContextManager[None]]) -> bool:
        """Do nothing: Qdrant builds its indexes by itself."""
        return True

    def reading(self) -> AbstractContextManager[None]:
        """Hold nothing: each search reads by itself."""
        return nullcontext()

    def search_vector(self, name: str, vector: Vector, limit: int, where: Filter = ()) -> list[Match]:
        """Return the nearest points by cosine."""
        return self._found(name, [self._near(vector)], limit, where)[0]

    def search_keyword(self, name: str, terms: Sequence[str], limit: int, where: Filter = ()) -> list[Match]:
        """Return the best points by bm25 over any of the terms."""
        return self._found(name, [_with_words(terms)], limit, where)[0]

    def search_hybrid(
        self, name: str, terms: Sequence[str], vector: Vector, limit: int, filters: Sequence[Filter] = ((),)
    ) -> list[Hybrid]:
        """Search in both ways in one request for each filter."""
        ways = [_with_words(terms), self._near(vector)]
        found = (self._found(name, ways, limit, where) for where in filters)
        return [(by_words, by_meaning) for by_words, by_meaning in found]

    def cosines(self, name: str, vector: Vector, ids: Collection[str]) -> dict[str, float]:
        """Return the cosines of these points; those without a vector, or unknown, are left out."""
        length = float(np.linalg.norm(vector)) or 1.0
        return {
            point.id: float(point.vector @ vector) / length
            for point in self.get(name, list(ids))
            if point.vector is not None
        }

    def fields(self, name: str, ids: Collection[str], fields: Sequence[str]) -> dict[str, tuple[Payload, ...]]:
        """Return some payload fields of these points, in the order of `fields`; unknown ids are left out."""
        found = self._payloads(name, ids, ["id", *map(_key, fields)])
        payloads = ((point_id, payload_of(held.get("of", {}))) for point_id, held in found)
        return {point_id: tuple(payload.get(field) for field in fields) for point_id, payload in payloads}

    def get(self, name: str, ids: Sequence[str]) -> list[Point]:
        """Return the points that are there, in the order asked, with their vectors as precisely as they are kept."""
        with _told():
            records = self._searching.retrieve(
                _named(name), [_uuid(point_id) for point_id in ids], with_payload=True, with_vectors=[MEANING]
            )
        found = {point.id: point for point in map(_point, records)}
        return [found[point_id] for point_id in ids if point_id in found]

    def count(self, name: str) -> int:
        """Return the number of points in the collection."""
        from qdrant_client import models

        but_the_mark = models.Filter(must_not=[models.HasIdCondition(has_id=[MARK])])
        with _told():
            return int(self._writing.count(_named(name), but_the_mark, exact=True).count)

    def abort(self) -> None:
        """Break off every call under way."""
        self._abort()

    def close(self) -> None:
        """Close every connection; no call may be under way."""
        for client in (self._searching, self._writing):
            client.close()

    # ---- questions

    def _found(
        self, name: str, asked: Sequence[models.QueryRequest | None], limit: int, where: Filter
    ) -> list[list[Match]]:
        """Return the matches of each request, [] for None, by one call; more are asked for while the last ones tie."""
        from qdrant_client import models

        found: list[list[Match]] = [[] for _ in asked]
        reach = limit + SURPLUS
        open_ = {place: one for place, one in enumerate(asked) if one is not None and limit > 0}
        if not open_:
            self._dimension(name)  # NotFound where there is no collection
            return found
        condition = models.Filter(must=[self._clause(name, clause) for clause in where])
        while open_:
            requests = [_within(one, condition, reach) for one in open_.values()]
            with _told():
                answers = self._searching.query_batch_points(_named(name), requests)
            for place, answer in zip(list(open_), answers, strict=True):
                matches = [Match(_id_of(point.payload), round(point.score, DIGITS)) for point in answer.points]
                matches.sort(key=lambda match: (-match.score, match.id))
                found[place] = matches[:limit]
                if len(matches) < reach or matches[-1].score < matches[limit - 1].score or reach >= MOST_TIED:
                    del open_[place]
            reach *= 4
        return found

    def _near(self, vector: Vector) -> models.QueryRequest | None:
        from qdrant_client import models

        if not vector.any():
            return None
        rescored = models.QuantizationSearchParams(rescore=True, oversampling=OVERSAMPLED)
        return models.QueryRequest(
            query=vector.tolist(),
            using=MEANING,
            params=models.SearchParams(hnsw_ef=NEIGHBOURS, quantization=rescored),
        )

    # ---- filters

    def _clause(self, name: str, clause: Clause) -> models.Condition:
        from qdrant_client import models

        if isinstance(clause, Condition):
            return self._test(name, clause)
        return models.Filter(
            must=[self._clause(name, one) for one in clause.must],
            should=[self._clause(name, one) for one in clause.should] or None,
            must_not=[self._clause(name, one) for one in clause.must_not],
        )

    def _test(self, name: str, condition: Condition) -> models.Condition:
        from qdrant_client import models

        key = _key(condition.field)
        if condition.op == "is_null":
            return _is_null(key)
        if condition.op in ("in", "not_in"):
            among = _is_among(key, condition.values)
            return models.Filter(must_not=[among]) if condition.op == "not_in" else among
        or_null = [_is_null(key)] if None in condition.values else []
        bound = condition.values[0] if condition.values else None
        if isinstance(bound, str):
            # Qdrant has no order of texts: those that the field has are compared here.
            with _told():
                texts = self._searching.facet(_named(name), key, limit=MOST_TEXTS, exact=True).hits
            held = [unescaped(text.value) for text in texts if isinstance(text.value, str)]
            return _any([_is_among(key, [text for text in held if compares(text, condition.op, bound)]), *or_null])
        within = [] if bound is None else [models.FieldCondition(key=key, range=models.Range(**{condition.op: bound}))]
        return _any([*within, *or_null])

    # ---- points

    def _put(self, name: str, points: Sequence[Point]) -> None:
        from qdrant_client import models

        held = [
            models.PointStruct(
                id=_uuid(point.id),
                vector=_weighed(point) | ({} if point.vector is None else {MEANING: self._checked(name, point.vector)}),
                payload={
                    "id": escaped(point.id),
                    "text": escaped(point.text),
                    "context": escaped(point.context),
                    "of": json_values(point.payload),
                },
            )
            for point in points
        ]
        if held:
            with _told():
                self._writing.upsert(_named(name), held)

    def _payloads(self, name: str, ids: Collection[str], wanted: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        with _told():
            records = self._searching.retrieve(_named(name), [_uuid(point_id) for point_id in ids], with_payload=wanted)
        for record in records:
            yield _id_of(record.payload), record.payload or {}

    def _checked(self, name: str, vector: Vector) -> list[float]:
        refuse_vector(vector, self._dimension(name))
        return [float(number) for number in vector]

    def _dimension(self, name: str) -> int:
        if (dimension := self._dimensions.get(name)) is None:
            with _told():
                vectors: Any = self._searching.get_collection(_named(name)).config.params.vectors
            dimension = self._dimensions[name] = int(vectors[MEANING].size)
        return dimension


def connect(dsn: str, search_s: float) -> QdrantStore:
    """Return the store of a server, `http[s]://[API-KEY@]HOST[:PORT]`; a search ends after `search_s`.

    Raises StoreError for another address.
    """
    from qdrant_client import QdrantClient

    parts = urlsplit(dsn)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise StoreError("the server's address is not of the form http[s]://[API-KEY@]HOST[:PORT]")
    sockets = _Sockets()

    def client(timeout_s: float) -> QdrantClient:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a key goes in the clear is the person's to decide
            return QdrantClient(
                url=f"{parts.scheme}://{parts.hostname}",
                port=parts.port or (443 if parts.scheme == "https" else 6333),
                api_key=unquote(parts.username or parts.password or "") or None,
                timeout=max(1, round(timeout_s)),
                check_compatibility=False,
                trust_env=False,
                event_hooks={"request": [sockets.watch]},
            )

    return QdrantStore(client(search_s), client(WRITES_IN_S), sockets.shut)


class _Sockets:
    """The open sockets of clients, to be shut from any thread: a call that waits for an answer then ends at once."""

    def __init__(self) -> None:
        self._open: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._lock = threading.Lock()

    def watch(self, request: Any) -> None:
        request.extensions["trace"] = self._note

    def _note(self, event: str, info: Mapping[str, Any]) -> None:
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            with self._lock:
                self._open.add(info["return_value"].get_extra_info("socket"))

    def shut(self) -> None:
        with self._lock:
            for one in self._open:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)


@contextmanager
def _told() -> Iterator[None]:
    """Raise a client's errors as our own: StoreBusy where the server is away, slow or full."""
    from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

    try:
        yield
    except UnexpectedResponse as error:  # its message may hold texts
        if error.status_code == 404:
            raise NotFound("the server has no such collection") from None
        raise StoreBusy(f"Qdrant cannot be used now: it answered {error.status_code}", "It is tried again.") from None
    except ApiException as error:
        name = type(getattr(error, "source", error)).__name__
        why = {"ConnectError": "it refuses connections", "ConnectTimeout": "it does not answer"}.get(name, name)
        raise StoreBusy(f"Qdrant cannot be used now: {why}", "It is tried again.") from None
    except ValueError as error:  # the client's own store
        if re.fullmatch(r"Collection \S+ not found", str(error)):
            raise NotFound("the server has no such collection") from None
        raise


def _named(name: str) -> str:
    return f"dreamd_{name}"


def _key(field: str) -> str:
    return f"of.{field}"


def _uuid(point_id: str) -> str:
    return str(uuid.UUID(bytes=hashlib.blake2b(escaped(point_id).encode(), digest_size=16).digest()))


def _id_of(payload: Mapping[str, Any] | None) -> str:
    return unescaped(str((payload or {})["id"]))


def _weighed(point: Point) -> dict[str, Any]:
    """Return the words of a point with their weights by bm25, but for the rarity that the server counts."""
    from qdrant_client import models

    often = dict.fromkeys(map(number_of, words(point.text)), 1.0)
    for number in set(map(number_of, words(point.context))):
        often[number] = often.get(number, 0.0) + CONTEXT_WEIGHT
    if not often:
        return {}
    sizes = np.full(len(often), len(point.text) + len(point.context), np.int32)
    weights = weight(np.array(list(often.values()), np.float32), sizes, MEAN_SIZE)
    return {WORDS: models.SparseVector(indices=list(often), values=weights.tolist())}


def _with_words(terms: Sequence[str]) -> models.QueryRequest | None:
    from qdrant_client import models

    asked = list(dict.fromkeys(map(number_of, words(" ".join(terms), query=True))))
    if not asked:
        return None
    return models.QueryRequest(query=models.SparseVector(indices=asked, values=[1.0] * len(asked)), using=WORDS)


def _within(asked: models.QueryRequest, condition: models.Filter, limit: int) -> models.QueryRequest:
    """Ask under a filter, by which also the rarity of words is counted."""
    from qdrant_client import models

    params = asked.params or models.SearchParams(idf=models.IdfCorpusParams(corpus=condition))
    return asked.model_copy(
        update={"filter": condition, "params": params, "limit": limit, "with_payload": ["id"]},
    )


def _point(record: Any) -> Point:
    held = record.payload
    vector = (record.vector or {}).get(MEANING)
    return Point(
        unescaped(held["id"]),
        unescaped(held["text"]),
        unescaped(held["context"]),
        None if vector is None else np.array(vector, np.float32),
        payload_of(held["of"]),
    )


def _with_vector_of(point: Point, held: Point | None) -> Point:
    if point.vector is not None or held is None or held.text != point.text:
        return point
    return Point(point.id, point.text, point.context, held.vector, point.payload)


def _any(conditions: Sequence[models.Condition]) -> models.Condition:
    """Return a condition that holds if one of some does; of none it never holds."""
    from qdrant_client import models

    return models.Filter(should=list(conditions)) if conditions else models.HasIdCondition(has_id=[])


def _is_among(key: str, among: Sequence[Scalar]) -> models.Condition:
    from qdrant_client import models

    tests: list[models.Condition] = []
    if texts := [escaped(value) for value in among if isinstance(value, str)]:
        tests.append(models.FieldCondition(key=key, match=models.MatchAny(any=texts)))
    for value in among:
        if isinstance(value, int | float):  # a range, since a match knows no fractions
            tests.append(models.FieldCondition(key=key, range=models.Range(gte=value, lte=value)))
    if None in among:
        tests.append(_is_null(key))
    return _any(tests)


def _is_null(key: str) -> models.Condition:
    from qdrant_client import models

    return models.IsEmptyCondition(is_empty=models.PayloadField(key=key))
