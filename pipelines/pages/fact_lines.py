"""Lines of facts: a fact as a verbatim quote on one line of a page, with its day and its footnote."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from ...store import okf
from ...store.model import Kind, Memory, NodeId
from ...store.roles import Role
from ...store.text.dates import format_date
from ...store.text.quotes import read_reply
from ...store.text.sentences import on_one_line

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


def until(fact: Memory) -> str:
    """Return the note behind a quote that is replaced or doubtful; "" for a current one."""
    if fact.superseded_by:
        return f"until {format_date(fact.valid_to.date())}" if fact.valid_to else "no longer"
    if fact.later:
        return "perhaps replaced since"
    return "in question" if fact.contradicts else ""


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
