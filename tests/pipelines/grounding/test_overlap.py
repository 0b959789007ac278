"""How much of a text its sources say, in that order."""

from __future__ import annotations

import pytest
from dreamd.pipelines.grounding.verify import invents, overlap

SAID = "We moved the database to Postgres in March, and Ines likes it."


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("The database moved to Postgres", 2 / 3),
        ("They moved the database to Postgres", 1.0),
        ("Postgres database moved", 1 / 3),
        ("A windmill was sold", 0.0),
        ("It is so", 1.0),
    ],
)
def test_words_count_in_their_order(text: str, share: float) -> None:
    assert overlap(text, [SAID]) == pytest.approx(share)


def test_one_source_must_say_it_and_names_are_free() -> None:
    assert overlap("moved windmill", ["moved", "windmill"]) == 0.5
    assert overlap("Ines moved", ["I moved"]) == 0.5
    assert overlap("Ines moved", ["I moved"], "Ines") == 1.0


@pytest.mark.parametrize(
    ("text", "said", "invented"),
    [
        ("She has 3 cats", "I have 3 cats", False),
        ("She has 4 cats", "I have 3 cats", True),
        ("She moved on 4 May 2023", "I moved yesterday", False),
        ("She did not move", "I moved", True),
        ("She didn't move", "I never moved", False),
    ],
)
def test_numbers_and_denials_must_be_said(text: str, said: str, invented: bool) -> None:
    assert invents(text, [said]) is invented
