from __future__ import annotations

from itertools import pairwise

import pytest
from dreamd.pipelines.language.sentences import LONGEST_CHARS, split
from hypothesis import given
from hypothesis import strategies as st


def texts(text: str) -> list[str]:
    return [sentence.text for sentence in split(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I met Dr. Smith. We talked.", ["I met Dr. Smith.", "We talked."]),
        ("It costs 3.50 euros. Really!", ["It costs 3.50 euros.", "Really!"]),
        ("Run app.py first. Then e.g. pytest.", ["Run app.py first.", "Then e.g. pytest."]),
        ("See https://a.b/c.d?e=f. It helps.", ["See https://a.b/c.d?e=f.", "It helps."]),
        ("J.K. Rowling wrote it. I read it.", ["J.K. Rowling wrote it.", "I read it."]),
        ("Wow! that is great... and more.", ["Wow!", "that is great... and more."]),
        ("5C3 is 5! / (3! × 2!) = 10, right?", ["5C3 is 5! / (3! × 2!) = 10, right?"]),
        ("A success 👍 Next one", ["A success 👍", "Next one"]),
        ("`a. B` is code. So it stays.", ["`a. B` is code.", "So it stays."]),
        ("元気です。はい", ["元気です。", "はい"]),
    ],
)
def test_ends_of_sentences(text: str, expected: list[str]) -> None:
    assert texts(text) == expected


def test_markdown_is_read_as_markdown() -> None:
    text = "# Title\n\nOne. Two.\n- item a\n  1. item b\n> quoted\n```py\ncode. Here\n```\n| a | b |\n|---|---|\nend"
    found = split(text)
    assert [(sentence.text, sentence.shape) for sentence in found] == [
        ("Title", "heading"),
        ("One.", "prose"),
        ("Two.", "prose"),
        ("item a", "item"),
        ("item b", "item"),
        ("quoted", "prose"),
        ("| a | b |", "row"),
        ("end", "prose"),
    ]


def test_a_wrapped_line_goes_on_and_a_short_one_ends() -> None:
    wrapped = "This sentence was wrapped at a width of some seventy characters by an\neditor. Done"
    assert texts(wrapped) == [wrapped[:-5], "Done"]
    assert texts("Short line\nAnother") == ["Short line", "Another"]


def test_an_unclosed_fence_hides_the_rest() -> None:
    assert texts("Before.\n```\ncode\nmore code.") == ["Before."]


def test_what_runs_on_is_cut_after_a_comma() -> None:
    text = ", and then ".join(f"we drove {n} miles along the coast" for n in range(60))
    found = split(text)
    assert len(found) > 1
    assert all(len(sentence.text) <= LONGEST_CHARS for sentence in found)
    assert all(sentence.text.endswith(",") for sentence in found[:-1])
    assert " ".join(sentence.text for sentence in found) == text


def test_what_has_no_comma_and_no_space_is_cut_too() -> None:
    assert "".join(sentence.text for sentence in split("x" * 2000)) == "x" * 2000


@given(st.text(alphabet=st.sampled_from("aB1 .!?\n-#`|>*👍。'\"("), max_size=120))
def test_offsets_cut_the_text_itself(text: str) -> None:
    found = split(text)
    assert all(text[sentence.start : sentence.end] == sentence.text for sentence in found)
    assert all(a.end <= b.start for a, b in pairwise(found))
