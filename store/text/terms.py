"""Terms: the words of a question that can find something, and the names and identifiers in a text."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Set
from datetime import date
from functools import cache
from typing import NamedTuple

from .dates import Resolved, find_asked
from .languages import entries, language_of, phrases, words_in
from .words import SHORT_MONTHS, stem, stems_of

WORD = re.compile(r"[^\W_]+(?:[-_./:'’][^\W_]+)*", re.UNICODE)
"""A word with what may stand inside one: identifiers, paths, versions and error codes stay whole."""

_BEGINS = re.compile(r"(?:^|[.!?:\n])\W*\Z")
"""The end of the text before the first word of a sentence."""

_MARK = re.compile(r"[,;:.!?]")

ASKED_CHARS = 300
EVENT_WORDS = 2
"""The first terms behind "before" name the event: "the release", "Anna left". What follows may be the question's."""

_ANY_DAY = date(2000, 1, 1)
"""Which days a question names depends on the day it is asked, that it names some does not."""


def query_terms(text: str, limit: int = 64) -> list[str]:
    """Return the distinct words of a question in order without question words, or all of them if no other is left."""
    words = list(dict.fromkeys(match.group().lower() for match in WORD.finditer(text)))
    asked = words_in("question_words")
    terms = [word for word in words if word.replace("’", "'").partition("'")[0] not in asked]
    return (terms or words)[:limit]


def term_stems(text: str) -> frozenset[str]:
    """Return the stems of a text's terms."""
    return stems_of(query_terms(text))


class Event(NamedTuple):
    """The stems of the words that name an event, and if a question asks about the time before it, or after."""

    stems: frozenset[str]
    is_before: bool


def event_in(question: str) -> Event | None:
    """Return the event that a question asks about the time before or after, as "before the release"; None for none.

    Its words go up to the next mark. Not a day or a month, which `find_asked` reads, and none in a long text.
    """
    if len(question) > ASKED_CHARS:
        return None
    found = [
        (match.end(), side) for side in ("before", "after") if (match := phrases(f"events.{side}").search(question))
    ]
    if not found or find_asked(question, _ANY_DAY):  # most questions name no event, and dates cost more to look for
        return None
    for end, side in sorted(found):
        named = _MARK.split(question[end:], 1)[0]
        words = [match.group().lower() for match in WORD.finditer(named)]
        if terms := [word for word in words if word not in words_in("question_words")]:
            return Event(stems_of(terms[:EVENT_WORDS]), side == "before")
    return None


def asks_for_newest(question: str) -> bool:
    """Check that a question asks for what is newest."""
    return phrases("days.newest").search(question) is not None


def asks_nothing_but(question: str, times: Collection[Resolved]) -> bool:
    """Check that a question names no thing beside some times, or the newest: "what happened on 5 March?"."""
    if not times and not asks_for_newest(question):
        return False
    for one in sorted(times, key=lambda one: -one.start):
        question = f"{question[: one.start]} {question[one.end :]}"
    for section in ("days.newest", "days.happenings"):
        question = phrases(section).sub(" ", question)
    left = (match.group().lower().replace("’", "'").partition("'")[0] for match in WORD.finditer(question))
    asking = words_in("question_words") | words_in("days.asking")
    return all(word in asking for word in left)


def names_in(question: str, stems: Collection[str]) -> list[str]:
    """Return the words of a question that name one thing, of those with these stems: names, identifiers, and numbers.

    A word within a sentence that begins with a capital, where the language keeps these for names, or a word of two
    characters or more with a digit. No times, no abbreviations, and none in a text that is all capitals or longer than
    ASKED_CHARS: it is pasted rather than asked.
    """
    if len(question) > ASKED_CHARS:
        return []
    words = list(WORD.finditer(question))
    asked = [word for word in words if stem(word.group().lower()) in stems and word.group().lower() not in _times()]
    numbers = {word for word in asked if len(word.group()) > 1 and any(map(str.isdigit, word.group()))}
    names = {word for word in asked if _is_name(word.group()) and not _BEGINS.search(question, 0, word.start())}
    if names and not _names_have_capitals(question):
        names = set()
    if not (named := [word for word in words if word in names | numbers]):
        return []
    times = [(one.start, one.end) for one in find_asked(question, _ANY_DAY)]
    return [word.group() for word in named if not any(start <= word.start() < end for start, end in times)]


def _names_have_capitals(question: str) -> bool:
    """Check that a capital says something: not in German, and not where every word has one."""
    starts = [word.group()[0] for word in WORD.finditer(question)]
    return "names" in entries(language_of(question), "capitals") and any(map(str.islower, starts))


@cache
def _times() -> frozenset[str]:
    return words_in("months") | words_in("weekdays") | {month.lower() for month in SHORT_MONTHS}


def _is_name(word: str) -> bool:
    """Check for a capital before a small letter: "Anna", "BigDecimal", no "API" and no "I"."""
    return word[0].isupper() and any(map(str.islower, word))


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
