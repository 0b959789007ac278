"""Bundles: the same state makes the same bytes, one changed byte is seen, and a memory made of one is equal."""

from __future__ import annotations

import json
import random
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest
from dreamd.daemon.methods.export_methods import ExportMethods, ExportParams
from dreamd.ipc.call import Call
from dreamd.store import Selection, check_bundle, lay_bundle, made_of
from dreamd.store.changes.run_kinds import FORBIDDEN, AppliedRun
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.index.tombstones import fingerprint
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import (
    Action,
    ActionKind,
    Changeset,
    Corrupt,
    InvalidInput,
    Kind,
    Level,
    Memory,
    NewTurn,
    SessionHead,
)
from dreamd.store.okf import fact_id, from_memory, path_for
from dreamd.store.settings import StoreSettings
from dreamd.store.upkeep import memory_bundles

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


def dreamt(store: MemoryStore, run: str, text: str) -> tuple[str, AppliedRun]:
    """Land a fact that a dream proposes."""
    node = fact_id("shop", text)
    memory = Memory(
        node_id=node, level=Level.FACT, kind=Kind.FACT, title=text, text=text, channel="shop", created_at=NOW,
        path=path_for(Level.FACT, text, node, "shop"),
    )  # fmt: skip
    action = Action(
        kind=ActionKind.CREATE, path=memory.path or "", node_id=node, stage="consolidate", reason="said",
        content=from_memory(memory), fingerprint=fingerprint(memory),
    )  # fmt: skip
    applied = store.apply(Changeset(run_id=run, actions=(action,)), kind="daily", summary=PASSED)
    store.settle()
    return node, applied


PASSED = {
    "actions": {"consolidate": 1},
    "gate": {"probes": 12, "recall_before": 0.8, "recall_after": 0.9, "gained": 1, "dropped": []},
}
RUNS = ("20261119-033000-daily-0001", "20261120-033000-daily-0002", "20261121-033000-daily-0003")


def test_the_log_has_each_decision_of_a_dream_a_person_and_a_purge(store: MemoryStore, tmp_path: Path) -> None:
    stays, _ = dreamt(store, RUNS[0], "The lamp is red.")
    wrong, _ = dreamt(store, RUNS[1], "The marzipan is old.")
    store.undo(RUNS[1])
    waits = store.keep("Always answer in cyan.", kind=Kind.PREFERENCE, channel="shop", agent_id="codex").result()
    assert waits.waits
    store.settle()
    store.reject(waits.node_id)
    erased, _ = dreamt(store, RUNS[2], "The saffron is dear.")
    store.forget(erased)
    store.purge(Selection(nodes=(erased,)))
    bundle = export(store, tmp_path / "a.ocf")
    log = decisions(bundle)
    of_run = [(one["decision"], one["id"]) for one in log if one["run"] == RUNS[0]]
    assert of_run == [("proposed", ""), ("gated", ""), ("accepted", stays)]
    (gate,) = (one["reason"] for one in log if one["run"] == RUNS[0] and one["action"] == "gate")
    assert gate == ("1 of 1 changes passed; 12 questions asked, 0 lost, 1 gained; recall 0.800 before, 0.900 after")
    assert [one["decision"] for one in log if one["id"] == wrong] == ["undone"]
    assert [one["decision"] for one in log if one["id"] == waits.node_id] == ["rejected"]
    (gone,) = (one for one in log if one["decision"] == "forgotten")
    assert [one["decision"] for one in log if one["run"] == gone["run"]] == ["forgotten", "forbidden"]
    assert len([one for one in log if one["decision"] == "replaced"]) == 1
    assert [one["decision"] for one in log if one["kind"] == "purge"] == ["purged"]
    assert all(datetime.fromisoformat(str(one["at"])).tzinfo for one in log)
    data = bundle.read_bytes()
    for word in (b"zinnober", b"marzipan", b"saffron", b"cyan", erased.encode(), fingerprint_of(erased).encode()):
        assert word not in data


def fingerprint_of(node: str) -> str:
    text = "The saffron is dear."
    return fingerprint(Memory(node_id=node, level=Level.FACT, kind=Kind.FACT, title=text, text=text, channel="shop"))


def test_of_a_private_channel_no_tombstone_leaves(store: MemoryStore, tmp_path: Path) -> None:
    gone = store.remember("The safe is behind the mirror.", channel="home").result()
    store.forget(gone)
    (run,) = (one.run_id for one in store.runs(50, kinds=["forget"])[:1])
    named = [[one["decision"] for one in decisions(export(store, tmp_path / "a.ocf")) if one["run"] == run]]
    named += [
        [one["decision"] for one in decisions(export(store, tmp_path / f"{channel}.ocf", channel=channel))
         if one["run"] == run]
        for channel in ("home", "shop")
    ]  # fmt: skip
    assert named == [["forgotten", "forbidden"], ["forgotten", "forbidden"], []]
    store.set_channel("home", learning=False)
    assert [one for one in decisions(export(store, tmp_path / "b.ocf")) if one["run"] == run] == []


def test_what_was_taken_back_stays_away_in_the_memory_that_is_made(
    store: MemoryStore, open_store: Open, tmp_path: Path
) -> None:
    wrong, _ = dreamt(store, RUNS[0], "The marzipan is old.")
    store.undo(RUNS[0])
    dreamt(store, RUNS[1], "The zinnober is sold out.")
    store.forget("talk#2")
    bundle = export(store, tmp_path / "a.ocf")
    laid = lay_bundle(bundle, paths_in(tmp_path / "new"))
    new = open_store("new")
    new.rebuild()
    assert made_of(new.core, laid).forbidden == len(store.core.tombstones.names) > 2
    assert sorted(new.core.tombstones.names) == sorted(store.core.tombstones.names)
    for number, text in enumerate(("The marzipan is old.", "The zinnober is sold out."), 1):
        node, applied = dreamt(new, RUNS[number], text)
        assert [one.reason for one in applied.skipped] == [FORBIDDEN]
        assert node not in {one.node_id for one in new.list(limit=100)}
    turns = [NewTurn("user", f"Turn {number} of it.", NOW, f"t{number}") for number in range(3)]
    new.observe(SessionHead("talk", "shop", started_at=NOW), turns).result()  # read again from its transcript
    new.settle()
    assert [turn.live for turn in new.core.catalog.turns("talk") if turn.kind == "turn"] == [True, False, True]
    new.remember("The marzipan is old.", channel="shop").result()  # its person says it again
    assert wrong in {one.node_id for one in new.list(limit=100)}


def test_a_crash_before_the_vault_has_its_name_leaves_nothing_in_the_way(
    store: MemoryStore, open_store: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = export(store, tmp_path / "a.ocf")

    def crash(staged: Path, target: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as before:
        before.setattr(memory_bundles, "put_in_place", crash)
        with pytest.raises(KeyboardInterrupt):
            lay_bundle(bundle, paths_in(tmp_path / "new"))
    lay_bundle(bundle, paths_in(tmp_path / "new"))
    assert sorted(open_store("new").core.tombstones.names) == sorted(store.core.tombstones.names)


CHANGES: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "changed": lambda log: [log[0].replace(b'"reason":"', b'"reason":"not '), *log[1:]],
    "removed": lambda log: [*log[:2], *log[3:]],
    "reordered": lambda log: [log[1], log[0], *log[2:]],
    "put in": lambda log: [log[0], *log],
    "without its end": lambda log: log[:-1],
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_line_of_the_log_that_is_not_as_written_is_seen_by_itself(
    store: MemoryStore, tmp_path: Path, change: str
) -> None:
    """Who changes it writes the hashes of the files anew, too."""
    folder = tmp_path / "unpacked"
    with tarfile.open(export(store, tmp_path / "a.ocf")) as tar:
        tar.extractall(folder, filter="data")
    log, snapshot = folder / "qualify.jsonl", json.loads((folder / "snapshot.json").read_bytes())
    log.write_bytes(b"".join(CHANGES[change](log.read_bytes().splitlines(keepends=True))))
    for file in snapshot["files"]:
        if file["path"] == log.name:
            file |= {"sha256": sha256(log.read_bytes()).hexdigest(), "size": log.stat().st_size}
    snapshot["state"] = memory_bundles._hash_of(snapshot)
    (folder / "snapshot.json").write_bytes(memory_bundles.canonical(snapshot))
    with pytest.raises(Corrupt, match=r"qualify\.jsonl"):
        check_bundle(folder)


def test_a_bundle_of_before_is_read(store: MemoryStore, tmp_path: Path) -> None:
    folder = tmp_path / "unpacked"
    with tarfile.open(export(store, tmp_path / "a.ocf")) as tar:
        tar.extractall(folder, filter="data")
    log, snapshot = folder / "qualify.jsonl", json.loads((folder / "snapshot.json").read_bytes())
    lines = [json.loads(line) for line in log.read_bytes().splitlines()]
    log.write_bytes(b"".join(memory_bundles.canonical({**line, "previous": None}) for line in lines))
    for file in snapshot["files"]:
        if file["path"] == log.name:
            file |= {"sha256": sha256(log.read_bytes()).hexdigest(), "size": log.stat().st_size}
    snapshot |= {"version": 1}
    del snapshot["decisions"]
    snapshot["state"] = memory_bundles._hash_of(snapshot)
    (folder / "snapshot.json").write_bytes(memory_bundles.canonical(snapshot))
    assert check_bundle(folder).decisions == len(lines)


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
