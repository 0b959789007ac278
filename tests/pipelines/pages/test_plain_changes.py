"""Changes: only what a person sees at once is shown, and of it the sentences that show it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from dreamd.pipelines.pages.current_facts import is_plain_change, shortened_to_change, with_plain_successors
from dreamd.store.text.quotes import write_reply
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.pipelines.pages.said import said
from tests.told import TEXTS, strays

SQLITE = said(write_reply("We take SQLite. One file, one shop, and the backup is a copy.", "Which database?"), "s1#1")
POSTGRES = said("Ok, decision: we move from SQLite to Postgres. The shop in Braga writes too.", "s5#1")


def test_what_is_said_to_have_ended_is_plain() -> None:
    assert is_plain_change(SQLITE, POSTGRES)


def test_another_value_of_what_both_name_is_plain() -> None:
    older = said("Emil says opening is 16 November.", "s1#1")
    assert is_plain_change(older, said("A week earlier after all, so 9 November, the hall opens on the 10th.", "s5#1"))


@pytest.mark.parametrize(
    "newer",
    [
        said("The backup runs every night now, and nobody restored one yet.", "s5#1"),
        said("The mast is replaced.", "s5#1"),
        replace(POSTGRES, said_by="assistant"),
    ],
)
def test_another_sign_of_a_change_or_an_assistants_word_is_not(newer: object) -> None:
    assert not is_plain_change(SQLITE, newer)  # type: ignore[arg-type]


def test_only_plain_successors_stay_beside_a_fact() -> None:
    other = said("The backup runs every night now.", "s5#2")
    older = replace(SQLITE, later=(POSTGRES.node_id, other.node_id, "elsewhere"))
    assert [fact.later for fact in with_plain_successors([older, POSTGRES, other])] == [(POSTGRES.node_id,), (), ()]


def test_a_short_statement_is_told_whole_and_a_long_one_from_its_change_on() -> None:
    older, newer = shortened_to_change(SQLITE, POSTGRES)
    assert older.text == "We take SQLite. One file, one shop, and the backup is a copy."
    assert newer.text == POSTGRES.text
    long = said(f"{'Tea at five. ' * 12} {POSTGRES.text} {'Tea at five. ' * 12}", "s5#1")
    told = shortened_to_change(SQLITE, long)[1].text
    assert told.startswith("Ok, decision: we move from SQLite to Postgres. The shop in Braga writes too. Tea")
    assert told.endswith(".")
    assert len(told) <= 200
    assert shortened_to_change(SQLITE, said("Tea at five.", "s5#3")) == (SQLITE, said("Tea at five.", "s5#3"))


@given(TEXTS, st.sampled_from(["It is now Redis.", "We no longer use Postgres 16."]))
@settings(max_examples=examples(100), deadline=None)
def test_two_statements_side_by_side_are_pieces_of_what_was_said(text: str, change: str) -> None:
    older, newer = shortened_to_change(said(text or "-"), said(f"{text}. {change}", "s5#1"))
    assert strays(older.text, [text]) == []
    assert strays(newer.text, [f"{text}. {change}"]) == []


def test_the_sentences_of_a_long_statement_stand_side_by_side_as_they_were_said() -> None:
    before = "The shop in Braga has been ours for years, and everyone there knows it. " * 4
    newer = said(f"{before}We moved from SQLite to Postgres:\n- the orders\n- the stock of both shops", "s5#1")
    assert (
        shortened_to_change(SQLITE, newer)[1].text
        == "We moved from SQLite to Postgres: - the orders - the stock of both shops"
    )
