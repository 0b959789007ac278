"""A memory edited by hand: found in its new words at once, undone, and never over somebody else's change."""

from __future__ import annotations

from pathlib import Path

import pytest
from dreamd.store import okf
from dreamd.store.memory import MemoryStore
from dreamd.store.model import (
    Action,
    ActionKind,
    Changeset,
    Conflict,
    Edit,
    InvalidInput,
    Kind,
    NewTurn,
    NodeId,
    SessionHead,
)
from dreamd.store.okf.memory_file import has_known_words

from tests import memories
from tests.store.changes.test_links_and_tags import file_of, kept

OVEN, CELLAR = "The oven is heated at noon.", "The oven is heated at six in the morning."


def written(store: MemoryStore, node_id: NodeId) -> okf.OkfFile:
    return okf.parse(file_of(store, node_id).read_bytes())


def test_new_words_are_found_at_once_and_undone(store: MemoryStore) -> None:
    node_id = kept(store, OVEN)
    before = file_of(store, node_id).read_bytes()
    edited = store.edit(node_id, Edit(text=CELLAR), store.show(node_id).version)
    assert edited.run_id is not None
    assert [hit.text for hit in store.recall("oven heated", channel="shop").hits] == [CELLAR]
    shown = store.show(node_id)
    assert (shown.text, shown.title, shown.version) == (CELLAR, CELLAR.rstrip("."), edited.version)
    meta = written(store, node_id).meta
    assert meta["provenance"] == "user_corrected"
    assert has_known_words(okf.to_memory("facts/a.md", written(store, node_id)))
    store.undo(edited.run_id)
    assert file_of(store, node_id).read_bytes() == before
    assert store.show(node_id).text == OVEN


def test_what_is_saved_as_it_was_is_no_run(store: MemoryStore) -> None:
    node_id = kept(store, OVEN)
    same = Edit(text=f"{OVEN}\n", title=store.show(node_id).title, kind=Kind.NOTE, tags=(), always=0)
    assert store.edit(node_id, same).run_id is None
    assert [run.kind for run in store.runs()] == []


def test_title_kind_tags_and_priority_change_alone(store: MemoryStore) -> None:
    node_id = kept(store, OVEN)
    change = Edit(title="Heating", kind=Kind.PREFERENCE, tags=("oven", "noon"), always=7)
    edited = store.edit(node_id, change)
    assert (edited.title, edited.kind, edited.tags, edited.curated) == ("Heating", Kind.PREFERENCE, ("oven", "noon"), 7)
    assert written(store, node_id).meta["type"] == "Preference"
    assert store.show(node_id).text == OVEN
    assert store.edit(node_id, Edit(always=0)).curated == 0
    assert "curated" not in written(store, node_id).meta


def test_another_change_is_not_written_over(store: MemoryStore) -> None:
    node_id = kept(store, OVEN)
    seen = store.show(node_id).version
    store.edit(node_id, Edit(text=CELLAR))
    with pytest.raises(Conflict, match="has changed since it was shown"):
        store.edit(node_id, Edit(text="The oven is cold."), seen)
    assert store.show(node_id).text == CELLAR


def test_a_link_that_dreamd_adds_is_no_other_change(store: MemoryStore) -> None:
    node_id, other = kept(store, OVEN), kept(store, "Bread rises overnight.")
    seen = store.show(node_id).version
    store.link(node_id, other, "RelatesTo")
    assert store.edit(node_id, Edit(text=CELLAR), seen).run_id is not None
    assert other in file_of(store, node_id).read_text()


def test_a_secret_is_taken_out(store: MemoryStore) -> None:
    node_id = kept(store, OVEN)
    edited = store.edit(node_id, Edit(text="The key of the oven is AKIAIOSFODNN7EXAMPLE, of the AWS account."))
    assert edited.redacted == 1
    assert "AKIA" not in file_of(store, node_id).read_text()


def test_a_page_keeps_its_footnotes_and_counts_as_its_person_s(store: MemoryStore) -> None:
    body = "# Oven\n\n- Heated at noon.[^m1]\n\n[^m1]: [The oven](/facts/oven.md)"
    page = memories.fact(body, title="Oven", kind=Kind.PROFILE)
    data = okf.from_memory(page)
    create = Action(
        kind=ActionKind.CREATE, path=page.path, node_id=page.node_id, stage="profiles", reason="", content=data
    )
    store.apply(Changeset(run_id="r1", actions=(create,)))
    text = store.show(page.node_id).text
    assert "/facts/oven.md" not in text
    store.edit(page.node_id, Edit(text=text.replace("noon", "six")))
    assert "[^m1]: [The oven](/facts/oven.md)" in written(store, page.node_id).body
    assert "Heated at six.[^m1]" in store.show(page.node_id).text


def test_a_person_s_own_note_gets_no_keys(store: MemoryStore) -> None:
    note = Path(store.paths.vault, "garden.md")
    note.write_text("Prune the wisteria in June.\n")
    store.reconcile()
    node_id = store.list()[0].node_id
    store.edit(node_id, Edit(text="Prune the wisteria in February."))
    assert note.read_text() == "Prune the wisteria in February.\n"


def test_a_turn_a_document_and_another_kind_of_page_are_refused(store: MemoryStore) -> None:
    store.observe(SessionHead("talk", "shop"), [NewTurn("user", OVEN)]).result()
    store.put_document(["a"], "b", "value", channel="shop")
    assert store.settle()
    document = next(one for one in store.list(kind=Kind.DOCUMENT))
    for node_id in ("talk#1", document.node_id):
        with pytest.raises(InvalidInput):
            store.edit(node_id, Edit(text="Other words."))
    node_id = kept(store, OVEN)
    with pytest.raises(InvalidInput, match="too long"):
        store.edit(node_id, Edit(text="Heat it. " * 60, always=5))
    with pytest.raises(InvalidInput):
        store.edit(node_id, Edit(text="  "))


def test_an_agent_that_nobody_knows_changes_nothing(store: MemoryStore) -> None:
    node_id = kept(store, OVEN)
    with pytest.raises(InvalidInput, match="not known"):
        store.edit(node_id, Edit(text=CELLAR), agent_id="stranger")
    store.hear_prompt("s1", "codex", "shop", f"No. {CELLAR}")
    assert store.edit(node_id, Edit(text=CELLAR), agent_id="codex", session="s1").run_id is not None
