"""From a question to ranked memories: arms, fusion, scoring. Each step is one function with its own timing.

State between questions is here too: the trust that feedback gives to memories, and the candidates of past questions.
"""

from __future__ import annotations

import marshal
import math
import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from functools import partial

import numpy as np

from ..embedding.embedding import ModelUnavailable, QueryEmbedder
from ..embedding.vector_cache import Recent, form_of
from ..engine.database import SoftLock, within
from ..engine.interface import Hybrid, Match, Vector, VectorStore
from ..filters import Condition, Filter
from ..index.catalog import Catalog
from ..index.graph import Graph
from ..index.index import COLLECTION
from ..index.projection import Node, is_turn
from ..ledger.ledger import Ledger
from ..limits import MOST_TRUST, TRUST_GAIN
from ..model import Level, NodeId, StoreBusy, trust
from ..results import QueryCacheStatus
from ..roles import MACHINES, Role
from ..settings import QueryCacheSettings, SearchSettings
from ..text.dates import Resolved, format_span, names_one_of
from .gathering import (
    Candidate,
    Gathering,
    Ranking,
    Reranker,
    StepTimes,
    fuse_arms,
    fuse_by_reciprocal_rank,
    in_order,
    node_of_chunk,
    scores_by,
    speakers_of,
)
from .question import BY_DEFAULT, Asked, Question, asked_by
from .scoring import READ_CHARS, CandidateArrays, Priors, Values, features_of, priors_of, scores_of

# Questions embedded at a time: as many as the server answers at once.
QUESTIONS_AT_ONCE = 4

# A question up to this long is embedded in 10 ms or less. Longer ones take up to 40, so they go one at a time, and a
# short one finds a processor.
SHORT_CHARS = 200

# The longest wait for the question before: no slow one holds the others up longer.
#
# One by one, 4 to 32 clients get a fifth more answers a second than at once; while one waits, its question is embedded.
PATIENCE_S = 0.05

# The time limit of keyword search, after which vectors answer alone; at a million turns it takes .02 s.
KEYWORD_S = 1.0

# The best candidates from which links are followed.
LINKS_FOLLOWED = 3

# The days after a time in which turns may still name it: "the kiln broke on Thursday".
TOLD_WITHIN = timedelta(days=7)

# Of the turns of a time the first has the score 1, the last this much less: they are ordered by kind and time alone.
LISTED_SPREAD = 0.4

_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)

# Candidates, at least, whose order is right in every respect: as many as are ever read for an answer.
WEIGHED = 40


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
        self._has_vectors = backend.capabilities().vector
        self._embedder = embedder
        self._settings = settings
        self._now = now
        self._graph = Graph(catalog.connection)
        self._reranker = self._chosen_reranker() if settings.is_reranked else None
        self.trusted: Mapping[NodeId, float] = {}
        """The trust in judged memories, by how much it differs from the usual; replaced as a whole at any time."""
        self.steps = StepTimes()
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
        ranking = Ranking(question, notes=[*question.notes], steps=self.steps)
        if not question.meant:
            return ranking
        embedding = self._embedding.submit(self.embed, question.meant)  # its work is done without the interpreter lock
        with ranking.timed("read"):
            ranking.asked = asked_by(question.words, len(question.stems), question.as_of or self._now())
        with self.alone.held(), self._catalog.one_state(), self._backend.reading():
            if ranking.asked.nothing_else and {*question.levels} <= {*BY_DEFAULT}:
                embedding.cancel()
                with ranking.timed("time"):
                    self._list_time(ranking)
                return ranking
            self._gather(ranking, embedding)
            if ranking.candidates:
                self._order(ranking)
                if self._settings.follow_links and question.is_plain:
                    self._follow_links(ranking)
        return ranking

    def _gather(self, ranking: Ranking, embedding: Future[tuple[Vector | None, list[str]]]) -> None:
        """Ask the arms for candidates; what does not need the question's vector is done while it is being made."""
        question = ranking.question
        reach = max(self._settings.reach, 3 * question.limit)
        filters = _with_the_times(question.conditions, ranking.asked)
        gathering = Gathering(self._catalog, self._backend, question.scope)
        able = self._backend.capabilities()
        if able.server_side_hybrid:
            self._gather_at_once(ranking, embedding, gathering, filters)
            return
        if able.note:
            ranking.notes.append(able.note)
        with ranking.timed("keyword"):
            for where in filters:
                gathering.add("keyword", self._search_keyword(question.terms, reach, where, ranking))
        with ranking.timed("embed, beyond keyword"):
            vector, notes = embedding.result()
        ranking.notes += notes
        if vector is not None:
            self.use_vector(ranking, vector)
            with ranking.timed("vector"):
                for where in filters:
                    gathering.add("vector", self._backend.search_vector(COLLECTION, vector, reach, where))
        ranking.candidates = gathering.candidates()

    def _gather_at_once(
        self,
        ranking: Ranking,
        embedding: Future[tuple[Vector | None, list[str]]],
        gathering: Gathering,
        filters: Sequence[Filter],
    ) -> None:
        """Ask both arms of a server in one request, for which the question's vector is waited for."""
        question = ranking.question
        reach = max(self._settings.reach, 3 * question.limit)
        with ranking.timed("embed"):
            vector, notes = embedding.result()
        ranking.notes += notes
        with ranking.timed("keyword and vector"):
            arms: list[Hybrid]
            if vector is None:
                arms = [(self._search_keyword(question.terms, reach, where, ranking), []) for where in filters]
            else:
                self.use_vector(ranking, vector)
                arms = self._backend.search_hybrid(COLLECTION, question.terms, vector, reach, filters)
        for by_words, _ in arms:
            gathering.add("keyword", by_words)
        for _, by_meaning in arms:
            gathering.add("vector", by_meaning)
        if note := self._backend.capabilities().note:
            ranking.notes.append(note)
        ranking.candidates = gathering.candidates()

    def _order(self, ranking: Ranking) -> None:
        """Order the candidates as the settings say, best first, with scores that fall."""
        vector, settings = ranking.vector, self._settings
        if self._reranker is not None:
            with ranking.timed("score"):
                if vector is not None:
                    self._complete_cosines(ranking, vector)
                ranking.candidates = self._reranker.rerank(ranking.question, ranking.candidates)
            return
        if vector is not None and settings.fusion == "score":
            with ranking.timed("cosines"):
                self._complete_cosines(ranking, vector)
            if settings.scorer == "learned":
                with ranking.timed("score"):
                    self._score(ranking)
                return
        with ranking.timed("fuse"):
            self._fuse(ranking)
        with ranking.timed("score"):
            self._weigh_speakers(ranking, max(WEIGHED, ranking.question.limit))

    def _follow_links(self, ranking: Ranking) -> None:
        """Bring in, or raise, the memories that the best candidates are linked to, with a share of their scores."""
        starts = {name: one.score for one in ranking.candidates[:LINKS_FOLLOWED] for name in (one.unit, *one.matched)}
        reached = self._graph.reached(starts)
        if not reached:
            return
        scope = ranking.question.scope
        nodes = self._catalog.nodes(reached).items()
        admitted = [name for name, node in nodes if node.level in BY_DEFAULT and node.searchable and scope.admits(node)]
        known = {one.unit: one for one in ranking.candidates}
        for name, unit in self._catalog.units(admitted, scope).items():
            score, over = reached[name]
            candidate = known.setdefault(unit, Candidate(unit, {name: name}))
            if score > candidate.score:
                candidate.score, candidate.over = score, over
        ranking.candidates = sorted(known.values(), key=lambda one: -one.score)

    def _list_time(self, ranking: Ranking) -> None:
        """List the turns and facts of the times that a question asks about, or the newest ones.

        Turns with facts come first, since a dream kept these; then turns of people, then of programs, the newest first.
        """
        ranking.is_of_time = True
        question, spans = ranking.question, ranking.asked.spans
        channels = ranking.question.scope.channels or set(self._catalog.channel_names())
        reach = max(self._settings.reach, question.limit)
        levels = question.levels or BY_DEFAULT
        nodes = [
            node
            for since, until in _bounds_of(spans)
            for node in self._catalog.said_between(since, until, channels, reach)
            if node.level in levels and ranking.question.scope.admits(node) and _is_of(node, spans)
        ]
        units = self._catalog.units([node.node_id for node in nodes], ranking.question.scope)
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
        return features_of(self._found(ranking), ranking.question.words)

    def priors(self, ranking: Ranking) -> Priors:
        """Return the priors of the candidates, in the ranking's order."""
        return self._priors(self._found(ranking), ranking)

    def _priors(self, found: CandidateArrays, ranking: Ranking) -> Priors:
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

    def _found(self, ranking: Ranking) -> CandidateArrays:
        scores = [one.scores for one in ranking.candidates]
        return CandidateArrays(
            [one.unit for one in ranking.candidates],
            np.array([one.get("keyword", 0.0) for one in scores]),
            np.array([one.get("vector", math.nan) for one in scores]),
            speakers_of(ranking.candidates, self._catalog),
            partial(self._catalog.beginnings, chars=READ_CHARS),
        )

    def _score(self, ranking: Ranking) -> None:
        """Order the candidates by the learned scorer and the priors, equals as the arms found them.

        The learned scores order the candidates of one question; they do not compare between questions. So the best
        gets the highest of the fused scores, and so on, on which confidence is calibrated.
        """
        found = self._found(ranking)
        features = features_of(found, ranking.question.words)
        priors = self._priors(found, ranking)
        of_vectors = self._settings.vector_weight
        fused = (features["keyword"] + of_vectors * features["vector"]) / (1.0 + of_vectors)
        fused *= 1.0 - (1.0 - self._settings.assistant_weight) * features["assistant"]
        learned = scores_of(features) + sum(priors.values())
        best_first = np.argsort(-learned, kind="stable").tolist()
        ranking.candidates = [ranking.candidates[place] for place in best_first]
        for candidate, score in zip(ranking.candidates, np.sort(fused)[::-1].tolist(), strict=True):
            candidate.score = score
        if priors:
            for candidate, place in zip(ranking.candidates, best_first, strict=True):
                candidate.priors = {name: float(added[place]) for name, added in priors.items() if added[place]}

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

    def with_words(self, terms: Sequence[str], channels: Collection[str] | None, limit: int) -> list[NodeId]:
        """Return the memories with some words, best first, each once; `channels` None is all of them.

        Raises StoreBusy after KEYWORD_S.
        """
        where = () if channels is None else (Condition("channel", "in", tuple(sorted(channels))),)
        with within(KEYWORD_S):
            found = self._backend.search_keyword(COLLECTION, terms, limit, where)
        return list(dict.fromkeys(node_of_chunk(match.id) for match in found))

    def embed(self, text: str) -> tuple[Vector | None, list[str]]:
        """Return the vector of a question's text; None where there is none, and notes that say why."""
        if not self._has_vectors:
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
        if self._settings.fusion == "rrf":
            rankings = [in_order(scores_by(arm, ranking.candidates)) for arm in ("keyword", "vector")]
            fused = fuse_by_reciprocal_rank(rankings, self._settings.rrf_k)
            best = 2 / (self._settings.rrf_k + 1)
        else:
            fused = fuse_arms(ranking.candidates, self._settings.vector_weight)
            best = 1.0 + self._settings.vector_weight
        for unit, score in fused:
            by_unit[unit].score = score / best
        ranking.candidates = [by_unit[unit] for unit, _ in fused]

    def _weigh_speakers(self, ranking: Ranking, first: int) -> None:
        """Scale what an assistant said: it paraphrases the question's words, and its person's word counts for more.

        Done where it can change the `first` candidates: one whose score is below the last of these, scaled, stays so.
        """
        weight = self._settings.assistant_weight
        ranking.candidates.sort(key=_score_last)
        least = weight * ranking.candidates[min(first, len(ranking.candidates)) - 1].score
        roles = self._catalog.roles([one.unit for one in ranking.candidates if one.score >= least])
        for candidate in ranking.candidates:
            if roles.get(candidate.unit) == Role.ASSISTANT:
                candidate.score *= weight
        ranking.candidates.sort(key=_score_last)


def _score_last(candidate: Candidate) -> tuple[float, NodeId]:
    return (-candidate.score, candidate.unit)


def _bounds_of(spans: Sequence[Resolved]) -> list[tuple[datetime, datetime]]:
    """Return the bounds of each span, with the days after it in which turns name it; without spans all time."""
    if not spans:
        return [(_FIRST, _LAST)]
    told = [(one.first, min(date.max - timedelta(days=1), one.last + TOLD_WITHIN)) for one in spans]
    return [(_midnight(first), _midnight(last + timedelta(days=1))) for first, last in told]


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time_of_day.min, UTC)


def _is_of(node: Node, spans: Sequence[Resolved]) -> bool:
    """Return True if a node is of one of the spans or names a day of one, and for no spans."""
    said_on = node.created_at.astimezone(UTC).date() if node.created_at else date.min
    if not spans or any(one.first <= said_on <= one.last for one in spans):
        return True
    return names_one_of(node.text[:READ_CHARS], said_on, spans)


def _with_the_times(where: Filter, asked: Asked) -> list[Filter]:
    """Return the filter of a search, and those of more searches within the times that a question asks about."""
    bounds = _bounds_of(asked.spans) if asked.spans else []
    at = [(int(since.timestamp()), int(until.timestamp())) for since, until in bounds]
    return [
        where,
        *((*where, Condition("time", "gte", (since,)), Condition("time", "lt", (until,))) for since, until in at),
    ]


class Judgements:
    """Gives search the trust in the memories that the ledger has feedback on. Any thread may call it."""

    def __init__(self, ledger: Ledger, search: Search) -> None:
        self._ledger = ledger
        self._search = search
        self.version = 0
        """Counts the changes; each may change rankings."""

    def read(self) -> None:
        """Read all judgements, at the start and after a person's own."""
        self._use(trusted(self._ledger.feedback()))

    def on_used(self, node_ids: Iterable[NodeId]) -> None:
        """Count memories as used, before the ledger has it."""
        known = dict(self._search.trusted)
        for node_id in node_ids:
            known[node_id] = min(MOST_TRUST - 1.0, known.get(node_id, 0.0) + TRUST_GAIN["used"])
        self._use(known)

    def _use(self, known: Mapping[NodeId, float]) -> None:
        self._search.trusted = known
        self.version += 1


def trusted(feedback: Mapping[NodeId, Mapping[str, int]]) -> dict[NodeId, float]:
    """Return by how much the trust in each memory differs from that in one without feedback: -1 to 1, without 0."""
    differences = {node_id: trust(said) - 1.0 for node_id, said in feedback.items()}
    return {node_id: difference for node_id, difference in differences.items() if difference}


class QueryCache:
    """Ranks questions, and keeps the candidates of each for one that asks the same in the same words.

    Questions are the same in `form_of`: names, numbers and negations differ there; case, spacing, articles and commas
    do not. Candidates are shared for the same channel and limit, while `generation` returns the same value: it changes
    with every change of the index. What is shown of them is read anew, and counted.
    """

    def __init__(
        self,
        search: Search,
        values: QueryCacheSettings,
        generation: Callable[[], Hashable],
        now: Callable[[], datetime],
    ) -> None:
        self._search, self._settings, self._generation, self._now = search, values, generation, now
        self.held = Recent[tuple[Vector, bytes, Asked]](values.entries)

    def status(self) -> QueryCacheStatus:
        """Count what is held, and what came of it."""
        return QueryCacheStatus(entries=len(self.held), hits=self.held.hits, misses=self.held.misses)

    def rank(self, question: Question) -> Ranking:
        """Rank the units that answer a question, as `Search.rank` does. Any thread may ask."""
        if not self._settings.entries or not question.is_plain:
            return self._search.rank(question)
        period, state = self._now().timestamp() // self._settings.ttl_s, self._generation()
        reach = question.scope.channels  # it grows when another clone of a project is known
        key = (form_of(question.meant), question.channel, reach, question.session, question.limit, period, state)
        if (found := self.held.get(key)) is not None:
            vector, rows_as_bytes, asked = found
            ranking = Ranking(question, asked=asked, notes=[*question.notes])
            self._search.use_vector(ranking, vector)
            ranking.candidates = [Candidate(*row) for row in marshal.loads(rows_as_bytes)]  # noqa: S302 (our own bytes)
            return ranking
        ranking = self._search.rank(question)
        if ranking.vector is not None and not ranking.notes and state == self._generation():
            # In bytes: an answer changes candidates, and as objects they take seven times the room.
            rows = [
                (one.unit, one.matched, one.scores, None, one.score, one.priors, one.over) for one in ranking.candidates
            ]
            self.held.put(key, (ranking.vector, marshal.dumps(rows), ranking.asked))
        return ranking
