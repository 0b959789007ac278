"""The digest: what a night did, as a page of markdown that a person reads with pleasure in the morning.

A day may see several dreams: the page keeps the account of each, the latest first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from itertools import pairwise

from ...store.keep.okf.document import PRODUCER
from ...store.text.controls import plain
from .sections import Group, Line, Night, Section, cost, headline, holdings, sections, summary, told

MOST_ACCOUNTS = 12
BETWEEN = "\n---\n\n"
MARK = re.compile(r"^<!-- dream \S+ -->$", re.MULTILINE)

__all__ = ["Night", "path_of", "render"]


def path_of(day: date) -> str:
    """Where the digest of a day lies."""
    return f"digests/{day.isoformat()}.md"


def render(night: Night, before: str = "") -> str:
    """The page; `before` is the day's page as earlier dreams left it."""
    accounts = ["\n".join([f"<!-- dream {night.run_id} -->", "", *_account(night)]) + "\n", *earlier(before)]
    return plain("\n".join(_frontmatter(night)) + f"\n# {headline(night.day)}\n\n" + BETWEEN.join(accounts))


def _frontmatter(night: Night) -> Iterator[str]:
    """What the format asks of every page (OKF v0.2, 11.1)."""
    yield from ("---", "type: Digest", f"title: {headline(night.day)}")
    if night.at is not None:
        at = night.at.isoformat()
        yield from (f'timestamp: "{at}"', f'generated: {{by: "{PRODUCER}", at: "{at}"}}')
    yield from ("---", "")


def earlier(page: str) -> list[str]:
    """The accounts of earlier dreams on a page, newest first."""
    bounds = [*(match.start() for match in MARK.finditer(page)), len(page)]
    return [page[start:end].removesuffix(BETWEEN) for start, end in pairwise(bounds[:MOST_ACCOUNTS])]


def _account(night: Night) -> Iterator[str]:
    done = told(night.actions)
    began = f"At {night.at:%H:%M}, a {night.kind} dream: " if night.at else ""
    undo = f" Undo it all with `dreamctl undo {night.run_id}`." if night.actions else ""
    yield f"{began}{summary(night, done)}{undo}"
    for section in sections(night, done):
        yield from _section(section)
    yield from ("", "## Numbers", "", *_numbers(night))


def _section(section: Section) -> Iterator[str]:
    yield from ("", f"## {section.title}")
    for group in section.groups:
        yield ""
        if group.title:
            yield from (f"### {_plain(group.title)}", "")
        yield from (f"- {_line(line)}" for line in group.lines)
        if rest := _rest(group):
            yield f"- {rest}"


def _rest(group: Group) -> str:
    more = f"… and {group.more:,} more" if group.more else ""
    return "; ".join(part for part in (more, group.more_hint) if part)


def _line(line: Line) -> str:
    text = f"[{_plain(line.text)}](/{line.path.replace(' ', '%20')})" if line.path else _plain(line.text)
    return f"{text}: {_plain(line.note)}" if line.note else text


def _plain(text: str) -> str:
    """One line in which nothing is a link, a comment or a tag."""
    return " ".join(plain(text).split()).replace("[", "(").replace("]", ")").replace("<", "\\<")


def _numbers(night: Night) -> Iterator[str]:
    yield from ("| step | seconds | what |", "| --- | --- | --- |")
    for stage, seconds in night.seconds.items():
        counts = ", ".join(f"{number} {what}" for what, number in night.counts.get(stage, {}).items())
        yield f"| {stage} | {seconds:.1f} | {counts or 'nothing to do'} |"
    yield from ("", cost(night))
    if kept := holdings(night):
        yield from ("", kept)
