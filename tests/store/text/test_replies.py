"""Replies: what is written as a reply is read as one, and nothing else is."""

from __future__ import annotations

import pytest
from dreamd.store.text.quotes import read_reply, write_reply


@pytest.mark.parametrize("to", ["Shall we take uv?", "Two ways:\n1. uv\n2. pip"])
@pytest.mark.parametrize("words", ["yes do that", "option 1.\n\nand keep the lock file"])
def test_a_reply_is_read_as_it_was_written(words: str, to: str) -> None:
    assert read_reply(write_reply(words, to)) == (words, to)


@pytest.mark.parametrize(
    "text", ["We take uv.", "First this.\n\nThen that.", "> only a quotation", "> a quotation\n\n"]
)
def test_other_texts_reply_to_nothing(text: str) -> None:
    assert read_reply(text) == (text, "")
