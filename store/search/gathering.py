"""Gathering: the candidates that the arms found for a question, the fusion of the arms' scores, and their records.

The records are read from the catalogue in at most three queries. Whatever comes after the search (relevance,
supersession, hits, packing) reads these and no table.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol

from ..engine.interface import Match, Vector, VectorStore
from ..index.catalog import Catalog, ChunkRow, TurnForm
from ..index.index import COLLECTION
from ..index.projection import TURN_MARK, Node
from ..index.visibility import Scope
from ..model import Evidence, Kind, NodeId
from .question import NOTHING_ASKED, Asked, Question
from .supersession import States, states_of

CHUNK_MARK = "#chunk-"

# The upper bounds of the buckets in which the times of steps are counted.
BOUNDS_OF_STEPS_S = (0.0002, 0.001, 0.005, 0.02, 0.1, 0.5, 2.0)

# The fields of a turn's chunk that name its speaker and describe its form: those of `TurnForm`.
SPEAKER_FIELDS = ("role", "size", "asks", "time")

# The speaker of a candidate that was removed since it was found.
UNKNOWN_SPEAKER = TurnForm()


@dataclass(slots=True)
class Candidate:
    """One unit of evidence on its way through the pipeline: a turn with the facts that cite it, or a memory.

    `matched` holds the nodes that matched, each with its best matching chunk: by vector if it has one, else by keyword.
    `scores` are the best by arm, `priors` the terms added to its learned score. `said` is None until it was read.
    `over` is the memory whose link brought it, or raised it.
    """

    unit: NodeId
    matched: dict[NodeId, NodeId] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)
    said: TurnForm | None = None
    score: float = 0.0
    priors: dict[str, float] = field(default_factory=dict)
    over: NodeId | None = None

    def best(self) -> tuple[NodeId, NodeId]:
        """Return the node that represents it, a memory before the turn that it cites, and its matching chunk."""
        if not self.matched:  # it was not found: supersession put it before a candidate
            return self.unit, self.unit
        for node_id, chunk in self.matched.items():
            if TURN_MARK not in node_id:
                return node_id, chunk
        return next(iter(self.matched.items()))


class Histogram:
    """A count of durations by bucket, whose upper bounds are given in seconds, and their sum.

    Who counts adds by itself: a sample is two additions, and its way through another file would be more than they are.
    """

    __slots__ = ("bounds_s", "counts", "total_s")

    def __init__(self, bounds_s: Sequence[float]) -> None:
        self.bounds_s = bounds_s
        self.counts = [0] * (len(bounds_s) + 1)
        self.total_s = 0.0


class StepTimes:
    """The times of the steps of questions since the start. Any thread may call."""

    def __init__(self) -> None:
        self.by_step: dict[str, Histogram] = {}
        self._lock = Lock()

    def add(self, step: str, seconds: float) -> None:
        """Count the duration of a step."""
        with self._lock:
            histogram = self.by_step.get(step)
            if histogram is None:
                histogram = self.by_step[step] = Histogram(BOUNDS_OF_STEPS_S)
            histogram.counts[bisect_left(BOUNDS_OF_STEPS_S, seconds)] += 1
            histogram.total_s += seconds


@dataclass(slots=True)
class Ranking:
    """The candidates of a question, best first, and how they were found.

    `asked` is the question's form. `is_of_time`: the candidates are the turns and facts of the time that it asks about,
    and no thing was searched for. Turns of `session` are left out. `cosines` returns how near other chunks are to the
    question; {} without vectors. `steps` counts its times with those of other questions. `incomplete`: not all that is
    remembered could be found.
    """

    question: Question
    candidates: list[Candidate] = field(default_factory=list)
    asked: Asked = NOTHING_ASKED
    is_of_time: bool = False
    session: NodeId | None = None
    vector: Vector | None = None
    cosines: Callable[[Collection[NodeId]], dict[NodeId, float]] = lambda chunks: {}
    timings_ms: dict[str, float] = field(default_factory=dict)
    steps: StepTimes | None = None
    notes: list[str] = field(default_factory=list)
    incomplete: bool = False

    def leave_out_session(self, session_id: NodeId | None) -> None:
        """Drop the candidates that are a session's own turns: its agent has them."""
        if session_id is not None:
            self.session = session_id
            self.candidates = [one for one in self.candidates if not self.is_left_out(one.unit)]

    def leave_out(self, units: Collection[NodeId]) -> None:
        """Drop candidates that the asking agent has by other means."""
        if units:
            self.candidates = [one for one in self.candidates if one.unit not in units]

    def is_left_out(self, unit: NodeId) -> bool:
        """Return True for a turn of the session that is left out."""
        return self.session is not None and unit.partition("#")[0] == self.session

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Record the duration of a step."""
        began = time.perf_counter()
        yield
        took_s = time.perf_counter() - began
        self.timings_ms[step] = round(took_s * 1e3, 3)
        if self.steps is not None:
            self.steps.add(step, took_s)


class Reranker(Protocol):
    """A ranking in place of the default; chosen by the settings, and loaded only then."""

    def rerank(self, question: Question, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return an order, best first, with scores that fall; it may leave out candidates and bring others in."""
        ...


class Gathering:
    """Collects the candidates of one question: the chunks of one node, and the facts of one turn, are one candidate."""

    def __init__(self, catalog: Catalog, backend: VectorStore, scope: Scope) -> None:
        self._catalog = catalog
        self._backend = backend
        self._scope = scope
        self._unit_of: dict[NodeId, NodeId] = {}
        self._by_unit: dict[NodeId, Candidate] = {}

    def candidates(self) -> list[Candidate]:
        """Return the candidates, in the order in which they were found, with the speakers of those found themselves."""
        found = list(self._by_unit.values())
        itself = {one.matched[one.unit]: one for one in found if one.unit in one.matched}
        # Most candidates are turns that were found themselves: their fields are in memory. The speaker of a turn of
        # which only a fact was found is read from the catalogue.
        fields = self._backend.fields(COLLECTION, itself, SPEAKER_FIELDS) if itself else {}
        for chunk, (role, size, asks, time_s) in fields.items():
            itself[chunk].said = TurnForm(
                str(role or ""),
                size if isinstance(size, int) else 0,
                asks is not None,
                time_s if isinstance(time_s, int) else None,
            )
        return found

    def add(self, arm: str, matches: Sequence[Match]) -> None:
        """Add an arm's matches, best first: the first of a node is its best, and comes before those of earlier arms."""
        best: dict[NodeId, Match] = {}
        for match in matches:
            best.setdefault(match.id.partition(CHUNK_MARK)[0], match)
        unit_of, by_unit = self._unit_of, self._by_unit
        if new := best.keys() - unit_of.keys():
            unit_of |= self._catalog.units(new, self._scope)
        found: dict[NodeId, dict[NodeId, NodeId]] = {}
        for node_id, (chunk, score) in best.items():
            if (unit := unit_of.get(node_id)) is None:  # it was removed since the arm was asked
                continue
            if (matched := found.get(unit)) is not None:
                matched[node_id] = chunk
                continue
            found[unit] = {node_id: chunk}
            if (candidate := by_unit.get(unit)) is None:
                by_unit[unit] = Candidate(unit, found[unit], {arm: score})
            else:
                candidate.scores[arm] = score
        for unit, matched in found.items():
            candidate = by_unit[unit]
            if candidate.matched is not matched:
                # The order of this arm, then that of earlier ones, and of a node that both found this arm's chunk: a
                # union keeps the place of the first operand's key and the value of the last.
                candidate.matched = matched | candidate.matched | matched


def speakers_of(candidates: Sequence[Candidate], catalog: Catalog) -> list[TurnForm]:
    """Return the speakers of candidates, and set those that are not known yet."""
    if unknown := [one for one in candidates if one.said is None]:
        speakers = catalog.speakers([one.unit for one in unknown])
        for one in unknown:
            one.said = speakers.get(one.unit, UNKNOWN_SPEAKER)
    return [one.said or UNKNOWN_SPEAKER for one in candidates]


def node_of_chunk(chunk_id: NodeId) -> NodeId:
    """Return the id of the node that a chunk is a piece of."""
    return chunk_id.partition(CHUNK_MARK)[0]


def scores_by(arm: str, candidates: Iterable[Candidate]) -> dict[NodeId, float]:
    """Return the scores of an arm, by unit."""
    return {candidate.unit: candidate.scores[arm] for candidate in candidates if arm in candidate.scores}


def in_order(scores: Mapping[NodeId, float]) -> list[NodeId]:
    """Return units by their score, the best first, ties by id."""
    return sorted(scores, key=lambda unit: (-scores[unit], unit))


def fuse_by_reciprocal_rank(rankings: Sequence[Sequence[NodeId]], k: int = 60) -> list[tuple[NodeId, float]]:
    """Fuse ranked lists, best first, by reciprocal rank (Cormack 2009, k = 60).

    Ids are unique within a list. Scores lie in (0, len(rankings) / (k + 1)]; ties go by node id, so the order is
    the same on every machine.
    """
    scores: dict[NodeId, float] = {}
    for ranking in rankings:
        for rank, node_id in enumerate(ranking, start=1):
            scores[node_id] = scores.get(node_id, 0.0) + 1.0 / (k + rank)
    return _best_first(scores)


def fuse_by_score(
    arms: Sequence[Mapping[NodeId, float]], weights: Sequence[float], floors: Sequence[float | None] = ()
) -> list[tuple[NodeId, float]]:
    """Fuse scored answers: each arm scaled to [0, 1] (min-max), then the weighted sum.

    An id that an arm did not return counts 0 there. What scales to 0 is the arm's lowest score, or its floor where one
    is given (0.0 for bm25: a weak match is still better than none). An arm whose scores are all alike gives 1 to each.
    Ties go by node id. Raises ValueError when `weights` or `floors` do not match the arms.
    """
    if len(weights) != len(arms) or (floors and len(floors) != len(arms)):
        raise ValueError("one weight, and one floor if any, for each arm")
    scores: dict[NodeId, float] = {}
    for arm, weight, floor in zip(arms, weights, floors or [None] * len(arms), strict=True):
        for node_id, scaled in _scaled(arm, floor).items():
            scores[node_id] = scores.get(node_id, 0.0) + weight * scaled
    return _best_first(scores)


def _scaled(arm: Mapping[NodeId, float], floor: float | None) -> dict[NodeId, float]:
    if not arm:
        return {}
    high = max(arm.values())
    low = min(arm.values()) if floor is None else min(floor, high)
    spread = high - low
    if spread <= 0.0:
        return dict.fromkeys(arm, 1.0)
    return {node_id: max(0.0, (score - low) / spread) for node_id, score in arm.items()}


def _best_first(scores: Mapping[NodeId, float]) -> list[tuple[NodeId, float]]:
    return sorted(scores.items(), key=lambda scored: (-scored[1], scored[0]))


def fuse_arms(candidates: Sequence[Candidate], vector_weight: float) -> list[tuple[NodeId, float]]:
    """Fuse the scores of both arms, the best first; scores lie in [0, 1 + vector_weight]."""
    keyword, vector = (scores_by(arm, candidates) for arm in ("keyword", "vector"))
    fused = fuse_by_score([keyword, vector], [1.0, vector_weight], [0.0, None])
    # A text that waits for its vector has no cosine yet: its words count for both arms.
    waiting = keyword.keys() - vector.keys()
    scores = {unit: score * (1.0 + vector_weight) if unit in waiting else score for unit, score in fused}
    return [(unit, scores[unit]) for unit in in_order(scores)]


class AnswerRecords:
    """The results: `nodes` by id, and `states`, the facts of units with what became of each.

    The first query reads links, the second all nodes, the third, of those that are shown at last, the turns that they
    cite. `nodes` are those that were asked for by name; the other ends of links are named in `states` alone, so that
    what is weighed does not depend on how facts are linked.
    """

    def __init__(self, catalog: Catalog, scope: Scope) -> None:
        self._catalog = catalog
        self._scope = scope
        self._read: dict[NodeId, Node] = {}
        self.nodes: dict[NodeId, Node] = {}
        self.states = States()
        self.best: dict[NodeId, tuple[NodeId, NodeId]] = {}
        """The node that represents each candidate, and its matching chunk, by unit."""
        self.beside: dict[NodeId, tuple[NodeId | None, NodeId | None]] = {}
        """The turns right before and after each unit in its session, read or not."""

    def read(self, names: Collection[NodeId], units: Collection[NodeId]) -> None:
        """Read nodes by their names, and the facts drawn from units; what was read before stays."""
        links = self._catalog.fact_links(units) if units else []
        wanted = {*names, *(end for link in links for end in (link.source, link.target))}
        if unread := wanted - self._read.keys():
            self._read |= self._catalog.nodes(unread)
        self.nodes |= {name: self._read[name] for name in names if name in self._read}
        self.states |= states_of(units, self._read, links, self._scope)

    def evidence(self, nodes: Iterable[Node]) -> Mapping[NodeId, tuple[Evidence, ...]]:
        """Return the turns that each node cites, of the question's channels; a turn is its own evidence."""
        return evidence_of(nodes, self._catalog, self._scope)

    def chunks(self, node_ids: Collection[NodeId]) -> Mapping[NodeId, list[ChunkRow]]:
        """Return the chunks of long texts, each text's in its order."""
        return self._catalog.chunks_of(node_ids) if node_ids else {}


def fetch(ranking: Ranking, catalog: Catalog, read: int, *, beside: int = 0, facts: int | None = None) -> AnswerRecords:
    """Read the `read` best candidates, the turns right before each, and what became of the facts of `facts` of them.

    Of the `beside` best the turns on both sides are read as candidates are: an answer often follows a question.
    """
    records = AnswerRecords(catalog, ranking.question.scope)
    best = ranking.candidates[:read]
    records.best = {one.unit: one.best() for one in best}
    records.beside = {one.unit: _turns_beside(one.unit) for one in best}
    others = {name for one in best[:beside] for name in records.beside[one.unit] if name is not None}
    records.beside |= {name: _turns_beside(name) for name in others - records.beside.keys()}
    units = records.beside.keys()
    names = {*units, *(node_id for node_id, _ in records.best.values())}
    names |= {before for one in names if (before := (records.beside.get(one) or _turns_beside(one))[0]) is not None}
    records.read(names, units if facts is None else [one.unit for one in best[:facts]])
    return records


def _turns_beside(node_id: NodeId) -> tuple[NodeId | None, NodeId | None]:
    """Return the ids of the turns before and after one in its session; None for the first, and for what is no turn."""
    session, _, ordinal = node_id.rpartition("#")
    if not session or not ordinal.isdigit():
        return None, None
    place = int(ordinal)
    return f"{session}#{place - 1}" if place > 1 else None, f"{session}#{place + 1}"


def evidence_of(nodes: Iterable[Node], catalog: Catalog, scope: Scope) -> dict[NodeId, tuple[Evidence, ...]]:
    """Return the turns that each node cites, of the scope's channels; a turn is its own evidence."""
    others = []
    evidence: dict[NodeId, tuple[Evidence, ...]] = {}
    for node in nodes:
        if node.kind is Kind.TURN:
            evidence[node.node_id] = (Evidence(node.node_id, node.external_id),)
        else:
            others.append(node.node_id)
    return evidence | catalog.evidence(others, scope) if others else evidence
