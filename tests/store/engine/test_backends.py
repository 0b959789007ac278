"""One contract for every engine behind the seam."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path

import apsw
import numpy as np
import pytest
from dreamd.store.engine.bm25 import spell_out, words
from dreamd.store.engine.columns import Columns
from dreamd.store.engine.database import Connections, open_database, transaction
from dreamd.store.engine.files import FilesStore
from dreamd.store.engine.interface import Point, Vector, VectorStore
from dreamd.store.engine.postgres import PostgresStore
from dreamd.store.engine.sqlite_vec import SqliteVecStore
from dreamd.store.filters import Condition, Filter, Group, Payload, Scalar, holds
from dreamd.store.model import Corrupt, InvalidInput, NotFound, StoreError
from hypothesis import given
from hypothesis import strategies as st

from tests.servers import PostgresServer, qdrant_store

DIMENSION = 64
KEPT_TO = 0.004
"""Cosines are right to this: a byte holds a number of a vector to .0015, and the errors of 64 mostly cancel."""
NAME = "chunks"
FIELDS = ("channel", "level", "live", "since", "tags")


class Sqlite:
    """A sqlite-vec store with its connections."""

    def __init__(self, path: Path, most_held: int = 1000) -> None:
        self.writer = open_database(path, durable=False)
        self._readers = Connections(lambda: open_database(path, durable=False, read_only=True))
        self.store = SqliteVecStore(lambda: self.writer, self._readers.get, most_held)

    def close(self) -> None:
        self._readers.close()
        self.writer.close()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Sqlite]:
    opened = Sqlite(tmp_path / "index.db")
    yield opened
    opened.close()


WITH_VECTORS = ("sqlite", "sqlite, fields not held", "sqlite, vectors on disk", "postgres", "qdrant")


@pytest.fixture(scope="module")
def emptied_postgres(postgres: PostgresServer) -> Iterator[PostgresStore]:
    """Give one collection for all tests of this module: to make one takes longer than most of them."""
    postgres.clear()
    store = PostgresStore(postgres.dsn)
    store.ensure_collection(NAME, DIMENSION)
    for field in FIELDS:
        store.ensure_payload_index(NAME, field, is_number=field in ("live", "since"))
    yield store
    store.close()


@contextmanager
def opened(engine: str, folder: Path, request: pytest.FixtureRequest) -> Iterator[VectorStore]:
    if engine == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        store: PostgresStore = request.getfixturevalue("emptied_postgres")
        yield store
        server.ask(
            "TRUNCATE dreamd.chunks; DROP TABLE IF EXISTS dreamd.other; DELETE FROM dreamd.collection"
            " WHERE name = 'other'"
        )
        return
    if engine == "qdrant":
        with qdrant_store() as qdrant:
            qdrant.ensure_collection(NAME, DIMENSION)
            for field in FIELDS:
                qdrant.ensure_payload_index(NAME, field, is_number=field in ("live", "since"))
            yield qdrant
        return
    if engine == "files":
        files = FilesStore(lambda: folder / "files")
        files.ensure_collection(NAME, DIMENSION)
        yield files
        return
    sqlite = Sqlite(folder / "index.db", most_held=0 if engine == "sqlite, vectors on disk" else 1000)
    sqlite.store.ensure_collection(NAME, DIMENSION)
    if engine != "sqlite, fields not held":
        for field in FIELDS:
            sqlite.store.ensure_payload_index(NAME, field)
    yield sqlite.store
    sqlite.close()


@pytest.fixture(params=[*WITH_VECTORS, "files"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[VectorStore]:
    with opened(request.param, tmp_path, request) as engine:
        assert engine.capabilities().vector is (request.param in WITH_VECTORS)
        yield engine


@pytest.fixture(params=WITH_VECTORS)
def vectors(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[VectorStore]:
    """The engines that have vectors."""
    with opened(request.param, tmp_path, request) as engine:
        yield engine


def unit(seed: int, dimension: int = DIMENSION) -> Vector:
    vector = np.random.default_rng(seed).standard_normal(dimension).astype(np.float32)
    return vector / np.float32(np.linalg.norm(vector))


def found(store: VectorStore, *terms: str, limit: int = 10, where: Filter = ()) -> list[str]:
    return [match.id for match in store.search_keyword(NAME, terms, limit, where)]


def test_a_collection_is_made_once_and_keeps_its_dimension(store: VectorStore) -> None:
    store.upsert(NAME, [Point("a", "kept")])
    store.ensure_collection(NAME, DIMENSION)
    assert store.count(NAME) == 1
    with pytest.raises(StoreError, match="64") as raised:
        store.ensure_collection(NAME, 384)
    assert "rebuild" in raised.value.hint


@pytest.mark.parametrize("name", ["", "Chunks", "1st", "a b", "x; DROP TABLE y", "a" * 41])
def test_a_collection_has_a_plain_name(store: VectorStore, name: str) -> None:
    with pytest.raises(InvalidInput):
        store.ensure_collection(name, DIMENSION)


def test_an_unknown_collection_is_said_to_be(store: VectorStore) -> None:
    with pytest.raises(NotFound):
        store.search_keyword("nothing", ["x"], 10)


def test_two_collections_are_apart(store: VectorStore) -> None:
    store.ensure_collection("other", DIMENSION)
    store.upsert("other", [Point("a", "apples")])
    store.upsert(NAME, [Point("b", "apples")])
    assert found(store, "apples") == ["b"]
    assert store.count("other") == 1


def test_points_come_back_in_the_order_asked(store: VectorStore) -> None:
    store.upsert(NAME, [Point("a", "first", "around", payload={"channel": "x", "live": 1, "since": None})])
    store.upsert(NAME, [Point("b", "sec\x00ond 'quoted' \"text\" 東京", payload={"since": 1.5})])
    points = store.get(NAME, ["b", "nothing", "a"])
    assert [point.id for point in points] == ["b", "a"]
    assert points[0].text == "sec\x00ond 'quoted' \"text\" 東京"
    assert points[1].context == "around"
    assert points[1].payload == {"channel": "x", "live": 1, "since": None}
    assert store.get(NAME, []) == []


def test_an_upsert_replaces_text_context_and_payload(store: VectorStore) -> None:
    store.upsert(NAME, [Point("a", "apples", "pears", payload={"channel": "x"}), Point("b", "plums")])
    store.upsert(NAME, [Point("a", "cherries", "grapes", payload={"channel": "y"})])
    assert found(store, "apples", "pears") == []
    assert found(store, "cherries") == found(store, "grapes") == ["a"]
    assert found(store, "cherries", where=(Condition("channel", "in", ("x",)),)) == []
    assert store.count(NAME) == 2
    store.upsert(NAME, [Point("a", "cherries")])
    assert found(store, "grapes") == []


def test_the_last_of_two_points_with_one_id_counts(store: VectorStore) -> None:
    store.upsert(NAME, [Point("a", "apples"), Point("a", "pears")])
    assert found(store, "apples") == []
    assert found(store, "pears") == ["a"]


def test_what_is_deleted_is_not_found_and_can_come_back(store: VectorStore) -> None:
    store.upsert(NAME, [Point("a", "apples"), Point("b", "apples")])
    store.delete(NAME, ["b", "nothing"])
    assert found(store, "apples") == ["a"]
    assert store.count(NAME) == 1
    assert store.get(NAME, ["b"]) == []
    store.upsert(NAME, [Point("b", "pears")])
    assert found(store, "apples", "pears") == ["b", "a"] or found(store, "apples", "pears") == ["a", "b"]
    assert found(store, "pears") == ["b"]


def test_words_are_matched_by_their_stem_and_without_accents(store: VectorStore) -> None:
    store.upsert(NAME, [Point("a", "She was painting a café")])
    assert found(store, "Paintings") == found(store, "CAFE") == found(store, "cafés") == ["a"]
    assert found(store, "sculpture") == []


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ("it broke in foo_bar.py today", ["foo_bar.py", "foo", "bar", "foobar.py", "FOO_BAR.PY"]),
        ("see store/find/search.py for it", ["search.py", "store/find/search.py", "find", "search"]),
        ("error[E0425]: cannot find value", ["E0425", "e0425"]),
        ("systemctl restart dreamd.service", ["dreamd.service", "dreamd", "service"]),
        ("the class MemoryStore of HTTPServer", ["MemoryStore", "memorystore", "memory", "server"]),
        ("we use GPT-4 and Python 3.11.7", ["GPT4", "GPT-4", "3.11.7"]),
        ("see https://example.org/a_b.html", ["example.org", "a_b.html", "https://example.org/a_b.html"]),
    ],
)
def test_identifiers_are_found_whole_and_in_parts(store: VectorStore, text: str, queries: list[str]) -> None:
    store.upsert(NAME, [Point("a", text), Point("b", "nothing of the kind")])
    assert {query: found(store, query) for query in queries} == {query: ["a"] for query in queries}


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("昨日東京タワーに行きました", "東京タワー"),
        ("犬が好きです", "犬"),
        ("서울에서 만났어요", "서울"),
        ("我喜欢喝绿茶", "绿茶"),
        ("ＡＢＣ株式会社", "abc"),
        ("ผมชอบกินข้าว", "ข้าว"),
        ("Привет, Москва!", "москва"),
    ],
)
def test_scripts_without_spaces_are_found(store: VectorStore, text: str, query: str) -> None:
    store.upsert(NAME, [Point("a", text), Point("b", "unrelated words")])
    assert found(store, query) == ["a"]


@pytest.mark.parametrize(
    "term",
    ['"', "'", "a AND", "NEAR(a b)", "text:a", "a*", "^a", "-a", "(a", "a OR (", '""', "\x00", "", " ", "🙂", "{}"],
)
def test_no_term_is_syntax(store: VectorStore, term: str) -> None:
    store.upsert(NAME, [Point("x", "an apple a day")])
    assert found(store, term, "apple") == ["x"]
    assert found(store, term) in ([], ["x"])


def test_nothing_asked_finds_nothing(store: VectorStore) -> None:
    store.upsert(NAME, [Point("x", "an apple a day")])
    assert found(store) == found(store, "apple", limit=0) == []


def test_more_and_rarer_words_are_better_and_context_counts_less(store: VectorStore) -> None:
    store.upsert(
        NAME,
        [
            Point("both", "marathon in Berlin that autumn"),
            Point("rare", "a marathon it was for all of us"),
            Point("context", "yes that one it was for us all", "marathon?"),
            Point("common", "Berlin in the autumn was so nice"),
            *(Point(f"other{n}", f"Berlin again and again {n}") for n in range(10)),
        ],
    )
    assert found(store, "marathon", "Berlin")[:3] == ["both", "rare", "context"]
    scores = [match.score for match in store.search_keyword(NAME, ["marathon", "Berlin"], 20)]
    assert scores == sorted(scores, reverse=True)
    assert min(scores) > 0.0


def test_repeating_a_word_gains_nothing(store: VectorStore) -> None:
    store.upsert(NAME, [Point("a", "tea tea tea tea"), Point("b", "tea and so on!!")])
    first, second = store.search_keyword(NAME, ["tea"], 10)
    assert (first.id, second.id) == ("a", "b")
    assert first.score == second.score


def test_equal_scores_go_by_id_even_at_the_limit(store: VectorStore) -> None:
    ids = [f"p{n:03}" for n in range(50)]
    store.upsert(NAME, [Point(point_id, "the same words") for point_id in reversed(ids)])
    assert found(store, "words", limit=7) == ids[:7]


WHERES: list[tuple[Filter, set[str]]] = [
    ((), {"a", "b", "c", "d"}),
    ((Condition("channel", "in", ("x", "z")),), {"a", "b"}),
    ((Condition("channel", "in", ("x", None)),), {"a", "b", "d"}),
    ((Condition("channel", "in", ()),), set()),
    ((Condition("channel", "not_in", ("x",)),), {"c", "d"}),
    ((Condition("channel", "not_in", ("x", None)),), {"c"}),
    ((Condition("channel", "is_null"),), {"d"}),
    ((Condition("live", "in", (1,)),), {"a", "c"}),
    ((Condition("live", "in", (1,)), Condition("channel", "in", ("x",))), {"a"}),
    ((Condition("since", "lte", (20,)),), {"a", "b"}),
    ((Condition("since", "gt", (15,)),), {"b", "c"}),
    ((Condition("since", "gt", (15, None)),), {"b", "c", "d"}),
    ((Condition("since", "lte", (10.5,)),), {"a"}),
    ((Condition("since", "is_null"),), {"d"}),
    ((Condition("level", "lte", ("L1",)),), {"a", "b"}),
    ((Condition("level", "gt", ("L1",)),), {"c"}),
    ((Condition("level", "gt", (1,)),), set()),
    ((Condition("since", "lte", ("x",)),), set()),
    ((Condition("since", "gte", (20,)),), {"b", "c"}),
    ((Condition("since", "lt", (20, None)),), {"a", "d"}),
    ((Condition("tags", "in", ("db",)),), {"a", "b"}),
    ((Condition("tags", "in", ("db", "new")),), {"a", "b", "c"}),
    ((Condition("tags", "not_in", ("db",)),), {"c", "d"}),
    ((Condition("tags", "is_null"),), {"d"}),
    ((Condition("tags", "gte", ("new",)),), {"b", "c"}),
    ((Group(should=(Condition("live", "in", (1,)), Condition("tags", "is_null"))),), {"a", "c", "d"}),
    ((Group(must_not=(Condition("tags", "in", ("db",)), Condition("level", "in", ("L2",)))),), {"d"}),
    ((Group(must=(Condition("live", "in", (0,)),), must_not=(Group(must=()),)),), set()),
    ((Group(),), {"a", "b", "c", "d"}),
    ((Condition("unheard_of", "is_null"),), {"a", "b", "c", "d"}),
    ((Condition("unheard_of", "in", ("x",)),), set()),
]

PAYLOADS: dict[str, dict[str, Payload]] = {
    "a": {"channel": "x", "live": 1, "since": 10, "level": "L0", "tags": ("db",)},
    "b": {"channel": "x", "live": 0, "since": 20, "level": "L1", "tags": ("new", "db")},
    "c": {"channel": "y", "live": 1, "since": 30.5, "level": "L2", "tags": ("new",)},
    "d": {"channel": None, "live": 0, "tags": ()},
}
FILTERED = [
    Point(name, "word", vector=unit(seed), payload=payload)
    for seed, (name, payload) in enumerate(PAYLOADS.items(), start=1)
]


@pytest.mark.parametrize(("where", "expected"), WHERES)
def test_filters(store: VectorStore, where: Filter, expected: set[str]) -> None:
    store.upsert(NAME, FILTERED)
    assert set(found(store, "word", where=where)) == expected
    if store.capabilities().vector:
        assert {match.id for match in store.search_vector(NAME, unit(9), 10, where)} == expected


def test_a_filter_applies_inside_the_search(store: VectorStore) -> None:
    store.upsert(NAME, [Point(f"n{n}", "word " * 3, vector=unit(n), payload={"channel": "x"}) for n in range(400)])
    store.upsert(NAME, [Point("m", "word and more of it", vector=-unit(5), payload={"channel": "y"})])
    where = (Condition("channel", "in", ("y",)),)
    assert found(store, "word", limit=1, where=where) == ["m"]
    if store.capabilities().vector:
        assert [match.id for match in store.search_vector(NAME, unit(5), 1, where)] == ["m"]


def test_rarity_is_what_is_rare_under_the_filter(store: VectorStore) -> None:
    everywhere = [Point(f"x{n}", f"Melanie says {n}", payload={"channel": "x"}) for n in range(20)]
    elsewhere = [Point(f"y{n}", f"clay pots {n}", payload={"channel": "y"}) for n in range(60)]
    store.upsert(NAME, [*everywhere, *elsewhere, Point("clay", "pots of clay", payload={"channel": "x"})])
    assert found(store, "Melanie", "clay", where=(Condition("channel", "in", ("x",)),))[0] == "clay"


def test_the_nearest_come_first(vectors: VectorStore) -> None:
    exact = {f"p{n:03}": float(unit(n) @ unit(1000)) for n in range(300)}
    vectors.upsert(NAME, [Point(f"p{n:03}", "text", vector=unit(n)) for n in range(300)])
    matches = vectors.search_vector(NAME, unit(1000), 300)
    assert {match.id: match.score for match in matches} == pytest.approx(exact, abs=KEPT_TO)
    for before, after in pairwise(matches):
        assert (-before.score, before.id) < (-after.score, after.id)
        assert exact[before.id] > exact[after.id] - 2 * KEPT_TO
    assert [match.id for match in vectors.search_vector(NAME, unit(7), 1)] == ["p007"]


def test_cosines_are_of_the_points_asked_for_and_have_a_vector(vectors: VectorStore) -> None:
    rng = np.random.default_rng(7)
    given = {name: _unit(rng) for name in "abc"}
    vectors.upsert(NAME, [*(Point(name, "x", vector=vector) for name, vector in given.items()), Point("bare", "x")])
    asked = _unit(rng)
    found = vectors.cosines(NAME, asked, ["c", "a", "bare", "unknown"])
    assert found == pytest.approx({name: float(given[name] @ asked) for name in "ac"}, abs=KEPT_TO)


def _unit(rng: np.random.Generator) -> Vector:
    vector = rng.standard_normal(DIMENSION).astype(np.float32)
    return vector / np.linalg.norm(vector)


def test_equal_vectors_go_by_id(vectors: VectorStore) -> None:
    vectors.upsert(NAME, [Point(point_id, "text", vector=unit(1)) for point_id in ("c", "a", "b")])
    assert [match.id for match in vectors.search_vector(NAME, unit(1), 2)] == ["a", "b"]


def test_vectors_can_come_later_and_survive_a_new_context(vectors: VectorStore) -> None:
    vectors.upsert(NAME, [Point("a", "early"), Point("b", "early", vector=unit(2))])
    assert [match.id for match in vectors.search_vector(NAME, unit(1), 10)] == ["b"]
    vectors.set_vectors(NAME, {"a": unit(1), "nothing": unit(3)})
    vectors.upsert(NAME, [Point("a", "early", "beside", payload={"channel": "x"})])
    assert [match.id for match in vectors.search_vector(NAME, unit(1), 1)] == ["a"]
    point = vectors.get(NAME, ["a"])[0]
    assert point.context == "beside"
    assert point.vector is not None
    np.testing.assert_allclose(point.vector, unit(1), atol=KEPT_TO)
    vectors.set_vectors(NAME, {"a": unit(8)})
    assert vectors.search_vector(NAME, unit(8), 1)[0].score == pytest.approx(1.0, abs=KEPT_TO)
    vectors.delete(NAME, ["a"])
    assert [match.id for match in vectors.search_vector(NAME, unit(8), 10)] == ["b"]


def test_a_new_text_is_not_found_by_what_the_old_one_said(vectors: VectorStore) -> None:
    vectors.upsert(NAME, [Point("a", "early", vector=unit(1)), Point("b", "other", vector=unit(2))])
    vectors.search_vector(NAME, unit(1), 10)  # what is held in memory holds it too
    vectors.upsert(NAME, [Point("a", "late")])
    assert [match.id for match in vectors.search_vector(NAME, unit(1), 10)] == ["b"]
    assert vectors.cosines(NAME, unit(1), ["a"]) == {}
    assert vectors.get(NAME, ["a"])[0].vector is None
    vectors.upsert(NAME, [Point("a", "later", vector=unit(3))])
    assert vectors.search_vector(NAME, unit(3), 1)[0].score == pytest.approx(1.0, abs=KEPT_TO)


def test_a_vector_without_a_direction_is_near_nothing_however_often_it_is_read(vectors: VectorStore) -> None:
    vectors.upsert(NAME, [Point("a", "early", vector=np.zeros(DIMENSION, np.float32)), Point("b", "x", vector=unit(2))])
    for _ in range(2):
        assert vectors.cosines(NAME, unit(2), ["a", "b"]) == pytest.approx({"a": 0.0, "b": 1.0}, abs=KEPT_TO)


def test_both_ways_at_once_find_what_each_finds(vectors: VectorStore) -> None:
    vectors.upsert(NAME, [Point(f"p{n}", f"tea and {n % 3} more", vector=unit(n)) for n in range(40)])
    vectors.upsert(NAME, FILTERED)
    filters: list[Filter] = [(), (Condition("channel", "in", ("x",)),)]
    for terms, limit in ((["tea", "1", "word"], 7), (["word"], 3), ([], 5), (["nothing"], 5)):
        assert vectors.search_hybrid(NAME, terms, unit(3), limit, filters) == [
            (vectors.search_keyword(NAME, terms, limit, where), vectors.search_vector(NAME, unit(3), limit, where))
            for where in filters
        ]


def test_fields_are_those_of_the_payload(store: VectorStore) -> None:
    payload: dict[str, Payload] = {"channel": "x", "size": 12, "share": 0.5, "tags": ("a", "b")}
    store.upsert(NAME, [Point("a", "early boat", payload=payload), Point("b", "late boat", payload={"channel": "y"})])
    for _ in range(2):  # the second time what was found is known
        found = store.fields(NAME, ["b", "nothing", "a"], ("channel", "size", "share"))
        assert found == {"a": ("x", 12, 0.5), "b": ("y", None, None)}
        assert len(store.search_keyword(NAME, ["boat"], 5)) == 2
    store.delete(NAME, ["a"])
    store.upsert(NAME, [Point("c", "new boat", payload={"channel": "z"})])
    assert store.fields(NAME, ["a", "c"], ("channel",)) == {"c": ("z",)}


def test_a_vector_of_another_length_is_refused(vectors: VectorStore) -> None:
    with pytest.raises(InvalidInput):
        vectors.upsert(NAME, [Point("a", "text", vector=unit(1, 32))])
    assert vectors.count(NAME) == 0


def test_no_direction_is_near_nothing(vectors: VectorStore) -> None:
    vectors.upsert(NAME, [Point("a", "text", vector=unit(1))])
    assert vectors.search_vector(NAME, np.zeros(DIMENSION, np.float32), 5) == []
    assert vectors.search_vector(NAME, unit(1), 0) == []


def test_engines_answer_alike(tmp_path: Path) -> None:
    sqlite, files = Sqlite(tmp_path / "i.db"), FilesStore(lambda: tmp_path / "f")
    rng = np.random.default_rng(4)
    vocabulary = [f"word{n}" for n in range(40)] + ["foo_bar.py", "東京タワー", "MemoryStore", "café", "running"]

    def some() -> str:
        return " ".join(rng.choice(vocabulary, rng.integers(1, 12)))

    points = [Point(f"p{n}", some(), some()) for n in range(120)]
    for engine in (sqlite.store, files):
        engine.ensure_collection(NAME, DIMENSION)
        engine.upsert(NAME, points)
    for n in range(30):
        terms = [str(term) for term in rng.choice(vocabulary, 3)]
        left, right = (engine.search_keyword(NAME, terms, 200) for engine in (sqlite.store, files))
        assert {match.id for match in left} == {match.id for match in right}
        scores = {match.id: match.score for match in right}
        assert [match.score for match in left] == pytest.approx([scores[match.id] for match in left], rel=1e-4), n
    sqlite.close()


def test_the_order_of_writing_changes_no_answer(tmp_path: Path) -> None:
    points = [Point(f"p{n}", f"tea {n % 7} and {'more ' * (n % 5)}", vector=unit(n)) for n in range(300)]
    answers = []
    for number, order in enumerate((points, points[::-1])):
        opened = Sqlite(tmp_path / f"{number}.db")
        opened.store.ensure_collection(NAME, DIMENSION)
        opened.store.upsert(NAME, order)
        answers.append(
            (opened.store.search_keyword(NAME, ["tea", "3"], 20), opened.store.search_vector(NAME, unit(500), 20))
        )
        opened.close()
    assert answers[0] == answers[1]


def test_a_write_belongs_to_the_callers_transaction(sqlite: Sqlite) -> None:
    store = sqlite.store
    store.ensure_collection(NAME, DIMENSION)
    store.upsert(NAME, [Point("a", "apples", vector=unit(1))])
    with transaction(sqlite.writer):
        store.upsert(NAME, [Point("b", "apples", vector=unit(2))])
        store.delete(NAME, ["a"])
        assert found(store, "apples") == ["a"], "readers see what is committed"
    assert found(store, "apples") == ["b"]


def test_what_is_rolled_back_was_never_there(sqlite: Sqlite) -> None:
    store = sqlite.store
    store.ensure_collection(NAME, DIMENSION)
    store.upsert(NAME, [Point("a", "apples", vector=unit(1))])
    assert found(store, "apples") == ["a"]

    def fail_inside() -> None:
        with transaction(sqlite.writer):
            store.upsert(NAME, [Point("b", "apples", vector=unit(2)), Point("a", "pears")])
            found(store, "apples")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_inside()
    store.upsert(NAME, [Point("c", "apples", vector=unit(3))])
    assert found(store, "apples") == ["a", "c"]
    assert [match.id for match in store.search_vector(NAME, unit(2), 10)] != ["b"]
    assert {match.id for match in store.search_vector(NAME, unit(2), 10)} == {"a", "c"}


def test_a_second_process_sees_what_the_first_wrote(tmp_path: Path) -> None:
    first, second = Sqlite(tmp_path / "index.db"), Sqlite(tmp_path / "index.db")
    first.store.ensure_collection(NAME, DIMENSION)
    second.store.ensure_collection(NAME, DIMENSION)
    assert found(second.store, "apples") == []
    first.store.upsert(NAME, [Point("a", "apples", vector=unit(1), payload={"channel": "x"})])
    assert found(second.store, "apples") == ["a"]
    first.store.ensure_payload_index(NAME, "channel")
    assert found(second.store, "apples", where=(Condition("channel", "in", ("x",)),)) == ["a"]
    first.store.delete(NAME, ["a"])
    first.store.upsert(NAME, [Point("b", "apples", vector=unit(1))])
    assert found(second.store, "apples") == ["b"]
    first.close()
    second.close()


def test_a_word_that_is_everywhere_is_left_out_when_rare_ones_suffice(
    sqlite: Sqlite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dreamd.store.engine.fts.MAX_POSTINGS", 20)
    store = sqlite.store
    store.ensure_collection(NAME, DIMENSION)
    store.upsert(NAME, [Point(f"p{n}", f"common {'rare' if n < 3 else ''}") for n in range(100)])
    assert found(store, "common", "rare", limit=100) == ["p0", "p1", "p2"]
    assert len(found(store, "common", limit=200)) == 100, "the only word is looked up all the same"
    assert store.search_keyword(NAME, ["common", "never"], 1)[0].id == "p10"


@pytest.fixture
def many(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresStore]:
    """A Postgres that takes 3,000 points for many; every twentieth is of the channel y."""
    monkeypatch.setattr("dreamd.store.engine.postgres.EXACT_UP_TO", 200)
    monkeypatch.setattr("dreamd.store.engine.postgres.MOST_LISTED", 1_000)
    monkeypatch.setattr("dreamd.store.engine.postgres.MOST_UNLISTED", 40)
    postgres.clear()
    store = PostgresStore(postgres.dsn)
    store.ensure_collection("many", DIMENSION)
    for field in FIELDS:
        store.ensure_payload_index("many", field, is_number=field in ("live", "since"))
    store.bring("many", MANY, [], "m")
    store.keep_columns("many", nullcontext)
    yield store
    store.close()


MANY = [
    Point(
        f"p{n:04}",
        f"common {'often' if n % 9 == 0 else 'seldom'} {f'rare{n // 10}' if n % 3 == 0 else ''}{' more' * (n % 11)}",
        "around common" if n % 2 else "",
        vector=unit(n),
        payload={"channel": "y" if n % 20 == 0 else "x", "since": n, "live": 1},
    )
    for n in range(3_000)
]


def test_of_many_points_postgres_finds_nearly_all_and_of_few_under_a_filter_all(many: PostgresStore) -> None:
    vectors = np.stack([point.vector for point in MANY if point.vector is not None])
    for channel, least, count in (("x", 0.95, 2_850), ("y", 1.0, 150)):
        where = (Condition("channel", "in", (channel,)), Condition("since", "gte", (0,)), Condition("live", "in", (1,)))
        shares = []
        for seed in range(5_000, 5_020):
            found = [match.id for match in many.search_vector("many", unit(seed), 10, where)]
            order = np.argsort(-(vectors @ unit(seed)), kind="stable")
            nearest = [MANY[row].id for row in order.tolist() if MANY[row].payload["channel"] == channel][:10]
            shares.append(len({*found} & {*nearest}) / 10)
        assert np.mean(shares) >= least
        assert len(many.search_vector("many", unit(1), len(MANY), where)) in (count, 1_000), "it looks further"
        by_words = [match.id for match in many.search_keyword("many", ["common", "often", "rare6"], 10, where)]
        expected = [point for point in MANY if "rare6" in point.text.split() and point.payload["channel"] == channel]
        assert {point.id for point in expected} <= {*by_words}, "a rare word is looked up whatever else is asked"
        assert len(many.search_keyword("many", ["common"], 10, where)) == 10


def test_many_points_are_ranked_by_words_as_few_are(many: PostgresStore, postgres: PostgresServer) -> None:
    exact = PostgresStore(postgres.dsn)  # it has not been told how many there are
    for terms in (["common", "often", "rare6"], ["often", "more"], ["rare7", "rare8", "seldom"], ["nothing"]):
        for where in ((), (Condition("channel", "in", ("x",)),)):
            left, right = (store.search_keyword("many", terms, 10, where) for store in (many, exact))
            scores = [match.score for match in right]
            assert [match.score for match in left] == pytest.approx(scores, rel=0.05, abs=0.05), (terms, where)
            assert len({match.id for match in left} & {match.id for match in right}) >= 0.9 * len(right)
    exact.close()


def test_of_many_points_both_ways_at_once_find_what_each_finds(many: PostgresStore) -> None:
    filters: list[Filter] = [(), (Condition("channel", "in", ("x",)),), (Condition("channel", "in", ("y",)),)]
    for terms in (["common", "often", "rare6"], ["nothing"], []):
        assert many.search_hybrid("many", terms, unit(4), 10, filters) == [
            (many.search_keyword("many", terms, 10, where), many.search_vector("many", unit(4), 10, where))
            for where in filters
        ]


def test_what_was_written_after_words_were_listed_is_found(many: PostgresStore, postgres: PostgresServer) -> None:
    for n in range(70):
        many.upsert("many", [Point(f"p{n:04}", f"now it says kayak{n}")])
        assert [match.id for match in many.search_keyword("many", [f"kayak{n}"], 5)] == [f"p{n:04}"]
        assert [match.id for match in many.search_keyword("many", [f"kayak{n - 1}"], 5)] == ([f"p{n - 1:04}"] * (n > 0))
        many.keep_columns("many", nullcontext)
    many.delete("many", ["p0007"])
    assert many.search_keyword("many", ["kayak7"], 5) == []
    [(parts,)] = postgres.ask("SELECT listed FROM dreamd.collection")
    assert len(parts) == 4, "a point that is written again takes two numbers"


def test_lists_of_words_are_made_anew_at_times_and_after_a_purge(
    many: PostgresStore, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dreamd.store.engine.postgres.MOST_UNLISTED", 0)
    monkeypatch.setattr("dreamd.store.engine.postgres.MOST_PARTS", 3)
    parts = []
    for n in range(5):
        many.upsert("many", [Point("p0000", f"kayak{n}")])
        many.keep_columns("many", nullcontext)
        parts += [len(listed) for (listed,) in postgres.ask("SELECT listed FROM dreamd.collection")]
    assert parts == [2, 3, 1, 2, 3]
    counted = "SELECT sum(octet_length(rows)) / 4 FROM dreamd.many_lists"
    [(before,)] = postgres.ask(counted)
    many.delete("many", [point.id for point in MANY[1_000:]])
    many.compact("many")
    many.keep_columns("many", nullcontext)
    [(after,)] = postgres.ask(counted)
    assert after < before / 2, "nothing is left of the words of what is gone"
    assert [match.id for match in many.search_keyword("many", ["kayak4"], 5)] == ["p0000"]


@pytest.mark.parametrize("count", [1_000, pytest.param(20_500, marks=pytest.mark.nightly)])
def test_after_a_purge_no_file_of_postgres_holds_a_word_of_it(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    if count < 20_000:
        monkeypatch.setattr("dreamd.store.engine.postgres.EXACT_UP_TO", 200)
    word, tag, start = "zqvkhjwrtpd", "tgbnmxkqzw", "idwkzhqpv"
    gone = [f"{start}{n}" for n in range(0, count, 20)]
    postgres.clear()
    store = PostgresStore(postgres.dsn)
    store.ensure_collection("many", DIMENSION)
    for field in ("channel", "tags"):
        store.ensure_payload_index("many", field)
    for begin in range(0, count, 500):
        numbers = range(begin, min(begin + 500, count))
        points = [
            Point(f"{start}{n}", f"the {word} says {n}", word, unit(n), {"channel": "y", "tags": (tag,)})
            if n % 20 == 0
            else Point(f"p{n}", f"common {n} of {n % 97}", "around", unit(n), {"channel": "x", "tags": ("red",)})
            for n in numbers
        ]
        store.bring("many", points, [], f"m:{begin}")
    store.keep_columns("many", nullcontext)
    held = [postgres.holding(text) for text in (word, tag, start)]
    assert held == [{"many"}, {"many", "many_by_tags", "pg_statistic"}, {"many", "many_pkey", "pg_statistic"}]
    store.bring("many", [], gone, "m:x")
    assert postgres.holding(word) == {"many"}, "a deleted row is in the file still"
    store.compact("many")
    assert [postgres.holding(text) for text in (word, tag, start)] == [set(), set(), set()]
    store.keep_columns("many", nullcontext)
    assert [postgres.holding(text) for text in (word, tag, start)] == [set(), set(), set()]
    assert store.search_keyword("many", [word], 5) == []
    assert len(store.search_vector("many", unit(1), 10)) == 10
    store.close()


def test_a_copy_of_another_layout_is_said_to_be(many: PostgresStore, postgres: PostgresServer) -> None:
    postgres.ask("ALTER TABLE dreamd.collection DROP layout, DROP listed")
    with pytest.raises(StoreError, match="version"):
        many.ensure_collection("many", DIMENSION)
    many.drop("many")
    many.ensure_collection("many", DIMENSION)
    assert many.count("many") == 0


def test_files_survive_a_restart_and_a_torn_line(tmp_path: Path) -> None:
    store = FilesStore(lambda: tmp_path / "index.db")
    store.ensure_collection(NAME, DIMENSION)
    store.upsert(NAME, [Point("a", "apples"), Point("b", "pears"), Point("c", "plums")])
    store.delete(NAME, ["b"])
    store.commit(NAME)
    file = tmp_path / f"index.db-{NAME}.jsonl"
    with file.open("ab") as opened:
        opened.write(b'{"id": "d", "text": "torn')
    again = FilesStore(lambda: tmp_path / "index.db")
    assert again.count(NAME) == 2
    again.upsert(NAME, [Point("e", "torn no more")])
    again.commit(NAME)
    assert found(FilesStore(lambda: tmp_path / "index.db"), "torn", "apples") == ["a", "e"]


def test_files_forget_what_was_not_committed(tmp_path: Path) -> None:
    store = FilesStore(lambda: tmp_path / "index.db")
    store.ensure_collection(NAME, DIMENSION)
    store.upsert(NAME, [Point("a", "apples")])
    store.commit(NAME)
    mark = store.mark(NAME)
    store.upsert(NAME, [Point("a", "pears")])
    store.delete(NAME, ["a"])
    assert FilesStore(lambda: tmp_path / "index.db").mark(NAME) == mark
    store.rollback(NAME)
    assert found(store, "apples") == ["a"]
    store.commit(NAME)
    assert store.mark(NAME) == mark, "nothing was changed"


@pytest.mark.parametrize("damage", [b"", b"\0" * 40 + b"\n", b'{"id": 1}\n'])
def test_a_file_that_is_damaged_is_said_to_be(tmp_path: Path, damage: bytes) -> None:
    FilesStore(lambda: tmp_path / "index.db").ensure_collection(NAME, DIMENSION)
    (tmp_path / f"index.db-{NAME}.jsonl").write_bytes(damage)
    with pytest.raises(Corrupt):
        FilesStore(lambda: tmp_path / "index.db").count(NAME)


def test_files_are_written_anew_when_most_lines_are_idle(tmp_path: Path) -> None:
    store = FilesStore(lambda: tmp_path / "index.db")
    store.ensure_collection(NAME, DIMENSION)
    for n in range(2_050):
        store.upsert(NAME, [Point("a", f"version {n}")])
        store.commit(NAME)
    lines = (tmp_path / f"index.db-{NAME}.jsonl").read_text().splitlines()
    assert len(lines) < 2_200
    assert json.loads(lines[0]) == {"dimension": DIMENSION}
    assert FilesStore(lambda: tmp_path / "index.db").mark(NAME) == store.mark(NAME) == "2050"
    assert FilesStore(lambda: tmp_path / "index.db").get(NAME, ["a"])[0].text == "version 2049"


scalars: st.SearchStrategy[Scalar] = st.one_of(
    st.none(), st.integers(-3, 3), st.floats(-3, 3), st.sampled_from(["a", "b", "c"])
)
payloads: st.SearchStrategy[Payload] = scalars | st.lists(st.sampled_from(["a", "b", "c"]), max_size=3).map(tuple)
conditions = st.one_of(
    st.builds(Condition, st.just("f"), st.sampled_from(["in", "not_in"]), st.lists(scalars, max_size=3).map(tuple)),
    st.builds(
        Condition,
        st.just("f"),
        st.sampled_from(["lte", "lt", "gte", "gt"]),
        st.lists(scalars, min_size=1, max_size=2).map(tuple),
    ),
    st.just(Condition("f", "is_null")),
)


@given(st.lists(payloads, min_size=1, max_size=8), conditions)
def test_columns_filter_as_files_do(values: list[Payload], condition: Condition) -> None:
    columns = Columns(DIMENSION, ["f"])
    rows = np.arange(1, len(values) + 1)
    names = [str(row) for row in rows]
    columns.put(rows, names, [1] * len(values), [None] * len(values), [{"f": value} for value in values])
    mask = columns.scope((condition,)).mask
    assert [bool(mask[row]) for row in rows] == [holds({"f": value}, (condition,)) for value in values]


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


@given(st.lists(st.dictionaries(st.integers(0, 40), names | st.none(), min_size=1, max_size=8), max_size=8))
def test_rows_have_the_ids_that_they_were_last_given(changes: list[dict[int, str | None]]) -> None:
    columns = Columns(DIMENSION, [])
    held: dict[int, str] = {}
    for change in changes:  # a row that has an id is removed before it gets another
        columns.remove(np.array(sorted(change)))
        added = {row: name for row, name in change.items() if name is not None}
        held = {row: name for row, name in held.items() if row not in change} | added
        columns.put(
            np.array(list(added), np.int64),
            list(added.values()),
            [1] * len(added),
            [None] * len(added),
            [{}] * len(added),
        )
        for again in range(len(added)):
            columns.put(np.array([list(added)[again]]), ["another"], [2], [None], [{}])
    rows = np.arange(columns.capacity)
    assert columns.ids(rows) == [held.get(row, "") for row in rows.tolist()]


@given(st.text(max_size=200))
def test_a_text_finds_itself(text: str) -> None:
    asked = set(words(text, query=True))
    assert asked <= set(words(text))


@pytest.mark.parametrize("piece", ["a", "a-", "aA", "東", "a_", "_", "-", "a1", "a.b/", "A"])
def test_spelling_out_is_linear(piece: str) -> None:
    assert len(spell_out(piece * 100_000)) >= 100_000


def test_the_stem_is_the_one_of_fts5(sqlite: Sqlite, data: Path) -> None:
    text = (data / "locomo" / "dev.json").read_text()[:200_000]
    tokenizer = sqlite.writer.fts5_tokenizer("porter", ["unicode61", "remove_diacritics", "2"])
    spelled = spell_out(text).encode()
    theirs = [token[0] for token in tokenizer(spelled, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False)]
    ours = words(text)
    different = sum(a != b for a, b in zip(theirs, ours, strict=True))
    assert different <= len(ours) // 1000
