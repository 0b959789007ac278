"""Exact answers: what a short question asks, and who or what answers it."""

from __future__ import annotations

import pytest
from dreamd.store.search.exact import asked_by


@pytest.mark.parametrize(
    ("question", "who"),
    [
        ("who owns the importer", True),
        ("wer macht jetzt die opnsense?", True),
        ("¿quién lleva el cuadro?", True),
        ("what test runner does web use", False),
    ],
)
def test_a_short_question_asks_for_a_person_or_a_thing(question: str, who: bool) -> None:
    asked = asked_by(question)
    assert asked is not None
    assert asked.who is who


@pytest.mark.parametrize("text", ["a login page", "who?", "who owns " + "x" * 200, ""])
def test_other_texts_ask_nothing_exact(text: str) -> None:
    assert asked_by(text) is None


def test_the_names_of_a_question_are_its_runs_of_words() -> None:
    asked = asked_by("who took over Related Work")
    assert asked is not None
    assert {"related", "related work", "took over related"} <= asked.names
