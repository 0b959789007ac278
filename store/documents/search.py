"""Search among the documents of a space: each by the piece of it that is nearest to the question."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..embedding.embedding import Embedder, ModelUnavailable
from ..engine.interface import VectorStore
from ..index.catalog import Catalog
from ..index.index import COLLECTION
from ..model import NodeId
from ..results import Document, Ranked
from ..text.words import query_terms, stems_of
from .documents import Documents

WAIT_S = 10.0
"""The longest wait for the index to hold what was put before."""


class DocumentSearch:
    """Ranks the documents of a space for a question. Every method may be called from any thread.

    Unlike recall it looks at each of them, so that a small space is not lost among a large memory; where there is no
    vector for one yet, its words stand in: the share of the question's that it holds.
    """

    def __init__(
        self,
        documents: Documents,
        catalog: Catalog,
        backend: VectorStore,
        embedder: Embedder,
        settle: Callable[[float], bool],
    ) -> None:
        self._documents = documents
        self._catalog = catalog
        self._backend = backend
        self._embedder = embedder
        self._settle = settle

    def search(self, space: Sequence[str], query: str, *, deep: bool = True) -> list[Ranked]:
        """Return the searched documents of a space, the nearest first; `deep`: those of the spaces within it too."""
        found = [each for _, each in self._documents.select(space, deep=deep) if each.searched]
        self._settle(WAIT_S)
        cosines = self._cosines([each.node_id for each in found], query)
        ranked = [Ranked(each, round(cosines.get(each.node_id) or _shared(each, query), 4)) for each in found]
        return sorted(ranked, key=lambda each: (-each.score, each.document.created_at))

    def _cosines(self, node_ids: Sequence[NodeId], query: str) -> dict[NodeId, float]:
        """Return the cosine of the nearest piece of each node that has a vector; {} without a model or vectors."""
        if not self._backend.capabilities().vector:
            return {}
        pieces = self._catalog.pieces(node_ids)
        try:
            vector = self._embedder.embed_query(query)
        except ModelUnavailable:
            return {}
        best: dict[NodeId, float] = {}
        for piece, cosine in self._backend.cosines(COLLECTION, vector, pieces).items():
            node_id = pieces[piece]
            best[node_id] = max(cosine, best.get(node_id, 0.0))
        return best


def _shared(found: Document, query: str) -> float:
    terms = stems_of(query_terms(query))
    return len(terms & stems_of(query_terms(str(found.value), limit=10_000))) / len(terms) if terms else 0.0
