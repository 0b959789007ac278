"""A summary without a model: the sentences of a conversation that carry most of what it is about."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

from ..text.sentences import FEWEST_WORDS, sentences_of
from ..text.words import term_stems

MOST_SENTENCES: Final = 5
READ_CHARS: Final = 2000
"""Characters of one turn that are read: what a tool printed says nothing of the subject."""


def summary_of(texts: Sequence[str], limit: int = MOST_SENTENCES) -> list[str]:
    """Return the sentences that share most with the others, in their order.

    A sentence weighs the sum of ln(1 + the number of sentences with each of its stems), by the square root of its
    stems' number, so that neither the longest nor the shortest wins; one that repeats what is chosen is passed over.
    """
    sentences = list(dict.fromkeys(one for text in texts for one in sentences_of(text[:READ_CHARS])))
    stems = [term_stems(one) if len(one.split()) >= FEWEST_WORDS else frozenset[str]() for one in sentences]
    shared = Counter(stem for held in stems for stem in held)
    weights = [sum(math.log1p(shared[stem]) for stem in held) / math.sqrt(len(held) or 1) for held in stems]
    chosen: list[int] = []
    for place in sorted(range(len(sentences)), key=lambda place: (-weights[place], place)):
        if len(chosen) == limit or not weights[place]:
            break
        if not any(len(stems[place] & stems[other]) * 2 > len(stems[place]) for other in chosen):
            chosen.append(place)
    return [sentences[place] for place in sorted(chosen)]
