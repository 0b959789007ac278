"""Sentences side by side: what only points brings what it points to, and a gap has a mark."""

from __future__ import annotations

import pytest
from dreamd.store.text.quotes import leading, leans, quote, with_steps
from dreamd.store.text.sentences import Sentence, joined, split

TURN = "Ute left the shop in May. Since then Tom Berg runs it alone. So he signs the orders. The van is in repair."
LIST = (
    "To change it:\n\n1. write a new one on the laptop\n2. `put it`\n3. tell all of the others\n\nThen rest for a bit."
)


def pieces(text: str, whole_tokens: int = 0) -> list[Sentence]:
    return joined(with_steps(split(text), text, whole_tokens), text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("so he signs", True), ("Er kommt am Montag.", True), ("Ella firma.", True), ("Tom signs so.", False)],
)
def test_a_sentence_leans_that_opens_with_what_was_named_before(text: str, expected: bool) -> None:
    assert leans(text) is expected


def test_a_sentence_that_leans_leads_back_to_one_that_does_not() -> None:
    assert leading(pieces(TURN), 2) == {1: "Since then Tom Berg runs it alone."}
    assert leading(pieces(TURN), 3) == {}
    assert leading(pieces("He left. It was late in May already."), 0) == {}


def test_what_is_left_out_between_two_sentences_has_a_mark() -> None:
    told = pieces(TURN)
    assert quote({0: told[0].text, 3: told[3].text}, told, TURN) == "Ute left the shop in May. … The van is in repair."
    assert quote({1: told[1].text, 2: told[2].text}, told, TURN) == f"{told[1].text} {told[2].text}"
    assert quote({-1: told[2].text}, told, TURN) == told[2].text


def test_a_fact_lies_where_its_sentence_does() -> None:
    told = pieces(TURN)
    assert quote({-1: told[3].text, 0: told[0].text}, told, TURN) == f"{told[0].text} … {told[3].text}"


def test_a_short_list_is_one_and_has_its_numbers() -> None:
    steps, rest = pieces(LIST, 100)
    assert steps.text == ("To change it: 1. write a new one on the laptop 2. `put it` 3. tell all of the others")
    assert rest.text == "Then rest for a bit."
    assert LIST[steps.start : steps.end].endswith("others")


def test_of_a_list_told_in_part_it_is_said_how_much() -> None:
    told = pieces(LIST)
    assert [one.text for one in told[1:3]] == ["2. `put it`", "3. tell all of the others"]
    assert quote({1: told[1].text, 3: told[3].text}, told, LIST) == "2. `put it` (1 of 3 steps) … Then rest for a bit."
    two = quote({0: told[0].text, 2: told[2].text}, told, LIST)
    assert two == f"{told[0].text} … 3. tell all of the others (2 of 3 steps)"
    assert "steps)" not in quote({place: one.text for place, one in enumerate(told)}, told, LIST)


def test_a_number_alone_and_one_that_does_not_follow_are_no_list() -> None:
    assert [one.steps for one in pieces("- one thing that we want\n\n7. another thing that we want")] == [0, 0]
    assert [one.steps for one in pieces("1. the first of all these\n3. the third of all these")] == [0, 0]


def test_a_list_goes_on_after_what_stands_between_its_steps() -> None:
    (told,) = pieces("1. Stop the old timer.\n\nIt may take a while.\n\n2. Start it again.", 100)
    assert told.text == "1. Stop the old timer. It may take a while. 2. Start it again."
