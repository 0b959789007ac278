"""Keys: what a fact is found by beside its words: the names and things of weight in it, and the days that it means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import date

from ...store.text.dates import days_in
from ...store.text.words import PART_OF_NAME, names_in
from .places import Place

MOST_NAMES = 6


class Names:
    """The names and things that a session speaks of, however each is written where it is said."""

    def __init__(self, places: Iterable[Place]) -> None:
        seen: Counter[str] = Counter()
        said: Counter[str] = Counter()
        for place in places:
            seen.update(names_in(place.text))
            said.update(PART_OF_NAME.findall(place.text))
        self._spelling: dict[str, str] = {}
        for name, _ in seen.most_common():
            if all(said[word.lower()] <= said[word] for word in name.split()):  # "Then" is often "then", a name is not
                self._spelling.setdefault(name.lower(), name)

    def in_text(self, text: str) -> tuple[str, ...]:
        """Return those in a text, in its order, at most MOST_NAMES; longer names before their parts."""
        found: dict[str, int] = {}
        lower = f" {' '.join(PART_OF_NAME.findall(text.lower()))} "
        for name, spelling in self._spelling.items():
            at = lower.find(f" {' '.join(PART_OF_NAME.findall(name))} ")
            if at >= 0:
                found[spelling] = at
        whole = [name for name in found if not any(name != other and f" {name} " in f" {other} " for other in found)]
        return tuple(sorted(whole, key=found.__getitem__)[:MOST_NAMES])


def days_of(text: str, said_on: date | None) -> tuple[date, ...]:
    """Return the days that a text means; () where nobody knows when it was said."""
    return days_in(text, said_on) if said_on else ()
