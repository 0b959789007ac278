"""The sections of the account: how actions are sorted, what the gate reports, how long lists are cut."""

from __future__ import annotations

from dataclasses import replace

import pytest
from dreamd.pipelines.gate.gate import GateResult
from dreamd.pipelines.report import digest_text as markdown
from dreamd.pipelines.report import html
from dreamd.pipelines.report.run_report import SinceTheLast, counts_in_words
from dreamd.pipelines.report.sections import MOST_LEARNED, summarize
from dreamd.store.ledger.records import Run
from dreamd.store.model import Action, ActionKind, Kind, Level
from dreamd.store.results import ToldCounts

from tests.pipelines.fakes import NOW
from tests.pipelines.report.reports import Reader, action, fact, report


@pytest.mark.parametrize(
    ("synthetic", "expected"),
    [
        (0, "With 40 questions that your agents asked: 61.2% found their answer before, 65.5% after"),
        (39, "With 1 question that your agents asked and 39 questions made from the memory: 61.2%"),
        (40, "With 40 questions made from the memory: 61.2%"),
    ],
)
def test_the_gate_tells_questions_of_agents_from_synthetic_ones(synthetic: int, expected: str) -> None:
    gate = GateResult(40, 0.612, 0.655, 1, 4, synthetic=synthetic)
    text = markdown.render(report(action(fact("Learned")), gate=gate))
    assert expected in text


def test_a_gate_without_questions_says_that_recall_was_not_tested() -> None:
    assert "Not tested: no question was asked yet" in markdown.render(
        report(action(fact("Learned")), gate=GateResult())
    )
    assert "Tested before" not in markdown.render(report(gate=GateResult()))


def test_what_was_purged_since_the_last_dream_is_counted() -> None:
    def run(kind: str, purged: dict[str, int]) -> Run:
        return Run(f"r-{kind}-{len(purged)}", kind, "applied", NOW, summary={"purged": purged})

    runs = [run("purge", {"sessions": 1, "turns": 19, "memories": 0}), run("daily", {}), run("purge", {"turns": 3})]
    text = markdown.render(report(action(fact("Learned")), runs=runs))
    assert "## Purged\n\n- 1 session, 19 turns, for good" in text
    assert "3 turns" not in text


def test_what_was_linked_when_it_was_remembered_is_counted() -> None:
    text = markdown.render(report(action(fact("Learned")), since=SinceTheLast(linked=2)))
    assert "- 2 statements that were remembered repeat, replace or dispute what was known" in text
    assert "Remembered" not in markdown.render(report(action(fact("Learned"))))


def test_what_agents_were_told_is_one_line() -> None:
    counts = ToldCounts(texts=12, sessions=4, tokens=900, used=3, lost_starts=2, lost_prompts=7)
    text = markdown.render(report(action(fact("Learned")), since=SinceTheLast(told=counts)))
    told = "- 12 texts were handed to 4 sessions since the last dream, 3 of them used, 2 starts lost"
    assert f"{told} · `dreamctl told` shows them" in text
    assert "## Told" not in markdown.render(report(action(fact("Learned"))))


def test_a_dream_without_new_turns_says_so() -> None:
    changed = replace(report(action(fact("It is red"), ActionKind.REPLACE, "said again")), counts={})
    assert "No new turns." in markdown.render(changed)
    assert "0 new turns" not in markdown.render(changed)


def test_of_several_channels_a_page_names_its_own() -> None:
    pages = [
        replace(
            fact(f"Page of {channel}"), title="What holds now", channel=channel, level=Level.PROFILE, kind=Kind.PROFILE
        )
        for channel in ("shop", "bakery")
    ]
    text = markdown.render(report(*(action(page) for page in pages)))
    assert "· shop" in text
    assert "· bakery" in text
    assert "· shop" not in markdown.render(report(action(pages[0])))


def test_projects_of_one_name_are_told_apart() -> None:
    facts = [
        action(fact(f"Said in {channel}", channel=channel)) for channel in ("cli-2517dc", "cli-9beecf", "shop-a1b2c3")
    ]
    text = markdown.render(report(*facts, channels={"cli-2517dc", "cli-9beecf", "shop-a1b2c3"}))
    heads = [line for line in text.splitlines() if line.startswith("### ")]
    assert heads == ["### cli-2517dc: 1 fact", "### cli-9beecf: 1 fact", "### shop: 1 fact"]
    assert "### cli: 1 fact" in markdown.render(report(facts[0], channels={"cli-2517dc", "shop-a1b2c3"}))


def test_a_step_that_found_nothing_to_do_is_not_told() -> None:
    quiet = replace(report(action(fact("Learned"))), counts={"consolidate": {"turns": 7}, "decay": {}})
    quiet = replace(quiet, seconds={"consolidate": 1.2, "decay": 0.3})
    assert [name for name, _, _ in quiet.steps] == ["new facts"]
    assert "All steps took 1.5 s." in markdown.render(quiet)
    assert [tile for tile in ("facts learned", "new pages", "to decide") if tile in html.render(quiet)] == [
        "facts learned"
    ]


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({}, "nothing to do"),
        ({"scenarios": 1, "profiles changed": 1}, "1 scenario, 1 profile changed"),
        ({"turns": 1200, "superseded": 1}, "1,200 turns, 1 superseded"),
    ],
)
def test_one_is_not_counted_as_many(counts: dict[str, int], words: str) -> None:
    assert counts_in_words(counts) == words


def test_a_long_list_says_how_many_lines_it_leaves_out() -> None:
    many = [action(fact(f"Fact {n}")) for n in range(MOST_LEARNED + 5)]
    assert "… and 5 more" in markdown.render(report(*many))
    assert "… and 5 more" in Reader(html.render(report(*many))).text


def test_a_memory_created_and_changed_in_one_run_counts_as_new() -> None:
    one = fact("It is new")
    done = summarize([action(one), action(replace(one, tags=("x",)), ActionKind.REPLACE)])
    assert [memory.title for memory in done.facts] == ["It is new"]
    assert done.changed == []
    asked = summarize([action(one), action(replace(one, contradicts=("x",)), ActionKind.REPLACE)])
    assert (len(asked.facts), len(asked.contradicted)) == (1, 1)


def test_a_doubt_that_no_words_show_is_not_told() -> None:
    newer = fact("The kettle is red now")
    doubted = action(fact("The kettle stands in the hall", later=(newer.node_id,)), ActionKind.REPLACE)
    done = summarize([doubted, action(newer)])
    assert (done.doubted, done.changed) == ([], [])


def test_what_colleagues_shared_is_no_note_of_an_agent() -> None:
    waits = [
        fact("An agent's"),
        replace(fact("Ana's"), provenance="colleague"),
        replace(fact("B"), provenance="colleague"),
    ]
    text = markdown.render(report(action(fact("Learned")), waiting=waits))
    assert "1 note of your agents waits for `dreamctl review`; 2 notes of colleagues wait for `dreamctl review`" in text


def test_a_date_that_passed_is_named_also_of_a_fact_that_is_new() -> None:
    learned = fact("The hall is free until Friday", tense="past")
    mark = replace(action(learned, ActionKind.REPLACE, "20 November 2026 has passed"), stage="staleness")
    for actions in ((mark,), (action(learned), mark)):
        text = markdown.render(report(*actions))
        assert "1 went stale" in text
        assert text.split("## Gone stale")[1].split("##")[0].strip().endswith("20 November 2026 has passed")


def test_what_holds_is_told_before_other_facts_and_of_them_the_worthiest() -> None:
    def said(text: str, kind: Kind, worth: float, said_by: str = "user") -> Action:
        return action(fact(text, kind=kind, said_by=said_by, sources=("s1#1",), extra={"worth": worth}))

    text = markdown.render(
        report(
            said("Cause 1", Kind.FINDING, 0.75, "assistant"),
            said("Cause 2", Kind.FINDING, 0.99, "assistant"),
            said("Was it not Helsinki?", Kind.CORRECTION, 0.85),
            said("We take Postgres", Kind.DECISION, 0.9),
        )
    )
    told = ["We take Postgres", "Cause 2", "Was it not Helsinki?", "Cause 1"]
    assert sorted(told, key=text.index) == told


def test_pages_of_people_and_things_are_counted_and_not_told() -> None:
    thing = replace(fact("Grafana"), title="Grafana", level=Level.PROFILE, kind=Kind.ENTITY)
    text = markdown.render(report(action(fact("Learned")), action(thing)))
    assert "Grafana" not in text
    assert "new page" not in text
