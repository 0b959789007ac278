"""Succession: which memory took another's place, and which two disagree; the newer stands before the older."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from ...model import NodeId
from ...text.terms import term_stems
from ..index.catalog import Catalog
from ..index.scope import EVERYTHING, Scope

LOOKED_AT = 30
"""Candidates whose links are asked for: what stands further down is hardly told."""


OPPOSED_TOLD = 3
"""Of what one memory disagrees with, how many come in beside it: those that share most with the question."""


@dataclass(frozen=True, slots=True)
class Links:
    """Between units: those that took each one's place, and the older ones that each disagrees with."""

    newer: Mapping[NodeId, Sequence[NodeId]] = field(default_factory=dict)
    opposed: Mapping[NodeId, Sequence[NodeId]] = field(default_factory=dict)

    def disputes(self, unit: NodeId) -> tuple[NodeId, ...]:
        """The units that disagree with this one, or with what took its place, whichever is the newer."""
        later = {unit, *self.newer.get(unit, ())}
        against = [old for one in later for old in self.opposed.get(one, ())]
        against += [newer for newer, olds in self.opposed.items() if later & set(olds)]
        return tuple(dict.fromkeys(other for other in against if other not in later))


def links_of(units: Collection[NodeId], terms: AbstractSet[str], catalog: Catalog, scope: Scope = EVERYTHING) -> Links:
    """Read how some units are tied to others, as far as the question is about it: it shares a word with the older.

    What is out of its scope is as if it were not there.
    """
    newer: dict[NodeId, list[NodeId]] = defaultdict(list)
    opposed: dict[NodeId, dict[NodeId, int]] = defaultdict(dict)
    for link in catalog.unit_links(units, scope):
        shared = len(terms & term_stems(link.older_text))
        if shared and link.kind == "supersedes":
            newer[link.older].append(link.newer)
        elif shared:
            opposed[link.newer][link.older] = max(shared, opposed[link.newer].get(link.older, 0))
    nearest = {unit: sorted(olds, key=lambda old: (-olds[old], old))[:OPPOSED_TOLD] for unit, olds in opposed.items()}
    return Links(newer, nearest)


def newest_first(order: Sequence[NodeId], links: Links) -> list[NodeId]:
    """The order with what took a unit's place right before it, and what a unit disagrees with right after it.

    Units that were not in the order come in. A chain of changes comes newest first; a circle, which only hands can
    make, keeps the order it had.
    """
    disputed_by: dict[NodeId, list[NodeId]] = defaultdict(list)
    for newer, olds in links.opposed.items():
        for old in olds:
            disputed_by[old].append(newer)
    placed: dict[NodeId, None] = {}

    def place(unit: NodeId, seen: frozenset[NodeId]) -> None:
        for other in (*links.newer.get(unit, ()), *disputed_by.get(unit, ())):
            if other not in placed and other not in seen:
                place(other, seen | {unit})
        placed.setdefault(unit)
        for other in links.opposed.get(unit, ()):
            if other not in seen:
                placed.setdefault(other)

    for unit in order:
        if unit not in placed:
            place(unit, frozenset())
    return list(placed)
