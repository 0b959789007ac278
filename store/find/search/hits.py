"""From a ranking to hits: the best memories by the text that matched, the newest before what it replaced."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...model import Evidence, Hit, Kind, NodeId
from ..index.catalog import Catalog, ChunkRow
from ..index.projection import Node
from ..index.scope import EVERYTHING, Scope
from .relevance import Passages, Words, passages_of
from .search import Candidate, Ranking, in_order, scores_by
from .supersession import Links, links_of, newest_first, states_of

SHOWN_WHOLE_CHARS = 2000
"""A longer memory answers with the chunk that matched; `show` has the rest."""

LEAST_READ = 20
"""Candidates whose words are read, at least, to tell whether anything is near."""

LOOKED_AT = 30
"""Candidates whose links are read: those further down are hardly ever shown."""


@dataclass(slots=True)
class Recalled:
    """The answer of `recall`. `abstained`: nothing is near enough to be an answer, and `hits` is empty.

    `confidence`, 0 to 1, is that of the best hit.
    """

    hits: list[Hit]
    abstained: bool
    notes: list[str] = field(default_factory=list)
    confidence: float = 0.0
    trace: dict[str, Any] = field(default_factory=dict)


def answer(ranking: Ranking, catalog: Catalog, limit: int) -> Recalled:
    """Return the best candidates as hits, what took a memory's place before it; none where nothing is near."""
    passages = passages_of(ranking, catalog, max(limit, LEAST_READ), beside=0)
    if passages.is_far:
        return Recalled([], True, ranking.notes)
    links = put_newest_first(ranking, passages, catalog)
    found = hits(ranking, links, passages, catalog, limit)
    return Recalled(found, False, ranking.notes, confidence=max((hit.confidence for hit in found), default=0.0))


def put_newest_first(ranking: Ranking, passages: Passages, catalog: Catalog) -> Links:
    """Let what took another's place, or contradicts it, stand right before it, found or not; return the links."""
    if not ranking.shows_facts or ranking.scope.as_of is not None:
        return Links()
    top = ranking.candidates[:LOOKED_AT]
    states = states_of([candidate.unit for candidate in top], catalog, ranking.scope)
    links = links_of(states, lambda text: bool(passages.words.found(text)))
    if not links.newer and not links.opposed:
        return links
    known = {candidate.unit: candidate for candidate in ranking.candidates}
    order = newest_first([candidate.unit for candidate in top], links)
    known |= {unit: Candidate(unit) for unit in catalog.roles([unit for unit in order if unit not in known])}
    ahead = [known[unit] for unit in order if unit in known]
    scores = [candidate.score for candidate in ahead]
    for place in range(len(ahead) - 2, -1, -1):
        scores[place] = max(scores[place], scores[place + 1])
    for candidate, score in zip(ahead, scores, strict=True):
        candidate.score = score
    placed = {candidate.unit for candidate in ahead}
    ranking.candidates = ahead + [candidate for candidate in ranking.candidates if candidate.unit not in placed]
    return links


def hits(ranking: Ranking, links: Links, passages: Passages, catalog: Catalog, limit: int) -> list[Hit]:
    """Return the best candidates by the text that matched: a turn by its fact that is nearest to the question."""
    best = [(candidate, *candidate.best()) for candidate in ranking.candidates[:limit]]
    nodes = catalog.nodes([node_id for _, node_id, _ in best])
    facts = catalog.facts_of(nodes, ranking.scope) if ranking.shows_facts else {}
    confidence = passages.confidence()
    shown = {node_id: _nearest(node, facts.get(node_id, ()), passages.words) for node_id, node in nodes.items()}
    evidence = evidence_of(shown.values(), catalog, ranking.scope)
    places = catalog.chunks([chunk for _, node_id, chunk in best if chunk != node_id])
    found = []
    for candidate, node_id, chunk in best:
        if (node := shown.get(node_id)) is None:  # forgotten since it was ranked
            continue
        found.append(
            Hit(
                node_id=node.node_id,
                level=node.level,
                kind=node.kind,
                title=node.title,
                text=_excerpt(node, places.get(chunk) if node.node_id == node_id else None),
                score=round(candidate.score, 4),
                channel=node.channel,
                created_at=node.created_at,
                evidence=evidence[node.node_id],
                contradicts=links.disputes(candidate.unit),
                newer=tuple(links.newer.get(candidate.unit, ())),
                stale_after=node.stale_after,
                confidence=confidence.get(candidate.unit, 0.0),
            )
        )
    return found


def _nearest(node: Node, facts: Sequence[Node], asked: Words) -> Node:
    """Return the first fact that shares most words with the question, or the turn itself if none shares any."""
    shared = [len(asked.found(fact.text)) for fact in facts]
    return facts[shared.index(max(shared))] if any(shared) else node


def _excerpt(node: Node, place: ChunkRow | None) -> str:
    if place is None or len(node.text) <= SHOWN_WHOLE_CHARS:
        return node.text
    return f"…{node.text[place.start : place.end].strip()}…"


def evidence_of(
    nodes: Iterable[Node], catalog: Catalog, scope: Scope = EVERYTHING
) -> dict[NodeId, tuple[Evidence, ...]]:
    """Return the turns that each node cites, of the scope's channels; a turn is its own evidence."""
    listed = list(nodes)
    turns = {node.node_id: (Evidence(node.node_id, node.external_id),) for node in listed if node.kind is Kind.TURN}
    return turns | catalog.evidence([node.node_id for node in listed if node.kind is not Kind.TURN], scope)


def trace(ranking: Ranking) -> dict[str, Any]:
    """Return the trace of an answer: the time of each step, and each candidate's ranks and scores by arm."""
    by_arm = {
        arm: {unit: rank for rank, unit in enumerate(in_order(scores_by(arm, ranking.candidates)), start=1)}
        for arm in ("keyword", "vector")
    }
    return {
        "timings_ms": ranking.timings_ms,
        "candidates": [
            {
                "unit": candidate.unit,
                "nodes": list(candidate.matched),
                "score": round(candidate.score, 4),
                "ranks": {arm: ranks[candidate.unit] for arm, ranks in by_arm.items() if candidate.unit in ranks},
                "scores": {arm: round(score, 4) for arm, score in candidate.scores.items()},
            }
            for candidate in ranking.candidates
        ],
    }
