"""From a ranking to what a person or an agent reads: hits, and envelopes inside a budget of tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ...model import Envelope, Evidence, Hit, Kind, NodeId, Slot
from ...text.chunking import estimate_tokens
from ...text.terms import term_stems
from ..index.catalog import Catalog, ChunkRow
from ..index.projection import Node
from ..index.scope import EVERYTHING, Scope
from .rendering import Rendering, Unit
from .search import Ranking

SHOWN_WHOLE_CHARS = 2000
"""A longer memory answers with the chunk that matched; `show` has the rest."""

READ_AT_ONCE = 32
"""Candidates whose texts are read together: an envelope of 500 tokens has about 15 of them."""

LINE_TOKENS, SPECIAL_TOKENS, SMALLEST_SLOT_TOKENS = 1, 2, 12
"""Tokens of a line break; those that an estimate adds to a text, paid once; and the rest that makes it full."""

ABSTAIN_BELOW_COSINE = 0.2
"""Unrelated English sentences lie around .0 to .15 with the shipped model, weakly related ones above .2."""

FULL_SHARE = 0.4
"""The share of an envelope's budget in which a user's turns are rendered by all their facts; the rest is brief.

Evidence recall and answer coverage at 500 tokens: LoCoMo .80 and .78 with it, .81 and .77 with three tenths; BEAM the
same either way.
"""


@dataclass(slots=True)
class Recalled:
    """The answer of `recall`. `abstained`: nothing is near enough to be an answer, and `hits` is empty."""

    hits: list[Hit]
    abstained: bool
    notes: list[str] = field(default_factory=list)
    trace: dict[str, Any] = field(default_factory=dict)


def abstains(ranking: Ranking) -> bool:
    """Return True if nothing is near the question, in words or in meaning."""
    return not any(
        "keyword" in candidate.scores or candidate.scores.get("vector", -1.0) >= ABSTAIN_BELOW_COSINE
        for candidate in ranking.candidates
    )


def hits(ranking: Ranking, catalog: Catalog, limit: int) -> list[Hit]:
    """Return the best candidates by the text that matched: a turn by its fact that is nearest to the question."""
    best = [(candidate, *candidate.best()) for candidate in ranking.candidates[:limit]]
    nodes = catalog.nodes([node_id for _, node_id, _ in best])
    facts = catalog.facts_of(nodes, ranking.scope) if ranking.shows_facts else {}
    shown = {node_id: _nearest(node, facts.get(node_id, ()), ranking.terms) for node_id, node in nodes.items()}
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
                contradicts=ranking.links.disputes(candidate.unit),
                stale_after=node.stale_after,
            )
        )
    return found


def _nearest(node: Node, facts: Sequence[Node], terms: AbstractSet[str]) -> Node:
    """Return the first fact that shares most words with the question, or the turn itself if none shares any."""
    shared = [len(terms & term_stems(fact.text)) for fact in facts]
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


def envelope(ranking: Ranking, catalog: Catalog, budget_tokens: int, now: datetime | None = None) -> Envelope:
    """Pack the best candidates until the budget is full; what does not fit makes room for what still does.

    What was said on one day stands together, under its day: the days, and what is said on each, best first.
    `tokens` is an upper estimate of the whole text's. Without `now` nothing is out of date.
    """
    packed: dict[str, list[tuple[Rendering, str, int, Unit]]] = {}
    texts: set[str] = set()
    covered: set[str] = set()
    left = budget_tokens - SPECIAL_TOKENS
    for unit in _units(ranking, catalog, now):
        rendering = unit.render(ranking.terms, covered, in_full=left > budget_tokens * (1 - FULL_SHARE))
        text = rendering.text(packed.keys() - {""})
        tokens = estimate_tokens(text) - SPECIAL_TOKENS + LINE_TOKENS
        if tokens <= left and rendering.words not in texts:
            texts.add(rendering.words)
            covered |= term_stems(rendering.words)
            packed.setdefault(rendering.day, []).append((rendering, text, tokens, unit))
            left -= tokens
        if left < SMALLEST_SLOT_TOKENS:
            break
    rendered = [piece for day in packed.values() for piece in day]
    evidence = evidence_of([node for rendering, *_ in rendered for node in rendering.nodes], catalog, ranking.scope)
    slots = tuple(
        Slot(
            rendering.nodes[0].node_id,
            text,
            tuple(dict.fromkeys(turn for node in rendering.nodes for turn in evidence[node.node_id])),
            tokens,
            unit.contradicts,
        )
        for rendering, text, tokens, unit in rendered
    )
    return Envelope("\n".join(slot.text for slot in slots), budget_tokens - left if slots else 0, slots)


def _units(ranking: Ranking, catalog: Catalog, now: datetime | None) -> Iterator[Unit]:
    """Read the candidates, best first, no more of them than are asked for."""
    links = ranking.links
    for start in range(0, len(ranking.candidates), READ_AT_ONCE):
        some = ranking.candidates[start : start + READ_AT_ONCE]
        facts_of = catalog.facts_of([candidate.unit for candidate in some], ranking.scope)
        nodes = catalog.nodes({node_id for candidate in some for node_id in (candidate.unit, candidate.best()[0])})
        for candidate in some:
            node = nodes.get(candidate.unit) or nodes.get(candidate.best()[0])
            if node is not None:  # it may have been forgotten since it was ranked
                facts = facts_of.get(candidate.unit, ())
                yield Unit(node, facts, candidate.unit in links.newer, links.disputes(candidate.unit), now)


def trace(ranking: Ranking) -> dict[str, Any]:
    """Return the trace of an answer: the time of each step, and each candidate's ranks and scores by arm."""
    return {
        "timings_ms": ranking.timings_ms,
        "candidates": [
            {
                "unit": candidate.unit,
                "nodes": list(candidate.matched()),
                "score": round(candidate.score, 4),
                "ranks": candidate.ranks,
                "scores": {arm: round(score, 4) for arm, score in candidate.scores.items()},
            }
            for candidate in ranking.candidates
        ],
    }
