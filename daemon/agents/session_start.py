"""The text for the start of a session: what holds now in its project, and the work that is open there.

The lines are those of "What holds now", the page that dreams keep: one of each heading in turn, and two of the standing
instructions, which an agent breaks if it does not know them. Newer facts, which the page does not hold yet, come first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import zip_longest
from typing import TYPE_CHECKING

from ...store import estimate_tokens, fenced, read_reply, unmarked
from ...store.model import GLOBAL_CHANNEL, Kind, Level

if TYPE_CHECKING:
    from ...store import MemoryStore

STANDING_TOKENS = 400
# A longer line is left to the prompts that it answers: the text of a start is to be short.
LONGEST_LINE_TOKENS = 70

PAGE = "What holds now"
HEADINGS = (
    "Preferences and standing instructions",
    "Decisions and values",
    "Dates ahead",
    "Open threads",
    "Pitfalls",
    "Procedures",
    "Refused",
    "People",
    "Facts",
)
_KINDS = frozenset({Kind.PREFERENCE, Kind.DECISION, Kind.CORRECTION, Kind.PROCEDURE, Kind.NEGATIVE, Kind.NOTE})
FACTS_READ = 40
# The speaker in front of a quote. In other texts it may be forged, and is marked; here it is the page's own.
_SPEAKER = re.compile(r'^(\d{1,2} \w+ \d{4}, )"([\w -]{1,40})": (?=“)')

_FOOTNOTE = re.compile(r"(?<!\s)\s*+\[\^\w+\]\Z")
OPENING = "Remembered of this project:"

MOST_THREADS = 3
# An older anchor of a session without an end is of another day's work, and is left to `anchor_recover`.
LOST_WITHIN = timedelta(days=1)

THREADS_OPENING = "Left open by earlier sessions:"
# The sources of a start at which an agent continues its session. Resumed, it has its context, and needs no anchor.
COMPACTED, RESUMED = "compact", "resume"


def standing_lines(store: MemoryStore, channel: str, session_id: str, since: datetime | None = None) -> list[str]:
    """Return the lines, the most useful first; with `since` only facts learned later, and from other sessions."""
    lines: list[str] = []
    for one in dict.fromkeys((channel, GLOBAL_CHANNEL)):
        of_page = [] if since is not None else list(_of_page(_page(store, one)))
        page_text = "\n".join(of_page)
        lines += [line for words, line in _facts(store, one, since, session_id) if words not in page_text]
        lines += of_page
    return list(dict.fromkeys(lines))


def standing_text(lines: Sequence[str], given: Sequence[str], budget_tokens: int) -> tuple[str, list[str]]:
    """Return the lines that fit and are not in `given`, fenced, and as a list; "" without any."""
    chosen: list[str] = []
    left = budget_tokens - estimate_tokens(fenced(OPENING))
    for line in lines:
        cost = estimate_tokens(line)
        if cost <= min(left, LONGEST_LINE_TOKENS) and not any(line in before for before in given):
            chosen.append(line)
            left -= cost
    return (fenced("\n".join((OPENING, *chosen))), chosen) if chosen else ("", [])


def _page(store: MemoryStore, channel: str) -> str:
    for listed in store.list(channel=channel, level=Level.PROFILE):
        if listed.live and listed.title == PAGE:
            return store.show(listed.node_id, wanted=False).text
    return ""


def _of_page(text: str) -> Iterator[str]:
    """Yield a page's current lines, from each heading in turn, in the order under that heading."""
    under: dict[str, list[str]] = {}
    heading = ""
    for line in text.splitlines():
        if line.startswith("## "):
            heading = line[3:].strip()
        elif line.startswith("- ") and heading in HEADINGS:
            words = unmarked(_FOOTNOTE.sub("", line[2:]))
            under.setdefault(heading, []).append("- " + _SPEAKER.sub(r"\1\2: ", words))
    instructions, *others = (under.get(heading, []) for heading in HEADINGS)
    columns = [instructions[::2], instructions[1::2], *others]
    return (line for row in zip_longest(*columns) for line in row if line is not None)


def _facts(store: MemoryStore, channel: str, since: datetime | None, session_id: str) -> Iterator[tuple[str, str]]:
    """Yield the current facts of a channel that deserve a line, newest first: their own words, and their line.

    A fact that has likely changed is left out: the newer one is a fact too.
    """
    for listed in store.list(channel=channel, level=Level.FACT, limit=FACTS_READ):
        is_new = since is None or (listed.created_at is not None and listed.created_at > since)
        if not (listed.live and is_new and listed.kind in _KINDS):
            continue
        shown = store.show(listed.node_id, wanted=False)
        # A session is not told what it has said itself; and a fact with a likely successor may be wrong.
        if shown.later or any(one.node_id.partition("#")[0] == session_id for one in shown.evidence):
            continue
        words, reply_to = (" ".join(part.split()) for part in read_reply(shown.text))
        day = f"{shown.created_at:%-d %B %Y}: " if shown.created_at else ""
        question = f"“{unmarked(reply_to)}” – " if reply_to else ""
        yield words, f"- {day}{question}“{unmarked(words)}”"


def open_work(store: MemoryStore, channel: str, session_id: str, source: str, now: datetime) -> str:
    """Return the anchor from which a session continues, and the open threads of its channel; "" without any."""
    if source in (COMPACTED, RESUMED):
        return store.anchor_of_session(session_id).text if source == COMPACTED else ""
    lost = store.lost_anchor(channel, session_id)
    anchor = lost.text if lost.anchor is not None and now - lost.anchor.set_at <= LOST_WITHIN else ""
    return "\n".join(filter(None, (anchor, _threads(store, channel))))


def _threads(store: MemoryStore, channel: str) -> str:
    lines = [
        f"- since {(goal.thread_since or goal.changed_at):%-d %B %Y}, {goal.state}: “{unmarked(goal.text)}”"
        for goal in store.threads(channel)[:MOST_THREADS]
    ]
    return fenced("\n".join((THREADS_OPENING, *lines))) if lines else ""
