"""FTS5 as an inverted index: the rows that have a word in their text or context. Weights are computed in memory.

Postings are bounded. A question of twenty words would list a quarter of a million rows at a million points, nearly
all of them for words that say little. So words are taken rarest first while their postings fit MAX_POSTINGS, and the
rest are left out: 11 ms instead of 102 at a million. The rarest word is always taken. A word that more than COMMON of
all contexts have is looked up in texts alone.

Example, of 100,000 points: "the kayak of Otto" lists kayak 40 rows, otto 900, of 70,000 and the 99,000 (texts and
contexts together). Taken in this order: kayak (40), otto (940); "of" would make 70,940, so the loop ends there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from . import bm25
from .columns import Columns, Scope
from .tokenizer import spell_out
from .vectors import Rows

TOKENIZER = ("unicode61", "remove_diacritics", "2")

MAX_POSTINGS = 20_000
"""The most postings that the words of one question may list together; more frequent words are left out."""

COMMON = 0.3
"""A word that more than this share of contexts have is looked up in texts alone: half the rows, the same recall@10."""

FREQUENCIES_KEPT = 50_000

MERGE_AT = 1_000
"""Points written, at least, and half of what is there, before FTS5's segments are merged into one: looking a word up
takes half as long then."""

LAYOUT = """
CREATE VIRTUAL TABLE {name}_words USING fts5(
    text, content='', contentless_delete=1, detail=none, tokenize='porter unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE {name}_near USING fts5(
    context, content='', contentless_delete=1, detail=none, tokenize='porter unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE {name}_words_terms USING fts5vocab({name}_words, row);
CREATE VIRTUAL TABLE {name}_near_terms USING fts5vocab({name}_near, row);
"""
"""Text and context are two indexes, because a context changes (a turn gains a neighbour) while its text stays."""


class WordIndex:
    """The inverted index of one collection. It has no connection of its own; word frequencies are cached."""

    def __init__(self, name: str) -> None:
        self._texts, self._contexts = f"{name}_words", f"{name}_near"
        self._frequencies: dict[str, tuple[int, int, int]] = {}
        self._unmerged = 0

    def put_texts(self, connection: apsw.Connection, texts: Sequence[tuple[int, str]]) -> None:
        """Index the texts of rows, in place of what they had."""
        spelled = [(row, spell_out(text)) for row, text in texts]
        connection.executemany(f"REPLACE INTO {self._texts}(rowid, text) VALUES (?, ?)", spelled)

    def put_contexts(self, connection: apsw.Connection, contexts: Sequence[tuple[int, str]]) -> None:
        """Index the contexts of rows, in place of what they had."""
        spelled = [(row, spell_out(context)) for row, context in contexts]
        connection.executemany(f"REPLACE INTO {self._contexts}(rowid, context) VALUES (?, ?)", spelled)

    def merge_at_times(self, connection: apsw.Connection, written: int, held: int) -> None:
        """Count what was written, and merge the segments when it is much against what was held."""
        self._unmerged += written
        if self._unmerged >= max(MERGE_AT, held // 2):
            self.merge(connection)

    def merge(self, connection: apsw.Connection) -> None:
        """Merge each table's segments into one, which holds the words of no row that is gone.

        FTS5's own `secure-delete` does nothing for tables without content: it would need the words of what it removes.
        """
        for table in (self._texts, self._contexts):
            connection.execute(f"INSERT INTO {table}({table}) VALUES ('optimize')")
        self._unmerged = 0

    def scores(
        self, connection: apsw.Connection, terms: Sequence[str], columns: Columns, scope: Scope
    ) -> tuple[Rows, NDArray[np.float32]]:
        """Return the rows within scope that have any of the terms, each once, and their bm25, above 0."""
        tally = _Tally(scope, columns.sizes)
        for word, with_context in self._affordable(connection, _split(connection, terms), columns.count):
            in_text = _rows_with(connection, self._texts, word)
            in_context = _rows_with(connection, self._contexts, word) if with_context else rows_listed(None)
            tally.add(in_text, in_context)
        return tally.scores()

    def _affordable(self, connection: apsw.Connection, words: Mapping[str, str], count: int) -> list[tuple[str, bool]]:
        """Choose the words to look up, rarest first, within MAX_POSTINGS; the rarest in any case.

        The flag beside each is False if contexts are not searched for it.
        """
        listed = {stem: self._frequency(connection, stem, count) for stem in words}
        chosen: list[tuple[str, bool]] = []
        postings = 0
        for stem in sorted(words, key=lambda stem: (sum(listed[stem]), stem)):
            in_text, in_context = listed[stem]
            with_context = in_context <= COMMON * max(count, 100)
            postings += in_text + (in_context if with_context else 0)
            if chosen and postings > MAX_POSTINGS:
                break
            if in_text or in_context:
                chosen.append((words[stem], with_context))
        return chosen

    def _frequency(self, connection: apsw.Connection, stem: str, count: int) -> tuple[int, int]:
        """Return how many texts and contexts have the word; cached until the collection has changed by a tenth."""
        in_text, in_context, at_count = self._frequencies.get(stem, (0, 0, 0))
        if at_count and abs(count - at_count) * 10 <= at_count:
            return in_text, in_context
        in_text, in_context = (
            sum(doc for (doc,) in connection.execute(f"SELECT doc FROM {table}_terms WHERE term = ?", (stem,)))
            for table in (self._texts, self._contexts)
        )
        if in_text or in_context:  # a new word may come any time
            if len(self._frequencies) >= FREQUENCIES_KEPT:
                self._frequencies.clear()
            self._frequencies[stem] = (in_text, in_context, count)
        return in_text, in_context


def _split(connection: apsw.Connection, terms: Sequence[str]) -> dict[str, str]:
    """Map stems to words, for the words of the terms as FTS5 itself splits them; the words hold no query syntax."""
    split = connection.fts5_tokenizer(TOKENIZER[0], list(TOKENIZER[1:]))
    stemmed = connection.fts5_tokenizer("porter", list(TOKENIZER))
    found: dict[str, str] = {}
    for (word,) in _tokens(split, spell_out(" ".join(terms), query=True)):
        for (stem,) in _tokens(stemmed, word):
            found.setdefault(stem, word)
    return found


def _tokens(tokenizer: apsw.FTS5Tokenizer, text: str) -> Any:
    return tokenizer(text.encode("utf-8", "replace"), apsw.FTS5_TOKENIZE_QUERY, None, include_offsets=False)


def _rows_with(connection: apsw.Connection, table: str, word: str) -> Rows:
    """Return the rows that have a word. One text of numbers is three times faster to fetch than as many rows."""
    sql = f"SELECT group_concat(rowid) FROM {table} WHERE {table} MATCH ?"
    joined: Any = connection.execute(sql, (f'"{word}"',)).fetchall()[0][0]
    return rows_listed(joined)


class _Tally:
    """Scores of rows in a scope, word by word. Its cost is that of the postings, however many rows there are."""

    def __init__(self, scope: Scope, sizes: NDArray[np.int32]) -> None:
        self._scope = scope
        self._sizes = sizes
        self._scores = np.zeros(len(scope.mask), np.float32)
        self._marked = np.zeros(len(scope.mask), bool)
        self._touched: list[Rows] = []

    def add(self, in_text: Rows, in_context: Rows) -> None:
        """Add one word's weights to the scores of the rows in scope that have it.

        A word is as rare as it is there: a name that is in every turn of one project says nothing in it. Rows newer
        than the columns are left out.
        """
        in_text, in_context = self._in_scope(in_text), self._in_scope(in_context)
        marked = self._marked
        marked[in_context] = True
        frequency = np.float32(1.0) + np.float32(bm25.CONTEXT_WEIGHT) * marked[in_text]
        marked[in_text] = False
        around = in_context[marked[in_context]]
        marked[around] = False
        rarity = np.float32(bm25.idf(self._scope.points, len(in_text) + len(around)))
        self._weigh(in_text, rarity, frequency)
        self._weigh(around, rarity, bm25.CONTEXT_WEIGHT)

    def scores(self) -> tuple[Rows, NDArray[np.float32]]:
        """Return the rows that have a score, in their order, and their scores; to be asked for once."""
        found: list[Rows] = []
        for rows in self._touched:
            found.append(new := rows[self._scores[rows] > 0.0])
            self._scores[new] *= -1.0  # a row that comes again is passed over
        rows = np.sort(np.concatenate(found)) if found else np.zeros(0, np.int64)
        return rows, -self._scores[rows]

    def _in_scope(self, rows: Rows) -> Rows:
        rows = rows[rows < len(self._scope.mask)]
        return rows[self._scope.mask[rows]]

    def _weigh(self, rows: Rows, rarity: np.float32, frequency: Any) -> None:
        self._scores[rows] += rarity * bm25.weight(frequency, self._sizes[rows], self._scope.mean_size)
        self._touched.append(rows)


def rows_listed(joined: str | None) -> Rows:
    """Parse the row numbers that SQLite's group_concat joined."""
    return np.fromstring(joined, np.int64, sep=",") if joined else np.zeros(0, np.int64)
