"""Vocabulary: English words that mean a month, or two words in one."""

from __future__ import annotations

from typing import Final

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
