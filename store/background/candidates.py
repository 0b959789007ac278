"""Candidates: the few older facts of its channel that a remembered statement may repeat, replace or dispute."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

import numpy as np

from ..embedding.embedding import ModelUnavailable
from ..engine.interface import Vector, VectorStore
from ..filters import Condition, Filter
from ..index.catalog import Catalog
from ..index.index import COLLECTION
from ..index.projection import Node
from ..model import Level, NodeId
from ..search.gathering import CHUNK_MARK, node_of_chunk
from ..text.judging import EarlierStatement
from ..text.words import query_terms

NEAREST: Final = 5
"""Older facts by cosine: the one that a statement changes is among them for .80 of the readers' pairs."""

BY_WORDS: Final = 10
"""Older facts by keyword search."""

TERMS: Final = 16
"""Terms of the new statement that are searched for."""


class Candidates:
    """Finds candidates. `embed_now` gives the chunks of some nodes their vectors before all others."""

    def __init__(
        self, catalog: Catalog, backend: VectorStore, embed_now: Callable[[Collection[NodeId]], object]
    ) -> None:
        self._catalog = catalog
        self._backend = backend
        self._embed_now = embed_now

    def of(self, node: Node) -> dict[NodeId, tuple[Node, EarlierStatement]]:
        """Return the candidates by id, the node itself not among them; by words alone where no model can embed."""
        where = _facts_of(node.channel)
        terms = query_terms(node.text, TERMS)
        chunks = [match.id for match in self._backend.search_keyword(COLLECTION, terms, BY_WORDS, where)]
        vector = self._vector(node, chunks)
        if vector is not None:
            near = self._backend.search_vector(COLLECTION, vector, NEAREST + 1, where)
            chunks += [match.id for match in near]
        cosines = {} if vector is None else self._backend.cosines(COLLECTION, vector, set(chunks))
        nearest: dict[NodeId, float] = {}
        for chunk in chunks:
            other = node_of_chunk(chunk)
            nearest[other] = max(nearest.get(other, 0.0), cosines.get(chunk, 0.0))
        found = self._catalog.nodes([other for other in nearest if other != node.node_id])
        return {
            node_id: (other, EarlierStatement(node_id, other.text, nearest[node_id]))
            for node_id, other in sorted(found.items())
        }

    def _vector(self, node: Node, chunks: Collection[str]) -> Vector | None:
        try:
            self._embed_now({node.node_id, *map(node_of_chunk, chunks)})
        except ModelUnavailable:  # the next dream compares it by meaning
            return None
        points = self._backend.get(COLLECTION, [node.node_id, f"{node.node_id}{CHUNK_MARK}1"])
        return next((np.asarray(point.vector) for point in points if point.vector is not None), None)


def _facts_of(channel: str) -> Filter:
    return (
        Condition("level", "in", (Level.FACT.value,)),
        Condition("channel", "in", (channel,)),
        Condition("live", "in", (1,)),
    )
