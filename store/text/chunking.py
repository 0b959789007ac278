"""Chunking: a long text is cut at headings, paragraphs, lines, sentences or words, the best that there is."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..model import Chunk, NodeId
from .sentences import SENTENCE_END
from .token_count import estimate_tokens

__all__ = ["chunk", "estimate_tokens"]

_MARKS = re.compile(r"^[ ]{0,3}(?:(?P<fence>`{3,}|~{3,})|(?P<level>#{1,6})(?=[ \t\r]|$))(?P<rest>[^\n]*)", re.MULTILINE)
_BLANK_LINES = re.compile(r"^(?:[ \t\r]*\n)+", re.MULTILINE)
_SPACE = re.compile(r"\s+")


def chunk(
    node_id: NodeId,
    text: str,
    max_tokens: int = 400,
    overlap_tokens: int = 40,
    count: Callable[[str], int] = estimate_tokens,
) -> list[Chunk]:
    """Cut a text into chunks of at most `max_tokens`; a text that fits is one chunk with the node's own id.

    Every character is in some chunk. A chunk begins with the end of the one before it, at most `overlap_tokens` of it,
    unless a heading begins there. `heading` is the path of headings above its first new character. Linear in the text.
    """
    if not text:
        return []
    if count(text) <= max_tokens:
        return [Chunk(node_id, 0, len(text), text)]
    cutter = _Cutter(text, count, max_tokens, min(overlap_tokens, max_tokens // 2))
    return [
        Chunk(f"{node_id}#chunk-{number}", start, end, text[start:end], heading)
        for number, (start, end, heading) in enumerate(cutter.chunks(), start=1)
    ]


@dataclass(frozen=True, slots=True)
class _Heading:
    offset: int
    level: int
    title: str


class _Cutter:
    """One text being cut."""

    def __init__(self, text: str, count: Callable[[str], int], max_tokens: int, overlap_tokens: int) -> None:
        self._text = text
        self._count = count
        self._max = max_tokens
        self._overlap = overlap_tokens
        self._room = max_tokens - overlap_tokens
        self._headings, fences = _read_marks(text)
        self._paragraphs = _paragraph_starts(text, fences)

    def chunks(self) -> Iterator[tuple[int, int, str]]:
        """Yield start, end and heading of each chunk, in order."""
        path: list[_Heading] = []
        headings = iter([*self._headings, _Heading(len(self._text) + 1, 1, "")])
        following = next(headings)
        for section_start, start, end in self._spans(0, len(self._text), self._headings):
            while following.offset <= start:
                path = [above for above in path if above.level < following.level] + [following]
                following = next(headings)
            yield self._overlapped(section_start, start, end), end, " > ".join(h.title for h in path if h.title)

    def _spans(self, start: int, end: int, headings: Sequence[_Heading]) -> Iterator[tuple[int, int, int]]:
        """Yield (section start, start, end) of each chunk's own text: sections are joined while they fit."""
        inner = [heading for heading in headings if heading.offset > start]
        if self._fits(start, end):
            yield start, start, end
        elif not inner:
            yield from ((start, begin, stop) for begin, stop in self._windows(start, end))
        else:
            top = min(heading.level for heading in inner)
            cuts = [start, *(heading.offset for heading in inner if heading.level == top), end]
            offsets = [heading.offset for heading in inner]
            for begin, stop in self._grouped(cuts):
                below = inner[bisect_right(offsets, begin) : bisect_right(offsets, stop - 1)]
                yield from self._spans(begin, stop, below)

    def _grouped(self, cuts: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Join neighbouring sections while they fit together; one that does not fit stays alone."""
        begin, used = cuts[0], 0
        for cut, following in pairwise(cuts):
            tokens = self._count(self._text[cut:following])
            if cut > begin and used + tokens > self._room:
                yield begin, cut
                begin, used = cut, 0
            used += tokens
        yield begin, cuts[-1]

    def _windows(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield pieces of a stretch without headings, each ending at the best place in its last half."""
        while not self._fits(start, end):
            stop = self._best_end(start, self._reach(start, end, self._room))
            yield start, stop
            start = stop
        yield start, end

    def _reach(self, start: int, end: int, tokens: int) -> int:
        """Return about where `tokens` tokens from `start` end; at least one character on."""
        # Each step aims at the wanted count but moves by a sixteenth at least, so that it ends after few counts.
        stop = min(end, start + 4 * tokens)
        while stop > start + 1:
            used = self._count(self._text[start:stop])
            if used <= tokens:
                break
            stop = start + max(1, min((stop - start) * tokens // used, (stop - start) * 15 // 16))
        return stop

    def _best_end(self, start: int, reach: int) -> int:
        """Return the best place to cut in (start, reach]: paragraph, line, sentence, word, or right at the reach."""
        half = start + (reach - start) // 2
        place = bisect_right(self._paragraphs, reach)
        if place and self._paragraphs[place - 1] > half:
            return self._paragraphs[place - 1]
        line = self._text.rfind("\n", half, reach) + 1
        if line > half:
            return line
        # The best boundary within the last half wins, so that no chunk is less than half full for a full stop.
        for boundary in (SENTENCE_END, _SPACE):
            ends = [match.end() for match in boundary.finditer(self._text, half, reach)]
            if ends and ends[-1] > half:
                return ends[-1]
        return reach

    def _overlapped(self, section_start: int, start: int, end: int) -> int:
        """Return where a chunk begins that repeats the end of the one before: a sentence's or a word's start."""
        if start == section_start or not self._overlap:
            return start
        # A token has about four characters; a chunk never repeats words of another section.
        earliest = max(section_start, start - 4 * self._overlap)
        while earliest < start and self._count(self._text[earliest:start]) > self._overlap:
            earliest += max(1, (start - earliest) // 8)
        for boundary in (SENTENCE_END, _SPACE):
            match = boundary.search(self._text, earliest, start)
            if match and match.end() < start:
                earliest = match.end()
                break
        return earliest if self._count(self._text[earliest:end]) <= self._max else start

    def _fits(self, start: int, end: int) -> bool:
        if end - start > 8 * self._room:  # tokens of eight characters hardly occur: spare the count
            return False
        return self._count(self._text[start:end]) <= self._room


def _read_marks(text: str) -> tuple[list[_Heading], list[tuple[int, int]]]:
    """Return the headings outside code fences, and the fences; one that is never closed goes on to the end."""
    headings: list[_Heading] = []
    fences: list[tuple[int, int]] = []
    opened: tuple[int, str] | None = None
    for mark in _MARKS.finditer(text):
        fence = mark["fence"]
        if opened is not None:
            if fence and fence.startswith(opened[1]) and not mark["rest"].strip():
                fences.append((opened[0], mark.end()))
                opened = None
        elif fence:
            opened = mark.start(), fence
        else:
            headings.append(_Heading(mark.start(), len(mark["level"]), mark["rest"].strip().rstrip("#").rstrip()))
    if opened is not None:
        fences.append((opened[0], len(text)))
    return headings, fences


def _paragraph_starts(text: str, fences: Sequence[tuple[int, int]]) -> list[int]:
    """Return the starts of the paragraphs outside code fences; a fence is a paragraph."""
    # A blank line within a fence ends no paragraph: code stays whole as long as it fits.
    begins = [begin for begin, _ in fences]
    starts = set(begins) | {min(len(text), end + 1) for _, end in fences}
    for blank in _BLANK_LINES.finditer(text):
        place = bisect_right(begins, blank.start()) - 1
        if place < 0 or blank.start() >= fences[place][1]:
            starts.add(blank.end())
    return sorted(starts)
