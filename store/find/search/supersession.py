"""Supersession: what became of the facts of a turn, read from the links that dreams and `remember` left.

Nothing is compared on the way of an answer: who took whose place was decided when it was learned.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...model import NodeId
from ..index.catalog import Catalog, FactLink
from ..index.projection import LATER, SUCCESSOR, Node
from ..index.scope import EVERYTHING, Scope

NAMED_BESIDE = 3
"""Of the memories that took one's place, or contradict it, the number that is told beside it."""


@dataclass(frozen=True, slots=True)
class FactState:
    """A fact and what became of it: what took its place, what probably did, what says otherwise."""

    fact: Node
    newer: tuple[Node, ...] = ()
    later: tuple[Node, ...] = ()
    opposed: tuple[Node, ...] = ()

    @property
    def is_marked(self) -> bool:
        """Return True if it is not simply true."""
        return bool(self.newer or self.later or self.opposed)

    @property
    def ahead(self) -> tuple[Node, ...]:
        """Return what is told before it: what took its place, and what newer says otherwise."""
        return (*self.newer, *self.later, *(one for one in self.opposed if _said(one) > _said(self.fact)))


@dataclass(frozen=True, slots=True)
class States:
    """The facts of some units, by the unit; `unit_of` maps what is named beside them to its own unit."""

    facts: Mapping[NodeId, Sequence[FactState]] = field(default_factory=dict)
    unit_of: Mapping[NodeId, NodeId] = field(default_factory=dict)

    def of(self, unit: NodeId) -> Sequence[FactState]:
        """Return the facts of a unit; () where it has none."""
        return self.facts.get(unit, ())

    def __or__(self, other: States) -> States:
        """Return these and those of other units."""
        return States({**self.facts, **other.facts}, {**self.unit_of, **other.unit_of})


def _said(fact: Node) -> tuple[str, NodeId]:
    """Return the key by which of two facts the one that has held since later is the newer, ties by id."""
    return (fact.since.isoformat() if fact.since else "", fact.node_id)


def states_of(units: Collection[NodeId], catalog: Catalog, scope: Scope = EVERYTHING) -> States:
    """Read the facts that were drawn from these turns, or that these are, and what became of each.

    A fact that was archived without a successor is left out, and so is what is out of the scope. With `as_of` in the
    scope only what held then has taken a place.
    """
    facts = catalog.facts_drawn(units, scope)
    known = [fact.node_id for listed in facts.values() for fact in listed]
    links = catalog.fact_links(known)
    held = replace(scope, where=(), include_archived=False)  # what a filter leaves out is named as well
    others = catalog.nodes({link.other for link in links})
    others = {name: node for name, node in others.items() if held.admits(node)}
    beside: dict[NodeId, list[FactLink]] = defaultdict(list)
    for link in links:
        if link.other in others:
            beside[link.fact].append(link)
    states: dict[NodeId, list[FactState]] = {}
    for unit, listed in facts.items():
        for fact in listed:
            state = _state(fact, beside[fact.node_id], others)
            if scope.admits(fact) or state.newer:
                states.setdefault(unit, []).append(state)
    return States(states, catalog.units(others, scope) if others else {})


def _state(fact: Node, links: Sequence[FactLink], others: Mapping[NodeId, Node]) -> FactState:
    def named(kind: str) -> tuple[Node, ...]:
        return tuple(dict.fromkeys(others[link.other] for link in links if link.kind == kind))[:NAMED_BESIDE]

    return FactState(fact, named(SUCCESSOR), named(LATER), named("contradicts"))


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


def links_of(states: States, is_asked: Callable[[str], bool]) -> Links:
    """Return the links between units by those of their facts that a question asks for, by their text.

    Of two facts that contradict each other it is enough that it asks for one.
    """
    newer: dict[NodeId, dict[NodeId, None]] = defaultdict(dict)
    opposed: dict[NodeId, dict[NodeId, None]] = defaultdict(dict)
    for unit, listed in states.facts.items():
        for state in listed:
            if not state.is_marked:
                continue
            asked = is_asked(state.fact.text)
            for one in (*state.newer, *state.later) if asked else ():
                newer[unit][states.unit_of[one.node_id]] = None
            for one in state.opposed if asked else (one for one in state.opposed if is_asked(one.text)):
                other = states.unit_of[one.node_id]
                is_older = one not in state.ahead
                opposed[unit if is_older else other][other if is_older else unit] = None
    return Links(
        {unit: [other for other in others if other != unit] for unit, others in newer.items()},
        {unit: [other for other in others if other != unit] for unit, others in opposed.items()},
    )


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
