"""Nouns: the words of many texts that name something, found by their place in the sentence, without a grammar.

"The art of it" and "Caroline's art" name something, "brings joy" does not bring a thing called brings.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable

from ...store.text.stems import stem
from ...store.text.vocabulary import MONTHS, WEEKDAYS
from ...store.text.word_lists import lexicon

LEAST_TIMES = 2
LEAST_SHARE = 0.4
"""Of a word's places: as many are a noun's, and it is one. Objects without an article look like nothing."""

_BEFORE = frozenset(
    "the a an my your her his its our their this that these those some any no every each more most"
    " of for in at with about on from into by".split()
)
_IMAGE = re.compile(r"\[(?:image[^\]]*|\^[tm]\d+)\]")
_TOKEN = re.compile(r"[^\W\d_][\w]*(?:[.'’_+#/@-]\w+)*|[^\w\s]")
_SHAPE = re.compile(r"[^\W_][\w'+#/@.-]{2,}")
UNFIT_FOR_TITLES = lexicon("unfit_for_titles") | {name.lower() for name in (*MONTHS, *WEEKDAYS)}
"""Words that no page is named after."""

_SENTENCE_ENDS = frozenset('.!?:-–—"“(')


def nouns_of(texts: Iterable[str]) -> dict[str, str]:
    """Map the stems of the nouns and names in some texts to their commonest spelling."""
    times: Counter[str] = Counter()
    named: Counter[str] = Counter()
    shapes: dict[str, Counter[str]] = defaultdict(Counter)
    for text in texts:
        for word, is_named in _words(text):
            root = stem(word.lower())
            times[root] += 1
            named[root] += is_named
            shapes[root][word.removesuffix("'s")] += 1
    return {
        root: min(shapes[root], key=lambda shape: (-shapes[root][shape], shape))
        for root, number in times.items()
        if named[root] >= LEAST_TIMES and named[root] >= LEAST_SHARE * number
    }


def stems_in(text: str, nouns: Iterable[str]) -> set[str]:
    """Return those of the nouns that a text contains."""
    return {stem(word.lower()) for word, _ in _words(text)} & set(nouns)


def _words(text: str) -> Iterable[tuple[str, bool]]:
    """Yield the words that could be nouns; True for one in the place of a noun."""
    unfit = lexicon("stop_words") | lexicon("light_words") | UNFIT_FOR_TITLES
    tokens = _TOKEN.findall(_IMAGE.sub(" ", text).replace("’", "'"))
    for place, token in enumerate(tokens):
        bare = token.lower().removesuffix("'s")
        if bare in unfit or not _SHAPE.fullmatch(bare) or "'" in bare:
            continue
        before = tokens[place - 1] if place else "."
        after = tokens[place + 1] if place + 1 < len(tokens) else "."
        is_name = token[0].isupper() and before not in _SENTENCE_ENDS
        follows = before.lower() in _BEFORE or before.endswith("'s")
        ends = not after[0].isalnum() or after.lower() in lexicon("stop_words")
        yield token, is_name or (follows and ends)
