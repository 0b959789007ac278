"""Synthesis: a page of what comes up again, and the questions that found nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from dreamd.pipelines.settings import MOST_PAGES_ARCHIVED
from dreamd.pipelines.stages import synthesis
from dreamd.pipelines.workspace.snapshot import History
from dreamd.pipelines.workspace.view import View
from dreamd.store import okf
from dreamd.store.model import Action, Kind, Level, Memory
from dreamd.store.okf.file import conformance
from dreamd.store.okf.memory_file import body_hash

from tests.pipelines.fakes import NOW, FakeSource
from tests.pipelines.pages.said import said


def again() -> list[Memory]:
    """Two things that were said in several sessions, and one that was not."""
    return [
        replace(said("Always run the tests first.", "s1#1", Kind.PREFERENCE), sources=("s1#1", "s3#2")),
        replace(said("First staging, then production.", "s1#2", Kind.PROCEDURE), sources=("s1#2", "s4#1")),
        said("No GraphQL.", "s2#1", Kind.NEGATIVE),
    ]


def source_of(*memories: Memory) -> FakeSource:
    source = FakeSource()
    source.keep(*memories)
    return source


def dreamt(source: FakeSource, history: History | None = None) -> tuple[View, list[Action]]:
    view = source.view(history)
    planned = synthesis.plan(view, NOW)
    view.apply(planned.actions, planned.cursors)
    return view, planned.actions


@pytest.fixture(autouse=True)
def only_words_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stub's vectors know no meaning."""
    monkeypatch.setattr(synthesis, "SAME_MATTER", 1.01)


def test_what_comes_up_again_has_a_page_that_cites_its_facts() -> None:
    facts = again()
    source = source_of(*facts)
    _, (action,) = dreamt(source)
    page = okf.to_memory(action.path, okf.parse(action.content or b""))
    assert (page.kind, page.level, page.title) == (Kind.INSIGHT, Level.SCENARIO, synthesis.TITLE)
    assert set(page.sources) == {fact.node_id for fact in facts[:2]}
    assert "“Always run the tests first.”" in page.text
    assert "GraphQL" not in page.text
    assert conformance(action.path, action.content or b"") == []


def test_a_second_week_changes_nothing_and_an_undone_page_is_not_repeated() -> None:
    source = source_of(*again())
    first, actions = dreamt(source)
    undone = History(tombstones=frozenset(action.fingerprint or "" for action in actions))
    assert dreamt(source, undone)[1] == []
    history = source.take(first)
    assert dreamt(source, history)[1] == []
    assert dreamt(source)[1] == []  # without its cursor it compares again, and finds nothing to change


def test_a_page_goes_with_its_facts_and_stays_where_a_person_wrote_on_it() -> None:
    facts = again()
    source = source_of(*facts)
    view, (made,) = dreamt(source)
    source.take(view)
    source.keep(replace(facts[0], sources=("s1#1",)))
    (gone,) = dreamt(source)[1]
    assert okf.parse(gone.content or b"").meta["status"] == "deprecated"
    source.files[made.path] = source.files[made.path].replace(b"staging", b"a dry run")
    assert dreamt(source)[1] == []


def test_themes_of_an_older_dreamd_are_put_away_few_a_run() -> None:
    old = [
        replace(again()[0], node_id=f"old{n}", level=Level.SCENARIO, kind=Kind.INSIGHT, path=f"scenarios/a--old{n}.md")
        for n in range(MOST_PAGES_ARCHIVED + 3)
    ]
    source = source_of(*old, again()[2])
    actions = dreamt(source)[1]
    assert actions == []  # a person may have edited them: no hash of a body says that a dream wrote it
    source.files = {
        path: okf.edit(data, {"body_sha256": body_hash(old[0].text)}) if "old" in path else data
        for path, data in source.files.items()
    }
    assert len(dreamt(source)[1]) == MOST_PAGES_ARCHIVED


def test_nothing_is_synthesised_while_learning_is_off() -> None:
    source = source_of(*again())
    assert dreamt(source, History(paused=True))[1] == []
    assert dreamt(source, History(channels_off=frozenset({"proj"})))[1] == []
