"""Query cache: the candidates of past questions, for one that asks the same in the same words.

A cosine alone is no proof that two questions ask the same: "Tom's phone" and "Tim's phone", 2024 and 2025, "does" and
"does not" are near each other. So a question shares an answer only if its normal form is the same too, which names,
numbers and negations never are, and only with the same scope and limit, while nothing in the index has changed. How
near it must be besides, so that the ten best are the same, is a setting that was measured.

Only candidates are shared: what is told of them is read anew, by the question's own words, and counted as ever. After
the answer a share of the hits is ranked once more; a different top ten is a false hit, and `status` counts it.
"""

from __future__ import annotations

import marshal
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from ...model import NodeId
from ...results import QueryCacheStatus
from ...settings import QueryCacheSettings
from ...text.normal_form import normal_form
from ..backends.interface import Vector
from .gathering import Candidate
from .query_text import read_query
from .question import Question
from .search import Ranking, Search

TOP = 10
"""The candidates by which a shared answer is compared with a fresh one."""

RECHECKED_EVERY = 10
"""Of so many hits the first is ranked once more."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A ranked question, with its candidates as they were before an answer was made of them."""

    meant: str
    vector: Vector
    packed: bytes
    generation: Hashable
    at: datetime


class QueryCache:
    """Ranks questions, from what is held where that is right. Any thread may ask.

    `generation` names the state of the index: it is another after every change. `later` runs a job after the answer.
    """

    def __init__(
        self,
        search: Search,
        settings: QueryCacheSettings,
        generation: Callable[[], Hashable],
        later: Callable[[Callable[[], None]], object],
        now: Callable[[], datetime],
    ) -> None:
        self._search = search
        self._settings = settings
        self._generation = generation
        self._later = later
        self._now = now
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._of: Hashable = None  # the state of the index that all entries are of
        self._cleared = 0
        self._hits = self._misses = self._rechecked = self._false_hits = 0

    def rank(self, question: Question) -> Ranking:
        """Rank the units that answer a question, as `Search.rank` does."""
        if not self._settings.entries or not _is_plain(question):
            return self._search.rank(question)
        generation, query = self._state(), read_query(question.text)
        meant = query.meant
        key = (normal_form(meant), question.channel, question.limit)
        held = self._held(key, generation) if key[0] else None
        ranking = self._shared(held, question, meant) if held is not None else None
        if ranking is not None:
            return ranking
        ranking = self._search.rank(question)
        if key[0] and ranking.vector is not None and not ranking.notes:
            self._keep(key, meant, ranking, generation)
        return ranking

    def clear(self) -> None:
        """Forget every question, also those that are being answered."""
        with self._lock:
            self._cleared += 1
            self._entries.clear()

    def status(self) -> QueryCacheStatus:
        """Count what is held, and what came of it."""
        with self._lock:
            return QueryCacheStatus(
                entries=len(self._entries),
                hits=self._hits,
                misses=self._misses,
                rechecked=self._rechecked,
                false_hits=self._false_hits,
            )

    def _state(self) -> Hashable:
        return self._generation(), self._cleared

    def _held(self, key: Hashable, generation: Hashable) -> _Entry | None:
        """Return the entry that a question may share; what is too old, or of an older index, goes."""
        with self._lock:
            if self._of != generation:
                self._entries.clear()
                self._of = generation
            entry = self._entries.get(key)
            if entry is not None and (self._now() - entry.at).total_seconds() >= self._settings.ttl_s:
                del self._entries[key]
                entry = None
            self._misses += entry is None
            if entry is not None:
                self._entries.move_to_end(key)
            return entry

    def _shared(self, entry: _Entry, question: Question, meant: str) -> Ranking | None:
        """Return the ranking of an entry for a question, None where their vectors are too far from each other."""
        ranking = self._search.begin(question)
        with ranking.timed("cached"):
            vector, notes = (entry.vector, []) if meant == entry.meant else self._search.embed(meant)
            ranking.notes += notes
            is_near = vector is not None and _cosine(vector, entry.vector) >= self._settings.cosine
        with self._lock:
            self._hits += is_near
            self._misses += not is_near
            is_sampled = is_near and self._hits % RECHECKED_EVERY == 1
        if vector is None or not is_near:
            return None
        self._search.use_vector(ranking, vector)
        ranking.candidates = _unpacked(entry.packed)
        if is_sampled:
            top = [candidate.unit for candidate in ranking.candidates[:TOP]]
            self._later(lambda: self._recheck(question, top, entry.generation))
        return ranking

    def _keep(self, key: Hashable, meant: str, ranking: Ranking, generation: Hashable) -> None:
        """Hold a ranking after its answer, which puts candidates before others and raises their scores."""
        assert ranking.vector is not None
        entry = _Entry(meant, ranking.vector, _packed(ranking.candidates), generation, self._now())

        def insert() -> None:
            with self._lock:
                if self._of != generation or self._state() != generation:
                    return
                self._entries[key] = entry
                self._entries.move_to_end(key)
                while len(self._entries) > self._settings.entries:
                    self._entries.popitem(last=False)

        self._later(insert)

    def _recheck(self, question: Question, top: list[NodeId], generation: Hashable) -> None:
        """Rank a question that shared an answer once more, if nothing has changed since, and count what differs."""
        fresh = [candidate.unit for candidate in self._search.rank(question).candidates[:TOP]]
        if self._state() == generation:
            with self._lock:
                self._rechecked += 1
                self._false_hits += fresh != top


def _packed(candidates: Sequence[Candidate]) -> bytes:
    """Return candidates in a seventh of their room: 256 questions take 5 MiB, and as objects 36."""
    return marshal.dumps([(one.unit, one.matched, one.scores, one.score, one.priors) for one in candidates])


def _unpacked(packed: bytes) -> list[Candidate]:
    rows = marshal.loads(packed)  # noqa: S302 (bytes of this process alone)
    return [Candidate(unit, matched, scores, None, score, priors) for unit, matched, scores, score, priors in rows]


def _is_plain(question: Question) -> bool:
    """Return True for a question without filters of its own, which others may ask too."""
    return not (question.levels or question.include_archived or question.as_of or question.where)


def _cosine(one: Vector, other: Vector) -> float:
    norms = float(np.linalg.norm(one)) * float(np.linalg.norm(other))
    return float(one @ other) / norms if norms and one.shape == other.shape else 0.0
