"""Sentences: a text of a conversation, markdown or not, cut into sentences, items, rows and code, each with its place.

A row of a table comes with the table's head, without which it cannot be understood.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import zip_longest
from typing import Final, Literal

import sentencex

from ..limits import FEWEST_WORDS
from .languages import words_in
from .words import language_of

Shape = Literal["prose", "item", "heading", "row", "code"]

_WRAPPED_FROM = 60  # a line this long without a full stop was broken by width, a shorter one by its writer
LONGEST_CHARS = 600
"""A longer sentence is cut after a comma: it is a pasted list, or runs on without a full stop."""

GAP = "…"
"""The mark of an omission between two pieces of a text."""

MOST_MARKS = 6
"""The most characters of marks that are kept between two pieces: "- [x]"; a longer run is a rule, or drawn."""

CODE_LINES, CODE_CHARS = 3, 240
"""The longest code block that is kept with the line that leads to it."""


CLAUSE_END: Final = re.compile(r"[,;:]\s+")
CLAUSE_END_OR_ASIDE: Final = re.compile(r"[,;:]\s+|(?<!\s)\s++(?:[–—-]++\s+|\()")
"""Where a title may end, too: before a dash or a bracket."""

CLAUSE_OR_SENTENCE_END: Final = re.compile(r"[,;:.!?]\s+|\s[-–—]\s")
"""In a text that may be several sentences on one line."""

SENTENCE_END: Final = re.compile(r"[.!?…][\"'”’)\]*_]*\s+|[。！？]+")
"""With the closing marks behind it, so that the next sentence begins there. Cheaper than `split`, but blind to
abbreviations."""

SENTENCE_OR_LINE_END: Final = re.compile(r"[.!?]\s|[\n\r]")
"""Where two texts are compared by their sentences: a line is one, with or without a full stop."""

_FENCE = re.compile(r"^\s{0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+")
_ITEM = re.compile(r"^\s*(?:[-*+•–]|\d{1,3}[.)]|[a-zA-Z][.)](?=\s+[A-Z]))\s+(?:\[[ xX]\]\s+)?")
_QUOTE = re.compile(r"^\s{0,3}>\s?")
_FIRST_WORD = re.compile(r"\s*([^\W_]{1,64})")
_LIST_NUMBER = re.compile(r"(\d{1,3})[.)]\s+(?:\[[ xX]\]\s+)?\Z")
_ASIDE = re.compile(r"\s*[/×*=+<>–)%&|,;-]")
_DAY = re.compile(r"(?<!\S)\d{1,2}\.\s*\Z")
_LAST_MARKER = re.compile(
    r"\n[^\S\n]*(?:>[^\S\n]?)?(?:[-*+•–]|\d{1,3}[.)]|[a-zA-Z][.)])[^\S\n]+(?:\[[ xX]\][^\S\n]+)?\Z"
)
_SPACE = re.compile(r"\s+")
_FULL_STOPS = "。！？｡"
"""The ends of a sentence in a script that has no spaces; after any other there is one."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence: `text` is characters [start, end) of the whole; a heading or a list item has lost its marker.

    A command or two that a line leads to ("unlock it:") are one of shape `code`, with the marks around them. Where it
    was joined of several, white space is one space, and GAP replaces omitted words between them.
    """

    text: str
    start: int
    end: int
    shape: Shape = "prose"
    block: int = 0
    """The number of its paragraph, item or heading in the text, from 0."""
    step: int = 0
    """The number that opens a list's item, in its first sentence alone; else 0."""
    steps: int = 0
    """The length of the list of which a step is a piece by itself; else 0."""


_FIRST_STEP, _SECOND_STEP = re.compile(r"1[.):]?\s"), re.compile(r"[\s,;]2[.):]?\s")

LONGEST_BLOCK = 20_000
"""Characters; a longer block is no paragraph, and the cutter would take too much time for it at once."""


def split(text: str) -> list[Sentence]:
    """Return the sentences of a text in order, without rules, images of text, and code but for a command or two."""
    sentences: list[Sentence] = []
    for number, (start, end, shape) in enumerate(_blocks(text)):
        if shape == "code":
            # A command means something only with the line that says what it is for.
            if _is_led_to(sentences, text[start:end]):
                sentences += [
                    Sentence(text[a:b], a, b, shape, number)
                    for a, b in _trimmed(text[start:end], 0, end - start, start)
                ]
            continue
        for part in range(start, end, LONGEST_BLOCK):
            cut = _cut(text, part, min(end, part + LONGEST_BLOCK))
            step = _step(text, start) if shape == "item" and part == start else 0
            for a, b in cut:
                sentences.append(Sentence(text[a:b], a, b, shape, number, step))
                step = 0
    return sentences


def _step(text: str, start: int) -> int:
    """Return the number before an item that starts there, 0 for a bullet."""
    marker = _LIST_NUMBER.search(text, text.rfind("\n", 0, start) + 1, start)
    return int(marker[1]) if marker else 0


def start_of_item(text: str, start: int) -> int:
    """Return where the marker of the list item begins whose words start at a place; without one, the place itself."""
    line = text.rfind("\n", 0, start) + 1
    quote = _QUOTE.match(text[line:start])
    inner = line + (quote.end() if quote else 0)
    marker = _ITEM.match(text[inner : start + 1])
    if marker is None or inner + marker.end() != start:
        return start
    return start - len(marker.group().lstrip())


def _is_led_to(before: Sequence[Sentence], block: str) -> bool:
    """Return True for a command or two in a fence to which the sentence before leads."""
    code = block.splitlines()[1:-1]
    chars = sum(len(line) + 1 for line in code)
    is_short = sum(bool(line.strip()) for line in code) <= CODE_LINES and chars <= CODE_CHARS
    is_plain = any(any(map(str.isalnum, line)) for line in code) and not any("`" in line for line in code)
    return bool(before) and before[-1].text.endswith(":") and is_short and is_plain


def first_sentences(text: str, most_chars: int) -> str:
    """Return the first whole sentences that fit, on one line; of a first one that is too long, its beginning."""
    chosen = ""
    for sentence in sentences_of(text):
        plain = " ".join(sentence.split())
        if chosen and len(chosen) + len(plain) >= most_chars:
            break
        chosen = f"{chosen} {plain}".strip()
    return chosen if len(chosen) <= most_chars else f"{chosen[: most_chars - 1].rstrip()}…"


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a text, each on one line: no headings, table rows or long code.

    A piece that is too short to be understood alone, or that leads to the next (":"), is joined to the next, at the end
    to the one before.
    """
    return [sentence.text for sentence in joined_sentences(text)]


def joined_sentences(text: str) -> list[Sentence]:
    """Return the same sentences with their places in the text."""
    return joined(split(text), text)


def joined(pieces: Iterable[Sentence], text: str) -> list[Sentence]:
    """Join pieces of a text into sentences that can be shown alone: no headings, rows or fragments, except steps."""
    whole: list[Sentence] = []
    waiting: Sentence | None = None
    said = [piece for piece in pieces if piece.shape in {"prose", "item", "code"}]
    for piece, following in zip_longest(said, said[1:]):
        waiting = _after(waiting, replace(piece, text=on_one_line(piece.text)), text)
        is_long = len(waiting.text.split()) >= FEWEST_WORDS
        leads = waiting.text.endswith((":", ",", ";", "(")) or (following is not None and _is_list(following.text))
        if waiting.steps or (is_long and not leads):
            whole.append(waiting)
            waiting = None
    if waiting is not None:
        # The last fragment has no sentence behind it to join.
        whole[-1:] = [_after(whole[-1] if whole else None, waiting, text)]
    return whole


def _is_list(text: str) -> bool:
    """Return True for steps within a sentence, which need the sentence before: "1 build it, 2 ship it"."""
    return bool(_FIRST_STEP.match(text) and _SECOND_STEP.search(text))


def joined_as_one(pieces: Sequence[Sentence], text: str) -> Sentence:
    """Return some pieces of a text, in their order, as one."""
    lines = (replace(piece, text=on_one_line(piece.text)) for piece in pieces)
    return reduce(lambda before, piece: _after(before, piece, text), lines)


def on_one_line(text: str) -> str:
    """Return a text with one space for each run of white space, and none around it."""
    return " ".join(text.split())


def _after(before: Sentence | None, piece: Sentence, text: str) -> Sentence:
    if before is None:
        return piece
    step, steps = (piece.step, piece.steps) if piece.steps else (before.step, before.steps)
    both = side_by_side(before.text, text[before.end : piece.start], piece.text)
    return replace(piece, text=both, start=before.start, step=step, steps=steps)


def side_by_side(before: str, between: str, text: str) -> str:
    """Return two pieces of a text on one line, with the text `between` them: GAP in place of words.

    >>> side_by_side("Steps:", "\n1. ", "stop it"), side_by_side("v1.", "", "2"), side_by_side("A.", " B. ", "C.")
    ('Steps: 1. stop it', 'v1.2', 'A. … C.')
    """
    return f"{before}{_SPACE.sub(' ', without_words(between))}{text}"


def without_words(between: str) -> str:
    """Return the text between two pieces as it is if it is white space or an item's marker; GAP for words or a rule.

    A line end in it is kept behind the GAP.
    """
    has_words = any(map(str.isalnum, _LAST_MARKER.sub("", between)))
    if not has_words and len(between.strip()) <= MOST_MARKS:
        return between
    return f" {GAP}\n" if "\n" in between else f" {GAP} "


def _blocks(text: str) -> Iterator[tuple[int, int, Shape]]:
    """Yield the spans of paragraphs, items, headings, table rows, and code between fences."""
    fence, code_from = "", 0
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
                fence, code_from = mark[1], start
            elif bare.startswith(fence) and not bare.strip(fence[0]):
                yield code_from, offset, "code"
                fence = ""
            continue
        # A quotation is cut like any other text, behind its mark.
        quote = _QUOTE.match(line)
        inner = start + (quote.end() if quote else 0)
        shape, inner = _shape(text, inner, offset)
        if not any(character.isalnum() for character in text[inner:offset]):
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
    begin = 0
    cut = sentencex.get_sentence_boundaries  # pyright: ignore[reportAttributeAccessIssue]: compiled, without stubs
    for piece in cut(language_of(block), block):
        stop = piece["end_index"]
        # The cutter knows abbreviations of a language, but neither file names nor German dates.
        if stop < len(block) and _goes_on(block, begin, stop):
            continue
        yield from _bounded(block, begin, stop, start)
        begin = stop


def _goes_on(text: str, begin: int, stop: int) -> bool:
    """Return True for a wrong cut at `stop`: in a word ("app.Error"), a date ("am 12. Mai"), before an aside."""
    if not text[stop - 1].isspace() and not text[stop].isspace() and text[stop - 1] not in _FULL_STOPS:
        return True
    following = _FIRST_WORD.match(text, stop)
    if following and (following[1].islower() or following[1].lower() in words_in("months")):
        return _DAY.search(text, max(begin, stop - 8), stop) is not None
    return not following and _ASIDE.match(text, stop) is not None


def _bounded(block: str, begin: int, end: int, offset: int) -> Iterator[tuple[int, int]]:
    """Cut a piece into parts of at most LONGEST_CHARS, after a comma, else between words, else anywhere."""
    while end - begin > LONGEST_CHARS:
        # The last comma before the limit; else the last space; a run without either is cut anywhere.
        cut = begin + LONGEST_CHARS
        ends = [match.end() for match in CLAUSE_END.finditer(block, begin, cut)]
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


_ROW = re.compile(r"^[^\S\n]*\|.*\|[^\S\n]*$", re.MULTILINE)
_CELL = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r":?-+:?")


def rows_in(text: str) -> list[Sentence]:
    r"""Return the rows of the tables in a text, each behind the head of its table, as both are written.

    `text[start:end]` is the row. Rules and heads are no rows; without a rule a table has no head.

    >>> [row.text for row in rows_in("| room | key |\n|---|---|\n| attic | 17 |")]
    ['room | key … attic | 17']
    """
    return [row for table in _tables(text) for row in _rows_of(table)] if "|" in text else []


def _tables(text: str) -> Iterator[list[re.Match[str]]]:
    """Yield the lines of each table: rows right below each other."""
    table: list[re.Match[str]] = []
    for line in _ROW.finditer(text):
        if table and line.start() != table[-1].end() + 1:
            yield table
            table = []
        table.append(line)
    if table:
        yield table


def _rows_of(table: list[re.Match[str]]) -> Iterator[Sentence]:
    # Without a rule below its first row a table has no head.
    has_head = len(table) > 1 and all(map(_RULE.fullmatch, _cells(table[1])))
    head = f"{_inner(table[0])} {GAP} " if has_head else ""
    for line in table[2 if has_head else 0 :]:
        if any(_cells(line)):
            yield Sentence(f"{head}{_inner(line)}", line.start(), line.end(), "row")


def _cells(line: re.Match[str]) -> list[str]:
    return [cell.strip() for cell in _CELL.split(line.group().strip())[1:-1]]


def _inner(line: re.Match[str]) -> str:
    """Return a row without the marks around it."""
    return on_one_line(line.group().strip().removeprefix("|").removesuffix("|"))
