"""Undo of single memories of a run, and redo: the rest stays, pages lose the lines, and tombstones follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dreamd.store import okf
from dreamd.store.index.tombstones import fingerprint
from dreamd.store.memory import MemoryStore
from dreamd.store.model import (
    Action,
    ActionKind,
    Changeset,
    Edit,
    InvalidInput,
    Kind,
    Level,
    Memory,
    NewTurn,
    NotFound,
    SessionHead,
)
from dreamd.store.okf.memory_file import BY_HAND, body_hash

from tests import memories
from tests.store.changes.test_links_and_tags import file_of, kept

OVEN, BREAD = memories.fact("The oven is heated at noon."), memories.fact("Bread rises overnight.")


def created(memory: Memory) -> Action:
    data = okf.from_memory(memory, {OVEN.node_id: OVEN.path, BREAD.node_id: BREAD.path})
    return Action(
        kind=ActionKind.CREATE, path=memory.path, node_id=memory.node_id, stage="consolidate", reason="it was said",
        content=data, fingerprint=fingerprint(memory),
    )  # fmt: skip


def page(cites: Sequence[Memory] = (OVEN, BREAD)) -> Memory:
    lines = [f"- {one.text}[^m{number}]" for number, one in enumerate(cites, 1)]
    notes = [f"[^m{number}]: [{one.title}](/{one.path})" for number, one in enumerate(cites, 1)]
    text = "\n".join(("# Bakery", "", *lines, "", *notes))
    about: dict[str, Any] = {
        "level": Level.SCENARIO,
        "kind": Kind.SCENARIO,
        "title": "Bakery",
        "path": "scenarios/bakery.md",
    }
    found = replace(memories.fact(text), sources=tuple(one.node_id for one in cites), node_id="page", **about)
    return replace(found, extra={BY_HAND: body_hash(text)})


@pytest.fixture
def dreamt(store: MemoryStore) -> MemoryStore:
    store.apply(Changeset(run_id="r1", actions=(created(OVEN), created(BREAD), created(page()))))
    assert store.settle()
    return store


def contents(store: MemoryStore) -> dict[str, bytes]:
    paths = [path for path in Path(store.paths.vault).rglob("*.md") if path.parent.name in ("facts", "scenarios")]
    return {path.name: path.read_bytes() for path in paths}


def test_one_memory_of_a_dream_is_taken_back_and_the_rest_stays(dreamt: MemoryStore) -> None:
    undone = dreamt.undo("r1", [OVEN.node_id])
    assert (undone.restored, undone.skipped, undone.left) == (1, (), 2)
    assert dreamt.run("r1").state == "partly_undone"
    with pytest.raises(NotFound):
        dreamt.show(OVEN.node_id)
    assert dreamt.show(BREAD.node_id).live
    text = dreamt.show("page").text
    assert (OVEN.text in text, BREAD.text in text) == (False, True)
    assert dreamt.ledger.tombstones() >= {fingerprint(OVEN)}
    (refused,) = dreamt.apply(Changeset(run_id="r2", actions=(created(OVEN),))).skipped
    assert "undone" in refused.reason


def test_a_memory_is_done_again_with_its_lines_of_a_page(dreamt: MemoryStore) -> None:
    before = contents(dreamt)
    dreamt.undo("r1", [OVEN.node_id])
    redone = dreamt.redo("r1", [OVEN.node_id])
    assert (redone.restored, redone.skipped, redone.left) == (1, (), 0)
    assert contents(dreamt) == before
    assert (dreamt.run("r1").state, dreamt.run("r1").undone_at) == ("applied", None)
    assert dreamt.ledger.tombstones() == set()
    assert dreamt.redo("r1").restored == 0


def test_the_whole_run_is_undone_after_a_part_of_it_and_done_again(dreamt: MemoryStore) -> None:
    before = contents(dreamt)
    dreamt.undo("r1", [OVEN.node_id])
    assert dreamt.undo("r1").skipped == ()
    assert contents(dreamt) == {}
    assert dreamt.run("r1").state == "undone"
    redone = dreamt.redo("r1", [BREAD.node_id])
    assert (redone.restored, redone.left, dreamt.run("r1").state) == (1, 2, "partly_undone")
    assert dreamt.redo("r1").skipped == ()
    assert contents(dreamt) == before


def test_the_undo_of_an_undo_is_a_redo(dreamt: MemoryStore) -> None:
    before = contents(dreamt)
    dreamt.undo("r1", [OVEN.node_id])
    (undo,) = dreamt.runs(kinds=["undo"])
    assert dreamt.undo(undo.run_id, [OVEN.node_id]).restored == 1
    assert contents(dreamt) == before


def test_a_fact_that_another_rests_on_stays(dreamt: MemoryStore) -> None:
    other = replace(memories.fact("Rye is milled."), sources=(OVEN.node_id,))
    dreamt.apply(Changeset(run_id="r2", actions=(created(other),)))
    (refused,) = dreamt.undo("r1", [OVEN.node_id]).skipped
    assert refused.reason == f"{other.path} rests on it"
    assert OVEN.text in dreamt.show("page").text


def test_a_page_that_a_person_edited_keeps_its_lines_and_their_fact(dreamt: MemoryStore) -> None:
    dreamt.edit("page", Edit(text=dreamt.show("page").text + "\nMine."))
    assert [one.path for one in dreamt.undo("r1", [OVEN.node_id]).skipped] == [OVEN.path]


def test_a_memory_that_the_run_did_not_change_is_named(dreamt: MemoryStore) -> None:
    with pytest.raises(NotFound, match="no change of nowhere") as error:
        dreamt.undo("r1", ["nowhere"])
    assert OVEN.node_id in error.value.hint


def test_what_changed_since_the_undo_is_not_written_over(dreamt: MemoryStore) -> None:
    dreamt.undo("r1")
    path = Path(dreamt.paths.vault, OVEN.path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("---\ntype: Note\n---\n\nSomebody wrote this instead.\n")
    dreamt.reconcile()
    redone = dreamt.redo("r1")
    assert [one.path for one in redone.skipped] == [OVEN.path]
    assert "Somebody" in path.read_text()
    assert redone.left == 1


def test_what_a_person_did_is_done_again(store: MemoryStore) -> None:
    older, newer = kept(store, "The oven is heated at noon."), kept(store, "Heating begins when the baker comes in.")
    run_id = store.link(newer, older, "Supersedes").run_id
    assert run_id is not None
    store.undo(run_id)
    store.redo(run_id)
    assert store.show(older).superseded_by == newer
    forgotten = store.forget(newer).run_id
    assert store.show(older).live
    store.undo(forgotten)
    assert store.ledger.tombstones() >= set()
    store.redo(forgotten)
    assert store.show(older).live
    with pytest.raises(NotFound):
        store.show(newer)
    assert store.forget(newer).run_id == forgotten


def test_a_turn_that_was_forgotten_is_hidden_again(store: MemoryStore) -> None:
    store.observe(SessionHead("talk", "shop"), [NewTurn("user", "The oven is heated at noon.")]).result()
    run_id = store.forget("talk#1").run_id
    store.undo(run_id)
    assert store.show("talk#1").text != "[forgotten]"
    assert store.redo(run_id).turns == 1
    assert store.show("talk#1").text == "[forgotten]"


def test_a_successor_that_is_done_again_takes_its_place_again(store: MemoryStore) -> None:
    old = kept(store, "The oven is heated at noon.", "proj")
    store.apply(Changeset(run_id="r1", actions=(created(BREAD),)))
    store.link(BREAD.node_id, old, "Supersedes")
    before = file_of(store, old).read_bytes()
    store.undo("r1")
    assert store.show(old).live
    store.redo("r1")
    assert (store.show(old).superseded_by, file_of(store, old).read_bytes()) == (BREAD.node_id, before)
    assert store.show(BREAD.node_id).supersedes == (old,)


def test_a_skill_is_not_made_again(store: MemoryStore) -> None:
    draft = replace(page(), kind=Kind.PROCEDURE, tags=("strategy", "skill-draft"))
    store.apply(Changeset(run_id="r1", actions=(created(OVEN), created(BREAD), created(draft))))
    decided = store.mark_skill("page", {"path": "/x/SKILL.md", "sha256": "0"})
    store.undo(decided.run_id)
    with pytest.raises(InvalidInput, match="outside of the vault"):
        store.redo(decided.run_id)
