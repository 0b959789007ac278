"""Overlap: the share of a text's content words that a source contains in order, and texts that share rare words."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from math import log

from ...store.text.dates import MONTHS
from ...store.text.languages import phrases
from ...store.text.words import NUMBER, content_stems, term_stems

_DATE = re.compile(rf"\b(?:\d{{1,2}} )?(?:{'|'.join(MONTHS)})(?: \d{{4}})?\b|\b(?:19|20)\d\d\b")

LONGEST_SOURCE = 2000
"""Words of a source that are read: an assistant's longest answers have fewer."""


def overlap(text: str, said: Sequence[str], names: str = "") -> float:
    """Return the share of a text's content words that occur in one of its sources in the same order, 0 to 1.

    The longest common subsequence with each source, the better of them taken. `names` may be anywhere and do not
    count. 1 for a text without other content words.
    """
    # A speaker's name may be added to a sentence that did not have it.
    free = set(content_stems(names))
    stems = [stem for stem in content_stems(text) if stem not in free]
    if not stems:
        return 1.0
    best = 0
    for source in said:
        theirs = content_stems(source)[:LONGEST_SOURCE]
        # The subsequence takes quadratic time: a source that cannot beat the best is left out.
        if best < len(stems) and _in_any_order(stems, theirs) > best:
            best = max(best, _longest_common(stems, theirs))
    return best / len(stems)


def invents(text: str, said: Sequence[str]) -> bool:
    """Return True for a text with a number, dates apart, or a negation that no source contains."""
    everything = " ".join(said)
    negation = phrases("grounding.negation")
    if negation.search(text.replace("’", "'")) and not negation.search(everything.replace("’", "'")):
        return True
    return bool(set(NUMBER.findall(_DATE.sub(" ", text))) - set(NUMBER.findall(everything)))


def _in_any_order(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the number of common stems in any order: an upper bound of the subsequence, and cheaper to find."""
    return (Counter(one) & Counter(other)).total()


def _longest_common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the length of the longest common subsequence, by dynamic programming with one row."""
    row = [0] * (len(other) + 1)
    for stem in one:
        diagonal = 0
        for place, theirs in enumerate(other, start=1):
            above = row[place]
            row[place] = diagonal + 1 if stem == theirs else max(above, row[place - 1])
            diagonal = above
    return row[-1]


COMMON = 400
"""A word that more texts share than this is not compared by: it distinguishes nothing."""


class SharedWords:
    """An inverted index of texts by their stems, which is filled in the order of the texts.

    An example: 0 "The office is in Oslo", 1 "The kettle is blue", 2 "The office is in Bergen now". When 2 is asked for,
    the index has office -> [0], oslo -> [0], kettle -> [1], blue -> [1]; 2 shares "office" with 0 and nothing with 1. A
    stem in more than COMMON texts has no rarity and finds nothing.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._stems = [term_stems(text) for text in texts]
        spread = Counter(stem for stems in self._stems for stem in stems)
        self._rarity = {stem: log(1 + len(texts) / count) for stem, count in spread.items() if count <= COMMON}
        self._said: dict[str, list[int]] = defaultdict(list)

    def shared_with(self, place: int) -> list[int]:
        """Return the texts added so far that share words with one, by the summed rarity of those words."""
        shared: dict[int, float] = defaultdict(float)
        for stem in self._stems[place]:
            for old in self._said.get(stem, ()):
                shared[old] += self._rarity[stem]
        return sorted(shared, key=lambda old: (-shared[old], -old))

    def add(self, place: int) -> None:
        """Make the text at a place findable from now on."""
        for stem in self._stems[place] & self._rarity.keys():
            self._said[stem].append(place)
