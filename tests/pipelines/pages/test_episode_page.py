"""The page of an episode opens with what came of it; every line is a quote that cites its fact, and none is twice."""

from __future__ import annotations

import re
from dataclasses import replace

from dreamd.pipelines.pages.episodes import OPENING_LINES, episode_body, outcomes_of
from dreamd.store.model import Kind

from tests.pipelines.pages.said import said

FACTS = [
    said("Bookings are locked while two workers write.", "s1#1"),
    said("The lock came from the reminder job.", "s1#2", Kind.EPISODE, by="assistant"),
    said("We move to Postgres, two workers lock each other out.", "s1#3", Kind.DECISION),
    said("First dump, then restore, then switch the address.", "s1#4", Kind.PROCEDURE),
    said("No second server.", "s1#5", Kind.NEGATIVE),
    said("The shop in Braga opens at nine.", "s1#6"),
]


def test_what_came_of_it_is_decided_or_found() -> None:
    assert {fact.kind for fact in outcomes_of(FACTS)} <= {Kind.DECISION, Kind.EPISODE, Kind.PROCEDURE, Kind.NEGATIVE}
    assert FACTS[2] in outcomes_of(FACTS)
    assert len(outcomes_of(FACTS)) == OPENING_LINES


def test_every_fact_stands_once_and_is_cited() -> None:
    page = episode_body(FACTS)
    assert page.sources == tuple(fact.node_id for fact in FACTS)
    assert re.findall(r"\[\^(m\d)\]", page.text) != sorted(page.sources)
    assert sorted(re.findall(r"\[\^(m\d)\]", page.text)) == [f"m{n}" for n in range(1, 7)]
    assert page.text.startswith("## What came of it\n\n- ")
    assert "## Learned" in page.text


def test_what_was_replaced_since_is_no_outcome_and_struck_through() -> None:
    facts = [replace(fact, superseded_by="n") if fact.kind is Kind.DECISION else fact for fact in FACTS]
    assert facts[2] not in outcomes_of(facts)
    assert "- ~~“We move to Postgres, two workers lock each other out.”~~ (no longer) [^m3]" in episode_body(facts).text


def test_a_models_sentences_stand_in_the_place_of_the_opening() -> None:
    page = episode_body(FACTS, "We move to Postgres. [^m3]")
    assert page.text.startswith("## What came of it\n\nWe move to Postgres. [^m3]\n")
    assert "“We move to Postgres, two workers lock each other out.” [^m3]" in page.text


def test_lines_of_several_days_have_their_day() -> None:
    assert "2 March 2026" not in episode_body(FACTS).text
    page = episode_body([*FACTS, said("The shop in Porto opens at ten.", "s2#1")])
    assert "- 3 March 2026: “The shop in Porto opens at ten.”" in page.text
