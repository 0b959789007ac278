"""The digest as one HTML file: no network, no script; light and dark, on screen and on paper.

Everything in it is escaped: a memory may hold any text, tags and ends of scripts included.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from html import escape
from pathlib import Path
from urllib.parse import quote

from ...store import okf
from ...store.model import Level, Memory
from ...store.text.fence import plain
from ..stages.scenarios import BEGAN, ENDED
from . import charts
from .charts import Life, Series, Stretch
from .digest_text import earlier, rendered, rendered_line, without_links, without_marks
from .run_report import RunReport
from .sections import (
    LEVEL_NAMES,
    MOST_NAMED,
    ActionSummary,
    LineGroup,
    ReportLine,
    ReportSection,
    asked_by,
    cost,
    count,
    headline,
    lead,
    memory_counts,
    sections,
    summarize,
)

UNDONE = "This dream was undone:"

# The sentence that offers to undo a dream.
_UNDO = re.compile(r'\n?(?:<p class="undo">)?Undo it all(?: with|:) [^\n]*\n')

_STYLE = Path(__file__).with_name("page.css")
_END = "\n<!-- no more dreams -->\n"
_HTML_LINK = re.compile(r'<a href="[^"]*">(.*?)</a>', re.DOTALL)
_CLASS_OF = {
    "Decisions waiting": "waiting",
    "Learned": "learned",
    "Scenarios": "learned",
    "Replaced": "contradicted",
    "Perhaps replaced": "waiting",
    "In question": "contradicted",
    "Problems found": "contradicted",
    "Gone stale": "faded",
    "Faded": "faded",
}


def path_of(day: date) -> str:
    """Return the path of a day's page in the vault."""
    return f"digests/{day.isoformat()}.html"


def render(report: RunReport, before: str = "") -> str:
    """Render the page; `before` is the day's page as earlier dreams left it, whose accounts it keeps."""
    account = "\n".join([f"<!-- dream {_safe(report.run_id)} -->", *_account(report)])
    accounts = "\n".join([account, *(kept.rstrip("\n") for kept in earlier(before.partition(_END)[0]))])
    footer = (
        "Written by dreamd, for you alone. Memories are files; nothing that faded is gone. `dreamctl open` shows the "
        "memory behind this page, `dreamctl open --at review` what waits."
    )
    return document(headline(report.day), f"{accounts}{_END}", footer)


def document(heading: str, main: str, footer: str) -> str:
    """Return a whole page around its main part, which is HTML; heading and footer are escaped."""
    title = escape(heading)
    return plain(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{title}</title>\n<style>\n{_STYLE.read_text(encoding='utf-8')}</style>\n</head>\n<body>\n"
        f"<header>{charts.moon()}<h1>{title}</h1></header>\n<main>\n{main}</main>\n"
        f"<footer>{escape(footer)}</footer>\n"
        "</body>\n</html>\n"
    )


def disowned(page: str, run_id: str, why: str) -> str:
    """Note in a dream's account on a day's page, markdown or HTML, that the dream was undone.

    The linked files are gone, so the links are removed, and the offer to undo.
    """
    start, end = _account_at(page, run_id)
    account = _UNDO.sub("", page[start:end])
    if page.startswith("<!doctype"):
        account = _HTML_LINK.sub(r"\1", account)
    else:
        account = "".join(map(without_links, account.splitlines(keepends=True)))
    return noted(page[:start] + account + page[end:], run_id, UNDONE, why)


def with_left_out(page: str, run_id: str, left_out: Sequence[tuple[str, str]]) -> str:
    """Note on a day's page, markdown or HTML, the changes that were not applied: the file and the reason of each."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for path, reason in left_out:
        by_reason[reason].append(path)
    lead = f"{count(len(left_out), 'change')} {'was' if len(left_out) == 1 else 'were'} left out:"
    told = (f"{_listed(paths)} ({reason})" for reason, paths in by_reason.items())
    return noted(page, run_id, lead, "; ".join(told) + ".")


def _listed(paths: Sequence[str]) -> str:
    """Name a few files, and count the rest."""
    named = [*paths[:MOST_NAMED], *([f"{len(paths) - MOST_NAMED:,} more"] if len(paths) > MOST_NAMED else [])]
    return ", ".join(named)


def noted(page: str, run_id: str, lead: str, text: str) -> str:
    """Add a note to a dream's account on a day's page, markdown or HTML; once, however often it is called."""
    is_html = page.startswith("<!doctype")
    said = f'<p class="noted">{lead} {escape(text)}</p>\n' if is_html else f"\n> **{lead}** {text}\n"
    start, end = _account_at(page, run_id)
    return page if start == end or said in page[start:end] else page[:start] + said + page[start:]


def _account_at(page: str, run_id: str) -> tuple[int, int]:
    """Return the start of a dream's account, after its marker, and its end; (0, 0) without one."""
    marker = f"<!-- dream {_safe(run_id) if page.startswith('<!doctype') else run_id} -->\n"
    start = page.find(marker)
    if start < 0:
        return 0, 0
    start += len(marker)
    following = (place for other in ("\n<!-- dream ", _END) if (place := page.find(other, start)) >= 0)
    return start, min(following, default=len(page))


def _account(report: RunReport) -> Iterator[str]:
    summary = summarize(report.actions)
    yield f'<article aria-label="{escape(_began(report))}">'
    yield f'<p class="when">{escape(_began(report))}</p>'
    yield f'<p class="lead">{" ".join(map(rendered_line, lead(report, summary)))}</p>'
    yield from _tiles(report, summary)
    pictured = {"Scenarios": charts.timeline("Scenarios", _stretches(summary))}
    for section in sections(report, summary):
        yield from _section(section, pictured.get(section.title, ""))
    yield from _figures(report, summary)
    yield from _numbers(report)
    if report.actions:
        yield f'<p class="undo">Undo it all: <code>dreamctl undo {escape(report.run_id)}</code></p>'
    yield "</article>"


def _began(report: RunReport) -> str:
    return f"{report.at:%H:%M} · {report.kind} dream" if report.at else f"{report.kind} dream"


def _tiles(report: RunReport, summary: ActionSummary) -> Iterator[str]:
    tiles = (
        ("facts learned", len(summary.facts), "learned"),
        ("new pages", len(summary.pages), "learned"),
        ("replaced", len(summary.replaced), "contradicted"),
        ("faded", len(summary.faded), "faded"),
        ("to decide", len(report.decisions), "waiting"),
    )
    if any(number for _, number, _ in tiles):
        yield '<dl class="tiles">'
        for name, number, colour in tiles:
            if number:
                yield f'<div class="tile {colour}"><dt>{name}</dt><dd>{number:,}</dd></div>'
        yield "</dl>"


def _figures(report: RunReport, summary: ActionSummary) -> Iterator[str]:
    series = _series(report)
    if any(len(one.points) > 1 for one in series):
        yield _figure("The memory over time", charts.over_time("The memory over time", series))
    if report.gate and report.gate.recall_before != report.gate.recall_after:
        gate, title = report.gate, f"Recall, with {asked_by(report.gate)}"
        yield _figure(title, charts.before_and_after(title, gate.recall_before, gate.recall_after))
    lives = [life for memory, _ in summary.faded if (life := _life(memory, report))]
    yield _figure("From learned to faded", charts.lives("From learned to faded", lives))


def _stretches(summary: ActionSummary) -> list[Stretch]:
    """Return the new scenarios that have days."""
    days = ((page, okf.instant(page.extra.get(BEGAN)), okf.instant(page.extra.get(ENDED))) for page in summary.pages)
    return [
        Stretch(without_marks(page.title), a.date(), b.date(), len(page.sources), f"../{quote(page.path)}")
        for page, a, b in days
        if a and b
    ]


def _figure(title: str, picture: str) -> str:
    return f"<figure><figcaption>{escape(title)}</figcaption>{picture}</figure>" if picture else ""


def _series(report: RunReport) -> list[Series]:
    """Return the number of memories of each level after each dream, this one included."""
    past = [
        (run.started_at, run.summary["memories"])
        for run in report.runs
        if run.state == "applied" and isinstance(run.summary.get("memories"), dict)
    ]
    series = []
    for level, name, names in LEVEL_NAMES:
        points: list[tuple[datetime, int]] = [(at, int(kept.get(level.value, 0))) for at, kept in past]
        now = [(report.at, report.memories.get(level, 0))] if report.at else []
        series.append(Series(names or f"{name}s", [*points, *now]))
    return series


def _life(memory: Memory, report: RunReport) -> Life | None:
    learned_at = okf.instant(memory.extra.get("learned_at")) or memory.created_at
    if learned_at is None or memory.archived_at is None or memory.level is not Level.FACT:
        return None
    return Life(without_marks(memory.title), learned_at, report.used.get(memory.node_id), memory.archived_at)


def _section(section: ReportSection, picture: str = "") -> Iterator[str]:
    """Yield a section; a picture that names all of its lines replaces them."""
    yield f'<section class="{_CLASS_OF.get(section.title, "plain")}"><h2>{escape(section.title)}</h2>'
    if picture:
        yield f"<figure>{picture}</figure>"
    for group in () if picture else section.groups:
        if group.title:
            yield f"<h3>{escape(group.title)}</h3>"
        yield from _pairs(group)
        yield "<ul>"
        yield from (f"<li>{_line(line)}</li>" for line in group.lines)
        if group.rest:
            yield f'<li class="more">{rendered_line(group.rest)}</li>'
        yield "</ul>"
    yield "</section>"


def _pairs(group: LineGroup) -> Iterator[str]:
    """Yield pairs side by side, the older to the left."""
    if not group.pairs:
        return
    heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in group.heads)
    yield f'<table class="pairs"><thead><tr>{heads}</tr></thead><tbody>'
    for old, new in group.pairs:
        yield f'<tr><td class="old">{_line(old)}</td><td class="new">{_line(new)}</td></tr>'
    yield "</tbody></table>"


def _line(line: ReportLine) -> str:
    text = rendered(line.text)
    if line.path:
        text = f'<a href="../{quote(line.path)}">{text}</a>'
    return f'{text} <span class="note">{escape(line.note)}</span>' if line.note else text


def _numbers(report: RunReport) -> Iterator[str]:
    yield '<section class="numbers"><h2>Numbers</h2>'
    if report.steps:
        yield '<table><thead><tr><th scope="col">step</th><th scope="col" class="right">seconds</th>'
        yield '<th scope="col">what</th></tr></thead><tbody>'
        for name, seconds, counts in report.steps:
            yield f'<tr><th scope="row">{escape(name)}</th><td class="right">{seconds:.1f}</td>'
            yield f"<td>{escape(counts)}</td></tr>"
        yield "</tbody></table>"
    yield f"<p>{escape(cost(report))}</p>"
    if kept := memory_counts(report):
        yield f"<p>{escape(kept)}</p>"
    yield "</section>"


def _safe(name: str) -> str:
    """Write a run's id so that it is valid in a comment."""
    return re.sub(r"[^\w.-]|--+", "-", name)
