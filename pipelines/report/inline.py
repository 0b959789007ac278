"""The words of memories in a digest: escaped in markdown, rendered in HTML; what a reader sees is what was said."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby

from ...store.text.controls import plain
from ...store.text.sentences import on_one_line

_RUN = re.compile(r"`+")
_MARKS = re.compile(r"[\[\]<`]|\\(?=[!-/:-@\[-`{-~]|\Z)")
"""Marks that open a link, a tag or code, or escape the one that follows."""

_BOLD = re.compile(r"\*\*(?=[^\s*])((?:[^*]|\*(?!\*))+?)(?<=\S)\*\*")
_HELD = re.compile("\0(\\d+)\0")
_LINK = re.compile(r"(?<!\\)\[|(?<!\\)\]\(/[^()\n]*\)")
_ITEM = re.compile(r"(?P<lead>[^“\n]{0,80}“)?\s*(?:[-*+•]|(?P<number>\d{1,3})[.)])\s+(?P<text>\S.*)")
_FENCE = re.compile(r"\s*(`{3,})[^`]*")


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
    held: list[str] = []
    kept = ""
    for part, is_code in code_apart(plain(line)):
        kept += f"\0{len(held)}\0" if is_code else escape(part)
        held += [f"<code>{escape(part.strip('`').strip())}</code>"] if is_code else []
    return _HELD.sub(lambda mark: held[int(mark[1])], _BOLD.sub(r"<strong>\1</strong>", kept))


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


_BLOCKS = {
    "": "{}",
    "ul": '<ul class="said">{}</ul>',
    "ol": '<ol class="said">{}</ol>',
    "pre": "<pre><code>{}</code></pre>",
}


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
