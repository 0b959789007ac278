"""The present state of a channel: living facts one line each, of most worth first; below each, what it replaced."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...store.model import Kind, Memory, NodeId
from ...store.roles import MACHINES
from ...store.text.languages import phrases
from ..extract.memories import read_memory
from .quotes import dated, in_time, labels_of, line

MOST_LINES, MOST_RULES = 12, 24
"""Lines under one heading, and under those of what was decided, wished and refused: an agent breaks what it lacks."""

MOST_EARLIER = 2

STEPS = 4
"""Steps from a worth of 0 to one of 1: within one the newer stands first."""

LONGEST_NOTE = 280
"""Characters of a note that is a line of this page; a longer one is a page of its own."""


DECIDED, WISHED, REFUSED = "Decisions and values", "Preferences and standing instructions", "Refused"
PROCEDURES, PITFALLS, PEOPLE = "Procedures", "Pitfalls and findings", "People"
KNOWN, OPEN = "Facts", "Open threads"
HEADINGS = (DECIDED, WISHED, REFUSED, PROCEDURES, PITFALLS, PEOPLE, KNOWN, OPEN)
_OF_KIND = {
    Kind.DECISION: DECIDED,
    Kind.VALUE: DECIDED,
    Kind.PITFALL: PITFALLS,
    Kind.FINDING: PITFALLS,
    Kind.PERSON: PEOPLE,
    Kind.EVENT: KNOWN,
    Kind.CORRECTION: DECIDED,
    Kind.PREFERENCE: WISHED,
    Kind.NEGATIVE: REFUSED,
    Kind.PROCEDURE: PROCEDURES,
}


@dataclass(frozen=True, slots=True)
class Part:
    """The lines below a heading, and how many more there are for which it has no room."""

    heading: str
    facts: Sequence[Memory]
    more: int = 0


def heading_of(fact: Memory) -> str:
    """Return under which heading a fact stands on a profile.

    "" for what only happened to a person among people, for a note that is a page of its own, and for a bare secret.
    """
    reading = read_memory(fact)
    if reading is None or (fact.kind is Kind.NOTE and len(fact.text) > LONGEST_NOTE):
        return ""
    if heading := _OF_KIND.get(reading.kind):
        return heading
    if fact.said_by in MACHINES:
        return PITFALLS  # what an assistant did and found, beside a tool's outcome
    if reading.tense == "future" and phrases("tense.intended").search(fact.text):
        return OPEN
    if fact.kind is Kind.FACT and fact.slot is not None:
        return DECIDED
    return KNOWN if reading.kind in {Kind.FACT, Kind.NOTE} else ""


def current(facts: Iterable[Memory]) -> list[Memory]:
    """Return the living facts but for those that stand below a newer one, which perhaps replaced them."""
    living = {fact.node_id: fact for fact in facts if fact.is_live}
    return [fact for fact in living.values() if not living.keys() & set(fact.later)]


def chosen(facts: Iterable[Memory]) -> list[Part]:
    """Return the living facts under each heading that has some, those of most worth first; of a relation the newest."""
    every = list(facts)
    newer = {node_id for fact in every for node_id in (fact.superseded_by, *fact.later)}
    by_heading: dict[str, list[Memory]] = defaultdict(list)
    for fact in current(every):
        if heading := heading_of(fact) or (KNOWN if fact.node_id in newer else ""):
            by_heading[heading].append(fact)
    return [_part(heading, by_heading[heading]) for heading in HEADINGS if by_heading[heading]]


def newest_first(facts: Sequence[Memory]) -> list[Memory]:
    """Sort facts by when they were said, the newest first."""
    return in_time(facts)[::-1]


def _part(heading: str, facts: Sequence[Memory]) -> Part:
    """Put facts in their order: by worth in steps, since it is not surer than that, and in a step by age."""
    ordered = sorted(newest_first(facts), key=lambda fact: -_worth(fact))
    most = MOST_RULES if heading in {DECIDED, WISHED, REFUSED} else MOST_LINES
    return Part(heading, ordered[:most], max(0, len(ordered) - most))


def _worth(fact: Memory) -> int:
    reading = read_memory(fact)
    return math.floor(STEPS * reading.worth) if reading else 0


class Replaced:
    """The facts that others took the place of, by the newer one's id: certainly, or perhaps."""

    def __init__(self, facts: Iterable[Memory]) -> None:
        self._older: dict[NodeId, list[Memory]] = defaultdict(list)
        for fact in facts:
            for newer in filter(None, (fact.superseded_by, *fact.later)):
                self._older[newer].append(fact)

    def by(self, fact: Memory) -> list[Memory]:
        """Return what a fact took the place of, the newest first, and what those had replaced; at most a few."""
        found: list[Memory] = []
        waiting = newest_first(self._older[fact.node_id])
        while waiting and len(found) < MOST_EARLIER:
            older = waiting.pop(0)
            if older not in found and older is not fact:
                found.append(older)
                waiting += newest_first(self._older[older.node_id])
        return found


def body(parts: Sequence[Part], replaced: Replaced, rest: str) -> tuple[str, tuple[NodeId, ...]]:
    """Render the parts of a page under their headings; return the text and the cited ids in order.

    `rest` says where those lines are for which a heading had no room.
    """
    cited = [one for part in parts for fact in part.facts for one in (fact, *replaced.by(fact))]
    labels = labels_of(cited)
    lines: list[str] = []
    for part in parts:
        lines += [*([""] if lines else []), f"## {part.heading}", "", *_lines(part.facts, replaced, labels)]
        lines += ["", f"… and {part.more:,} more: {rest}"] if part.more else []
    return "\n".join(lines), tuple(labels)


def _lines(facts: Sequence[Memory], replaced: Replaced, labels: Mapping[NodeId, str]) -> Iterator[str]:
    for fact in facts:
        yield line(fact, labels[fact.node_id], dated)
        yield from (f"  {line(older, labels[older.node_id], dated)}" for older in replaced.by(fact))
