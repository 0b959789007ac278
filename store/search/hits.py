"""From a ranking to hits: the best memories by the text that matched, the newest before what it replaced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from ..index.catalog import Catalog
from ..index.projection import Node
from ..index.scope import EVERYTHING, Scope
from ..model import Evidence, Hit, Kind, NodeId
from .gathering import Candidate, in_order, scores_by
from .priors import note_of_time
from .relevance import Passages, Words, passages_of, pieces_of
from .search import Ranking
from .sections import section_budget, sections_of, widened
from .supersession import Links, States, links_of, newest_first, states_of

SECTION_CHARS = 1200
"""The most of a long memory that answers: the sentence that is nearest, and what stands around it; `show` has the rest.
A person sees the first ten lines of it, and an agent pays for all of it ten times."""

LEAST_READ = 20
"""Candidates whose words are read, at least, to tell whether anything is near."""


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
    states, links = put_newest_first(ranking, passages, catalog, limit)
    found = hits(ranking, states, links, passages, catalog, limit)
    notes = [
        *ranking.notes,
        *([passages.note] if found and passages.note else []),
        *note_of_time([(hit.created_at and hit.created_at.date(), hit.text) for hit in found], ranking.asked),
    ]
    return Recalled(found, False, notes, confidence=max((hit.confidence for hit in found), default=0.0))


def put_newest_first(ranking: Ranking, passages: Passages, catalog: Catalog, limit: int) -> tuple[States, Links]:
    """Let what took another's place, or contradicts it, stand right before it, found or not; what likely did, if found.

    Return the facts of the `limit` best candidates, and the links between units. Those further down are not read: none
    of them can come before the best.
    """
    top = ranking.candidates[:limit]
    states = states_of([candidate.unit for candidate in top], catalog, ranking.scope)
    if not ranking.shows_facts:
        return states.of_themselves(), Links()
    links = links_of(states, lambda text: bool(passages.words.found(text)))
    if not (links.newer or links.opposed or links.later):
        return states, links
    known = {candidate.unit: candidate for candidate in ranking.candidates}
    order = newest_first([candidate.unit for candidate in top], links, passages.relevances() if links.later else {})
    if ranking.scope.where:  # what a filter leaves out is named beside a hit, and is none
        order = [unit for unit in order if unit in known]
    brought = [unit for unit in order if unit not in known and not ranking.is_left_out(unit)]
    known |= {unit: Candidate(unit) for unit in catalog.roles(brought)}
    ahead = [known[unit] for unit in order if unit in known]
    scores = [candidate.score for candidate in ahead]
    for place in range(len(ahead) - 2, -1, -1):
        scores[place] = max(scores[place], scores[place + 1])
    for candidate, score in zip(ahead, scores, strict=True):
        candidate.score = score
    placed = {candidate.unit for candidate in ahead}
    ranking.candidates = ahead + [candidate for candidate in ranking.candidates if candidate.unit not in placed]
    brought_in = placed.difference(candidate.unit for candidate in top)
    return (states | states_of(brought_in, catalog, ranking.scope) if brought_in else states), links


def hits(ranking: Ranking, states: States, links: Links, passages: Passages, catalog: Catalog, limit: int) -> list[Hit]:
    """Return the best candidates by the text that matched: a turn by its fact that is nearest to the question."""
    best = [(candidate, *candidate.best()) for candidate in ranking.candidates[:limit]]
    missing = [node_id for _, node_id, _ in best if node_id not in passages.nodes]
    nodes = {**passages.nodes, **(catalog.nodes(missing) if missing else {})}
    confidence = passages.confidence()
    found: list[tuple[Candidate, Node, NodeId]] = []
    for candidate, node_id, chunk in best:
        if (node := nodes.get(node_id)) is not None:  # else it was forgotten since it was ranked
            drawn = (one.fact for one in states.of(node_id) if not one.is_reworded)
            facts = [fact for fact in drawn if ranking.scope.admits(fact)]
            shown = _nearest(node, facts, passages.words)
            found.append((candidate, shown, chunk if shown.node_id == node_id else node_id))
    evidence = evidence_of([node for _, node, _ in found], catalog, ranking.scope)
    texts = _sections({chunk: node for _, node, chunk in found}, passages, ranking, catalog)
    beside = {candidate.unit: _named_beside(candidate.unit, node, states, links) for candidate, node, _ in found}
    return [
        Hit(
            node_id=node.node_id,
            level=node.level,
            kind=node.kind,
            title=node.title,
            text=texts.get(chunk, node.text),
            score=round(candidate.score, 4),
            channel=node.channel,
            created_at=node.created_at,
            evidence=evidence[node.node_id],
            contradicts=links.disputes(candidate.unit),
            newer=tuple(dict.fromkeys(chain.from_iterable(beside[candidate.unit]))),
            superseded_by=beside[candidate.unit][0],
            stale_after=node.stale_after if ranking.scope.is_past(node.stale_after) else None,
            confidence=confidence.get(candidate.unit, 0.0),
        )
        for candidate, node, chunk in found
    ]


def _named_beside(
    unit: NodeId, node: Node, states: States, links: Links
) -> tuple[tuple[NodeId, ...], tuple[NodeId, ...]]:
    """Return the units that took the place of the memory that is shown for a unit, and those that likely did."""
    state = next((one for one in states.of(unit) if one.fact.node_id == node.node_id), None)
    if state is None:
        return tuple(links.newer.get(unit, ())), tuple(links.later.get(unit, ()))
    newer, later = ((states.unit_of[one.node_id] for one in nodes) for nodes in (state.newer, state.later))
    return tuple(dict.fromkeys(newer)), tuple(dict.fromkeys(later))


def _nearest(node: Node, facts: Sequence[Node], asked: Words) -> Node:
    """Return the first fact that shares most words with the question, or the turn itself if none shares any."""
    shared = [len(asked.found(fact.text)) for fact in facts]
    return facts[shared.index(max(shared))] if any(shared) else node


def _sections(
    nodes: Mapping[NodeId, Node], passages: Passages, ranking: Ranking, catalog: Catalog
) -> dict[NodeId, str]:
    """Return the section around the nearest sentence of each long text, by the chunk that was found for it."""
    sections = sections_of(nodes.values(), ranking, catalog)
    parents_chars = [len(node.text) for node in nodes.values() if node.node_id in sections]
    texts: dict[NodeId, str] = {}
    for chunk, node in nodes.items():
        if of_it := sections.get(node.node_id):
            nearest = passages.nearest_sentence(node, of_it)
            budget_chars = section_budget(parents_chars, nearest[1] - nearest[0], SECTION_CHARS)
            texts[chunk] = _excerpt(node.text, widened(node.text, pieces_of(node.text), [nearest], budget_chars))
    return texts


def _excerpt(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Return the spans of a text with a mark where something is left out."""
    shown = "\n…\n".join(text[start:end].strip() for start, end in spans)
    ahead, behind = ("…" if spans[0][0] > 0 else ""), ("…" if spans[-1][1] < len(text) else "")
    return f"{ahead}{shown}{behind}"


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
                "priors": {name: rounded for name, added in candidate.priors.items() if (rounded := round(added, 4))},
            }
            for candidate in ranking.candidates
        ],
    }
