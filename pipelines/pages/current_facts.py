"""The current facts of a channel: one line each, the highest worth first, with the facts that it replaced below.

A line is a verbatim quote with its day and its footnote.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from itertools import product, takewhile

from ...store import okf
from ...store.changes.edits import until as until
from ...store.model import Kind, Memory, NodeId
from ...store.okf.memory_file import EDITED_AT
from ...store.roles import MACHINES, Role
from ...store.text.dates import format_date
from ...store.text.judging import RELATED_FROM, change_reasons, change_score
from ...store.text.languages import phrases
from ...store.text.quotes import read_reply
from ...store.text.sentences import joined_as_one, joined_sentences, on_one_line, sentences_of
from ...store.text.statements import read
from ..extract.attributes import WORTH, MemoryAttributes, read_memory

# Lines under one heading, and under those of preferences and refusals: an agent breaks a rule that it lacks.
MOST_LINES, MOST_RULES = 12, 24

# Smallest worth of a fact said to an assistant: of people left out nine in ten of such facts are worth keeping.
SURE_WORTH = 0.75

MOST_EARLIER = 2

# Steps of worth between 0 and 1; within a step the newer fact comes first.
STEPS = 10

# Largest number of characters of a note that is a line of this page; a longer one is a page of its own.
LONGEST_NOTE = 280


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

LINKED_COSINE = RELATED_FROM
"""The cosine given to the judge of a change that is shown: the smallest that links, so that only the words decide."""

# Length of a text that is read at a glance in a table of two columns.
SHORT_CHARS = 200


@dataclass(frozen=True, slots=True)
class Part:
    """The lines below a heading, and the number of those left out for lack of room."""

    heading: str
    facts: Sequence[Memory]
    more: int = 0


def heading_of(fact: Memory, today: date) -> str:
    """Return the heading of a fact on a profile, "" if it is not part of the current state.

    Left out are past episodes, findings of an assistant, questions, events whose day is past, facts of low worth, notes
    that are a page of their own, and bare secrets.
    """
    reading = read_memory(fact)
    if reading is None or (fact.kind is Kind.NOTE and len(fact.text) > LONGEST_NOTE):
        return ""
    if fact.sources and not _is_current(fact, reading):
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


def _is_current(fact: Memory, reading: MemoryAttributes) -> bool:
    """Check that a statement is a person's, no question, and clearly worth keeping if said to an assistant.

    A statement to an assistant that may be a stranger's words has the kind FACT, so that kind needs a slot here.
    """
    words, _ = read_reply(fact.text)
    is_doubtful = reading.worth < SURE_WORTH or (fact.kind is Kind.FACT and fact.slot is None)
    is_to_assistant = fact.said_by == Role.USER and WORTH in fact.extra
    is_question = words.rstrip("”\"' ").endswith("?")
    return fact.said_by not in MACHINES and not is_question and not (is_to_assistant and is_doubtful)


def current(facts: Iterable[Memory]) -> list[Memory]:
    """Return the live facts except those with a live probable successor, which are shown below it."""
    living = {fact.node_id: fact for fact in facts if fact.is_live}
    return [fact for fact in living.values() if not living.keys() & set(fact.later)]


def current_parts(facts: Iterable[Memory], today: date) -> list[Part]:
    """Return the current facts by heading, the highest worth first; headings without facts are left out."""
    every = list(facts)
    newer = {node_id for fact in every for node_id in (fact.superseded_by, *fact.later)}
    by_heading: dict[str, list[Memory]] = defaultdict(list)
    for fact in current(every):
        # What replaced something, or was put right by hand, has a line whatever its kind.
        is_wanted = fact.node_id in newer or EDITED_AT in fact.extra
        if heading := heading_of(fact, today) or (KNOWN if is_wanted else ""):
            by_heading[heading].append(fact)
    return [_part(heading, by_heading[heading]) for heading in HEADINGS if by_heading[heading]]


def rank(fact: Memory, today: date) -> tuple[int, int]:
    """Return the rank of a fact among those newly learned: the place of its heading, or behind them; then its worth."""
    heading = heading_of(fact, today)
    return HEADINGS.index(heading) if heading else len(HEADINGS), -_worth(fact)


def newest_first(facts: Sequence[Memory]) -> list[Memory]:
    """Sort facts by the time of speaking, the newest first."""
    return in_time(facts)[::-1]


def _part(heading: str, facts: Sequence[Memory]) -> Part:
    """Order facts by worth in steps, since it is no more precise, and within a step by age."""
    ordered = sorted(newest_first(facts), key=lambda fact: -_worth(fact))
    most = MOST_RULES if heading in {WISHED, REFUSED} else MOST_LINES
    return Part(heading, ordered[:most], max(0, len(ordered) - most))


def _worth(fact: Memory) -> int:
    reading = read_memory(fact)
    return math.floor(STEPS * reading.worth) if reading else 0


class Predecessors:
    """The certain and probable predecessors of facts, by the id of the newer."""

    def __init__(self, facts: Iterable[Memory]) -> None:
        self._older: dict[NodeId, list[Memory]] = defaultdict(list)
        for fact in facts:
            for newer in filter(None, (fact.superseded_by, *fact.later)):
                self._older[newer].append(fact)

    def by(self, fact: Memory) -> list[Memory]:
        """Return the predecessors of a fact, transitively, the newest first; at most MOST_EARLIER."""
        found: list[Memory] = []
        waiting = newest_first(self._older[fact.node_id])
        while waiting and len(found) < MOST_EARLIER:
            older = waiting.pop(0)
            if older not in found and older is not fact:
                found.append(older)
                waiting += newest_first(self._older[older.node_id])
        return found


def profile_body(parts: Sequence[Part], replaced: Predecessors, rest: str) -> tuple[str, tuple[NodeId, ...]]:
    """Render the parts of a page under their headings; return the text and the cited ids in order.

    `rest` names the place of the lines left out for lack of room.
    """
    cited = [one for part in parts for fact in part.facts for one in (fact, *replaced.by(fact))]
    labels = labels_of(cited)
    lines: list[str] = []
    for part in parts:
        lines += [*([""] if lines else []), f"## {part.heading}", "", *_lines(part.facts, replaced, labels)]
        lines += ["", f"… and {part.more:,} more: {rest}"] if part.more else []
    return "\n".join(lines), tuple(labels)


def _lines(facts: Sequence[Memory], replaced: Predecessors, labels: Mapping[NodeId, str]) -> Iterator[str]:
    for fact in facts:
        yield line(fact, labels[fact.node_id], dated)
        yield from (f"  {line(older, labels[older.node_id], dated)}" for older in replaced.by(fact))


def with_plain_successors(facts: Iterable[Memory]) -> list[Memory]:
    """Return facts, each with only those probable successors whose words plainly replace it."""
    known = {fact.node_id: fact for fact in facts}
    return [replace(fact, later=_plain_of(fact, known)) if fact.later else fact for fact in known.values()]


def _plain_of(fact: Memory, known: dict[NodeId, Memory]) -> tuple[NodeId, ...]:
    return tuple(newer for newer in fact.later if newer in known and is_plain_change(fact, known[newer]))


def is_plain_change(older: Memory, newer: Memory) -> bool:
    """Check that the newer ends a thing that the older names ("from SQLite to Postgres") or gives it another value."""
    if older.said_by in MACHINES or newer.said_by in MACHINES:
        return False
    reasons = (change_reasons(read(old), read(new), LINKED_COSINE, {}) for old, new in _pairs(older, newer))
    return any(found and (found["ended"] or found["value"]) for found in reasons)


def shortened_to_change(older: Memory, newer: Memory) -> tuple[Memory, Memory]:
    """Return both facts, each shortened to the sentence that shows the change best; whole where none shows it."""

    def score(pair: tuple[str, str]) -> float:
        return change_score(change_reasons(read(pair[0]), read(pair[1]), LINKED_COSINE, {}))

    # Every pair of sentences is scored: the change is mostly stated in one sentence of each.
    pairs = list(_pairs(older, newer))
    best = max(pairs, key=score, default=None)
    if best is None or not score(best):
        return older, newer
    return _from(best[0], older), _from(best[1], newer)


def _from(sentence: str, memory: Memory) -> Memory:
    """Return a memory with its own words if they are short, else with SHORT_CHARS from this sentence on.

    The value often stands in the next one: "License: not MIT any more. MPL-2.0, since somebody sold a copy."
    """
    said = read_reply(memory.text)[0]
    words = " ".join(said.split())
    if len(words) > SHORT_CHARS:
        pieces = joined_sentences(said)
        first = [piece.text for piece in pieces].index(sentence)
        following = (joined_as_one(pieces[first:end], said).text for end in range(first + 1, len(pieces) + 1))
        words = max(takewhile(lambda part: len(part) <= SHORT_CHARS, following), key=len, default=sentence)
    return replace(memory, text=words, days=())


def _pairs(older: Memory, newer: Memory) -> Iterable[tuple[str, str]]:
    return product(sentences_of(read_reply(older.text)[0]), sentences_of(read_reply(newer.text)[0]))


_DAY_NUMBER = re.compile(r"(?<![\d.,:])\d{1,2}(?![\d:])")
_NEVER = datetime.max.replace(tzinfo=UTC)


def in_time(facts: Sequence[Memory]) -> list[Memory]:
    """Sort facts oldest first, in the order of the turns of a session; those without a time come last."""
    return sorted(facts, key=lambda fact: (fact.created_at or _NEVER, *place_of(fact), fact.node_id))


def place_of(fact: Memory) -> tuple[str, int]:
    """Return the session and the turn from which a fact was drawn; ("", 0) where there is none."""
    session, _, ordinal = (fact.sources[0] if fact.sources else "").partition("#")
    return session, int(ordinal) if ordinal.isdigit() else 0


def quoted(fact: Memory) -> str:
    """Return a fact's text in quotation marks; without them if it has no speaker. Line breaks stay.

    A reply comes after the sentence that it replies to; a correction or a refusal comes before.
    """
    words, reply_to = read_reply(fact.text)
    said = [part.strip() for part in (reply_to, words) if part]
    if fact.said_by is None:
        return " ".join(said)
    marked = [f"“{part.strip('“”')}”" for part in said]
    if fact.kind in {Kind.CORRECTION, Kind.NEGATIVE}:
        return ", said to ".join(reversed(marked))
    return " – ".join(marked)


def with_days(fact: Memory) -> str:
    """Return the quote, and in brackets the days that its words imply but do not name."""
    # A day is not repeated where its number is in the text or is the day of speaking, which is shown anyway.
    said = {fact.created_at.day if fact.created_at else 0} | {int(number) for number in _DAY_NUMBER.findall(fact.text)}
    days = ", ".join(format_date(day) for day in fact.days if day.day not in said)
    return f"{quoted(fact)} [{days}]" if days else quoted(fact)


def spoken(fact: Memory) -> str:
    """Return the quote with its speaker's name in front, except for the page's own person."""
    named = fact.said_by and fact.said_by != Role.USER
    return f"{fact.said_by}: {with_days(fact)}" if named else with_days(fact)


def day_of(fact: Memory) -> str:
    """Return the day on which a fact was said."""
    return format_date(fact.created_at.date()) if fact.created_at else "Undated"


def dated(fact: Memory) -> str:
    """Return the quote with its day and its speaker in front."""
    named = fact.said_by and fact.said_by != Role.USER
    return f"{day_of(fact)}{', ' if named else ': '}{spoken(fact)}"


def line(fact: Memory, label: str, wording: Callable[[Memory], str] = spoken) -> str:
    """Render a fact as a bullet on one line, struck through if it is superseded, with its footnote at the end."""
    words, note = on_one_line(wording(fact)), until(fact)
    if fact.superseded_by:
        words = f"~~{words}~~"
    return f"- {words}{f' ({note})' if note else ''} [^{label}]"


def with_footnotes(text: str, sources: Sequence[NodeId], facts: Iterable[Memory]) -> str:
    """Return a page's text with the definitions of its footnotes below: the day of each fact, linked to its file."""
    known = {fact.node_id: fact for fact in facts}
    labels = okf.source_ids(sources)
    cited = [(labels[source], known[source]) for source in sources if source in known]
    notes = [f"[^{label}]: [{day_of(fact)}](/{fact.path.replace(' ', '%20')})" for label, fact in cited]
    return "\n".join([text, *([""] if notes else []), *notes])


def labels_of(facts: Sequence[Memory]) -> dict[NodeId, str]:
    """Return the footnote of each fact, in the order in which a page cites them as its sources."""
    return okf.source_ids([fact.node_id for fact in facts])
