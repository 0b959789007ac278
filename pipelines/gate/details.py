"""Details: the parts of a text that a shorter one must keep: its names, its numbers and dates, its reasons."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import cache, lru_cache

from ...store.text.languages import entries, languages, phrases
from ...store.text.sentences import sentences_of
from ...store.text.words import WORD, grammar_stems, stem, stems_of

Detail = frozenset[str]
"""The stems that belong together: one of a name, a number or a date's part, several of a reason."""

REASON_SHARE = 0.7
"""A reason is kept where this share of its words is; a name or a number has one word."""

FEWEST_OF_REASON = 2
"""A reason of fewer words ("that is why") lies in the rest of its sentence."""

BROUGHT_AT_LEAST = 2
"""Words that make a newer text more than a shorter form of the older: "gone" alone may not, "none any more" does."""

_ISO_DATE = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})(?=T|\b)")
_DOTTED_DATE = re.compile(r"\b(\d{1,2})\.(\d{1,2})\.(\d{4})\b")
_OPENS = frozenset(".!?:…\"'“„»*-") | {""}
"""The characters before a word that opens a sentence, a line or a quote: its capital says nothing."""
_IDENTIFIER = re.compile(r"\d|\w[._/@+#:]\w|[a-z][A-Z]|^[A-Z]{2,}$")


@lru_cache(maxsize=8192)
def details_of(text: str, names: frozenset[str] = frozenset()) -> frozenset[Detail]:
    """Return the details of a text. A capital that opens a sentence makes a name only of the words in `names`."""
    found = set[Detail]()
    # Sentence by sentence, since a capital says nothing at the beginning of one.
    for sentence in sentences_of(text) or [text]:
        line = _with_plain_dates(sentence)
        for word, opens in _words(line):
            is_name = len(word) > 1 and word[0].isupper() and (not opens or word.lower() in names)
            if is_name or _IDENTIFIER.search(word):
                found.add(frozenset([stem(word.lower())]))
        found |= set(_reasons(line))
    return frozenset(detail for detail in found if detail - grammar_stems())


def told(details: Collection[Detail], text: str) -> frozenset[Detail]:
    """Return the details that a text keeps."""
    said = said_in(text)
    return frozenset(one for one in details if len(one & said) >= (REASON_SHARE if len(one) > 1 else 1.0) * len(one))


@lru_cache(maxsize=8192)
def said_in(text: str) -> frozenset[str]:
    """Return the stems of all words of a text, of a date those of its parts."""
    return stems_of(word.lower() for word in WORD.findall(_with_plain_dates(text)))


def content_of(text: str) -> frozenset[str]:
    """Return the stems of a text's words that do not carry grammar alone."""
    return said_in(text) - grammar_stems()


def says_less(newer: str, older: str) -> bool:
    """Return True if a text leaves out a detail of an older one and brings no other, nor two words."""
    lost = details_of(older) - told(details_of(older), newer)
    brought = content_of(newer) - content_of(older)
    return bool(lost) and len(brought) < BROUGHT_AT_LEAST and not told(details_of(newer), " ".join(brought))


def written_as_names(texts: Iterable[str]) -> frozenset[str]:
    """Return the words that these texts write with a capital within a sentence, and no less often than without one."""
    capital, small = Counter[str](), Counter[str]()
    for text in texts:
        for word, opens in _words(text):
            if word[0].islower():
                small[word] += 1
            elif not opens:
                capital[word.lower()] += 1
    return frozenset(word for word, times in capital.items() if times >= small[word] and len(word) > 1)


def _words(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the words of a text without contracted endings, each with True if it opens a sentence."""
    for match in WORD.finditer(text.replace("’", "'")):
        yield match.group().partition("'")[0], text[: match.start()].rstrip()[-1:] in _OPENS


def _reasons(line: str) -> Iterator[Detail]:
    for match in phrases("worth.reason").finditer(line):
        reason = content_of(line[match.start() :]) - content_of(match.group())
        yield reason if len(reason) >= FEWEST_OF_REASON else content_of(line)


def _with_plain_dates(text: str) -> str:
    """Write each date as its day, a word for its month, and its year, however it was written."""
    # "2026-05-03", "3.5.2026" and "3 May 2026" are one date, so all become its parts.
    text = _ISO_DATE.sub(lambda match: f"{int(match[3])} month{int(match[2])} {match[1]}", text)
    text = _DOTTED_DATE.sub(lambda match: f"{int(match[1])} month{int(match[2])} {match[3]}", text)
    pattern, months = _dates()
    return pattern.sub(lambda match: f"{int(match[1] or match[4])} month{months[(match[2] or match[3]).lower()]}", text)


@cache
def _dates() -> tuple[re.Pattern[str], dict[str, int]]:
    """Return a pattern of a day beside the name of its month, in any language, and the months' numbers."""
    named = {
        name: number
        for language in languages()
        for number, month in enumerate(entries(language, "months"), start=1)
        for name in (month, month[:3])
    }
    month = "|".join(sorted(named, key=len, reverse=True))
    day = r"(\d{1,2})(?:st|nd|rd|th|\.)?"
    return re.compile(rf"\b{day}\s+(?:of |de )?({month})\b\.?|\b({month})\.?\s+{day}\b", re.IGNORECASE), named
