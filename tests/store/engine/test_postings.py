"""What is held of words against what the index lists."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
import pytest
from dreamd.store.engine import bm25, fts, sqlite_vec
from dreamd.store.engine.bm25 import GONE, Listed, Postings, Stems, Word
from dreamd.store.engine.database import Connections, open_database, transaction
from dreamd.store.engine.fts import WordIndex
from dreamd.store.engine.interface import Point
from dreamd.store.engine.sqlite_vec import SqliteVecStore
from dreamd.store.engine.vectors import Rows
from hypothesis import given
from hypothesis import strategies as st

NAME, DIMENSION = "chunks", 8
KAYAK = Word("kayak", True)
EVERY = np.ones(40_001, bool)
VOCABULARY = ("kayak", "kayaks", "canoe", "the lake", "foo_bar.py", "東京タワー", "café")


def _rows(*rows: int) -> Rows:
    return np.array(rows, np.int64)


def _as_lists(listed: Listed | None) -> tuple[list[int], list[int]] | None:
    return None if listed is None else (sorted(listed.in_text.tolist()), sorted(listed.in_context.tolist()))


rows_of_a_word = st.sets(st.integers(0, 400)) | st.sets(st.integers(0, 40_000), max_size=20)


@given(rows_of_a_word, rows_of_a_word, st.integers(0, 500), st.integers(0, 9))
def test_what_is_held_is_what_was_listed(in_text: set[int], in_context: set[int], length: int, seed: int) -> None:
    held, mask = Postings(), np.random.default_rng(seed).random(length) < 0.5
    held.hold(KAYAK, Listed(_rows(*sorted(in_text)), _rows(*sorted(in_context))))
    assert _as_lists(held.get(KAYAK, EVERY)) == (sorted(in_text), sorted(in_context))
    within = [[row for row in sorted(rows) if row < length and mask[row]] for rows in (in_text, in_context)]
    assert _as_lists(held.get(KAYAK, mask)) == tuple(within)
    assert held.get(Word("kayak", False), EVERY) is None


def test_a_changed_row_counts_by_its_new_words() -> None:
    held = Postings()
    held.hold(KAYAK, Listed(_rows(3, 7, 9), _rows(4, 8)))
    kayak, canoe = frozenset({"kayak"}), frozenset({"a", "canoe"})
    held.change({7: Stems(canoe, kayak), 12: Stems(kayak, canoe), 4: GONE})
    assert _as_lists(held.get(KAYAK, EVERY)) == ([3, 9, 12], [7, 8])
    held.change({7: Stems(kayak, frozenset()), 12: GONE})
    assert _as_lists(held.get(KAYAK, EVERY)) == ([3, 7, 9], [8])


def test_nothing_is_held_after_a_change_of_many() -> None:
    held = Postings()
    held.hold(KAYAK, Listed(_rows(3), _rows()))
    held.change(dict.fromkeys(range(bm25.CHANGED_AT_MOST), GONE))
    assert KAYAK in held
    held.change({1000: GONE})
    assert KAYAK not in held
    assert len(held) == 0
    held.hold(KAYAK, Listed(_rows(3, 5), _rows()))
    assert _as_lists(held.get(KAYAK, EVERY)) == ([3, 5], [])


def test_what_was_not_asked_for_longest_is_let_go() -> None:
    held = Postings(size_bytes=3 * (bm25.ENTRY_BYTES + 4))
    words = [Word(stem, True) for stem in "abcd"]
    for word in words[:3]:
        held.hold(word, Listed(_rows(1_000), _rows()))
    assert held.get(words[0], EVERY) is not None
    held.hold(words[3], Listed(_rows(1_000), _rows()))
    assert [word in held for word in words] == [True, False, True, True]


class Opened:
    """A store, and the rows that it listed."""

    def __init__(self, path: Path) -> None:
        self.writer = open_database(path, durable=False)
        self._readers = Connections(lambda: open_database(path, durable=False, read_only=True))
        self.store = SqliteVecStore(lambda: self.writer, self._readers.get)
        self.store.ensure_collection(NAME, DIMENSION)

    @contextmanager
    def batch(self) -> Iterator[None]:
        with transaction(self.writer):
            yield

    def found(self, *terms: str) -> list[tuple[str, float]]:
        return [(one.id, round(one.score, 4)) for one in self.store.search_keyword(NAME, terms, 99)]

    def close(self) -> None:
        self._readers.close()
        self.writer.close()


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    store = Opened(tmp_path / "index.db")
    yield store
    store.close()


texts = st.lists(st.sampled_from(VOCABULARY), max_size=3).map(" ".join)
changes = st.one_of(
    st.tuples(st.just("upsert"), st.integers(0, 6), texts, texts),
    st.tuples(st.just("delete"), st.integers(0, 6), st.just(""), st.just("")),
)


@given(st.lists(changes, max_size=20), st.sampled_from([2, 256]))
def test_answers_are_those_of_a_store_that_holds_nothing(
    taken: list[tuple[str, int, str, str]], changed_at_most: int
) -> None:
    with TemporaryDirectory() as folder, patch.object(bm25, "CHANGED_AT_MOST", changed_at_most):
        opened = Opened(Path(folder) / "index.db")
        for what, number, text, context in taken:
            if what == "upsert":
                opened.store.upsert(NAME, [Point(f"p{number}", text, context)])
            else:
                opened.store.delete(NAME, [f"p{number}"])
            with_held = opened.found(*VOCABULARY), opened.found("kayak", "tower")
            with patch.object(Postings, "get", return_value=None):
                assert with_held == (opened.found(*VOCABULARY), opened.found("kayak", "tower"))
        opened.close()


def test_a_word_is_listed_once(opened: Opened) -> None:
    opened.store.upsert(NAME, [Point(f"p{number}", "a kayak") for number in range(9)])
    with patch.object(WordIndex, "listed", autospec=True, side_effect=WordIndex.listed) as listed:
        for _ in range(3):
            assert len(opened.found("kayak")) == 9
            opened.store.upsert(NAME, [Point("p0", "a kayak")])
    assert listed.call_count == 1


def test_what_an_old_snapshot_lists_is_not_held(opened: Opened) -> None:
    opened.store.upsert(NAME, [Point("a", "a kayak")])

    def overtaken(*given: object) -> Listed:
        opened.store.upsert(NAME, [Point("b", "a kayak")])
        with patch.object(opened.store, "_reader", lambda: opened.writer):
            assert len(opened.store.search_vector(NAME, np.ones(DIMENSION, np.float32), 9)) == 0  # sees the change
        return Listed(_rows(1), _rows())

    with patch.object(WordIndex, "listed", side_effect=overtaken):
        assert [name for name, _ in opened.found("kayak")] == ["a"]
    assert sorted(name for name, _ in opened.found("kayak")) == ["a", "b"]


def test_words_of_many_texts_are_listed_before_they_are_asked_for(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fts, "SAMPLED", 40)
    monkeypatch.setattr(fts, "ROWS_A_WORD", 1)
    monkeypatch.setattr(fts, "OFTEN", 0.5)
    monkeypatch.setattr(sqlite_vec, "KEPT_AFTER", 1)
    opened.store.upsert(NAME, [Point(f"p{n}", f"what kayaks {n} {'canoe' if n < 5 else ''}") for n in range(50)])
    before = opened.found("kayak", "canoe")
    opened.store.compact(NAME)
    assert opened.store.keep_columns(NAME, opened.batch)
    with patch.object(WordIndex, "listed", autospec=True, side_effect=WordIndex.listed) as listed:
        assert len(opened.found("kayak")) == 50
        assert listed.call_count == 0
        assert opened.found("kayak", "canoe") == before
        assert listed.call_count == 1
        opened.store.upsert(NAME, [Point(f"q{n}", "a tower") for n in range(bm25.CHANGED_AT_MOST + 1)])
        assert opened.store.keep_columns(NAME, opened.batch)
        assert listed.call_count == 1, "they are listed once, also where a change of many let them go"


def test_what_is_not_held_is_bounded_and_held_words_are_not(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fts, "MAX_POSTINGS", 5)
    opened.store.upsert(NAME, [Point(f"p{n}", "kayak " + "canoe " * (n < 10) + "tower" * (n < 3)) for n in range(30)])
    assert len(opened.found("tower", "canoe", "kayak")) == 3
    assert len(opened.found("tower", "canoe", "kayak")) == 10, "the rarest that is not held is listed in any case"
    assert len(opened.found("tower", "canoe", "kayak")) == 30
