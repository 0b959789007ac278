"""Values as the page words them: times, projects and texts, in which all markup is made here, and the rest escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from itertools import groupby
from urllib.parse import quote, unquote

from markupsafe import Markup

from ...store import without_controls
from ...store.roles import Role

GLOBAL = "_global"
_HASH = re.compile(r"-[0-9a-f]{6}$")
_TURN = re.compile(r"^#(\d{1,9}) ([^\s:]{1,64}): ?", re.MULTILINE)
_STEP = re.compile(r"\[(?P<name>[^\]\n:]{1,80})(?:: (?P<what>[^\n]{0,400}))?")
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
_LISTED = re.compile(r"(?P<depth> *)(?:[-*+]|(?P<number>\d{1,3})[.)]) +(?P<words>\S.*)")
_NOTE = re.compile(r"^\[\^[\w-]{1,16}\]: ")


def instant(given: str | datetime | None) -> datetime | None:
    """Return a time of the wire, in this machine's zone."""
    at = datetime.fromisoformat(given) if isinstance(given, str) else given
    return at.astimezone() if at else None


def day(given: str | None, now: datetime) -> str:
    """Return a day as people write it, without the year where it is this one."""
    at = instant(given)
    if at is None:
        return ""
    return f"{at.day} {at:%b}" if at.year == now.year else f"{at.day} {at:%b %Y}"


def moment(given: str | None, now: datetime) -> str:
    """Return a day and the time of day."""
    at = instant(given)
    return f"{day(given, now)}, {at:%H:%M}" if at else ""


def ago(given: str | None, now: datetime) -> str:
    """Return how long ago or ahead something is, roughly: `3 hours ago`."""
    at = instant(given)
    if at is None:
        return ""
    seconds = (now - at).total_seconds()
    size = abs(seconds)
    for unit_s, name in ((86400 * 365, "year"), (86400 * 30, "month"), (86400, "day"), (3600, "hour"), (60, "minute")):
        if size >= unit_s:
            told = number(int(size // unit_s), name)
            return f"{told} ago" if seconds > 0 else f"in {told}"
    return "just now"


def number(amount: int, noun: str, nouns: str = "") -> str:
    """Return a number with its noun: `1 fact`, `1,204 facts`."""
    return f"{amount:,} {noun if amount == 1 else nouns or noun + 's'}"


def project(channel: str) -> str:
    """Return a channel as its person knows it: the name of the project alone."""
    return "everywhere" if channel == GLOBAL else _HASH.sub("", channel)


def address(node_id: str) -> str:
    """Return the address of a memory's page; of a turn the place in its session's."""
    session, mark, ordinal = node_id.partition("#")
    return (
        f"/session/{quote(session, safe='')}?turn={ordinal}#t{ordinal}"
        if mark
        else f"/memory/{quote(node_id, safe='')}"
    )


def thing_address(name: str) -> str:
    """Return the address of the page of a person or a thing."""
    return f"/thing/{quote(name, safe='')}"


def said(relation: str) -> str:
    """Return the type of a relation in words: `reports to`."""
    return relation.replace("_", " ").lower()


def sentence(text: str) -> str:
    """Return a message as a sentence: with a capital and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text[-1:] in ".!?…:" else ".")


def sure(confidence: float) -> str:
    """Return a confidence of 0 to 1 in a word."""
    return "sure" if confidence >= 0.6 else "likely" if confidence >= 0.3 else "perhaps"


def marked(text: str) -> Markup:
    """Return a text of a memory or a page as HTML: paragraphs, lists, tables, code, links within the memory."""
    lines = without_controls(text).replace("\r\n", "\n").split("\n")
    cut = lines[:MOST_LINES]
    shown = "".join(_blocks(cut))
    rest = number(len(lines) - len(cut), "more line")
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
    if place is None or not links:
        return words
    where = f"/memory/{quote(unquote(place['path']))}"
    return f'<a href="{escape(where)}">{words}</a>'


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """A turn of a conversation, by its ordinal."""

    ordinal: int
    role: str
    text: str

    @property
    def step(self) -> str:
        """The tool that it calls or answers, in a few words; "" where a person or an agent speaks."""
        found = _STEP.match(self.text)
        if self.role == Role.TOOL or (found and self.role == Role.ASSISTANT):
            what = f" {found['what'].rstrip(']')}" if found and found["what"] else ""
            return f"{found['name']}{what}" if found else "output"
        return ""


def turns(text: str) -> list[ShownTurn]:
    """Take the text of a session apart into its turns, whose ordinals only grow."""
    heads = []
    last = 0
    for found in _TURN.finditer(text):
        is_first = found.start() == 0 or text[max(0, found.start() - 2) : found.start()] == "\n\n"
        if is_first and int(found[1]) > last:
            heads.append(found)
            last = int(found[1])
    ends = [found.start() for found in heads[1:]] + [len(text)]
    return [
        ShownTurn(int(found[1]), found[2], text[found.end() : end].strip("\n"))
        for found, end in zip(heads, ends, strict=True)
    ]


def conversation(shown: Sequence[ShownTurn]) -> list[tuple[bool, list[ShownTurn]]]:
    """Return the turns in groups: those that speak, and the steps between them, which are folded."""
    return [(is_step, list(some)) for is_step, some in groupby(shown, key=lambda turn: bool(turn.step))]
