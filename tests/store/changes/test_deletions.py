"""Deletions by hand: nothing acknowledged is unlearned without a person's word, or a run that gives it back."""

from __future__ import annotations

import itertools
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import apsw
import hypothesis.strategies as st
import pytest
from dreamd.store.changes.run_kinds import HISTORY_DAYS, LEARNED_FROM, Expired
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.ledger.journal import sha256
from dreamd.store.ledger.records import Run
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import Action, ActionKind, Changeset, Conflict, NewTurn, NotFound, SessionHead
from dreamd.store.settings import StoreSettings
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.examples import examples
from tests.store.conftest import NOW

SETTLED_S = 60.0


class Clock:
    """A clock on which no two looks show the same."""

    def __init__(self) -> None:
        self._ticks = itertools.count()
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return NOW + self.ahead + timedelta(milliseconds=next(self._ticks))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def open_store(paths: StorePaths, clock: Clock) -> Iterator[Callable[[], MemoryStore]]:
    with ExitStack() as stack:

        def open_() -> MemoryStore:
            store = MemoryStore.open(paths, StoreSettings(), StubEmbedder(), clock)
            stack.callback(store.close)
            return store

        yield open_


def shelves(store: MemoryStore, count: int) -> list[str]:
    """Remember so much; return the paths, in order."""
    ids = [store.remember(f"Shelf {n} holds screws of size {n}").result() for n in range(count)]
    assert store.settle_links(SETTLED_S)
    return [store.show(node_id).path for node_id in ids]


def ferry(store: MemoryStore, *numbers: int) -> str:
    """Observe these turns, one at a time; return the path of their session."""
    for n in numbers:
        turn = NewTurn("user", f"The ferry of pier {n} leaves at {n}", external_id=str(n))
        store.observe(SessionHead("s1", "_global"), [turn]).result()
        store.settle(SETTLED_S)
    return store.show("s1").path


def take(store: MemoryStore, *paths: str) -> dict[str, bytes]:
    """Delete files by hand, as the watcher tells it; return what they held."""
    root = store.paths.vault
    held = {path: (root / path).read_bytes() for path in paths}
    for path in paths:
        (root / path).unlink()
    store.file_changed(paths)
    return held


def put_back(store: MemoryStore, files: dict[str, bytes]) -> None:
    for path, data in files.items():
        (store.paths.vault / path).write_bytes(data)
    store.file_changed(list(files))


def deletions(store: MemoryStore) -> list[Run]:
    return [run for run in store.runs(100) if run.kind == "deleted"]


def known(store: MemoryStore) -> set[str]:
    store.settle(60)
    return {node.path for node in store.catalog.listing()}


def named_in_check(store: MemoryStore) -> set[str]:
    return {problem.path for problem in store.check()}


def know_no_bytes(paths: StorePaths) -> None:
    """Leave the index as one that an older version made."""
    index = apsw.Connection(str(paths.index))
    index.execute("DELETE FROM image")
    index.close()


# ---- withheld


def test_many_files_gone_at_once_are_withheld_until_they_are_accepted(store: MemoryStore) -> None:
    paths = shelves(store, 20)
    take(store, *paths[:12])
    assert named_in_check(store) == set(paths[:12])
    assert any(paths[0] in problem and "--accept" in problem for problem in store.status().problems)
    assert len(store.recall("screws", limit=50).hits) == 20
    store.check(accept=True)
    assert known(store) == set(paths[12:])
    assert store.status().problems == []


def test_what_stays_away_when_the_rest_comes_back_stays_withheld(store: MemoryStore) -> None:
    paths = shelves(store, 12)
    held = take(store, *paths)
    put_back(store, {path: held[path] for path in paths[:10]})
    store.settle_deletions()
    assert named_in_check(store) == set(paths[10:])
    assert known(store) == set(paths)
    assert deletions(store) == []


def test_one_more_that_vanishes_does_not_let_go_of_what_is_withheld(store: MemoryStore) -> None:
    paths = shelves(store, 14)
    held = take(store, *paths[:12])
    put_back(store, {path: held[path] for path in paths[:10]})
    take(store, paths[13])
    store.settle_deletions()
    assert named_in_check(store) == set(paths[10:12])
    assert known(store) == set(paths[:13])
    assert [run.summary["note"] for run in deletions(store)] == ["1 file was deleted by hand"]


def test_what_is_withheld_survives_a_restart_and_a_rebuild(
    store: MemoryStore, open_store: Callable[[], MemoryStore]
) -> None:
    paths = shelves(store, 12)
    held = take(store, *paths)
    put_back(store, {path: held[path] for path in paths[:10]})
    store.close()
    again = open_store()
    again.settle_deletions()
    assert named_in_check(again) == set(paths[10:])
    again.rebuild()
    assert named_in_check(again) == set(paths[10:])
    assert known(again) == set(paths)
    assert len(again.recall("screws", limit=50).hits) == 12


def test_what_is_withheld_is_found_in_an_index_that_was_lost(
    store: MemoryStore, open_store: Callable[[], MemoryStore], paths: StorePaths
) -> None:
    files = shelves(store, 12)
    take(store, *files)
    store.close()
    shutil.rmtree(paths.index.parent)
    assert known(open_store()) == set(files)


def test_what_was_withheld_and_accepted_comes_back_with_its_run(store: MemoryStore) -> None:
    paths = shelves(store, 12)
    held = take(store, *paths)
    told = store.check(accept=True)
    (run,) = deletions(store)
    assert run.summary["note"] == "12 files were deleted by hand"
    assert [problem.problem for problem in told if f"dreamctl undo {run.run_id}" in problem.problem]
    assert not [problem for problem in store.check() if "accepted" in problem.problem]
    assert store.undo(run.run_id).restored == 12
    assert {path: (store.paths.vault / path).read_bytes() for path in paths} == held
    assert known(store) == set(paths)


def test_more_files_than_one_transaction_takes_are_one_run(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dreamd.store.changes.deletions.AT_ONCE", 5)
    paths = shelves(store, 12)
    take(store, *paths)
    store.check(accept=True)
    (run,) = deletions(store)
    assert (len(store.ledger.actions(run.run_id)), store.undo(run.run_id).restored) == (12, 12)


def test_a_withheld_memory_comes_back_by_its_id(store: MemoryStore) -> None:
    paths = shelves(store, 12)
    held = take(store, *paths)
    node_id = store.catalog.nodes_of_file(paths[3])[0].node_id
    store.restore(node_id)
    assert (store.paths.vault / paths[3]).read_bytes() == held[paths[3]]
    assert named_in_check(store) == set(paths) - {paths[3]}


def test_a_memory_comes_back_though_the_index_has_not_followed_its_deletion(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = shelves(store, 1)
    node_id = store.catalog.nodes_of_file(path)[0].node_id
    monkeypatch.setattr(store.operations.deletions, "_unlearn", lambda paths: None)
    held = take(store, path)
    store.settle_deletions()
    assert [run.summary["deleted"] for run in deletions(store)] == [1]
    store.restore(node_id)
    assert (store.paths.vault / path).read_bytes() == held[path]
    assert store.ledger.tombstones() == set()


def test_a_deletion_whose_bytes_are_not_known_is_withheld(store: MemoryStore, paths: StorePaths) -> None:
    files = shelves(store, 3)
    store.settle()
    know_no_bytes(paths)
    take(store, files[0])
    store.settle_deletions()
    assert named_in_check(store) == {files[0]}
    assert known(store) == set(files)
    store.check(accept=True)
    assert known(store) == set(files[1:])


def test_an_index_of_an_older_version_learns_what_the_files_hold(
    store: MemoryStore, open_store: Callable[[], MemoryStore], paths: StorePaths
) -> None:
    files = shelves(store, 3)
    store.close()
    know_no_bytes(paths)
    again = open_store()
    assert again.settle(60)
    held = take(again, files[0])
    again.settle_deletions()
    again.undo(deletions(again)[0].run_id)
    assert (paths.vault / files[0]).read_bytes() == held[files[0]]


def test_nothing_is_judged_while_the_vault_is_not_marked(store: MemoryStore) -> None:
    paths = shelves(store, 3)
    store.vault.marker.unlink()
    take(store, paths[0])
    store.settle_deletions()
    assert known(store) == set(paths)
    assert any("not marked as a vault" in problem for problem in store.status().problems)


@pytest.mark.parametrize("given_up", ["made by older rules", "of a newer version"])
@pytest.mark.parametrize("bytes_are_known", [True, False])
def test_what_vanished_unseen_is_known_though_the_index_is_made_anew(
    store: MemoryStore,
    open_store: Callable[[], MemoryStore],
    paths: StorePaths,
    monkeypatch: pytest.MonkeyPatch,
    given_up: str,
    bytes_are_known: bool,
) -> None:
    files = shelves(store, 3)
    store.close()
    if not bytes_are_known:
        know_no_bytes(paths)
    if given_up == "made by older rules":
        monkeypatch.setattr("dreamd.store.index.open_index.PROJECTION_VERSION", 99)
    else:
        with closing(apsw.Connection(str(paths.index))) as index:
            index.execute("PRAGMA user_version = 999")
    (paths.vault / files[0]).unlink()
    (paths.vault / files[1]).rename(paths.vault / "general/notes/moved.md")
    again = open_store()
    again.settle_deletions()
    assert known(again) == {"general/notes/moved.md", files[2]}
    if bytes_are_known:
        (run,) = deletions(again)
        assert again.undo(run.run_id).restored == 1
        assert known(again) == {files[0], "general/notes/moved.md", files[2]}
    else:
        assert named_in_check(again) == {files[0]}


# ---- deleted


def test_a_deletion_by_hand_is_a_run_that_undo_takes_back(store: MemoryStore) -> None:
    paths = shelves(store, 3)
    held = take(store, paths[1])
    store.settle_deletions()
    assert known(store) == {paths[0], paths[2]}
    (run,) = deletions(store)
    assert store.undo(run.run_id).restored == 1
    assert (store.paths.vault / paths[1]).read_bytes() == held[paths[1]]
    assert known(store) == set(paths)


def test_a_deletion_while_nobody_looked_is_a_run_as_well(
    store: MemoryStore, open_store: Callable[[], MemoryStore]
) -> None:
    paths = shelves(store, 3)
    store.close()
    (store.paths.vault / paths[0]).unlink()
    again = open_store()
    again.settle_deletions()
    assert known(again) == set(paths[1:])
    assert len(deletions(again)) == 1


def test_it_is_taken_in_a_moment_without_being_asked(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dreamd.store.changes.deletions.SETTLE_S", 0.05)
    paths = shelves(store, 2)
    recorded = []
    monkeypatch.setattr(store.core.tombstones, "read", lambda: recorded.append(known(store)))
    take(store, paths[0])
    timer = store.operations.deletions._timer
    while timer is not None:
        timer.join(SETTLED_S)
        timer = store.operations.deletions._timer
    assert recorded == [{paths[1]}]


def test_three_files_gone_at_once_are_one_run(store: MemoryStore) -> None:
    paths = shelves(store, 6)
    take(store, *paths[:3])
    store.settle_deletions()
    (run,) = deletions(store)
    assert [action.path for action in store.ledger.actions(run.run_id)] == sorted(paths[:3])


def test_a_deleted_session_comes_back_turn_by_turn(store: MemoryStore) -> None:
    path = ferry(store, *range(5))  # its bytes are known in pieces
    held = take(store, path)
    store.settle_deletions()
    with pytest.raises(NotFound):
        store.show("s1#3")
    store.undo(deletions(store)[0].run_id)
    assert (store.paths.vault / path).read_bytes() == held[path]
    assert [turn.ordinal for turn in store.catalog.turns("s1")] == [1, 2, 3, 4, 5]


def test_a_session_deleted_while_it_goes_on_is_a_run_before_its_file_is_made_anew(store: MemoryStore) -> None:
    path = ferry(store, 1, 2, 3)
    full = store.paths.vault / path
    held = full.read_bytes()
    full.unlink()
    ferry(store, 4)  # before the watcher has told
    store.settle_deletions()
    assert [turn.external_id for turn in store.catalog.turns("s1")] == ["4"]
    (run,) = deletions(store)
    assert [refused.path for refused in store.undo(run.run_id).skipped] == [path]
    full.unlink()
    assert store.undo(run.run_id).restored == 1
    assert full.read_bytes() == held


def test_a_withheld_session_that_goes_on_is_back(store: MemoryStore) -> None:
    path = ferry(store, 1, 2, 3)
    held = take(store, path, *shelves(store, 12))
    ferry(store, 4)
    store.settle_deletions()
    assert (store.paths.vault / path).read_bytes().startswith(held[path])
    assert [turn.external_id for turn in store.catalog.turns("s1")] == ["1", "2", "3", "4"]
    assert path not in named_in_check(store)
    assert deletions(store) == []


def test_a_deleted_memory_comes_back_by_its_id(store: MemoryStore) -> None:
    node_id = store.remember("The boat is green").result()
    path = store.show(node_id).path
    held = take(store, path)
    store.settle_deletions()
    restored = store.restore(node_id)
    assert (store.paths.vault / path).read_bytes() == held[path]
    assert store.show(node_id).live
    assert store.ledger.tombstones() == set()
    store.undo(restored.run_id)
    with pytest.raises(NotFound):
        store.show(node_id)


def test_a_deletion_forbids_dreams_what_a_forgetting_does_until_it_is_undone(store: MemoryStore) -> None:
    node_id = store.remember("The boat is green").result()
    path = store.show(node_id).path
    forgotten = store.forget(node_id)
    left = store.ledger.tombstones()
    store.undo(forgotten.run_id)
    take(store, path)
    store.settle_deletions()
    assert store.ledger.tombstones() == left != set()
    store.undo(deletions(store)[0].run_id)
    assert store.ledger.tombstones() == set()


def test_what_was_deleted_may_be_remembered_again_and_then_undo_names_the_file(store: MemoryStore) -> None:
    node_id = store.remember("The boat is green").result()
    path = store.show(node_id).path
    take(store, path)
    store.settle_deletions()
    (run,) = deletions(store)
    assert store.remember("The boat is green").result() == node_id
    assert store.show(node_id).live
    undone = store.undo(run.run_id)
    assert [(refused.path, undone.restored) for refused in undone.skipped] == [(path, 0)]
    assert store.show(node_id).live


def test_a_place_that_is_taken_meanwhile_is_a_named_conflict(store: MemoryStore) -> None:
    node_id = store.remember("The boat is green").result()
    path = store.show(node_id).path
    take(store, path)
    store.settle_deletions()
    (store.paths.vault / path).write_text("Something else is here now.\n")
    with pytest.raises(Conflict, match=path):
        store.restore(node_id)
    (refused,) = store.undo(deletions(store)[0].run_id).skipped
    assert refused.path == path
    assert (store.paths.vault / path).read_text() == "Something else is here now.\n"


def test_what_we_delete_ourselves_is_no_deletion_by_hand(
    store: MemoryStore, open_store: Callable[[], MemoryStore]
) -> None:
    paths = shelves(store, 3)
    node_id = store.catalog.nodes_of_file(paths[0])[0].node_id
    forgotten = store.forget(node_id)
    with pytest.raises(NotFound):
        store.show(node_id)
    store.undo(forgotten.run_id)
    store.forget(node_id)
    store.settle_deletions()
    store.close()
    again = open_store()
    again.settle_deletions()
    assert deletions(again) == []


def test_a_crash_between_the_run_and_the_index_makes_no_second_run(
    store: MemoryStore, open_store: Callable[[], MemoryStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = shelves(store, 3)
    monkeypatch.setattr(store.index, "unlearn", lambda paths: None)
    take(store, paths[0])
    store.settle_deletions()
    store.close()
    again = open_store()
    again.settle_deletions()
    assert known(again) == set(paths[1:])
    assert len(deletions(again)) == 1


def test_its_content_goes_with_the_history(store: MemoryStore, clock: Clock) -> None:
    paths = shelves(store, 2)
    take(store, paths[0])
    store.settle_deletions()
    clock.ahead = timedelta(days=HISTORY_DAYS + 1)
    store.tidy()
    with pytest.raises(Expired):
        store.undo(deletions(store)[0].run_id)


def test_a_file_that_is_left_blank_is_deleted(store: MemoryStore) -> None:
    paths = shelves(store, 3)
    held = (store.paths.vault / paths[1]).read_bytes()
    (store.paths.vault / paths[1]).write_bytes(b"")
    store.file_changed([paths[1]])
    store.settle_deletions()
    assert known(store) == {paths[0], paths[2]}
    (run,) = deletions(store)
    assert store.undo(run.run_id).restored == 1
    assert (store.paths.vault / paths[1]).read_bytes() == held
    assert known(store) == set(paths)


def test_a_session_that_is_left_blank_is_a_run_before_its_file_is_made_anew(store: MemoryStore) -> None:
    path = ferry(store, 1, 2, 3)
    (store.paths.vault / path).write_bytes(b"")
    ferry(store, 4)  # before the watcher has told
    store.settle_deletions()
    assert [turn.external_id for turn in store.catalog.turns("s1")] == ["4"]
    assert len(deletions(store)) == 1


# ---- what is no deletion


@pytest.mark.parametrize("read", [b"", None], ids=["blank", "gone"])
def test_a_file_that_is_being_saved_keeps_what_is_known_of_it(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, read: bytes | None
) -> None:
    """An editor saves in place, or removes and writes anew, between the look at the file and its reading."""
    paths = shelves(store, 2)
    node = store.catalog.nodes_of_file(paths[0])[0]
    full = store.paths.vault / paths[0]
    saved = full.read_bytes().replace(b"screws", b"brass hooks")
    full.write_bytes(saved)
    of_disk = store.vault.disk.read

    def amid_saving(path: Path, from_offset: int = 0, most_bytes: int = -1) -> bytes:
        if path != full:
            return of_disk(path, from_offset, most_bytes)
        if read is None:
            raise FileNotFoundError(path)
        return read

    with monkeypatch.context() as saving:
        saving.setattr(store.vault.disk, "read", amid_saving)
        store.reconcile()
    assert store.catalog.nodes_of_file(paths[0]) == [node]
    store.reconcile()
    store.settle_deletions()
    assert "brass hooks" in store.catalog.nodes_of_file(paths[0])[0].text
    assert deletions(store) == []


def test_a_file_that_is_blank_for_a_moment_keeps_what_is_known_of_it(store: MemoryStore) -> None:
    paths = shelves(store, 2)
    held = (store.paths.vault / paths[0]).read_bytes()
    (store.paths.vault / paths[0]).write_bytes(b"")
    store.file_changed([paths[0]])
    assert known(store) == set(paths)
    put_back(store, {paths[0]: held})
    store.settle_deletions()
    assert known(store) == set(paths)
    assert deletions(store) == []


def test_a_file_that_is_removed_and_written_anew_is_edited(store: MemoryStore) -> None:
    paths = shelves(store, 2)
    held = take(store, paths[0])
    assert known(store) == set(paths)
    put_back(store, {paths[0]: held[paths[0]].replace(b"screws", b"brass hooks")})
    store.settle_deletions()
    assert deletions(store) == []
    assert "brass hooks" in store.catalog.nodes_of_file(paths[0])[0].text


@pytest.mark.parametrize("halves", [1, 2], ids=["in one burst", "in two"])
def test_a_move_is_no_deletion(store: MemoryStore, halves: int) -> None:
    paths = shelves(store, 2)
    node = store.catalog.nodes_of_file(paths[0])[0]
    (store.paths.vault / "kept").mkdir()
    (store.paths.vault / paths[0]).rename(store.paths.vault / "kept/shelf.md")
    for told in [[paths[0], "kept/shelf.md"]] if halves == 1 else [[paths[0]], ["kept/shelf.md"]]:
        store.file_changed(told)
    store.settle_deletions()
    assert deletions(store) == []
    assert store.show(node.node_id).path == "kept/shelf.md"
    assert store.ledger.tombstones() == set()


def test_a_note_without_an_id_may_move_as_well(store: MemoryStore) -> None:
    note = store.paths.vault / "notes/kettle.md"
    note.parent.mkdir()
    note.write_text("Descale the kettle in March.\n")
    store.file_changed(["notes/kettle.md"])
    note.rename(note.with_name("tea.md"))
    store.file_changed(["notes/kettle.md", "notes/tea.md"])
    store.settle_deletions()
    assert known(store) == {"notes/tea.md"}
    assert deletions(store) == []


def test_a_copy_takes_the_place_of_what_was_deleted_first(store: MemoryStore) -> None:
    (path,) = shelves(store, 1)
    node = store.catalog.nodes_of_file(path)[0]
    shutil.copy(store.paths.vault / path, store.paths.vault / "general/notes/zz-copy.md")
    store.file_changed(["general/notes/zz-copy.md"])
    take(store, path)
    store.settle_deletions()
    assert deletions(store) == []
    assert store.show(node.node_id).path == "general/notes/zz-copy.md"


def test_derived_files_are_nobodys_loss(store: MemoryStore) -> None:
    shelves(store, 1)
    store.write_derived({"index.md": "# Memory\n"})
    store.settle()
    (store.paths.vault / "index.md").unlink()
    store.file_changed(["index.md"])
    store.settle_deletions()
    assert deletions(store) == []


# ---- the property

SAID = st.integers(0, 30)
QUICKLY = tuple(phase for phase in Phase if phase is not Phase.explain)  # it traces every line: four times as long


class Hands(RuleBasedStateMachine):
    """A person's hands in the vault, at random; at the end every run of theirs is taken back, and all must be known."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="dreamd-hands-")
        root = Path(self.folder.name)
        self.paths = StorePaths(root / "vault", root / "l.db", root / "i.db", root / "e.db", root / "runs")
        self.clock = Clock()
        self.store = self.open()
        self.acknowledged: dict[str, str] = {}
        self.saved: dict[str, bytes] = {}  # what a person could put back from elsewhere
        self.touched: set[str] = set()  # and nobody has told the store yet
        self.names = itertools.count()
        self.accepted = False

    def open(self) -> MemoryStore:
        return MemoryStore.open(self.paths, StoreSettings(), StubEmbedder(), self.clock)

    def teardown(self) -> None:
        try:
            self.tell()
            self.decide()
            self.nothing_is_lost()
        finally:
            self.store.close()
            self.folder.cleanup()

    def nothing_is_lost(self) -> None:
        for node_id in self.acknowledged:
            if self.store.catalog.node(node_id) is None:
                self.store.restore(node_id)
            assert self.store.show(node_id, wanted=False).node_id == node_id
        withheld = set(self.store.operations.deletions.withheld)
        there = {stamp.path for stamp in self.store.vault.walk()}
        assert known(self.store) <= there | withheld

    def files(self) -> list[str]:
        return sorted(stamp.path for stamp in self.store.vault.walk())

    @initialize(count=st.integers(1, 16))
    def begin(self, count: int) -> None:
        for n in range(count):
            self.remember(n)

    @rule(n=SAID)
    def remember(self, n: int) -> None:
        text = f"Locker {n} belongs to number {n * 7}"
        self.acknowledged[self.store.remember(text).result()] = text
        assert self.store.settle_links(SETTLED_S)

    @precondition(lambda self: self.files())
    @rule(seed=st.integers(0, 99), share=st.sampled_from([0.0, 0.1, 0.9, 1.0]))
    def delete(self, seed: int, share: float) -> None:
        files = self.files()
        chosen = random.Random(seed).sample(files, max(1, round(share * len(files))))
        for path in chosen:
            full = self.paths.vault / path
            self.saved[path] = full.read_bytes()
            full.unlink()
        self.touched |= set(chosen)

    @precondition(lambda self: self.saved)
    @rule(seed=st.integers(0, 99), share=st.sampled_from([0.0, 0.5, 1.0]))
    def put_back(self, seed: int, share: float) -> None:
        gone = sorted(self.saved.keys() - set(self.files()))
        for path in random.Random(seed).sample(gone, min(len(gone), max(1, round(share * len(gone))))):
            (self.paths.vault / path).write_bytes(self.saved[path])
            self.touched.add(path)

    @precondition(lambda self: self.files())
    @rule(data=st.data())
    def edit(self, data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(self.files()))
        full = self.paths.vault / path
        full.write_bytes(full.read_bytes() + b"And it has a new lock.\n")
        self.touched.add(path)

    @precondition(lambda self: self.files())
    @rule(data=st.data())
    def blank(self, data: st.DataObject) -> None:
        """An editor that saves in place does so for a moment, or crashes in it."""
        path = data.draw(st.sampled_from(self.files()))
        full = self.paths.vault / path
        self.saved[path] = full.read_bytes()
        full.write_bytes(b"")
        self.touched.add(path)

    @precondition(lambda self: self.files())
    @rule(data=st.data())
    def move(self, data: st.DataObject) -> None:
        path, name = data.draw(st.sampled_from(self.files())), f"general/notes/moved-{next(self.names)}.md"
        (self.paths.vault / path).rename(self.paths.vault / name)
        self.touched |= {path, name}

    @rule()
    def tell(self) -> None:
        """The watcher does."""
        self.store.file_changed(self.touched)
        self.touched.clear()

    @rule()
    def decide(self) -> None:
        self.store.settle_deletions()

    @rule()
    def accept(self) -> None:
        self.store.check(accept=True)

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.store = self.open()

    @rule()
    def rebuild(self) -> None:
        self.store.rebuild()

    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        if runs := deletions(self.store):
            self.store.undo(data.draw(st.sampled_from(runs)).run_id)

    @invariant()
    def is_known_or_recorded(self) -> None:
        """What is not known has a run that can give it back."""
        gone = [node_id for node_id in self.acknowledged if self.store.catalog.node(node_id) is None]
        assert all(self.store.ledger.last_deletion(node_id, "deleted") for node_id in gone)


Hands.TestCase.settings = settings(
    max_examples=examples(30),
    stateful_step_count=15,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=QUICKLY,
)
TestHands = Hands.TestCase


def ash(content: bytes) -> Action:
    """Make the file of a fact, as a dream does."""
    return Action(
        kind=ActionKind.CREATE,
        path="facts/ash.md",
        node_id="ashashashasha",
        stage="planted",
        reason="",
        content=content,
    )


def test_what_two_undos_in_a_row_remove_is_not_taken_for_deleted_by_hand(store: MemoryStore) -> None:
    """A dream that made a file and then changed it deletes, when undone, what its last action had left."""
    kept = store.remember("The shelf is made of oak").result()
    store.settle(60)
    content = store.vault.read(store.show(kept).path).replace(kept.encode(), b"ashashashasha")
    action = ash(content)
    for number in range(1, 5):
        run_id = f"run-{number}"
        first, then = content + b"again\n" * number, content + b"and more\n" * number
        made = replace(action, content=first)
        changed = Action.replacing(action.path, action.node_id, first, then, stage="planted", reason="")
        store.apply(Changeset(run_id=run_id, actions=(made, changed)))
        forgotten = store.forget("ashashashasha")
        store.undo(forgotten.run_id)
        assert store.undo(run_id).restored == 1
        store.file_changed(["facts/ash.md"])
        store.settle_deletions()
        assert deletions(store) == []


def test_what_an_undo_removes_may_have_been_read_again_while_it_went_on(store: MemoryStore) -> None:
    """An undo of many files reads some again for the sake of others, after the moment under which it is recorded."""
    content = b"---\ntype: Fact\nnode_id: ashashashasha\n---\nThe shelf is made of ash\n"
    made = ash(content)
    store.apply(Changeset(run_id="run-1", actions=(made,)))
    store.settle(60)
    began = store.core.now()
    store.core.opened.index.apply("facts/ash.md")
    store.operations.runs.reverting.undo("run-1", now=began)
    store.file_changed(["facts/ash.md"])
    store.settle_deletions()
    assert deletions(store) == []
    assert store.catalog.node("ashashashasha") is None


def test_a_run_that_changes_a_file_and_then_deletes_it_unlearns_it(store: MemoryStore) -> None:
    kept = store.remember("The shelf is made of elm").result()
    store.settle(60)
    path = store.show(kept).path
    before = store.vault.read(path)
    then = before + b"and more\n"
    changed = Action.replacing(path, kept, before, then, stage="planted", reason="")
    gone = replace(changed, kind=ActionKind.DELETE, pre_sha256=sha256(then), content=None)
    store.apply(Changeset(run_id="run-1", actions=(changed, gone)))
    assert store.catalog.node(kept) is None
    store.settle_deletions()
    assert deletions(store) == []
    assert store.undo("run-1").restored == 1
    assert store.vault.read(path) == before
    assert store.recall("shelf of elm").hits[0].node_id == kept


# ---- sessions that lose their end


def older_copy(store: MemoryStore, path: str, data: bytes) -> None:
    """Put what a file was in its place, as a backup does."""
    (store.paths.vault / path).write_bytes(data)
    store.file_changed([path])
    store.settle_deletions()


def has_pier(store: MemoryStore, number: int) -> bool:
    return any(f"pier {number} " in hit.text for hit in store.recall(f"ferry of pier {number}", channel="*").hits)


def lost(store: MemoryStore) -> list[str]:
    return [problem.problem for problem in store.check() if "are gone from their files" in problem.problem]


def test_turns_that_an_older_copy_of_the_vault_lacks_are_named_and_come_back(
    open_store: Callable[[], MemoryStore], paths: StorePaths
) -> None:
    store = open_store()
    path = ferry(store, 1, 2)
    old = (paths.vault / path).read_bytes()
    ferry(store, 3, 4)
    whole = (paths.vault / path).read_bytes()
    store.close()
    (paths.vault / path).write_bytes(old)
    again = open_store()
    again.wait_until_caught_up(SETTLED_S)
    again.settle_deletions()
    (run,) = deletions(again)
    assert run.summary["shortened"] == {"s1": 2}
    assert "2 turns of s1 are gone from their files" in again.status().problems[0]
    assert f"`dreamctl undo {run.run_id}`" in lost(again)[0]
    assert not has_pier(again, 4)
    assert again.undo(run.run_id).restored == 1
    again.settle(SETTLED_S)
    assert (paths.vault / path).read_bytes() == whole
    assert has_pier(again, 4)
    assert again.status().problems == lost(again) == []


def test_the_turns_that_follow_an_older_copy_are_kept_and_learned(store: MemoryStore) -> None:
    path = ferry(store, 1)
    old = (store.paths.vault / path).read_bytes()
    ferry(store, 2, 3)
    store.apply(Changeset(run_id="r", cursors={(LEARNED_FROM, "s1"): 3}), kind="daily")
    older_copy(store, path, old)
    assert store.ledger.cursors(LEARNED_FROM) == {"s1": 1}
    ferry(store, 4)
    assert store.unread().turns == 1
    assert has_pier(store, 4)
    (run,) = deletions(store)
    assert store.undo(run.run_id).skipped == ()
    store.settle(SETTLED_S)
    turns = [(turn.ordinal, turn.external_id) for turn in store.turns_of("s1")]
    assert turns == [(1, "1"), (2, "4"), (3, "2"), (4, "3")]
    assert store.status().problems == []


def test_turns_that_came_before_the_older_copy_was_seen_stay_beside_those_that_it_lacks(store: MemoryStore) -> None:
    path = ferry(store, 1)
    old = (store.paths.vault / path).read_bytes()
    ferry(store, 2, 3)
    (store.paths.vault / path).write_bytes(old)
    ferry(store, 4)
    store.file_changed([path])
    store.settle_deletions()
    (run,) = deletions(store)
    assert run.summary["shortened"] == {"s1": 2}
    store.undo(run.run_id)
    store.settle(SETTLED_S)
    assert [turn.external_id for turn in store.turns_of("s1")] == ["1", "4", "2", "3"]


def test_a_turn_that_a_person_reworded_is_not_lost(store: MemoryStore) -> None:
    path = ferry(store, 1, 2)
    reworded = (store.paths.vault / path).read_bytes().replace(b"pier 2 leaves", b"pier 2 goes")
    older_copy(store, path, reworded)
    assert deletions(store) == []
    assert any("pier 2 goes" in hit.text for hit in store.recall("ferry of pier 2", channel="*").hits)


def test_lost_turns_that_a_person_accepts_are_named_no_more(store: MemoryStore) -> None:
    path = ferry(store, 1)
    old = (store.paths.vault / path).read_bytes()
    ferry(store, 2)
    older_copy(store, path, old)
    assert len(lost(store)) == 1
    store.check(accept=True)
    assert store.status().problems == lost(store) == []
    ferry(store, 3)
    older_copy(store, path, old)
    assert len(lost(store)) == 1


def test_a_session_that_is_whole_again_in_a_moment_was_being_saved(store: MemoryStore) -> None:
    path = ferry(store, 1, 2)
    whole = (store.paths.vault / path).read_bytes()
    (store.paths.vault / path).write_bytes(whole[: len(whole) // 2])
    store.file_changed([path])
    assert has_pier(store, 2)
    older_copy(store, path, whole)
    assert deletions(store) == []
    assert has_pier(store, 2)


def test_an_older_copy_is_told_by_the_ledger_alone(open_store: Callable[[], MemoryStore], paths: StorePaths) -> None:
    store = open_store()
    path = ferry(store, 1, 2)
    old = (paths.vault / path).read_bytes()
    ferry(store, 3)
    store.apply(Changeset(run_id="r", cursors={(LEARNED_FROM, "s1"): 3}), kind="daily")
    store.close()
    (paths.vault / path).write_bytes(old)
    for file in paths.index.parent.glob(f"{paths.index.name}*"):
        file.unlink()
    again = open_store()
    again.settle(SETTLED_S)
    (problem,) = [problem.problem for problem in again.check() if problem.path == path]
    assert "read it up to turn 3, and it ends with turn 2" in problem


def test_a_vault_without_its_ledger_says_what_may_speak_again(
    open_store: Callable[[], MemoryStore], paths: StorePaths
) -> None:
    store = open_store()
    ferry(store, 1)
    store.forget("s1#1")
    store.close()
    for file in paths.ledger.parent.glob(f"{paths.ledger.name}*"):
        file.unlink()
    again = open_store()
    again.settle(SETTLED_S)
    assert has_pier(again, 1)
    (problem,) = again.status().problems
    assert "forgotten may be told again, and channels that were off learn again: forget them" in problem
