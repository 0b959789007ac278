"""Changes: the sentences in which a newer statement replaces an older, and whether that is plain enough to be shown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product

from ...store.model import Memory, NodeId
from ...store.roles import MACHINES
from ...store.text.replies import read_reply
from ...store.text.sentences import sentences_of
from ...store.text.state.evidence import change_reasons, change_score
from ...store.text.state.reading import read

NO_COSINE = 0.0
"""A change that is shown must be in the words: how near two statements are in meaning does not count."""


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
    reasons = (change_reasons(read(old), read(new), NO_COSINE, {}) for old, new in _pairs(older, newer))
    return any(found and (found["ended"] or found["value"]) for found in reasons)


def told_by(older: Memory, newer: Memory) -> tuple[Memory, Memory]:
    """Return both with the one sentence of each that shows the change best; whole where no sentence shows it."""

    def score(pair: tuple[str, str]) -> float:
        return change_score(change_reasons(read(pair[0]), read(pair[1]), NO_COSINE, {}))

    pairs = list(_pairs(older, newer))
    best = max(pairs, key=score, default=None)
    if best is None or not score(best):
        return older, newer
    return replace(older, text=best[0], days=()), replace(newer, text=best[1], days=())


def _pairs(older: Memory, newer: Memory) -> Iterable[tuple[str, str]]:
    return product(sentences_of(read_reply(older.text)[0]), sentences_of(read_reply(newer.text)[0]))
