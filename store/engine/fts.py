"""FTS5 as an inverted index: the rows that have a word in their text or context. Weights are computed in memory.

Lists of rows are kept in memory for the next question that has the word (`postings.py`), and new ones are bounded: the
question's words are taken rarest first while their postings fit MAX_POSTINGS, the first of them in any case, and the
rest are left out. So each question adds to the lists in memory, and soon all its words are there. Those that many
points have are listed before a question asks for them. A word that more than COMMON of all contexts have is looked up
in texts alone.

Example, of a million points, and where "trip" is held: of "Otto's kayak trip for the team" kayak lists 400 rows, otto
90,000, team 240,000 (texts and contexts together). Kayak (400) and otto (90,400) are listed; "team" would make 330,400,
so it is left out; trip's 90,000 rows are there. The next question for the team has it as its first to be listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from ..text.languages import words_in
from . import bm25
from .bm25 import Listed, Stems, Word, spell_out
from .columns import Columns, RowScope
from .vectors import Rows

TOKENIZER = ("unicode61", "remove_diacritics", "2")

MAX_POSTINGS = 300_000
"""The most postings that a question lists for words that are not held: 30 ms. More frequent words are left out. Of the
first questions to a million points 95 % of the ten best by words are right then, of the same asked again 99.8."""

OFTEN, SAMPLED, ROWS_A_WORD = 0.02, 500, 100
"""Words of at least this share of so many texts, evenly spread, are listed before they are asked for; while there
are fewer texts, looking a word up is quick."""

COMMON = 0.3
"""A word that more than this share of contexts have is looked up in texts alone: half the rows, the same recall@10."""

FREQUENCIES_KEPT = 50_000

FEW = 30
"""Where fewer than one of so many rows are listed, they are sorted; else all rows are looked through for them."""

MERGE_AT = 1_000
"""Points written, at least, and at least half of all points, before FTS5's segments are merged into one: looking a word
up takes half as long then."""

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
        self._texts, self._contexts, self._stored = f"{name}_words", f"{name}_near", f"{name}_text"
        self._frequencies: dict[str, tuple[int, int, int]] = {}
        self._unmerged = 0

    def put_texts(self, connection: apsw.Connection, texts: Sequence[tuple[int, str]]) -> None:
        """Index the texts of rows in place of their old ones."""
        spelled = [(row, spell_out(text)) for row, text in texts]
        connection.executemany(f"REPLACE INTO {self._texts}(rowid, text) VALUES (?, ?)", spelled)

    def put_contexts(self, connection: apsw.Connection, contexts: Sequence[tuple[int, str]]) -> None:
        """Index the contexts of rows in place of their old ones."""
        spelled = [(row, spell_out(context)) for row, context in contexts]
        connection.executemany(f"REPLACE INTO {self._contexts}(rowid, context) VALUES (?, ?)", spelled)

    def merge_at_times(self, connection: apsw.Connection, written: int, held: int) -> None:
        """Count written points, and merge the segments when they are many against those that were there."""
        self._unmerged += written
        if self._unmerged >= max(MERGE_AT, held // 2):
            self.merge(connection)

    def merge(self, connection: apsw.Connection) -> None:
        """Merge each table's segments into one, which holds the words of no row that is gone.

        FTS5's own `secure-delete` does nothing for tables without content: it would need the removed words.
        """
        for table in (self._texts, self._contexts):
            connection.execute(f"INSERT INTO {table}({table}) VALUES ('optimize')")
        self._unmerged = 0

    def scores(
        self, connection: apsw.Connection, terms: Sequence[str], columns: Columns, scope: RowScope
    ) -> tuple[Rows, NDArray[np.float32], dict[Word, Listed]]:
        """Return the rows within scope that have any of the terms, each once, and their bm25, above 0.

        And what was listed for it, which may be held.
        """
        tally = _Tally(scope, columns.sizes)
        new: dict[Word, Listed] = {}
        postings = 0
        for word, spelled, count in self._rarest_first(connection, _split(connection, terms), columns.count):
            listed = columns.postings.get(word, scope.mask)
            if listed is None and (not new or postings + count <= MAX_POSTINGS):
                new[word] = self.listed(connection, word, spelled)
                postings += count
                listed = new[word].within(scope.mask)
            if listed is not None:
                tally.add(*listed)
        rows, scores = tally.scores()
        return rows, scores, new

    def _rarest_first(
        self, connection: apsw.Connection, words: Mapping[str, str], count: int
    ) -> list[tuple[Word, str, int]]:
        """Return the words that are anywhere, as they are spelled, with their postings, rarest first."""
        found = []
        for stem, spelled in words.items():
            in_text, in_context = self._frequency(connection, stem, count)
            in_contexts = in_context <= COMMON * max(count, 100)
            found.append((Word(stem, in_contexts), spelled, in_text + (in_context if in_contexts else 0)))
        return sorted([one for one in found if one[2]], key=lambda one: (one[2], one[0]))

    def listed(self, connection: apsw.Connection, word: Word, spelled: str) -> Listed:
        """List the rows that have a word."""
        in_context = _rows_with(connection, self._contexts, spelled) if word.in_contexts else rows_listed(None)
        return Listed(_rows_with(connection, self._texts, spelled), in_context)

    def stems(self, connection: apsw.Connection, rows: Rows) -> dict[int, Stems]:
        """Return the stems of rows that are there, as they are indexed."""
        stemmed = connection.fts5_tokenizer("porter", list(TOKENIZER))
        texts: list[Any] = connection.execute(
            f"SELECT t.row, t.text, t.context FROM json_each(?) AS wanted JOIN {self._stored} AS t "
            f"ON t.row = wanted.value",
            (str(rows.tolist()),),
        ).fetchall()
        return {
            row: Stems(_stems(stemmed, spell_out(text)), _stems(stemmed, spell_out(context)))
            for row, text, context in texts
        }

    def often_said(self, connection: apsw.Connection, columns: Columns) -> list[tuple[Word, str]]:
        """Return words that many texts have and that are not held, as they are spelled; none of a small collection."""
        if columns.count < SAMPLED * ROWS_A_WORD:
            return []
        texts: list[Any] = connection.execute(
            f"SELECT t.text FROM json_each(?) AS wanted JOIN {self._stored} AS t ON t.row = wanted.value",
            (str(np.linspace(0, columns.capacity - 1, SAMPLED).astype(int).tolist()),),
        ).fetchall()
        said = [_split(connection, [text]) for (text,) in texts]
        counts = Counter(stem for words in said for stem in words)
        asked = _split(connection, sorted(words_in("question_words")))
        often = {
            stem: spelled
            for words in said
            for stem, spelled in words.items()
            if counts[stem] >= OFTEN * len(said) and stem not in asked
        }
        rarest_first = self._rarest_first(connection, often, columns.count)
        return [(word, spelled) for word, spelled, _ in rarest_first if word not in columns.postings]

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


def _stems(tokenizer: apsw.FTS5Tokenizer, text: str) -> frozenset[str]:
    written = text.encode("utf-8", "replace")
    tokens: Any = tokenizer(written, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False)
    return frozenset(stem for (stem,) in tokens)


def _tokens(tokenizer: apsw.FTS5Tokenizer, text: str) -> Any:
    return tokenizer(text.encode("utf-8", "replace"), apsw.FTS5_TOKENIZE_QUERY, None, include_offsets=False)


def _rows_with(connection: apsw.Connection, table: str, word: str) -> Rows:
    """Return the rows that have a word. One text of numbers is three times faster to fetch than as many rows."""
    sql = f"SELECT group_concat(rowid) FROM {table} WHERE {table} MATCH ?"
    joined: Any = connection.execute(sql, (f'"{word}"',)).fetchall()[0][0]
    return rows_listed(joined)


class _Tally:
    """Scores of rows in a scope, word by word. Its cost is that of the postings, however many rows there are."""

    def __init__(self, scope: RowScope, sizes: NDArray[np.int32]) -> None:
        self._scope = scope
        self._sizes = sizes
        self._scores = np.zeros(len(scope.mask), np.float32)
        self._marked = np.zeros(len(scope.mask), bool)
        self._touched: list[Rows] = []

    def add(self, in_text: Rows, in_context: Rows) -> None:
        """Add one word's weights to the scores of the rows in scope that have it.

        A word is as rare as it is there: a name that is in every turn of one project says nothing in it.
        """
        frequency: Any = np.float32(1.0)
        around = in_context
        if len(in_context):
            marked = self._marked
            marked[in_text] = True
            is_beside = marked[in_context]
            marked[in_text] = False
            beside, around = in_context[is_beside], in_context[~is_beside]
            marked[beside] = True
            frequency = np.float32(1.0) + np.float32(bm25.CONTEXT_WEIGHT) * marked[in_text]
            marked[beside] = False
        rarity = np.float32(bm25.idf(self._scope.points, len(in_text) + len(around)))
        self._weigh(in_text, rarity, frequency)
        self._weigh(around, rarity, bm25.CONTEXT_WEIGHT)

    def scores(self) -> tuple[Rows, NDArray[np.float32]]:
        """Return the rows that have a score, in their order, and their scores."""
        if FEW * sum(map(len, self._touched)) > len(self._scores):
            rows = np.flatnonzero(self._scores > 0.0)
        else:
            rows = np.unique(np.concatenate([rows_listed(None), *self._touched]))
        return rows, self._scores[rows]

    def _weigh(self, rows: Rows, rarity: np.float32, frequency: Any) -> None:
        self._scores[rows] += rarity * bm25.weight(frequency, self._sizes[rows], self._scope.mean_size)
        self._touched.append(rows)


def rows_listed(joined: str | None) -> Rows:
    """Parse the row numbers that SQLite's group_concat joined."""
    return np.fromstring(joined, np.int64, sep=",") if joined else np.zeros(0, np.int64)
