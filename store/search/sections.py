"""Sections of long texts: small-to-big. A chunk is matched, and what stands around it is returned."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from ..index.catalog import Catalog, ChunkRow
from ..index.projection import Node
from ..model import NodeId
from ..text.sentences import Sentence
from .search import Ranking

LONG_CHARS = 2000
"""A longer text is returned by its sections; `show` has the rest."""

FALLBACK_CHARS, MOST_CHARS = 3200, 8192
"""The size of a section where there are no long texts to take it from, and the most of one."""


@dataclass(frozen=True, slots=True)
class Section:
    """A chunk of a long text: characters [start, end), and its cosine with the question, None without vectors."""

    start: int
    end: int
    cosine: float | None


def sections_of(nodes: Collection[Node], ranking: Ranking, catalog: Catalog) -> dict[NodeId, list[Section]]:
    """Return the chunks of those nodes that are long, by node, in the order of the text."""
    long = [node.node_id for node in nodes if len(node.text) > LONG_CHARS]
    chunks = catalog.chunks_of(long) if long else {}
    cosines = ranking.cosines([one.chunk_id for listed in chunks.values() for one in listed]) if chunks else {}
    return {node_id: [_section(one, cosines) for one in listed] for node_id, listed in chunks.items()}


def _section(chunk: ChunkRow, cosines: Mapping[NodeId, float]) -> Section:
    return Section(chunk.start, chunk.end, cosines.get(chunk.chunk_id))


def section_budget(parents_chars: Collection[int], chunk_chars: int, most_chars: int = MOST_CHARS) -> int:
    """Return the characters of a section: the median length of the long texts, within [chunk_chars, most_chars].

    FALLBACK_CHARS where there is no long text.
    """
    usual = int(median(parents_chars)) if parents_chars else FALLBACK_CHARS
    return max(chunk_chars, min(usual, most_chars))


def widened(
    text: str, sentences: Sequence[Sentence], spans: Sequence[tuple[int, int]], budget_chars: int
) -> list[tuple[int, int]]:
    """Return spans grown evenly on both sides, by whole sentences, to `budget_chars` together; overlaps are merged.

    Spans are taken in their order while they fit; the first always is. Each round gives each span the sentence before
    it and the one after it, so that none starves another. The result is in the order of the text, and no two overlap.
    """
    taken: list[tuple[int, int]] = []
    for span in spans:
        if not taken or _size(merged([*taken, span])) <= budget_chars:
            taken = merged([*taken, span])
    ends = [(one.start, one.end) for one in sentences]
    grew = True
    while grew:
        grew = False
        for span in taken:
            for wider in (_with_sentence_before, _with_sentence_after):
                grown = merged([*taken, wider(span, ends)])
                if grown != taken and _size(grown) <= budget_chars:
                    taken, grew = grown, True
    return [(_from_heading(text, start), end) for start, end in taken]


def _with_sentence_before(span: tuple[int, int], sentences: Sequence[tuple[int, int]]) -> tuple[int, int]:
    place = bisect_left(sentences, (span[0],)) - 1
    return (sentences[place][0], span[1]) if place >= 0 else span


def _with_sentence_after(span: tuple[int, int], sentences: Sequence[tuple[int, int]]) -> tuple[int, int]:
    place = bisect_left(sentences, (span[1],))
    return (span[0], sentences[place][1]) if place < len(sentences) else span


def _from_heading(text: str, start: int) -> int:
    """Return where the heading right above a place begins, the place itself where there is none."""
    above = text[:start].rstrip()
    line = above.rfind("\n") + 1
    return line if above[line:].lstrip().startswith("#") else start


def merged(spans: Collection[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans in order, those that overlap or touch as one."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _size(spans: Sequence[tuple[int, int]]) -> int:
    return sum(end - start for start, end in spans)
