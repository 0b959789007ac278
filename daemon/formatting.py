"""Formatting of output for a person: columns, wrapping, times, amounts; the same with and without colour."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import zip_longest

MAX_COLUMNS = 100
# A narrower last column would show too little.
LEAST_ROOM = 24

BOLD, DIM, RED, YELLOW, GREEN = "1", "2", "31", "33", "32"

# Characters that control a terminal: a memory's text may hold the output of a transcript's tools.
_COMMANDS = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)

_BULLET = re.compile(r"(?:[-*+]|\d{1,3}[.)])\s+")


class Look:
    """The reader's display: its width, with colour or not, and the time now."""

    __slots__ = ("colour", "now", "width")

    def __init__(self, width: int, colour: bool, now: datetime) -> None:
        self.width = min(width, MAX_COLUMNS)
        self.colour = colour
        self.now = now

    def paint(self, text: str, *codes: str) -> str:
        """Return the text with escape codes, if the display has colours."""
        return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if self.colour and text else text

    def ago(self, instant: str | None) -> str:
        """Return the time since an instant, in words."""
        at = when(instant)
        return relative(at, self.now) if at else "undated"

    def wrap(self, text: str, indent: str = "", max_lines: int = 0) -> list[str]:
        """Return a text in lines of the width; its paragraphs, lists and tables stay."""
        lines: list[str] = []
        for line in clean(text).expandtabs(4).splitlines() or [""]:
            lead = indent + line[: len(line) - len(line.lstrip())][:12]
            line = line.strip()
            if line.startswith("|"):
                lines.append(lead + line)
                continue
            hang = lead + " " * len(bullet.group()) if (bullet := _BULLET.match(line)) else lead
            lines += textwrap.wrap(
                line, max(self.width, 20), initial_indent=lead, subsequent_indent=hang, break_on_hyphens=False
            ) or [""]
        while lines and not lines[-1]:
            lines.pop()
        if max_lines and len(lines) > max_lines:
            return [*lines[: max_lines - 1], f"{indent}… ({len(lines) - max_lines + 1} more lines)"]
        return lines


def clean(text: str) -> str:
    """Return the text without characters that control a terminal."""
    return _COMMANDS.sub("", text)


def when(instant: str | None) -> datetime | None:
    """Parse an instant in ISO 8601; None if there is none."""
    try:
        return datetime.fromisoformat(instant).astimezone() if instant else None
    except ValueError:
        return None


def relative(at: datetime, now: datetime) -> str:
    """Return `5 minutes ago`, `yesterday`, `in 3 hours`; a date when it is more than two weeks away."""
    gap = now - at
    if gap < timedelta(0):
        return _soon(at, now)
    if gap < timedelta(seconds=60):
        return "just now"
    if gap < timedelta(hours=1):
        return f"{count(gap.seconds // 60, 'minute')} ago"
    days = (now.date() - at.astimezone(now.tzinfo).date()).days
    # Shortly after midnight, an event of the late evening is "3 hours ago" and not "yesterday".
    if days == 0 or gap < timedelta(hours=6):
        return f"{count(int(gap.total_seconds()) // 3600, 'hour')} ago"
    if days == 1:
        return "yesterday"
    return f"{days} days ago" if days <= 14 else date_of(at, now)


def _soon(at: datetime, now: datetime) -> str:
    gap = at - now
    if gap < timedelta(seconds=60):
        return "now"
    if gap < timedelta(hours=1):
        return f"in {count(gap.seconds // 60, 'minute')}"
    at = at.astimezone(now.tzinfo)
    days = (at.date() - now.date()).days
    if days == 0:
        return f"today at {at:%H:%M}"
    return f"tomorrow at {at:%H:%M}" if days == 1 else date_of(at, now)


def date_of(at: datetime, now: datetime) -> str:
    """Return `3 Nov`, with its year when that is another."""
    local = at.astimezone(now.tzinfo)
    day = f"{local.day} {local:%b}"
    return day if local.year == now.year else f"{day} {local.year}"


def count(number: int, noun: str, plural: str = "") -> str:
    """Return `1 turn`, `2,000 turns`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def duration(seconds: float) -> str:
    """Return `0.4 s`, `12 s`, `3 min 5 s`, `2 hours`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest and minutes < 10 else f"{minutes} min"
    hours, days = minutes // 60, minutes // 1440
    return count(hours, "hour") if hours < 48 else count(days, "day")


def size(size_bytes: int) -> str:
    """Return `3 KB`, `4.2 MB`, `1.5 GB`."""
    amount, unit = float(size_bytes), "bytes"
    for larger in ("KB", "MB", "GB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.1f} {unit}" if unit in ("MB", "GB") and amount < 100 else f"{amount:.0f} {unit}"


def listing(items: Sequence[str], most: int = 6) -> str:
    """Return `a, b and c`; the rest counted."""
    shown = list(items[:most])
    if len(items) > most:
        shown.append(f"{len(items) - most} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}" if shown else "none"


def sentence(text: str) -> str:
    """Return the text as a sentence: a capital, unless it begins with a name or a path, and a full stop."""
    text = clean(text).strip()
    first = text.split(" ", 1)[0]
    if first.isalpha() and first.islower() and first not in ("dreamd", "dreamctl"):
        text = text[0].upper() + text[1:]
    return text if not text or text[-1] in ".!?…:" else text + "."


def columns_of(text: str) -> int:
    """Return the columns of a text on a terminal; a CJK character has two, a combining mark none."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def clip(text: str, width: int) -> str:
    """Return a text in one line of at most `width` columns."""
    text = " ".join(clean(text).split())
    if columns_of(text) <= width:
        return text
    while text and columns_of(text) > width - 1:
        text = text[:-1]
    return text.rstrip() + "…"


def table(rows: Iterable[Sequence[str]], look: Look, heads: Sequence[str] = (), right: Iterable[int] = ()) -> list[str]:
    """Return rows in aligned columns; the last is clipped, or has lines of its own. `right`: columns of numbers."""
    cells = [[clean(cell) for cell in row] for row in rows]
    every = [list(heads), *cells] if heads else cells
    if not every:
        return []
    last = len(every[0]) - 1
    widths = [max(columns_of(row[i]) for row in every) for i in range(last)]
    room = look.width - sum(widths) - 2 * last
    right = set(right)
    fits_in_line = room >= min(LEAST_ROOM, max(columns_of(" ".join(row[last].split())) for row in every))
    lines = []
    for row in every:
        head = "  ".join(_pad(row[i], widths[i], i in right) for i in range(last))
        if fits_in_line:
            lines.append(f"{head}  {clip(row[last], room)}".rstrip())
        else:  # too little is left for the last column: it gets a line of its own
            lines += [head.rstrip(), "    " + clip(row[last], look.width - 4)] if row[last] else [head.rstrip()]
    if heads and not fits_in_line:
        lines[:2] = [f"{lines[0]}  {lines[1].strip()}"]
    if heads:
        lines[0] = look.paint(lines[0], DIM)
    return lines


def side_by_side(rows: Iterable[tuple[str, str]], look: Look, heads: tuple[str, str]) -> list[str]:
    """Return pairs of texts in two columns of the same width, whole, each wrapped under itself."""
    room = max(20, (look.width - 3) // 2)
    lines = [look.paint(f"{heads[0].ljust(room)}   {heads[1]}", DIM)]
    for row in rows:
        columns = [textwrap.wrap(clean(text), room, break_on_hyphens=False) for text in row]
        pairs_of_lines = zip_longest(*columns, fillvalue="")
        lines += [f"{_pad(left, room, right=False)}   {right}".rstrip() for left, right in pairs_of_lines]
        lines.append("")
    return lines[:-1]


def pairs(rows: Iterable[tuple[str, str]], look: Look, indent: str = "  ") -> list[str]:
    """Return names and their values, aligned, long ones wrapped under themselves."""
    rows = list(rows)
    name_width = max((len(name) for name, _ in rows), default=0)
    lines = []
    for name, text in rows:
        lead = indent + name.ljust(name_width) + "  "
        wrapped = textwrap.wrap(
            clean(text), look.width, initial_indent=lead, subsequent_indent=" " * len(lead), break_on_hyphens=False
        ) or [lead.rstrip()]
        lines.append(indent + look.paint(name.ljust(name_width), DIM) + wrapped[0][len(indent) + name_width :])
        lines += wrapped[1:]
    return lines


def _pad(text: str, width: int, right: bool) -> str:
    space = " " * (width - columns_of(text))
    return space + text if right else text + space
