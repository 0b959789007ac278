"""Markdown as the page shows it: all markup is made here, and the rest of a text is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from html import escape
from itertools import zip_longest
from urllib.parse import quote, unquote

from markupsafe import Markup

from ...store import without_controls
from ..formatting import count
from .wording import as_places

MOST_LINES = 4000

# One pass over a line: code, links, footnotes, bold and struck words; all between is escaped.
_INLINE = re.compile(
    r"(?<!`)(?P<ticks>`{1,3})(?!`)(?P<code>[^\n]{1,600}?)(?<!`)(?P=ticks)(?!`)"
    r"|\\(?P<plain>[!-/:-@\[-`{-~])"
    r"|\[(?P<words>(?:\\.|[^\]\\\n]){1,2000})\]\((?P<place>/[^()\s]{1,1000})\)"
    r"|\[\^[\w-]{1,16}\]"
    r"|<!--.*?-->"
    r"|\*\*(?P<bold>[^*\n]{1,2000})\*\*"
    r"|~~(?P<gone>[^\n]{1,8000}?)~~"
)
_PLACE = re.compile(r"/(?P<path>[^?#]{1,400}\.md)")
_OWN_PLACE = re.compile(r"/(?:(?:run|memory|thing)/[\w.%#-]{1,200}|[a-z]{1,12}(?:\?check=1)?(?:#[a-z]{1,12})?)?")
_LISTED = re.compile(r"(?P<depth> *)(?:[-*+]|(?P<number>\d{1,3})[.)]) +(?P<words>\S.*)")
_NOTE = re.compile(r"^\[\^[\w-]{1,16}\]: ")


def marked(text: str) -> Markup:
    """Return a text of a memory or a page as HTML: paragraphs, lists, tables, code, links within the memory."""
    lines = without_controls(text).replace("\r\n", "\n").split("\n")
    cut = lines[:MOST_LINES]
    shown = "".join(_blocks(cut))
    rest = count(len(lines) - len(cut), "more line")
    return Markup(shown + (f'<p class="soft">{rest}</p>' if len(lines) > len(cut) else ""))  # noqa: S704  (escaped piece by piece)


def marked_line(line: str) -> Markup:
    """Return one line as HTML, without its bullet."""
    return Markup(_inline(without_controls(line).removeprefix("- ")))  # noqa: S704  (escaped piece by piece)


def glance(text: str, longest: int = 280) -> Markup:
    """Return the beginning of a memory as HTML for a list: the words that it answers apart from its own, no links."""
    asked: list[str] = []
    words: list[str] = []
    for line in without_controls(text).split("\n"):
        is_asked = line.startswith(">") and not words
        (asked if is_asked else words).append(line.removeprefix(">").strip() if is_asked else line)
    said = " ".join(" ".join(words).split())
    told = " ".join(" ".join(asked).split())
    quoted = f'<q class="asked">{_inline(_cut(told, longest // 2), links=False)}</q> ' if told else ""
    return Markup(quoted + _inline(_cut(said, longest), links=False))  # noqa: S704  (escaped piece by piece)


def gist(text: str, longest: int = 280) -> Markup:
    """Return the beginning of a page's text as HTML in one line: without its title, marks, links and footnotes."""
    lines = (_plain(line) for line in text.split("\n") if not line.startswith("# "))
    return Markup(escape(_cut(" · ".join(filter(None, lines)), longest)))  # noqa: S704  (escaped)


def _cut(text: str, longest: int) -> str:
    """Return the beginning of a text, at most so many characters, ending with a whole word."""
    return text if len(text) <= longest else text[:longest].rpartition(" ")[0] + "…"


def _blocks(lines: Sequence[str]) -> Iterator[str]:
    at = 0
    while at < len(lines):
        line = lines[at]
        if fence := re.match(r" {0,3}(`{3,}|~{3,})", line):
            end = next((i for i in range(at + 1, len(lines)) if lines[i].strip() == fence[1]), len(lines))
            yield f'<pre tabindex="0"><code>{escape(chr(10).join(lines[at + 1 : end]))}</code></pre>'
            at = end + 1
            continue
        kind = _kind(line)
        end = at + 1
        while (
            kind != "heading"
            and end < len(lines)
            and _kind(lines[end]) == kind
            and not lines[end].lstrip().startswith("```")
        ):
            end += 1
        yield from _BLOCKS[kind](lines[at:end])
        at = end


def _kind(line: str) -> str:
    if not line.strip() or _NOTE.match(line) or line.strip() == "---":
        return "nothing"
    if re.match(r"#{1,6} ", line):
        return "heading"
    if line.startswith("|"):
        return "table"
    if line.startswith(">"):
        return "quote"
    return "list" if _LISTED.match(line) else "words"


def _heading(lines: Sequence[str]) -> Iterator[str]:
    marks, _, words = lines[0].partition(" ")
    # The page has the first heading, and each card a second.
    level = min(6, len(marks) + 2)
    yield f"<h{level}>{_inline(words)}</h{level}>"


def _words(lines: Sequence[str]) -> Iterator[str]:
    if said := "<br>".join(_inline(line) for line in lines).strip():
        yield f"<p>{said}</p>"


def _quote(lines: Sequence[str]) -> Iterator[str]:
    yield f"<blockquote>{'<br>'.join(_inline(line.lstrip('>').strip()) for line in lines)}</blockquote>"


def _list(lines: Sequence[str]) -> Iterator[str]:
    found = [match for line in lines if (match := _LISTED.match(line))]
    tag = "ol" if found and found[0]["number"] else "ul"
    classes = [' class="under"' if len(one["depth"]) > 1 else "" for one in found]
    items = "".join(f"<li{kind}>{_inline(one['words'])}</li>" for one, kind in zip(found, classes, strict=True))
    yield f"<{tag}>{items}</{tag}>"


def _table(lines: Sequence[str]) -> Iterator[str]:
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))] for line in lines]
    heads, *rest = [row for row in rows if not all(set(cell) <= set("-: ") for cell in row)] or [[]]
    yield '<div class="wide" tabindex="0"><table><thead><tr>'
    yield "".join(f'<th scope="col">{_inline(cell)}</th>' for cell in heads)
    yield "</tr></thead><tbody>"
    yield from (f"<tr>{''.join(f'<td>{_inline(cell)}</td>' for cell in row)}</tr>" for row in rest)
    yield "</tbody></table></div>"


_BLOCKS = {
    "nothing": lambda lines: iter(()),
    "heading": _heading,
    "words": _words,
    "quote": _quote,
    "list": _list,
    "table": _table,
}


def _inline(line: str, deep: int = 0, *, links: bool = True) -> str:
    parts, at = [], 0
    for found in _INLINE.finditer(line):
        parts.append(escape(line[at : found.start()]))
        parts.append(_span(found, deep, links))
        at = found.end()
    return "".join(parts) + escape(line[at:])


def _span(found: re.Match[str], deep: int, links: bool) -> str:
    if found["code"] is not None:
        return f"<code>{escape(found['code'].strip())}</code>"
    if found["plain"] is not None:
        return escape(found["plain"])
    inner = found["words"] or found["bold"] or found["gone"]
    if inner is None:
        return "" if links else escape(found[0])
    words = _inline(inner, deep + 1, links=links) if deep < 3 else escape(inner)
    if found["bold"]:
        return f"<strong>{words}</strong>"
    if found["gone"]:
        return f"<del>{words}</del>"
    place = _PLACE.fullmatch(found["place"])
    if not links or (place is None and _OWN_PLACE.fullmatch(found["place"]) is None):
        return words
    where = f"/memory/{quote(unquote(place['path']))}" if place else found["place"]
    return f'<a href="{escape(where)}">{words}</a>'


def own(text: str) -> Markup:
    """Return a sentence of our own as HTML, with links in place of commands."""
    return marked_line(as_places(text))


_TOKEN = re.compile(r"\s+|[^\s]+")
SAME_WORDS = 8
"""The unchanged words that are shown on each side of a change."""


def difference(before: str, after: str) -> Markup:
    """Return the changes of a text as HTML: old words struck through, new ones marked, most of the rest left out."""
    old, new = ([line for raw in text.split("\n") if (line := _plain(raw))] for text in (before, after))
    shown: list[str] = []
    for kind, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            shown += ['<p class="cut">…</p>'] if i2 > i1 else []
            continue
        gone, come = old[i1:i2], new[j1:j2]
        for was, left in zip_longest(gone, come, fillvalue=""):
            shown.append(f"<p>{_words_changed(was, left)}</p>")
    return Markup("".join(shown) or "<p>Its words are as they were.</p>")  # noqa: S704  (escaped piece by piece)


def _plain(line: str) -> str:
    """Return a line of Markdown as words: without its marks, links and footnotes."""
    if _NOTE.match(line):
        return ""
    line = re.sub(r"^\s*(?:[-*+>]|#{1,6}|\d{1,3}[.)])\s+", "", without_controls(line))
    line = re.sub(r"\[([^\]\n]{1,2000})\]\(/[^()\s]{1,1000}\)", r"\1", line)
    return re.sub(r"\[\^[\w-]{1,16}\]|~~|\*\*|`", "", line).strip()


def _words_changed(was: str, left: str) -> str:
    old, new = _TOKEN.findall(was), _TOKEN.findall(left)
    parts: list[str] = []
    changes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if old and new else ()
    if old and new and SequenceMatcher(None, old, new, autojunk=False).ratio() < 0.45:
        changes = ()  # another line in its place: words that both have by chance say nothing
    for place, (kind, i1, i2, j1, j2) in enumerate(changes):
        if kind == "equal":
            parts.append(escape(_middle_cut(new[j1:j2], is_first=not place, is_last=place == len(changes) - 1)))
            continue
        parts.append(f"<del>{escape(''.join(old[i1:i2]))}</del>" if i2 > i1 else "")
        parts.append(f"<ins>{escape(''.join(new[j1:j2]))}</ins>" if j2 > j1 else "")
    if not changes:
        parts = [
            f"<del>{escape(_cut(was, 600))}</del>" if was else "",
            f"<ins>{escape(_cut(left, 600))}</ins>" if left else "",
        ]
    return " ".join(filter(None, parts)) if not changes else "".join(parts)


def _middle_cut(words: Sequence[str], *, is_first: bool, is_last: bool) -> str:
    """Return unchanged words; of many the ones beside a change."""
    most = 2 * SAME_WORDS
    if len(words) <= 2 * most:
        return "".join(words)
    head, tail = "".join(words[:most]), "".join(words[-most:])
    return f"… {tail}" if is_first else f"{head} …" if is_last else f"{head} … {tail}"
