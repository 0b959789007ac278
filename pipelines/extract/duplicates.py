"""Duplicates: texts that say the same, and never two that differ in a word that matters.

Embeddings cannot tell "purple" from "cyan" (cosine .96), so what decides is that the same words stand in the same
order, but for articles, fillers, contractions and punctuation. A number, a name, a date, a negation, a colour, a tense
or who did it to whom always differs there.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...store.model import NodeId
from ...store.text.words import normal_form


class Known:
    """The statements of one channel, by what they say."""

    def __init__(self, statements: Iterable[tuple[NodeId, str]] = ()) -> None:
        self._by_form: dict[tuple[str, ...], NodeId] = {}
        for node_id, text in statements:
            self.add(node_id, text)

    def add(self, node_id: NodeId, text: str) -> None:
        """Add a statement; of several that say the same the first stays."""
        self._by_form.setdefault(normal_form(text), node_id)

    def same_as(self, text: str) -> NodeId | None:
        """Return the known statement with the same normal form."""
        return self._by_form.get(normal_form(text))
