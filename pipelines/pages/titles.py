"""Titles of episodes, as people title: the session's own title, else the words with which its person began.

Words are never made up: a title is a whole sentence, or the whole first clause of a longer one, as it was said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from ...store.model import Turn
from ...store.roles import MACHINES
from ...store.text.sentences import split
from ...store.text.stems import stem
from ..language.content import content_words
from ..workspace.view import Vectors

LONGEST_CHARS, FEWEST_WORDS = 90, 3
LOOKED_AT = 10
"""The first sentences that may be a title: people say early what they are about."""

LATER_COUNTS_LESS, WORTH = 0.01, 0.1
"""Cosine that a sentence loses to one before it, and gains by being part of a fact."""

NEAR = 0.2
"""Cosine with the middle of the facts below which a sentence does not say what they are about."""

_CLAUSE_END = re.compile(r"[,;:]\s+|\s+[–—-]+\s+|\s+\(")
_DIGITS = re.compile(r"\d+")
_NO_WORDS = re.compile(
    r"https?://|[\w.-]*[/\\][\w./\\-]+|\b(?=\w*\d)(?=\w*[a-z])\w{8,}\b|\[\w+:|[<>{}=|]|```", re.IGNORECASE
)
"""Addresses, paths, ids and code: they say nothing to a reader."""


def own_title(title: str, turns: Sequence[Turn], others: Iterable[str]) -> str:
    """Return a session's title if it was given to it; "" for a number, an id, or what was said first, cut off."""
    bare = title.rstrip("…. ").strip()
    is_numbered = any(_DIGITS.sub("#", other) == _DIGITS.sub("#", title) for other in others)
    if is_numbered or not stems_of_title(bare) or _NO_WORDS.search(bare):
        return ""
    opening = " ".join(bare.split()).casefold()
    said_first = any(" ".join(turn.text.split()).casefold().startswith(opening) for turn in turns)
    return "" if said_first or (turns and bare == turns[0].session_id) else title.strip()


def said_title(
    turns: Sequence[Turn], facts: Sequence[str], vectors: Vectors, embed: Callable[[Sequence[str]], Vectors]
) -> str:
    """Return the early words of a person that are nearest to what an episode's facts are about; "" if none are near.

    `vectors` are those of the facts, one a row. Words that were worth keeping as a fact come before others.
    """
    openings = list(_openings(turns))
    if not openings:
        return ""
    kept = " ".join(" ".join(facts).split())
    likeness = embed(openings) @ vectors.mean(axis=0)
    score = likeness + [WORTH * (words in kept) - LATER_COUNTS_LESS * place for place, words in enumerate(openings)]
    best = int(score.argmax())
    return openings[best] if likeness[best] >= NEAR else ""


def _openings(turns: Sequence[Turn]) -> Iterator[str]:
    """Yield the first sentences of people that can be a title, each once."""
    said = (sentence.text for turn in turns if turn.role not in MACHINES for sentence in split(turn.text))
    fitting = dict.fromkeys(title for sentence in said if (title := _fitted(" ".join(sentence.split()))))
    yield from islice(fitting, LOOKED_AT)


def _fitted(sentence: str) -> str:
    """Return a sentence, or as many of its first clauses as a title can be long; "" if it says too little."""
    ends = [match.start() for match in _CLAUSE_END.finditer(sentence) if match.start() <= LONGEST_CHARS]
    fitted = sentence if len(sentence) <= LONGEST_CHARS else sentence[: ends[-1]] if ends else ""
    fitted = fitted.rstrip(" .,;:–—-")
    return "" if len(stems_of_title(fitted)) < FEWEST_WORDS or _NO_WORDS.search(fitted) else fitted


def stems_of_title(text: str) -> set[str]:
    """Return the stems of the words that say what a text is about."""
    return {stem(word) for word in content_words(text) if len(word) > 2 and not word.isdigit()}
