"""Links and tags by hand, and what an agent learned: edits of files that can be undone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from dreamd.store import okf
from dreamd.store.filters import Condition, fold_tag
from dreamd.store.memory import MemoryStore
from dreamd.store.model import Action, Changeset, Conflict, InvalidInput, Kind, NotFound
from dreamd.store.purge.plan import Selection
from dreamd.store.results import LinkLine

from tests.store.purge.purging import places_with, talk


def kept(store: MemoryStore, text: str, channel: str = "shop") -> str:
    node_id = store.remember(text, channel=channel).result()
    assert store.settle_links()
    return node_id


def file_of(store: MemoryStore, node_id: str) -> Path:
    return store.paths.vault / store.show(node_id).path


def test_a_relation_is_written_once_and_undone(store: MemoryStore) -> None:
    one, other = kept(store, "The oven is heated at noon."), kept(store, "Bread rises overnight in the cellar.")
    before = file_of(store, one).read_bytes()
    linked = store.link(one, other, "RelatesTo")
    assert linked.run_id is not None
    assert other in file_of(store, one).read_text()
    assert store.settle()
    assert list(store.catalog.links(one, "relates")) == [other]
    assert store.show(one).links == (LinkLine(other, "Bread rises overnight in the cellar.", "RelatesTo", out=True),)
    assert store.show(other).links == (LinkLine(one, "The oven is heated at noon.", "RelatesTo", out=False),)
    assert store.link(one, other, "RelatesTo").run_id is None
    store.undo(linked.run_id)
    assert file_of(store, one).read_bytes() == before
    assert store.link(one, other, "RelatesTo").run_id is not None


def test_what_takes_another_s_place_holds(store: MemoryStore) -> None:
    older, newer = kept(store, "The oven is heated at noon."), kept(store, "Heating begins when the baker comes in.")
    run_id = store.link(newer, older, "Supersedes").run_id
    assert not store.show(older).live
    assert store.show(older).superseded_by == newer
    assert run_id is not None
    store.undo(run_id)
    assert store.show(older).live


def test_what_was_replaced_does_not_replace_its_successor(store: MemoryStore) -> None:
    texts = "The oven is heated at noon.", "Heating begins when the baker comes in.", "Rye is milled on Mondays."
    oldest, older, newer = (kept(store, text) for text in texts)
    store.link(older, oldest, "Supersedes")
    store.link(newer, older, "Supersedes")
    for replaced in (oldest, older):
        with pytest.raises(InvalidInput, match=f"{newer} has taken the place of {replaced}"):
            store.link(replaced, newer, "Supersedes")
    assert store.show(newer).live


def test_a_contradiction_waits_for_a_person(store: MemoryStore) -> None:
    one, other = kept(store, "The oven is heated at noon."), kept(store, "Bread rises overnight in the cellar.")
    store.link(one, other, "Contradicts")
    assert len(store.decisions()) == 1


def test_what_cannot_be_linked_is_refused(store: MemoryStore) -> None:
    one, far = kept(store, "The oven is heated at noon."), kept(store, "Roses are cut in March.", "garden")
    everywhere = kept(store, "Ines is the baker.", "_global")
    talk(store, "s1", ["We heat the oven"])
    (store.paths.vault / "mine.md").write_text("A page of mine.\n")
    store.reconcile()
    mine = next(one.node_id for one in store.list() if store.show(one.node_id).path == "mine.md")
    for source, target in ((one, far), (one, one), ("s1#1", one), (mine, one)):
        with pytest.raises(InvalidInput):
            store.link(source, target, "RelatesTo")
    with pytest.raises(InvalidInput):
        store.link(one, "s1#1", "Supersedes")
    with pytest.raises(NotFound):
        store.link(one, "nowhere", "RelatesTo")
    assert store.link(one, "s1#1", "RelatesTo").run_id
    assert store.link(one, everywhere, "RelatesTo").run_id
    assert (store.paths.vault / "mine.md").read_text() == "A page of mine.\n"


def test_tags_are_added_and_taken_away(store: MemoryStore) -> None:
    node_id = store.remember("The oven is heated at noon.", channel="shop", tags=["oven"]).result()
    tagged = store.tag(node_id, ["bread", "oven"], ["nothing"])
    assert tagged.tags == ("oven", "bread")
    assert store.show(node_id).tags == ("oven", "bread")
    assert store.tag(node_id, ["bread"]).run_id is None
    assert store.tag(node_id, remove=["oven", "bread"]).tags == ()
    assert tagged.run_id is not None
    with pytest.raises(InvalidInput):
        store.tag(node_id, ["two\nlines"])
    with pytest.raises(InvalidInput, match="65 tags"):
        store.tag(node_id, [f"t{n}" for n in range(65)])


def test_a_tag_holds_no_secret(store: MemoryStore, tmp_path: Path) -> None:
    key = "gh" + "p_" + "aB3dE5fG7h" * 4
    store.tag(kept(store, "The oven is heated at noon."), [key])
    assert places_with(tmp_path, [key.lower()]) == []


def test_a_file_that_is_edited_meanwhile_stays(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    node_id = kept(store, "The oven is heated at noon.")
    path = file_of(store, node_id)
    steps = store.operations.runs.changes._steps

    def edited_first(*args: object, **kwargs: object) -> object:
        path.write_text(path.read_text() + "\nAnd again at six.\n")
        return steps(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(store.operations.runs.changes, "_steps", edited_first)
    with pytest.raises(Conflict):
        store.tag(node_id, ["oven"])
    assert "And again at six." in path.read_text()


def linked_first(store: MemoryStore, node_id: str, times: int) -> Callable[..., object]:
    """Return a reading of the planned steps after which a link run changes the memory's file, so many times."""
    changes, steps, turns = store.operations.runs.changes, store.operations.runs.changes._steps, iter(range(times))
    path = store.show(node_id).path

    def then_linked(*args: object, **kwargs: object) -> object:
        read = steps(*args, **kwargs)  # type: ignore[arg-type]
        if (turn := next(turns, None)) is not None:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(changes, "_steps", steps)
                before = file_of(store, node_id).read_bytes()
                after = okf.edit(before, {"later": [f"newer{turn}"]})
                action = Action.replacing(path, node_id, before, after, stage="link", reason="a newer one")
                store.apply(Changeset(run_id=f"link-{turn}", actions=(action,)), kind="link")
        return read

    return then_linked


CORRECTIONS: list[Callable[[MemoryStore, str, str], object]] = [
    lambda store, one, other: store.tag(one, ["oven"]),
    lambda store, one, other: store.curate(one, 3),
    lambda store, one, other: store.link(other, one, "Supersedes"),
    lambda store, one, other: store.forget(one),
]


@pytest.mark.parametrize("correct", CORRECTIONS)
def test_a_link_run_in_between_is_planned_around(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, correct: Callable[[MemoryStore, str, str], object]
) -> None:
    one, other = kept(store, "The oven is heated at noon."), kept(store, "Bread rises overnight in the cellar.")
    path = file_of(store, one)
    monkeypatch.setattr(store.operations.runs.changes, "_steps", linked_first(store, one, 2))
    correct(store, one, other)
    assert not path.exists() or "newer1" in path.read_text()
    (run_id,) = (run.run_id for run in store.runs() if run.kind in {"edit", "forget"})
    store.undo(run_id)
    meta = okf.parse(path.read_bytes()).meta
    assert meta["later"] == ["newer1"]
    assert not {"tags", "curated", "superseded_by"} & meta.keys()


def test_a_change_that_is_overtaken_again_and_again_is_refused_whole(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = kept(store, "The oven is heated at noon."), kept(store, "Bread rises overnight in the cellar.")
    before = file_of(store, other).read_bytes()
    monkeypatch.setattr(store.operations.runs.changes, "_steps", linked_first(store, one, 3))
    with pytest.raises(Conflict, match="dreamd itself"):
        store.link(other, one, "Supersedes")
    assert file_of(store, other).read_bytes() == before


def test_what_was_learned_is_kept_once_with_its_session(store: MemoryStore) -> None:
    talk(store, "s1", ["Please move the orders"])
    assert store.settle()
    learned = [
        (Kind.PROCEDURE, "Dump the orders with pg_dump before the move."),
        (Kind.NEGATIVE, "A live copy failed: the triggers fire twice."),
    ]
    first = store.reflect("s1", "shop", learned)
    assert [(one.kind, one.known) for one in first] == [(Kind.PROCEDURE, False), (Kind.NEGATIVE, False)]
    assert [one.known for one in store.reflect("s2", "shop", learned)] == [True, True]
    text = file_of(store, first[0].node_id).read_text()
    assert "provenance: inferred" in text
    assert "session_id: s1" in text
    assert "resource: /sessions/" in text
    assert store.recall("how are the orders dumped with pg_dump", channel="shop").hits[0].node_id == first[0].node_id


def test_what_was_learned_in_a_session_is_purged_with_it(store: MemoryStore, tmp_path: Path) -> None:
    talk(store, "s1", ["Please move the orders"])
    store.reflect("s1", "shop", [(Kind.PROCEDURE, "Dump the quasarine orders before the move.")])
    store.reflect("s2", "shop", [(Kind.PROCEDURE, "Weed the zephyrhall beds in March.")])
    store.purge(Selection(nodes=("s1",)))
    assert places_with(tmp_path, ["quasarine"]) == []
    assert places_with(tmp_path, ["zephyrhall"])


def test_spellings_of_a_tag_are_counted_as_one(store: MemoryStore) -> None:
    tags = ["Build-Tools"], ["build_tool", "#rye"], ["build-tools", "Build tools"], ["rye"], ["aws"]
    kept_as = [store.remember(f"Statement number {n}.", channel="shop", tags=of) for n, of in enumerate(tags)]
    ids = [future.result() for future in kept_as]
    store.remember("Elsewhere.", channel="mill", tags=["rye"]).result()
    assert store.settle()
    counted = {fold_tag(one.tag): one.memories for one in store.tags(channel="shop")}
    assert counted == {"build tool": 3, "rye": 2, "aws": 1}
    where = (Condition("tags", "in", (fold_tag("Build tool"),)),)
    assert {one.node_id for one in store.list(channel="shop", where=where)} == set(ids[:3])
    assert [one.memories for one in store.tags(channel=None, where=where)] == [3, 1]
    store.forget(ids[0])
    assert {fold_tag(one.tag): one.memories for one in store.tags(channel="shop")}["build tool"] == 2
