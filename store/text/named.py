"""Names and things of weight in what was said: words with a capital within a sentence, code, files, identifiers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set

from .languages import words_in

READ_CHARS, MOST = 4_000, 32
"""Of a long text its beginning is read, and so many names are kept."""

_CAPITAL = r"[^\W\d_a-zß-öø-ÿ][\w'’+#/-]*\w"
_NAME = re.compile(rf"(?<=[^\W_][ ,(]|[,;)] )(?:{_CAPITAL})(?: (?:{_CAPITAL}))*")
_THING = re.compile(r"`([^`\s]{2,40})`|\b([a-z]+[A-Z]\w+|\w+_\w+|[\w-]{1,80}\.[a-z]{2,4})\b(?!\.\w)")
_OPENING = re.compile(rf"(?:\A|[.!?\n][\W_]{{0,9}})({_CAPITAL}(?: {_CAPITAL})*)")


def named(text: str) -> Iterator[str]:
    """Yield the names and things of a text as they are written; no name that opens a sentence, as any word may."""
    for match in _NAME.finditer(text):
        yield from _without(_empty(), match.group())
    for code, plain in _THING.findall(text):
        thing = code or plain
        if sum(character.isalnum() for character in thing) > 2 and not (thing.isalpha() and thing.islower()):
            yield thing


def entities_in(text: str) -> tuple[str, ...]:
    """Return what a statement that stands alone may be of, at most MOST: its names, and what opens its sentences."""
    text = text[:READ_CHARS]
    empty = _empty() | words_in("question_words")
    opening = (name for match in _OPENING.finditer(text) for name in _without(empty, match[1]))
    return tuple(dict.fromkeys((*named(text), *opening)))[:MOST]


def _empty() -> frozenset[str]:
    return words_in("function_words") | words_in("weekdays") | words_in("months") | {"i"}


def _without(empty: Set[str], name: str) -> Iterator[str]:
    """Yield a name without the words that are none: "The", "Monday", "I"."""
    words = [word for word in name.split() if word.lower().partition("'")[0].partition("’")[0] not in empty]
    if words and any(len(word) > 1 for word in words):
        yield re.sub(r"['’]s$", "", " ".join(words))
