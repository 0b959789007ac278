"""Refresh: what a run changes of a fact stands on its pages at the end of the same run."""

from __future__ import annotations

from dreamd.pipelines.stages import profiles
from dreamd.pipelines.workspace.view import View
from dreamd.store import okf
from dreamd.store.model import Action, ActionKind, Kind, Memory

from tests.pipelines.fakes import NOW, FakeSource
from tests.pipelines.pages.said import said

FACTS = [said(f"We take the {thing} for the boat.", f"s1#{n}", Kind.DECISION) for n, thing in enumerate("abcd", 1)]


def dreamt() -> tuple[FakeSource, View]:
    source = FakeSource()
    source.add("s1", *(("user", fact.text) for fact in FACTS))
    source.titles["s1"] = "Fitting out the boat"
    source.keep(*FACTS)
    view = source.view()
    planned = profiles.refresh(view, NOW)
    view.apply(planned.actions, planned.cursors)
    assert len(view.actions) == 2
    return source, source.view(source.take(view), "run-2")


def changed(view: View, fact: Memory, **changes: object) -> None:
    content = okf.edit(view.read(fact.path) or b"", changes)
    kind = ActionKind.REPLACE
    view.apply([Action(kind=kind, path=fact.path, node_id=fact.node_id, stage="drift", reason="", content=content)])


def test_a_replaced_fact_is_marked_on_its_pages_in_the_same_run() -> None:
    _, view = dreamt()
    changed(view, FACTS[0], superseded_by=FACTS[3].node_id)
    planned = profiles.refresh(view, NOW)
    view.apply(planned.actions, planned.cursors)
    assert len(planned.actions) == 2
    assert all(b"~~" in (action.content or b"") for action in planned.actions)
    assert profiles.refresh(view, NOW).actions == []


def test_a_faded_fact_leaves_its_pages_in_the_same_run() -> None:
    _, view = dreamt()
    changed(view, FACTS[0], status="deprecated", archived_at=NOW.isoformat())
    planned = profiles.refresh(view, NOW)
    assert len(planned.actions) == 2
    assert all(FACTS[0].node_id.encode() not in (action.content or b"") for action in planned.actions)


def test_pages_without_facts_are_put_away_once() -> None:
    _, view = dreamt()
    for fact in FACTS:
        changed(view, fact, status="deprecated", archived_at=NOW.isoformat())
    planned = profiles.refresh(view, NOW)
    view.apply(planned.actions, planned.cursors)
    assert view.memories() == []
    assert len(planned.actions) == 2
    assert profiles.refresh(view, NOW).actions == []
