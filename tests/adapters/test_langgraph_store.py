"""LangGraph's store over a real daemon, against the package's own in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest
from dreamd.ipc.client import ClientError, Unreachable
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.adapters.conftest import client_of
from tests.bench.daemon_under_test import DaemonUnderTest
from tests.system.waiting import until

pytest.importorskip("langgraph.store.base", reason="`make test-adapters` installs the packages that have adapters")

from dreamd.ipc.adapters.langgraph_store import DreamdStore, matches
from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchItem, SearchOp
from langgraph.store.memory import InMemoryStore

pytestmark = pytest.mark.adapters

LABELS = ["users", "a", "b b", "Ä"]
NAMESPACES = st.sampled_from([("users",), ("users", "a"), ("users", "a", "b b"), ("Ä", "a")])
KEYS = st.sampled_from(["k1", "k2", "a/b", "."])
NUMBERS = st.integers(-3, 3) | st.sampled_from([0.5, -1.5])
TEXTS = st.sampled_from(["", "red", "blue", "über\n"])
SIMPLE = NUMBERS | TEXTS | st.none() | st.booleans()
VALUES = st.fixed_dictionaries(
    {"n": NUMBERS},
    optional={
        "color": TEXTS,
        "any": SIMPLE | st.lists(SIMPLE, max_size=2),
        "in": st.dictionaries(st.sampled_from(["x", "y"]), SIMPLE, max_size=2),
    },
)
TESTS = st.dictionaries(
    st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$odd"]), NUMBERS, min_size=1, max_size=2
)
USUAL: list[dict[str, Any]] = [
    {"color": "red"},
    {"color": {"$ne": "red"}},
    {"color": {"$gt": 1}},
    {"n": {"$gt": 0}},
    {"n": {"$lte": 1, "$ne": 0.5}},
    {"n": {"$gte": 0.5, "$lt": 3}, "color": "red"},
    {"n": {"$odd": 1}},
    {"any": [1, "red"]},
    {"any": None},
    {"in": {"x": 1}},
    {"in": {"x": {"$eq": 1}, "y": "red"}},
]
WANTED = st.sampled_from(USUAL) | st.dictionaries(
    st.sampled_from(["n", "color", "any", "in"]),
    SIMPLE | TESTS | st.lists(SIMPLE, max_size=2) | st.dictionaries(st.sampled_from(["x", "y"]), SIMPLE, max_size=1),
    min_size=1,
    max_size=2,
)
FILTERS = st.none() | WANTED
PATHS = st.lists(st.sampled_from([*LABELS, "*"]), max_size=2).map(tuple)
CONDITIONS = st.builds(MatchCondition, match_type=st.sampled_from(["prefix", "suffix"]), path=PATHS)
OPS = st.one_of(
    st.builds(PutOp, namespace=NAMESPACES, key=KEYS, value=VALUES | VALUES | st.none(), index=st.none(), ttl=st.none()),
    st.builds(PutOp, namespace=NAMESPACES, key=KEYS, value=VALUES | VALUES | st.none(), index=st.none(), ttl=st.none()),
    st.builds(GetOp, namespace=NAMESPACES, key=KEYS, refresh_ttl=st.booleans()),
    st.builds(
        SearchOp,
        namespace_prefix=st.just(()) | NAMESPACES,
        filter=FILTERS,
        query=st.none(),
        refresh_ttl=st.booleans(),
        limit=st.integers(-1, 5) | st.just(100),
        offset=st.integers(-1, 2),
    ),
    st.builds(
        ListNamespacesOp,
        match_conditions=st.none() | st.lists(CONDITIONS, max_size=2).map(tuple),
        max_depth=st.none() | st.integers(1, 2),
        limit=st.integers(1, 3) | st.just(100),
        offset=st.integers(0, 2),
    ),
)
AT_FIRST = [
    PutOp(("users",), "k1", {"n": 1, "color": "red", "any": [1, "red"]}),
    PutOp(("users",), "k2", {"n": -2, "color": "blue", "in": {"x": 1, "y": "red"}}),
    PutOp(("users",), ".", {"n": 0.5, "any": None}),
    PutOp(("users", "a"), "k1", {"n": 3, "color": "red"}),
    PutOp(("Ä", "a"), "a/b", {"n": 1, "in": {"x": None}}),
]
spaces = count()


def store_of(daemon: DaemonUnderTest, space: tuple[str, ...] = (), **more: Any) -> DreamdStore:
    return DreamdStore(client_of(daemon), space=space or ("graph", str(next(spaces))), **more)


def without_empty_namespaces(reference: InMemoryStore) -> None:
    """Remove the namespaces of the reference that were emptied, or only asked for: here one is there with its items."""
    for namespace in [namespace for namespace, items in reference._data.items() if not items]:
        del reference._data[namespace]


def plain(result: Any) -> Any:
    """Return a result without its instants, which differ by nature."""
    if isinstance(result, list):
        return [plain(each) for each in result]
    if hasattr(result, "value"):
        return (result.namespace, result.key, result.value, getattr(result, "score", None))
    return result


def outcomes(store: Any, op: Any, asynchronous: bool) -> Any:
    """Return the result of one operation, or that it is refused."""
    try:
        return plain((asyncio.run(alone(store, op)) if asynchronous else store.batch([op]))[0])
    except (TypeError, ValueError) as error:
        return f"refused: {type(error).__name__}"


async def alone(store: Any, *ops: Any) -> Any:
    try:
        return await store.abatch(ops)
    finally:
        if isinstance(store, DreamdStore):
            await store.aclose()


def check_one(reference: InMemoryStore, ours: DreamdStore, op: Any, asynchronous: bool) -> None:
    expected, told = outcomes(reference, op, asynchronous), outcomes(ours, op, asynchronous)
    if isinstance(op, SearchOp) and isinstance(expected, list):
        everything = outcomes(reference, op._replace(limit=10_000, offset=0), asynchronous)
        if len({namespace for namespace, *_ in everything}) > 1:  # their order is not said
            assert len(told) == len(expected)
            assert all(each in everything for each in told)
            return
    assert told == expected, op


@given(ops=st.lists(OPS, min_size=3, max_size=15), asynchronous=st.booleans())
@settings(max_examples=150, deadline=None)
def check_equal(daemon: DaemonUnderTest, ops: Sequence[Any], asynchronous: bool) -> None:
    reference, ours = InMemoryStore(), store_of(daemon)
    for op in [*AT_FIRST, *ops, SearchOp((), limit=100), ListNamespacesOp()]:
        without_empty_namespaces(reference)
        check_one(reference, ours, op, asynchronous)


@given(ops=st.lists(OPS, min_size=2, max_size=10), asynchronous=st.booleans())
@settings(max_examples=40, deadline=None)
def check_batches(daemon: DaemonUnderTest, ops: Sequence[Any], asynchronous: bool) -> None:
    reference, ours = InMemoryStore(), store_of(daemon)
    ops = [op for op in ops if isinstance(op, PutOp | GetOp)]
    for batch in (ops, ops[::-1]):
        if asynchronous:
            expected, told = asyncio.run(alone(reference, *batch)), asyncio.run(alone(ours, *batch))
        else:
            expected, told = reference.batch(batch), ours.batch(batch)
        assert plain(told) == plain(expected)


@given(value=VALUES, wanted=WANTED)
@settings(max_examples=500, deadline=None)
def test_a_filter_matches_what_the_references_does(value: dict[str, Any], wanted: dict[str, Any]) -> None:
    reference = InMemoryStore()
    reference.put(("a",), "k", value)
    found = outcomes(reference, SearchOp(("a",), filter=wanted), False)
    if isinstance(found, str):
        with pytest.raises((TypeError, ValueError)):
            matches(value, wanted)
    else:
        assert matches(value, wanted) == bool(found)


def test_every_answer_is_the_references(shared: DaemonUnderTest) -> None:
    check_equal(shared)


def test_a_batch_reads_before_it_writes(shared: DaemonUnderTest) -> None:
    check_batches(shared)


def test_the_methods_of_the_base_class_work(shared: DaemonUnderTest) -> None:
    ours = store_of(shared)
    ours.put(("users", "anna"), "tea", {"likes": "tea"})
    ours.put(("users", "tom"), "bike", {"likes": "bicycles"})
    item = ours.get(("users", "anna"), "tea")
    assert item is not None
    assert item.created_at.tzinfo is not None
    assert item.created_at <= item.updated_at
    assert [found.key for found in ours.search(("users",), filter={"likes": "bicycles"})] == ["bike"]
    assert ours.list_namespaces(prefix=("users",), max_depth=1) == [("users",)]
    ours.delete(("users", "anna"), "tea")
    assert ours.get(("users", "anna"), "tea") is None


WORDS = {
    "tea": "the green tea of Miriam is brewed for three minutes",
    "bike": "a red bicycle with two panniers stands behind our house",
    "disk": "backups lie on the blue disk under the stairs",
}


def bag_of_words(texts: Sequence[str]) -> list[list[float]]:
    known = sorted({word for text in WORDS.values() for word in text.split()})
    return [[float(word in text.lower()) for word in known] + [0.01] for text in texts]


@pytest.mark.parametrize("key", WORDS)
def test_a_query_finds_what_the_reference_finds_first(shared: DaemonUnderTest, key: str) -> None:
    reference = InMemoryStore(index={"dims": len(bag_of_words([""])[0]), "embed": bag_of_words})
    ours = store_of(shared)
    for store in (reference, ours):
        for each, text in WORDS.items():
            store.put(("notes", each), each, {"text": text})
        store.put(("notes", "quiet"), "quiet", {"text": WORDS[key]}, index=False)
        store.put(("other",), "other", {"text": WORDS[key]})
    for limit in (1, 10):
        expected = reference.search(("notes",), query=WORDS[key], limit=limit)
        found = ours.search(("notes",), query=WORDS[key], limit=limit)
        assert found[0].key == expected[0].key == key
        assert {each.key for each in found} == {each.key for each in expected} or limit == 1
        assert [each.score is None for each in found] == [each.score is None for each in expected]
    filtered = ours.search(("notes",), query=WORDS[key], filter={"text": WORDS["disk"]})
    assert {each.key for each in filtered} == {"disk"} | ({"quiet"} if key == "disk" else set())
    assert all(isinstance(each, SearchItem) for each in filtered)


def test_an_item_is_gone_when_its_time_is_over(shared: DaemonUnderTest) -> None:
    ours = store_of(shared, ttl={"default_ttl": 0.05, "refresh_on_read": False})
    ours.put(("short",), "k", {"n": 1})
    ours.put(("short",), "long", {"n": 2}, ttl=None)
    assert ours.get(("short",), "k") is not None
    until(lambda: ours.get(("short",), "k") is None)
    assert [item.key for item in ours.search(("short",))] == ["long"]


def test_what_differs_from_the_reference_is_what_the_page_says(shared: DaemonUnderTest) -> None:
    ours = store_of(shared)
    for number, namespace in enumerate((("b",), ("a",), ("c",))):
        ours.put(namespace, "k", {"n": number})
    assert [item.value["n"] for item in ours.search(())] == [0, 1, 2]  # the oldest first
    made = ours.get(("b",), "k")
    ours.put(("b",), "k", {"n": 9})
    again = ours.get(("b",), "k")
    assert made is not None
    assert again is not None
    assert (again.created_at, again.updated_at > made.updated_at) == (made.created_at, True)
    ours.delete(("c",), "k")
    assert ours.list_namespaces() == [("a",), ("b",)]
    assert store_of(shared).list_namespaces() == []


def test_what_it_cannot_keep_is_refused_in_a_sentence(shared: DaemonUnderTest) -> None:
    ours = store_of(shared, ("langgraph",))
    ours.put(tuple("abcdefghijklmno"), "k", {"n": 1})  # 15 parts
    for namespace, value in (
        (tuple("abcdefghijklmnop"), {"n": 1}),
        (("two\nlines",), {"n": 1}),
        (("large",), {"text": "x" * 2_000_000}),
        (("odd",), {"at": object()}),
    ):
        with pytest.raises((ValueError, TypeError, ClientError), match=r"\w+ \w+"):
            ours.put(namespace, "k", value)


def test_an_item_that_is_not_indexed_is_not_recalled(shared: DaemonUnderTest) -> None:
    ours = store_of(shared, channel="orchard")
    ours.put(("trees",), "pear", {"text": "The pear tree was grafted in April."})
    ours.put(("trees",), "plum", {"text": "The plum tree was grafted in April."}, index=False)
    hits = shared.call("recall", query="Which tree was grafted in April?", channel="orchard")["hits"]
    assert ["pear" in hit["text"] for hit in hits] == [True]


def test_what_was_acknowledged_survives_kill_9(daemon: DaemonUnderTest) -> None:
    ours = store_of(daemon, ("killed",))
    for number in range(20):
        ours.put(("n", str(number % 3)), str(number), {"n": number})
    ours.delete(("n", "0"), "3")
    daemon.kill()
    with pytest.raises(Unreachable):
        ours.put(("n",), "k", {})
    with pytest.raises(Unreachable):
        asyncio.run(alone(ours, GetOp(("n",), "k")))
    daemon.start()
    daemon.wait_until_it_answers()
    found = {item.value["n"] for item in ours.search(("n",), limit=100)}
    assert found == set(range(20)) - {3}


def test_one_key_of_two_users_is_two_items(shared: DaemonUnderTest) -> None:
    users = {name: DreamdStore(client_of(shared), space=("of two",), user_id=name) for name in ("ana", "bob")}
    for name, ours in users.items():
        ours.put(("likes",), "tea", {"of": name}, ttl=10)
    for name, ours in users.items():
        assert [(item.namespace, item.value) for item in ours.search(())] == [(("likes",), {"of": name})]
        assert [item.value for item in ours.search((), query="tea")] == [{"of": name}]
        assert ours.list_namespaces() == [("likes",)]
    users["bob"].delete(("likes",), "tea")
    assert users["ana"].get(("likes",), "tea") is not None
    assert users["bob"].get(("likes",), "tea") is None
