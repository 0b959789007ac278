"""Shared words: which earlier texts share the rarest words with one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from math import log

from ...store.text.terms import term_stems

COMMON = 400
"""A word that more texts share than this is not compared by: it distinguishes nothing."""


class SharedWords:
    """The texts so far that share words with another, by an inverted index filled in the order of the texts.

    An example: 0 "The office is in Oslo", 1 "The kettle is blue", 2 "The office is in Bergen now". When 2 is asked for,
    the index has office -> [0], oslo -> [0], kettle -> [1], blue -> [1]; 2 shares "office" with 0 and nothing with 1. A
    stem that more than COMMON texts hold has no rarity and finds nothing.
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
        """Let the text at a place be found from now on."""
        for stem in self._stems[place] & self._rarity.keys():
            self._said[stem].append(place)
