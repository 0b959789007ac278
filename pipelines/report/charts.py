"""Charts of a run as inline SVG: no script, no font and no address; colours come from the page that holds them.

Every chart is 640 units wide, has a description in words, and escapes every text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from html import escape

WIDTH = 640

# Where the drawing begins, right of the names.
LABELS = 168

MOST_POINTS = 180
MOST_LIVES = 12
MOST_STRETCHES = 12
MARGIN = 10
LONGEST_LABEL = 26


@dataclass(frozen=True, slots=True)
class Series:
    """Numbers of one thing over time."""

    name: str
    points: Sequence[tuple[datetime, int]]


@dataclass(frozen=True, slots=True)
class Stretch:
    """A span from one day to another; `number` is its weight, `link` the address of its page."""

    name: str
    began: date
    ended: date
    number: int
    link: str


@dataclass(frozen=True, slots=True)
class Life:
    """A memory that faded: when it was learned, last used (None: never) and archived."""

    name: str
    learned_at: datetime
    used_at: datetime | None
    archived_at: datetime


def over_time(title: str, all_series: Sequence[Series]) -> str:
    """Draw one curve a series, each on its own scale: facts outnumber profiles by a thousand."""
    moments = [at for series in all_series for at, _ in series.points]
    if not moments:
        return ""
    first, last = min(moments), max(moments)
    span_s = (last - first).total_seconds() or 1.0
    room = WIDTH - LABELS - 70
    parts, description = [], []
    for row, series in enumerate(all_series):
        top, height = 12 + 62 * row, 40
        points = _thinned(series.points)
        largest = max((number for _, number in points), default=0) or 1
        placed = [
            (
                LABELS + room * ((at - first).total_seconds() / span_s if first != last else 1.0),
                top + height - height * number / largest,
            )
            for at, number in points
        ]
        now, before = (points[-1][1], points[0][1]) if points else (0, 0)
        parts.append(_text(LABELS - 12, top + height - 4, series.name, "end"))
        parts.append(f'<path class="axis" d="M{LABELS} {top + height + 0.5}H{LABELS + room}"/>')
        parts += _curve(placed, top + height)
        parts.append(_text(LABELS + room + 12, top + height - 4, f"{now:,}", "start", "number"))
        description.append(f"{series.name} from {before} to {now}")
    bottom = 62 * len(all_series) + 16
    parts.append(_text(LABELS, bottom, f"{first:%-d %b %Y}", "start", "faint"))
    if first.date() != last.date():
        parts.append(_text(LABELS + room, bottom, f"{last:%-d %b %Y}", "end", "faint"))
    return _svg(title, "; ".join(description), bottom + 8, parts)


def timeline(title: str, stretches: Sequence[Stretch]) -> str:
    """Draw stretches of time below each other, each under its name; the newest come first."""
    shown = sorted(stretches, key=lambda one: (one.ended, one.began), reverse=True)[:MOST_STRETCHES]
    if not shown:
        return ""
    first, last = min(one.began for one in shown), max(one.ended for one in shown)
    span = (last - first).days or 1
    room = WIDTH - 2 * MARGIN
    most = max(one.number for one in shown)
    parts = []
    for row, one in enumerate(shown):
        y = 18 + 40 * row
        left, right = (MARGIN + room * (day - first).days / span for day in (one.began, one.ended))
        radius = 4 + 5 * (one.number / most) ** 0.5
        parts.append(f'<a href="{escape(one.link)}">{_text(0, y, one.name, "start")}</a>')
        parts.append(f'<path class="axis" d="M{MARGIN} {y + 14}H{WIDTH - MARGIN}"/>')
        parts.append(f'<path class="stroke learned" d="M{left:.1f} {y + 14}H{right:.1f}"/>')
        parts.append(f'<circle class="learned" cx="{right:.1f}" cy="{y + 14}" r="{radius:.1f}"/>')
    bottom = 40 * len(shown) + 18
    if left_out := len(stretches) - len(shown):
        parts.append(_text(WIDTH / 2, bottom, f"and {left_out:,} earlier", "middle", "faint"))
    parts.append(_text(0, bottom, f"{first:%-d %b %Y}", "start", "faint"))
    if first != last:
        parts.append(_text(WIDTH, bottom, f"{last:%-d %b %Y}", "end", "faint"))
    description = "; ".join(f"{one.name}, {one.ended:%-d %b %Y}" for one in shown)
    return _svg(title, description, bottom + 8, parts)


def before_and_after(title: str, before: float, after: float) -> str:
    """Draw two shares on lines from 0 to 1."""
    room = WIDTH - LABELS - 70
    parts = []
    for row, (name, share, colour) in enumerate((("before", before, "plain"), ("after", after, "learned"))):
        y, x = 26 + 34 * row, LABELS + room * min(1.0, max(0.0, share))
        parts.append(_text(LABELS - 12, y + 5, name, "end"))
        parts.append(f'<path class="axis" d="M{LABELS} {y}H{LABELS + room}"/>')
        parts.append(f'<path class="stroke {colour}" d="M{LABELS} {y}H{x:.1f}"/>')
        parts.append(f'<circle class="{colour}" cx="{x:.1f}" cy="{y}" r="7"/>')
        parts.append(_text(LABELS + room + 12, y + 5, f"{share:.3f}", "start", "number"))
    return _svg(title, f"{before:.3f} before, {after:.3f} after", 84, parts)


def lives(title: str, faded: Sequence[Life]) -> str:
    """Draw a line from when each was learned to when it faded; a dot where it was last used."""
    shown = sorted(faded, key=lambda life: life.learned_at)[:MOST_LIVES]
    if not shown:
        return ""
    first, last = min(life.learned_at for life in shown), max(life.archived_at for life in shown)
    span_s = (last - first).total_seconds() or 1.0
    left, room = 240, WIDTH - 240 - 20

    def place(at: datetime) -> float:
        return left + room * (at - first).total_seconds() / span_s

    parts = []
    for row, life in enumerate(shown):
        y = 20 + 26 * row
        parts.append(_text(left - 14, y + 5, _short(life.name), "end"))
        parts.append(f'<path class="life" d="M{place(life.learned_at):.1f} {y}H{place(life.archived_at):.1f}"/>')
        if life.used_at and life.learned_at <= life.used_at <= life.archived_at:
            parts.append(f'<circle class="learned" cx="{place(life.used_at):.1f}" cy="{y}" r="5"/>')
        parts.append(f'<circle class="faded" cx="{place(life.archived_at):.1f}" cy="{y}" r="5"/>')
    bottom = 26 * len(shown) + 26
    parts.append(_text(left, bottom, f"{first:%-d %b %Y}", "start", "faint"))
    parts.append(_text(left + room, bottom, f"{last:%-d %b %Y}", "end", "faint"))
    description = "; ".join(f"{_short(life.name)}, learned {life.learned_at:%-d %b %Y}" for life in shown)
    return _svg(title, description, bottom + 8, parts)


def moon() -> str:
    """Draw the ornament at the head of the page; it has no meaning, so screen readers skip it."""
    return (
        '<svg class="moon" viewBox="0 0 48 48" aria-hidden="true"><path d="M33 6a19 19 0 1 0 9 27A16 16 0 0 1 33 6z"/>'
        '<circle cx="39" cy="11" r="1.6"/><circle cx="44" cy="20" r="1.1"/><circle cx="33.5" cy="19" r="1.1"/></svg>'
    )


def _curve(placed: Sequence[tuple[float, float]], floor: float) -> Iterable[str]:
    if len(placed) > 1:
        line = "L".join(f"{x:.1f} {y:.1f}" for x, y in placed)
        yield f'<path class="area" d="M{placed[0][0]:.1f} {floor}L{line}L{placed[-1][0]:.1f} {floor}Z"/>'
        yield f'<path class="curve" d="M{line}"/>'
    if placed:
        yield f'<circle class="plain" cx="{placed[-1][0]:.1f}" cy="{placed[-1][1]:.1f}" r="4"/>'


def _thinned(points: Sequence[tuple[datetime, int]]) -> list[tuple[datetime, int]]:
    """Choose at most MOST_POINTS evenly, the last one among them."""
    ordered = sorted(points)
    step = -(-len(ordered) // MOST_POINTS) or 1
    return ordered[::-1][::step][::-1]


def _text(x: float, y: float, text: str, anchor: str, style: str = "") -> str:
    marked = f' class="{style}"' if style else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{marked}>{escape(text)}</text>'


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_LABEL else line[: LONGEST_LABEL - 1].rstrip() + "…"


def _svg(title: str, description: str, height: float, parts: Iterable[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(f"{title}: {description}")}">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )
