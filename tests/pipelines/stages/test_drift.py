from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from dreamd.llm.budget import Asker
from dreamd.llm.language_model import LlmUnavailable
from dreamd.llm.settings import LlmSettings
from dreamd.pipelines.settings import SUPERSEDED_AT_LEAST
from dreamd.pipelines.stages import consolidate, drift
from dreamd.pipelines.workspace.snapshot import History
from dreamd.pipelines.workspace.view import View
from dreamd.store import okf
from dreamd.store.index.tombstones import pair_key
from dreamd.store.model import Kind, Level, Memory

from tests import memories
from tests.pipelines.fakes import MAY_8, NOW, FakeModel, FakeSource
from tests.pipelines.near_misses import near_misses
from tests.pipelines.pages.said import said


def dreamt(source: FakeSource, history: History | None = None, run_id: str = "run-1") -> View:
    view = source.view(history, run_id)
    for stage in (consolidate, drift):
        planned = stage.plan(view, NOW)
        view.apply(view.allowed(planned.actions), planned.cursors)
    return view


def facts(view: View) -> dict[str, Memory]:
    held = (view.memory(action.node_id) for action in view.actions)
    return {memory.text: memory for memory in held if memory is not None and memory.level is Level.FACT}


def test_an_update_supersedes_the_older_fact() -> None:
    source = FakeSource()
    source.add("s1", ("Ann", "My API integration module has 65% test coverage after the first run."))
    source.add(
        "s2",
        ("Ann", "The test coverage of my API integration has recently improved to 78%."),
        at=MAY_8 + timedelta(days=9),
    )
    held = facts(dreamt(source))
    (old,) = [memory for text, memory in held.items() if "65%" in text]
    (new,) = [memory for text, memory in held.items() if "78%" in text]
    assert (old.superseded_by, new.supersedes) == (new.node_id, (old.node_id,))
    assert old.valid_to == new.created_at
    assert new.superseded_by is None


def test_a_run_that_learns_compares_its_own_facts_alone() -> None:
    source = FakeSource()
    source.add("s1", ("Ann", "My API integration module has 65% test coverage after the first run."))
    source.add("s2", ("Ann", "My bicycle has 7 gears."))
    view = source.view()
    view.apply((planned := consolidate.plan(view, NOW)).actions, planned.cursors)
    source.add("s3", ("Ann", "The test coverage of my API integration has recently improved to 78%."))
    view = source.view(source.take(view), "run-2")
    view.learns = frozenset({"s3"})
    for stage in (consolidate, drift):
        planned = stage.plan(view, NOW)
        view.apply(planned.actions, planned.cursors)
    assert view.cursors == {("consolidate", "s3"): 1}  # the next dream compares the others
    assert [fact.superseded_by for fact in view.whole(Level.FACT, "proj") if "65%" in fact.text] == [
        action.node_id for action in view.actions if action.stage == "consolidate"
    ]


def test_a_new_value_in_other_words_ends_the_old_one_and_nothing_else() -> None:
    source = FakeSource()
    source.add("s1", ("user", "The application log group keeps 30 days, leave that."))
    source.add("s2", ("user", "The build agents keep their caches for 14 days."), at=MAY_8 + timedelta(days=2))
    source.add("s3", ("user", "The auditors want 90 days in the application log group."), at=MAY_8 + timedelta(days=9))
    held = facts(dreamt(source))
    (ended,) = [text for text, memory in held.items() if memory.superseded_by or memory.later]
    assert "30 days" in ended


def test_a_denied_statement_waits_for_a_decision_with_both_sides_living() -> None:
    source = FakeSource()
    source.add("s1", ("Ann", "I submitted my cover letter to Greg for a review on April 10."))
    source.add("s2", ("Ann", "I have never submitted my cover letter to Greg."), at=MAY_8 + timedelta(days=1))
    view = dreamt(source)
    told, denied = sorted(facts(view).values(), key=lambda memory: memory.created_at or NOW)
    assert (told.contradicts, denied.contradicts) == ((denied.node_id,), (told.node_id,))
    assert {memory.node_id for memory in view.memories(Level.FACT)} == {told.node_id, denied.node_id}


def reworded_by_hand(said_again_at: datetime) -> tuple[FakeSource, dict[str, Memory]]:
    """A fact that its person reworded two days later, and what was said of it another time: after the next dream."""
    source = FakeSource()
    source.add("s1", ("Ann", "My API integration module has 65% test coverage after the first run."))
    source.take(dreamt(source))
    source.reword("has 65% test coverage after the first run", "has 90% test coverage now", MAY_8 + timedelta(days=2))
    source.add("s2", ("Ann", "The test coverage of my API integration has improved to 78%."), at=said_again_at)
    source.take(dreamt(source, run_id="run-2"))
    return source, {memory.text: memory for memory in source.memories()}


def test_words_of_a_person_change_what_was_said_before_them() -> None:
    _, held = reworded_by_hand(MAY_8 + timedelta(days=1))
    (by_hand,) = [memory for text, memory in held.items() if "90%" in text]
    (said,) = [memory for text, memory in held.items() if "78%" in text]
    assert by_hand.is_live
    assert said.superseded_by == by_hand.node_id
    assert said.valid_to == by_hand.valid_from == MAY_8 + timedelta(days=2)
    assert by_hand.created_at is not None
    assert by_hand.created_at < MAY_8 + timedelta(days=1)


def test_what_is_said_later_changes_words_of_a_person() -> None:
    source, held = reworded_by_hand(MAY_8 + timedelta(days=3))
    (by_hand,) = [memory for text, memory in held.items() if "90%" in text]
    (said,) = [memory for text, memory in held.items() if "78%" in text]
    assert said.is_live
    assert by_hand.superseded_by == said.node_id
    assert not drift.plan(source.view(run_id="run-3"), NOW).counts.get("reworded by hand")


def test_words_that_are_changed_again_hold_since_then() -> None:
    source, _ = reworded_by_hand(MAY_8 + timedelta(days=1))
    source.reword("90% test coverage", "95% test coverage", MAY_8 + timedelta(days=4))
    source.take(dreamt(source, run_id="run-3"))
    (by_hand,) = [memory for memory in source.memories() if "95%" in memory.text]
    assert by_hand.valid_from == MAY_8 + timedelta(days=4)


def test_facts_of_one_turn_do_not_contradict_each_other() -> None:
    source = FakeSource()
    text = "I have never obtained an API key for this project. Please help me obtain an API key for the project."
    source.add("s1", ("Ann", text))
    assert not any(memory.contradicts for memory in facts(dreamt(source)).values())


def test_a_first_time_after_a_never_is_no_contradiction() -> None:
    source = FakeSource()
    source.add("s1", ("Ann", "I have never used Zotero for my citations."))
    source.add("s2", ("Ann", "I downloaded Zotero for my citations."), at=MAY_8 + timedelta(days=1))
    assert not any(memory.contradicts for memory in facts(dreamt(source)).values())


def test_near_misses_are_neither_superseded_nor_merged() -> None:
    pairs = near_misses(200)
    assert len({pair[1:] for pair in pairs}) == 200
    for number, (sort, earlier, later) in enumerate(pairs):
        source = FakeSource()
        source.keep(said(earlier, "s1#1"), said(later, f"s30#{number + 1}"))
        planned = drift.plan(source.view(), NOW)
        assert not planned.counts.keys() & {"superseded", "repeated in other words"}, (sort, earlier, later)


@pytest.mark.parametrize("undone", [True, False])
def test_what_a_person_decided_is_not_asked_again(undone: bool) -> None:
    source = FakeSource()
    source.add("s1", ("Ann", "I submitted my cover letter to Greg for a review on April 10."))
    source.add("s2", ("Ann", "I have never submitted my cover letter to Greg."), at=MAY_8 + timedelta(days=1))
    one, other = (memory.node_id for memory in facts(dreamt(source)).values())
    history = History(tombstones=frozenset({pair_key(one, other)} if undone else ()))
    assert any(memory.contradicts for memory in facts(dreamt(source, history)).values()) is not undone


@pytest.mark.parametrize("kept_apart", [True, False])
def test_a_mark_that_a_person_took_back_is_not_made_again(kept_apart: bool) -> None:
    source = FakeSource()
    source.add("s1", ("Ann", "My API integration module has 65% test coverage after the first run."))
    later = "The test coverage of my API integration has recently improved to 78%."
    source.add("s2", ("Ann", later), at=MAY_8 + timedelta(days=9))
    one, other = (memory.node_id for memory in facts(dreamt(source)).values())
    history = History(tombstones=frozenset({pair_key(one, other)} if kept_apart else ()))
    held = facts(dreamt(source, history)).values()
    assert any(memory.superseded_by or memory.later for memory in held) is not kept_apart


def test_a_second_run_without_new_turns_changes_nothing() -> None:
    source = FakeSource()
    source.add("s1", ("Ann", "I submitted my cover letter to Greg for a review on April 10."))
    source.add("s2", ("Ann", "I have never submitted my cover letter to Greg."), at=MAY_8 + timedelta(days=1))
    history = source.take(dreamt(source))
    assert dreamt(source, history, "run-2").actions == []
    assert drift.plan(source.view(history), datetime(2026, 12, 9, tzinfo=UTC)).actions == []


LIKELY = ("older", "The rota is printed on paper."), ("newer", "The rota is in the kitchen now, next to the clock.")


def remembered(*said: tuple[str, str], channel: str = "proj") -> FakeSource:
    """A memory of statements that were said on one day each."""
    source = FakeSource()
    for day, (node_id, text) in enumerate(said):
        memory = Memory(
            node_id=node_id,
            level=Level.FACT,
            kind=Kind.FACT,
            title=text,
            text=text,
            channel=channel,
            created_at=MAY_8 + timedelta(days=day),
            sources=(f"s{day}#1",),
            path=f"facts/{node_id}.md",
        )
        source.files[memory.path] = okf.from_memory(memory)
    return source


def drifted(source: FakeSource, model: FakeModel | None = None) -> dict[str, Memory]:
    view = source.view()
    view.model = Asker(model, LlmSettings()) if model else None
    view.apply(drift.plan(view, NOW).actions)
    return {node_id: memory for node_id in ("older", "newer") if (memory := view.memory(node_id))}


def test_a_likely_change_is_named_in_the_older_and_both_live() -> None:
    held = drifted(remembered(*LIKELY))
    assert (held["older"].later, held["older"].superseded_by, held["newer"].supersedes) == (("newer",), None, ())
    assert all(memory.is_live for memory in held.values())


def test_a_run_supersedes_a_few_facts_in_all_its_channels_and_names_the_other_changes() -> None:
    source = FakeSource()
    for number in range(SUPERSEDED_AT_LEAST + 2):
        said = remembered(
            (f"older-{number}", f"The API timeout of pier {number} is 30 seconds."),
            (f"newer-{number}", f"The API timeout of pier {number} is 60 seconds now."),
            channel=f"shop-{number}",
        )
        source.files |= said.files
    assert drift.plan(source.view(), NOW).counts == {"superseded": SUPERSEDED_AT_LEAST, "probably superseded": 2}


def test_what_says_the_same_is_archived_and_the_older_stays() -> None:
    source = remembered(
        ("older", "We moved the wiki from Confluence to Outline."), ("newer", "The wiki moved to Outline.")
    )
    held = drifted(source)
    assert (held["older"].is_live, held["newer"].is_archived) == (True, True)
    assert (held["newer"].superseded_by, held["newer"].extra["same_as"]) == (None, ["older"])


def test_what_an_assistant_says_changes_nothing_that_a_person_said() -> None:
    source = remembered(("older", "The API timeout is 30 seconds."), ("newer", "The API timeout is 60 seconds now."))
    source.files["facts/newer.md"] = okf.edit(source.files["facts/newer.md"], {"said_by": "assistant"})
    held = drifted(source)
    assert (held["older"].superseded_by, held["older"].later) == (None, ())


def test_a_model_finds_a_change_that_words_alone_leave_open() -> None:
    def say(prompt: str) -> dict[str, Any]:
        shown = [json.loads(line) for line in prompt.splitlines() if line.startswith('{"number"')]
        claims = [
            {"number": one["number"], "relation": "unrelated", "earlier_words": "", "later_words": ""} for one in shown
        ]
        for claim, one in zip(claims, shown, strict=True):
            if "rota" in one["earlier"]:
                claim |= {"relation": "change", "earlier_words": "on paper", "later_words": "in the kitchen"}
        return {"relations": claims}

    held = drifted(remembered(*LIKELY), FakeModel(say))
    assert (held["older"].superseded_by, held["older"].later) == ("newer", ())


@pytest.mark.parametrize("is_honest", [True, False])
def test_a_model_is_believed_only_if_it_agrees_about_what_is_sure(is_honest: bool) -> None:
    rooms = ("cellar", "attic", "garage")
    sure = [(f"{room}-{size}", f"The scans of the {room} take {size} GB.") for size in (80, 300) for room in rooms]

    def say(prompt: str) -> dict[str, Any]:
        lines = [json.loads(line) for line in prompt.splitlines() if line.startswith('{"')]
        later = lines[-1]["later"]
        return {"relations": [claim(one["number"], one["earlier"], later) for one in lines[:-1]]}

    def claim(number: int, earlier: str, later: str) -> dict[str, Any]:
        relation, quotes = "unrelated", ("", "")
        if "rota" in earlier and "rota" in later:
            relation, quotes = "change", ("on paper", "in the kitchen")
        if is_honest and earlier.replace("80", "300") == later:
            relation, quotes = "contradiction", ("80", "300")
        return {"number": number, "relation": relation, "earlier_words": quotes[0], "later_words": quotes[1]}

    held = drifted(remembered(*sure, *LIKELY), FakeModel(say))
    assert (held["older"].superseded_by, held["older"].later) == (("newer", ()) if is_honest else (None, ("newer",)))


def test_a_model_that_does_not_answer_leaves_what_was_found_without_it() -> None:
    source = remembered(*LIKELY)
    held = drifted(source, FakeModel(lambda prompt: LlmUnavailable("gone")))
    assert held["older"].later == ("newer",)


def test_tags_are_no_speakers() -> None:
    source = FakeSource()
    old = memories.fact(
        "My API integration has 65% test coverage.", channel=source.channel, tags=("db",), created_at=MAY_8
    )
    new = memories.fact(
        "The test coverage of my API integration has recently improved to 78%.",
        channel=source.channel,
        tags=("shop",),
        created_at=MAY_8 + timedelta(days=9),
    )
    source.keep(old, new)
    held = facts(dreamt(source))
    assert held[old.text].superseded_by == new.node_id


def test_facts_of_two_clones_of_a_project_are_compared(one_project: tuple[str, str]) -> None:
    own, other = one_project
    older = "My API integration module has 65% test coverage after the first run."
    newer = "The test coverage of my API integration has recently improved to 78%."
    for channels, is_one in (((own, other), True), ((own, "proj-000000"), False)):
        source = FakeSource()
        source.add("s1", ("Ann", older), channel=channels[0])
        source.add("s2", ("Ann", newer), channel=channels[1], at=MAY_8 + timedelta(days=9))
        view = dreamt(source)
        held = {memory.channel: memory for memory in facts(view).values()}
        assert (held[channels[0]].superseded_by == held[channels[1]].node_id) is is_one


def test_clones_that_were_linked_since_are_compared_whole_at_once(one_project: tuple[str, str]) -> None:
    own, other = one_project
    kept = [
        memories.fact(text, channel, created_at=MAY_8 + timedelta(days=days))
        for text, channel, days in (
            ("The test coverage of my API integration module is 65% now.", own, 0),
            ("The test coverage of my API integration has recently improved to 78%.", other, 9),
        )
    ]
    compared = dict.fromkeys(((drift.STAGE, own), (drift.STAGE, other)), int(NOW.timestamp()))
    source = FakeSource()
    source.keep(*kept)
    planned = drift.plan(source.view(History(cursors=compared)), NOW)
    assert {action.node_id for action in planned.actions} == {memory.node_id for memory in kept}
    later = source.view(History(cursors=compared | planned.cursors))
    assert drift.plan(later, NOW + timedelta(days=1)).actions == []
