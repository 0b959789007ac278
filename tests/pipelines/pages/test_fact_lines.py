"""Quotes: what was said stands as it was said, with who and when beside it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime

import pytest
from dreamd.pipelines.pages import current_facts as quotes
from dreamd.store.changes import edits
from dreamd.store.model import Kind

from tests.memories import fact
from tests.pipelines.pages.said import said


def test_a_page_ends_with_the_definitions_of_its_footnotes() -> None:
    first, second = said("We take Postgres.", "s1#1"), said("The port is 8181.", "s3#1")
    text = quotes.with_footnotes("- “…” [^m1]", (first.node_id, "gone", second.node_id), [second, first])
    assert text.splitlines()[2:] == [
        f"[^m1]: [2 March 2026](/{first.path})",
        f"[^m3]: [4 March 2026](/{second.path})",
    ]
    assert quotes.with_footnotes("nothing", (), []) == "nothing"


def test_a_line_has_the_day_the_words_and_the_footnote() -> None:
    one = said("No ORM please, I prefer plain SQL.")
    assert quotes.line(one, "m1", quotes.dated) == "- 2 March 2026: “No ORM please, I prefer plain SQL.” [^m1]"
    assert quotes.line(one, "m1") == "- “No ORM please, I prefer plain SQL.” [^m1]"


def test_others_than_the_person_are_named() -> None:
    assert (
        quotes.dated(said("The index was stale.", by="assistant")) == "2 March 2026, assistant: “The index was stale.”"
    )
    assert quotes.spoken(said("I moved to Braga.", by="Ann")) == "Ann: “I moved to Braga.”"


def test_a_proposal_and_its_acceptance_are_two_quotes() -> None:
    text = "> Shall I take\n> `uv` for it?\n\nyes do that"
    assert quotes.quoted(said(text)) == "“Shall I take\n`uv` for it?” – “yes do that”"


@pytest.mark.parametrize("kind", [Kind.CORRECTION, Kind.NEGATIVE])
def test_what_holds_comes_before_what_it_puts_right_or_refuses(kind: Kind) -> None:
    text = "> Both go to Nuremberg.\n\nno, Helsinki"
    assert quotes.quoted(said(text, kind=kind)) == "“no, Helsinki”, said to “Both go to Nuremberg.”"


def test_what_was_written_by_hand_has_no_marks() -> None:
    assert quotes.quoted(fact("The kettle is blue.")) == "The kettle is blue."


def test_the_days_that_words_meant_stand_in_brackets() -> None:
    one = said("The launch is next Thursday.", days=(date(2026, 3, 12),))
    assert quotes.quoted(one) in quotes.with_days(one)
    assert quotes.with_days(one).endswith(" [12 March 2026]")


def test_what_was_replaced_is_struck_through_until_the_day() -> None:
    old = said("Cancelling is free until 2 hours before.")
    gone = replace(old, superseded_by="n", valid_to=datetime(2026, 3, 5, tzinfo=UTC))
    assert quotes.line(gone, "m1") == "- ~~“Cancelling is free until 2 hours before.”~~ (until 5 March 2026) [^m1]"
    assert "(perhaps replaced since)" in quotes.line(replace(old, later=("n",)), "m1")
    assert "(in question)" in quotes.line(replace(old, contradicts=("n",)), "m1")


def test_a_correction_by_hand_has_its_own_day_beside_that_of_the_words() -> None:
    put_right = said("The weekly is on Thursdays.")
    put_right = replace(put_right, extra={**put_right.extra, "edited_at": "2026-11-26T22:31:00+00:00"})
    row = "- 2 March 2026: “The weekly is on Thursdays.” (corrected 26 November 2026) [^m1]"
    assert quotes.line(put_right, "m1", quotes.dated) == row
    assert edits._ROW.fullmatch(row.replace("m1", "a1")) is not None  # its note is taken off again by what follows
    assert "(in question)" in quotes.line(replace(put_right, contradicts=("n",)), "m1")


def test_facts_of_one_moment_stand_in_the_order_of_their_turns() -> None:
    at = said("x").created_at
    tenth, second = (replace(said(f"turn {n}", f"s1#{n}"), created_at=at) for n in (10, 2))
    assert quotes.in_time([tenth, second, fact("undated")]) == [second, tenth, fact("undated")]


def test_a_fact_of_several_lines_is_one_line_of_a_page() -> None:
    listed = said("To renew it:\n- ask Ann\n- copy the file")
    assert quotes.line(listed, "m1") == "- “To renew it: - ask Ann - copy the file” [^m1]"
