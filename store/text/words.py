"""Words: the patterns of a word, and all that is made of words: stems, content words, terms, names, the normal form.

Every room asks here for the words of a text. The normal form is the words that another text must share, in their order,
to mean the same. Embeddings cannot separate "purple" from "cyan" (cosine .96); in the normal form a number, a name, a
date, a negation, a colour, a tense or the subject of a verb always differs, and articles, fillers, contractions and
punctuation do not.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Set
from functools import cache, lru_cache
from typing import Final

import snowballstemmer

from .languages import DEFAULT, entries, languages, phrases, words_in

# ---- patterns: what a word is depends on what is done with it

WORD: Final = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?%?|[^\W_](?:[\w'’.:/@+#-]*[\w+#])?")
"""A word with the marks inside it: don't, app.py, snake_case, 14:30, 10,000 and c++ stay whole."""

TERM: Final = re.compile(r"[^\W_]+(?:[-_./:'’][^\W_]+)*")
"""A word of a question, for the index: one mark at most joins two parts. At `@`, `+` and `#`, and where several marks
follow each other, the parts are searched by themselves."""

PART_OF_NAME: Final = re.compile(r"[^\W_][\w.+#/-]*[^\W_]|[^\W_]")
"""A word of a name: an apostrophe ends it, so that "Anna" is found in "Anna's"."""

ALPHANUMERIC: Final = re.compile(r"[^\W_]+")
"""A run of letters and digits: the index is split into these, and a purge compares and erases them."""

WORD_CHARACTERS: Final = re.compile(r"\w+")
"""A run with underscores in it, for fingerprints, whose hashes are on disk, and for the names of speakers."""

NUMBER: Final = re.compile(r"\d+(?:[.,:]\d+)*")

CAPITAL: Final = r"[^\W\d_a-zß-öø-ÿ]"
"""A letter that may begin a name: none of the small letters of Latin-1. `re` has no class of capitals, and scripts
without case have none."""

CODE_SPAN: Final = re.compile(r"`[^`]*`")
"""Code within a line of markdown."""


_JOINT = re.compile(r"_+|(?<=[a-z])(?=[A-Z])")


# ---- tokens

_APOSTROPHES = str.maketrans({"’": "'", "‘": "'", "`": "'"})
_CONTRACTION = re.compile(r"'(?:s|m|ve|re|ll|d)$")


def words(text: str) -> list[str]:
    """Return the words of a text in order, lower case, with plain apostrophes."""
    return [match.group().lower() for match in WORD.finditer(text.translate(_APOSTROPHES))]


def without_joints(text: str) -> str:
    """Return a text with its identifiers in parts: `max_stops` and `maxStops` are two words."""
    return _JOINT.sub(" ", text)


def folded_words(text: str) -> list[str]:
    """Return the words of a text for a fingerprint: case, punctuation, spacing and formatting do not count.

    Tombstones have hashes of these on disk, so the result may not change.
    """
    return WORD_CHARACTERS.findall(unicodedata.normalize("NFKC", text).casefold())


def without_possessive(word: str) -> str:
    """Drop the "'s" at the end of a word, with either apostrophe."""
    return word.removesuffix("'s").removesuffix("’s")


def without_contraction(word: str) -> str:
    """Drop a contracted verb or a possessive at the end: "it's", "we'll"; not "n't", which denies."""
    return _CONTRACTION.sub("", word)


# ---- stems

LONGEST_STEMMED = 64
"""Characters; a longer word is a hash or a path, and has no stem."""

REMEMBERED = 50_000
"""Words of each algorithm whose stem is kept; making one is 26 µs."""


@lru_cache(maxsize=REMEMBERED)
def stem(word: str) -> str:
    """Return the Snowball English stem of a lower-case word, its possessive dropped."""
    if len(word) > LONGEST_STEMMED:
        return word
    # A stemmer keeps the word in itself while it works, so threads may not share one; making it is 2 of 26 µs.
    return str(snowballstemmer.stemmer("english").stemWord(without_possessive(word)))


def stems_of(words: Iterable[str]) -> frozenset[str]:
    """Return the stems of words."""
    return frozenset(map(stem, words))


@lru_cache(maxsize=REMEMBERED)
def index_stem(word: str) -> str:
    """Return the Porter stem of a word, which FTS5's `porter` tokenizer gives it in the index.

    As there, words of two letters and of other scripts stay as they are.
    """
    if len(word) <= 2 or not word.isascii():
        return word
    return str(snowballstemmer.stemmer("porter").stemWord(word))


# ---- content words

PLAIN_WORDS = 0.2
"""The share of function words from which a text is plainly of a language: related ones have some words in common."""

ENGLISH_WORDS = 0.1
"""The share of function words from which a text is English: of the turns of the seven labelled people who write English
.72 to .99 reach it, of the fifteen others .02 to .46."""


def content_words(text: str) -> list[str]:
    """Return the words of a text that do not carry grammar alone, in order."""
    return [word for word in words(text) if grammar_words().isdisjoint((word, without_possessive(word)))]


def words_of_turn(text: str) -> list[str]:
    """Return the words of a turn without greetings, assent and the most frequent words, in order.

    Wider than `content_words`: in a short turn ("go on then, staging", "what was there") question words and adverbs
    carry meaning, and which turns are kept was fitted on these. With `content_words` in their place, other facts are
    drawn from the labelled sessions.
    """
    frequent = words_in("function_words") | words_in("grounding.empty") | words_in("grounding.own")
    said = phrases("speech.accept").sub("", phrases("speech.chat").sub("", text))
    return [word for word in words(said) if before_apostrophe(word) not in frequent]


def content_stems(text: str) -> list[str]:
    """Return the stems of the content words, in order."""
    return [stem(word) for word in content_words(text)]


@cache
def grammar_words() -> frozenset[str]:
    """Return the words that carry grammar alone, of every language."""
    return words_in("function_words") | words_in("state.particles")


@cache
def grammar_stems() -> frozenset[str]:
    """Return the stems of the words that carry grammar alone."""
    return stems_of(grammar_words())


def language_of(text: str) -> str:
    """Return the language whose function words are most frequent in a text, English in a tie."""
    said = words(text)
    number = {code: sum(word in _function_words(code) for word in said) for code in languages()}
    return max(number, key=lambda code: (number[code], code == DEFAULT))


def plain_language(text: str) -> str | None:
    """Return the language of which a text has many function words; None where it is plainly of none that has a file."""
    language, said = language_of(text), words(text)
    known = sum(word in _function_words(language) for word in said)
    return language if said and known >= PLAIN_WORDS * len(said) else None


def is_english(text: str) -> bool:
    """Return True where enough of a text's words are function words of English."""
    said = words(text)
    return sum(word in _function_words(DEFAULT) for word in said) >= ENGLISH_WORDS * len(said)


@cache
def _function_words(language: str) -> frozenset[str]:
    return frozenset(entries(language, "function_words"))


# ---- terms of a question


def query_terms(text: str, limit: int = 64) -> list[str]:
    """Return the distinct words of a question in order without question words, or all of them if no other is left."""
    found = list(dict.fromkeys(match.group().lower() for match in TERM.finditer(text)))
    return (without_question_words(found) or found)[:limit]


def without_question_words(terms: Iterable[str]) -> list[str]:
    """Return lower-case words without those that ask: "what", "who's"."""
    asking = words_in("question_words")
    return [word for word in terms if before_apostrophe(word) not in asking]


def term_stems(text: str) -> frozenset[str]:
    """Return the stems of a text's terms."""
    return stems_of(query_terms(text))


def before_apostrophe(word: str) -> str:
    """Return a word up to its first apostrophe, of either kind."""
    return word.replace("’", "'").partition("'")[0]


# ---- names

NAMES_READ_CHARS, MOST_NAMES = 4_000, 32
"""The characters of a long text that are read, and the most names of a text that are kept."""

_NAME_WORD = rf"{CAPITAL}[\w'’+#/-]*\w"
_NAME = re.compile(rf"(?<=[^\W_][ ,(]|[,;)] ){_NAME_WORD}(?: {_NAME_WORD})*")
_OPENING = re.compile(rf"(?:\A|[.!?\n][\W_]{{0,9}})({_NAME_WORD}(?: {_NAME_WORD})*)")
_THING = re.compile(r"`([^`\s]{2,40})`|\b([a-z]+[A-Z]\w+|\w+_\w+|[\w-]{1,80}\.[a-z]{2,4})\b(?!\.\w)")


def names_in(text: str) -> Iterator[str]:
    """Yield the names and identifiers of a text as they are written, without names that open a sentence.

    Any word has a capital there.
    """
    # A name within a sentence: a word, a space or a mark is before its capital.
    for match in _NAME.finditer(text):
        yield from _without(_unnamed(), match.group())
    # An identifier: in backticks, or with a hump, an underscore or a file's ending.
    for code, plain in _THING.findall(text):
        thing = code or plain
        if sum(character.isalnum() for character in thing) > 2 and not (thing.isalpha() and thing.islower()):
            yield thing


def entities_in(text: str) -> tuple[str, ...]:
    """Return the names in a statement, also those that open its sentences, at most MOST_NAMES."""
    text = text[:NAMES_READ_CHARS]
    unnamed = _unnamed() | words_in("question_words")
    opening = (name for match in _OPENING.finditer(text) for name in _without(unnamed, match[1]))
    return tuple(dict.fromkeys((*names_in(text), *opening)))[:MOST_NAMES]


@cache
def _unnamed() -> frozenset[str]:
    """Return the words with a capital that name nothing."""
    return words_in("function_words") | words_in("weekdays") | words_in("months") | {"i"}


def _without(unnamed: Set[str], name: str) -> Iterator[str]:
    """Yield a name without the words in it that name nothing: "The", "Monday", "I"."""
    kept = [word for word in name.split() if before_apostrophe(word.lower()) not in unnamed]
    if any(len(word) > 1 for word in kept):
        yield without_possessive(" ".join(kept))


# ---- the normal form

FILLERS = frozenset(
    "a an the just really very also so quite pretty actually basically simply totally definitely well".split()
)
"""Words that change nothing in the meaning of a text."""

CONTRACTIONS: Final = {
    "can't": "can not", "cannot": "can not", "won't": "will not", "shan't": "shall not",
    "gonna": "going to", "wanna": "want to", "gotta": "got to",
}  # fmt: skip
"""Words whose long form is not their beginning and the long form of their ending."""

CONTRACTED_ENDINGS: Final = {"n't": "not", "'m": "am", "'re": "are", "'ve": "have", "'ll": "will"}
""" "'s" and "'d" are left out: each is one of two words."""

_CONTRACTED = re.compile(rf"({'|'.join(CONTRACTED_ENDINGS)})$")
_SUBJECTS_BEFORE_IS = frozenset(["it", "that", "this", "he", "she", "there", "here", "what", "who", "where", "how"])


def normal_form(text: str) -> tuple[str, ...]:
    """Return the words that another text must share, in their order, to mean the same."""
    return tuple(word for said in words(text) for word in _written_out(said) if word not in FILLERS)


def _written_out(word: str) -> list[str]:
    if word in CONTRACTIONS:
        return CONTRACTIONS[word].split()
    if found := _CONTRACTED.search(word):
        return [word[: found.start()], CONTRACTED_ENDINGS[found[1]]]
    subject, is_contracted, _ = word.partition("'s")
    return [subject, "is"] if is_contracted and subject in _SUBJECTS_BEFORE_IS else [word]
