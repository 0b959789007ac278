"""LangGraph's store, kept by the daemon: each item is a document. Needs `dreamd[langgraph]`."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
)

from ..async_client import AsyncClient
from ..client import Client
from .space import turn_of

if TYPE_CHECKING:
    from ..protocol import Json

SPACE: Final = ("langgraph",)

MOST_RANKED: Final = 1000
"""Items that a question ranks; all others follow, unranked."""

Request = tuple[str, dict[str, Any]]
Steps = Generator[Request, Any, Any]
"""The requests of one operation, one after the other; it is sent each answer, and returns its result."""


class DreamdStore(BaseStore):
    """A store of JSON values by namespace and key; a put that returned survives `kill -9`.

    `search` with a query ranks by meaning. Items live for as long as `ttl` says, and are found by recall in `channel`,
    unless put with `index=False`. A daemon that is away raises `dreamd.ipc.client.Unreachable` from every method.
    """

    supports_ttl = True

    def __init__(
        self,
        client: Client | None = None,
        *,
        space: Sequence[str] = SPACE,
        channel: str | None = None,
        user_id: str | None = None,
        ttl: TTLConfig | None = None,
    ) -> None:
        self.ttl_config = ttl
        self._client = client or Client(name="langgraph-store")
        self._turn = turn_of(self._client)
        self._space = tuple(space)
        self._channel = channel
        self._user_id = user_id
        self._asynchronous: tuple[asyncio.AbstractEventLoop, AsyncClient] | None = None

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Answer every question from the state before, then put and delete."""
        reads, writes = self._planned(ops)
        results: list[Result] = [steps if steps is None else self._run(steps) for steps in reads]
        for steps in writes:
            self._run(steps)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do the same in an event loop: all questions at once, then all puts and deletions."""
        reads, writes = self._planned(ops)
        client = self._asynchronous_client()
        asked = await asyncio.gather(*(_run_in(client, steps) for steps in reads if steps is not None))
        answers = iter(asked)
        results: list[Result] = [None if steps is None else next(answers) for steps in reads]
        await asyncio.gather(*(_run_in(client, steps) for steps in writes))
        return results

    async def aclose(self) -> None:
        """Let go of the event loop's connection; the next call makes another."""
        if self._asynchronous is not None:
            await self._asynchronous[1].close()
            self._asynchronous = None

    def _planned(self, ops: Iterable[Op]) -> tuple[list[Steps | None], list[Steps]]:
        """Return the steps of each question, None for a put, and the steps of the last put of each key."""
        reads: list[Steps | None] = []
        puts: dict[tuple[tuple[str, ...], str], PutOp] = {}
        for op in ops:
            if isinstance(op, PutOp):
                # Of several puts of one key in a batch the last one counts, as in the reference implementation.
                puts[op.namespace, op.key] = op
                reads.append(None)
            elif isinstance(op, GetOp):
                reads.append(self._get(op))
            elif isinstance(op, SearchOp):
                reads.append(self._ranked(op) if op.query else self._filtered(op))
            elif isinstance(op, ListNamespacesOp):
                reads.append(self._namespaces(op))
            else:
                raise ValueError(f"Unknown operation type: {type(op)}")  # noqa: TRY004  (as the reference does)
        return reads, [self._put(op) for op in puts.values()]

    def _run(self, steps: Steps) -> Any:
        try:
            request = next(steps)
            while True:
                with self._turn:
                    answer = self._client.call(*request)
                request = steps.send(answer)
        except StopIteration as done:
            return done.value

    def _asynchronous_client(self) -> AsyncClient:
        """Return the client of the running event loop; another loop's is of no use any more."""
        loop = asyncio.get_running_loop()
        if self._asynchronous is None or self._asynchronous[0] is not loop:
            self._asynchronous = (loop, AsyncClient(self._client.path, name="langgraph-store"))
        return self._asynchronous[1]

    # ---- the steps of each operation

    def _put(self, op: PutOp) -> Steps:
        place = {**self._place(op.namespace), "key": op.key}
        if op.value is None:
            yield "document_delete", place
            return
        more = {"value": dict(op.value), "ttl_minutes": op.ttl, "searched": op.index is not False}
        yield "document_put", {**place, **more, "channel": self._channel}

    def _get(self, op: GetOp) -> Steps:
        asked = {**self._place(op.namespace), "key": op.key, "refresh": op.refresh_ttl}
        found = (yield "document_get", asked)["document"]
        return None if found is None else Item(**self._fields(found))

    def _filtered(self, op: SearchOp) -> Steps:
        """Return the items that match, the oldest first."""
        enough = op.offset + op.limit if min(op.offset, op.limit) >= 0 else None
        found = yield from self._listed(op.namespace_prefix, op.filter, enough)
        return (yield from self._shown([(each, None) for each in found[op.offset : op.offset + op.limit]], op))

    def _ranked(self, op: SearchOp) -> Steps:
        """Return the items that match, the nearest to the query first; those that are not indexed fill up the rest."""
        asked = {**self._place(op.namespace_prefix), "query": op.query, "limit": MOST_RANKED}
        hits = (yield "document_search", asked)["hits"]
        scores = {(tuple(hit["space"]), hit["key"]): hit["score"] for hit in hits}
        found = yield from self._listed(op.namespace_prefix, op.filter)
        ranked = [(each, scores.get((tuple(each["space"]), each["key"]))) for each in found]
        scored = sorted((pair for pair in ranked if pair[1] is not None), key=lambda pair: -(pair[1] or 0.0))
        shown = scored[op.offset : op.offset + op.limit]
        rest = [pair for pair in ranked if pair[1] is None]
        return (yield from self._shown([*shown, *rest[: op.limit - len(shown)]], op))

    def _shown(self, found: Sequence[tuple[Json, float | None]], op: SearchOp) -> Steps:
        """Return items as a search does; each that is shown lives on."""
        for each, _ in found:
            if op.refresh_ttl and each["expires_at"] is not None:
                place = self._place(self._namespace(each))
                yield "document_get", {**place, "key": each["key"], "refresh": True}
        return [SearchItem(**self._fields(each), score=score) for each, score in found]

    def _namespaces(self, op: ListNamespacesOp) -> Steps:
        conditions = op.match_conditions or ()
        found = yield from self._listed((), None, values=False)
        namespaces = {self._namespace(each) for each in found}
        namespaces = {each for each in namespaces if all(_fits(condition, each) for condition in conditions)}
        if op.max_depth is not None:
            namespaces = {each[: op.max_depth] for each in namespaces}
        return sorted(namespaces)[op.offset : op.offset + op.limit]

    def _listed(
        self,
        namespace: tuple[str, ...],
        wanted: Mapping[str, Any] | None,
        enough: int | None = None,
        *,
        values: bool = True,
    ) -> Steps:
        """Return the documents below a namespace that match, page by page, until there are enough."""
        found: list[Json] = []
        after = None
        while enough is None or len(found) < enough:
            asked = {**self._place(namespace), "deep": True, "values": values, "after": after, "limit": 1000}
            page = yield "document_list", asked
            found += (each for each in page["documents"] if not wanted or matches(each["value"], wanted))
            if (after := page["next"]) is None:
                break
        return found

    def _place(self, namespace: tuple[str, ...]) -> Json:
        return {"space": [*self._space, *namespace], "user_id": self._user_id}

    def _namespace(self, document: Json) -> tuple[str, ...]:
        return tuple(document["space"][len(self._space) :])

    def _fields(self, document: Json) -> dict[str, Any]:
        return {
            "namespace": self._namespace(document),
            "key": document["key"],
            "value": document["value"],
            "created_at": datetime.fromisoformat(document["created_at"]),
            "updated_at": datetime.fromisoformat(document["updated_at"]),
        }


async def _run_in(client: AsyncClient, steps: Steps) -> Any:
    try:
        request = next(steps)
        while True:
            request = steps.send(await client.call(*request))
    except StopIteration as done:
        return done.value


def _fits(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    """Return True for a namespace that begins, or ends, with a path, in which `*` is any part."""
    path = condition.path
    if len(path) > len(namespace):
        return False
    if condition.match_type == "prefix":
        part = namespace[: len(path)]
    elif condition.match_type == "suffix":
        part = namespace[len(namespace) - len(path) :]
    else:
        raise ValueError(f"Unsupported match type: {condition.match_type}")
    return all(wanted in ("*", given) for given, wanted in zip(part, path, strict=True))


COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def matches(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return True for a value whose fields pass a filter.

    Raises ValueError for an unknown operator, and TypeError or ValueError where a comparison has no number.
    """
    return all(_is_as(value.get(name), test) for name, test in wanted.items())


def _is_as(given: Any, test: Any) -> bool:
    if isinstance(test, Mapping):
        if any(name.startswith("$") for name in test):
            return all(_holds(given, name, bound) for name, bound in test.items())
        return isinstance(given, Mapping) and matches(given, test)
    if isinstance(test, list | tuple):
        is_as_long = isinstance(given, list | tuple) and len(given) == len(test)
        return is_as_long and all(_is_as(one, other) for one, other in zip(given, test, strict=True))
    return bool(given == test)


def _holds(given: Any, name: str, bound: Any) -> bool:
    if name == "$eq":
        return bool(given == bound)
    if name == "$ne":
        return bool(given != bound)
    if name not in COMPARISONS:
        raise ValueError(f"Unsupported operator: {name}")
    return COMPARISONS[name](float(given), float(bound))
