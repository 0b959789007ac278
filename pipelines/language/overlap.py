"""Overlap: how much of a text is said, in that order, by what it rests on."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from ...store.text.languages import phrases
from ...store.text.words import MONTHS
from .content import content_stems

_DATE = re.compile(rf"\b(?:\d{{1,2}} )?(?:{'|'.join(MONTHS)})(?: \d{{4}})?\b|\b(?:19|20)\d\d\b")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")

LONGEST_SOURCE = 2000
"""Words of a source that are read: an assistant's longest answers have fewer."""


def overlap(text: str, said: Sequence[str], names: str = "") -> float:
    """Return the share of a text's content words that occur in one of its sources in the same order, 0 to 1.

    The longest common subsequence with each source, the better of them taken. `names` may stand anywhere and do not
    count. 1 for a text without other content words.
    """
    free = set(content_stems(names))
    stems = [stem for stem in content_stems(text) if stem not in free]
    if not stems:
        return 1.0
    best = 0
    for source in said:
        theirs = content_stems(source)[:LONGEST_SOURCE]
        if best < len(stems) and _shared(stems, theirs) > best:  # what they share in any order bounds the rest
            best = max(best, _common(stems, theirs))
    return best / len(stems)


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    return (Counter(one) & Counter(other)).total()


def invents(text: str, said: Sequence[str]) -> bool:
    """Check a text for a number, dates apart, or a negation that no source contains."""
    everything = " ".join(said)
    negation = phrases("grounding.negation")
    if negation.search(text.replace("’", "'")) and not negation.search(everything.replace("’", "'")):
        return True
    return bool(set(_NUMBER.findall(_DATE.sub(" ", text))) - set(_NUMBER.findall(everything)))


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the length of the longest common subsequence."""
    row = [0] * (len(other) + 1)
    for stem in one:
        diagonal = 0
        for place, theirs in enumerate(other, start=1):
            above = row[place]
            row[place] = diagonal + 1 if stem == theirs else max(above, row[place - 1])
            diagonal = above
    return row[-1]
