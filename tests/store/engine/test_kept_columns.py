"""Columns that are kept in the database: believed only as far as they are right."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
import pytest
from dreamd.store.engine import kept_columns as snapshot
from dreamd.store.engine import sqlite_vec
from dreamd.store.engine.columns import Columns
from dreamd.store.engine.database import Connections, open_database, transaction
from dreamd.store.engine.interface import Point, Vector
from dreamd.store.engine.sqlite_vec import SqliteVecStore
from dreamd.store.filters import Condition, Payload
from hypothesis import given
from hypothesis import strategies as st

NAME, DIMENSION = "chunks", 64
ONLY_X = (Condition("channel", "in", ("x",)),)


class Opened:
    """A store on a file of its own, as one process has it."""

    def __init__(self, path: Path) -> None:
        self.writer = open_database(path, durable=False)
        self._readers = Connections(lambda: open_database(path, durable=False, read_only=True))
        self.store = SqliteVecStore(lambda: self.writer, self._readers.get)
        self.store.ensure_collection(NAME, DIMENSION)
        for field in ("channel", "since", "tags"):
            self.store.ensure_payload_index(NAME, field)

    @contextmanager
    def batch(self) -> Iterator[None]:
        with transaction(self.writer):
            yield

    def keep(self) -> bool:
        return self.store.keep_columns(NAME, self.batch)

    def answers(self) -> list[list[tuple[str, float]]]:
        asked = _vector(3)
        found = [
            self.store.search_keyword(NAME, ["apples"], 50),
            self.store.search_keyword(NAME, ["apples"], 50, ONLY_X),
            self.store.search_keyword(NAME, ["apples"], 50, (Condition("since", "gt", (20,)),)),
            self.store.search_keyword(NAME, ["apples"], 50, (Condition("tags", "in", ("red",)),)),
            self.store.search_vector(NAME, asked, 50),
            self.store.search_vector(NAME, asked, 5, ONLY_X),
        ]
        return [[(match.id, round(match.score, 4)) for match in matches] for matches in found]

    def close(self) -> None:
        self._readers.close()
        self.writer.close()


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sqlite_vec, "KEPT_AFTER", 1)
    return tmp_path / "index.db"


@pytest.fixture
def first(path: Path) -> Iterator[Opened]:
    opened = Opened(path)
    opened.store.upsert(NAME, [_point(number) for number in range(20)])
    opened.store.upsert(NAME, [_point(number) for number in range(20, 40)])
    yield opened
    opened.close()


def _vector(number: int) -> Vector:
    return np.random.default_rng(number).standard_normal(DIMENSION).astype(np.float32)


def _point(number: int) -> Point:
    vector = _vector(number) if number % 5 else None
    tags = ("red", "round") if number % 3 else ()
    payload: dict[str, Payload] = {"channel": "xy"[number % 2], "since": number, "tags": tags}
    return Point(f"p{number}", f"apples number {number}", vector=vector, payload=payload)


def _answers_of_another(path: Path) -> tuple[list[list[tuple[str, float]]], int]:
    """What another process answers, and how often it had to read rows for it."""
    with patch.object(Columns, "put", autospec=True, side_effect=Columns.put) as put:
        second = Opened(path)
        answers = second.answers()
        second.close()
    return answers, put.call_count


def test_another_process_answers_alike_without_reading_a_row(first: Opened, path: Path) -> None:
    assert first.keep()
    assert _answers_of_another(path) == (first.answers(), 0)


def test_what_is_newer_is_read_beside_it(first: Opened, path: Path) -> None:
    first.keep()
    first.store.upsert(NAME, [_point(99), Point("p4", "pears", payload={"channel": "x"})])
    first.store.delete(NAME, ["p1", "p2"])
    assert _answers_of_another(path) == (first.answers(), 1)


def test_what_has_hardly_changed_is_not_written_again(first: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    first.keep()
    monkeypatch.setattr(sqlite_vec, "KEPT_AFTER", 2)
    first.store.upsert(NAME, [_point(7)])
    with patch.object(first, "batch") as batch:
        assert first.keep()
    assert not batch.called


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE chunks_columns SET data = zeroblob(length(data)) WHERE part = 'signs/word 0'",
        "UPDATE chunks_columns SET data = zeroblob(length(data)) WHERE part = 'vectors/numbers'",
        "UPDATE chunks_columns SET data = zeroblob(length(data)) WHERE part = ''",
        "DELETE FROM chunks_columns WHERE part = 'ids/bytes'",
        "DELETE FROM chunks_columns WHERE part = ''",
        "UPDATE collection SET stamp = stamp - 1",  # an older database: a backup that was put back
    ],
)
def test_what_is_not_whole_is_read_from_the_rows(first: Opened, path: Path, damage: str) -> None:
    first.keep()
    first.writer.execute(damage)
    answers, reads = _answers_of_another(path)
    assert answers == first.answers()
    assert reads == 1


def test_a_field_more_is_read_from_the_rows(first: Opened, path: Path) -> None:
    first.keep()
    first.store.ensure_payload_index(NAME, "other")
    assert _answers_of_another(path) == (first.answers(), 1)


def test_what_changes_meanwhile_is_not_kept(first: Opened, path: Path) -> None:
    @contextmanager
    def interrupted() -> Iterator[None]:
        with transaction(first.writer):
            yield
        first.store.upsert(NAME, [_point(100)])
        first.answers()

    assert not first.store.keep_columns(NAME, interrupted)
    answers, reads = _answers_of_another(path)
    assert answers == first.answers()
    assert reads == 1
    assert first.keep()
    assert _answers_of_another(path) == (first.answers(), 0)


ids = st.integers(0, 12)
steps = st.one_of(
    st.tuples(st.just("upsert"), ids),
    st.tuples(st.just("give"), ids),
    st.tuples(st.just("delete"), ids),
    st.tuples(st.just("keep"), ids),
    st.tuples(st.just("break off"), ids),
    st.tuples(st.just("reopen"), ids),
)


class BrokenOff(Exception):
    pass


@given(st.lists(steps, max_size=25))
def test_vectors_are_in_step_whatever_happens(taken: list[tuple[str, int]]) -> None:
    with TemporaryDirectory() as folder, patch.object(sqlite_vec, "KEPT_AFTER", 1):
        path = Path(folder) / "index.db"
        opened, expected = Opened(path), dict[str, Vector | None]()
        for number, (what, place) in enumerate(taken):
            opened = _taken(opened, path, what, f"p{place}", _vector(number), expected)
            asked = _vector(number + 1000)
            cosines = {name: _cosine(vector, asked) for name, vector in expected.items() if vector is not None}
            found = {match.id: match.score for match in opened.store.search_vector(NAME, asked, 99)}
            assert found == pytest.approx(cosines, abs=0.004)
            assert opened.store.cosines(NAME, asked, expected) == found
        opened.close()


def _taken(
    opened: Opened, path: Path, what: str, point_id: str, vector: Vector, expected: dict[str, Vector | None]
) -> Opened:
    """Take a step; return the store to go on with."""
    if what == "upsert":
        opened.store.upsert(NAME, [Point(point_id, f"apples {vector[0]}")])
        expected[point_id] = None
    elif what == "give":
        opened.store.set_vectors(NAME, {point_id: vector})
        expected |= {point_id: vector} if point_id in expected else {}
    elif what == "delete":
        opened.store.delete(NAME, [point_id])
        expected.pop(point_id, None)
    elif what == "keep":
        assert opened.keep()
    elif what == "break off":
        _break_off(opened, point_id, vector)
    else:
        opened.close()
        return Opened(path)
    return opened


def _break_off(opened: Opened, point_id: str, vector: Vector) -> None:
    """Roll a change back, and end the snapshot after its first piece."""
    with suppress(BrokenOff), opened.batch():
        opened.store.upsert(NAME, [Point(point_id, "pears", vector=vector)])
        raise BrokenOff
    with patch.object(snapshot, "_put", side_effect=[None, BrokenOff]), suppress(BrokenOff):
        opened.keep()


def _cosine(vector: Vector, asked: Vector) -> float:
    return float(vector @ asked / (np.linalg.norm(vector) * np.linalg.norm(asked)))


def test_compacting_leaves_nothing_of_it(first: Opened, path: Path) -> None:
    first.keep()
    first.store.delete(NAME, ["p1"])
    first.store.compact(NAME)
    assert first.writer.execute("SELECT count(*) FROM chunks_columns").fetchall() == [(0,)]
    assert first.keep()
    kept = list(first.writer.execute("SELECT data FROM chunks_columns WHERE part = 'ids/bytes'"))
    assert [(b"p0" in data, b"p11" in data, b"p1p" in data) for (data,) in kept] == [(True, True, False)]


def test_rows_are_read_some_at_a_time(first: Opened, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_vec, "READ_AT_ONCE", 7)
    assert _answers_of_another(path) == (first.answers(), 6)
