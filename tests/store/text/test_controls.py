"""What commands a terminal, at the store's door and on pages that are made of what came in."""

from __future__ import annotations

import re
import unicodedata

import pytest
from dreamd.store.text.controls import plain, without_controls
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
