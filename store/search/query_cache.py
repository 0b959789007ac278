"""Query cache: candidates of past questions, for one that asks the same in the same words.

Names, numbers and negations differ in normal form; case, spacing, articles and commas do not. Candidates are shared for
the same channel and limit, while nothing in the index has changed: what is told of them is read anew and counted.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Hashable
from datetime import datetime

from ..embedding.vector_cache import Recent, form_of
from ..engine.interface import Vector
from ..results import QueryCacheStatus
from ..settings import QueryCacheSettings
from .gathering import Candidate
from .question import Question, read_query
from .search import Ranking, Search


class QueryCache:
    """Ranks questions, from what is held where that is right. `generation` is another after every change."""

    def __init__(
        self,
        search: Search,
        values: QueryCacheSettings,
        generation: Callable[[], Hashable],
        now: Callable[[], datetime],
    ) -> None:
        self._search, self._settings, self._generation, self._now = search, values, generation, now
        self.held = Recent[tuple[Vector, bytes]](values.entries)

    def status(self) -> QueryCacheStatus:
        """Count what is held, and what came of it."""
        return QueryCacheStatus(entries=len(self.held), hits=self.held.hits, misses=self.held.misses)

    def rank(self, question: Question) -> Ranking:
        """Rank the units that answer a question, as `Search.rank` does. Any thread may ask."""
        if not self._settings.entries or not question.is_plain:
            return self._search.rank(question)
        period, state = self._now().timestamp() // self._settings.ttl_s, self._generation()
        key = (form_of(read_query(question.text).meant), question.channel, question.limit, period, state)
        if (found := self.held.get(key)) is not None:
            ranking = self._search.begin(question)
            self._search.use_vector(ranking, found[0])
            ranking.candidates = [Candidate(*row) for row in marshal.loads(found[1])]  # noqa: S302 (our own bytes)
            return ranking
        ranking = self._search.rank(question)
        if ranking.vector is not None and not ranking.notes and state == self._generation():
            # In bytes: an answer changes candidates, and as objects they take seven times the room.
            rows = [(one.unit, one.matched, one.scores, None, one.score, one.priors) for one in ranking.candidates]
            self.held.put(key, (ranking.vector, marshal.dumps(rows)))
        return ranking
