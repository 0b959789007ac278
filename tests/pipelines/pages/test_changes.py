"""Changes: only what a person sees at once is shown, and of it the sentences that show it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from dreamd.pipelines.pages.changes import is_plain, plainly, told_by
from dreamd.store.text.replies import write_reply

from tests.pipelines.pages.said import said

SQLITE = said(write_reply("We take SQLite. One file, one shop, and the backup is a copy.", "Which database?"), "s1#1")
POSTGRES = said("Ok, decision: we move from SQLite to Postgres. The shop in Braga writes too.", "s5#1")


def test_what_is_said_to_have_ended_is_plain() -> None:
    assert is_plain(SQLITE, POSTGRES)


def test_another_value_of_what_both_name_is_plain() -> None:
    older = said("Emil says opening is 16 November.", "s1#1")
    assert is_plain(older, said("A week earlier after all, so 9 November, the hall opens on the 10th.", "s5#1"))


@pytest.mark.parametrize(
    "newer",
    [
        said("The backup runs every night now, and nobody restored one yet.", "s5#1"),
        said("The mast is replaced.", "s5#1"),
        replace(POSTGRES, said_by="assistant"),
    ],
)
def test_another_sign_of_a_change_or_an_assistants_word_is_not(newer: object) -> None:
    assert not is_plain(SQLITE, newer)  # type: ignore[arg-type]


def test_only_plain_successors_stay_beside_a_fact() -> None:
    other = said("The backup runs every night now.", "s5#2")
    older = replace(SQLITE, later=(POSTGRES.node_id, other.node_id, "elsewhere"))
    assert [fact.later for fact in plainly([older, POSTGRES, other])] == [(POSTGRES.node_id,), (), ()]


def test_the_sentences_that_show_a_change_are_told_and_no_others() -> None:
    older, newer = told_by(SQLITE, POSTGRES)
    assert older.text.startswith("We take SQLite.")
    assert newer.text == "Ok, decision: we move from SQLite to Postgres."
    assert told_by(SQLITE, said("Tea at five.", "s5#3")) == (SQLITE, said("Tea at five.", "s5#3"))
