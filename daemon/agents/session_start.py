"""The standing knowledge of a project, for the start of a session: what holds now, in a few lines.

The lines are those of the page that dreams keep, "What holds now": one of each of its headings in turn, and two of the
standing instructions, which an agent breaks where it does not know them. What the page does not hold yet, such as what
was remembered since, comes first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import zip_longest
from typing import TYPE_CHECKING

from ...store import estimate_tokens, fenced, read_reply, unmarked
from ...store.model import GLOBAL_CHANNEL, Kind, Level

if TYPE_CHECKING:
    from ...store import MemoryStore

STANDING_TOKENS = 400
LONGEST_LINE_TOKENS = 70
"""A longer line is left to the prompt that it answers: a start is to be short."""

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
_SPEAKER = re.compile(r'^(\d{1,2} \w+ \d{4}, )"([\w -]{1,40})": (?=“)')
"""The speaker in front of a quote, marked as what a text may have forged: here it is the page's own word."""

_FOOTNOTE = re.compile(r"(?<!\s)\s*+\[\^\w+\]\Z")
OPENING = "Remembered of this project:"


def standing_lines(store: MemoryStore, channel: str, session_id: str, since: datetime | None = None) -> list[str]:
    """Return the lines, the most useful first; with `since` only what was learned after that, by other sessions."""
    lines: list[str] = []
    for one in dict.fromkeys((channel, GLOBAL_CHANNEL)):
        of_page = [] if since is not None else list(_of_page(_page(store, one)))
        told = "\n".join(of_page)
        lines += [line for words, line in _facts(store, one, since, session_id) if words not in told]
        lines += of_page
    return list(dict.fromkeys(lines))


def standing_text(lines: Sequence[str], given: Sequence[str], budget_tokens: int) -> tuple[str, list[str]]:
    """Return the fenced lines that fit and were not given before, and these lines; "" for none."""
    told: list[str] = []
    left = budget_tokens - estimate_tokens(fenced(OPENING))
    for line in lines:
        cost = estimate_tokens(line)
        if cost <= min(left, LONGEST_LINE_TOKENS) and not any(line in before for before in given):
            told.append(line)
            left -= cost
    return (fenced("\n".join((OPENING, *told))), told) if told else ("", [])


def _page(store: MemoryStore, channel: str) -> str:
    for listed in store.list(channel=channel, level=Level.PROFILE):
        if listed.live and listed.title == PAGE:
            return store.show(listed.node_id, wanted=False).text
    return ""


def _of_page(text: str) -> Iterator[str]:
    """Yield the lines of a page, a heading's in their order, the headings in turn; not what was replaced."""
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
    """Yield living facts of a channel that are worth a line, newest first: each in its own words, and as its line.

    What has likely changed is left out: what changed it is a fact too.
    """
    for listed in store.list(channel=channel, level=Level.FACT, limit=FACTS_READ):
        is_new = since is None or (listed.created_at is not None and listed.created_at > since)
        if not (listed.live and is_new and listed.kind in _KINDS):
            continue
        shown = store.show(listed.node_id, wanted=False)
        if shown.later or any(one.node_id.partition("#")[0] == session_id for one in shown.evidence):
            continue
        said, reply_to = (" ".join(part.split()) for part in read_reply(shown.text))
        day = f"{shown.created_at:%-d %B %Y}: " if shown.created_at else ""
        answered = f"“{unmarked(reply_to)}” – " if reply_to else ""
        yield said, f"- {day}{answered}“{unmarked(said)}”"
