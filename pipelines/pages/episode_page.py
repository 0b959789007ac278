"""The page of an episode: what came of it, then what was decided and learned, in quotes that cite their facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...store.model import Kind, Memory, NodeId
from ...store.roles import MACHINES
from .quotes import dated, day_of, labels_of, line, spoken
from .titles import stems_of_title

OPENING_LINES = 3
_WEIGHT = {
    Kind.DECISION: 3.0,
    Kind.CORRECTION: 3.0,
    Kind.PROCEDURE: 2.0,
    Kind.NEGATIVE: 2.0,
    Kind.PREFERENCE: 2.0,
    Kind.PITFALL: 2.0,
}
_FOUND_WEIGHT = 2.0
"""An assistant's fact is what it did or found: an outcome."""

_HEADINGS = (
    ("Decided", frozenset({Kind.DECISION, Kind.CORRECTION, Kind.PREFERENCE, Kind.VALUE})),
    ("Refused", frozenset({Kind.NEGATIVE})),
    ("How it is done", frozenset({Kind.PROCEDURE})),
    ("Learned", frozenset({Kind.FACT, Kind.FINDING, Kind.PITFALL, Kind.PERSON, Kind.EVENT, Kind.EPISODE, Kind.NOTE})),
)


@dataclass(frozen=True, slots=True)
class Body:
    """The text of a page, and the facts that it cites in the order of their footnotes."""

    text: str
    sources: tuple[NodeId, ...]


def body(facts: Sequence[Memory], outcome: str = "") -> Body:
    """Render an episode's facts, in the order of time; `outcome` is a model's grounded sentences with footnotes."""
    labels = labels_of(facts)
    opening = [] if outcome else came_of_it(facts)
    lines = ["## What came of it", "", outcome or "\n".join(line(fact, labels[fact.node_id]) for fact in opening)]
    shown = {fact.node_id for fact in opening}
    for heading, kinds in _HEADINGS:
        rest = [fact for fact in facts if fact.kind in kinds and fact.node_id not in shown]
        lines += ["", f"## {heading}", "", *_lines(rest, labels)] if rest else []
    return Body("\n".join(lines), tuple(labels))


def came_of_it(facts: Sequence[Memory]) -> list[Memory]:
    """Choose the outcomes that still hold: decisions first, and what others of the episode are about."""
    spread = Counter(root for fact in facts for root in stems_of_title(fact.text))

    def weight(fact: Memory) -> tuple[float, int]:
        kind = _FOUND_WEIGHT if fact.said_by in MACHINES else _WEIGHT.get(fact.kind, 1.0)
        about = sorted((spread[root] for root in stems_of_title(fact.text)), reverse=True)[:6]
        return kind * (1 + sum(about) / (6 * len(facts))), facts.index(fact)

    best = sorted((fact for fact in facts if fact.is_live), key=weight, reverse=True)[:OPENING_LINES]
    return [fact for fact in facts if fact in best]


def _lines(facts: Sequence[Memory], labels: Mapping[NodeId, str]) -> Iterator[str]:
    several = len({day_of(fact) for fact in facts}) > 1
    yield from (line(fact, labels[fact.node_id], dated if several else spoken) for fact in facts)
