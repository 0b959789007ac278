"""What was said last is found: again, after something took its place, and after what took it was taken back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from dreamd.daemon.cli.query_commands import shown_in_words
from dreamd.daemon.formatting import Look
from dreamd.store import okf
from dreamd.store.changes.run_kinds import AppliedRun
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import Action, ActionKind, Changeset, InvalidInput, Kind, Level, Memory
from dreamd.store.settings import StoreSettings

from tests.ipc.methods import as_answered

START = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
BERLIN, MADRID, ROME = "My office is in Berlin", "My office is in Madrid now", "My office is in Rome now"


@pytest.fixture
def store(paths: StorePaths) -> Iterator[MemoryStore]:
    hours = count()
    opened = MemoryStore.open(paths, StoreSettings(), StubEmbedder(), lambda: START + next(hours) * timedelta(hours=1))
    yield opened
    opened.close()


def say(store: MemoryStore, text: str) -> str:
    node_id = store.remember(text).result()
    assert store.settle_links(60)
    return node_id


def found(store: MemoryStore, query: str = "Where is my office?") -> set[str]:
    return {hit.node_id for hit in store.recall(query, limit=50).hits}


def last_run(store: MemoryStore, kind: str) -> str:
    return store.runs(1, kinds=[kind])[0].run_id


def test_a_superseded_memory_said_again_supersedes_its_successor(store: MemoryStore) -> None:
    berlin, madrid = say(store, BERLIN), say(store, MADRID)
    assert found(store) == {madrid}
    kept = store.keep(BERLIN).result()
    assert (kept.node_id, kept.novelty) == (berlin, "again")
    assert store.settle_links(60)
    assert found(store) == {berlin}
    again = store.vault.read(store.show(berlin).path)
    assert okf.parse(again).meta["supersedes"] == [madrid]
    assert {"superseded_by", "valid_to"}.isdisjoint(okf.parse(again).meta)
    assert say(store, MADRID) == madrid
    assert found(store) == {madrid}
    store.undo(last_run(store, "remember"))
    assert found(store) == {berlin}


def test_a_superseded_memory_said_again_supersedes_the_last_successor(store: MemoryStore) -> None:
    berlin, madrid, rome = say(store, BERLIN), say(store, MADRID), say(store, ROME)
    assert found(store) == {rome}
    say(store, BERLIN)
    assert found(store) == {berlin}
    assert not store.show(madrid).live
    store.forget(berlin)
    assert found(store) == {rome}


def test_show_names_the_successor_and_what_contradicts_a_memory(store: MemoryStore) -> None:
    berlin, madrid = say(store, BERLIN), say(store, MADRID)
    assert (store.show(berlin).superseded_by, store.show(madrid).supersedes) == (madrid, (berlin,))
    assert store.show(madrid).superseded_by is None
    submitted = say(store, "I submitted my cover letter to Greg for a review.")
    never = say(store, "I have never submitted my cover letter to Greg.")
    assert (store.show(submitted).contradicts, store.show(never).contradicts) == ((never,), (submitted,))
    words = "\n".join(shown_in_words(as_answered(store.show(berlin)), Look(100, False, START)))
    assert f"replaced by  {madrid}" in words
    words = "\n".join(shown_in_words(as_answered(store.show(never)), Look(100, False, START)))
    assert f"disputed by  {submitted}" in words
    store.forget(madrid)
    assert (store.show(berlin).superseded_by, store.show(berlin).live) == (None, True)


def test_recall_as_of_a_time_finds_what_held_then(store: MemoryStore) -> None:
    say(store, BERLIN)
    madrid = say(store, MADRID)
    then = store.core.now()
    berlin = say(store, BERLIN)
    assert [hit.node_id for hit in store.recall("Where is my office?", as_of=then).hits] == [madrid]
    assert [hit.node_id for hit in store.recall("Where is my office?", as_of=store.core.now()).hits] == [berlin]


def test_a_live_memory_said_again_is_reinforced_without_a_run(store: MemoryStore) -> None:
    berlin = say(store, BERLIN)
    before = store.vault.read(store.show(berlin).path)
    for _ in range(3):
        say(store, BERLIN)
    assert store.ledger.reinforced()[berlin].times == 3
    assert store.vault.read(store.show(berlin).path) == before
    assert store.runs() == []


def test_what_is_read_again_from_elsewhere_is_not_said_again(store: MemoryStore) -> None:
    store.remember(BERLIN, created_at=START - timedelta(days=9)).result()
    assert store.settle_links(60)
    madrid = say(store, MADRID)
    store.remember(BERLIN, created_at=START - timedelta(days=9)).result()
    assert store.settle_links(60)
    assert found(store) == {madrid}
    assert store.ledger.reinforced() == {}


def test_a_repetition_in_other_words_reinforces_the_known_memory_each_time(store: MemoryStore) -> None:
    first, again = say(store, "Ann's bicycle is really red."), say(store, "Ann's bicycle is red")
    assert say(store, "Ann's bicycle is red") == again
    assert found(store, "Ann's bicycle") == {first}
    assert store.ledger.reinforced()[first].times == 2


def test_a_repetition_slower_than_any_clock_is_none(store: MemoryStore) -> None:
    """Each call of this clock takes an hour: what is new is compared all the same."""
    say(store, BERLIN)
    assert found(store) - {say(store, MADRID)} == {okf.fact_id("_global", BERLIN)}
    assert len(found(store)) == 1


def test_forgetting_the_newer_brings_the_older_back_and_undo_takes_it_away_again(store: MemoryStore) -> None:
    berlin, madrid = say(store, BERLIN), say(store, MADRID)
    before = {node: store.vault.read(store.show(node).path) for node in (berlin, madrid)}
    forgotten = store.forget(madrid)
    assert found(store) == {berlin}
    assert {"superseded_by", "valid_to"}.isdisjoint(okf.parse(store.vault.read(store.show(berlin).path)).meta)
    assert store.undo(forgotten.run_id).skipped == ()
    assert found(store) == {madrid}
    assert {node: store.vault.read(store.show(node).path) for node in (berlin, madrid)} == before


def test_forgetting_one_in_the_middle_lets_the_last_stand(store: MemoryStore) -> None:
    berlin, madrid, rome = say(store, BERLIN), say(store, MADRID), say(store, ROME)
    store.forget(madrid)
    assert found(store) == {rome}
    assert okf.parse(store.vault.read(store.show(berlin).path)).meta["superseded_by"] == rome
    assert okf.parse(store.vault.read(store.show(rome).path)).meta["supersedes"] == [berlin]
    store.forget(rome)
    assert found(store) == {berlin}


def test_undoing_the_run_that_made_the_newer_brings_the_older_back(store: MemoryStore) -> None:
    node_id = okf.fact_id("_global", MADRID)
    path = okf.path_for(Level.FACT, MADRID, node_id)
    madrid = Memory(
        node_id=node_id, level=Level.FACT, kind=Kind.FACT, title=MADRID, text=MADRID, path=path, channel="_global",
        created_at=START, run="dream",
    )  # fmt: skip
    create = Action(
        kind=ActionKind.CREATE, path=path, node_id=node_id, stage="s", reason="r", content=okf.from_memory(madrid)
    )
    berlin = say(store, BERLIN)
    store.apply(Changeset(run_id="dream", actions=(create,)))
    older = store.vault.read(store.show(berlin).path)
    link = okf.edit(older, {"superseded_by": node_id, "valid_to": START.isoformat()})
    shown = store.show(berlin)
    tie = Action.replacing(shown.path, berlin, older, link, stage="link", reason="r")
    newer = okf.edit(store.vault.read(path), {"supersedes": [berlin]})
    back = Action.replacing(path, node_id, store.vault.read(path), newer, stage="link", reason="r")
    store.apply(Changeset(run_id="linked", actions=(tie, back)), kind="link")
    assert found(store) == {node_id}
    undone = store.undo("dream")
    assert (undone.restored, undone.skipped) == (1, ())
    assert found(store) == {berlin}
    assert "superseded_by" not in okf.parse(store.vault.read(shown.path)).meta


def test_a_run_is_undone_though_what_it_made_was_said_again_and_linked_since(store: MemoryStore) -> None:
    node_id = okf.fact_id("_global", BERLIN)
    fact = Memory(
        node_id=node_id, level=Level.FACT, kind=Kind.FACT, title=BERLIN, text=BERLIN, channel="_global", run="dream",
        path=okf.path_for(Level.FACT, BERLIN, node_id), created_at=START,
    )  # fmt: skip
    content = okf.from_memory(fact)
    create = Action(kind=ActionKind.CREATE, path=fact.path, node_id=node_id, stage="s", reason="r", content=content)
    store.apply(Changeset(run_id="dream", actions=(create,)))
    say(store, BERLIN)
    madrid = say(store, MADRID)
    assert found(store) == {madrid}
    undone = store.undo("dream")
    assert (undone.restored, undone.skipped) == (1, ())
    assert store.catalog.node(node_id) is None


def test_a_file_deleted_by_hand_hides_nothing(store: MemoryStore) -> None:
    berlin, madrid = say(store, BERLIN), say(store, MADRID)
    path = store.show(madrid).path
    (store.paths.vault / path).unlink()
    store.file_changed([path])
    store.settle_deletions()
    assert found(store) == {berlin}
    assert store.restore(berlin).node_id == berlin
    assert "superseded_by" not in okf.parse(store.vault.read(store.show(berlin).path)).meta


@pytest.mark.parametrize("texts", [(BERLIN, MADRID), (BERLIN, MADRID, ROME)])
def test_what_was_replaced_can_be_had_beside_what_replaced_it_or_instead(
    store: MemoryStore, texts: tuple[str, ...]
) -> None:
    oldest, *others = (say(store, text) for text in texts)
    restored = store.restore(oldest)
    assert restored.beside == others[-1]
    assert found(store) == {oldest, others[-1]}
    store.forget(others[-1])
    assert oldest in found(store)
    with pytest.raises(InvalidInput, match="not archived") as refused:
        store.restore(oldest)
    assert f"`dreamctl show {oldest}`" in refused.value.hint


def test_who_changes_their_mind_after_a_decision_is_heard(store: MemoryStore) -> None:
    submitted = say(store, "I submitted my cover letter to Greg for a review.")
    never = say(store, "I have never submitted my cover letter to Greg.")
    (decision,) = store.decisions()
    store.decide(decision.decision_id, "older", "ann")
    assert found(store, "cover letter Greg") == {submitted}
    say(store, "I have never submitted my cover letter to Greg.")
    assert found(store, "cover letter Greg") == {never}


def test_what_a_person_reworded_can_be_said_in_its_old_words(store: MemoryStore) -> None:
    say(store, "I submitted my cover letter to Greg for a review.")
    never = say(store, "I have never submitted my cover letter to Greg.")
    (decision,) = store.decisions()
    store.decide(decision.decision_id, "edit", "ann", "I gave the cover letter to Tom.")
    again = say(store, "I have never submitted my cover letter to Greg.")
    assert again != never
    assert again in found(store, "cover letter Greg never submitted")
    assert store.show(again).text == "I have never submitted my cover letter to Greg."
    assert say(store, "I have never submitted my cover letter to Greg.") == again


def test_what_was_said_again_while_a_dream_was_planned_is_not_put_away_by_it(store: MemoryStore) -> None:
    berlin, madrid = say(store, BERLIN), say(store, "The cat is called Madrid.")
    began = store.core.now()
    path = store.show(berlin).path
    before = store.vault.read(path)
    hide = Action.replacing(
        path, berlin, before, okf.edit(before, {"superseded_by": madrid}), stage="drift", reason="changed since"
    )
    say(store, BERLIN)
    applied = store.apply(Changeset(run_id="dream", actions=(hide,)), started_at=began)
    assert [refused.reason for refused in applied.skipped] == ["it was said again in the meantime"]
    assert berlin in found(store)


def test_what_was_said_again_while_the_newer_was_looked_at_holds(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    berlin, apply = say(store, BERLIN), store.operations.runs.apply

    def meanwhile(changeset: Changeset, **options: Any) -> AppliedRun:
        if not store.ledger.reinforced():
            store.remember(BERLIN).result()
        return apply(changeset, **options)

    monkeypatch.setattr(store.operations.runs, "apply", meanwhile)
    store.remember(MADRID).result()
    assert store.settle_links(60)
    assert found(store) == {berlin}


def test_a_dream_that_did_nothing_of_what_it_read_reads_it_again(store: MemoryStore) -> None:
    berlin = say(store, BERLIN)
    path = store.show(berlin).path
    before = store.vault.read(path)
    gone = Action.replacing(path, berlin, b"other", okf.edit(before, {"tags": ["x"]}), stage="s", reason="r")
    store.apply(Changeset(run_id="dream", actions=(gone,), cursors={("consolidate", "s1"): 7}))
    assert store.ledger.cursors("consolidate") == {}
    store.apply(Changeset(run_id="dream-2", cursors={("consolidate", "s1"): 7}))
    assert store.ledger.cursors("consolidate") == {"s1": 7}
