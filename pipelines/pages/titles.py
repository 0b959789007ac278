"""Titles of episodes, as people title: the session's own title, else the words with which its person began.

Words are never made up: a title is a whole sentence, or the whole first clause of a longer one, as it was said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from ...store.model import Turn
from ...store.roles import MACHINES
from ...store.text.languages import phrases
from ...store.text.sentences import split
from ...store.text.stems import stem
from ..extract.signs import opens
from ..language.content import content_words
from ..workspace.view import Vectors

LONGEST_CHARS, FEWEST_WORDS = 90, 3
LOOKED_AT = 6
"""The first sentences that may be a title: people say early what they are about."""

LATER_COUNTS_LESS, SIGN = 0.05, 0.1
"""Cosine that a sentence loses to one before it, and gains by each sign that it may be a title."""

ENOUGH = 0.2
"""The least score of a title; greetings and small talk lie below."""

_CLAUSE_END = re.compile(r"[,;:]\s+|\s+[–—-]+\s+|\s+\(")
_DIGITS = re.compile(r"\d+")
_NO_WORDS = re.compile(
    r"https?://|[\w.-]*[/\\][\w./\\-]+|\b(?=\w*\d)(?=\w*[a-z])\w{8,}\b|\[\w+:|[<>{}|]|\w=\w|```", re.IGNORECASE
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
    turns: Sequence[Turn], facts: Sequence[str], about: Vectors, embed: Callable[[Sequence[str]], Vectors]
) -> str:
    """Return the early words of a person that tell most of what an episode is about; "" if none tell enough.

    `about` is the direction in which its facts differ from the others of their channel. Words that were kept as a fact,
    or wish for something, come before others; a reply to what was said comes after.
    """
    openings = list(_openings(turns))
    if not openings:
        return ""
    kept = " ".join(" ".join(facts).split())
    score = [
        float(near) + SIGN * (_signs(words) + (words in kept)) - LATER_COUNTS_LESS * place
        for place, (words, near) in enumerate(zip(openings, embed(openings) @ about, strict=True))
    ]
    best = max(score)
    return openings[score.index(best)] if best >= ENOUGH else ""


def _signs(words: str) -> int:
    """Return 1 for a wish or a request, less 1 for a reply to what was said."""
    wishes = phrases("speech.seeking").search(words)
    replies = any(opens(f"speech.{sign}", words) for sign in ("chat", "accept", "reject", "leaning", "praise"))
    return bool(wishes) - replies


def _openings(turns: Sequence[Turn]) -> Iterator[str]:
    """Yield the first sentences of people that can be a title, each once."""
    said = (title for turn in turns if turn.role not in MACHINES for title in _titles_in(turn.text))
    yield from islice(dict.fromkeys(said), LOOKED_AT)


def _titles_in(text: str) -> Iterator[str]:
    """Yield the sentences of a turn that can be a title, one of few words with the next: "Museum day. We …"."""
    lead = ""
    for sentence in split(text):
        words = " ".join(sentence.text.split())
        if title := _fitted(f"{lead}{words}") or _fitted(words):
            yield title
        lead = f"{words} " if not title and len(stems_of_title(words)) > 1 else ""


def _fitted(sentence: str) -> str:
    """Return a sentence, or its first clauses where it is too long for a title; "" if it says too little."""
    ends = (match.start() for match in _CLAUSE_END.finditer(sentence) if match.start() <= LONGEST_CHARS)
    pieces = [sentence] if len(sentence) <= LONGEST_CHARS else [sentence[:end] for end in ends]
    telling = (piece for piece in pieces if len(stems_of_title(piece)) >= FEWEST_WORDS)
    fitted = next(telling, "").rstrip(" .,;:–—-")
    return "" if _NO_WORDS.search(fitted) else fitted


def stems_of_title(text: str) -> set[str]:
    """Return the stems of the words that say what a text is about."""
    return {stem(word) for word in content_words(text) if len(word) > 2 and not word.isdigit()}
