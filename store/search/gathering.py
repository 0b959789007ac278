"""Gathering: what the arms found, as candidates, each arm as soon as it answers; and fusion of their ranked lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..engine.interface import Match, VectorStore
from ..index.catalog import Catalog, Said
from ..index.index import COLLECTION
from ..index.projection import is_turn
from ..index.scope import Scope
from ..model import NodeId
from .question import Question

CHUNK_MARK = "#chunk-"

SAID_FIELDS = ("role", "size", "asks", "time")
"""The payload of a turn's chunk that says who said it, and in what form."""


@dataclass(slots=True)
class Candidate:
    """One unit of evidence on its way through the pipeline: a turn with the facts that cite it, or a memory.

    `matched` holds the nodes that matched, each with its best matching chunk: by vector if it did so, else by keyword.
    `scores` are the best by arm, `priors` what was added to its learned score. `said` is None until its speaker is
    known.
    """

    unit: NodeId
    matched: dict[NodeId, NodeId] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)
    said: Said | None = None
    score: float = 0.0
    priors: dict[str, float] = field(default_factory=dict)

    def best(self) -> tuple[NodeId, NodeId]:
        """Return the node that stands for it, a memory before the turn that it cites, and its matching chunk."""
        if not self.matched:  # it was put before a candidate that it supersedes
            return self.unit, self.unit
        node_id = next((node_id for node_id in self.matched if not is_turn(node_id)), next(iter(self.matched)))
        return node_id, self.matched[node_id]


class Reranker(Protocol):
    """A ranking in place of the default; chosen by the settings, and loaded only then."""

    def rerank(self, question: Question, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return an order, best first, with scores that fall; it may leave out candidates and bring others in."""
        ...


class Gathering:
    """The candidates of one question: the chunks of one node, and the facts of one turn, are one candidate."""

    def __init__(self, catalog: Catalog, backend: VectorStore, scope: Scope) -> None:
        self._catalog = catalog
        self._backend = backend
        self._scope = scope
        self._by_unit: dict[NodeId, Candidate] = {}

    def candidates(self) -> list[Candidate]:
        """Return the candidates, in the order in which they were found."""
        return list(self._by_unit.values())

    def add(self, arm: str, matches: Sequence[Match]) -> None:
        """Add an arm's matches, best first: the first of a node is its best, and stands before those of arms before."""
        nodes = [node_of_chunk(match.id) for match in matches]
        unit_of = self._catalog.units({*nodes}, self._scope)
        found: dict[NodeId, dict[NodeId, NodeId]] = {}
        unheard: dict[NodeId, Candidate] = {}
        for node_id, (chunk, score) in zip(nodes, matches, strict=True):
            if (unit := unit_of.get(node_id)) is None:  # it was removed since the arm was asked
                continue
            candidate = self._by_unit.get(unit)
            if candidate is None:
                candidate = self._by_unit[unit] = Candidate(unit, found.setdefault(unit, {}), {arm: score})
            if unit in found:
                found[unit].setdefault(node_id, chunk)
            else:
                found[unit] = {node_id: chunk}
                candidate.scores[arm] = score
            if candidate.said is None and unit == node_id:
                unheard.setdefault(chunk, candidate)
        self._hear(unheard)
        self._put_before(found)

    def _put_before(self, found: Mapping[NodeId, dict[NodeId, NodeId]]) -> None:
        for unit, matched in found.items():
            candidate = self._by_unit[unit]
            if candidate.matched is not matched:
                candidate.matched = matched | candidate.matched | matched

    def _hear(self, unheard: Mapping[NodeId, Candidate]) -> None:
        """Note who said each candidate, by one of its chunks; who said that of a fact is read from the catalogue."""
        held = self._backend.fields(COLLECTION, unheard, SAID_FIELDS) if unheard else {}
        for chunk, (role, size, asks, time_s) in held.items():
            unheard[chunk].said = Said(str(role or ""), _whole(size) or 0, asks is not None, _whole(time_s))


def speakers_of(candidates: Sequence[Candidate], catalog: Catalog) -> list[Said]:
    """Return the speakers of candidates; those not known yet are read, and known from here on."""
    unknown = [one for one in candidates if one.said is None]
    if unknown:
        speakers = catalog.speakers([one.unit for one in unknown])
        for one in unknown:
            one.said = speakers.get(one.unit, NOBODY)
    return [one.said or NOBODY for one in candidates]


NOBODY = Said()
"""The speaker of a candidate that was removed since it was found."""


def scores_by(arm: str, candidates: Iterable[Candidate]) -> dict[NodeId, float]:
    """Return the scores of an arm, by unit."""
    return {candidate.unit: candidate.scores[arm] for candidate in candidates if arm in candidate.scores}


def in_order(scores: Mapping[NodeId, float]) -> list[NodeId]:
    """Return units by their score, the best first, ties by id."""
    return sorted(scores, key=lambda unit: (-scores[unit], unit))


def node_of_chunk(chunk_id: NodeId) -> NodeId:
    """Return the id of the node that a chunk is a piece of."""
    return chunk_id.partition(CHUNK_MARK)[0]


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


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
