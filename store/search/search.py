"""From a question to ranked memories: arms, fusion, scoring. Each step is one function with its own timing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from functools import partial

import numpy as np

from ..embedding.embedding import ModelUnavailable, QueryEmbedder
from ..engine.deadline import within
from ..engine.interface import Match, Vector, VectorStore
from ..engine.soft_lock import SoftLock
from ..filters import Condition, Filter
from ..index.catalog import Catalog
from ..index.index import COLLECTION
from ..index.projection import Node, is_turn
from ..index.scope import EVERYTHING, Scope
from ..model import Level, NodeId, StoreBusy
from ..roles import MACHINES, Role
from ..settings import SearchSettings
from ..text.dates import Resolved, format_span, names_one_of
from ..text.words import query_terms, stems_of
from .features import READ_CHARS, Found, Values, features_of
from .gathering import (
    Candidate,
    Gathering,
    Reranker,
    fuse_by_reciprocal_rank,
    fuse_by_score,
    in_order,
    scores_by,
    speakers_of,
)
from .priors import NOTHING_ASKED, Asked, Priors, asked_by, priors_of
from .question import BY_DEFAULT, PAGES, QueryText, Question, normalised_filter, read_query
from .scorer import scores_of
from .weights import WEIGHTS

QUESTIONS_AT_ONCE = 4
"""Questions embedded at a time: as many as the server answers at once."""

SHORT_CHARS = 200
"""A question up to this long is embedded in 10 ms or less. Longer ones take up to 40, so they go one at a time, and a
short one finds a processor."""

PATIENCE_S = 0.05
"""The longest wait for the question before: no slow one holds the others up longer.

One by one, 4 to 32 clients get a fifth more answers a second than at once; while one waits, its question is embedded.
"""

KEYWORD_S = 1.0
"""The time limit of keyword search, after which vectors answer alone; at a million turns it takes .02 s."""

NO_PAGES_THEN = "pages are written anew with what is learned, so turns and facts alone answer as of an earlier time"

TOLD_WITHIN = timedelta(days=7)
"""The days after a time in which what is said may name it: "the kiln broke on Thursday"."""

LISTED_SPREAD = 0.4
"""The first of what was said at a time has the score 1, the last this much less: its order is that of kind and time."""

_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)

WEIGHED = 40
"""Candidates, at least, whose order is right in every respect: as many as are ever read for an answer."""


@dataclass(slots=True)
class Ranking:
    """The candidates, best first, and how they were found.

    `words` are the question's, `terms` the stems of those that say what it asks for, `asked` its form. `is_of_time`:
    the candidates are what was said at the time that it asks about, and no thing was looked for. `shows_facts`: turns
    stand for the facts drawn from them. `scope` is what may be brought in beside them, but nothing of `session`.
    `cosines` returns how near other chunks are to the question; {} without vectors.
    """

    candidates: list[Candidate]
    terms: frozenset[str] = frozenset()
    words: str = ""
    asked: Asked = NOTHING_ASKED
    is_of_time: bool = False
    shows_facts: bool = False
    scope: Scope = EVERYTHING
    session: NodeId | None = None
    cosines: Callable[[Collection[NodeId]], dict[NodeId, float]] = lambda chunks: {}
    vector: Vector | None = None
    timings_ms: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def leave_out_session(self, session_id: NodeId | None) -> None:
        """Drop the candidates that are a session's own turns: its agent has them."""
        if session_id is not None:
            self.session = session_id
            self.candidates = [one for one in self.candidates if not self.is_left_out(one.unit)]

    def is_left_out(self, unit: NodeId) -> bool:
        """Return True for a turn of the session that is left out."""
        return self.session is not None and unit.partition("#")[0] == self.session

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Note how long a step took."""
        began = time.perf_counter()
        yield
        self.timings_ms[step] = round((time.perf_counter() - began) * 1e3, 3)


class Search:
    """Ranks memories for a question; any thread may ask."""

    def __init__(
        self,
        catalog: Catalog,
        backend: VectorStore,
        embedder: QueryEmbedder,
        settings: SearchSettings,
        now: Callable[[], datetime],
    ) -> None:
        self._catalog = catalog
        self._backend = backend
        self._embedder = embedder
        self._settings = settings
        self._now = now
        self._reranker = self._chosen_reranker() if settings.is_reranked else None
        self.weights: Mapping[str, float] = WEIGHTS
        """The weights of the learned scorer; another mapping may take their place at any time."""
        self.trusted: Mapping[NodeId, float] = {}
        """The trust in judged memories, by how much it differs from the usual; replaced in the same way."""
        self.alone = SoftLock(PATIENCE_S)
        """Held by what ranks a question, and by what makes an answer of a ranking."""
        self._long_ones = threading.Lock()
        self._embedding = ThreadPoolExecutor(QUESTIONS_AT_ONCE, thread_name_prefix="dreamd-question")

    def close(self) -> None:
        """End the threads that embed questions."""
        self._embedding.shutdown()

    def _chosen_reranker(self) -> Reranker:
        from .rerankers import reranker

        return reranker(self._settings, self._catalog, self._backend, self._now)

    def rank(self, question: Question) -> Ranking:
        """Rank the units that answer a question, best first.

        Without a model that is ready, the keyword arm answers alone and a note says so.
        """
        query = read_query(question.text)
        terms = query_terms(query.words)
        ranking = self._begun(question, query, terms)
        if not query.meant:
            return ranking
        embedding = self._embedding.submit(self.embed, query.meant)  # neither holds Python up for long
        with ranking.timed("read"):
            ranking.asked = asked_by(ranking.words, len(ranking.terms), question.as_of or self._now())
        if ranking.asked.nothing_else and {*question.levels} <= {*BY_DEFAULT}:
            embedding.cancel()
            with self.alone.held(), self._catalog.one_state(), self._backend.reading(), ranking.timed("time"):
                self._list_time(ranking, question)
            return ranking
        with self.alone.held(), self._catalog.one_state(), self._backend.reading():
            vector = self._gather(ranking, question, terms, embedding)
            if not ranking.candidates:
                return ranking
            if self._reranker is not None:
                with ranking.timed("score"):
                    if vector is not None:
                        self._complete_cosines(ranking, vector)
                    ranking.candidates = self._reranker.rerank(question, ranking.candidates)
                return ranking
            by_score = vector is not None and self._settings.fusion == "score"
            if vector is not None and by_score:
                with ranking.timed("cosines"):
                    self._complete_cosines(ranking, vector)
            if by_score and self._settings.scorer == "learned":
                with ranking.timed("score"):
                    self._score(ranking)
                return ranking
            with ranking.timed("fuse"):
                self._fuse(ranking)
            with ranking.timed("score"):
                self._weigh_speakers(ranking, max(WEIGHED, question.limit))
            return ranking

    def _gather(
        self,
        ranking: Ranking,
        question: Question,
        terms: list[str],
        embedding: Future[tuple[Vector | None, list[str]]],
    ) -> Vector | None:
        """Ask the arms for candidates; what does not need the question's vector is done while it is being made."""
        where = normalised_filter(question)
        reach = max(self._settings.reach, 3 * question.limit)
        gathering = Gathering(self._catalog, self._backend, ranking.scope)
        with ranking.timed("keyword"):
            for among in _of_the_time(where, ranking.asked):
                gathering.add("keyword", self._search_keyword(terms, reach, among, ranking))
        with ranking.timed("embed, beyond keyword"):
            vector, notes = embedding.result()
        ranking.notes += notes
        if vector is not None:
            self.use_vector(ranking, vector)
            with ranking.timed("vector"):
                for among in _of_the_time(where, ranking.asked):
                    gathering.add("vector", self._backend.search_vector(COLLECTION, vector, reach, among))
        ranking.candidates = gathering.candidates()
        return vector

    def _list_time(self, ranking: Ranking, question: Question) -> None:
        """Take what was said at the times that a question asks about, or last: what is known of it first, the newest.

        A dream drew a fact from what is worth keeping; what a person said comes before what a program did.
        """
        ranking.is_of_time = True
        spans = ranking.asked.spans
        channels = ranking.scope.channels or set(self._catalog.channel_names())
        reach = max(self._settings.reach, question.limit)
        levels = question.levels or BY_DEFAULT
        nodes = [
            node
            for since, until in _bounds_of(spans)
            for node in self._catalog.said_between(since, until, channels, reach)
            if node.level in levels and ranking.scope.admits(node) and _is_of(node, spans)
        ]
        units = self._catalog.units([node.node_id for node in nodes], ranking.scope)
        placed: dict[NodeId, tuple[bool, int, int]] = {}
        for node in nodes:
            place = (node.level is not Level.FACT, int(node.role in MACHINES), -(node.time_s or 0))
            if (unit := units.get(node.node_id)) is not None:
                placed[unit] = min(place, placed.get(unit, place))
        order = sorted(placed, key=lambda unit: (placed[unit], unit))[:reach]
        ranking.candidates = [
            Candidate(unit, score=1.0 - LISTED_SPREAD * place / len(order)) for place, unit in enumerate(order)
        ]
        if not order and spans:
            ranking.notes.append(f"nothing here is from {' or '.join(map(format_span, spans))}")

    def features(self, ranking: Ranking) -> dict[str, Values]:
        """Return the features of the candidates, in the ranking's order; there is at least one."""
        return features_of(self._found(ranking), ranking.words)

    def priors(self, ranking: Ranking) -> Priors:
        """Return what is added to the candidates' learned scores, in the ranking's order."""
        return self._priors(self._found(ranking), ranking)

    def _priors(self, found: Found, ranking: Ranking) -> Priors:
        trust = self._trust_in(ranking.candidates, self.trusted) if self.trusted else np.zeros(1)
        return priors_of(found, trust, ranking.asked, self._settings.priors)

    def _trust_in(self, candidates: Sequence[Candidate], trusted: Mapping[NodeId, float]) -> Values:
        """Return how much more or less than usual each candidate is trusted, -1 to 1, with all facts drawn from it."""
        known = {one.unit: {one.unit, *one.matched} for one in candidates}
        if judged := [node_id for node_id in trusted if not is_turn(node_id)]:
            for unit, fact in self._catalog.drawn_among(judged, known):
                known[unit].add(fact)
        sums = [sum(trusted.get(node_id, 0.0) for node_id in known[one.unit]) for one in candidates]
        return np.clip(sums, -1.0, 1.0)

    def _found(self, ranking: Ranking) -> Found:
        return Found(
            [one.unit for one in ranking.candidates],
            np.array([one.scores.get("keyword", 0.0) for one in ranking.candidates]),
            np.array([one.scores.get("vector", np.nan) for one in ranking.candidates]),
            speakers_of(ranking.candidates, self._catalog),
            partial(self._catalog.beginnings, chars=READ_CHARS),
        )

    def _score(self, ranking: Ranking) -> None:
        """Order the candidates by the learned scorer and the priors, equals as the arms found them.

        Its scores say which of a question's candidates is better, not how good it is. So the best gets the highest of
        the fused scores, and so on: what is calibrated on these stays so.
        """
        found = self._found(ranking)
        features = features_of(found, ranking.words)
        priors = self._priors(found, ranking)
        of_vectors = self._settings.vector_weight
        fused = (features["keyword"] + of_vectors * features["vector"]) / (1.0 + of_vectors)
        fused *= 1.0 - (1.0 - self._settings.assistant_weight) * features["assistant"]
        learned = scores_of(features, self.weights) + sum(priors.values())
        best_first = np.argsort(-learned, kind="stable").tolist()
        ranking.candidates = [ranking.candidates[place] for place in best_first]
        for candidate, score in zip(ranking.candidates, np.sort(fused)[::-1].tolist(), strict=True):
            candidate.score = score
        if priors:
            for candidate, place in zip(ranking.candidates, best_first, strict=True):
                candidate.priors = {name: float(added[place]) for name, added in priors.items() if added[place]}

    def begin(self, question: Question) -> Ranking:
        """Return a question's ranking without candidates yet."""
        query = read_query(question.text)
        return self._begun(question, query, query_terms(query.words))

    @staticmethod
    def _begun(question: Question, query: QueryText, terms: Sequence[str]) -> Ranking:
        ranking = Ranking(
            [],
            stems_of(terms),
            query.words,
            shows_facts=question.shows_facts,
            scope=question.scope,
        )
        ranking.notes += [query.note] if query.note else []
        ranking.notes += [NO_PAGES_THEN] if question.as_of is not None and {*question.levels} & {*PAGES} else []
        return ranking

    def use_vector(self, ranking: Ranking, vector: Vector) -> None:
        """Let a ranking compare chunks with the question's vector."""
        ranking.vector = vector
        ranking.cosines = partial(self._backend.cosines, COLLECTION, vector)

    def _search_keyword(self, terms: list[str], reach: int, where: Filter, ranking: Ranking) -> list[Match]:
        try:
            with within(KEYWORD_S):
                return self._backend.search_keyword(COLLECTION, terms, reach, where)
        except StoreBusy:
            ranking.notes.append("found by meaning alone: looking its words up took too long")
            return []

    def embed(self, text: str) -> tuple[Vector | None, list[str]]:
        """Return the vector of a question's text; None where there is none, and notes that say why."""
        if not self._backend.capabilities().vector:
            return None, []
        try:
            with self._long_ones if len(text) > SHORT_CHARS else nullcontext():
                return self._embedder.embed_query(text), []
        except ModelUnavailable as error:
            return None, [f"found by keyword alone: {error}"]

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


def _score_last(candidate: Candidate) -> tuple[float, NodeId]:
    return (-candidate.score, candidate.unit)


def _bounds_of(spans: Sequence[Resolved]) -> list[tuple[datetime, datetime]]:
    """Return the times in which what is of some spans is said, some days after them too; without spans all time."""
    if not spans:
        return [(_FIRST, _LAST)]
    told = [(one.first, min(date.max - timedelta(days=1), one.last + TOLD_WITHIN)) for one in spans]
    return [(_midnight(first), _midnight(last + timedelta(days=1))) for first, last in told]


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time_of_day.min, UTC)


def _is_of(node: Node, spans: Sequence[Resolved]) -> bool:
    """Check that a node was said within one of some spans, or names a day of one; any is of none."""
    said_on = node.created_at.astimezone(UTC).date() if node.created_at else date.min
    if not spans or any(one.first <= said_on <= one.last for one in spans):
        return True
    return names_one_of(node.text[:READ_CHARS], said_on, spans)


def _of_the_time(where: Filter, asked: Asked) -> list[Filter]:
    """Return the filter of a search, and that of another among what was said at the time that a question asks about."""
    within_it = [
        (Condition("time", "gte", (int(since.timestamp()),)), Condition("time", "lt", (int(until.timestamp()),)))
        for since, until in _bounds_of(asked.spans)
    ]
    return [where, *([(*where, *one) for one in within_it] if asked.spans else [])]
