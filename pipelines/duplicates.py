"""Duplicates: two texts that say the same, and never two that differ by one word that matters.

Embeddings cannot tell "purple" from "cyan" (cosine .96), so likeness only nominates; what decides is that the same
words stand in the same order, but for articles, fillers, contractions and punctuation. A number, a name, a date, a
negation, a colour, a tense or who did it to whom always differs there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..store.model import NodeId
from .words import lexicon, words

LIKENESS = 0.92
"""Cosine below which two texts are not even compared (the reference value for near duplicates)."""

_LONG_FORMS = {
    "n't": " not", "'re": " are", "'ve": " have", "'ll": " will", "'m": " am", "can't": "can not", "cannot": "can not",
    "won't": "will not", "shan't": "shall not", "gonna": "going to", "wanna": "want to", "gotta": "got to",
}  # fmt: skip
_CONTRACTED = re.compile(r"(n't|'re|'ve|'ll|'m)$")
_SUBJECTS_BEFORE_IS = frozenset(["it", "that", "this", "he", "she", "there", "here", "what", "who", "where", "how"])


def normal_form(text: str) -> tuple[str, ...]:
    """The words that a text must share, in their order, to say the same."""
    return tuple(word for said in words(text) for word in _long(said) if word not in lexicon("fillers"))


def same_statement(a: str, b: str, likeness: float = 1.0) -> bool:
    """Whether two texts say the same; `likeness` is the cosine of their embeddings."""
    return likeness >= LIKENESS and normal_form(a) == normal_form(b)


class Known:
    """The statements of one channel, by what they say."""

    def __init__(self, statements: Iterable[tuple[NodeId, str]] = ()) -> None:
        self._by_form: dict[tuple[str, ...], NodeId] = {}
        for node_id, text in statements:
            self.add(node_id, text)

    def add(self, node_id: NodeId, text: str) -> None:
        """Remember a statement; the first of several that say the same keeps the place."""
        self._by_form.setdefault(normal_form(text), node_id)

    def same_as(self, text: str) -> NodeId | None:
        """The known statement that says what the text says."""
        return self._by_form.get(normal_form(text))


def _long(word: str) -> list[str]:
    if word in _LONG_FORMS:
        return _LONG_FORMS[word].split()
    if found := _CONTRACTED.search(word):
        return [word[: found.start()], *_LONG_FORMS[found[1]].split()]
    stem, is_contracted, _ = word.partition("'s")
    return [stem, "is"] if is_contracted and stem in _SUBJECTS_BEFORE_IS else [word]
