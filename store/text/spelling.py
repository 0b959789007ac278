"""Spelling: words of the newest memories that are one slip away from a question's, where nothing answered it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from .stems import stem
from .terms import WORD

FEWEST_LETTERS = 4
"""A shorter word is one slip away from too many others."""

MOST_TERMS, MOST_WORDS = 8, 20_000
"""The words of a question that are looked at, and of the memories: 10 ms."""


def meant(terms: Sequence[str], texts: Iterable[str]) -> list[str]:
    """Return for each term that no text holds the commonest word that one slip away makes, if there is one.

    A slip is a letter too many, too few, wrong, or two neighbours in each other's place (Damerau). Terms and words are
    in lower case; a word of the same stem is no slip.
    """
    words = _words(texts)
    found: dict[str, None] = {}
    for term in [one for one in terms if len(one) >= FEWEST_LETTERS and one.isalpha() and one not in words][
        :MOST_TERMS
    ]:
        ends = [word for word in words if word[0] == term[0] or word[-1] == term[-1]]  # one slip leaves one end
        near = [word for word in ends if is_slip(term, word)]
        if near and not any(stem(word) == stem(term) for word in near):
            found[max(near, key=lambda word: (words[word], word))] = None
    return list(found)


def _words(texts: Iterable[str]) -> Counter[str]:
    counted: Counter[str] = Counter()
    left = MOST_WORDS
    for text in texts:
        said = [match.group() for match in WORD.finditer(text.lower())][:left]
        counted.update(said)
        left -= len(said)
        if left <= 0:
            break
    return counted


def is_slip(one: str, other: str) -> bool:
    """Check that two words differ by one letter, or by two neighbours that trade places."""
    shorter, longer = sorted((one, other), key=len)
    if len(longer) - len(shorter) > 1 or one == other:
        return False
    same = next((place for place, letter in enumerate(shorter) if letter != longer[place]), len(shorter))
    rest, other_rest = shorter[same:], longer[same:]
    if len(longer) > len(shorter):
        return rest == other_rest[1:]
    return rest[1:] == other_rest[1:] or (rest[:2] == other_rest[1::-1] and rest[2:] == other_rest[2:])
