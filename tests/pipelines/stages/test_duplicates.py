from __future__ import annotations

from itertools import product

import pytest
from dreamd.pipelines.stages.consolidate import KnownStatements
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Bob likes the red car.", "Bob really likes the red car!"),
        ("It's a fact that Ann doesn't smoke.", "It is a fact that Ann does not smoke"),
        ("The user prefers TABS", "the user prefers tabs."),
    ],
)
def test_the_same_said_twice(a: str, b: str) -> None:
    assert KnownStatements([("1", a)]).same_as(b) == "1"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Ann's favourite colour is purple.", "Ann's favourite colour is cyan."),
        ("Bob gave Alice the book.", "Alice gave Bob the book."),
        ("Ann likes tea.", "Ann doesn't like tea."),
        ("Ann is single.", "Ann was single."),
        ("Ann works at ACME.", "Ann worked at ACME."),
        ("The port is 8080.", "The port is 8081."),
        ("The meeting is on 7 May 2023.", "The meeting is on 8 May 2023."),
        ("The meeting is at 3 pm.", "The meeting is at 3 am."),
        ("Ann moved to Oslo.", "Ann moved from Oslo."),
        ("Ann turned the alarm on.", "Ann turned the alarm off."),
        ("Only Ann came.", "Ann came."),
        ("Ann has a dog.", "Ann has dogs."),
        ("The build never fails.", "The build always fails."),
        ("Use Python 3.11.", "Use Python 3.12."),
        ("His sister called.", "Her sister called."),
        ("It can fail.", "It cannot fail."),
        ("Ann may come.", "Ann will come."),
        ("The test needs no network.", "The test needs network."),
        ("Ann bought two apples.", "Ann bought three apples."),
        ("Deploy before the backup.", "Deploy after the backup."),
    ],
)
def test_near_misses_are_kept_apart(a: str, b: str) -> None:
    assert KnownStatements([("1", a)]).same_as(b) is None


CHANGES = {
    "who": ["Ann", "Bob", "Caroline", "the user"],
    "does": ["likes", "hates", "does not like", "never liked"],
    "colour": ["purple", "cyan", "dark red", "light red"],
    "what": ["cars", "car doors", "boats"],
    "when": ["since 2021", "since 2022", "until 2022", "before May"],
}


@given(st.tuples(*(st.sampled_from(values) for values in CHANGES.values())), st.data())
def test_any_one_change_keeps_apart(picked: tuple[str, ...], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(picked) - 1))
    other = data.draw(st.sampled_from([value for value in list(CHANGES.values())[place] if value != picked[place]]))
    changed = (*picked[:place], other, *picked[place + 1 :])
    assert KnownStatements([("1", " ".join(picked))]).same_as(" ".join(changed)) is None


def test_a_thousand_statements_that_differ_stay_as_many() -> None:
    statements = [" ".join(picked) for picked in product(*CHANGES.values())]
    known = KnownStatements()
    for number, text in enumerate(statements):
        assert known.same_as(text) is None
        known.add(str(number), text)
    assert len(statements) > 700
    assert known.same_as(f"{statements[5]}!") == "5"
