"""Supersession: orders a memory that superseded another, or contradicts it, before the older one."""

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
"""Candidates whose links are read: those further down are hardly ever shown."""


OPPOSED_SHOWN = 3
"""Of the memories that one contradicts, the number shown beside it: those that share most with the question."""


@dataclass(frozen=True, slots=True)
class Links:
    """Links between units: the successors of each (`newer`), and the older ones that it contradicts (`opposed`)."""

    newer: Mapping[NodeId, Sequence[NodeId]] = field(default_factory=dict)
    opposed: Mapping[NodeId, Sequence[NodeId]] = field(default_factory=dict)

    def disputes(self, unit: NodeId) -> tuple[NodeId, ...]:
        """Return the units that contradict this one or its successors, older or newer."""
        later = {unit, *self.newer.get(unit, ())}
        against = [old for one in later for old in self.opposed.get(one, ())]
        against += [newer for newer, olds in self.opposed.items() if later & set(olds)]
        return tuple(dict.fromkeys(other for other in against if other not in later))


def links_of(units: Collection[NodeId], terms: AbstractSet[str], catalog: Catalog, scope: Scope = EVERYTHING) -> Links:
    """Read the links of some units whose older text shares a word with the question.

    Units out of the scope are left out.
    """
    newer: dict[NodeId, list[NodeId]] = defaultdict(list)
    opposed: dict[NodeId, dict[NodeId, int]] = defaultdict(dict)
    for link in catalog.unit_links(units, scope):
        shared = len(terms & term_stems(link.older_text))
        if shared and link.kind == "supersedes":
            newer[link.older].append(link.newer)
        elif shared:
            opposed[link.newer][link.older] = max(shared, opposed[link.newer].get(link.older, 0))
    nearest = {unit: sorted(olds, key=lambda old: (-olds[old], old))[:OPPOSED_SHOWN] for unit, olds in opposed.items()}
    return Links(newer, nearest)


def newest_first(order: Sequence[NodeId], links: Links) -> list[NodeId]:
    """Return the order with a unit's successors right before it, and the units that it contradicts right after it.

    Units that were not in the order are added. A chain of successors comes newest first; a circle, which only edits by
    hand can make, keeps its order.
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
