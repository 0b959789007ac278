"""From a question to ranked memories: arms, fusion, scoring. Each step is one function with its own timing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from ...keep.deadline import within
from ...model import ALL_CHANNELS, GLOBAL_CHANNEL, Level, NodeId, StoreBusy
from ...roles import Role
from ...settings import SearchSettings
from ...text.stems import stems_of
from ...text.terms import query_terms
from ..backends.interface import Condition, Filter, Match, Vector, VectorStore
from ..embedding.embedding import Embedder, ModelUnavailable
from ..index.catalog import Catalog
from ..index.index import COLLECTION
from ..index.projection import is_turn
from ..index.scope import EVERYTHING, Scope
from .fusion import fuse_by_reciprocal_rank, fuse_by_score
from .query_text import read_query

BY_DEFAULT = (Level.SESSION, Level.FACT)
"""Scenarios and profiles retell many facts: they answer when asked for, and would crowd out what they retell."""

QUESTIONS_AT_ONCE = 4
"""Questions embedded at a time: as many as the server answers at once."""

SHORT_CHARS = 200
"""A question up to this long is embedded in 10 ms or less. Longer ones take up to 40, so they go one at a time, and a
short one finds a processor."""

KEYWORD_S = 1.0
"""The time limit of keyword search, after which vectors answer alone; at a million turns it takes .02 s."""

CHUNK_MARK = "#chunk-"

WEIGHED = 40
"""Candidates, at least, whose order is right in every respect: as many as are ever read for an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A query and its filters. `channel` None is `_global` alone, `*` is all."""

    text: str
    limit: int = 10
    channel: str | None = None
    levels: tuple[Level, ...] = ()
    include_archived: bool = False
    as_of: datetime | None = None

    @property
    def scope(self) -> Scope:
        """Return the scope of what an answer may bring in or name."""
        if self.channel == ALL_CHANNELS:
            channels = None
        else:
            channels = frozenset({self.channel or GLOBAL_CHANNEL, GLOBAL_CHANNEL})
        return Scope(channels, self.as_of, self.include_archived)


@dataclass(slots=True)
class Candidate:
    """One unit of evidence on its way through the pipeline: a turn with the facts that cite it, or a memory.

    `matched` holds the nodes that matched, each with its best matching chunk: by vector if it did so, else by keyword.
    `scores` are the best by arm.
    """

    unit: NodeId
    matched: dict[NodeId, NodeId] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)
    score: float = 0.0

    def best(self) -> tuple[NodeId, NodeId]:
        """Return the node that stands for it, a memory before the turn that it cites, and its matching chunk."""
        if not self.matched:  # it was put before a candidate that it supersedes
            return self.unit, self.unit
        node_id = next((node_id for node_id in self.matched if not is_turn(node_id)), next(iter(self.matched)))
        return node_id, self.matched[node_id]


@dataclass(slots=True)
class Ranking:
    """The candidates, best first, and how they were found.

    `terms` are the stems of the question's content words. `shows_facts`: turns stand for the facts drawn from them.
    `scope` is what may be brought in beside them, but nothing of `session`. `cosines` returns how near other chunks are
    to the question; {} without vectors.
    """

    candidates: list[Candidate]
    terms: frozenset[str] = frozenset()
    shows_facts: bool = False
    scope: Scope = EVERYTHING
    session: NodeId | None = None
    cosines: Callable[[Collection[NodeId]], dict[NodeId, float]] = lambda chunks: {}
    timings_ms: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def leave_out_session(self, session_id: NodeId | None) -> None:
        """Drop the candidates that are a session's own turns: its agent has them."""
        if session_id is not None:
            self.session = session_id
            self.candidates = [c for c in self.candidates if c.unit.partition("#")[0] != session_id]

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Note how long a step took."""
        began = time.perf_counter()
        yield
        self.timings_ms[step] = round((time.perf_counter() - began) * 1e3, 3)


class Search:
    """Ranks memories for a question; any thread may ask."""

    def __init__(self, catalog: Catalog, backend: VectorStore, embedder: Embedder, settings: SearchSettings) -> None:
        self._catalog = catalog
        self._backend = backend
        self._embedder = embedder
        self._settings = settings
        self._long_ones = threading.Lock()
        self._embedding = ThreadPoolExecutor(QUESTIONS_AT_ONCE, thread_name_prefix="dreamd-question")

    def close(self) -> None:
        """End the threads that embed questions."""
        self._embedding.shutdown()

    def rank(self, question: Question) -> Ranking:
        """Rank the units that answer a question, best first.

        Without a model that is ready, the keyword arm answers alone and a note says so.
        """
        query = read_query(question.text)
        terms = query_terms(query.words)
        ranking = Ranking([], stems_of(terms), shows_facts=not question.levels, scope=question.scope)
        ranking.notes += [query.note] if query.note else []
        if not query.meant:
            return ranking
        where = normalised_filter(question)
        reach = max(self._settings.reach, 3 * question.limit)
        arms: dict[str, list[Match]] = {}
        embedding = self._embedding.submit(self._embed, query.meant, ranking)  # neither holds Python up for long
        with ranking.timed("keyword"):
            arms["keyword"] = self._search_keyword(terms, reach, where, ranking)
        with ranking.timed("embed, beyond keyword"):
            vector = embedding.result()
        if vector is not None:
            ranking.cosines = partial(self._backend.cosines, COLLECTION, vector)
            with ranking.timed("vector"):
                arms["vector"] = self._backend.search_vector(COLLECTION, vector, reach, where)
        with ranking.timed("group"):
            self._group(ranking, arms)
        with ranking.timed("fuse"):
            if vector is not None and self._settings.fusion == "score":
                self._complete_cosines(ranking, vector)
            self._fuse(ranking)
        with ranking.timed("score"):
            self._weigh_speakers(ranking, max(WEIGHED, question.limit))
        return ranking

    def _search_keyword(self, terms: list[str], reach: int, where: Filter, ranking: Ranking) -> list[Match]:
        try:
            with within(KEYWORD_S):
                return self._backend.search_keyword(COLLECTION, terms, reach, where)
        except StoreBusy:
            ranking.notes.append("found by meaning alone: looking its words up took too long")
            return []

    def _embed(self, text: str, ranking: Ranking) -> Vector | None:
        if not self._backend.capabilities().vector:
            return None
        try:
            with self._long_ones if len(text) > SHORT_CHARS else nullcontext():
                return self._embedder.embed_query(text)
        except ModelUnavailable as error:
            ranking.notes.append(f"found by keyword alone: {error}")
            return None

    def _group(self, ranking: Ranking, arms: Mapping[str, Sequence[Match]]) -> None:
        """Make units of matched chunks: the chunks of one node, and the facts of one turn, are one candidate.

        An arm's matches come best first, so the first of a node is its best, and the vector's stand before others.
        """
        found = {
            arm: [(node_of_chunk(match.id), match) for match in arms.get(arm, ())] for arm in ("vector", "keyword")
        }
        unit_of = self._catalog.units({node_id for pairs in found.values() for node_id, _ in pairs}, ranking.scope)
        candidates: dict[NodeId, Candidate] = {}
        for arm, pairs in found.items():
            for node_id, match in pairs:
                if (unit := unit_of.get(node_id)) is None:  # it was removed since the arm was asked
                    continue
                if (candidate := candidates.get(unit)) is None:
                    candidate = candidates[unit] = Candidate(unit)
                candidate.matched.setdefault(node_id, match.id)
                candidate.scores.setdefault(arm, match.score)
        ranking.candidates = list(candidates.values())

    def _complete_cosines(self, ranking: Ranking, vector: Vector) -> None:
        """Give candidates that only the keyword arm found their cosine, so that an arm's cut does not count as 0."""
        asked = {
            chunk_id: candidate
            for candidate in ranking.candidates
            if "vector" not in candidate.scores
            for chunk_id in candidate.matched.values()
        }
        for chunk_id, cosine in self._backend.cosines(COLLECTION, vector, asked).items():
            candidate = asked[chunk_id]
            candidate.scores["vector"] = max(cosine, candidate.scores.get("vector", -1.0))

    def _fuse(self, ranking: Ranking) -> None:
        by_unit = {candidate.unit: candidate for candidate in ranking.candidates}
        arms = {arm: scores_by(arm, ranking.candidates) for arm in ("keyword", "vector")}
        if self._settings.fusion == "rrf":
            fused = fuse_by_reciprocal_rank([in_order(scores) for scores in arms.values()], self._settings.rrf_k)
        else:
            weight = self._settings.vector_weight
            waiting = arms["keyword"].keys() - arms["vector"].keys()  # for their vector: words speak for both arms
            fused = fuse_by_score([arms["keyword"], arms["vector"]], [1.0, weight], [0.0, None])
            fused = [(unit, score * (1.0 + weight) if unit in waiting else score) for unit, score in fused]
        best = 2 / (self._settings.rrf_k + 1) if self._settings.fusion == "rrf" else 1.0 + self._settings.vector_weight
        for unit, score in fused:
            by_unit[unit].score = score / best
        ranking.candidates = [by_unit[unit] for unit, _ in fused]

    def _weigh_speakers(self, ranking: Ranking, first: int) -> None:
        """Scale what an assistant said: it paraphrases the question's words, and its person's word counts for more.

        Done where it can change the `first` candidates: one whose score is below the last of these, scaled, stays so.
        """
        weight = self._settings.assistant_weight
        ranking.candidates.sort(key=_score_last)
        least = (
            weight * ranking.candidates[min(first, len(ranking.candidates)) - 1].score if ranking.candidates else 0.0
        )
        roles = self._catalog.roles([one.unit for one in ranking.candidates if one.score >= least])
        for candidate in ranking.candidates:
            if roles.get(candidate.unit) == Role.ASSISTANT:
                candidate.score *= weight
        ranking.candidates.sort(key=_score_last)


def scores_by(arm: str, candidates: Iterable[Candidate]) -> dict[NodeId, float]:
    """Return the scores of an arm, by unit."""
    return {candidate.unit: candidate.scores[arm] for candidate in candidates if arm in candidate.scores}


def in_order(scores: Mapping[NodeId, float]) -> list[NodeId]:
    """Return units by their score, the best first, ties by id."""
    return sorted(scores, key=lambda unit: (-scores[unit], unit))


def _score_last(candidate: Candidate) -> tuple[float, NodeId]:
    return (-candidate.score, candidate.unit)


def normalised_filter(question: Question) -> Filter:
    """Return the memories that may answer, as conditions that every engine understands."""
    conditions = [Condition("level", "in", tuple(level.value for level in question.levels or BY_DEFAULT))]
    if not question.levels:
        conditions.append(Condition("ranks", "in", (1,)))
    if (channels := question.scope.channels) is not None:
        conditions.append(Condition("channel", "in", tuple(sorted(channels))))
    if question.as_of is not None:
        at = int(question.as_of.timestamp())
        conditions += [Condition("valid_from", "lte", (at,)), Condition("valid_to", "gt", (at,))]
    elif not question.include_archived:
        conditions.append(Condition("live", "in", (1,)))
    return tuple(conditions)


def node_of_chunk(chunk_id: NodeId) -> NodeId:
    """Return the id of the node that a chunk is a piece of."""
    return chunk_id.split(CHUNK_MARK, 1)[0]
