"""Details: the names, numbers, dates and reasons of a text, none of which an envelope may lose by a dream."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import cache, lru_cache

from ...store.text.languages import entries, languages, phrases
from ...store.text.sentences import sentences_of
from ...store.text.words import WORD, grammar_stems, stem, stems_of

Detail = frozenset[str]
"""The stems of one detail: one for a name, a number or a part of a date, several for a reason."""

# The share of a reason's words that a text must contain; a name or a number has one word.
REASON_SHARE = 0.7

# After a reason of fewer words ("that is why") the whole sentence is taken as the reason.
FEWEST_OF_REASON = 2

# New words from which a newer text is more than a shorter form of the older: "gone" may be one, "none any more" is.
BROUGHT_AT_LEAST = 2

_ISO_DATE = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})(?=T|\b)")
_DOTTED_DATE = re.compile(r"\b(\d{1,2})\.(\d{1,2})\.(\d{4})\b")

# The characters before the first word of a sentence, a line or a quote, whose capital is no sign of a name.
_OPENS = frozenset(".!?:…\"'“„»*-") | {""}
_IDENTIFIER = re.compile(r"\d|\w[._/@+#:]\w|[a-z][A-Z]|^[A-Z]{2,}$")


@lru_cache(maxsize=8192)
def details_of(text: str, names: frozenset[str] = frozenset()) -> frozenset[Detail]:
    """Return the details of a text. The first word of a sentence is a name only if it is in `names`."""
    found = set[Detail]()
    for sentence in sentences_of(text) or [text]:
        line = _with_plain_dates(sentence)
        for word, opens in _words(line):
            is_name = len(word) > 1 and word[0].isupper() and (not opens or word.lower() in names)
            if is_name or _IDENTIFIER.search(word):
                found.add(frozenset([stem(word.lower())]))
        found |= set(_reasons(line))
    # "I" and other function words are capitalised too.
    return frozenset(detail for detail in found if detail - grammar_stems())


def contained(details: Collection[Detail], text: str) -> frozenset[Detail]:
    """Return the details that a text contains."""
    said = stems_in(text)
    return frozenset(one for one in details if len(one & said) >= (REASON_SHARE if len(one) > 1 else 1.0) * len(one))


@lru_cache(maxsize=8192)
def stems_in(text: str) -> frozenset[str]:
    """Return the stems of all words of a text; a date yields its parts."""
    return stems_of(word.lower() for word in WORD.findall(_with_plain_dates(text)))


def content_of(text: str) -> frozenset[str]:
    """Return the stems of the content words of a text."""
    return stems_in(text) - grammar_stems()


def only_shortens(newer: str, older: str) -> bool:
    """Return True if a text lacks a detail of an older one and adds neither another detail nor two words."""
    # "The limit is 20 a day for guests" -> "The limit is gone" loses 20 and guests, and brings one word.
    lost = details_of(older) - contained(details_of(older), newer)
    brought = content_of(newer) - content_of(older)
    return bool(lost) and len(brought) < BROUGHT_AT_LEAST and not contained(details_of(newer), " ".join(brought))


def written_as_names(texts: Iterable[str]) -> frozenset[str]:
    """Return the words that are capitalised within sentences at least as often as not."""
    capital, small = Counter[str](), Counter[str]()
    for text in texts:
        for word, opens in _words(text):
            if word[0].islower():
                small[word] += 1
            elif not opens:
                capital[word.lower()] += 1
    return frozenset(word for word, times in capital.items() if times >= small[word] and len(word) > 1)


def _words(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the words of a text without contracted endings, and True for the first of a sentence."""
    for match in WORD.finditer(text.replace("’", "'")):
        yield match.group().partition("'")[0], text[: match.start()].rstrip()[-1:] in _OPENS


def _reasons(line: str) -> Iterator[Detail]:
    for match in phrases("worth.reason").finditer(line):
        reason = content_of(line[match.start() :]) - content_of(match.group())
        yield reason if len(reason) >= FEWEST_OF_REASON else content_of(line)


def _with_plain_dates(text: str) -> str:
    """Normalise each date to its day, `month5` for May, and its year."""
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
