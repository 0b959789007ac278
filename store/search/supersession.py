"""Supersession: what became of the facts of a turn, and the order that puts the newest first.

It reads the links that dreams and `remember` left. Nothing is compared while a question is answered: which fact
supersedes which was decided when they were learned.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..index.projection import LATER, REWORDS, SUCCESSOR, Link, Node, is_turn
from ..index.visibility import Scope
from ..limits import LONGEST_CHAIN
from ..model import Level, NodeId

CONTRADICTS = "contradicts"

# The links to a successor, certain or likely.
SUPERSEDING = frozenset({SUCCESSOR, LATER})

# A likely successor is shown before the older fact from this share of the older one's probability on: of 8 true links
# that were asked about the least had .37, of 10 false ones two .8 and more, and the rest at most .07. One below it is
# named in a mark, and keeps its own place; but what was said later in the same session ("a week earlier after all")
# depends on what was said before, and needs no words of the question.
ANSWERS_FROM = 0.2

# The most successors, and the most contradictions, that are shown beside one fact.
NAMED_BESIDE = 3


@dataclass(frozen=True, slots=True)
class FactState:
    """A fact with its successors (`newer`), its likely successors (`later`) and the facts that contradict it.

    `is_reworded`: its person replaced the words of the turn by those of the fact, which is shown by itself.
    """

    fact: Node
    newer: tuple[Node, ...] = ()
    later: tuple[Node, ...] = ()
    opposed: tuple[Node, ...] = ()
    is_reworded: bool = False

    @property
    def is_marked(self) -> bool:
        """Return True if it has a successor, a likely one or a contradiction."""
        return bool(self.newer or self.later or self.opposed)

    @property
    def ahead(self) -> tuple[Node, ...]:
        """Return what is shown before it, relevant or not: its successors, and newer facts that contradict it."""
        return (*self.newer, *(one for one in self.opposed if _since(one) > _since(self.fact)))


@dataclass(frozen=True, slots=True)
class States:
    """The facts of some units, by unit; `unit_of` maps the facts named beside them to their own units."""

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
        """Return the union with the states of other units."""
        return States({**self.facts, **other.facts}, {**self.unit_of, **other.unit_of})


def _since(fact: Node) -> tuple[str, NodeId]:
    """Return the key by which of two facts the one that has held since later is the newer, ties by id."""
    return (fact.since.isoformat() if fact.since else "", fact.node_id)


def states_of(units: Collection[NodeId], nodes: Mapping[NodeId, Node], links: Sequence[Link], scope: Scope) -> States:
    """Return the facts that were drawn from some turns, or that the units are, with what became of each.

    `links` are the catalogue's `fact_links` of these units, `nodes` the ends of these links. A fact that was archived
    without a successor is left out, and so is what is out of the scope. With `as_of` in the scope only what held then
    is a successor.
    """
    first_cited = {link.source: link.target for link in links if link.kind == "cites"}
    drawn = drawn_from(units, nodes, links, scope)
    if not drawn:
        return States()
    held = replace(scope, where=(), include_archived=False)  # what a filter leaves out is named as well
    outgoing = _outgoing(links)
    known = {fact.node_id for facts in drawn.values() for fact, _ in facts}
    followed = {fact: _followed(fact, outgoing, nodes, held) for fact in known}
    named: dict[NodeId, Node] = {}
    states: dict[NodeId, list[FactState]] = {}
    for unit, facts in drawn.items():
        for fact, is_reworded in facts:
            newer, later, opposed = (followed[fact.node_id].get(kind, ()) for kind in (SUCCESSOR, LATER, CONTRADICTS))
            if is_reworded and not newer and held.admits(fact):
                newer = (fact,)  # of the turn's own words it is the successor
            if newer or scope.admits(fact):
                states.setdefault(unit, []).append(FactState(fact, newer, later, opposed, is_reworded))
                named |= {one.node_id: one for one in (*newer, *later, *opposed)}
    return States(states, {name: _unit_of(node, first_cited.get(name), nodes, scope) for name, node in named.items()})


def drawn_from(
    units: Collection[NodeId], nodes: Mapping[NodeId, Node], links: Sequence[Link], scope: Scope
) -> dict[NodeId, list[tuple[Node, bool]]]:
    """Return the facts of each unit in the order of the turn's text, each with whether its person reworded it."""
    drawn: dict[NodeId, list[tuple[Node, bool]]] = {}
    wanted = {*units}
    pairs = [
        (link.target, link.source, link.kind == REWORDS)
        for link in links
        if link.kind in ("cites", REWORDS) and link.target in wanted
    ]
    for unit, name, is_reworded in (*sorted(pairs), *((unit, unit, False) for unit in sorted(wanted))):
        fact = nodes.get(name)
        if fact is not None and fact.level is Level.FACT and scope.holds(fact.channel):
            drawn.setdefault(unit, []).append((fact, is_reworded))
    for facts in drawn.values():
        facts.sort(key=lambda pair: (pair[0].ordinal, pair[0].node_id))
    return drawn


def _outgoing(links: Sequence[Link]) -> dict[NodeId, list[tuple[NodeId, str]]]:
    """Return the other end and the kind of each fact's links, whichever of the two files has them, in order."""
    found: dict[NodeId, set[tuple[NodeId, str]]] = defaultdict(set)
    for source, target, kind in ((link.source, link.target, link.kind) for link in links):
        if kind in (SUCCESSOR, LATER, CONTRADICTS):
            found[source].add((target, kind))
        if kind in ("supersedes", CONTRADICTS):
            found[target].add((source, SUCCESSOR if kind == "supersedes" else CONTRADICTS))
    return {fact: sorted(ends) for fact, ends in found.items()}


def _followed(
    fact: NodeId, outgoing: Mapping[NodeId, Sequence[tuple[NodeId, str]]], nodes: Mapping[NodeId, Node], held: Scope
) -> Mapping[str, tuple[Node, ...]]:
    """Return what a fact is linked to by kind, NAMED_BESIDE each, following a successor that holds no more to its own.

    What is not in the scope `held` is left out in the end.
    """
    ends = outgoing.get(fact, ())
    for _ in range(LONGEST_CHAIN):
        heirs: dict[NodeId, list[NodeId]] = {}
        for other, kind in ends:
            if kind in SUPERSEDING and not (other in nodes and held.admits(nodes[other])):
                heirs[other] = [heir for heir, kind_of_it in outgoing.get(other, ()) if kind_of_it == SUCCESSOR]
        if not any(heirs.values()):
            break
        ends = [
            (heir, kind)
            for other, kind in ends
            for heir in ((heirs.get(other) or (other,)) if kind in SUPERSEDING else (other,))
            if heir != fact
        ]
    named: dict[str, dict[NodeId, Node]] = {}
    for other, kind in ends:
        if other in nodes and held.admits(nodes[other]):
            named.setdefault(kind, {})[other] = nodes[other]
    return {kind: tuple(found.values())[:NAMED_BESIDE] for kind, found in named.items()}


def _unit_of(node: Node, cited: NodeId | None, nodes: Mapping[NodeId, Node], scope: Scope) -> NodeId:
    """Return the unit of a node, as `Catalog.units` does: the first turn that a fact cites, where that may be shown."""
    if cited is None or node.level is not Level.FACT or is_turn(node.node_id):
        return node.node_id
    turn = nodes.get(cited)
    is_shown = turn is None or (turn.live and scope.holds(turn.channel) and not scope.is_each_alone)
    return cited if is_shown else node.node_id


@dataclass(frozen=True, slots=True)
class Links:
    """Links between units: the successors of each, the older ones that it contradicts, and its likely successors."""

    newer: Mapping[NodeId, Sequence[NodeId]] = field(default_factory=dict)
    opposed: Mapping[NodeId, Sequence[NodeId]] = field(default_factory=dict)
    later: Mapping[NodeId, Sequence[NodeId]] = field(default_factory=dict)

    def disputes(self, unit: NodeId) -> tuple[NodeId, ...]:
        """Return the units that contradict this one or its successors, older or newer."""
        chain = dict.fromkeys((unit, *self.newer.get(unit, ()), *self.later.get(unit, ())))
        against = [old for one in chain for old in self.opposed.get(one, ())]
        against += [newer for newer, olds in self.opposed.items() if not chain.keys().isdisjoint(olds)]
        return tuple(dict.fromkeys(other for other in against if other not in chain))


def links_of(states: States, is_asked: Callable[[str], bool]) -> Links:
    """Return the links between units, by those of their facts that were reworded or of whose text `is_asked` is true.

    Of two facts that contradict each other one that is asked for is enough.
    """
    newer: dict[NodeId, dict[NodeId, None]] = defaultdict(dict)
    later: dict[NodeId, dict[NodeId, None]] = defaultdict(dict)
    opposed: dict[NodeId, dict[NodeId, None]] = defaultdict(dict)
    for unit, listed in states.facts.items():
        for state in listed:
            if not state.is_marked:
                continue
            asked = state.is_reworded or is_asked(state.fact.text)  # words that a person put right are marked always
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
    """Return True if the likely successor of a unit is relevant enough to be shown before it (ANSWERS_FROM)."""
    session, mark, _ = unit.partition("#")
    return (bool(mark) and later.startswith(session + mark)) or probability >= ANSWERS_FROM * older_probability


def newest_first(order: Sequence[NodeId], links: Links, confidence: Mapping[NodeId, float]) -> list[NodeId]:
    """Return the order with a unit's successors directly before it, and the units that it contradicts directly after.

    These are added where they were not in the order. A likely successor is placed only if it was found, so is in the
    order or has a confidence, and `answers`. A chain of successors comes newest first; a circle, which only edits by
    hand can make, keeps its order.
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
