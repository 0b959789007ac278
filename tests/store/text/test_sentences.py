from __future__ import annotations

from itertools import pairwise

import pytest
from dreamd.store.text.sentences import LONGEST_CHARS, sentences_of, split
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
        ("Am 12. Mai fahren wir los. Bis dann!", ["Am 12. Mai fahren wir los.", "Bis dann!"]),
        (
            "Das geht z.B. mit Ansible. Der Rest ist nicht neu.",
            ["Das geht z.B. mit Ansible.", "Der Rest ist nicht neu."],
        ),
        ("La Sra. Vega lo sabe. ¿Y el puerto? Es el 8080.", ["La Sra. Vega lo sabe.", "¿Y el puerto?", "Es el 8080."]),
        ("`a. B` is code. So it stays.", ["`a. B` is code.", "So it stays."]),
        ("元気です。はい", ["元気です。", "はい"]),
        ("It is vX.Y.Z, and sqlite3.OperationalError is raised.", None),
        ("Put #![cfg_attr(not(test), no_std)] and call it.Then it builds.", None),
    ],
)
def test_ends_of_sentences(text: str, expected: list[str] | None) -> None:
    assert texts(text) == (expected or [text])


def test_what_is_said_is_told_in_whole_sentences() -> None:
    text = "# Plan\n\njooq. It generates types from the schema.\n\nSteps:\n- stop it before a copy\n```\ncp\n```\nDone."
    assert sentences_of(text) == [
        "jooq. It generates types from the schema.",
        "Steps: - stop it before a copy … Done.",
    ]
    assert sentences_of("ok") == ["ok"]
    assert sentences_of("# Only a heading") == []


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


def test_a_command_that_a_line_leads_to_is_told_with_it() -> None:
    text = "Once no plan is running, unlock it:\n\n```\nterraform force-unlock 5f2b\n```\n\nThen plan again as usual."
    assert sentences_of(text) == [
        "Once no plan is running, unlock it: ``` terraform force-unlock 5f2b ```",
        "Then plan again as usual.",
    ]
    assert sentences_of(text.replace("unlock it:", "unlock it.")) == [
        "Once no plan is running, unlock it.",
        "Then plan again as usual.",
    ]


def test_steps_within_a_line_stay_with_the_sentence_that_leads_to_them() -> None:
    steps = "Write down how a release leaves this house. 1 run the tests, 2 tag it, 3 tell Ada on the phone."
    assert sentences_of(f"{steps} She likes that a lot.") == [steps, "She likes that a lot."]
    assert len(sentences_of("We had two disks in the old server. 1 of them is gone since March.")) == 2
