"""Words: tokens, stems, contractions and the normal form in which two texts can be compared.

The normal form of a text is the words that another must share, in their order, to mean the same. Embeddings cannot
separate "purple" from "cyan" (cosine .96); here a number, a name, a date, a negation, a colour, a tense or the subject
of a verb always differs, and articles, fillers, contractions and punctuation do not.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import snowballstemmer

MONTHS: Final = tuple("January February March April May June July August September October November December".split())
SHORT_MONTHS: Final = tuple(month[:3] for month in MONTHS)

MONTH_NUMBERS: Final = {name.lower(): number for number, name in enumerate(MONTHS, start=1)}
"""The lower-case name of a month to its number, 1 to 12."""

CONTRACTIONS: Final = {
    "can't": "can not", "cannot": "can not", "won't": "will not", "shan't": "shall not",
    "gonna": "going to", "wanna": "want to", "gotta": "got to",
}  # fmt: skip
"""Words whose long form is not their beginning and the long form of their ending."""

CONTRACTED_ENDINGS: Final = {"n't": "not", "'m": "am", "'re": "are", "'ve": "have", "'ll": "will"}
""" "'s" and "'d" are left out: each is one of two words."""


LONGEST_STEMMED = 64
"""Characters; what is longer is a hash or a path, and has no stem."""

REMEMBERED = 50_000
"""Words of each algorithm whose stem is kept; making one is 26 µs."""


def without_possessive(word: str) -> str:
    """Drop the "'s" at the end of a word, with either apostrophe."""
    return word.removesuffix("'s").removesuffix("’s")


@lru_cache(maxsize=REMEMBERED)
def stem(word: str) -> str:
    """Return the Snowball English stem of a lower-case word, its possessive dropped."""
    if len(word) > LONGEST_STEMMED:
        return word
    # A stemmer keeps the word in itself while it works, so threads may not share one; making it is 2 of 26 µs.
    return str(snowballstemmer.stemmer("english").stemWord(without_possessive(word)))


def stems_of(words: Iterable[str]) -> frozenset[str]:
    """Return the stems of words."""
    return frozenset(stem(word) for word in words)


@lru_cache(maxsize=REMEMBERED)
def index_stem(word: str) -> str:
    """Return the Porter stem of a word, which FTS5's `porter` tokenizer gives it in the index.

    As there, words of two letters and of other scripts stay as they are.
    """
    if len(word) <= 2 or not word.isascii():
        return word
    return str(snowballstemmer.stemmer("porter").stemWord(word))


_WORD = re.compile(r"[^\W_][\w]*(?:[.'’_+#/@-]+\w+)*", re.UNICODE)
"""A word keeps inner apostrophes, dots, hyphens and underscores: 3.11, don't, app.py and snake_case stay whole."""

FILLERS = frozenset(
    "a an the just really very also so quite pretty actually basically simply totally definitely well".split()
)
"""Words that may be there or not without changing what is said."""

_APOSTROPHES = str.maketrans({"’": "'", "‘": "'", "`": "'"})
_CONTRACTED = re.compile(rf"({'|'.join(CONTRACTED_ENDINGS)})$")
_SUBJECTS_BEFORE_IS = frozenset(["it", "that", "this", "he", "she", "there", "here", "what", "who", "where", "how"])


def words(text: str) -> list[str]:
    """Return the words of a text in order, lower case, with plain apostrophes."""
    return [match.group().lower() for match in _WORD.finditer(text.translate(_APOSTROPHES))]


def normal_form(text: str) -> tuple[str, ...]:
    """Return the words that a text must share, in their order, to say the same."""
    return tuple(word for said in words(text) for word in _written_out(said) if word not in FILLERS)


def folded_words(text: str) -> list[str]:
    """Return the words of a text for a fingerprint: case, punctuation, spacing and formatting do not count.

    Tombstones hold hashes of these, so what this returns may not change.
    """
    return re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())


def _written_out(word: str) -> list[str]:
    if word in CONTRACTIONS:
        return CONTRACTIONS[word].split()
    if found := _CONTRACTED.search(word):
        return [word[: found.start()], CONTRACTED_ENDINGS[found[1]]]
    stem, is_contracted, _ = word.partition("'s")
    return [stem, "is"] if is_contracted and stem in _SUBJECTS_BEFORE_IS else [word]
