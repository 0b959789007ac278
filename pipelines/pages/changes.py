"""Changes: the sentences in which a newer statement replaces an older, and whether that is plain enough to be shown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product, takewhile

from ...store.model import Memory, NodeId
from ...store.roles import MACHINES
from ...store.text.judging import RELATED_FROM, change_reasons, change_score
from ...store.text.quotes import read_reply
from ...store.text.sentences import joined_as_one, joined_sentences, sentences_of
from ...store.text.statements import read

LINKED_COSINE = RELATED_FROM
"""A change that is shown must be in the words: how near two statements are in meaning let them be linked, no more."""

SHORT_CHARS = 200
"""Words that are read at a glance, in a table of two columns."""


def plainly(facts: Iterable[Memory]) -> list[Memory]:
    """Return facts, each with those of its probable successors alone that plainly replace it."""
    known = {fact.node_id: fact for fact in facts}
    return [replace(fact, later=_plain_of(fact, known)) if fact.later else fact for fact in known.values()]


def _plain_of(fact: Memory, known: dict[NodeId, Memory]) -> tuple[NodeId, ...]:
    return tuple(newer for newer in fact.later if newer in known and is_plain(fact, known[newer]))


def is_plain(older: Memory, newer: Memory) -> bool:
    """Check that a person ends what the older names ("from SQLite to Postgres"), or gives it another value."""
    if older.said_by in MACHINES or newer.said_by in MACHINES:
        return False
    reasons = (change_reasons(read(old), read(new), LINKED_COSINE, {}) for old, new in _pairs(older, newer))
    return any(found and (found["ended"] or found["value"]) for found in reasons)


def told_by(older: Memory, newer: Memory) -> tuple[Memory, Memory]:
    """Return both, a long one from the sentence on that shows the change best; whole where no sentence shows it."""

    def score(pair: tuple[str, str]) -> float:
        return change_score(change_reasons(read(pair[0]), read(pair[1]), LINKED_COSINE, {}))

    pairs = list(_pairs(older, newer))
    best = max(pairs, key=score, default=None)
    if best is None or not score(best):
        return older, newer
    return _from(best[0], older), _from(best[1], newer)


def _from(sentence: str, memory: Memory) -> Memory:
    """Return a memory's own words if they are short, else from this sentence on as much as is.

    The value often stands in the next one: "License: not MIT any more. MPL-2.0, since somebody sold a copy."
    """
    said = read_reply(memory.text)[0]
    words = " ".join(said.split())
    if len(words) > SHORT_CHARS:
        pieces = joined_sentences(said)
        first = [piece.text for piece in pieces].index(sentence)
        following = (joined_as_one(pieces[first:end], said).text for end in range(first + 1, len(pieces) + 1))
        words = max(takewhile(lambda part: len(part) <= SHORT_CHARS, following), key=len, default=sentence)
    return replace(memory, text=words, days=())


def _pairs(older: Memory, newer: Memory) -> Iterable[tuple[str, str]]:
    return product(sentences_of(read_reply(older.text)[0]), sentences_of(read_reply(newer.text)[0]))
