"""A memory edited by hand as a pure change of its file, and the lines of pages that follow a change of a fact."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from difflib import SequenceMatcher
from typing import Any, Final, NamedTuple

from .. import okf
from ..channel import TEAM
from ..door import outgoing
from ..index.projection import CURATED, FOOTNOTE, Node, memory_node
from ..limits import LONGEST_CURATED, STATED_CERTAINTY
from ..model import AWAITS_REVIEW, Edit, InvalidInput, Kind, Level, Memory, NodeId
from ..okf.memory_file import BY_HAND, EDITED_AT, body_hash, instant
from ..text.dates import format_date
from ..text.fence import unmarked_lines
from ..text.quotes import read_reply, title_of, title_of_fact
from ..text.sentences import on_one_line
from ..text.statements import slot_of
from .decisions import with_body

CORRECTED: Final = "user_corrected"
"""The provenance of words, or of a kind, that a person put in place of others."""

EDITED: Final = "a person edited it"

# Characters of the title that is made of a statement's words.
TITLE_CHARS: Final = 79


def version_of_file(path: str, data: bytes) -> str:
    """Return the version of a memory as its file is now."""
    return memory_node(okf.to_memory(path, okf.parse(data))).version


def edited(memory: Memory, data: bytes, edit: Edit, now: datetime, kept: Callable[[str], str]) -> bytes:
    """Return the file of a memory after an edit; `kept` takes secrets out of its new words.

    Raises InvalidInput for a page of another kind, an empty text, or one that is too long for every envelope.
    """
    node = memory_node(memory)
    changes: dict[str, Any] = {}
    text = None
    if edit.text is not None and not _is_shown(edit.text, node):
        text = _with_footnotes(kept(edit.text), memory.text)
        changes |= _reworded(memory, text, now)
    if edit.title is not None and edit.title != memory.title:
        changes["title"] = edit.title
    if edit.kind is not None and edit.kind is not memory.kind:
        changes |= _of_kind(memory, edit.kind)
    if edit.tags is not None and edit.tags != memory.tags:
        changes["tags"] = list(edit.tags) or None
    if edit.always is not None and edit.always != node.curated:
        changes[CURATED] = edit.always or None
    shown = node.text if text is None else text
    if (edit.always or (node.curated and text is not None and edit.always is None)) and len(shown) > LONGEST_CURATED:
        raise InvalidInput(
            f"{memory.node_id} is too long for every envelope", hint=f"{LONGEST_CURATED} characters fit."
        )
    if text is not None and not okf.parse(data).meta:  # a note of its person's, who may not want our keys in it
        return f"{text}\n".encode()
    content = okf.edit(data, changes)
    return content if text is None else with_body(content, text)


def _is_shown(text: str, node: Node) -> bool:
    """Return True for the words that a memory has, or that are shown of it."""
    return text.strip() in (node.text.strip(), unmarked_lines(outgoing(node.text)).strip())


def _with_footnotes(text: str, before: str) -> str:
    """Return new words with those footnotes of the old ones that they refer to; they are not shown for an edit."""
    notes = [note.strip() for note in FOOTNOTE.findall(before)]
    left = [note for note in notes if note.partition(":")[0] in text and note not in text]
    return "\n".join((text, "", *left)) if left else text


def _reworded(memory: Memory, text: str, now: datetime) -> dict[str, Any]:
    changes: dict[str, Any] = {"provenance": CORRECTED, "certainty": STATED_CERTAINTY, AWAITS_REVIEW: None}
    if memory.channel.endswith(TEAM):  # a colleague's: its person's words now
        changes["channel"] = memory.channel.removesuffix(TEAM)
    # A page without the hash of these words is a person's, and no dream writes it anew.
    if memory.level is not Level.FACT:
        return changes
    slot = slot_of(text)
    changes |= {EDITED_AT: now.isoformat(), "valid_from": now.isoformat(), BY_HAND: body_hash(text)}
    changes["slot"] = asdict(slot) if slot and memory.slot else None
    if memory.title in (title_of_fact(memory.text), title_of(memory.text, TITLE_CHARS)):
        changes["title"] = title_of_fact(text)  # the one before was made of words that it no longer has
    return changes


def _of_kind(memory: Memory, kind: Kind) -> dict[str, Any]:
    if memory.level is not Level.FACT or memory.kind is Kind.DOCUMENT:
        raise InvalidInput(f"{memory.node_id} is a {memory.kind}, and stays one", hint="Facts alone change their kind.")
    return {"kind": kind.value, "type": okf.type_of(kind), "provenance": CORRECTED}


# ---- the lines of pages

BY_PAGE: Final = "pages"
"""The stage of the change of a page that follows a change of its facts."""

_ROW = re.compile(
    r"(?P<bullet> *- )(?P<gone>~~)?(?P<words>.*?)(?(gone)~~)"
    r"(?: \((?:(?:until|corrected) [^()]{1,40}|no longer|perhaps replaced since|in question)\))?"
    r"(?P<cited> \[\^[\w#.-]+\])"
)
_MARK = re.compile(r"\[\^([\w#.-]+)\]")
_QUOTE = re.compile("“([^”]+)”")
_NOTHING_LEFT: Final = "What stood here was taken back."


class FactChange(NamedTuple):
    """A fact before and after a change; None where it is away."""

    was: Memory | None
    now: Memory | None


def until(fact: Memory) -> str:
    """Return the note behind a quote that is replaced, doubtful or corrected by hand; "" for any other."""
    if fact.superseded_by:
        return f"until {format_date(fact.valid_to.date())}" if fact.valid_to else "no longer"
    if fact.later:
        return "perhaps replaced since"
    if fact.contradicts:
        return "in question"
    corrected = instant(fact.extra.get(EDITED_AT))
    return f"corrected {format_date(corrected.date())}" if corrected else ""


def following(data: bytes, changed: Mapping[NodeId, FactChange]) -> bytes | None:
    """Return a dream's page whose lines follow the present facts, by their ids or turns; None for any other file.

    A line without its fact goes, an edited fact has its new words, and a replaced one is struck through.
    """
    page = _PageLines.read(data)
    if page is None:
        return None
    lines: list[str] = []
    is_orphan = False
    for line in page.lines:
        followed = _followed(line, changed)
        if followed is None:
            is_orphan = is_orphan or not line.startswith(" ")
            continue
        # What a line replaced stands below it; without that line, or where it holds again, it stands by itself.
        is_below = followed.startswith(" ")
        if is_below and (is_orphan or ("~~" in line and "~~" not in followed)):
            followed = followed.lstrip()
        is_orphan = is_orphan and is_below
        lines.append(followed)
    return page.written(_without_bare_headings(lines)) if lines != page.lines else None


def without_change(before: bytes, after: bytes, current: bytes) -> bytes | None:
    """Return a dream's page without one change, from `before` to `after`, of its lines.

    A line that has changed again stays as it is. None for any other file.
    """
    was, left, page = _PageLines.read(before), _PageLines.read(after), _PageLines.read(current)
    if was is None or left is None or page is None:
        return None
    lines = list(page.lines)
    for kind, i1, i2, j1, j2 in SequenceMatcher(None, left.lines, was.lines, autojunk=False).get_opcodes():
        there, back = left.lines[i1:i2], [line for line in was.lines[j1:j2] if not line or line not in lines]
        if kind == "equal":
            continue
        if there and (at := _place_of(there, lines)) is not None:
            lines[at : at + len(there)] = back
        elif not there:
            at = next((lines.index(one) + 1 for one in reversed(left.lines[:i1]) if one and one in lines), 0)
            lines[at:at] = back
    return page.written(lines, [*was.entries, *left.entries])


def without_line(data: bytes, head: str, turn: NodeId) -> bytes:
    """Return a dream's page without the line that quotes a turn behind a head; a page that was edited stays."""
    page = _PageLines.read(data)
    if page is None:
        return data
    lines = [line for line in page.lines if not (line.startswith(f"- {head}: “") and turn in _MARK.findall(line))]
    cited = {node_id for line in lines if not line.startswith("[^") for node_id in _MARK.findall(line)}
    return page.written([line for line in lines if turn in cited or not line.startswith(f"[^{turn}]:")]) or data


def lines_changed(before: bytes | None, after: bytes | None) -> set[NodeId]:
    """Return the nodes that the lines cite which a change took out of a dream's page, or reworded."""
    was, left = (_PageLines.read(data) if data is not None else None for data in (before, after))
    gone = set(was.lines) - set(left.lines) if was is not None and left is not None else set[str]()
    return {node_id for line in gone for node_id in _MARK.findall(line)}


def _place_of(some: Sequence[str], lines: Sequence[str]) -> int | None:
    places = range(len(lines) - len(some) + 1)
    return next((at for at in places if list(lines[at : at + len(some)]) == list(some)), None)


def _followed(line: str, changed: Mapping[NodeId, FactChange]) -> str | None:
    """Return a line as its facts are now; None for one that goes."""
    cited = _MARK.findall(line)
    for node_id in cited:
        if (change := changed.get(node_id)) is None:
            continue
        is_turn = "#" in node_id
        if line.startswith("[^"):  # a turn that was said stays; it may be that another line cites it
            return line if is_turn or change.now is not None else None
        if is_turn and not _quotes(line, change.was):
            continue
        if change.now is None:
            return None
        reworded = _reworded_line(line, change, is_turn=is_turn)
        if reworded is None:
            return None
        line = _struck(reworded, change.now) if len(cited) == 1 else reworded
    return line


def _quotes(line: str, fact: Memory | None) -> bool:
    """Check that a line of a turn quotes a fact of that turn."""
    said = on_one_line(fact.text) if fact else ""
    return any(quote in said for quote in _QUOTE.findall(line))


def _reworded_line(line: str, change: FactChange, *, is_turn: bool) -> str | None:
    was, now = (read_reply(one.text) if one else ("", "") for one in change)
    old, new = (on_one_line(words).strip("“”") for words, _ in (was, now))
    if old == new or not old:
        return line
    if is_turn:
        quote = next(quote for quote in _QUOTE.findall(line) if quote in old or old in quote)
        return line if quote in new else line.replace(quote, new)
    if old not in line:
        return None
    reply = on_one_line(was[1]).strip("“”")
    return line.replace(old, new).replace(f"“{reply}” – " if reply and not now[1] else "\0", "")


def _struck(line: str, fact: Memory) -> str:
    row = _ROW.fullmatch(line)
    if row is None:
        return line
    note = f" ({until(fact)})" if until(fact) else ""
    words = f"~~{row['words']}~~" if fact.superseded_by else row["words"]
    return f"{row['bullet']}{words}{note}{row['cited']}"


def _without_bare_headings(lines: Sequence[str]) -> list[str]:
    """Return lines without the headings below which nothing is left, and a note where nothing is left at all."""
    kept: list[str] = []
    for line in reversed(lines):
        following_line = next((one for one in reversed(kept) if one.strip()), "")
        if line.startswith("##") and (not following_line or following_line.startswith(("##", "[^"))):
            continue
        if line or not kept or kept[-1]:
            kept.append(line)
    kept.reverse()
    is_bare = not any(line.strip() and not line.startswith(("#", "[^")) for line in kept)
    return ["", *(line for line in kept if line.startswith("# ")), _NOTHING_LEFT, ""] if is_bare else kept


class _PageLines(NamedTuple):
    """A page as a dream wrote it: its lines, in which the ids of nodes stand for the labels, and its sources."""

    data: bytes
    lines: list[str]
    entries: list[Mapping[str, Any]]

    @classmethod
    def read(cls, data: bytes) -> _PageLines | None:
        """Read a page; None for a file of another kind, and for one that a person wrote or edited."""
        document = okf.parse(data)
        entries = document.meta.get("sources")
        if okf.to_memory("", document).level not in (Level.SCENARIO, Level.PROFILE) or not isinstance(entries, list):
            return None
        if document.meta.get(BY_HAND) != body_hash(document.body):
            return None
        ours = [one for one in entries if isinstance(one, Mapping) and isinstance(one.get("title"), str)]
        named = {str(one.get("id")): str(one["title"]) for one in ours}
        lines = [_MARK.sub(lambda mark: f"[^{named.get(mark[1], mark[1])}]", one) for one in document.body.split("\n")]
        return cls(data, lines, ours)

    def written(self, lines: Sequence[str], others: Sequence[Mapping[str, Any]] = ()) -> bytes | None:
        """Return the file with other lines; None where its frontmatter cannot be edited."""
        known = {str(one["title"]): one for one in (*others, *self.entries)}
        cited = {node_id for line in lines for node_id in _MARK.findall(line)}
        kept = [node_id for node_id in known if node_id in cited] or [str(one["title"]) for one in self.entries]
        labels = okf.source_ids(kept)
        text = "\n".join(_MARK.sub(lambda mark: f"[^{labels.get(mark[1], mark[1])}]", line) for line in lines)
        sources = [{**known[node_id], "id": label} for node_id, label in labels.items()]
        try:
            head = okf.edit(self.data, {"sources": sources, BY_HAND: body_hash(text)})
            return okf.with_body_of(head, okf.render({"type": "Note"}, text))
        except InvalidInput:
            return None


def facts_changed(changes: Iterator[tuple[bytes | None, bytes | None]]) -> dict[NodeId, FactChange]:
    """Return the facts in files before and after a change, by their ids and those of the turns that they quote."""
    found: dict[NodeId, FactChange] = {}
    for before, after in changes:
        was, now = (okf.to_memory("", okf.parse(data)) if data is not None else None for data in (before, after))
        fact = now or was
        if fact is None or fact.level is not Level.FACT:
            continue
        found[fact.node_id] = FactChange(was, now)
        found |= {turn: FactChange(was, now) for turn in fact.sources if "#" in turn and turn not in found}
    return found
