"""Rerankers: rankings in place of the default, chosen by the settings and loaded only then.

A pipeline of score stages fuses both arms, then runs the stages that are switched on, in the order of `Stages`. The
formulas are those of other projects; docs/presets.md names the sources. A cross-encoder reads question and text as one.
"""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from .. import settings as values
from ..engine.interface import VectorStore
from ..engine.vectors import unit
from ..index.catalog import Catalog
from ..index.index import COLLECTION
from ..index.projection import LATER, SUCCESSOR, Node
from ..index.visibility import Scope
from ..model import NodeId
from ..settings import PRESETS, SearchSettings, Stages
from .gathering import Candidate, Reranker, fuse_arms, fuse_by_score
from .question import PAGES, Question
from .supersession import drawn_from

# The edge of each kind of link between facts; others are `other`.
KIND_OF_LINK = {"supersedes": "supersedes", SUCCESSOR: "supersedes", LATER: "supersedes", "relates": "related"}

# Facts of one page, or of one tag, that are linked to each other: a page of a year is about everything.
MOST_OF_A_PAGE = 12

Scores = NDArray[np.float64]
Order = NDArray[np.intp]
Edge = tuple[int, int, str]
PAST, NO_TENSE, CURRENT = -1, 0, 1
NO_SESSION = -1


def reranker(settings: SearchSettings, catalog: Catalog, backend: VectorStore, now: Callable[[], datetime]) -> Reranker:
    """Return the reranker of the settings; ages count from `now`, or from the time as of which a question is asked."""
    if settings.cross_encoder is not None:
        return CrossEncoderReranker(settings, catalog)
    return StageReranker(stages_of(settings), catalog, backend, now)


def stages_of(settings: SearchSettings) -> Stages:
    """Return the preset's pipeline, or a plain one, with the settings' own stages and without those switched off."""
    stages = PRESETS[settings.preset] if settings.preset else Stages()
    return stages.overlaid(settings.stages or Stages()).without(*settings.without)


class StageReranker:
    """Ranks by a pipeline of score stages."""

    def __init__(self, stages: Stages, catalog: Catalog, backend: VectorStore, now: Callable[[], datetime]) -> None:
        self._stages = stages
        self._catalog = catalog
        self._backend = backend
        self._now = now

    def rerank(self, question: Question, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return what the stages leave, best first. Links bring nothing in where a question has filters of its own."""
        known = {one.unit: one for one in candidates}
        now = question.as_of or self._now()
        pool = self.pool(candidates, question.scope, now, brings=question.is_plain)
        ranked = []
        for name, score in run(pool, self._stages, question.limit):
            ranked.append(known.get(name) or Candidate(name))
            ranked[-1].score = score
        return ranked

    def pool(self, candidates: Sequence[Candidate], scope: Scope, now: datetime, *, brings: bool = True) -> Pool:
        """Return candidates as a pool, and if it `brings`, what they are linked to in the scope."""
        known = {one.unit: one for one in candidates}
        facts: dict[NodeId, list[Node]] = {}
        if self._stages.tense is not None or self._stages.cascade is not None:
            to_facts = self._catalog.fact_links(known)
            ends = self._catalog.nodes({*known, *(link.source for link in to_facts)})
            drawn = drawn_from(known, ends, to_facts, scope)
            facts = {name: [fact for fact, is_reworded in of if not is_reworded] for name, of in drawn.items()}
        links = list(self._links(facts, scope)) if self._stages.cascade else []
        links = [link for link in links if brings or (link[0] in known and link[1] in known)]
        units = tuple(sorted({*known, *(name for one, other, _ in links for name in (one, other))}))
        place = {name: n for n, name in enumerate(units)}
        found = self._catalog.nodes(units)
        nodes = [found.get(name) for name in units]
        sessions = {name: n for n, name in enumerate({node.session_id for node in found.values()} - {None})}
        scores = [known[name].scores if name in known else {} for name in units]
        return Pool(
            units=units,
            keyword=np.array([one.get("keyword", np.nan) for one in scores], np.float64),
            cosine=np.array([one.get("vector", np.nan) for one in scores], np.float64),
            age_days=np.maximum(0.0, now.timestamp() - np.array([_seconds(node) for node in nodes])) / 86_400.0,
            chars=np.array([len(node.text) if node else 0 for node in nodes], np.float64),
            session=np.array([sessions.get(node.session_id if node else None, NO_SESSION) for node in nodes], np.int64),
            certainty=np.array([1.0 if node is None or node.certainty is None else node.certainty for node in nodes]),
            tense=np.array([_tense(facts.get(name, ()), now) for name in units], np.int64),
            vectors=self._vectors(units, known),
            edges=tuple((place[one], place[other], kind) for one, other, kind in links),
        )

    def _vectors(self, units: Sequence[NodeId], known: Mapping[NodeId, Candidate]) -> NDArray[np.float32]:
        if self._stages.mmr is None and self._stages.near_duplicates is None:
            return np.zeros((len(units), 1), np.float32)
        chunks = {name: next(iter(one.matched.values())) for name, one in known.items()}
        points = self._backend.get(COLLECTION, list(chunks.values()))
        found = {point.id: point.vector for point in points if point.vector is not None}
        nothing = np.zeros(max((len(vector) for vector in found.values()), default=1), np.float32)
        return unit(np.array([found.get(chunks.get(name, ""), nothing) for name in units], np.float32))

    def _links(self, facts: Mapping[NodeId, Sequence[Node]], scope: Scope) -> Iterator[tuple[NodeId, NodeId, str]]:
        """Yield the links that start at the candidates' facts, as links between units."""
        live = {fact.node_id: fact for listed in facts.values() for fact in listed if scope.admits(fact)}
        found = self._catalog.links_around(live)
        others = {name for source, target, _ in found for name in (source, target)}
        nodes = {name: node for name, node in self._catalog.nodes(others).items() if scope.admits(node)}
        unit_of = self._catalog.units({*nodes, *live}, scope)
        groups: dict[tuple[str, str], list[NodeId]] = defaultdict(list)
        for source, target, kind in found:
            if source not in nodes or target not in nodes or unit_of[source] == unit_of[target]:
                continue
            if kind == "cites" and nodes[source].level in PAGES:
                groups["page", source].append(unit_of[target])
            elif nodes[source].level not in PAGES and nodes[target].level not in PAGES:
                yield unit_of[source], unit_of[target], "cites" if kind == "cites" else KIND_OF_LINK.get(kind, "other")
        for fact in live.values():
            for tag in fact.tags:
                groups["tag", tag].append(unit_of.get(fact.node_id, fact.node_id))
        for (kind, _), members in groups.items():
            if len(members) <= MOST_OF_A_PAGE:
                yield from ((one, other, kind) for one, other in combinations(dict.fromkeys(members), 2))


@dataclass(frozen=True, slots=True)
class Pool:
    """The candidates of one question as arrays over n, in the order of their ids.

    `keyword` (bm25) and `cosine` are nan where an arm has no score: what only a link brought in has neither. `age_days`
    is at least 0, nan where unknown. `session` is a number, or NO_SESSION. `certainty`
    is 1 where none was given. `vectors` are unit vectors (n × dimension), zeros where there is none. `edges` are
    links between two candidates by their place, each with its kind, followed both ways.
    """

    units: tuple[NodeId, ...]
    keyword: Scores
    cosine: Scores
    age_days: Scores
    chars: Scores
    session: NDArray[np.int64]
    certainty: Scores
    tense: NDArray[np.int64]
    vectors: NDArray[np.float32]
    edges: tuple[Edge, ...] = ()

    def __len__(self) -> int:
        """Return n."""
        return len(self.units)


def run(pool: Pool, stages: Stages, limit: int) -> list[tuple[NodeId, float]]:
    """Return what the stages leave of a pool, best first, ties by id; scores fall or stay from one to the next.

    `limit` is the number of hits that are asked for.
    """
    scores = fuse(pool, stages.fusion, limit)
    for name, scored in SCORING.items():
        if (settings := getattr(stages, name)) is not None:
            with np.errstate(invalid="ignore"):  # a factor of 0 on what is no candidate
                scores = scored(scores, pool, settings)
            scores = np.where(np.isnan(scores), -np.inf, scores)
    order = best_first(scores)
    if stages.mmr is not None:
        order = mmr(order, scores, pool, stages.mmr)
    if stages.near_duplicates is not None:
        order = near_duplicates(order, pool, stages.near_duplicates)
    if stages.session_cap is not None:
        order = session_cap(order, pool, stages.session_cap)
    falling = np.minimum.accumulate(scores[order]) if len(order) else scores[order]
    return [(pool.units[place], float(score)) for place, score in zip(order, falling, strict=True)]


def best_first(scores: Scores) -> Order:
    """Return the places of all that has a score, the best first; ties by place. -inf and nan are no scores."""
    usable = np.flatnonzero(np.isfinite(scores))
    return np.asarray(usable[np.argsort(-scores[usable], kind="stable")], np.intp)


def fuse(pool: Pool, settings: values.Fusion, limit: int) -> Scores:
    """Return the fused score of each candidate, in [0, 1] times `share`; -inf where no arm of some weight has it."""
    most = max(settings.over_fetch * limit, settings.least) if settings.over_fetch else len(pool)
    weights = (settings.keyword_weight, settings.vector_weight)
    keyword, cosine = (
        _cut(arm, most if weight else 0) for arm, weight in zip((pool.keyword, pool.cosine), weights, strict=True)
    )
    fused = np.zeros(len(pool))
    if settings.method == "rrf":  # over the best that there could be
        for arm, weight in zip((keyword, cosine), weights, strict=True):
            ranking = best_first(arm)
            fused[ranking] += weight * (1.0 / (settings.rrf_k + np.arange(1, len(ranking) + 1)))
        fused *= settings.rrf_k + 1
    elif settings.method == "weighted":
        best = max(float(np.nan_to_num(keyword).max(initial=0.0)), 1e-12)
        fused = weights[0] * np.nan_to_num(keyword) / best + weights[1] * np.nan_to_num(cosine).clip(0, 1)
    else:
        arms = [{str(place): float(arm[place]) for place in best_first(arm)} for arm in (keyword, cosine)]
        for place, score in fuse_by_score(arms, weights, [0.0, None]):
            fused[int(place)] = score
        if all(weights):  # words speak for both arms of what waits for its vector
            fused[np.isnan(pool.cosine) & ~np.isnan(keyword)] *= sum(weights) / weights[0]
    fused /= sum(weights) or 1.0
    fused[np.isnan(keyword) & np.isnan(cosine)] = -np.inf
    return np.asarray(settings.share * fused, np.float64)


def _cut(scores: Scores, most: int) -> Scores:
    """Return an arm with its best candidates alone, nan elsewhere."""
    kept = np.full_like(scores, np.nan)
    order = best_first(scores)[:most]
    kept[order] = scores[order]
    return kept


# -- stages that score: new scores of the same candidates; -inf, no candidate any more, stays so


def cosine_rerank(scores: Scores, pool: Pool, settings: values.CosineRerank) -> Scores:
    """Return (1 - blend) · score + blend · cosine, the cosine in [0, 1]; what has none keeps its score."""
    blended = (1 - settings.blend) * scores + settings.blend * pool.cosine.clip(0.0, 1.0)
    return np.where(np.isnan(pool.cosine), scores, blended)


def recency(scores: Scores, pool: Pool, settings: values.RecencyBoost) -> Scores:
    """Return scores plus weight · 2^(-age / half-life), or its logistic; of unknown age plus half of the weight."""
    if settings.shape == "logistic":
        exponent = np.clip(settings.steepness * (pool.age_days - settings.half_life_days), -500.0, 500.0)
        share = 1.0 / (1.0 + np.exp(exponent))
    else:
        share = np.exp2(-pool.age_days / settings.half_life_days)
    return scores + settings.weight * np.where(np.isnan(pool.age_days), 0.5, share)


def importance(scores: Scores, pool: Pool, settings: values.Importance) -> Scores:
    """Return scores times floor + (1 - floor) · certainty."""
    return scores * (settings.floor + (1 - settings.floor) * pool.certainty.clip(0.0, 1.0))


def tense(scores: Scores, pool: Pool, settings: values.Tense) -> Scores:
    """Return scores times the factor of their tense."""
    return scores * np.where(pool.tense == CURRENT, settings.current, np.where(pool.tense == PAST, settings.past, 1.0))


def length(scores: Scores, pool: Pool, settings: values.LengthNormalisation) -> Scores:
    """Return scores over 1 + slope · log2(length / anchor), short texts as they are."""
    return scores / (1.0 + settings.slope * np.log2(np.maximum(1.0, pool.chars / settings.anchor_chars)))


def time_decay(scores: Scores, pool: Pool, settings: values.TimeDecay) -> Scores:
    """Return scores times floor + (1 - floor) · 2^(-age / half-life); of unknown age as they are."""
    decay = np.exp2(-pool.age_days / settings.half_life_days)
    return scores * np.where(np.isnan(decay), 1.0, settings.floor + (1 - settings.floor) * decay)


def minimum(scores: Scores, pool: Pool, settings: values.HardMinimum) -> Scores:
    """Return scores with those below the minimum as -inf."""
    return np.where(scores < settings.score, -np.inf, scores)


def cascade(scores: Scores, pool: Pool, settings: values.Cascade) -> Scores:
    """Return scores of which each is at least what a walk from a seed brings it.

    A walk of links l1, l2, … brings seed · w(l1) · step · w(l2) · step² · …: the n-th link counts step^n, as published.
    A candidate is entered from the first walk that reaches it, breadth first, the best seeds first.
    """
    weights = settings.model_dump()
    beside: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for one, other, kind in pool.edges:
        for start, end in ((one, other), (other, one)):
            beside[start].append((end, float(weights.get(kind, settings.other))))
    near = np.nan_to_num(pool.cosine, nan=-2.0) >= settings.least_cosine
    seeds = [int(place) for place in best_first(scores) if near[place]][: settings.seeds]
    result = scores.copy()
    queue = deque((place, float(scores[place]), 0) for place in seeds)
    visited: set[int] = set()
    while queue:
        place, score, depth = queue.popleft()
        if place in visited:
            continue
        visited.add(place)
        for other, weight in beside[place] if depth < settings.depth else ():
            brought = score * weight * settings.step ** (depth + 1)
            if other not in visited and brought > result[other]:
                result[other] = brought
                queue.append((other, brought, depth + 1))
    return result


SCORING: Final[Mapping[str, Callable[[Scores, Pool, Any], Scores]]] = {
    stage.__name__: stage
    for stage in (
        *(cosine_rerank, recency, importance, tense),
        *(length, time_decay, minimum, cascade),
    )
}

# -- stages that choose: of an order, best first, they leave some out or put them elsewhere


def mmr(order: Order, scores: Scores, pool: Pool, settings: values.Mmr) -> Order:
    """Return an order by maximal marginal relevance (Carbonell and Goldstein 1998) of the `best` candidates.

    It is share · relevance, scaled to [0, 1], - (1 - share) · the highest cosine with what is already chosen.
    """
    head = order[: settings.best]
    if not len(head):
        return order
    vectors = pool.vectors[head]
    relevance = scores[head] - scores[head].min()
    relevance = relevance / (relevance.max() or 1.0)
    likeness = np.zeros(len(head))
    left, chosen = list(range(len(head))), []
    while left:
        gain = settings.share * relevance[left] - (1 - settings.share) * likeness[left]
        chosen.append(left.pop(int(np.argmax(gain))))
        near = vectors @ vectors[chosen[-1]]
        likeness = near if len(chosen) == 1 else np.maximum(likeness, near)
    return np.concatenate([head[chosen], order[settings.best :]])


def near_duplicates(order: Order, pool: Pool, settings: values.NearDuplicates) -> Order:
    """Return an order with those behind all others that are too near to a better one that is not."""
    kept: list[int] = []
    behind: list[int] = []
    for place in map(int, order):
        near = pool.vectors[kept] @ pool.vectors[place]
        (behind if bool(np.any(near > settings.cosine)) else kept).append(place)
    return np.array([*kept, *behind], np.intp)


def session_cap(order: Order, pool: Pool, settings: values.SessionCap) -> Order:
    """Return an order without what is beyond the allowed number of its session."""
    seen: dict[int, int] = defaultdict(int)
    kept = []
    for place in map(int, order):
        seen[session := int(pool.session[place])] += 1
        if session == NO_SESSION or seen[session] <= settings.hits:
            kept.append(place)
    return np.array(kept, np.intp)


def _tense(facts: Iterable[Node], now: datetime) -> int:
    """Return the tense of a unit: current if one of its facts holds, past if none does any more."""
    holds = [fact.live and (fact.valid_to is None or _aware(fact.valid_to) > now) for fact in facts]
    return NO_TENSE if not holds else CURRENT if any(holds) else PAST


def _seconds(node: Node | None) -> float:
    return np.nan if node is None or node.created_at is None else _aware(node.created_at).timestamp()


def _aware(at: datetime) -> datetime:
    return at if at.tzinfo else at.replace(tzinfo=UTC)


logger = logging.getLogger(__name__)

# Characters of a text that it reads: about 400 tokens, of the 512 that such models take.
READ_CHARS = 1_600

# fastembed asks for a name of its list also where a folder holds the model; it then reads the files of that folder.
NAME_OF_A_FOLDER = "Xenova/ms-marco-MiniLM-L-6-v2"


class CrossEncoderReranker:
    """Orders the best candidates of both arms; it takes 10 ms a text and more.

    The candidates keep the fused scores, the best one the highest, since confidences are calibrated on these. Where the
    model cannot be loaded (nothing is downloaded) the fused order stays.
    """

    def __init__(self, settings: SearchSettings, catalog: Catalog) -> None:
        self._settings = settings
        self._catalog = catalog
        self._encoder: Any = None
        self._is_missing = False

    def rerank(self, question: Question, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return all candidates, the first `cross_encoder_reads` of the fused order in the order of the model."""
        known = {one.unit: one for one in candidates}
        fused = fuse_arms(candidates, self._settings.vector_weight)
        head = [name for name, _ in fused[: self._settings.cross_encoder_reads]]
        order = [*self._read(question.text, head), *(name for name, _ in fused[len(head) :])]
        ranked = [known[name] for name in order]
        for candidate, (_, score) in zip(ranked, fused, strict=True):
            candidate.score = score / (1.0 + self._settings.vector_weight)
        return ranked

    def _read(self, question: str, units: Sequence[NodeId]) -> list[NodeId]:
        """Return units in the order of the model, equals as they are given."""
        if self._encoder is None and not self._is_missing:
            self._load(str(self._settings.cross_encoder))
        if self._encoder is None:
            return list(units)
        texts = self._catalog.beginnings(units, READ_CHARS)
        scores = list(self._encoder.rerank(question, [texts.get(name, "") for name in units]))
        order: list[int] = np.argsort(-np.array(scores), kind="stable").tolist()
        return [units[place] for place in order]

    def _load(self, name: str) -> None:
        from fastembed.rerank.cross_encoder import TextCrossEncoder

        folder = Path(name)
        options: dict[str, Any] = {"local_files_only": True}
        if folder.is_dir():
            options = {"specific_model_path": name}
        try:
            self._encoder = TextCrossEncoder(NAME_OF_A_FOLDER if folder.is_dir() else name, threads=1, **options)
        except Exception as error:  # fastembed raises ValueError, the hub's errors and onnxruntime's own
            self._is_missing = True
            logger.warning("the cross-encoder %s cannot be loaded (%s)", name, type(error).__name__)
