"""The words of a file: those that were written there last by us, or what a person made of them."""

from __future__ import annotations

import hashlib
import re
from datetime import datetime
from itertools import islice
from typing import Final

from ..model import Kind, Level, Memory
from .document import fact_ids, instant, is_fact_id, parse

BY_HAND: Final = "body_sha256"
"""The frontmatter key that holds the hash of a body as it was last known: another body was edited by a person since."""

EDITED_AT: Final = "edited_at"
"""The frontmatter key of a fact whose words its person changed: since when these hold."""

_MARK = re.compile(rb"<!-- Written by dreamd, and anew while nothing here is changed: ([0-9a-f]{64}) -->\n\Z")
"""The last line of a derived file (a comment in markdown and in HTML), with the hash of what stands before it."""

_MOST_ALIKE = 9
"""The number of ids of the same words tried: all but the first are of facts told again beside reworded ones."""


def body_hash(text: str) -> str:
    """Hash a body as it is kept under BY_HAND."""
    return hashlib.sha256(text.strip().encode("utf-8", "surrogatepass")).hexdigest()[:16]


def is_edited_page(data: bytes) -> bool:
    """Check for a page that a dream wrote, and whose body a person has edited since."""
    document = parse(data)
    return BY_HAND in document.meta and document.meta[BY_HAND] != body_hash(document.body)


def marked(page: bytes) -> bytes:
    """Return a derived file with the mark by which its text is known to be ours, whatever became of the ledger."""
    text = unmarked(page)
    text += b"" if text.endswith(b"\n") else b"\n"
    digest = hashlib.sha256(text).hexdigest()
    return text + f"<!-- Written by dreamd, and anew while nothing here is changed: {digest} -->\n".encode()


def unmarked(page: bytes) -> bytes:
    """Return a derived file without its mark."""
    return _MARK.sub(b"", page)


def is_marked(page: bytes) -> bool:
    """Check for a derived file that we wrote once, changed since or not."""
    return _MARK.search(page) is not None


def is_as_marked(page: bytes) -> bool:
    """Check for a derived file that holds what we wrote there last."""
    return is_marked(page) and marked(page) == page


def has_known_words(memory: Memory) -> bool:
    """Check for a memory whose words are those that were last known: hashed under BY_HAND, or those of a fact's id."""
    if BY_HAND in memory.extra:
        return bool(memory.extra[BY_HAND] == body_hash(memory.text))
    return _is_named_by_words(memory) and memory.node_id in islice(fact_ids(memory.channel, memory.text), _MOST_ALIKE)


def is_reworded(memory: Memory) -> bool:
    """Check for a fact whose words a person changed since they were last known."""
    return _is_named_by_words(memory) and not has_known_words(memory)


def reworded_at(memory: Memory, written_at: datetime | None) -> datetime | None:
    """Return since when a fact holds a person's words in place of those that were said, None for any other memory.

    `written_at`, when its file was written last, dates words that no dream has dated yet.
    """
    return written_at if is_reworded(memory) else instant(memory.extra.get(EDITED_AT))


def _is_named_by_words(memory: Memory) -> bool:
    """Check for a fact that got its id of its words: no document, and no file that a person added."""
    return memory.level is Level.FACT and memory.kind is not Kind.DOCUMENT and is_fact_id(memory.node_id)
