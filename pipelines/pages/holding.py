"""The present state of a channel: living facts one line each, of most worth first; below each, what it replaced."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from ...store.model import Kind, Memory, NodeId
from ...store.roles import MACHINES, Role
from ...store.text.languages import phrases
from ...store.text.quotes import read_reply
from ..extract.memories import WORTH, Reading, read_memory
from .quotes import dated, in_time, labels_of, line

MOST_LINES, MOST_RULES = 12, 24
"""Lines under one heading, and under those of what is wished and refused: an agent breaks what it lacks."""

HELD_WORTH = 0.75
"""Least worth of what a person said to an assistant: of people left out nine in ten of such facts are worth keeping."""

MOST_EARLIER = 2

STEPS = 10
"""Steps from a worth of 0 to one of 1: within one the newer stands first."""

LONGEST_NOTE = 280
"""Characters of a note that is a line of this page; a longer one is a page of its own."""


DECIDED, WISHED, REFUSED = "Decisions and values", "Preferences and standing instructions", "Refused"
PROCEDURES, PITFALLS, PEOPLE = "Procedures", "Pitfalls", "People"
AHEAD, KNOWN, OPEN = "Dates ahead", "Facts", "Open threads"
HEADINGS = (DECIDED, WISHED, REFUSED, PROCEDURES, PITFALLS, PEOPLE, AHEAD, KNOWN, OPEN)
_OF_KIND = {
    Kind.DECISION: DECIDED,
    Kind.VALUE: DECIDED,
    Kind.PITFALL: PITFALLS,
    Kind.PERSON: PEOPLE,
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


def heading_of(fact: Memory, today: date) -> str:
    """Return under which heading a fact stands on a profile.

    "" for what does not hold: what only happened, what an assistant found and mended, a question, an event whose day is
    past, and what was hardly worth keeping; for a note that is a page of its own, and for a bare secret.
    """
    reading = read_memory(fact)
    if reading is None or (fact.kind is Kind.NOTE and len(fact.text) > LONGEST_NOTE):
        return ""
    if fact.sources and not _holds(fact, reading):
        return ""
    if reading.kind is Kind.EVENT:
        return AHEAD if any(day >= today for day in fact.days) else ""
    if heading := _OF_KIND.get(reading.kind):
        return heading
    if reading.tense == "future" and phrases("tense.intended").search(fact.text):
        return OPEN
    if fact.kind is Kind.FACT and fact.slot is not None:
        return DECIDED
    return KNOWN if reading.kind in {Kind.FACT, Kind.NOTE} else ""


def _holds(fact: Memory, reading: Reading) -> bool:
    """Check that what was said is no question, no assistant's, and surely worth keeping if it was said to one.

    Of what was said to an assistant, that which may be a stranger's words is of no kind but a fact.
    """
    words, _ = read_reply(fact.text)
    is_doubtful = reading.worth < HELD_WORTH or (fact.kind is Kind.FACT and fact.slot is None)
    is_to_assistant = fact.said_by == Role.USER and WORTH in fact.extra
    is_question = words.rstrip("”\"' ").endswith("?")
    return fact.said_by not in MACHINES and not is_question and not (is_to_assistant and is_doubtful)


def current(facts: Iterable[Memory]) -> list[Memory]:
    """Return the living facts but for those that stand below a newer one, which perhaps replaced them."""
    living = {fact.node_id: fact for fact in facts if fact.is_live}
    return [fact for fact in living.values() if not living.keys() & set(fact.later)]


def chosen(facts: Iterable[Memory], today: date) -> list[Part]:
    """Return the living facts under each heading that has some, those of most worth first; of a relation the newest."""
    every = list(facts)
    newer = {node_id for fact in every for node_id in (fact.superseded_by, *fact.later)}
    by_heading: dict[str, list[Memory]] = defaultdict(list)
    for fact in current(every):
        if heading := heading_of(fact, today) or (KNOWN if fact.node_id in newer else ""):
            by_heading[heading].append(fact)
    return [_part(heading, by_heading[heading]) for heading in HEADINGS if by_heading[heading]]


def newest_first(facts: Sequence[Memory]) -> list[Memory]:
    """Sort facts by when they were said, the newest first."""
    return in_time(facts)[::-1]


def _part(heading: str, facts: Sequence[Memory]) -> Part:
    """Put facts in their order: by worth in steps, since it is not surer than that, and in a step by age."""
    ordered = sorted(newest_first(facts), key=lambda fact: -_worth(fact))
    most = MOST_RULES if heading in {WISHED, REFUSED} else MOST_LINES
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
