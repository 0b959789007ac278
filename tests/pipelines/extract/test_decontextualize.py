from __future__ import annotations

import re
from datetime import date

import pytest
from dreamd.pipelines.extract.decontextualize import ASSISTANT, USER, Participants, decontextualize
from dreamd.pipelines.language.inflection import third_person
from hypothesis import given
from hypothesis import strategies as st

PEOPLE = Participants("Caroline", "Melanie")
SESSION = Participants(USER, ASSISTANT, people=False)
DAY = date(2023, 7, 15)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("I am happy.", "Caroline is happy."),
        ("I've been to Sweden and I don't like it.", "Caroline has been to Sweden and Caroline doesn't like it."),
        ("I'd love to go, I'd been there.", "Caroline would love to go, Caroline had been there."),
        ("I really love hiking.", "Caroline really loves hiking."),
        ("I run and cook daily.", "Caroline runs and cooks daily."),
        ("I put it there.", "Caroline put it there."),
        ("I never eat meat.", "Caroline never eats meat."),
        ("My kids and I love hiking.", "Caroline's kids and Caroline love hiking."),
        ("You told me you have a dog.", "Melanie told Caroline Melanie has a dog."),
        ("I'm proud of you for taking part.", "Caroline is proud of Melanie for taking part."),
        ("It must've taken you ages.", "It must've taken Melanie ages."),
        ("They are lucky to have you!", "They are lucky to have Melanie!"),
        ("It makes you realize a lot.", "It makes you realize a lot."),
        ("We went camping last month.", "Caroline and others went camping in June 2023."),
        ("Have you seen my dog?", "Has Melanie seen Caroline's dog?"),
        ('She said "I love you" last Friday.', 'She said "I love you" the Friday before 15 July 2023.'),
        ("Do I look ok?", "Does Caroline look ok?"),
        ("That mug is mine.", "That mug is Caroline's."),
        ("I’m off to see my mom.", "Caroline is off to see Caroline's mom."),
        ("I try it and carry on.", "Caroline tries it and carry on."),
    ],
)
def test_people(said: str, told: str) -> None:
    assert decontextualize(said, PEOPLE, DAY) == told


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("I'm on ESLint v8.39, and `I am` stays.", "The user is on ESLint v8.39, and `I am` stays."),
        ("I prefer tabs.", "The user prefers tabs."),
        ("my API key", "The user's API key"),
        ("We deploy on Fridays.", "We deploy on Fridays."),
        ("You suggested Redis.", "The assistant suggested Redis."),
    ],
)
def test_a_session_with_an_assistant(said: str, told: str) -> None:
    assert decontextualize(said, SESSION, DAY) == told


def test_names_that_end_in_s() -> None:
    assert decontextualize("my dog", Participants("James"), None) == "James' dog"


@pytest.mark.parametrize(
    ("verb", "form"),
    [("go", "goes"), ("try", "tries"), ("play", "plays"), ("watch", "watches"), ("don't", "doesn't"), ("went", "went")],
)
def test_inflection(verb: str, form: str) -> None:
    assert third_person(verb) == form


words = st.sampled_from(
    [
        "I",
        "you",
        "my",
        "me",
        "not",
        "never",
        "don't",
        "didn't",
        "no",
        "42",
        "3.14",
        "v2.0",
        "Sweden",
        "Anna",
        "didn't",
        "can't",
        "we",
        "your",
        "blue",
        "runs",
        "the",
        "a",
    ]
)


@given(st.lists(words, min_size=1, max_size=14))
def test_numbers_names_and_negations_survive(said: list[str]) -> None:
    text = " ".join(said)
    for participants in (PEOPLE, SESSION):
        told = decontextualize(text, participants, None)
        for number in re.findall(r"\d[\d.]*", text):
            assert number in told
        for word in ("Sweden", "Anna", "blue"):
            assert told.lower().count(word.lower()) == text.lower().count(word.lower())
        assert _negations(told) == _negations(text)


def _negations(text: str) -> int:
    return len(re.findall(r"n't\b|\b(?:not|never|no)\b", text, re.IGNORECASE))


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("I'm sure I've told my team.", "The user is sure they have told their team."),
        ("I think I was late, or was I?", "The user thinks they were late, or were they?"),
        ("My kids and I went, then I slept.", "The user's kids and the user went, then they slept."),
        ("I know they left before I came.", "The user knows they left before the user came."),
        ("I'd say I'd been there and I'd go.", "The user would say they had been there and they would go."),
    ],
)
def test_a_user_named_once_is_they_where_nobody_else_is(said: str, told: str) -> None:
    assert decontextualize(said, SESSION, None) == told
