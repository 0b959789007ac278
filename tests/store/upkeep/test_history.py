"""The history of a node: every change with its reason and its run, and what was told and used of it."""

from __future__ import annotations

from datetime import datetime

import pytest
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.ledger.records import record_feedback, set_flag
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import Changeset, Edit, NewTurn, NotFound, SessionHead
from dreamd.store.purge.plan import Selection
from dreamd.store.results import Use
from dreamd.store.settings import StoreSettings

from tests.store.changes.test_links_and_tags import kept
from tests.store.changes.test_redo import BREAD, OVEN, created
from tests.store.conftest import NOW

Told = list[tuple[str, str, str]]


def told(store: MemoryStore, node_id: str) -> Told:
    return [(event.what, event.who, event.why) for event in store.history(node_id)]


def test_each_change_says_who_made_it_and_why(store: MemoryStore) -> None:
    store.apply(Changeset(run_id="r1", actions=(created(OVEN), created(BREAD))))
    store.link(BREAD.node_id, OVEN.node_id, "Supersedes")
    edited = store.edit(BREAD.node_id, Edit(text="Bread rises for two nights."))
    assert told(store, BREAD.node_id) == [
        ("kept", "dream", "consolidate: it was said"),
        ("replaced another", "you", "it changes an older fact"),
        ("edited", "you", "a person edited it"),
    ]
    assert told(store, OVEN.node_id)[1] == ("replaced", "you", "a newer fact changes it")
    assert store.history(BREAD.node_id)[-1].run_id == edited.run_id
    assert edited.run_id is not None
    store.undo(edited.run_id)
    store.redo(edited.run_id)
    assert [what for what, _, _ in told(store, BREAD.node_id)][-2:] == ["undone", "done again"]


def test_what_was_remembered_told_and_judged(store: MemoryStore) -> None:
    node_id = kept(store, "The oven is heated at noon.")
    kept(store, "The oven is heated at noon.")
    store.told.note_answer(
        "s1", "shop", "codex", "recall", "The oven is heated", 9, nodes=[("The oven", node_id)], asked=""
    )
    store.feedback(node_id, "not-useful")
    store.core.writer.write(set_flag("flushed")).result()
    assert {*told(store, node_id)} >= {
        ("kept", "", "user stated"),
        ("said again", "", ""),
        ("told", "codex", "at recall of session s1, and not useful"),
        ("judged", "", "not useful"),
    }


def test_a_memory_that_is_gone_has_its_history(store: MemoryStore) -> None:
    node_id = kept(store, "The oven is heated at noon.")
    store.forget(node_id, "it is not true")
    assert told(store, node_id)[-1] == ("forgotten", "you", "it is not true")
    with pytest.raises(NotFound):
        store.history("nowhere")


def test_a_turn_was_kept_when_it_was_said(store: MemoryStore) -> None:
    at = datetime(2026, 3, 2, tzinfo=NOW.tzinfo)
    store.observe(SessionHead("talk", "shop"), [NewTurn("user", "Yes.", at)]).result()
    (event,) = store.history("talk#1")
    assert (event.at, event.what, event.who) == (at, "kept", "user")


@pytest.mark.parametrize(("level", "rows"), [("off", 0), ("writes", 0), ("reads", 1), ("verbose", 1)])
def test_answers_are_recorded_where_the_settings_ask_for_it(paths: StorePaths, level: str, rows: int) -> None:
    settings = StoreSettings.model_validate({"history": level})
    store = MemoryStore.open(paths, settings, StubEmbedder(), lambda: NOW)
    try:
        node_id = kept(store, "The oven is heated at noon.")
        store.recall("when is the oven heated", channel="shop", agent="codex")
        store.core.writer.write(set_flag("flushed")).result()  # the rows that are written later go with it
        found = [event for event in store.history(node_id) if event.what == "recalled"]
        asked = "when is the oven heated" if level == "verbose" else ""
        assert [(event.who, event.why) for event in found] == [("codex", asked)] * rows
        store.purge_questions()
        assert {event.why for event in store.history(node_id) if event.what == "recalled"} <= {""}
        store.purge(Selection(nodes=(node_id,)))
        assert store.ledger.ask("SELECT count(*) FROM event")[0][0] == 0
    finally:
        store.close()


def test_a_memory_is_shown_with_how_it_is_known_and_its_use(store: MemoryStore) -> None:
    node_id = kept(store, "The oven is heated at noon.")
    shown = store.show(node_id)
    assert (shown.provenance, shown.use) == ("user_stated", Use())
    assert shown.certainty is not None
    kept(store, "The oven is heated at noon.")
    (hit,) = store.recall("when is the oven heated?", channel="shop").hits
    assert hit.certainty == shown.certainty
    store.core.writer.write(record_feedback(node_id, "used", NOW)).result()
    assert store.show(node_id).use == Use(told=1, told_at=NOW, used=1, again=1)
