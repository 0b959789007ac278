"""Quoting: a quote is whole sentences of one source, word for word, in order; a fragment may have lost the reason."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from ...store.text.sentences import split
from ...store.text.words import words

_MARKED = re.compile(r"“([^“”]+)”")


def is_quote(text: str, sources: Sequence[str]) -> bool:
    """Check that each paragraph of a text is some whole sentences of one of the sources, in their order."""
    return all(any(_is_cut_from(one, source) for source in sources) for one in text.split("\n\n") if one.strip())


def marked_quotes(text: str) -> Iterator[str]:
    """Yield what stands in quotation marks on a page, as `pages.quotes` writes them."""
    return (match[1] for match in _MARKED.finditer(text))


def _is_cut_from(paragraph: str, source: str) -> bool:
    left = words(paragraph)
    for sentence in _sentences(source):
        marker = int(bool(left) and _is_marker(left[0]) and left[0] != sentence[0])
        if tuple(left[marker : marker + len(sentence)]) == sentence:
            del left[: marker + len(sentence)]
    return not left


def _is_marker(word: str) -> bool:
    """Check for what may stand before an item of a list, "1." or "b)": the sentences of a source are without it."""
    return len(word) == 1 or word.isdecimal()


@lru_cache(maxsize=4096)
def _sentences(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple(said for sentence in split(text) if (said := tuple(words(sentence.text))))
