"""Fetch: what the catalogue has of the memories that an answer may show, read in at most three queries.

Whatever comes after the search (relevance, supersession, hits, packing) reads these records and no table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ..index.catalog import Catalog, ChunkRow
from ..index.projection import Node
from ..index.scope import Scope
from ..model import Evidence, Kind, NodeId
from .gathering import Ranking
from .supersession import States, states_of


class Records:
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


def fetch(ranking: Ranking, catalog: Catalog, read: int, *, beside: int = 0, facts: int | None = None) -> Records:
    """Read the `read` best candidates, the turns right before each, and what became of the facts of `facts` of them.

    Of the `beside` best the turns on both sides are read as candidates are: an answer often follows a question.
    """
    records = Records(catalog, ranking.question.scope)
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
