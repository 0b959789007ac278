"""Sentences: a text of a conversation, markdown or not, cut into what is said, each piece with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ...store.text.word_lists import lexicon

Shape = Literal["prose", "item", "heading", "row"]

_WRAPPED_FROM = 60  # a line this long without a full stop was broken by width, a shorter one by its writer
LONGEST_CHARS = 600
"""A longer sentence is cut after a comma: it is a pasted list, or runs on without a full stop."""

_CLAUSE_END = re.compile(r"[,;:]\s+")
_FENCE = re.compile(r"^\s{0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+")
_ITEM = re.compile(r"^\s*(?:[-*+•–]|\d{1,3}[.)]|[a-zA-Z][.)](?=\s+[A-Z]))\s+(?:\[[ xX]\]\s+)?")
_QUOTE = re.compile(r"^\s{0,3}>\s?")
_RULE = re.compile(r"^\s*(?:[-*_=]\s*){3,}$|^\s*\|?[\s:|-]+\|[\s:|-]*$")
_OPAQUE = re.compile(r"`[^`\n]+`|https?://\S+?(?=[.,;:!?)\"']*(?:\s|$))|\b[\w.+-]+@[\w-]+(?:\.\w+)+")
_EMOJI = "\U0001f300-\U0001faff\u2600-\u27bf\u2b50\ufe0f\u200d\u2764"
_BREAK = re.compile(
    rf"(?P<stop>[.!?…]+)[\"'”’)\]*_]*[{_EMOJI}\s]*(?<=[\s{_EMOJI}])(?=\S)|(?P<wide>[。！？])|[{_EMOJI}]+\s+(?=[A-Z])"
)
_INITIALS = re.compile(r"^(?:[a-z]\.)*[a-z]$")
_LAST_WORD = re.compile(r"[\w.'’-]+$")


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence: `text` is characters [start, end) of the whole; a heading or a list item has lost its marker."""

    text: str
    start: int
    end: int
    shape: Shape = "prose"
    block: int = 0
    """The number of its paragraph, item or heading in the text, from 0."""


def split(text: str) -> list[Sentence]:
    """Return the sentences of a text in order, without code blocks, rules and images of text."""
    sentences: list[Sentence] = []
    for number, (start, end, shape) in enumerate(_blocks(text)):
        sentences += [Sentence(text[a:b], a, b, shape, number) for a, b in _cut(text, start, end)]
    return sentences


def _blocks(text: str) -> Iterator[tuple[int, int, Shape]]:
    """Yield the spans of paragraphs, items, headings and table rows outside code fences."""
    fence = ""
    open_block: tuple[int, int, Shape] | None = None
    offset = 0
    for line in text.splitlines(keepends=True):
        start, offset = offset, offset + len(line)
        bare = line.strip()
        mark = _FENCE.match(line)
        if fence or mark:
            if open_block:
                yield open_block
                open_block = None
            if not fence and mark:
                fence = mark[1]
            elif bare.startswith(fence) and not bare.strip(fence[0]):
                fence = ""
            continue
        quote = _QUOTE.match(line)
        inner = start + (quote.end() if quote else 0)
        shape, inner = _shape(text, inner, offset)
        if not text[inner:offset].strip() or _RULE.match(line):
            if open_block:
                yield open_block
            open_block = None
        elif open_block and shape == "prose" and _continues(text[open_block[0] : open_block[1]]):
            open_block = (open_block[0], offset, open_block[2])
        else:
            if open_block:
                yield open_block
            open_block = (inner, offset, shape)
        if open_block and shape in {"heading", "row"}:
            yield open_block
            open_block = None
    if open_block:
        yield open_block


def _shape(text: str, start: int, end: int) -> tuple[Shape, int]:
    line = text[start:end]
    if heading := _HEADING.match(line):
        return "heading", start + heading.end()
    if item := _ITEM.match(line):
        return "item", start + item.end()
    if line.lstrip().startswith("|") and line.rstrip().endswith("|"):
        return "row", start
    return "prose", start


def _continues(block: str) -> bool:
    line = block.rstrip("\n").rsplit("\n", 1)[-1].rstrip()
    return len(line) >= _WRAPPED_FROM and line[-1] not in ".!?:;…"


def _cut(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    block = text[start:end]
    masked = _OPAQUE.sub(lambda match: "x" * len(match.group()), block)
    begin = 0
    for match in _BREAK.finditer(masked):
        if not match["wide"] and not _ends(masked[begin : match.start()], match["stop"] or "!", masked[match.end()]):
            continue
        yield from _bounded(block, begin, match.end(), start)
        begin = match.end()
    yield from _bounded(block, begin, len(block), start)


def _ends(before: str, stop: str, after: str) -> bool:
    if after in "/×*=+<>-–)%&|,;" or (before[-1:].isdigit() and stop == "!" and not after.isupper()):
        return False  # a formula or an aside goes on
    if "!" in stop or "?" in stop:
        return True
    if len(stop) > 1:  # an ellipsis trails on unless a capital follows
        return not after.islower()
    word = _LAST_WORD.search(before)
    last = word.group().lower() if word else ""
    if last in lexicon("abbreviations") or (_INITIALS.match(last) and last != "i"):
        return False
    if after.islower():
        return len(before.split()) >= 3 and not last.isdigit()
    return not (last.isdigit() and len(before.split()) == 1)


def _bounded(block: str, begin: int, end: int, offset: int) -> Iterator[tuple[int, int]]:
    """Cut a piece into parts of at most LONGEST_CHARS, after a comma, else between words, else anywhere."""
    while end - begin > LONGEST_CHARS:
        cut = begin + LONGEST_CHARS
        ends = [match.end() for match in _CLAUSE_END.finditer(block, begin, cut)]
        between = block.rfind(" ", begin + 1, cut)
        cut = ends[-1] if ends else between if between > begin else cut
        yield from _trimmed(block, begin, cut, offset)
        begin = cut
    yield from _trimmed(block, begin, end, offset)


def _trimmed(block: str, begin: int, end: int, offset: int) -> Iterator[tuple[int, int]]:
    piece = block[begin:end]
    left = len(piece) - len(piece.lstrip())
    right = len(piece.rstrip())
    if left < right and any(character.isalnum() for character in piece):
        yield offset + begin + left, offset + begin + right
