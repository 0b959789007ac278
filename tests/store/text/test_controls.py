"""What commands a terminal, at the store's door and on pages that are made of what came in."""

from __future__ import annotations

import re
import unicodedata

import pytest
from dreamd.store.text.fence import plain, without_controls
from hypothesis import given
from hypothesis import strategies as st

EVIL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a\x1b[2Jb\x1b[1;31mc", "abc"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]never closed", "]never closed"),
        ("bell\x07 nul\x00 c1\x9b31m del\x7f", "bell nul c131m del"),
        ("lines\r\nand\rreturns\tand\ttabs\n", "lines\nand\nreturns\tand\ttabs\n"),
        ("Über 🐘 \u200dשלום", "Über 🐘 \u200dשלום"),
        ("half \ud83d", "half \ufffd"),
    ],
)
def test_text_without_controls(text: str, kept: str) -> None:
    assert without_controls(text) == kept


# Default_Ignorable_Code_Point of Unicode 16, but for the joiners and the two selectors that emoji need.
IGNORABLE = [
    *(0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x200B, 0x200E, 0x200F),
    *(*range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x3164, *range(0xFE00, 0xFE0E), 0xFEFF, 0xFFA0),
    *(*range(0xFFF0, 0xFFF9), *range(0x1BCA0, 0x1BCA4), *range(0x1D173, 0x1D17B), *range(0xE0000, 0xE1000)),
]


def test_what_does_not_show_is_dropped() -> None:
    hidden = "".join(map(chr, IGNORABLE)) + "\u2800\u2028\ufffb"
    assert plain(f"a{hidden}b") == "ab"
    assert plain(f"👩{hidden}می") == "👩می"


@pytest.mark.parametrize(
    "text", ["a\u200db", "a\ufe0fb", "a\u200d\u200d", "👩\u200d", "\u200d👩", "م\u200c\u200cخ", "1\ufe0f"]
)
def test_a_joiner_stays_only_where_it_joins(text: str) -> None:
    assert not set(plain(text)) & set("\u200c\u200d\ufe0f")


@given(st.text(st.characters(codec=None) | st.sampled_from("\x1b[]\x07\x9b\\;m\r\n\u202e"), max_size=200))
def test_nothing_that_commands_is_left_and_again_changes_nothing(text: str) -> None:
    kept = without_controls(text)
    assert not EVIL.search(kept)
    assert without_controls(kept) == kept
    assert not [
        mark
        for mark in plain(text)
        if unicodedata.bidirectional(mark) in {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    ]
    kept.encode()
