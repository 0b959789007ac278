"""A quote is whole sentences of one source: anything less may have lost the reason, a name or a number."""

from __future__ import annotations

import pytest
from dreamd.pipelines.gate.action_checks import is_quote, marked_quotes

PROPOSAL = "I could drop the index. Or keep it and add a cache of 40 entries."
TURN = "Good point!\n\n- We keep plain SQL, because queries must stay readable.\n- Marek owns it from Monday on.\n"


@pytest.mark.parametrize(
    "text",
    [
        "We keep plain SQL, because queries must stay readable.",
        "1. Good point!\n2. Marek owns it from Monday on.",
        "1. Good point! 2. Marek owns it from Monday on.",
        "> Or keep it and add a cache of 40 entries.\n\nWe keep plain SQL, because queries must stay readable.",
    ],
)
def test_whole_sentences_are_a_quote(text: str) -> None:
    assert is_quote(text, [TURN, PROPOSAL])


@pytest.mark.parametrize(
    "text",
    [
        "We keep plain SQL.",
        "owns it from Monday on.",
        "it owns it from Monday on.",
        "Marek owns it from Monday on. Good point!",
        "I could drop the index. Marek owns it from Monday on.",
    ],
    ids=["reason dropped", "name dropped", "name replaced", "out of order", "of two sources"],
)
def test_less_or_other_than_whole_sentences_is_none(text: str) -> None:
    assert not is_quote(text, [TURN, PROPOSAL])


def test_the_quotes_of_a_page_stand_in_marks() -> None:
    page = "## Decided\n\n- 2 Mar 2026, Ines: “No ORM please.” – “ok” [^m1]\n- ~~“Two hours.”~~ (no longer) [^m2]\n"
    assert list(marked_quotes(page)) == ["No ORM please.", "ok", "Two hours."]
