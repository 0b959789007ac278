"""Sequences: the windows of a turn, in its place."""

from __future__ import annotations

from itertools import pairwise

from dreamd.store.judges.judge import CLS, SEP, WINDOW_TOKENS, WINDOWS_MOST, Mark, of_turn
from hypothesis import given
from hypothesis import strategies as st

WORDS = st.lists(st.sampled_from(["port", "Zoë", "läuft", "5432", "`make`", "。", "\n", "日本"]), max_size=900)


@given(WORDS, st.sampled_from(["user", "assistant"]))
def test_windows_overlap_and_their_places_are_those_of_the_text(words: list[str], role: str) -> None:
    text = " ".join(words)
    windows = of_turn(role, text, "before " * 80, "after " * 80)
    assert 1 <= len(windows) <= WINDOWS_MOST
    for window in windows:
        assert len(window.spans) <= WINDOW_TOKENS
        assert window.first + len(window.spans) < len(window.ids)
        assert all(0 <= start <= end <= len(text) for start, end in window.spans)
    for one, following in pairwise(windows[:-1]):
        assert following.spans[0][0] < one.spans[-1][1]


def test_the_end_of_a_turn_that_is_too_long_is_read() -> None:
    text = "filler " * 3000 + "the port is 5432"
    *_, last = of_turn("user", text, "", "")
    assert text[last.spans[-1][0] : last.spans[-1][1]].endswith("2")
    assert last.spans[-1][1] == len(text)


def test_each_part_begins_with_whose_words_it_is() -> None:
    (window,) = of_turn("assistant", "Done.", "please do", "thanks")
    assert window.ids[:2] == (CLS, Mark.USER)
    assert window.ids[window.first - 2 : window.first] == (SEP, Mark.ASSISTANT)
    assert window.ids.count(Mark.USER) == 2
    (window,) = of_turn("user", "please do", "Shall I?", "Done.")
    assert window.ids.count(Mark.ASSISTANT) == 1, "what an assistant answers says nothing of its person's words"
