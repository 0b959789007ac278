"""Supersession: what became of the facts of a turn, read from the links that dreams and `remember` left.

Nothing is compared on the way of an answer: who took whose place was decided when it was learned.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..index.catalog import Catalog, FactLink
from ..index.projection import LATER, SUCCESSOR, Node
from ..index.scope import EVERYTHING, Scope
from ..model import NodeId

TAKE_PLACE = frozenset({SUCCESSOR, LATER})

LONGEST_CHAIN = 16
"""Successors of successors that are followed, to what holds now."""

ANSWERS_FROM = 0.2
"""Share of the older's probability from which what likely took its place answers by itself: of 8 true links that were
asked about the least had .37, of 10 false ones two .8 and more, and the rest at most .07. What does not is named in a
mark, and stands where its own words put it; but what was said later in the same session ("a week earlier after all")
leans on what was said before, and needs no words of the question."""

NAMED_BESIDE = 3
"""Of the memories that took one's place, or contradict it, the number that is told beside it."""


@dataclass(frozen=True, slots=True)
class FactState:
    """A fact and what became of it: what took its place, what probably did, what says otherwise.

    `is_reworded`: its person put its words in place of those of the turn, and it stands for itself.
    """

    fact: Node
    newer: tuple[Node, ...] = ()
    later: tuple[Node, ...] = ()
    opposed: tuple[Node, ...] = ()
    is_reworded: bool = False

    @property
    def is_marked(self) -> bool:
        """Return True if it is not simply true."""
        return bool(self.newer or self.later or self.opposed)

    @property
    def ahead(self) -> tuple[Node, ...]:
        """Return what is told before it, relevant or not: what took its place, and what newer says otherwise."""
        return (*self.newer, *(one for one in self.opposed if _said(one) > _said(self.fact)))


@dataclass(frozen=True, slots=True)
class States:
    """The facts of some units, by the unit; `unit_of` maps what is named beside them to its own unit."""

    facts: Mapping[NodeId, Sequence[FactState]] = field(default_factory=dict)
    unit_of: Mapping[NodeId, NodeId] = field(default_factory=dict)

    def of(self, unit: NodeId) -> Sequence[FactState]:
        """Return the facts of a unit; () where it has none."""
        return self.facts.get(unit, ())

    def of_themselves(self) -> States:
        """Return the states of units that are facts, each by itself."""
        facts = {unit: [one for one in of if one.fact.node_id == unit] for unit, of in self.facts.items()}
        return replace(self, facts=facts)

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
    known = [drawn.fact.node_id for listed in facts.values() for drawn in listed]
    held = replace(scope, where=(), include_archived=False)  # what a filter leaves out is named as well
    links, others = _followed(catalog.fact_links(known), catalog, held)
    beside: dict[NodeId, list[FactLink]] = defaultdict(list)
    for link in links:
        if link.other in others:
            beside[link.fact].append(link)
    states: dict[NodeId, list[FactState]] = {}
    for unit, listed in facts.items():
        for fact, is_reworded in listed:
            state = _state(fact, beside[fact.node_id], others)
            if is_reworded:
                state = replace(state, is_reworded=True)
                if not state.newer and held.admits(fact):
                    others = {**others, fact.node_id: fact}
                    state = replace(state, newer=(fact,))
            if scope.admits(fact) or state.newer:
                states.setdefault(unit, []).append(state)
    return States(states, catalog.units(others, scope) if others else {})


def _followed(
    links: Sequence[FactLink], catalog: Catalog, held: Scope
) -> tuple[Sequence[FactLink], Mapping[NodeId, Node]]:
    """Let links to a successor that holds no more lead to what took its place; return them and the nodes that hold."""
    nodes: dict[NodeId, Node] = {}
    for _ in range(LONGEST_CHAIN):
        nodes |= catalog.nodes({link.other for link in links} - nodes.keys())
        holding = {name for name, node in nodes.items() if held.admits(node)}
        over = {link.other for link in links if link.kind in TAKE_PLACE} - holding
        heirs: dict[NodeId, list[NodeId]] = defaultdict(list)
        for link in catalog.fact_links(over) if over else ():
            if link.kind == SUCCESSOR:
                heirs[link.fact].append(link.other)
        if not heirs:
            break
        links = [
            link._replace(other=other)
            for link in links
            for other in (heirs.get(link.other, (link.other,)) if link.kind in TAKE_PLACE else (link.other,))
            if other != link.fact
        ]
    return links, {name: node for name, node in nodes.items() if held.admits(node)}


def _state(fact: Node, links: Sequence[FactLink], others: Mapping[NodeId, Node]) -> FactState:
    def named(kind: str) -> tuple[Node, ...]:
        return tuple(dict.fromkeys(others[link.other] for link in links if link.kind == kind))[:NAMED_BESIDE]

    return FactState(fact, named(SUCCESSOR), named(LATER), named("contradicts"))


@dataclass(frozen=True, slots=True)
class Links:
    """Links between units: the successors of each, the older ones that it contradicts, and its likely successors."""

    newer: Mapping[NodeId, Sequence[NodeId]] = field(default_factory=dict)
    opposed: Mapping[NodeId, Sequence[NodeId]] = field(default_factory=dict)
    later: Mapping[NodeId, Sequence[NodeId]] = field(default_factory=dict)

    def disputes(self, unit: NodeId) -> tuple[NodeId, ...]:
        """Return the units that contradict this one or its successors, older or newer."""
        later = {unit, *self.newer.get(unit, ()), *self.later.get(unit, ())}
        against = [old for one in later for old in self.opposed.get(one, ())]
        against += [newer for newer, olds in self.opposed.items() if later & set(olds)]
        return tuple(dict.fromkeys(other for other in against if other not in later))


def links_of(states: States, is_asked: Callable[[str], bool]) -> Links:
    """Return the links between units by those of their facts that a question asks for, by their text.

    Of two facts that contradict each other it is enough that it asks for one.
    """
    newer: dict[NodeId, dict[NodeId, None]] = defaultdict(dict)
    later: dict[NodeId, dict[NodeId, None]] = defaultdict(dict)
    opposed: dict[NodeId, dict[NodeId, None]] = defaultdict(dict)
    for unit, listed in states.facts.items():
        for state in listed:
            if not state.is_marked:
                continue
            asked = is_asked(state.fact.text)
            for taking, nodes in ((newer, state.newer), (later, state.later)):
                taking[unit] |= {states.unit_of[node.node_id]: None for node in nodes if asked}
            for one in state.opposed if asked else (one for one in state.opposed if is_asked(one.text)):
                other = states.unit_of[one.node_id]
                is_older = one not in state.ahead
                opposed[unit if is_older else other][other if is_older else unit] = None
    return Links(
        *(
            {unit: found for unit, others in linked.items() if (found := [other for other in others if other != unit])}
            for linked in (newer, opposed, later)
        )
    )


def answers(later: NodeId, unit: NodeId, probability: float, older_probability: float) -> bool:
    """Check that the unit which likely took another's place is told before it, whatever else is."""
    session, mark, _ = unit.partition("#")
    return (bool(mark) and later.startswith(session + mark)) or probability >= ANSWERS_FROM * older_probability


def newest_first(order: Sequence[NodeId], links: Links, confidence: Mapping[NodeId, float]) -> list[NodeId]:
    """Return the order with a unit's successors right before it, and the units that it contradicts right after it.

    A likely successor only where it is in the order or has a confidence, so was found, and answers by itself; other
    units that were not there are added. A chain of successors comes newest first; a circle, which only edits by hand
    can make, keeps its order.
    """
    disputed_by: dict[NodeId, list[NodeId]] = defaultdict(list)
    for newer, olds in links.opposed.items():
        for old in olds:
            disputed_by[old].append(newer)
    placed: dict[NodeId, None] = {}
    known = {*order, *confidence}

    def answering(unit: NodeId) -> Iterator[NodeId]:
        found = (one for one in links.later.get(unit, ()) if one in known)
        return (one for one in found if answers(one, unit, confidence.get(one, 0.0), confidence.get(unit, 0.0)))

    def place(unit: NodeId, seen: frozenset[NodeId]) -> None:
        for other in (*links.newer.get(unit, ()), *answering(unit), *disputed_by.get(unit, ())):
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
