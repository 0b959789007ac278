"""The move of a flat vault into folders: ids and links stay, a crash resumes it, and `undo` gives each byte back."""

from __future__ import annotations

import errno
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from dreamd.store import okf
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.ledger import records
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import (
    Action,
    ActionKind,
    Changeset,
    Kind,
    Level,
    Memory,
    NewTurn,
    SessionHead,
    StoreError,
)
from dreamd.store.okf.memory_file import BY_HAND, body_hash
from dreamd.store.purge.plan import Selection
from dreamd.store.settings import StoreSettings
from dreamd.store.vault.disk import Disk
from dreamd.store.vault.layout import LAYOUT, Layout, is_flat, path_for
from dreamd.store.writer.derived import marked

from tests.store.conftest import NOW, OpenStore

OVEN, TAPS = "The oven is heated at noon on Mondays.", "The taps of the kitchen are closed at night."
RULE = "Metric units, always."


def fact(text: str, channel: str = "shop-1a2b3c", kind: Kind = Kind.DECISION, sources: tuple[str, ...] = ()) -> Memory:
    node_id = okf.fact_id(channel, text)
    path = path_for(Level.FACT, text, node_id, channel, layout=Layout.FLAT)
    return Memory(
        node_id=node_id, level=Level.FACT, kind=kind, title=text.rstrip("."), text=text, channel=channel,
        created_at=NOW, sources=sources, provenance="user_stated", said_by="user", path=path,
    )  # fmt: skip


FACTS = (fact(OVEN, sources=("s1#1",)), fact(TAPS), fact(RULE, "_global", Kind.PREFERENCE))


def page(title: str, text: str, sources: tuple[str, ...], level: Level = Level.PROFILE) -> Memory:
    node_id = okf.fact_id("shop-1a2b3c", f"page {title}")
    kind = Kind.PROFILE if level is Level.PROFILE else Kind.SCENARIO
    return Memory(
        node_id=node_id, level=level, kind=kind, title=title, text=text, channel="shop-1a2b3c", created_at=NOW,
        sources=sources, run="r1", extra={BY_HAND: body_hash(text)},
        path=path_for(level, title, node_id, "shop-1a2b3c", layout=Layout.FLAT),
    )  # fmt: skip


HOLDS = page(
    "What holds now",
    f"- “{OVEN}” [^m1]\n- “{TAPS}”\n\n[^m1]: [21 November](/{FACTS[0].path})",
    (FACTS[0].node_id, FACTS[1].node_id),
)
EPISODE = page("The kitchen", f"See [what holds](/{HOLDS.path}).", (FACTS[1].node_id,), Level.SCENARIO)


def as_of_before(memory: Memory, paths: dict[str, str]) -> bytes:
    """Return a memory's file as a flat vault has it."""
    document = okf.parse(okf.from_memory(memory, paths))
    return okf.render({key: document.meta[key] for key in document.meta}, document.body, is_flat=True)


def flat_vault(store: MemoryStore) -> None:
    """Keep a session, three facts and two pages as they were kept at first, a digest, and a person's notes."""
    store.core.writer.write(records.set_flag(LAYOUT, Layout.FLAT.value)).result()
    store.core.forget_layout()
    store.observe(SessionHead("s1", "shop-1a2b3c", started_at=NOW), [NewTurn("user", OVEN, NOW)])
    memories = (*FACTS, HOLDS, EPISODE)
    paths = {memory.node_id: memory.path for memory in memories} | {"s1": "sessions/2026/11/21/s1.md"}
    actions = tuple(
        Action(
            kind=ActionKind.CREATE, path=memory.path, node_id=memory.node_id, stage="test", reason="",
            content=as_of_before(memory, paths),
        )
        for memory in memories
    )  # fmt: skip
    store.apply(Changeset(run_id="20261121-110000-000000-daily-0001", actions=actions))
    digest = f"---\ntype: Digest\n---\n\n- [oven](/{FACTS[0].path})\n"
    store.write_derived({"digests/2026-11-21.md": digest})
    root = store.paths.vault
    (root / "Ideas").mkdir()
    (root / "Ideas/kitchen.md").write_text(
        f"# Kitchen\n\n[[{FACTS[0].path.removesuffix('.md')}|the oven]], [[{stem(FACTS[1].path)}]] and"
        f" [rule](../{FACTS[2].path}). Not [this](../facts/gone.md).\n"
    )
    (root / "facts/my own.md").write_text("Mine, without an id.\n")
    edited = root / EPISODE.path
    edited.write_bytes(edited.read_bytes() + f"\nI add: see [the rule](../{FACTS[2].path}).\n".encode())
    assert store.settle(60)
    store.reconcile()


def stem(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".md")


def files_of(root: Path) -> dict[str, bytes]:
    files = (path for path in root.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def known_in(store: MemoryStore) -> tuple[list[Any], list[Any]]:
    """Return what the index knows of every node, but for its place and the targets in its text, and every link."""
    store.core.settle()
    rows = store.core.catalog._rows
    nodes = rows("SELECT node_id, text, title, channel, kind, level, live, created_at FROM node ORDER BY node_id")
    told = [(node_id, re.sub(r"\]\([^)]*\)|\[\[[^]|]*", "](", text), *others) for node_id, text, *others in nodes]
    return told, list(rows("SELECT source, target, kind FROM link ORDER BY source, target, kind"))


def test_a_flat_vault_moves_and_comes_back(store: MemoryStore) -> None:
    flat_vault(store)
    before, known = files_of(store.paths.vault), known_in(store)
    preview = store.migrate(dry_run=True)
    assert (preview.run_id, preview.moved) == (None, 5)
    assert files_of(store.paths.vault) == before
    moved = store.migrate()
    assert (moved.moved, moved.linked) == (5, 2)  # the digest and the note
    assert dict(moved.left) == {"facts/my own.md": "it is yours"}
    after = files_of(store.paths.vault)
    assert {path for path in after if path.startswith(("projects", "general"))} == {
        path_for(one.level, one.title, one.node_id, one.channel, kind=one.kind) for one in (*FACTS, HOLDS, EPISODE)
    }
    assert not any(map(is_flat, after))
    assert known_in(store) == known
    assert store.core.layout is Layout.FOLDERS
    # The watcher sees files come and go, and takes none for deleted.
    store.reconcile()
    store.operations.deletions.look(at_once=True)
    assert {run.kind for run in store.runs()} == {"migrate", "daily"}
    assert store.undo(str(moved.run_id)).skipped == ()
    assert files_of(store.paths.vault) == before
    assert known_in(store) == known
    layout: str = store.core.layout
    assert layout == Layout.FLAT
    assert store.migrate().moved == 5
    assert files_of(store.paths.vault) == after


def test_every_link_follows_and_a_person_s_bytes_stay(store: MemoryStore) -> None:
    flat_vault(store)
    before = files_of(store.paths.vault)
    store.migrate()
    after = files_of(store.paths.vault)
    oven, taps, rule, holds, episode = (
        path_for(one.level, one.title, one.node_id, one.channel, kind=one.kind) for one in (*FACTS, HOLDS, EPISODE)
    )
    assert after["Ideas/kitchen.md"].decode() == (
        f"# Kitchen\n\n[[{oven.removesuffix('.md')}|the oven]], [[{stem(taps)}]] and"
        f" [rule](../{rule}). Not [this](../facts/gone.md).\n"
    )
    assert after["facts/my own.md"] == before["facts/my own.md"]
    assert after["digests/2026-11-21.md"] == marked(
        before["digests/2026-11-21.md"].split(b"<!--")[0].replace(FACTS[0].path.encode(), oven.encode())
    )
    # A person edited the episode: but for the targets of its links it is as it was.
    changed = before[EPISODE.path].decode().replace(HOLDS.path, holds).replace(FACTS[1].path, taps)
    assert after[episode].decode() == changed.replace(f"../{FACTS[2].path}", f"../../../{rule}")
    # What dreamd alone wrote has its keys in the new order, and a page still counts as unedited.
    document = okf.parse(after[holds])
    assert document.meta[BY_HAND] == body_hash(document.body)
    assert f"[^m1]: [21 November](/{oven})" in document.body
    assert [entry["resource"] for entry in document.meta["sources"]] == [f"/{oven}", f"/{taps}"]
    assert after[oven].splitlines()[1:3] == [b"type: Decision", b"title: The oven is heated at noon on Mondays"]
    assert after[oven].count(b"\n") < before[FACTS[0].path].count(b"\n")


class StopsAt(Disk):
    """A disk that does nothing any more from one of its operations on, as after `kill -9`."""

    def __init__(self) -> None:
        super().__init__()
        self.left: int | None = None
        self.done = 0

    def _count(self) -> None:
        self.done += 1
        if self.left is None:
            return
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.EIO, "stopped")

    def write_temp_then_rename(self, path: Path, data: bytes) -> None:
        self._count()
        super().write_temp_then_rename(path, data)

    def exchange(self, a: Path, b: Path) -> bool:
        self._count()
        return super().exchange(a, b)

    def unlink(self, path: Path) -> None:
        self._count()
        super().unlink(path)

    def rename(self, source: Path, target: Path) -> None:
        self._count()
        super().rename(source, target)


@pytest.mark.parametrize("way", ["forth", "back"])
def test_a_crash_at_any_operation_is_resumed(tmp_path: Path, way: str) -> None:
    def places(folder: Path) -> StorePaths:
        index = folder / "index"
        return StorePaths(folder / "vault", folder / "ledger.db", index / "index.db", index / "e.db", folder / "runs")

    def opened(folder: Path, disk: Disk | None = None) -> MemoryStore:
        return MemoryStore(places(folder), StoreSettings(), StubEmbedder(), lambda: NOW, disk)

    disk = StopsAt()
    store = opened(tmp_path / "whole", disk)
    flat_vault(store)
    # A note without a date has that of its last write, which a crash before the end makes that of the move.
    (store.paths.vault / "Ideas/kitchen.md").write_text(f"---\ndate: 2026-11-20\n---\n[[{stem(FACTS[1].path)}]]\n")
    store.reconcile()
    flat, known = files_of(store.paths.vault), known_in(store)
    migrated = str(store.migrate().run_id) if way == "back" else ""
    folders = files_of(store.paths.vault)
    store.close()
    points = 0
    while True:
        shutil.copytree(tmp_path / "whole", tmp_path / f"{points}")
        disk = StopsAt()
        store = opened(tmp_path / f"{points}", disk)
        store.wait_until_caught_up(10)
        store.core.settle()
        disk.left = points
        stopped = False
        try:
            store.undo(migrated) if migrated else store.migrate()
        except StoreError:
            stopped = True
            shutil.copytree(tmp_path / f"{points}", tmp_path / f"{points}-crashed")
        disk.left = None
        store.close()
        if not stopped:
            break
        with_power = opened(tmp_path / f"{points}-crashed")
        with_power.wait_until_caught_up(10)
        assert known_in(with_power) == known, points
        there = files_of(with_power.paths.vault)
        if migrated:
            assert there == flat, points
        else:
            assert {path for path in there if is_flat(path)} == set(), points
            assert with_power.core.layout is Layout.FOLDERS
            folders = folders if folders != flat else there
            assert there == folders, points
            run = with_power.runs(1, kinds=["migrate"])[0]
            with_power.undo(run.run_id)
            assert files_of(with_power.paths.vault) == flat, points
        with_power.close()
        points += 1 + points // 3  # each of the first, and then fewer
    assert points >= 5


def test_what_changed_since_moves_back_with_its_changes(store: MemoryStore) -> None:
    flat_vault(store)
    run = str(store.migrate().run_id)
    oven, taps = FACTS[0].node_id, FACTS[1].node_id
    store.tag(oven, ["warm"])
    store.forget(taps)
    newer = store.remember("The oven is cleaned on Fridays.", channel="shop-1a2b3c").result()
    assert store.show(newer).path.startswith("projects/shop-1a2b3c/notes/")
    note = store.paths.vault / "Ideas/kitchen.md"
    note.write_text(note.read_text() + "More.\n")
    store.reconcile()
    assert store.undo(run).skipped == ()
    assert store.core.catalog.path_of(oven) == FACTS[0].path
    assert store.show(oven).tags == ("warm",)
    assert not (store.paths.vault / FACTS[1].path).exists()
    assert store.core.catalog.path_of(newer) is not None
    assert note.read_text().endswith("More.\n")
    assert f"[[{FACTS[0].path.removesuffix('.md')}|the oven]]" in note.read_text()


def test_an_earlier_run_is_undone_where_its_files_are_now(store: MemoryStore) -> None:
    flat_vault(store)
    tagged = store.tag(FACTS[0].node_id, ["warm"]).run_id
    moved = str(store.migrate().run_id)
    before = files_of(store.paths.vault)
    assert store.undo(str(tagged)).skipped == ()
    assert store.show(FACTS[0].node_id).tags == ()
    assert store.redo(str(tagged)).skipped == ()
    assert files_of(store.paths.vault) == before
    store.undo(moved)
    store.undo(str(tagged))
    assert store.show(FACTS[0].node_id).tags == ()


def test_one_memory_of_an_earlier_dream_is_undone_where_it_is_now(store: MemoryStore) -> None:
    flat_vault(store)
    store.migrate()
    before, gone = files_of(store.paths.vault), store.show(FACTS[0].node_id).path
    undone = store.undo("20261121-110000-000000-daily-0001", [FACTS[0].node_id])
    assert (undone.restored, undone.skipped) == (1, ())
    left = files_of(store.paths.vault)
    assert gone not in left
    holds = next(data.decode() for path, data in left.items() if path.endswith("what-holds-now.md"))
    assert OVEN not in holds
    assert TAPS in holds
    assert store.redo("20261121-110000-000000-daily-0001").skipped == ()
    assert files_of(store.paths.vault) == before


def test_an_old_vault_goes_on_as_it_is_until_it_is_moved(open_store: OpenStore) -> None:
    store = open_store()
    assert store.core.layout is Layout.FOLDERS
    flat_vault(store)
    kept = store.remember("The oven is cleaned on Fridays.", channel="shop-1a2b3c").result()
    assert is_flat(store.show(kept).path)
    assert [problem.problem for problem in store.check() if "dreamctl migrate" in problem.problem]
    assert store.status().layout == "flat"
    store.close()
    # A vault whose ledger is lost says by its files how it is laid out.
    for path in store.paths.ledger.parent.glob("ledger.db*"):
        path.unlink()
    store = open_store()
    assert store.core.layout is Layout.FLAT
    store.migrate()
    store.close()
    for path in store.paths.ledger.parent.glob("ledger.db*"):
        path.unlink()
    assert open_store().core.layout is Layout.FOLDERS


def test_a_purge_reaches_what_was_moved_under_each_of_its_names(store: MemoryStore) -> None:
    flat_vault(store)
    kept = store.remember("The zinnias stand behind the shed.", channel="shop-1a2b3c").result()
    moved = str(store.migrate().run_id)
    purged = store.purge(Selection(nodes=(kept,)))
    assert (purged.memories, purged.traces) == (1, ())
    assert store.undo(moved).skipped == ()
    store.close()
    for path in store.paths.vault.parent.rglob("*"):
        assert "zinnia" not in path.name
        assert not path.is_file() or b"zinnia" not in path.read_bytes().lower(), path


def test_a_file_that_is_saved_while_it_moves_is_no_loss(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    flat_vault(store)
    migration = store.operations.runs.migration
    planned = migration._forth
    saved: list[Path] = []

    def saved_meanwhile() -> Any:
        changes = planned()
        if not saved:
            saved.append(store.paths.vault / FACTS[0].path)
            saved[0].write_bytes(saved[0].read_bytes() + b"\nSaved just now.\n")
        return changes

    monkeypatch.setattr(migration, "_forth", saved_meanwhile)
    moved = store.migrate()
    assert moved.left == (("facts/my own.md", "it is yours"),)
    assert "Saved just now." in store.show(FACTS[0].node_id).text
