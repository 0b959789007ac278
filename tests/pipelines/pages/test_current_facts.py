"""What holds now: one line a thing, of most worth first, what it replaced struck through below it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from itertools import pairwise

import pytest
from dreamd.pipelines.extract.attributes import WORTH
from dreamd.pipelines.pages import current_facts
from dreamd.store.model import Kind, Memory, StatementSlot
from dreamd.store.okf.memory_file import EDITED_AT

from tests.pipelines.pages.said import said

TODAY = date(2026, 4, 1)


def rendered(*facts: Memory) -> str:
    return current_facts.profile_body(
        current_facts.current_parts(facts, TODAY), current_facts.Predecessors(facts), "`dreamctl list` lists them."
    )[0]


def test_what_a_person_put_right_has_a_line_whatever_its_kind() -> None:
    weekly = said("The weekly is on Thursdays.", kind=Kind.EVENT)
    assert rendered(weekly) == ""
    assert "The weekly is on Thursdays." in rendered(replace(weekly, extra={EDITED_AT: "2026-03-02T09:00:00+00:00"}))


def test_each_kind_has_its_heading_and_what_only_happened_has_none() -> None:
    text = rendered(
        said("We take Postgres.", "s1#1", Kind.DECISION),
        said("Answers are short.", "s1#2", Kind.PREFERENCE),
        said("No GraphQL.", "s1#3", Kind.NEGATIVE),
        said("First staging, then production.", "s1#4", Kind.PROCEDURE),
        said("The lock came from the reminder job.", "s1#5", Kind.FINDING, by="assistant"),
        said("The port is 8181.", "s1#6", slot=StatementSlot("app", "port", "8181")),
        said("I will write the importer in May.", "s1#7", tense="future"),
        said("We went to Porto.", "s1#8", Kind.EPISODE),
        said("Graça owns the shop.", "s1#9", Kind.PERSON),
        replace(said("The fair is on 9 May.", "s1#10", Kind.EVENT), days=(date(2026, 5, 9),)),
        replace(said("The fair was on 9 March.", "s1#13", Kind.EVENT), days=(date(2026, 3, 9),)),
        said("The shop opens at 7.", "s1#14"),
        said("Can we rename the importer?", "s1#15", Kind.DECISION),
        said("Rust panics where the file is empty.", "s1#11", Kind.PITFALL),
        said("The limit is 40.", "s1#12", Kind.VALUE),
    )
    headings = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    assert headings == list(current_facts.HEADINGS)
    assert text.index("The port is 8181") < text.index(f"## {current_facts.WISHED}")
    assert not any(words in text for words in ("Porto", "lock", "9 March", "rename"))


def test_what_was_said_to_an_assistant_holds_if_it_is_surely_worth_keeping() -> None:
    kept, doubted = (
        replace(said(f"Rule {worth}.", "s1#1", Kind.DECISION), extra={WORTH: worth}) for worth in (0.9, 0.7)
    )
    assert "Rule 0.9." in rendered(kept)
    assert rendered(doubted) == ""


def test_a_short_note_is_a_line_and_a_long_one_is_a_page_of_its_own() -> None:
    text = rendered(said("The NAS is backed up at two.", "s1#1", Kind.NOTE), said("Tea. " * 90, "s1#2", Kind.NOTE))
    assert "## Facts" in text
    assert "The NAS is backed up at two." in text
    assert "Tea." not in text


def test_the_newest_comes_first_with_what_it_replaced_below() -> None:
    new = said("Make it 24.", "s3#1", Kind.DECISION)
    until = datetime(2026, 3, 4, tzinfo=UTC)
    old = replace(said("Two hours.", "s1#1", Kind.DECISION), superseded_by=new.node_id, valid_to=until)
    other = said("Make it 12.", "s2#1", Kind.DECISION)
    assert rendered(old, other, new).splitlines()[2:] == [
        "- 4 March 2026: “Make it 24.” [^m1]",
        "  - ~~2 March 2026: “Two hours.”~~ (until 4 March 2026) [^m2]",
        "- 3 March 2026: “Make it 12.” [^m3]",
    ]


def test_what_was_perhaps_replaced_stands_below_the_newer_one_alone() -> None:
    new = said("Make it 24.", "s3#1", Kind.DECISION)
    old = replace(said("Two hours.", "s1#1", Kind.DECISION), later=(new.node_id,))
    assert rendered(old, new).splitlines()[2:] == [
        "- 4 March 2026: “Make it 24.” [^m1]",
        "  - 2 March 2026: “Two hours.” (perhaps replaced since) [^m2]",
    ]
    alone = replace(old, later=("gone",))
    assert "Two hours." in rendered(alone)


@pytest.mark.parametrize("kind", [Kind.EPISODE, Kind.FACT, Kind.DECISION])
@pytest.mark.parametrize("link", ["later", "superseded_by"])
def test_of_a_relation_the_newest_holds_whatever_its_kind(kind: Kind, link: str) -> None:
    new = said("They called, it opens on the 9th.", "s3#1", kind, tense="past")
    old = said("It opens on the 16th.", "s1#1", Kind.DECISION)
    old = replace(old, later=(new.node_id,)) if link == "later" else replace(old, superseded_by=new.node_id)
    lines = rendered(old, new).splitlines()
    assert [line.startswith("- ") for line in lines if "th." in line] == [True, False]
    assert "9th" in lines[2]


def test_a_newer_one_that_has_no_room_does_not_bring_the_older_back() -> None:
    many = [said(f"Rule {n}.", f"s{n}#1", Kind.DECISION) for n in range(5, current_facts.MOST_RULES + 6)]
    new = said("It opens on the 9th.", "s3#1", Kind.DECISION)
    old = replace(said("It opens on the 16th.", "s1#1", Kind.FACT), later=(new.node_id,))
    assert "16th" not in rendered(*many, old, new)


def test_a_chain_of_replacements_is_bounded() -> None:
    facts = [said(f"Version {n}.", f"s{n}#1", Kind.DECISION) for n in range(1, 7)]
    chain = [replace(old, superseded_by=new.node_id) for old, new in pairwise(facts)]
    assert rendered(*chain, facts[-1]).count("~~") == 2 * current_facts.MOST_EARLIER


def test_what_was_said_again_stays_where_there_is_too_much() -> None:
    many = [said(f"Rule {n}.", f"s{n}#1", Kind.PREFERENCE) for n in range(1, current_facts.MOST_RULES + 6)]
    many[0] = replace(many[0], sources=("s1#1", "s9#4"))
    text = rendered(*many)
    assert text.count("[^m") == current_facts.MOST_RULES
    assert "“Rule 1.”" in text
    assert "“Rule 2.”" not in text


def test_what_has_no_room_is_counted_below_its_heading() -> None:
    text = rendered(*(said(f"Shop {n} opens at {n}.", f"s{n}#1") for n in range(1, current_facts.MOST_LINES + 4)))
    assert text.endswith("\n\n… and 3 more: `dreamctl list` lists them.")
    assert "more" not in rendered(said("The shop opens at 7.", "s1#1"))


def remembered(text: str, kind: Kind = Kind.NOTE) -> Memory:
    return replace(said(text, "s9#1", kind, run=None), sources=(), session_id=None, said_by=None)


@pytest.mark.parametrize(
    ("text", "heading"),
    [
        ("Never push to main directly; always open a pull request.", current_facts.WISHED),
        ("We decided to keep SQLite, because the shop has one till.", current_facts.DECIDED),
        ("I prefer tabs to spaces.", current_facts.WISHED),
        ("Wir haben uns für Postgres entschieden.", current_facts.DECIDED),
        ("Nunca desplegamos los viernes.", current_facts.WISHED),
        ("The accountant is Synnøve Aas.", current_facts.KNOWN),
    ],
)
@pytest.mark.parametrize("kind", [Kind.NOTE, Kind.FACT])
def test_what_was_remembered_stands_where_a_session_would_have_put_it(text: str, heading: str, kind: Kind) -> None:
    assert [part.heading for part in current_facts.current_parts([remembered(text, kind)], TODAY)] == [heading]


def test_a_kind_that_was_given_stands() -> None:
    given = remembered("Never push to main directly.", Kind.DECISION)
    assert [part.heading for part in current_facts.current_parts([given], TODAY)] == [current_facts.DECIDED]


def test_worth_goes_before_age() -> None:
    facts = [said(f"images, {n} MB", f"s{n}#1", Kind.VALUE, extra={WORTH: 0.8}) for n in range(2, 30)]
    rule = said("The levain is set at one, so orders end at noon.", "s1#1", Kind.DECISION, extra={WORTH: 0.95})
    text = rendered(*facts, rule)
    assert "levain" in text.splitlines()[2]
    assert "images, 2 MB" not in text


def test_a_bare_secret_is_no_line() -> None:
    assert current_facts.current_parts([remembered("api key is [redacted:anthropic]")], TODAY) == []


@pytest.mark.parametrize(
    ("text", "heading"),
    [
        ("We are going to write the importer next week.", current_facts.OPEN),
        ("Wir werden im Mai umziehen.", current_facts.OPEN),
        ("Voy a escribir el importador.", current_facts.OPEN),
        ("vilde will be in Tromsø from 1 december, exchange term", current_facts.KNOWN),
        ("mqtt no, otra pieza que se cae a las 3 de la mañana y nadie la entiende", current_facts.KNOWN),
        ("Die Bäckerei ist am Morgen voll.", current_facts.KNOWN),
    ],
)
def test_an_open_thread_is_what_its_speaker_means_to_do(text: str, heading: str) -> None:
    assert [part.heading for part in current_facts.current_parts([remembered(text)], TODAY)] == [heading]
