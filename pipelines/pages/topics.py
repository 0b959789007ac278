"""Topics: a title for a group of texts, in a few of its own words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from math import log

from ...store.text.stems import stem
from ...store.text.word_lists import lexicon
from ..language.content import content_words, salient_words
from ..language.nouns import UNFIT_FOR_TITLES

_NAME = re.compile(r"\b[A-Z][a-z]{2,}\b")
_COMMON_SHARE = 0.5  # a name in half of a group's texts is what they are about
_TERMS = 3
_WITHIN = re.compile(r"(?<=[a-z,;] )[A-Z][\w-]+")  # a capital that begins no sentence
_UNFIT = re.compile(r"^[\d.,:]+$|'(?!s$)")


class Vocabulary:
    """The document frequency of every stem in a channel."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._documents = 0
        self._counts: Counter[str] = Counter()
        for text in texts:
            self._documents += 1
            self._counts.update({stem(word) for word in content_words(text)})

    def rarity(self, of: str) -> float:
        """Return the inverse document frequency of a stem."""
        return log((1 + self._documents) / (1 + self._counts[of]))


def title_of(texts: Sequence[str], vocabulary: Vocabulary) -> str:
    """Build a title, as `Caroline: adoption, agencies, children`: the most shared name, and the most salient words."""
    name = _shared_name(texts)
    terms = _terms(texts, vocabulary, name)
    if not terms:
        return name or "Miscellany"
    listed = ", ".join(terms)
    return f"{name}: {listed}" if name else listed[:1].upper() + listed[1:]


def _shared_name(texts: Sequence[str]) -> str:
    counts = Counter(name for text in texts for name in set(_NAME.findall(text)) - _sentence_starts(text))
    for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if count >= _COMMON_SHARE * len(texts) and name.lower() not in UNFIT_FOR_TITLES:
            return str(name)
    return ""


def _sentence_starts(text: str) -> set[str]:
    """Return the capitalised words that are common words in lower case."""
    common = lexicon("stop_words") | lexicon("light_words")
    return {word for word in _NAME.findall(text) if word.lower() in common}


def _terms(texts: Sequence[str], vocabulary: Vocabulary, name: str) -> list[str]:
    counts: Counter[str] = Counter()
    shapes: dict[str, Counter[str]] = {}
    for text in texts:
        original = {match.group().lower(): match.group() for match in _WITHIN.finditer(text)}
        for word in sorted(set(salient_words(text))):
            if _is_telling(word, name):
                counts[stem(word)] += 1
                shapes.setdefault(stem(word), Counter())[original.get(word, word).removesuffix("'s")] += 1
    by_weight = sorted(counts, key=lambda root: (-counts[root] * vocabulary.rarity(root), root))
    telling = [root for root in by_weight if counts[root] > 1] or by_weight
    return [_commonest(shapes[root]) for root in telling[:_TERMS]]


def _is_telling(word: str, name: str) -> bool:
    bare = word.removesuffix("'s")
    return len(bare) > 2 and bare not in UNFIT_FOR_TITLES and bare != name.lower() and not _UNFIT.search(word)


def _commonest(shapes: Counter[str]) -> str:
    return min(shapes, key=lambda shape: (-shapes[shape], shape))
