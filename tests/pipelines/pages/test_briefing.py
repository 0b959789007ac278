"""The briefing: each statement that lasts under its heading; nothing asked, over, replaced, or meant for once."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from dreamd.pipelines.extract.attributes import REPLY, STANDING, WORTH
from dreamd.pipelines.pages import briefing
from dreamd.pipelines.pages.briefing import parts_of
from dreamd.store.model import Kind, Memory
from dreamd.store.okf.memory_file import EDITED_AT

from tests.pipelines.pages.said import said

TODAY = date(2026, 4, 1)


def judged(
    text: str,
    turn: str = "s1#1",
    kind: Kind = Kind.DECISION,
    worth: float = 0.9,
    reply: str = "new",
    standing: float = 0.05,
    **more: Any,
) -> Memory:
    return replace(said(text, turn, kind, **more), extra={WORTH: worth, REPLY: reply, STANDING: standing})


def under(*facts: Memory, today: date = TODAY, last: str | None = None) -> dict[str, list[str]]:
    """Return the words of the lines by their heading."""
    return {part.heading: [line.words for line in part.lines] for part in parts_of(facts, today, last)}


def test_each_kind_has_its_heading_and_rules_come_first() -> None:
    found = under(
        judged("Answers are short.", "s1#2", Kind.PREFERENCE, standing=0.8),
        judged("At night we never run migrations.", "s1#3", Kind.PITFALL, reply="correct", standing=0.6),
        judged("The audit is on 9 May.", "s1#4", Kind.VALUE, days=(date(2026, 5, 9),)),
        judged("We take Postgres.", "s9#1"),
        judged("Graça owns the shop.", "s1#5", Kind.PERSON),
        judged("First staging, then production.", "s1#6", Kind.PROCEDURE),
        judged("The port is 8181.", "s1#7", Kind.VALUE),
        last="s9",
    )
    assert found == {
        briefing.RULES: ["At night we never run migrations.", "Answers are short."],
        briefing.AHEAD: ["The audit is on 9 May."],
        briefing.LAST: ["We take Postgres."],
        briefing.PEOPLE: ["Graça owns the shop."],
        briefing.STEPS: ["First staging, then production."],
        briefing.DECIDED: ["The port is 8181."],
    }
    assert list(found) == [heading for heading in briefing.HEADINGS if heading in found]


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("Which queue do we take, Kafka or NATS?", {}),
        ("can you check the queue again? the main branch has changed", {}),
        ("run the orders tests", {"kind": Kind.PREFERENCE, "reply": "command", "worth": 0.6}),
        ("it arrives but the umlauts are broken", {"reply": "report", "worth": 0.7}),
        ("ok going for a run", {"reply": "chat", "worth": 0.6}),
        ("I might rewrite the label module in winter.", {}),
        ("The popup keeps the database open.", {"kind": Kind.FINDING, "by": "assistant"}),
        ("The upload always breaks off at 1 GB.", {"kind": Kind.PITFALL, "reply": "new"}),
        ("We take Kafka.", {"worth": 0.4}),
    ],
)
def test_what_does_not_last_is_left_out(text: str, more: dict[str, Any]) -> None:
    assert under(judged(text, **more)) == {}


def test_what_was_left_open_is_told_of_the_last_session_alone() -> None:
    wish, decision = judged("I will write the postmortem tomorrow.", "s3#2"), judged("We take Postgres.", "s3#1")
    assert under(wish, decision, last="s2") == {briefing.DECIDED: [decision.text]}
    (part,) = parts_of([wish, decision], TODAY, "s3")
    assert [(line.words, line.is_open) for line in part.lines] == [(decision.text, False), (wish.text, True)]


def test_a_decision_is_told_until_some_later_sessions_said_more_and_a_rule_stands() -> None:
    rule = judged("Answers are short.", "s0#1", Kind.PREFERENCE, standing=0.8)
    ports = [judged(f"Port {n} is for host {n}.", f"s{n}#1") for n in range(1, 9)]
    noted = replace(judged("Hosts are named after rivers."), sources=())
    found = under(rule, noted, *ports)
    assert found[briefing.RULES] == [rule.text]
    told = [one.text for one in reversed(ports)][: briefing.DECIDED_WITHIN + 1]
    assert sorted(found[briefing.DECIDED]) == sorted([noted.text, *told])


def test_an_order_that_is_surely_a_rule_is_one() -> None:
    rule = judged(
        "commit messages in Spanish, and no mocks in tests",
        kind=Kind.PREFERENCE,
        reply="command",
        worth=0.99,
        standing=0.8,
    )
    assert list(under(rule)) == [briefing.RULES]


def test_a_change_of_the_work_at_hand_is_a_rule_only_in_the_words_of_one() -> None:
    for_once = judged("It should also check the last commit.", kind=Kind.PREFERENCE, reply="refine", standing=0.72)
    assert list(under(for_once)) == [briefing.DECIDED]
    worded = judged("Always check the last commit.", kind=Kind.PREFERENCE, reply="refine", standing=0.72)
    assert list(under(worded)) == [briefing.RULES]


def test_an_instruction_in_the_words_of_a_wish_is_a_rule() -> None:
    wish = "let's make sure that we use US English everywhere please"
    assert under(judged(wish, worth=0.98)) == {}
    assert under(judged(wish, worth=0.98, standing=0.8)) == {briefing.RULES: [wish]}


def test_a_fact_from_before_replies_were_kept_has_to_be_surer() -> None:
    sure, doubted = (
        replace(judged(f"Answers have {worth} pages.", kind=Kind.PREFERENCE), extra={WORTH: worth})
        for worth in (0.95, 0.7)
    )
    assert under(sure, doubted) == {briefing.RULES: [sure.text]}


@pytest.mark.parametrize("by", ["user", "assistant"])
def test_words_that_a_person_wrote_in_place_of_others_are_as_sure_as_what_was_remembered(by: str) -> None:
    garbled = judged("can you chek the added tests dont duplicat", "s1#1", Kind.PREFERENCE, 0.6, "command", 0.01, by=by)
    by_hand = replace(garbled, text="Added tests duplicate no other.")
    edited = replace(by_hand, extra={**by_hand.extra, EDITED_AT: "2026-03-20T10:00:00+00:00"})
    unread = replace(by_hand, kind=Kind.FACT, text="The added tests are in the folder of their room.")
    later = [judged(f"The port is 818{number}.", f"s{number}#1", Kind.VALUE) for number in range(2, 9)]
    assert under(garbled) == {}
    assert under(by_hand) == under(edited) == {briefing.RULES: [by_hand.text]}
    assert unread.text in under(unread, *later)[briefing.DECIDED]
    assert under(replace(by_hand, text="Are the added tests of use?")) == {}


def test_what_was_replaced_is_left_out_and_what_replaced_it_is_a_change() -> None:
    old = judged("Raw scans are kept for 90 days.", "s1#1", Kind.VALUE)
    new = judged("Raw scans are kept for 180 days now.", "s20#1", Kind.VALUE, supersedes=(old.node_id,))
    found = under(replace(old, superseded_by=new.node_id), new)
    assert found == {briefing.CHANGED: ["Raw scans are kept for 180 days now."]}
    assert list(under(replace(old, superseded_by=new.node_id), new, today=date(2026, 9, 1))) == [briefing.DECIDED]


def test_a_sentence_whose_number_was_given_anew_is_left_out_of_its_line() -> None:
    limits = judged("The port is 8087 in all depots. We take max 20 connections, he says.", "s1#1", worth=1.0)
    attempts = judged("Make it 8 attempts. Five is over too soon.", "s1#3", Kind.VALUE, worth=1.0)
    pool = judged("We set pool_max from 20 to 35 on our side.", "s2#1", worth=1.0)
    cut = judged("Webhook attempts: Chidi cut it down to 6 last week.", "s2#3", Kind.VALUE, worth=1.0)
    told = [line for lines in under(limits, attempts, pool, cut).values() for line in lines]
    assert sorted(told) == sorted([pool.text, cut.text, "The port is 8087 in all depots."])


def test_a_day_that_is_over_takes_its_announcement_along_unless_something_holds_from_then_on() -> None:
    release = judged("Release 0.4 is planned for 5 March.", kind=Kind.VALUE, days=(date(2026, 3, 5),))
    surcharge = judged("The surcharge is 7 % from 5 March on.", kind=Kind.VALUE, days=(date(2026, 3, 5),))
    moved = judged("We are on Postgres 16 since 1 March.", kind=Kind.VALUE, days=(date(2026, 3, 1),))
    assert list(under(release, today=date(2026, 3, 5))) == [briefing.AHEAD]
    (part,) = parts_of([release, surcharge, moved], TODAY, None)
    assert {line.words for line in part.lines} == {surcharge.text, moved.text}


def test_what_was_remembered_is_read_for_its_days() -> None:
    demo = replace(said("The demo for Acme is on 9 May 2026.", "s1#1"), sources=())
    assert under(demo) == {briefing.AHEAD: ["The demo for Acme is on 9 May 2026."]}
    assert under(demo, today=date(2026, 5, 10)) == {}


def noted(text: str, turn: str = "s1#1", kind: Kind = Kind.NOTE, **extra: Any) -> Memory:
    return replace(said(text, turn, kind, by=None), sources=(), extra=extra)


IMPORTED = "2026-03-30T10:00:00+00:00"


def test_what_is_to_stand_in_every_envelope_comes_first_among_the_rules() -> None:
    complaint = judged("it arrives but the umlauts are broken", reply="report", worth=0.3)
    found = under(
        noted("Answers are short.", "s9#1", Kind.PREFERENCE),
        noted("The currency of the shop is EUR.", curated=5),
        noted("I would like to see the plan before the code.", "s2#1", curated=True),
        noted("The audit is on 9 May 2026.", curated=8),
        replace(complaint, extra={**complaint.extra, "curated": 1}),
    )
    assert found == {
        briefing.RULES: [
            "The audit is on 9 May 2026.",
            "I would like to see the plan before the code.",
            "The currency of the shop is EUR.",
            "it arrives but the umlauts are broken",
            "Answers are short.",
        ]
    }


def test_plain_notes_are_no_decisions_and_come_last_and_few() -> None:
    soups = [noted(f"The soup number {n} needs carrots.", f"s{n + 3}#1") for n in range(1, 9)]
    decision = noted("We take Postgres.", "s1#1", Kind.DECISION)
    found = under(decision, *soups)
    assert found == {briefing.DECIDED: [decision.text], briefing.NOTED: [one.text for one in soups[:-4:-1]]}
    assert list(found) == [briefing.DECIDED, briefing.NOTED]


def test_an_imported_note_has_a_line_only_by_its_words_and_behind_what_was_stated() -> None:
    soup, rule, steps = (
        noted(text, "s9#1", learned_at=IMPORTED)
        for text in ("The soup needs carrots.", "Never salt the soup.", "Soup: 1. cut the carrots 2. boil them 3. salt")
    )
    stated = noted("Answers are short.", "s1#1", Kind.PREFERENCE)
    release = noted("First staging, then production.", "s1#2", Kind.PROCEDURE)
    assert under(soup, rule, steps, stated, release) == {
        briefing.RULES: [stated.text, rule.text],
        briefing.STEPS: [release.text, steps.text],
    }
    assert under(replace(soup, supersedes=("f0",))) == {}


def test_a_correction_that_was_remembered_is_a_decision() -> None:
    port = noted("Not port 8080: the API listens on 9090.", kind=Kind.CORRECTION)
    assert under(port) == {briefing.DECIDED: [port.text]}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "# Database\n\nWe take Postgres.\n\n## Why\n\nIt has window functions.",
            "We take Postgres. … It has window functions.",
        ),
        ("# We take Postgres", "We take Postgres"),  # and nothing else
        (
            "We take Postgres:\n\n```\n# on port 5433\npsql -p 5433\n```",
            "We take Postgres: ``` # on port 5433 psql -p 5433 ```",
        ),
    ],
)
def test_headings_are_left_out_of_a_line(text: str, words: str) -> None:
    assert under(noted(text, curated=5)) == {briefing.RULES: [words]}


def test_a_short_reply_comes_with_what_it_answers_and_a_bare_yes_to_an_offer_not_at_all() -> None:
    typst = judged("> I'd render it with Typst, a single binary.\n\nfine, typst", reply="accept")
    alone = judged("> A genetic algorithm?\n\nno ga. nobody will be able to explain to a driver why", reply="reject")
    offer = judged("> Shall I put that as point 1?\n\nok do that", reply="accept")
    (part,) = parts_of([typst, alone, offer], TODAY, None)
    assert {(line.reply_to, line.words) for line in part.lines} == {
        ("I'd render it with Typst, a single binary.", "fine, typst"),
        ("A genetic algorithm?", "no ga. nobody will be able to explain to a driver why"),
    }
    assert under(judged("ja, mach 04:30 draus", reply="refine")) == {}


def test_a_choice_is_told_only_with_its_option() -> None:
    known = judged("> How many workers? 1. Half of the cores: the rest is for the API.\n\n1", reply="accept")
    unknown = judged("> Or should we keep it simple with option 1?\n\noption 3", reply="answer")
    (part,) = parts_of([known, unknown, judged("2", reply="answer")], TODAY, None)
    assert [line.fact for line in part.lines] == [known]


def test_a_correction_is_told_of_the_last_session_and_where_it_changed_something() -> None:
    fixed = judged("no, the logs folder is not in the ignore file", "s1#1", Kind.CORRECTION, reply="correct")
    assert under(fixed) == {}
    assert under(fixed, last="s1") == {}, "alone it tells less than half"
    told = judged("> I put the logs folder into the ignore file.\n\nno, it is not in there", "s1#1", Kind.CORRECTION)
    assert list(under(told, last="s1")) == [briefing.LAST]
    assert list(under(replace(fixed, extra={**fixed.extra, STANDING: 0.2}))) == [briefing.DECIDED]
    assert list(under(replace(fixed, supersedes=("f0",)))) == [briefing.CHANGED]


def test_a_long_procedure_is_named_by_what_stands_before_its_steps() -> None:
    steps = " ".join(f"{number}. do the {number}th thing and look whether it worked" for number in range(1, 8))
    (part,) = parts_of([judged(f"release steps: {steps}", kind=Kind.PROCEDURE)], TODAY, None)
    assert [(line.words, line.steps_left_out) for line in part.lines] == [("release steps", True)]
