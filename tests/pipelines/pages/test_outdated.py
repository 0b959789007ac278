"""Facts that a later one probably replaces or repeats: left out; others on the same subject stay."""

from __future__ import annotations

from dataclasses import replace

from dreamd.pipelines.extract.attributes import REPLY
from dreamd.pipelines.pages.outdated import replaced_sentences, without_outdated
from dreamd.store.model import Kind, Memory

from tests.pipelines.pages.said import said

OTHERS = [
    said("The customs audit wants the event history as a PDF.", "s1#1", Kind.VALUE),
    said("Commit messages are in Spanish.", "s1#3", Kind.PREFERENCE),
    said("No Tailwind, it is one popup with one style sheet.", "s1#5", Kind.DECISION),
    said("Handhelds send local time without an offset.", "s1#7", Kind.VALUE),
]


def opening(text: str, turn: str, kind: Kind) -> Memory:
    return replace(said(text, turn, kind), extra={REPLY: "new"})


def test_the_newer_of_two_values_of_one_thing_stays() -> None:
    old = said("The penalty is 12 per minute late.", "s2#1", Kind.VALUE)
    new = opening("The penalty per minute late is 8 now.", "s3#1", Kind.VALUE)
    assert without_outdated([new, *OTHERS, old]) == [*OTHERS, new]
    assert without_outdated([*OTHERS, old], [new]) == OTHERS


def test_what_shares_a_word_of_many_facts_stays() -> None:
    ports = [
        said(f"The {name} service listens on {port}.", f"s2#{port}", Kind.VALUE) for port, name in enumerate("abcde")
    ]
    assert without_outdated([*OTHERS, *ports]) == [*OTHERS, *ports]


def test_two_facts_of_one_turn_never_replace_each_other() -> None:
    two = [said(f"The penalty per minute late is {value} now.", "s2#1", Kind.VALUE) for value in (8, 12)]
    assert len(without_outdated([*OTHERS, *two])) == len(OTHERS) + 2


def test_a_number_is_over_where_the_same_thing_is_counted_anew_or_it_is_named_as_what_was() -> None:
    eight = said("no make it 8 attempts. 5 is over in ten minutes", "s2#1", Kind.VALUE)
    limits = said(
        "port is 8087, thats ours. pg is 15, chidi runs it. max 20 connections for us he says", "s2#3", Kind.VALUE
    )
    six = said("webhook attempts: partners complained, chidi cut it down to 6 last week", "s3#1", Kind.VALUE)
    pool = said(
        "no! 500 backends on that box will swap. pool_max from 20 to 35 on our side, thats it", "s3#3", Kind.DECISION
    )
    counted = said("we saw 3 attempts in the log", "s3#5", Kind.EVENT)
    facts = [six, *OTHERS, eight, limits, counted, pool]
    assert replaced_sentences(facts) == {
        eight.node_id: {"no make it 8 attempts."},
        limits.node_id: {"max 20 connections for us he says"},
    }
    asked = said("should we go down to 4 attempts?", "s4#1", Kind.VALUE)
    assert replaced_sentences([eight, counted, asked]) == {}
