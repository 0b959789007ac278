"""The digest in markdown, the page that a person reads in the morning.

A day may have several dreams: the page keeps the account of each, the latest first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from itertools import pairwise

from ...store.okf import PRODUCER
from ...store.text.controls import plain
from .inline import escaped
from .outcome import counts_in_words
from .run_report import RunReport
from .sections import Group, Line, Section, cost, headline, holdings, lead, sections, summarize

MOST_ACCOUNTS = 12
BETWEEN = "\n---\n\n"
RUN_MARKER = re.compile(r"^<!-- dream \S+ -->$", re.MULTILINE)


def path_of(day: date) -> str:
    """Return the path of a day's digest in the vault."""
    return f"digests/{day.isoformat()}.md"


def render(report: RunReport, before: str = "") -> str:
    """Render the digest; `before` is the day's page as earlier dreams left it."""
    accounts = ["\n".join([f"<!-- dream {report.run_id} -->", "", *_account(report)]) + "\n", *earlier(before)]
    return plain("\n".join(_frontmatter(report)) + f"\n# {headline(report.day)}\n\n" + BETWEEN.join(accounts))


def _frontmatter(report: RunReport) -> Iterator[str]:
    """Yield the frontmatter that the format asks of every page (OKF v0.2, 11.1)."""
    yield from ("---", "type: Digest", f"title: {headline(report.day)}")
    if report.at is not None:
        at = report.at.isoformat()
        yield from (f'timestamp: "{at}"', f'generated: {{by: "{PRODUCER}", at: "{at}"}}')
    yield from ("---", "")


def earlier(page: str) -> list[str]:
    """Return the accounts of earlier dreams on a page, newest first."""
    bounds = [*(match.start() for match in RUN_MARKER.finditer(page)), len(page)]
    return [page[start:end].removesuffix(BETWEEN) for start, end in pairwise(bounds[:MOST_ACCOUNTS])]


def _account(report: RunReport) -> Iterator[str]:
    summary = summarize(report.actions)
    began = f"At {report.at:%H:%M}, a {report.kind} dream: " if report.at else ""
    undo = f"Undo it all with `dreamctl undo {report.run_id}`." if report.actions else ""
    yield f"{began}{' '.join(_plain(sentence) for sentence in lead(report, summary))}"
    yield from ("", undo) if undo else ()
    for section in sections(report, summary):
        yield from _section(section)
    yield from ("", "## Numbers", "", *_numbers(report))


def _section(section: Section) -> Iterator[str]:
    yield from ("", f"## {section.title}")
    for group in section.groups:
        yield ""
        if group.title:
            yield from (f"### {_plain(group.title)}", "")
        yield from (f"- {_line(line)}" for line in group.lines)
        yield from _table(group)
        if group.rest:
            yield from (*([""] if group.pairs else []), f"- {group.rest}")


def _table(group: Group) -> Iterator[str]:
    """Yield pairs side by side: each a row, whole, with its day."""
    if group.pairs:
        yield from (f"| {' | '.join(group.heads)} |", "| --- | --- |")
    for pair in group.pairs:
        cells = (f"{_line(Line(line.text, line.path))} ({line.note})" if line.note else _line(line) for line in pair)
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _line(line: Line) -> str:
    text = f"[{_plain(line.text)}](/{line.path.replace(' ', '%20')})" if line.path else _plain(line.text)
    return f"{text} · {_plain(line.note)}" if line.note else text


def _plain(text: str) -> str:
    """Write text on one line so that nothing in it is a link, a comment or a tag."""
    return escaped(plain(text))


def _numbers(report: RunReport) -> Iterator[str]:
    yield from ("| step | seconds | what |", "| --- | --- | --- |")
    for stage, seconds in report.seconds.items():
        yield f"| {stage} | {seconds:.1f} | {counts_in_words(report.counts.get(stage, {}))} |"
    yield from ("", cost(report))
    if kept := holdings(report):
        yield from ("", kept)
