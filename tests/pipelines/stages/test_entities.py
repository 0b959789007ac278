"""Entities: the pages of people and things that a dream proposes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from dreamd.pipelines.gate.action_checks import ActionChecker
from dreamd.pipelines.grounding.relations import NOT_STATED
from dreamd.pipelines.stages import entities
from dreamd.pipelines.workspace.snapshot import History
from dreamd.store import okf
from dreamd.store.model import Action, Memory
from dreamd.store.okf.entity_page import BY_PERSON, EntityPage, EntityType, RelationType, entity_of
from dreamd.store.okf.file import conformance

from tests.pipelines.fakes import NOW, FakeSource
from tests.pipelines.grounding.test_relations import judging

OWNS = ("user", "Torbjørn Lium, he's head of operations. Torbjørn owns the order rules.")
LATER = ("user", "ask torbjorn about the deadline. Emil Rønning owns the order rules now.")


def dreamt(source: FakeSource, history: History | None = None) -> tuple[History, list[Action]]:
    view = source.view(history)
    planned = entities.plan(view, NOW)
    assert ActionChecker(view, NOW).check(planned.actions)[0] == []
    view.apply(planned.actions, planned.cursors)
    return source.take(view), planned.actions


def pages(source: FakeSource) -> dict[str, tuple[Memory, EntityPage]]:
    found = {}
    for path, data in source.files.items():
        memory = okf.to_memory(path, okf.parse(data))
        page = entity_of(memory)
        if page is not None:
            assert conformance(path, data) == []
            found[page.name] = (memory, page)
    return found


def test_a_person_has_a_page_with_names_relations_and_mentions() -> None:
    source = FakeSource()
    source.add("s1", OWNS)
    source.add("s2", LATER)
    dreamt(source)
    memory, page = pages(source)["Torbjørn Lium"]
    assert (page.type, page.mentions) == (EntityType.PERSON, ("s1#1", "s2#1"))
    assert "torbjorn" in page.aliases
    owns = next(one for one in page.relations if one.object == "order rules")
    assert (owns.relation, owns.turn, owns.ended_by) == (RelationType.OWNS, "s1#1", "s2#1")
    assert owns.words == "Torbjørn owns the order rules."
    assert memory.path.startswith("projects/proj/people/torbjorn-lium-")
    assert "owns order rules" in memory.text
    assert all(one.words in OWNS[1] for one in page.relations)
    (now,) = pages(source)["Emil Rønning"][1].relations
    assert (now.object, now.until) == ("order rules", None)


def test_a_session_that_has_not_grown_changes_nothing() -> None:
    source = FakeSource()
    source.add("s1", OWNS)
    history, _ = dreamt(source)
    assert dreamt(source, history)[1] == []
    source.add("s2", LATER)
    _, actions = dreamt(source, history)
    assert {action.pre_sha256 is None for action in actions} == {True, False}  # one page is new, one goes on


def test_questions_doubts_and_denials_state_no_relation() -> None:
    for said in (
        "Does Anna Berg own the mirror?",
        "Maybe Anna Berg owns the mirror.",
        "Anna Berg does not own it, nobody owns the mirror.",
    ):
        source = FakeSource()
        source.add("s1", ("user", f"Anna Berg called. {said}"), ("assistant", "Anna Berg owns the mirror."))
        dreamt(source)
        assert pages(source)["Anna Berg"][1].relations == ()


def test_names_that_a_person_split_stay_apart() -> None:
    source = FakeSource()
    source.add("s1", ("user", "Beatriz Moreira called, and Beatriz asked for the key."))
    history, _ = dreamt(source)
    memory, page = pages(source)["Beatriz Moreira"]
    assert page.aliases == ("Beatriz",)
    apart = {**EntityPage(page.name, page.type, (), ("Beatriz",)).as_keys(), BY_PERSON: "human:owner"}
    other = {**EntityPage("Beatriz", page.type, (), ("Beatriz Moreira",)).as_keys(), BY_PERSON: "human:owner"}
    data = source.files[memory.path]
    source.files[memory.path] = okf.edit(data, apart)
    source.files["people/proj/beatriz--x.md"] = okf.edit(data, {**other, "node_id": "split-off", "title": "Beatriz"})
    source.add("s2", ("user", "Beatriz said the key is back."))
    dreamt(source, history)
    found = pages(source)
    assert found["Beatriz Moreira"][1].aliases == ()
    assert found["Beatriz"][1].mentions == ("s1#1", "s2#1")


def deny(source: FakeSource, name: str, statement: str, at: datetime) -> None:
    """Take a relation off a page as `dreamctl deny` does."""
    memory, page = pages(source)[name]
    (gone,) = (one for one in page.relations if one.statement == statement)
    left = tuple(one for one in page.relations if one is not gone)
    page = replace(page, relations=left, not_relations=(replace(gone, words="", until=at, ended_by=None),))
    source.files[memory.path] = okf.edit(source.files[memory.path], page.as_keys())


def test_a_relation_that_a_person_denied_stays_away_until_it_is_said_again() -> None:
    source = FakeSource()
    source.add("s1", OWNS)
    source.add("s2", LATER)
    history, _ = dreamt(source)
    deny(source, "Emil Rønning", "Emil Rønning owns order rules", NOW)
    source.add("s2", LATER, ("user", "Emil Rønning called about the invoices."))
    history, _ = dreamt(source, history)
    found = pages(source)
    assert found["Emil Rønning"][1].relations == ()
    assert "owns order rules" not in found["Emil Rønning"][0].text
    # What the denied relation had ended holds again.
    assert [(one.object, one.until) for one in found["Torbjørn Lium"][1].relations if one.object == "order rules"] == [
        ("order rules", None)
    ]
    history, _ = dreamt(source, None)  # every turn is read once more
    assert pages(source)["Emil Rønning"][1].relations == ()
    assert len(pages(source)["Emil Rønning"][1].not_relations) == 1
    source.add("s3", ("user", "Emil Rønning owns the order rules now."), at=NOW + timedelta(days=1))
    dreamt(source, history)
    assert [one.turn for one in pages(source)["Emil Rønning"][1].relations] == ["s3#1"]


def test_the_text_of_a_page_that_a_person_edited_stays() -> None:
    source = FakeSource()
    source.add("s1", OWNS)
    history, _ = dreamt(source)
    memory, _ = pages(source)["Torbjørn Lium"]
    source.files[memory.path] = source.files[memory.path].replace(b"# Torbj", b"My own words.\n\n# Torbj")
    source.add("s2", LATER)
    dreamt(source, history)
    memory, page = pages(source)["Torbjørn Lium"]
    assert "My own words." in memory.text
    assert page.mentions == ("s1#1", "s2#1")


def test_a_language_model_takes_back_a_relation() -> None:
    source = FakeSource()
    source.add("s1", OWNS)
    view = source.view()
    view.model, model = judging(lambda one: NOT_STATED, lambda one, name: "")
    planned = entities.plan(view, NOW)
    view.apply(planned.actions, planned.cursors)
    source.take(view)
    assert len(model.prompts) == 1
    assert pages(source)["Torbjørn Lium"][1].relations == ()


def test_a_person_typed_in_lower_case_has_a_name_with_capitals() -> None:
    source = FakeSource()
    source.add("s1", ("user", "jan van der berg owns payments now. ask jan about it."))
    source.add("s2", ("user", "jan van der berg called, he wants the report by friday."))
    dreamt(source)
    memory, page = pages(source)["Jan van der Berg"]
    assert page.mentions == ("s1#1", "s2#1")
    assert memory.text.startswith("# Jan van der Berg\n")


def test_a_thing_of_which_nothing_can_be_quoted_has_no_page() -> None:
    source = FakeSource()
    said = [("user", f"“infra”: {words}") for words in ("Terraform is slow today", "then try Terraform again")]
    source.add("s1", *said, ("assistant", "Terraform is set up."))
    history, _ = dreamt(source)
    assert pages(source) == {}
    source.add("s2", *(("user", words.removeprefix("“infra”: ")) for _, words in said))
    dreamt(source, history)
    assert "“Terraform is slow today”" in pages(source)["Terraform"][0].text
