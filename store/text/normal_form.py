"""Normal form: the words that two texts must share, in their order, to say the same.

Embeddings cannot tell "purple" from "cyan" (cosine .96). Here a number, a name, a date, a negation, a colour, a tense
or who did it to whom always differs; articles, fillers, contractions and punctuation do not.
"""

from __future__ import annotations

import re
import unicodedata

from .vocabulary import CONTRACTED_ENDINGS, CONTRACTIONS

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
