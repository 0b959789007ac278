"""Spelling: the names that a question asks for, and the words of memories that are one slip away from a question's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import cache

from anyascii import anyascii

from ..limits import LONGEST_QUESTION_CHARS
from .dates import ANY_DAY, SHORT_MONTHS, find_asked
from .languages import entries, words_in
from .words import TERM, grammar_words, language_of, stem

FEWEST_LETTERS = 4
"""A shorter word is one slip away from too many others."""

MOST_TERMS, MOST_WORDS = 8, 20_000
"""The most terms of a question and words of memories that are compared: 10 ms."""


_MARKS = ".,;:!?…()[]{}<>\"'’‘“”„«»*_`#"


def meant(terms: Sequence[str], texts: Iterable[str]) -> list[str]:
    """Return for each term that is in no text the most frequent word one slip away from it, if there is one.

    Words that carry grammar alone are left out: a question about "Sand" does not mean "and".

    A slip is a letter too many, too few, wrong, or two neighbours in each other's place (Damerau). Terms and words are
    in lower case; a word of the same stem is no slip.
    """
    words = _words(texts)
    others = words.keys() - grammar_words() - words_in("question_words")
    found: dict[str, None] = {}
    for term in [one for one in terms if len(one) >= FEWEST_LETTERS and one.isalpha() and one not in words][
        :MOST_TERMS
    ]:
        ends = [word for word in others if word[0] == term[0] or word[-1] == term[-1]]  # one slip leaves one end
        # Among the near words a form of the same word is no slip: "deploys" is not a misspelt "deploy".
        near = [word for word in ends if is_slip(term, word)]
        if near and not any(stem(word) == stem(term) for word in near):
            found[max(near, key=lambda word: (words[word], word))] = None
    return list(found)


def _words(texts: Iterable[str]) -> Counter[str]:
    counted: Counter[str] = Counter()
    left = MOST_WORDS
    for text in texts:
        said = [match.group() for match in TERM.finditer(text.lower())][:left]
        counted.update(said)
        left -= len(said)
        if left <= 0:
            break
    return counted


_BEGINS = re.compile(r"(?:^|[.!?:\n])\W*\Z")
"""The end of the text before the first word of a sentence."""


def names_asked(question: str, stems: Collection[str]) -> list[str]:
    """Return the words of a question that name one thing, of those with these stems: names, identifiers, and numbers.

    A word within a sentence that begins with a capital, where the language keeps these for names, or a word of two
    characters or more with a digit. No times, no abbreviations, and none in a text that is all capitals or longer than
    LONGEST_QUESTION_CHARS: it is pasted rather than asked.
    """
    if len(question) > LONGEST_QUESTION_CHARS:
        return []
    # Dates cost most, so they are looked for only if a name is left.
    words = list(TERM.finditer(question))
    asked = [word for word in words if stem(word.group().lower()) in stems and word.group().lower() not in _times()]
    numbers = {word for word in asked if len(word.group()) > 1 and any(map(str.isdigit, word.group()))}
    names = {word for word in asked if _is_name(word.group()) and not _BEGINS.search(question, 0, word.start())}
    if names and not _names_have_capitals(question):
        names = set()
    if not (named := [word for word in words if word in names | numbers]):
        return []
    times = [(one.start, one.end) for one in find_asked(question, ANY_DAY)]
    return [word.group() for word in named if not any(start <= word.start() < end for start, end in times)]


def _names_have_capitals(question: str) -> bool:
    """Return True where a capital marks a name: not in German, and not where every word has one."""
    starts = [word.group()[0] for word in TERM.finditer(question)]
    return "names" in entries(language_of(question), "capitals") and any(map(str.islower, starts))


@cache
def _times() -> frozenset[str]:
    return words_in("months") | words_in("weekdays") | {month.lower() for month in SHORT_MONTHS}


def _is_name(word: str) -> bool:
    """Return True for a capital with a small letter in the word: "Anna", "BigDecimal"; not "API" or "I"."""
    return word[0].isupper() and any(map(str.islower, word))


def unnamed(names: Sequence[str], texts: Iterable[str]) -> list[str]:
    """Return the names without a match in the texts: a word that begins like the name, or is one slip away.

    Letters are compared without their marks: "Torbjorn" matches Torbjørn. A slip counts in words of four letters or
    more with a capital and the same first letter; in a number or an identifier it makes another one.
    """
    pieces = {piece for text in texts for piece in text.split() if not piece.isascii() or not piece[0].islower()}
    words = {_plain(word): word for word in (piece.strip(_MARKS).partition("'")[0] for piece in pieces) if word}
    capital = [word for word, written in words.items() if written[0].isupper()]
    return [name for name in names if not _is_among(_plain(name), words, capital)]


def _is_among(name: str, words: Iterable[str], capital: Iterable[str]) -> bool:
    begun = beginning_of_name(name)
    return any(word.startswith(begun) for word in words) or (
        name.isalpha()
        and any(
            word[0] == name[0] and max(len(word), len(name)) >= FEWEST_LETTERS and is_slip(name, word)
            for word in capital
        )
    )


def beginning_of_name(name: str) -> str:
    """Return the beginning by which a longer form of a name is known, three quarters of it: Postgres, PostgreSQL."""
    return name[: max(FEWEST_LETTERS, 3 * len(name) // 4)]


def _plain(word: str) -> str:
    return (word if word.isascii() else anyascii(word)).lower()


def is_slip(one: str, other: str) -> bool:
    """Return True for two words that differ by one letter, or by two neighbours that trade places."""
    shorter, longer = sorted((one, other), key=len)
    if len(longer) - len(shorter) > 1 or one == other:
        return False
    same = next((place for place, letter in enumerate(shorter) if letter != longer[place]), len(shorter))
    # Behind the common beginning one letter is inserted, replaced, or swapped with its neighbour.
    rest, other_rest = shorter[same:], longer[same:]
    if len(longer) > len(shorter):
        return rest == other_rest[1:]
    return rest[1:] == other_rest[1:] or (rest[:2] == other_rest[1::-1] and rest[2:] == other_rest[2:])
