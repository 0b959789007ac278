"""Bundles: the same state makes the same bytes, one changed byte is seen, and a memory made of one is equal."""

from __future__ import annotations

import json
import random
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from dreamd.daemon.methods.export_methods import ExportMethods, ExportParams
from dreamd.ipc.call import Call
from dreamd.store import check_bundle, lay_bundle, made_of
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import Corrupt, InvalidInput, NewTurn, SessionHead
from dreamd.store.settings import StoreSettings

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
Open = Callable[[str], MemoryStore]


def paths_in(data: Path) -> StorePaths:
    index = data / "index"
    return StorePaths(data / "vault", data / "ledger.db", index / "index.db", index / "e.db", data / "runs")


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Open]:
    """Give a function that opens the store of a folder; all are closed after the test."""
    with ExitStack() as stack:
        yield lambda name: stack.enter_context(
            closing(MemoryStore.open(paths_in(tmp_path / name), StoreSettings(), StubEmbedder(), lambda: NOW))
        )


@pytest.fixture
def store(open_store: Open) -> MemoryStore:
    """Give a memory with a replaced statement, a dispute, a session, a forgotten one, and a note without any key."""
    store = open_store("old")
    older = store.remember("The port is 8080.", channel="shop", created_at=NOW - timedelta(days=9)).result()
    newer = store.remember("The port is 8443 now.", channel="shop", created_at=NOW - timedelta(days=2)).result()
    other = store.remember("The ferry leaves at nine.", channel="shop").result()
    gone = store.remember("The zinnober is sold out.", channel="shop").result()
    turns = [NewTurn("user", f"Turn {number} of it.", NOW, f"t{number}") for number in range(3)]
    store.observe(SessionHead("talk", "shop", started_at=NOW), turns).result()
    (store.vault.root / "plain.md").write_text("A note that says nothing of itself.\n")
    store.reconcile()
    store.settle_links()
    store.link(newer, older, "Supersedes")
    store.link(other, newer, "Contradicts")
    store.forget(gone, "zinnober is back")
    store.settle()
    return store


def export(store: MemoryStore, path: Path, form: str = "ocf", **params: object) -> Path:
    given = ExportParams.model_validate({"path": str(path), "form": form, "sessions": True, **params})
    ExportMethods(store).export(given, Call(1, "export"))
    return path


def decisions(bundle: Path) -> list[dict[str, object]]:
    with tarfile.open(bundle) as tar:
        lines = tar.extractfile("qualify.jsonl").read().splitlines()  # type: ignore[union-attr]
    return [json.loads(line) for line in lines]


def test_the_same_state_makes_the_same_bytes(store: MemoryStore, tmp_path: Path) -> None:
    first, second = (export(store, tmp_path / name).read_bytes() for name in ("a.ocf", "b.ocf"))
    assert first == second
    store.remember("The ferry is red.", channel="shop").result()
    assert export(store, tmp_path / "c.ocf").read_bytes() != first


def test_every_memory_has_the_decision_that_let_it_in(store: MemoryStore, tmp_path: Path) -> None:
    bundle = export(store, tmp_path / "a.ocf")
    with tarfile.open(bundle) as tar:
        snapshot = json.loads(tar.extractfile("snapshot.json").read())  # type: ignore[union-attr]
    ids = {one["node_id"] for one in snapshot["memories"]}
    accepted = {one["id"] for one in decisions(bundle) if one["decision"] == "accepted"}
    assert ids == accepted
    assert b"zinnober" not in bundle.read_bytes()


def test_what_a_dream_was_refused_is_named_with_the_reason(store: MemoryStore, tmp_path: Path) -> None:
    dropped = {"gate": {"dropped": [{"stage": "decay", "actions": 2, "of": 3, "reason": "too much is archived"}]}}
    from dreamd.store.ledger.records import Run

    store.record_run(Run("20261121-daily", "daily", "nothing", NOW, NOW, summary=dropped))
    (refused,) = (one for one in decisions(export(store, tmp_path / "a.ocf")) if one["decision"] == "refused")
    assert (refused["stage"], refused["run"]) == ("decay", "20261121-daily")
    assert refused["reason"] == "2 of 3 changes left out: too much is archived"
    of_one = decisions(export(store, tmp_path / "b.ocf", channel="shop"))
    assert [one for one in of_one if one["decision"] == "refused"] == []


def test_one_changed_byte_is_seen(store: MemoryStore, tmp_path: Path) -> None:
    bundle = export(store, tmp_path / "a.ocf")
    checked = check_bundle(bundle)
    assert (checked.kind, checked.memories, checked.sessions) == ("ocf", 4, 1)
    whole = bundle.read_bytes()
    altered = tmp_path / "altered.ocf"
    chance = random.Random(1)
    for place in [0, 100, 150, len(whole) - 1, *chance.sample(range(len(whole)), 200)]:
        changed = bytearray(whole)
        changed[place] ^= 1 << chance.randrange(8)
        altered.write_bytes(changed)
        with pytest.raises((Corrupt, InvalidInput)):
            check_bundle(altered)
    for torn in (whole[:-1], whole[: len(whole) // 2], whole + b"\0", b""):
        altered.write_bytes(torn)
        with pytest.raises((Corrupt, InvalidInput)):
            check_bundle(altered)


def test_in_a_folder_a_changed_or_added_file_is_seen_too(store: MemoryStore, tmp_path: Path) -> None:
    folder = tmp_path / "unpacked"
    with tarfile.open(export(store, tmp_path / "a.ocf")) as tar:
        tar.extractall(folder, filter="data")
    assert check_bundle(folder).kind == "ocf"
    (folder / "more.md").write_text("---\ntype: Note\n---\nMore.\n")
    with pytest.raises(Corrupt, match=r"more\.md"):
        check_bundle(folder)


@pytest.mark.parametrize("form", ["vault", "okf", "ocf", "folder"])
def test_a_memory_made_of_one_is_equal(store: MemoryStore, open_store: Open, tmp_path: Path, form: str) -> None:
    source = (
        store.vault.root if form == "vault" else export(store, tmp_path / f"a.{form}", form.replace("folder", "okf"))
    )
    if form == "folder":
        with tarfile.open(source) as tar:
            tar.extractall(tmp_path / "unpacked", filter="data")
        source = tmp_path / "unpacked"
    laid = lay_bundle(source, paths_in(tmp_path / "new"))
    new = open_store("new")
    new.rebuild()
    made = made_of(new.core, laid)
    assert (made.memories, made.turns, made.differences) == (4, 3, ())
    assert made.links > 2
    ids = [one.node_id for one in store.list(limit=100)]
    assert sorted(ids) == sorted(one.node_id for one in new.list(limit=100))
    for node_id in ids:
        was, now = store.show(node_id), new.show(node_id)
        held = ("text", "channel", "path", "live", "supersedes", "superseded_by", "contradicts", "title", "kind")
        assert {name: getattr(was, name) for name in held} == {name: getattr(now, name) for name in held}
        # A note that does not say when it is of is of its file's time, which an OKF bundle does not carry.
        if form in ("vault", "ocf") or was.title != "plain":
            assert was.created_at is not None
            assert now.created_at is not None
            assert abs(was.created_at - now.created_at) < timedelta(seconds=1)
    assert not (new.vault.root / "index.md").exists()
    assert not (new.vault.root / "snapshot.json").exists()


def test_a_memory_that_is_there_is_not_written_over(store: MemoryStore, open_store: Open, tmp_path: Path) -> None:
    bundle = export(store, tmp_path / "a.ocf")
    before = sorted(store.vault.root.rglob("*"))
    with pytest.raises(InvalidInput, match="holds memories"):
        lay_bundle(bundle, paths_in(tmp_path / "old"))
    assert sorted(store.vault.root.rglob("*")) == before
    bundle.write_bytes(bundle.read_bytes()[:-600])
    with pytest.raises(Corrupt):
        lay_bundle(bundle, paths_in(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["../out.md", "/out.md", ".dreamd", "a/../../out.md", "a//b.md"])
def test_a_path_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    bundle = tmp_path / "evil.tar"
    with tarfile.open(bundle, "w") as tar:
        tar.addfile(tarfile.TarInfo(name))
    with pytest.raises(Corrupt, match="no path"):
        lay_bundle(bundle, paths_in(tmp_path / "new"))
    assert [one.name for one in tmp_path.iterdir()] == ["evil.tar"]


def test_a_link_in_an_archive_is_refused(tmp_path: Path) -> None:
    bundle = tmp_path / "evil.tar"
    with tarfile.open(bundle, "w") as tar:
        entry = tarfile.TarInfo("a.md")
        entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(entry)
    with pytest.raises(Corrupt, match="no file"):
        check_bundle(bundle)
