from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from dreamd.store import okf
from dreamd.store.changes import apply as changes
from dreamd.store.changes.apply import Changes
from dreamd.store.changes.run_kinds import FORGET, Expired
from dreamd.store.changes.undo import Reverting
from dreamd.store.index.tombstones import fingerprint
from dreamd.store.ledger import records
from dreamd.store.ledger.journal import FileChange, sha256
from dreamd.store.ledger.ledger import Ledger
from dreamd.store.model import Action, ActionKind, Changeset, Kind, Level, Memory, NotFound
from dreamd.store.vault.disk import Disk
from dreamd.store.vault.vault import Vault
from dreamd.store.writer.writer import Planned, Writer
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples

NOW = datetime(2026, 11, 21, 9, tzinfo=UTC)


class Store:
    """A vault with its ledger, and who rests on whom."""

    def __init__(self, folder: Path) -> None:
        disk = Disk()
        self.vault = Vault(folder / "vault", disk)
        self.vault.mark("0" * 16)
        self.ledger = Ledger(folder / "ledger.db")
        self.writer = Writer(self.vault, self.ledger)
        self.citing: dict[str, list[str]] = {}
        self.changes = Changes(self.vault, self.ledger, self.writer)
        self.reverting = Reverting(
            self.vault, self.ledger, self.writer, lambda node_id: self.citing.get(node_id, []), lambda _: ()
        )

    def start(self) -> Store:
        self.writer.start()
        return self

    def hold(self, files: dict[str, bytes]) -> None:
        plan = tuple(FileChange("create", path, content) for path, content in files.items())
        self.writer.submit(lambda _: Planned(None, plan)).result(10)
        assert self.writer.barrier(10)

    def edit(self, path: str, content: bytes) -> None:
        (self.vault.root / path).write_bytes(content)

    def files(self) -> dict[str, bytes]:
        return {stamp.path: self.vault.read(stamp.path) for stamp in self.vault.walk()}

    def close(self) -> None:
        self.writer.close()
        self.ledger.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path).start()
    yield opened
    opened.close()


def action(path: str, before: bytes | None, after: bytes | None) -> Action:
    kind = ActionKind.DELETE if after is None else ActionKind.CREATE if before is None else ActionKind.REPLACE
    return Action(
        kind=kind,
        path=path,
        node_id=path.removesuffix(".md"),
        stage="consolidate",
        reason="because",
        pre_sha256=None if before is None else sha256(before),
        content=after,
        fingerprint=f"L1:{path}",
    )


def dream(run_id: str, *actions: Action) -> Changeset:
    return Changeset(run_id=run_id, actions=actions, cursors={("consolidate", "s1"): 12})


HELD = {"a.md": b"a", "b.md": b"b", "c.md": b"c"}
CHANGES = (action("a.md", b"a", b"A"), action("b.md", b"b", None), action("d.md", None, b"d"))


def test_a_changeset_is_applied_with_its_cursors_and_its_record(store: Store) -> None:
    store.hold(HELD)
    applied = store.changes.apply(dream("run-1", *CHANGES), kind="dream", now=NOW, summary={"facts": 1})
    assert (applied.applied, applied.skipped) == (3, ())
    assert store.files() == {"a.md": b"A", "c.md": b"c", "d.md": b"d"}
    assert store.ledger.cursors("consolidate") == {"s1": 12}
    run = store.ledger.run("run-1")
    assert (run.state, run.kind, run.summary) == ("applied", "dream", {"facts": 1})
    recorded = store.ledger.actions("run-1")
    assert [(done.pre_image, done.post_image) for done in recorded] == [(b"a", b"A"), (b"b", None), (None, b"d")]


def named(tombstones: set[str]) -> set[str]:
    """Those that the actions named themselves; an edit has one more, of what it does."""
    return {mark for mark in tombstones if not mark.startswith("edit:")}


def test_undo_brings_everything_back_and_leaves_tombstones(store: Store) -> None:
    store.hold(HELD)
    store.changes.apply(dream("run-1", *CHANGES), kind="dream", now=NOW)
    undone = store.reverting.undo("run-1", now=NOW)
    assert (undone.restored, undone.skipped) == (3, ())
    assert store.files() == HELD
    assert named(store.ledger.tombstones()) == {"L1:a.md", "L1:b.md", "L1:d.md"}
    assert store.ledger.cursors("consolidate") == {"s1": 12}
    assert store.ledger.run("run-1").state == "undone"


def test_undoing_twice_does_nothing_more(store: Store) -> None:
    store.hold(HELD)
    store.changes.apply(dream("run-1", *CHANGES), kind="dream", now=NOW)
    store.reverting.undo("run-1", now=NOW)
    assert store.reverting.undo("run-1", now=NOW).restored == 0
    assert store.files() == HELD
    assert store.ledger.run("run-1").state == "undone"


def test_what_was_undone_is_not_applied_again(store: Store) -> None:
    store.hold(HELD)
    store.changes.apply(dream("run-1", *CHANGES), kind="dream", now=NOW)
    store.reverting.undo("run-1", now=NOW)
    applied = store.changes.apply(dream("run-2", *CHANGES), kind="dream", now=NOW)
    assert applied.applied == 0
    assert len(applied.skipped) == 3
    assert store.files() == HELD
    assert store.ledger.run("run-2").state == "nothing"


def test_a_run_that_is_recorded_is_not_applied_again(store: Store) -> None:
    store.hold(HELD)
    first = store.changes.apply(dream("run-1", *CHANGES), kind="dream", now=NOW)
    assert store.changes.apply(dream("run-1", *CHANGES), kind="dream", now=NOW) == first
    assert store.files()["a.md"] == b"A"


def test_a_file_edited_since_the_plan_is_kept_and_named(store: Store) -> None:
    store.hold(HELD)
    store.edit("a.md", b"a person's")
    applied = store.changes.apply(dream("run-1", *CHANGES), kind="dream", now=NOW)
    assert applied.applied == 2
    assert [refused.path for refused in applied.skipped] == ["a.md"]
    assert store.files() == {"a.md": b"a person's", "c.md": b"c", "d.md": b"d"}
    assert store.reverting.undo("run-1", now=NOW).restored == 2
    assert store.files() == HELD | {"a.md": b"a person's"}


def test_a_file_made_since_the_plan_is_kept_and_named(store: Store) -> None:
    store.hold({"d.md": b"somebody else's"})
    applied = store.changes.apply(dream("run-1", action("d.md", None, b"d")), kind="dream", now=NOW)
    assert [refused.reason for refused in applied.skipped] == ["there is a file already"]
    assert store.files() == {"d.md": b"somebody else's"}


def test_a_file_edited_since_the_run_stays_and_the_rest_is_undone(store: Store) -> None:
    store.hold(HELD)
    store.changes.apply(dream("run-1", *CHANGES), kind="dream", now=NOW)
    store.edit("a.md", b"a person's")
    undone = store.reverting.undo("run-1", now=NOW)
    assert undone.restored == 2
    assert [refused.path for refused in undone.skipped] == ["a.md"]
    assert store.files() == HELD | {"a.md": b"a person's"}
    assert store.ledger.run("run-1").state == "partly_undone"
    store.edit("a.md", b"A")
    assert store.reverting.undo("run-1", now=NOW).restored == 1
    assert store.files() == HELD
    assert store.ledger.run("run-1").state == "undone"


def test_a_node_that_others_rest_on_is_not_taken_from_under_them(store: Store) -> None:
    store.changes.apply(
        dream("run-1", action("d.md", None, b"d"), action("e.md", None, b"e"), action("f.md", None, b"f")),
        kind="dream",
        now=NOW,
    )
    store.citing = {"d": ["outside.md"], "e": ["d.md"], "f": []}
    undone = store.reverting.undo("run-1", now=NOW)
    assert {refused.path: refused.reason for refused in undone.skipped} == {
        "d.md": "outside.md rests on it",
        "e.md": "d.md rests on it",
    }
    assert store.files() == {"d.md": b"d", "e.md": b"e"}


def test_nodes_of_the_run_may_rest_on_each_other(store: Store) -> None:
    store.changes.apply(dream("run-1", action("d.md", None, b"d"), action("e.md", None, b"e")), kind="dream", now=NOW)
    store.citing = {"d": ["e.md"], "e": ["e.md"]}
    assert store.reverting.undo("run-1", now=NOW).skipped == ()
    assert store.files() == {}


def test_several_actions_on_one_file_are_one_way_there_and_back(store: Store) -> None:
    store.hold(HELD)
    steps = (action("a.md", b"a", b"A"), action("a.md", b"A", b"AA"), action("d.md", None, b"d"))
    more = (action("d.md", b"d", None), action("c.md", b"c", None), action("c.md", None, b"C"))
    store.changes.apply(dream("run-1", *steps, *more), kind="dream", now=NOW)
    assert store.files() == {"a.md": b"AA", "b.md": b"b", "c.md": b"C"}
    assert store.reverting.undo("run-1", now=NOW).skipped == ()
    assert store.files() == HELD


def test_what_a_run_left_out_is_no_conflict_when_it_is_undone(store: Store) -> None:
    store.hold(HELD)
    changes = (action("a.md", b"a", b"A"), action("a.md", b"another", b"B"))
    assert store.changes.apply(dream("run-1", *changes), kind="dream", now=NOW).applied == 1
    undone = store.reverting.undo("run-1", now=NOW)
    assert (undone.restored, undone.skipped) == (1, ())
    assert store.files() == HELD
    assert store.ledger.run("run-1").state == "undone"


def test_forgetting_leaves_its_tombstone_at_once_and_undo_lifts_it(store: Store) -> None:
    store.hold(HELD)
    store.changes.apply(Changeset(run_id="f", actions=(action("a.md", b"a", None),)), kind=FORGET, now=NOW)
    assert store.ledger.tombstones() == {"L1:a.md"}
    store.reverting.undo("f", now=NOW)
    assert store.ledger.tombstones() == set()
    assert store.files() == HELD


def test_a_run_without_changes_moves_its_cursors_and_says_nothing_happened(store: Store) -> None:
    applied = store.changes.apply(dream("run-1"), kind="dream", now=NOW)
    assert applied.applied == 0
    assert store.ledger.run("run-1").state == "nothing"
    assert store.ledger.cursors("consolidate") == {"s1": 12}


def test_a_write_that_is_under_way_counts_as_a_change(store: Store) -> None:
    """The plan is decided in the writer's thread, behind what was acknowledged before it."""
    store.hold(HELD)
    forget = FileChange("delete", "a.md", b"", 0, sha256(b"a"))
    steps = store.changes._steps(dream("run-1", *CHANGES), set())
    store.writer.submit(lambda _: Planned(None, (forget,)))
    run = records.Run("run-1", "dream", "applied", NOW)
    store.writer.submit(lambda files: store.changes._plan_apply(files, run, steps, dream("run-1", *CHANGES))).result(10)
    store.writer.barrier(10)
    assert store.files() == {"c.md": b"c", "d.md": b"d"}
    assert [done.state for done in store.ledger.actions("run-1")] == ["conflict", "applied", "applied"]


def test_a_crash_after_the_journal_is_finished_by_the_next_start(tmp_path: Path) -> None:
    store = Store(tmp_path).start()
    store.hold(HELD)
    store.close()
    store = Store(tmp_path)
    steps = store.changes._steps(dream("run-1", *CHANGES), set())
    run = records.Run("run-1", "dream", "applied", NOW)
    store.writer.submit(lambda files: store.changes._plan_apply(files, run, steps, dream("run-1", *CHANGES)))
    store.writer._turn()
    assert store.files() == HELD
    store.ledger.close()
    (tmp_path / "vault/b.md").write_bytes(b"edited while it was down")
    store = Store(tmp_path).start()
    assert store.writer.barrier(10)
    assert store.files() == {"a.md": b"A", "b.md": b"edited while it was down", "c.md": b"c", "d.md": b"d"}
    assert [done.state for done in store.ledger.actions("run-1")] == ["applied", "conflict", "applied"]
    assert store.reverting.undo("run-1", now=NOW).skipped == ()
    assert store.files() == HELD | {"b.md": b"edited while it was down"}
    store.close()


def test_history_expires_by_age_and_by_size(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for n, days in enumerate((100, 50, 2, 1)):
        at = NOW - timedelta(days=days)
        store.changes.apply(dream(f"run-{n}", action(f"{n}.md", None, bytes(range(256)))), kind="dream", now=at)
    assert store.changes.prune(NOW) == 1
    with pytest.raises(Expired) as expired:
        store.reverting.undo("run-0", now=NOW)
    assert "90 days" in expired.value.hint
    monkeypatch.setattr(changes, "HISTORY_BYTES", 600)
    assert store.changes.prune(NOW) == 1
    assert [run.expired for run in store.ledger.runs()] == [False, False, True, True]
    assert store.reverting.undo("run-3", now=NOW).restored == 1


def test_history_expires_though_no_dream_ever_lands(store: Store) -> None:
    old = NOW - timedelta(days=91)
    for n in range(changes.PRUNED_EVERY - 1):
        store.changes.apply(dream(f"run-{n}", action(f"{n}.md", None, b"x")), kind="link" if n else "forget", now=old)
    assert store.ledger.counts()["runs"] == changes.PRUNED_EVERY - 1
    store.changes.apply(dream("last", action("last.md", None, b"x")), kind="link", now=NOW)
    assert [(run.run_id, run.expired) for run in store.ledger.runs()] == [("last", False), ("run-0", True)]


def test_a_conflict_of_an_undo_names_the_run_to_undo_first(store: Store) -> None:
    store.changes.apply(dream("first", action("a.md", None, b"1")), kind="daily", now=NOW)
    store.changes.apply(dream("then", action("a.md", b"1", b"2")), kind="daily", now=NOW)
    (refused,) = store.reverting.undo("first", now=NOW).skipped
    assert "`dreamctl undo then`" in refused.reason
    for run_id in ("then", "first"):
        assert store.reverting.undo(run_id, now=NOW).skipped == ()
    assert "a.md" not in store.files()


def test_an_unknown_run_is_not_undone(store: Store) -> None:
    with pytest.raises(NotFound):
        store.reverting.undo("run-9", now=NOW)


def test_fingerprints_tell_what_matters_apart() -> None:
    fact = Memory(node_id="1", level=Level.FACT, kind=Kind.FACT, title="t", text="Ann likes **tea**.", channel="c")
    same = replace(fact, node_id="2", title="other", text="ann  likes TEA")
    assert fingerprint(fact) == fingerprint(same)
    others = (
        replace(fact, channel="d"),
        replace(fact, text="Ann likes 2"),
        replace(fact, text="Ann does not like tea"),
    )
    assert len({fingerprint(memory) for memory in (fact, *others)}) == 4
    scenario = replace(fact, level=Level.SCENARIO, kind=Kind.SCENARIO, sources=("a", "b"))
    assert fingerprint(scenario) == fingerprint(replace(scenario, text="worded otherwise", sources=("b", "a")))
    assert fingerprint(scenario) != fingerprint(replace(scenario, sources=("a", "b", "c")))


contents = st.none() | st.binary(min_size=1, max_size=20)  # a blank file counts as none
vaults = st.fixed_dictionaries({f"{name}.md": contents for name in "abc"})


@settings(max_examples=examples(25), deadline=None)
@given(vaults, st.lists(vaults, min_size=1, max_size=3))
def test_undoing_every_run_backwards_restores_every_byte_and_redoing_them_too(
    first: dict[str, bytes | None], later: list[dict[str, bytes | None]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder)).start()
        states = [{path: content for path, content in first.items() if content is not None}]
        store.hold(states[0])
        for number, wanted in enumerate(later):
            before = states[-1]
            actions = [
                replace(action(path, before.get(path), content), fingerprint=None)
                for path, content in wanted.items()
                if content != before.get(path)
            ]
            assert store.changes.apply(dream(f"run-{number}", *actions), kind="dream", now=NOW).skipped == ()
            states.append({path: content for path, content in wanted.items() if content is not None})
            assert store.files() == states[-1]
        for number in reversed(range(len(later))):
            assert store.reverting.undo(f"run-{number}", now=NOW).skipped == ()
            assert store.files() == states[number]
        for number in range(len(later)):
            assert store.reverting.redo(f"run-{number}", now=NOW).skipped == ()
            assert store.files() == states[number + 1]
        assert store.ledger.tombstones() == set()
        store.close()


def test_an_edit_that_was_undone_is_not_made_again_whenever_and_by_whomever(store: Store) -> None:
    fact = okf.from_memory(
        Memory(node_id="a", level=Level.FACT, kind=Kind.FACT, title="A", text="The sky is blue", path="facts/a.md")
    )
    store.hold({"facts/a.md": fact})

    def archive(run_id: str, at: datetime) -> Changeset:
        later = okf.edit(fact, {"status": "deprecated", "archived_at": at.isoformat()})
        return dream(run_id, replace(action("facts/a.md", fact, later), fingerprint=None))

    store.changes.apply(archive("run-1", NOW), kind="dream", now=NOW)
    store.reverting.undo("run-1", now=NOW)
    (refused,) = store.changes.apply(archive("run-2", NOW + timedelta(days=1)), kind="dream", now=NOW).skipped
    assert refused.reason == "it was undone, forgotten or rejected before"
    again = okf.edit(fact, {"tags": ["other"]})
    edit = replace(action("facts/a.md", fact, again), fingerprint=None)
    assert store.changes.apply(dream("run-3", edit), kind="dream", now=NOW).skipped == ()
