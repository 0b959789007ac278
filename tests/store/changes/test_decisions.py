from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from dreamd.store import okf
from dreamd.store.changes.decisions import Choice, decision_id, with_body
from dreamd.store.changes.links import LinkEdits
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.index.tombstones import pair_key
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import Action, ActionKind, Changeset, InvalidInput, Memory, NotFound
from dreamd.store.okf.file import conformance
from dreamd.store.settings import EmbeddingSettings, StoreSettings
from dreamd.store.text.judging import Relation

from tests import memories

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
SETTINGS = StoreSettings(embedding=EmbeddingSettings(model="stub"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MemoryStore]:
    paths = StorePaths(
        tmp_path / "vault", tmp_path / "ledger.db", tmp_path / "index.db", tmp_path / "vectors.db", tmp_path / "runs"
    )
    ticks = count()
    opened = MemoryStore.open(paths, SETTINGS, StubEmbedder(), lambda: NOW + next(ticks) * timedelta(microseconds=1))
    yield opened
    opened.close()


def fact(text: str, days_ago: int, **fields: Any) -> Memory:
    return memories.fact(text, "shop", created_at=NOW - timedelta(days=days_ago), **fields)


def put(store: MemoryStore, *memories: Memory) -> None:
    actions = tuple(
        Action(
            kind=ActionKind.CREATE, path=m.path, node_id=m.node_id, stage="s", reason="r", content=okf.from_memory(m)
        )
        for m in memories
    )
    assert store.apply(Changeset(run_id=f"put-{memories[0].node_id}", actions=actions)).skipped == ()


def conflicting(store: MemoryStore) -> tuple[Memory, Memory]:
    older = fact("The office is in Oslo.", 90)
    newer = fact("The office is in Bergen.", 2, contradicts=(older.node_id,))
    older = fact("The office is in Oslo.", 90, contradicts=(newer.node_id,))
    put(store, older, newer)
    return older, newer


def meta(store: MemoryStore, memory: Memory) -> dict[str, object]:
    return dict(okf.parse(store.vault.read(memory.path)).meta)


def live(store: MemoryStore, memory: Memory) -> bool:
    return store.show(memory.node_id).live


def test_a_pair_waits_once_with_the_newer_one_named(store: MemoryStore) -> None:
    older, newer = conflicting(store)
    (decision,) = store.decisions()
    assert (decision.older.node_id, decision.newer.node_id) == (older.node_id, newer.node_id)
    assert decision.decision_id == decision_id(newer.node_id, older.node_id)
    assert decision.newer.since == newer.created_at


@pytest.mark.parametrize(
    ("choice", "lives"), [("newer", (False, True)), ("older", (True, False)), ("both", (True, True))]
)
def test_a_choice_settles_it_and_undo_opens_it_again(
    store: MemoryStore, choice: Choice, lives: tuple[bool, bool]
) -> None:
    pair = conflicting(store)
    before = [store.vault.read(memory.path) for memory in pair]
    (decision,) = store.decisions()
    done = store.decide(decision.decision_id, choice, "ann")
    assert store.decisions() == []
    assert tuple(live(store, memory) for memory in pair) == lives
    assert all("contradicts" not in meta(store, memory) for memory in pair)
    vouched = [memory for memory in pair if "verified" in meta(store, memory)]
    assert [memory in vouched for memory in pair] == list(lives)
    for memory in vouched:
        assert "human:ann" in str(meta(store, memory)["verified"])
    assert pair_key(*(memory.node_id for memory in pair)) in store.ledger.tombstones()
    for memory in pair:
        assert conformance(memory.path, store.vault.read(memory.path)) == []

    assert store.undo(done.run_id).skipped == ()
    assert [store.vault.read(memory.path) for memory in pair] == before
    assert len(store.decisions()) == 1
    assert pair_key(*(memory.node_id for memory in pair)) not in store.ledger.tombstones()


def test_keeping_the_newer_one_dates_the_change(store: MemoryStore) -> None:
    older, newer = conflicting(store)
    store.decide(newer.node_id, "newer", "ann")
    assert newer.created_at is not None
    assert meta(store, older)["superseded_by"] == newer.node_id
    assert meta(store, older)["valid_to"] == newer.created_at.isoformat()
    assert meta(store, newer)["supersedes"] == [older.node_id]
    assert meta(store, newer)["valid_from"] == newer.created_at.isoformat()


def test_an_edit_is_the_persons_own_wording_without_its_secrets(store: MemoryStore) -> None:
    older, newer = conflicting(store)
    store.decide(newer.node_id, "edit", "ann", "The office moved to Tromsø. password=hunter2secret")
    shown = store.show(newer.node_id)
    assert shown.text.startswith("The office moved to Tromsø.")
    assert "hunter2secret" not in shown.text
    assert shown.title.startswith("The office moved to Tromsø.")
    assert not live(store, older)


def test_a_decision_that_is_not_open_is_not_found(store: MemoryStore) -> None:
    with pytest.raises(NotFound, match="no decision"):
        store.decide("nothing", "both", "ann")


def test_a_memory_of_two_decisions_is_named_by_the_decisions_id(store: MemoryStore) -> None:
    one, two = fact("It is red.", 3), fact("It is blue.", 2)
    put(store, one, two, fact("It is green.", 1, contradicts=(one.node_id, two.node_id)))
    green = okf.fact_id("shop", "It is green.")
    assert len(store.decisions()) == 2
    with pytest.raises(InvalidInput, match="part of 2"):
        store.decide(green, "both", "ann")
    store.decide(one.node_id, "both", "ann")
    (left,) = store.decisions()
    assert left.older.node_id == two.node_id
    store.decide(left.decision_id, "newer", "ann")
    assert store.decisions() == []


def test_a_superseded_or_twice_verified_pair_is_no_open_decision(store: MemoryStore) -> None:
    other = fact("It is green.", 1)
    gone = fact("It is red.", 3, superseded_by=other.node_id)
    put(store, gone, other, fact("It is blue.", 2, contradicts=(gone.node_id,)))
    vouched = {"verified": [{"by": "human:ann"}]}
    a = fact("It is wide.", 3, extra=vouched)
    put(store, a, fact("It is narrow.", 2, contradicts=(a.node_id,), extra=vouched))
    assert store.decisions() == []


def test_an_archived_memory_comes_back_and_counts_as_used(store: MemoryStore) -> None:
    one = fact("It is red.", 300, archived_at=NOW)
    put(store, one)
    assert not live(store, one)
    before = store.vault.read(one.path)
    restored = store.restore(one.node_id)
    assert live(store, one)
    assert "archived_at" not in meta(store, one)
    assert store.ledger.usage()[one.node_id].last_at >= NOW
    store.undo(restored.run_id)
    assert store.vault.read(one.path) == before


def test_what_was_wrongly_replaced_comes_back_beside_what_replaced_it(store: MemoryStore) -> None:
    newest = fact("It is green.", 1)
    newer = fact("It is red.", 2, superseded_by=newest.node_id)
    older = fact("The door is blue.", 3, superseded_by=newer.node_id)
    put(store, newest, newer, older)
    before = store.vault.read(older.path)
    restored = store.restore(older.node_id)
    assert restored.beside == newest.node_id
    assert live(store, older)
    assert live(store, newest)
    assert not live(store, newer)
    assert pair_key(older.node_id, newer.node_id) in store.ledger.tombstones()
    store.undo(restored.run_id)
    assert store.vault.read(older.path) == before


def test_what_comes_back_is_compared_no_more_with_any_that_took_its_place(store: MemoryStore) -> None:
    newest = fact("It is green.", 1)
    newer = fact("It is red.", 2, superseded_by=newest.node_id)
    older = fact("The door is blue.", 3, superseded_by=newer.node_id, later=(newest.node_id,))
    put(store, newest, newer, older)
    kept_apart = {pair_key(older.node_id, one.node_id) for one in (newer, newest)}
    restored = store.restore(older.node_id)
    assert kept_apart <= store.ledger.tombstones()
    assert "later" not in meta(store, older)
    assert [one.newer.node_id for one in store.marks().marks] == [newest.node_id]
    store.undo(restored.run_id)
    assert not kept_apart & store.ledger.tombstones()


def marked(store: MemoryStore) -> tuple[Memory, Memory, Memory]:
    """Put a fact of which one probably took the place, and a third certainly that of the second's."""
    blue, red, green = (
        fact(f"The door is {colour}.", days) for colour, days in (("blue", 9), ("red", 5), ("green", 1))
    )
    blue, red, green = (
        fact(blue.text, 9, later=(red.node_id,)),
        fact(red.text, 5, superseded_by=green.node_id, valid_to=green.created_at),
        fact(green.text, 1, supersedes=(red.node_id,)),
    )
    put(store, blue, red, green)
    return blue, red, green


def listed(store: MemoryStore) -> list[tuple[str, str, str | None]]:
    return [(one.older.text, one.newer.text, one.mark) for one in store.marks().marks]


def test_marks_of_dreams_are_listed_the_doubtful_first(store: MemoryStore) -> None:
    lamp = fact("The lamp is on.", 2)
    put(store, lamp, fact("The lamp is off.", 4, later=(lamp.node_id,)))
    blue, red, green = marked(store)
    assert listed(store) == [
        ("The lamp is off.", "The lamp is on.", "likely"),
        (red.text, green.text, "replaced"),
    ]  # what is no more changes nothing
    assert store.marks(1, 1).total == 2
    assert [one.mark for one in store.marks(1, 1).marks] == ["replaced"]
    assert store.decisions() == []
    assert live(store, blue)


def test_one_mark_is_taken_back_alone_and_both_stand(store: MemoryStore) -> None:
    _, red, green = marked(store)
    before = [store.vault.read(memory.path) for memory in (red, green)]
    (mark,) = store.marks().marks
    done = store.decide(mark.decision_id, "both", "ann")
    assert live(store, red)
    assert live(store, green)
    assert not {"superseded_by", "valid_to", "verified"} & meta(store, red).keys()
    assert not {"supersedes", "verified"} & meta(store, green).keys()
    assert pair_key(red.node_id, green.node_id) in store.ledger.tombstones()
    assert store.ledger.usage()[red.node_id].last_at >= NOW
    assert listed(store) == [("The door is blue.", "The door is red.", "likely")]

    assert store.undo(done.run_id).skipped == ()
    assert [store.vault.read(memory.path) for memory in (red, green)] == before
    assert listed(store) == [(red.text, green.text, "replaced")]
    assert pair_key(red.node_id, green.node_id) not in store.ledger.tombstones()


def test_a_likely_mark_changes_the_older_file_alone(store: MemoryStore) -> None:
    lamp, lit = fact("The lamp is off.", 4), fact("The lamp is on.", 2)
    put(store, fact(lamp.text, 4, later=(lit.node_id,)), lit)
    before = store.vault.read(lit.path)
    store.decide(lamp.node_id, "both", "ann")
    assert "later" not in meta(store, lamp)
    assert store.vault.read(lit.path) == before
    assert listed(store) == []


@pytest.mark.parametrize(("choice", "lives"), [("newer", (False, True)), ("older", (True, False))])
def test_a_mark_can_be_confirmed_or_turned_round(store: MemoryStore, choice: Choice, lives: tuple[bool, bool]) -> None:
    _, red, green = marked(store)
    (mark,) = store.marks().marks
    store.decide(mark.decision_id, choice, "ann")
    assert (live(store, red), live(store, green)) == lives
    assert [one for one in listed(store) if one[2] == "replaced"] == []


def test_a_mark_that_is_taken_back_is_not_made_again_when_it_is_said_again(store: MemoryStore) -> None:
    (old, new) = ("The deploy runs on Heroku.", "The deploy runs on Fly now, no longer on Heroku.")
    for text in (old, new):
        store.remember(text, channel="shop").result()
        assert store.settle_links()
    (mark,) = store.marks().marks
    assert (mark.older.text, mark.newer.text, mark.mark) == (old, new, "replaced")
    store.decide(mark.decision_id, "both", "ann")
    store.remember(new, channel="shop").result()
    assert store.settle_links()
    assert store.marks().total == 0
    assert all(store.show(node_id).live for node_id in (mark.older.node_id, mark.newer.node_id))


def test_only_what_does_not_hold_can_be_brought_back(store: MemoryStore) -> None:
    living = fact("It is red.", 3)
    put(store, living)
    with pytest.raises(InvalidInput, match="not archived"):
        store.restore(living.node_id)
    with pytest.raises(NotFound):
        store.restore("nobody")


@pytest.mark.parametrize("head", [b"---\ntype: Note\n---\n", b"---\r\ntype: Note\r\n---\r\n", b""])
def test_another_body_leaves_the_frontmatter(head: bytes) -> None:
    assert with_body(head + b"\nold\ntext\n", "new") == head + b"\nnew\n"


def test_a_body_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(InvalidInput):
        with_body(b"---\ntype: Note\n---\n\xff\n", "new")


def archived_by_decay(store: MemoryStore, memory: Memory, run_id: str, days_on: int = 0) -> bool:
    """Archive a memory as the stage decay does; False where that is forbidden."""
    data = store.vault.read(memory.path)
    at = (NOW + timedelta(days=days_on)).isoformat()
    content = okf.edit(data, {"status": "deprecated", "archived_at": at})
    fade = Action.replacing(memory.path, memory.node_id, data, content, stage="decay", reason="it has faded")
    return store.apply(Changeset(run_id=run_id, actions=(fade,))).skipped == ()


def repeated(store: MemoryStore) -> tuple[Memory, Memory]:
    """Have a dream archive a memory as a repetition of another."""
    first, again = fact("The door is blue.", 9), fact("Blue is the door.", 3)
    put(store, first, again)
    edits = LinkEdits(store.vault.read_if_any, "drift")
    edits.link(Relation.SAME, first, again, NOW)
    store.apply(Changeset(run_id="r1", actions=tuple(edits.actions())))
    return first, again


@pytest.mark.parametrize("choice", ["both", "newer"])
def test_a_repetition_is_brought_back_or_stays_archived_for_good(store: MemoryStore, choice: Choice) -> None:
    first, again = repeated(store)
    assert listed(store) == [(first.text, again.text, "same")]
    done = store.decide(again.node_id, choice, "ann")
    assert (live(store, again), listed(store)) == (choice == "both", [])
    assert ("verified" in meta(store, first)) == (choice == "newer")
    if choice == "both":
        edits = LinkEdits(store.vault.read_if_any, "drift")
        edits.link(Relation.SAME, first, again, NOW)
        assert store.apply(Changeset(run_id="r2", actions=tuple(edits.actions()))).applied == 0
        assert live(store, again)
    store.undo(done.run_id)
    assert (live(store, again), len(listed(store))) == (False, 1)


def test_an_archived_memory_is_brought_back_for_good_or_stays_archived(store: MemoryStore) -> None:
    lamp, door = fact("The lamp is off.", 90), fact("The door is blue.", 80)
    put(store, lamp, door)
    assert archived_by_decay(store, lamp, "r1")
    assert archived_by_decay(store, door, "r2")
    assert [one[1:] for one in listed(store)] == [(door.text, "archived"), (lamp.text, "archived")]
    store.decide(lamp.node_id, "both", "ann")
    assert live(store, lamp)
    assert not archived_by_decay(store, lamp, "r3", days_on=90)
    assert live(store, lamp)
    with pytest.raises(InvalidInput):
        store.decide(door.node_id, "edit", "ann", "It is red.")
    store.decide(door.node_id, "newer", "ann")
    assert (live(store, door), listed(store)) == (False, [])


def test_what_a_person_restored_is_no_mark_any_more(store: MemoryStore) -> None:
    lamp = fact("The lamp is off.", 90)
    put(store, lamp)
    archived_by_decay(store, lamp, "r1")
    store.restore(lamp.node_id)
    assert listed(store) == []
