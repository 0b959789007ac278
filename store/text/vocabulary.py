"""Vocabulary: English words that mean a month, a day, a number, a denial, or two words in one."""

from __future__ import annotations

import re
from typing import Final

from .word_lists import lexicon

MONTHS: Final = tuple("January February March April May June July August September October November December".split())
WEEKDAYS: Final = tuple("Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split())
SHORT_MONTHS: Final = tuple(month[:3] for month in MONTHS)

MONTH_NUMBERS: Final = {name.lower(): number for number, name in enumerate(MONTHS, start=1)}
"""The lower-case name of a month to its number, 1 to 12."""

NUMBER_WORDS: Final = {
    word: number
    for number, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen twenty".split()
    )
}
LARGE_NUMBER_WORDS: Final = {"thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "hundred": 100, "thousand": 1000}
"""Apart from the others: as a part of a longer number ("two hundred") they are no value by themselves."""

CONTRACTIONS: Final = {
    "can't": "can not", "cannot": "can not", "won't": "will not", "shan't": "shall not",
    "gonna": "going to", "wanna": "want to", "gotta": "got to",
}  # fmt: skip
"""Words whose long form is not their beginning and the long form of their ending."""

CONTRACTED_ENDINGS: Final = {"n't": "not", "'m": "am", "'re": "are", "'ve": "have", "'ll": "will"}
""" "'s" and "'d" are left out: each is one of two words."""

INFORMAL_CONTRACTIONS: Final = {
    "ain't": "is not", "'cause": "because", "cuz": "because", "im": "i am", "ive": "i have",
    "dont": "do not", "didnt": "did not", "doesnt": "does not", "cant": "can not", "wont": "will not", "isnt": "is not",
}  # fmt: skip
"""Hasty spellings: for comparing a claim with its source, not for telling two statements apart."""

PRONOUN_CONTRACTIONS: Final = {
    "i'm": "i am", "im": "i am", "i've": "i have", "ive": "i have", "i'll": "i will", "i'd": "i 'd",
    "you're": "you are", "you've": "you have", "you'll": "you will", "you'd": "you 'd",
    "ya": "you", "u": "you", "ur": "your", "we're": "we are", "we've": "we have", "we'll": "we will", "we'd": "we 'd",
}  # fmt: skip
"""A pronoun of the conversation and its verb, for what puts a name in its place; the next word decides "'d"."""

NEGATION: Final = re.compile(rf"\b(?:{'|'.join(sorted(lexicon('negations')))})\b|n['’]t\b", re.IGNORECASE)
"""A word that denies, or the ending of one."""

NEGATING_WORDS: Final = lexicon("negations") | lexicon("near_negations")
"""Words that deny, wholly or in part."""
