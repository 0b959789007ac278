"""Reading a pool: what the stages of one question need of the catalogue and of the search engine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ....model import Level, NodeId
from ....roles import Role
from ....score_stages import Stages
from ...backends.interface import VectorStore
from ...backends.vectors import unit
from ...index.catalog import Catalog
from ...index.index import COLLECTION
from ...index.projection import LATER, SUCCESSOR, Node
from ...index.scope import Scope
from .pool import CURRENT, NO_SESSION, NO_TENSE, PAST, Edge, Pool

KIND_OF_LINK = {"supersedes": "supersedes", SUCCESSOR: "supersedes", LATER: "supersedes", "relates": "related"}
"""The edge of each kind of link between facts; those that are not here are `other`."""

PAGES = (Level.SCENARIO, Level.PROFILE)
"""The levels that retell facts: they link them, and are no candidates."""

MOST_OF_A_PAGE = 12
"""Facts of one page, or of one tag, that are linked to each other: a page of a year is about everything."""


class PoolReader:
    """Reads the pool of a question's candidates; what no stage asks for is left at its neutral value."""

    def __init__(self, catalog: Catalog, backend: VectorStore, stages: Stages) -> None:
        self._catalog = catalog
        self._backend = backend
        self._stages = stages

    def read(
        self,
        scores: Mapping[NodeId, Mapping[str, float]],
        chunks: Mapping[NodeId, NodeId],
        scope: Scope,
        now: datetime,
        *,
        brings: bool = True,
    ) -> Pool:
        """Return the pool of candidates, given their scores by arm and the best chunk of each.

        `brings`: links may bring in what no arm found, of the scope; not so where a question has filters of its own.
        """
        facts = self._facts(scores, scope)
        links = list(self._links(facts, scope)) if self._stages.cascade else []
        if not brings:
            links = [link for link in links if link[0] in scores and link[1] in scores]
        units = tuple(sorted({*scores, *(unit for one, other, _ in links for unit in (one, other))}))
        place = {unit: n for n, unit in enumerate(units)}
        nodes = self._catalog.nodes(units)
        known = [nodes.get(unit) for unit in units]
        return Pool(
            units=units,
            keyword=_array(scores.get(unit, {}).get("keyword", np.nan) for unit in units),
            cosine=_array(scores.get(unit, {}).get("vector", np.nan) for unit in units),
            said_at=_array(_seconds(node) for node in known),
            chars=_array(len(node.text) if node else 0 for node in known),
            session=_numbers(node.session_id if node else None for node in known),
            ordinal=np.array([node.ordinal if node else 0 for node in known], np.int64),
            is_assistant=np.array([bool(node and node.role == Role.ASSISTANT) for node in known], np.bool_),
            certainty=_array(1.0 if node is None or node.certainty is None else node.certainty for node in known),
            tense=np.array([_tense(facts.get(unit, ()), now) for unit in units], np.int64),
            vectors=self._vectors(units, chunks),
            edges=tuple(Edge(place[one], place[other], kind) for one, other, kind in links),
        )

    def _facts(self, units: Collection[NodeId], scope: Scope) -> dict[NodeId, list[Node]]:
        if self._stages.tense is None and self._stages.cascade is None:
            return {}
        drawn = self._catalog.facts_drawn(units, scope)
        return {unit: [one.fact for one in listed if not one.is_reworded] for unit, listed in drawn.items()}

    def _vectors(self, units: Sequence[NodeId], chunks: Mapping[NodeId, NodeId]) -> NDArray[np.float32]:
        if self._stages.mmr is None and self._stages.near_duplicates is None:
            return np.zeros((len(units), 1), np.float32)
        points = self._backend.get(COLLECTION, [chunks[unit] for unit in units if unit in chunks])
        found = {point.id: point.vector for point in points if point.vector is not None}
        dimension = max((len(vector) for vector in found.values()), default=1)
        rows = np.zeros((len(units), dimension), np.float32)
        for row, name in zip(rows, units, strict=True):
            if (vector := found.get(chunks.get(name, ""))) is not None:
                row[:] = vector
        return unit(rows)

    def _links(self, facts: Mapping[NodeId, Sequence[Node]], scope: Scope) -> Iterator[tuple[NodeId, NodeId, str]]:
        """Yield the links that start at the candidates' facts, as links between units."""
        live = {fact.node_id: fact for listed in facts.values() for fact in listed if scope.admits(fact)}
        found = self._catalog.links_around(live)
        others = {name for source, target, _ in found for name in (source, target)}
        nodes = {name: node for name, node in self._catalog.nodes(others).items() if scope.admits(node)}
        unit_of = self._catalog.units({*nodes, *live}, scope)
        pages: dict[NodeId, list[NodeId]] = defaultdict(list)
        for source, target, kind in found:
            if source not in nodes or target not in nodes or unit_of[source] == unit_of[target]:
                continue
            if kind == "cites" and nodes[source].level in PAGES:
                pages[source].append(unit_of[target])
            elif nodes[source].level not in PAGES and nodes[target].level not in PAGES:
                yield unit_of[source], unit_of[target], "cites" if kind == "cites" else KIND_OF_LINK.get(kind, "other")
        yield from _pairs(pages, "page")
        tags: dict[str, list[NodeId]] = defaultdict(list)
        for fact in live.values():
            for tag in fact.tags:
                tags[tag].append(unit_of.get(fact.node_id, fact.node_id))
        yield from _pairs(tags, "tag")


def _pairs(groups: Mapping[str, Sequence[NodeId]], kind: str) -> Iterator[tuple[NodeId, NodeId, str]]:
    for members in groups.values():
        if len(members) <= MOST_OF_A_PAGE:
            yield from ((one, other, kind) for one, other in combinations(dict.fromkeys(members), 2))


def _tense(facts: Iterable[Node], now: datetime) -> int:
    """Return the tense of a unit: current if one of its facts holds, past if none does any more."""
    holds = [fact.live and (fact.valid_to is None or _aware(fact.valid_to) > now) for fact in facts]
    if not holds:
        return NO_TENSE
    return CURRENT if any(holds) else PAST


def _seconds(node: Node | None) -> float:
    return np.nan if node is None or node.created_at is None else _aware(node.created_at).timestamp()


def _aware(at: datetime) -> datetime:
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _array(values: Iterable[float]) -> NDArray[np.float64]:
    return np.array(list(values), np.float64)


def _numbers(names: Iterable[NodeId | None]) -> NDArray[np.int64]:
    """Return a number for each name, the same for the same; NO_SESSION for None."""
    numbers: dict[NodeId, int] = {}
    listed = [NO_SESSION if name is None else numbers.setdefault(name, len(numbers)) for name in names]
    return np.array(listed, np.int64)
