"""The digest in markdown, the page that a person reads in the morning.

A day may have several dreams: the page keeps the account of each, the latest first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from html import escape
from itertools import groupby, pairwise

from ...store.okf import PRODUCER
from ...store.text.fence import plain
from ...store.text.sentences import on_one_line
from .run_report import RunReport
from .sections import LineGroup, ReportLine, ReportSection, cost, headline, lead, memory_counts, sections, summarize

MOST_ACCOUNTS = 12
BETWEEN = "\n---\n\n"
RUN_MARKER = re.compile(r"^<!-- dream \S+ -->$", re.MULTILINE)
_RUN = re.compile(r"`+")

# Marks that open a link, a tag or code, or escape the one that follows.
_MARKS = re.compile(r"[\[\]<`]|\\(?=[!-/:-@\[-`{-~]|\Z)")

_BOLD = re.compile(r"\*\*(?=[^\s*])((?:[^*]|\*(?!\*))+?)(?<=\S)\*\*")
_PLACEHOLDER = re.compile("\0(\\d+)\0")
_LINK = re.compile(r"(?<!\\)\[|(?<!\\)\]\(/[^()\n]*\)")
_ITEM = re.compile(r"(?P<lead>[^“\n]{0,80}“)?\s*(?:[-*+•]|(?P<number>\d{1,3})[.)])\s+(?P<text>\S.*)")
_FENCE = re.compile(r"\s*(`{3,})[^`]*")

_BLOCKS = {
    "": "{}",
    "ul": '<ul class="said">{}</ul>',
    "ol": '<ol class="said">{}</ol>',
    "pre": "<pre><code>{}</code></pre>",
}


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


def _section(section: ReportSection) -> Iterator[str]:
    yield from ("", f"## {section.title}")
    for group in section.groups:
        yield ""
        if group.title:
            yield from (f"### {_plain(group.title)}", "")
        yield from (f"- {_line(line)}" for line in group.lines)
        yield from _table(group)
        if group.rest:
            yield from (*([""] if group.pairs else []), f"- {group.rest}")


def _table(group: LineGroup) -> Iterator[str]:
    """Yield pairs side by side: each a row, whole, with its day."""
    if group.pairs:
        yield from (f"| {' | '.join(group.heads)} |", "| --- | --- |")
    for pair in group.pairs:
        cells = (
            f"{_line(ReportLine(line.text, line.path))} ({line.note})" if line.note else _line(line) for line in pair
        )
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _line(line: ReportLine) -> str:
    text = f"[{_plain(line.text)}](/{line.path.replace(' ', '%20')})" if line.path else _plain(line.text)
    return f"{text} · {_plain(line.note)}" if line.note else text


def _plain(text: str) -> str:
    """Write text on one line so that nothing in it is a link, a comment or a tag."""
    return escaped(plain(text))


def _numbers(report: RunReport) -> Iterator[str]:
    if report.steps:
        yield from ("| step | seconds | what |", "| --- | --- | --- |")
        yield from (f"| {name} | {seconds:.1f} | {counts} |" for name, seconds, counts in report.steps)
        yield ""
    yield cost(report)
    if kept := memory_counts(report):
        yield from ("", kept)


def escaped(text: str) -> str:
    """Write a text on one line of markdown so that nothing in it is a link, a comment or a tag."""
    parts = code_apart(on_one_line(text))
    return "".join(part if is_code else _MARKS.sub(r"\\\g<0>", part) for part, is_code in parts)


def without_links(line: str) -> str:
    """Drop the links of a line of markdown, but for their words."""
    return "".join(part if is_code else _LINK.sub("", part) for part, is_code in code_apart(line))


def rendered(text: str) -> str:
    """Return a text as HTML: its lists, code and bold words; everything else is escaped."""
    blocks = groupby(_lines(text.split("\n")), key=lambda line: line[0])
    return " ".join(_BLOCKS[tag].format("".join(line for _, line in lines)).strip() for tag, lines in blocks)


def rendered_line(line: str) -> str:
    """Return a line as HTML, with its code and bold words."""
    # Code is replaced by numbered placeholders first, so that no "**" within it is read as bold.
    codes: list[str] = []
    marked = ""
    for part, is_code in code_apart(plain(line)):
        marked += f"\0{len(codes)}\0" if is_code else escape(part)
        codes += [f"<code>{escape(part.strip('`').strip())}</code>"] if is_code else []
    return _PLACEHOLDER.sub(lambda mark: codes[int(mark[1])], _BOLD.sub(r"<strong>\1</strong>", marked))


def without_marks(line: str) -> str:
    """Return a line as it reads where it is rendered."""
    parts = (part.strip("`").strip() if is_code else part for part, is_code in code_apart(line))
    return _BOLD.sub(r"\1", "".join(parts))


def code_apart(line: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a line in order, those between runs of equally many backticks as code. Linear time."""
    runs = [run.span() for run in _RUN.finditer(line)]
    closing, at, place = _closing(runs), 0, 0
    while place < len(runs):
        start, end = runs[place][0], closing[place]
        if end is None or line[max(0, start - 1) : start] == "\\":
            place += 1
            continue
        yield line[at:start], False
        at = runs[end][1]
        yield line[start:at], True
        place = end + 1
    yield line[at:], False


def _closing(runs: Sequence[tuple[int, int]]) -> list[int | None]:
    """Return for each run of backticks the next one of its length."""
    following: dict[int, int] = {}
    closing: list[int | None] = [None] * len(runs)
    for place in range(len(runs) - 1, -1, -1):
        size = runs[place][1] - runs[place][0]
        closing[place] = following.get(size)
        following[size] = place
    return closing


def _lines(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each line as HTML, with the tag of the block that it is part of."""
    fence = ""
    for place, line in enumerate(lines):
        mark = _FENCE.fullmatch(line)
        if fence:
            is_end = line.strip() == fence
            fence = "" if is_end else fence
            if not is_end:
                yield "pre", f"{escape(line)}\n"
        elif mark and any(other.strip() == mark[1] for other in lines[place + 1 :]):
            fence = mark[1]
        elif item := _ITEM.fullmatch(line):
            if item["lead"]:
                yield "", rendered_line(item["lead"])
            number = f' value="{item["number"]}"' if item["number"] else ""
            yield "ol" if number else "ul", f"<li{number}>{rendered_line(item['text'])}</li>"
        else:
            yield "", f"{rendered_line(line)} "
