"""Two or three machines and their remote: each change reaches the others, and each fault has its way out."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections.abc import Sequence
from datetime import timedelta
from hashlib import sha256
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from dreamd.daemon.methods.sync_methods import reasons_after, recheck_of
from dreamd.daemon.sync.entries import SyncEntry
from dreamd.daemon.sync.segments import OURS, Contended, RemoteAway, Sealer, SyncError
from dreamd.pipelines.gate.gate import Recheck
from dreamd.store import Selection, ToldTurn
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
    NodeId,
    NotFound,
    SessionHead,
)
from dreamd.store.okf import fact_id, from_memory, parse, path_for

from tests.daemon.sync.conftest import NewMachine
from tests.daemon.sync.machines import BEGIN, CHANNEL, Killed, Machine


def kept(machine: Machine, text: str, channel: str = CHANNEL) -> NodeId:
    node = machine.store.remember(text, channel=channel).result()
    machine.store.settle(10)
    machine.store.settle_links()
    return node


def said(machine: Machine, *texts: str, session: str = "monday") -> None:
    head = SessionHead(session, CHANNEL, title="Ovens", started_at=BEGIN)
    turns = [NewTurn("user", text, BEGIN, sha256(text.encode()).hexdigest()[:8]) for text in texts]
    machine.store.observe(head, turns).result()
    machine.store.settle(10)


def all_synced(*machines: Machine) -> None:
    for machine in (*machines, *machines, *machines):
        machine.sync()


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "--git-dir", str(folder), *arguments], capture_output=True, text=True, check=True
    ).stdout


def objects(folder: Path) -> bytes:
    """Return the bytes of every object of a repository, unpacked, whether a ref leads to it or not."""
    command = ["git", "--git-dir", str(folder), "cat-file", "--batch-all-objects", "--batch"]
    return subprocess.run(command, capture_output=True, check=True).stdout


# ---- what goes across


def test_a_memory_and_a_session_come_across_byte_for_byte(machine: NewMachine) -> None:
    a, b = machine("a"), machine("b")
    node = kept(a, "The kiln burns at 1240 degrees.")
    said(a, "the kiln burns", "how hot?")
    a.sync()
    done = b.sync()
    assert done.turns == 2
    assert a.files() == b.files()
    assert a.files().keys() == {node}
    assert [turn.node_id for turn in b.store.turns_of("monday")] == ["monday#1", "monday#2"]
    assert b.store.run(str(done.run_id)).kind == "sync"


def test_a_second_sync_writes_and_changes_nothing(machine: NewMachine) -> None:
    a, b = machine("a"), machine("b")
    kept(a, "The kiln burns at 1240 degrees.")
    said(b, "hello")
    all_synced(a, b)
    for done in (a.sync(), b.sync()):
        assert (done.written, done.read, done.changed, done.turns, done.pushed) == (0, 0, 0, 0, False)


OF_SHOP = "5" * 32
"""The hash of a remote."""


def test_clones_of_a_remote_are_joined_behind_those_that_are_here(machine: NewMachine) -> None:
    a, b = machine("a"), machine("b")
    a.store.replica.link(OF_SHOP, "shop-1a2b3c")
    b.store.replica.link(OF_SHOP, "shop-4d5e6f")
    node = kept(a, "The kiln burns at 1240 degrees.")
    all_synced(a, b)
    assert a.store.replica.links() == [(OF_SHOP, "shop-1a2b3c"), (OF_SHOP, "shop-4d5e6f")]
    assert b.store.replica.links() == [(OF_SHOP, "shop-4d5e6f"), (OF_SHOP, "shop-1a2b3c")]
    assert (a.sync().written, b.sync().written) == (0, 0)
    a.store.purge(Selection(nodes=(node,)))
    all_synced(a, b)
    c = machine("c")
    all_synced(c, a)
    assert sorted(c.store.replica.links()) == a.store.replica.links()


def test_the_clones_of_a_project_that_stays_here_are_not_told_of(machine: NewMachine) -> None:
    a, b = machine("a"), machine("b")
    a.off.add("shop-1a2b3c")
    a.store.replica.link(OF_SHOP, "shop-1a2b3c")
    all_synced(a, b)
    assert b.store.replica.links() == []
    a.off.clear()
    all_synced(a, b)
    assert b.store.replica.links() == [(OF_SHOP, "shop-1a2b3c")]


@pytest.mark.parametrize("body", [{"channel": "_global"}, {"channel": "shop-1a2b3c shop-4d5e6f"}, {"remote": "x"}, {}])
def test_what_can_be_no_clone_is_set_aside(machine: NewMachine, body: dict[str, str]) -> None:
    a, b = machine("a"), machine("b")
    wrong = SyncEntry({"kind": "project", "remote": OF_SHOP, **body})
    a.sync()
    a.peer.write("_global", [(wrong, {})])
    kept(a, "The kiln burns at 1240 degrees.")
    all_synced(a, b)
    assert b.store.replica.links() == []
    assert list(b.known.aside()) == [f"project {wrong.entry_id[:10]}"]
    assert a.files() == b.files()


def test_a_forgotten_memory_is_gone_elsewhere_and_no_dream_proposes_it_there(machine: NewMachine) -> None:
    a, b = machine("a"), machine("b")
    node = kept(a, "The kiln burns at 1240 degrees.")
    all_synced(a, b)
    b.store.forget(node)
    all_synced(b, a)
    assert a.files() == {}
    assert a.tombstones() == b.tombstones() != set()


def test_what_was_forgotten_before_any_sync_goes_elsewhere_too(machine: NewMachine) -> None:
    a, b = machine("a"), machine("b")
    node = kept(a, "The kiln burns at 1240 degrees.")
    assert kept(b, "The kiln burns at 1240 degrees.") == node
    a.store.forget(node)
    all_synced(a, b)
    assert a.files() == b.files() == {}


def test_a_forgotten_turn_is_hidden_elsewhere(machine: NewMachine) -> None:
    a, b = machine("a"), machine("b")
    said(a, "the password is swordfish", "ok")
    all_synced(a, b)
    a.store.forget("monday#1")
    all_synced(a, b)
    b.store.settle(10)
    assert b.store.core.tombstones.is_hidden("monday#1")


def test_an_edit_here_and_a_tag_there_are_both_kept(machine: NewMachine) -> None:
    a, b = machine("a"), machine("b")
    node = kept(a, "The kiln burns at 1240 degrees.")
    all_synced(a, b)
    a.store.edit(node, Edit(text="The kiln burns at 1260 degrees."))
    b.store.tag(node, add=["oven"])
    all_synced(a, b)
    assert a.files() == b.files()
    document = parse(a.files()[node])
    assert (document.body.strip(), document.meta["tags"]) == ("The kiln burns at 1260 degrees.", ["oven"])


def with_two_texts(machine: NewMachine) -> tuple[Machine, Machine, NodeId]:
    """Give two machines that were synced after each had edited the same fact, and its id."""
    a, b = machine("a"), machine("b")
    node = kept(a, "Lena looks after the kiln.")
    all_synced(a, b)
    a.store.edit(node, Edit(text="Tom sweeps the yard."))
    b.store.edit(node, Edit(text="Ines orders the clay."))
    all_synced(a, b)
    return a, b, node


def test_two_texts_of_one_fact_are_both_kept_and_wait_for_review(machine: NewMachine) -> None:
    a, b, _ = with_two_texts(machine)
    assert a.files() == b.files()
    assert sorted(a.texts().values()) == ["Ines orders the clay.", "Tom sweeps the yard."]
    a.store.settle(10)
    (decision,) = a.store.decisions()
    assert {decision.older.text, decision.newer.text} == set(a.texts().values())


def test_what_is_decided_of_two_texts_stays_decided(machine: NewMachine) -> None:
    a, b, node = with_two_texts(machine)
    (other,) = a.files().keys() - {node}
    a.store.forget(other)
    all_synced(a, b, a)
    assert a.files() == b.files()
    assert set(a.files()) == {node}


def test_two_successors_of_one_fact_are_disputed(machine: NewMachine) -> None:
    a, b = machine("a"), machine("b")
    old = kept(a, "Glazes are kept in the shed.")
    all_synced(a, b)
    one, other = kept(a, "Glazes: the cellar."), kept(b, "Glazes: the attic.")
    for here, newer in ((a, one), (b, other)):
        file = here.store.replica.memories()[old]
        path = here.folder / "vault" / file.path
        text = path.read_text()
        path.write_text(text.replace("dreamd: { ", f"dreamd: {{ superseded_by: {newer}, "))
        here.store.file_changed([file.path])
        here.store.settle(10)
    all_synced(a, b)
    assert a.files() == b.files()
    assert {str(parse(a.files()[node]).meta.get("contradicts")) for node in (one, other)} == {
        f"['{one}']",
        f"['{other}']",
    }


def test_undo_takes_a_sync_back(machine: NewMachine) -> None:
    a, b = machine("a"), machine("b")
    kept(a, "The kiln burns at 1240 degrees.")
    a.sync()
    done = b.sync()
    b.store.undo(str(done.run_id))
    assert b.files() == {}


def test_notes_that_come_beside_a_right_answer_raise_no_alarm(machine: NewMachine) -> None:
    a, b = machine("a"), machine("b")
    nodes = [
        kept(b, text) for text in ("The kiln burns at 1240 degrees.", "Kiln doors are blue.", "Kiln fees are due.")
    ]
    question = "At how many degrees does the kiln burn?"
    b.store.recall(question, channel=CHANNEL)
    for node in nodes:  # so few that each was shown, and is taken for an answer
        b.store.show(node)
    assert b.store.operations.feedback.settle(10)
    kept(b, "Pots dry for two days.")  # its commit writes what was noted
    assert sorted(b.store.replica.past_questions(1)[0].gold) == sorted(nodes)
    for number in range(40):
        kept(a, f"Kiln number {number} burns many pots at {number} degrees.")
    a.sync()
    rechecks: list[Recheck] = []
    b.syncing.before_change = lambda: rechecks.append(recheck_of(b.store))
    done = b.sync()
    assert reasons_after(b.store, rechecks[0], done.run_id, done.changed) == []
    assert set(nodes) - {hit.node_id for hit in b.store.recall(question, channel=CHANNEL).hits}


def test_dreams_elsewhere_do_not_read_a_session_again(machine: NewMachine) -> None:
    a, b = machine("a"), machine("b")
    said(a, "the kiln burns", "how hot?")
    a.store.replica.move_cursors({"monday": 2})
    all_synced(a, b)
    assert b.store.dreamt_to("monday") == 2


def test_a_channel_that_is_off_stays_here(machine: NewMachine) -> None:
    a, b = machine("a"), machine("b")
    a.off = {CHANNEL}
    kept(a, "The kiln burns at 1240 degrees.")
    said(a, "hello")
    shared = kept(a, "Ines prefers short answers.", "_global")
    all_synced(a, b)
    assert b.files().keys() == {shared}
    assert not b.turns()


def test_a_channel_that_is_let_in_again_gets_the_turns_that_were_passed_over(machine: NewMachine) -> None:
    a, b = machine("a"), machine("b")
    b.off = {CHANNEL}
    said(a, "hello")
    node = kept(a, "The kiln burns at 1240 degrees.")
    all_synced(a, b)
    assert not b.turns()
    b.off = set()
    all_synced(b)
    assert (b.turns(), set(b.files())) == (a.turns(), {node})


def test_a_file_with_a_secret_stays_here_and_is_named(machine: NewMachine) -> None:
    a, b = machine("a"), machine("b")
    node = kept(a, "The kiln burns at 1240 degrees.")
    path = a.folder / "vault" / a.store.replica.memories()[node].path
    path.write_text(path.read_text() + "\nAWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzTOPKEY99\n")
    a.store.file_changed([str(path.relative_to(a.folder / "vault"))])
    a.store.settle(10)
    all_synced(a, b)
    assert "secret" in a.known.aside()[node]
    assert b.files() == {}


# ---- purge


@pytest.mark.parametrize("key", [None, "encrypted"])
def test_a_purge_reaches_every_machine_and_every_byte(machine: NewMachine, tmp_path: Path, key: str | None) -> None:
    shared = Sealer.new_key() if key else None
    a, b = machine("a", shared), machine("b", shared)
    node = kept(a, "The safe opens with marzipan.")
    said(a, "the safe opens with marzipan", "noted")
    all_synced(a, b)
    b.store.edit(node, Edit(text="The safe opens with marzipan and rum."))
    all_synced(a, b)
    a.store.purge(Selection(matching="marzipan"))
    a.sync()
    (waiting,) = [acks for _, _, _, _, acks in a.known.purges()]
    assert waiting == [a.machine]
    all_synced(b, a)
    (done,) = [acks for _, _, _, _, acks in a.known.purges()]
    assert sorted(done) == sorted([a.machine, b.machine])
    assert not a.files()
    assert not b.files()
    assert ("monday", "[erased]") in b.turns()
    for folder in (a.folder / "sync" / "repository.git", b.folder / "sync" / "repository.git", tmp_path / "remote.git"):
        assert b"marzipan" not in objects(folder)
    for file in (path for one in (a, b) for path in one.folder.rglob("*") if path.is_file()):
        assert b"marzipan" not in file.read_bytes(), file


def test_a_machine_that_comes_later_gets_nothing_of_a_purge(machine: NewMachine) -> None:
    a = machine("a")
    node = kept(a, "The safe opens with marzipan.")
    said(a, "the safe opens with marzipan", "noted")
    a.sync()
    a.store.purge(Selection(nodes=(node, "monday#1")))
    a.sync()
    b = machine("b")
    all_synced(b)
    assert not b.files()
    assert ("monday", "[erased]") in b.turns()
    assert ("monday", "noted") in b.turns()


def test_what_was_edited_offline_goes_with_a_purge_elsewhere(machine: NewMachine) -> None:
    a, b = machine("a"), machine("b")
    node = kept(a, "The safe opens with marzipan.")
    all_synced(a, b)
    b.store.tag(node, add=["safe"])
    a.store.purge(Selection(nodes=(node,)))
    all_synced(a, b)
    assert a.files() == b.files() == {}


# ---- the remote


def test_the_remote_holds_no_word_of_any_memory(machine: NewMachine, tmp_path: Path) -> None:
    a = machine("a")
    kept(a, "The kiln burns at 1240 degrees.")
    said(a, "quicksilver")
    a.sync()
    everything = objects(tmp_path / "remote.git") + git(tmp_path / "remote.git", "for-each-ref").encode()
    for word in (b"kiln", b"1240", b"quicksilver", b"monday", CHANNEL.encode()):
        assert word not in everything


def test_a_plain_remote_can_be_read_with_git_alone(machine: NewMachine, tmp_path: Path) -> None:
    a = machine("a", None)
    node = kept(a, "The kiln burns at 1240 degrees.")
    a.sync()
    lines = git(tmp_path / "remote.git", "show", f"{OURS}{a.machine}/{CHANNEL}:entries").splitlines()
    (entry,) = [json.loads(line) for line in lines]
    assert (entry["seq"], entry["body"]["node"]) == (1, node)


def test_another_key_opens_nothing_and_is_noticed(machine: NewMachine) -> None:
    a, b = machine("a"), machine("b", Sealer.new_key())
    kept(a, "The kiln burns at 1240 degrees.")
    a.sync()
    b.peer.fetch()
    assert b.peer.shares_nothing()


def test_a_remote_that_is_away_loses_nothing(machine: NewMachine, tmp_path: Path) -> None:
    a, b = machine("a"), machine("b")
    all_synced(a, b)
    (tmp_path / "remote.git").rename(tmp_path / "unplugged")
    kept(a, "The kiln burns at 1240 degrees.")
    with pytest.raises(RemoteAway):
        a.syncing.run(may_purge=True, keep_machine=lambda machine: None)
    (tmp_path / "unplugged").rename(tmp_path / "remote.git")
    all_synced(a, b)
    assert len(b.files()) == 1


@pytest.mark.parametrize("where", ["a/sync/repository.git", "remote.git"])
def test_the_lock_of_a_killed_git_is_removed_once_it_is_old(machine: NewMachine, tmp_path: Path, where: str) -> None:
    a, b = machine("a"), machine("b")
    kept(a, "The kiln burns at 1240 degrees.")
    all_synced(a, b)
    ref = f"{OURS}{a.machine}/{Sealer(a.key).name_of(CHANNEL)}"
    lock = tmp_path / where / f"{ref}.lock"
    lock.touch()
    kept(a, "The clay comes on Tuesdays.")
    with pytest.raises((Contended, SyncError)):
        a.syncing.run(may_purge=True, keep_machine=lambda machine: None)
    os.utime(lock, (0, 0))
    all_synced(a, b)
    assert len(b.files()) == 2


def test_every_lock_of_a_killed_git_is_removed(machine: NewMachine) -> None:
    a = machine("a")
    kept(a, "The kiln burns at 1240 degrees.")
    all_synced(a)
    ref = f"{OURS}{a.machine}/{Sealer(a.key).name_of(CHANNEL)}"
    for lock in (f"{ref}.lock", "packed-refs.lock"):
        path = a.folder / "sync/repository.git" / lock
        path.touch()
        os.utime(path, (0, 0))
    a.repository.point(ref, None)
    assert ref not in a.repository.tips(OURS)


@pytest.mark.parametrize("forced", ["gone", "back", "else", "all gone"])
def test_a_remote_that_was_forced_is_filled_again(machine: NewMachine, tmp_path: Path, forced: str) -> None:
    a, b = machine("a"), machine("b")
    kept(a, "The kiln burns at 1240 degrees.")
    all_synced(a, b)
    kept(a, "The clay comes on Tuesdays.")
    all_synced(a, b)
    before, remote = a.files(), tmp_path / "remote.git"
    (ref,) = [one for one in a.repository.tips(f"{OURS}{a.machine}/") if one.endswith(Sealer(a.key).name_of(CHANNEL))]
    match forced:
        case "gone":
            git(remote, "update-ref", "-d", ref)
        case "back":
            git(remote, "update-ref", ref, git(remote, "rev-list", ref).split()[-1])
        case "else":
            tree = git(remote, "write-tree").strip()
            named = ["-c", "user.name=x", "-c", "user.email=x@x"]
            git(remote, "update-ref", ref, git(remote, *named, "commit-tree", tree, "-m", "mine").strip())
        case _:
            shutil.rmtree(remote)
            a.repository.make_folder()
    all_synced(b, a)
    assert a.files() == b.files() == before
    c = machine("c")
    all_synced(c)
    assert c.files() == before


def test_a_machine_that_is_lost_lives_on_in_the_others_although_the_remote_is_lost_too(
    machine: NewMachine, tmp_path: Path
) -> None:
    a, b = machine("a"), machine("b")
    kept(a, "The kiln burns at 1240 degrees.")
    all_synced(a, b)
    shutil.rmtree(tmp_path / "remote.git")
    b.repository.make_folder()
    b.sync()
    c = machine("c")
    all_synced(c)
    assert c.files() == b.files() != {}


def test_a_broken_entry_is_set_aside_and_named_and_the_rest_comes_in(machine: NewMachine) -> None:
    a, b = machine("a", None), machine("b", None)
    node = kept(a, "The kiln burns at 1240 degrees.")
    a.sync()
    (ref,) = [one for one in a.repository.tips(OURS) if one.endswith(CHANNEL)]
    (batch,) = a.repository.batches(a.repository.tips(ref)[ref], None)
    lines = (batch.sealed or b"") + (batch.sealed or b"").replace(b"1240", b"9999") + b"{not json\n"
    a.repository.point(ref, a.repository.append(batch.commit, lines))
    a.peer.fetch()
    a.peer.push()
    all_synced(b)
    assert b.texts() == {node: "The kiln burns at 1240 degrees."}
    (reason,) = b.known.aside().values()
    assert reason == "entry 2 is not what its id says; entry 3 cannot be read"


def test_names_that_lead_elsewhere_are_refused(machine: NewMachine) -> None:
    a, b = machine("a", None), machine("b", None)
    kept(a, "The kiln burns at 1240 degrees.")
    a.sync()
    (ref,) = [one for one in a.repository.tips(OURS) if one.endswith(CHANNEL)]
    tip = a.repository.tips(ref)[ref]
    text = a.files().popitem()[1].decode().replace(next(iter(a.files())), "aaaaaaaaaaaaa")
    there = {"kind": "memory", "channel": CHANNEL, "level": "L1", "text": text, "parents": []}
    head = {"session_id": "../x", "channel": "../x", "started_at": None}
    said_there = {"ordinal": 1, "role": "user", "at": None, "external_id": None, "text": "x", "session": "../x"}
    bad = [
        SyncEntry({**there, "node": "aaaaaaaaaaaaa"}, "../../x.md"),
        SyncEntry({**there, "node": "bbbbbbbbbbbbb"}, "b.md"),
        SyncEntry({"kind": "session", "session": "../x", "head": head}),
        SyncEntry({"kind": "turn", **said_there}),
    ]
    lines = b"".join(entry.line(number, "") for number, entry in enumerate(bad, 9))
    a.repository.point(ref, a.repository.append(tip, lines))
    a.peer.fetch()
    a.peer.push()
    all_synced(b)
    assert set(b.texts()) == {*a.texts(), "aaaaaaaaaaaaa"}
    assert set(b.known.aside()) == {"bbbbbbbbbbbbb", "session ../x"}
    assert not list(b.folder.parent.rglob("x.md"))


# ---- machines


def test_a_machine_restored_from_a_backup_goes_on_under_a_new_id(machine: NewMachine, tmp_path: Path) -> None:
    a, b = machine("a"), machine("b")
    kept(a, "The kiln burns at 1240 degrees.")
    all_synced(a, b)
    a.close()
    shutil.copytree(a.folder, tmp_path / "backup")
    a.open()
    kept(a, "The clay comes on Tuesdays.")
    all_synced(a, b)
    a.close()
    shutil.rmtree(a.folder)
    shutil.copytree(tmp_path / "backup", a.folder)
    a.open()
    before = a.machine
    kept(a, "The yard is swept on Fridays.")
    done = a.sync()
    assert a.machine != before
    assert "a backup was put back here" in done.notes[0]
    assert before in done.notes[0]
    all_synced(b, a)
    assert a.files() == b.files()
    assert len(a.files()) == 3


def test_of_two_machines_with_one_id_the_second_takes_another(machine: NewMachine, tmp_path: Path) -> None:
    a, b = machine("a"), machine("b")
    kept(a, "The kiln burns at 1240 degrees.")
    all_synced(a, b)
    b.close()
    shutil.rmtree(b.folder)
    a.close()
    shutil.copytree(a.folder, b.folder)
    a.open()
    b.open()
    assert a.machine == b.machine
    kept(a, "The clay comes on Tuesdays.")
    kept(b, "The yard is swept on Fridays.")
    all_synced(a, b)
    assert a.machine != b.machine
    assert a.files() == b.files()
    assert len(a.files()) == 3
    for one in (a, b):  # the first has its id still, although the copy told that it has another
        assert {name for name, (_, old) in one.known.machines().items() if not old} > {a.machine, b.machine}


def learned(machine: Machine, text: str, turn: NodeId) -> NodeId:
    """Land a fact that cites a turn, as a dream does."""
    node, now = fact_id(CHANNEL, text), machine.now()
    session_id = turn.partition("#")[0]
    place = path_for(Level.FACT, text, node, CHANNEL)
    memory = Memory(
        node_id=node, level=Level.FACT, kind=Kind.FACT, title=text, text=text, channel=CHANNEL, created_at=now,
        session_id=session_id, sources=(turn,), path=place,
    )  # fmt: skip
    content = from_memory(memory, {turn: machine.store.replica.session_path(session_id) or ""})
    action = Action(
        kind=ActionKind.CREATE, path=place, node_id=node, stage="consolidate", reason="said", content=content,
        fingerprint=f"L1:{node}",
    )  # fmt: skip
    machine.store.apply(Changeset(run_id=f"{now:%Y%m%d-%H%M%S}-daily-{node[:4]}", actions=(action,)), kind="daily")
    machine.store.settle(10)
    return node


def cited(machine: Machine, node: NodeId) -> str:
    """Return the text of the one turn that a memory cites."""
    machine.store.settle(10)
    (source,) = parse(machine.files()[node]).meta["sources"]
    path = str(source["resource"]).removeprefix("/")
    (turn,) = [one for one in machine.store.replica.session(path)[1] if one.node_id == source["title"]]
    return turn.text


def continued_apart(machine: NewMachine) -> tuple[Machine, Machine]:
    """Give two machines that shared a turn of a session, and each went on with two more while they were apart."""
    a, b = machine("a"), machine("b")
    said(a, "first")
    all_synced(a, b)
    said(a, "second, on a", "third, on a")
    said(b, "second, on b", "third, on b")
    return a, b


def fork_of(machine: Machine) -> NodeId:
    """Return the line in which Monday goes on."""
    (line,) = {session_id for session_id, _ in machine.turns() if session_id != "monday"}
    return line


def test_one_session_continued_on_two_machines_becomes_two_on_both(machine: NewMachine) -> None:
    a, b = continued_apart(machine)
    all_synced(a, b)
    assert a.sessions() == b.sessions()
    other, own = sorted(a.sessions())
    assert [(turn.node_id, turn.text) for turn in a.store.replica.session(own)[1]] == [
        ("monday#1", "first"), ("monday#2", "second, on a"), ("monday#3", "third, on a"),
    ]  # fmt: skip
    line = fork_of(b)
    assert [(turn.node_id, turn.text) for turn in b.store.replica.session(other)[1]] == [
        (f"{line}#2", "second, on b"), (f"{line}#3", "third, on b"),
    ]  # fmt: skip
    assert [turn.node_id for turn in b.store.turns_of(line)] == [f"{line}#2", f"{line}#3"]


def test_what_names_turns_that_gave_way_follows_them(machine: NewMachine) -> None:
    a, b = continued_apart(machine)
    ours, theirs = learned(a, "The kiln of a.", "monday#2"), learned(b, "The kiln of b.", "monday#2")
    b.store.forget("monday#3")
    b.store.replica.move_cursors({"monday": 3})
    all_synced(a, b)
    for one in (a, b):
        assert (cited(one, ours), cited(one, theirs)) == ("second, on a", "second, on b")
        assert one.store.core.tombstones.hidden == {f"{fork_of(b)}#3"}
        assert (one.store.dreamt_to("monday"), one.store.dreamt_to(fork_of(b))) == (1, 3)
    assert a.files() == b.files()


def test_a_session_that_gave_way_goes_on_as_its_own_line(machine: NewMachine) -> None:
    a, b = continued_apart(machine)
    all_synced(a, b)
    said(a, "fourth, on a")
    said(b, "first", "fourth, on b")
    b.close()
    b.open()
    said(b, "fifth, on b")
    all_synced(a, b)
    assert a.sessions() == b.sessions()
    line = fork_of(b)
    assert [turn.node_id for turn in a.store.turns_of("monday")] == ["monday#1", "monday#2", "monday#3", "monday#4"]
    assert [turn.node_id for turn in a.store.turns_of(line)] == [f"{line}#{n}" for n in (2, 3, 4, 5)]


def test_a_purge_of_a_session_that_gave_way_leaves_the_other_line(machine: NewMachine) -> None:
    a, b = continued_apart(machine)
    all_synced(a, b)
    line = fork_of(b)
    b.store.purge(Selection(nodes=(line,)))
    all_synced(b, a)
    assert a.sessions() == b.sessions()
    assert {text for _, text in a.turns()} - {"[erased]"} == {"first", "second, on a", "third, on a"}
    assert not b.store.ledger.flags("line:")


def test_a_crash_right_after_a_session_gave_way_changes_nothing_of_that(
    machine: NewMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = continued_apart(machine)
    b.store.purge(Selection(nodes=("monday#2",)))
    all_synced(a)
    arrange = b.store.replica.arrange

    def crash(*arguments: Any) -> None:
        arrange(*arguments)
        raise Killed

    monkeypatch.setattr(b.store.replica, "arrange", crash)
    with pytest.raises(Killed):
        b.sync()
    b.close()
    b.open()
    line = fork_of(b)
    said(b, "second, on b", "third, on b", "fourth, on b")  # a client sends again what it may have lost
    all_synced(b, a)
    assert a.sessions() == b.sessions()
    assert [(turn.node_id, turn.text) for turn in a.store.turns_of(line)] == [
        (f"{line}#2", "[erased]"), (f"{line}#3", "third, on b"), (f"{line}#4", "fourth, on b"),
    ]  # fmt: skip
    assert [turn.text for turn in a.store.turns_of("monday")] == ["first", "second, on a", "third, on a"]


def test_a_purge_of_a_turn_that_gave_way_leaves_the_other_turn(machine: NewMachine) -> None:
    a, b = continued_apart(machine)
    b.store.purge(Selection(nodes=("monday#2",)))
    all_synced(a, b)
    assert a.sessions() == b.sessions()
    assert ("monday", "second, on a") in a.turns()
    assert (fork_of(b), "[erased]") in a.turns()


def test_a_purge_of_a_turn_that_gives_way_later_erases_that_turn_everywhere(machine: NewMachine) -> None:
    a, b = continued_apart(machine)
    for one in (a, b):  # each has looked at the remote before the other pushed
        one.syncing._publish(one.store.replica.memories())
        one.peer.fetch()
    a.peer.push()
    c = machine("c")
    all_synced(c)
    b.peer.push()
    all_synced(c)
    b.store.purge(Selection(nodes=("monday#2",)))
    all_synced(b, c, a)
    assert a.sessions() == b.sessions() == c.sessions()
    assert {text for _, text in c.turns()} == {"first", "second, on a", "third, on a", "[erased]", "third, on b"}


def test_turns_of_before_are_read_and_are_not_written_again(
    machine: NewMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = machine("a"), machine("b")
    new = a.syncing._new_turn

    def of_before(told: ToldTurn, channel: str) -> SyncEntry | None:
        entry = new(told, channel)
        return entry and SyncEntry({key: value for key, value in entry.body.items() if key != "after"})

    said(a, "first", "second")
    with monkeypatch.context() as before:
        before.setattr(a.syncing, "_new_turn", of_before)
        a.sync()
    said(a, "third")
    all_synced(a, b)
    said(b, "fourth")
    all_synced(b, a)
    assert a.sessions() == b.sessions()
    assert [turn.text for turn in b.store.turns_of("monday")] == ["first", "second", "third", "fourth"]
    assert len(a.known.turns_of("monday")) == 4


@pytest.mark.parametrize("order", list(permutations("abc")), ids="".join)
def test_three_forks_of_one_session_are_the_same_lines_in_whatever_order_they_arrive(
    machine: NewMachine, order: Sequence[str]
) -> None:
    machines = {name: machine(name) for name in "abc"}
    said(machines["a"], "first")
    all_synced(*machines.values())
    for name, one in machines.items():
        said(one, f"second, on {name}", f"third, on {name}")
        one.syncing._publish(one.store.replica.memories())  # before it has looked at the remote
    facts = {learned(one, f"The kiln of {name}.", "monday#2"): name for name, one in machines.items()}
    reader = machine("d")
    for name in order:
        machines[name].peer.fetch()
        machines[name].peer.push()
        reader.sync()
    all_synced(*(machines[name] for name in order), reader)
    for one in machines.values():
        assert (one.sessions(), one.files()) == (reader.sessions(), reader.files())
        assert {node: cited(one, node) for node in facts} == {
            node: f"second, on {name}" for node, name in facts.items()
        }
    assert len(reader.sessions()) == 3
    assert sorted(text for _, text in reader.turns().elements()) == sorted(
        ["first", *(f"{which}, on {name}" for which in ("second", "third") for name in "abc")]
    )


def test_two_machines_that_pushed_a_fork_at_once_agree(machine: NewMachine) -> None:
    a, b = continued_apart(machine)
    for one in (a, b):  # each has looked at the remote before the other pushed
        one.syncing._publish(one.store.replica.memories())
    ours, theirs = learned(a, "The kiln of a.", "monday#2"), learned(b, "The kiln of b.", "monday#2")
    for one in (a, b):
        one.peer.fetch()
        one.peer.push()
    c = machine("c")
    all_synced(c, a, b)
    assert a.sessions() == b.sessions() == c.sessions()
    assert len(a.turns()) == 5
    for one in (a, b, c):
        assert (cited(one, ours), cited(one, theirs)) == ("second, on a", "second, on b")


def test_a_fork_is_not_undone(machine: NewMachine) -> None:
    a, b = continued_apart(machine)
    all_synced(a, b)
    run = next(one for one in b.store.runs(20, kinds=["sync"]) if "forked" in one.summary)
    with pytest.raises(InvalidInput, match="stay in two sessions"):
        b.store.undo(run.run_id)
    assert a.sessions() == b.sessions()


@pytest.mark.parametrize("seed", range(4))
def test_however_a_session_goes_on_apart_no_turn_is_lost_and_every_fact_cites_its_own(
    machine: NewMachine, seed: int
) -> None:
    chance = random.Random(seed)
    machines = [machine(name, None) for name in "abc"]
    texts, facts = set[str](), dict[NodeId, str]()
    for number in range(14):
        one, what = chance.choice(machines), chance.choice(["say", "say", "learn", "sync"])
        text = f"turn {number} on {one.name}"
        if what == "sync":
            one.sync()
            continue
        new = NewTurn("user", text, BEGIN + timedelta(minutes=chance.randrange(600)))
        told = one.store.observe(SessionHead("monday", CHANNEL, started_at=BEGIN), [new]).result()
        texts.add(text)
        one.store.settle(10)
        if what == "learn":
            last = one.store.turns_of(told.session_id)[-1]
            facts[learned(one, f"A fact of {text}.", last.node_id)] = text
    all_synced(*machines)
    a, *others = machines
    assert all((one.sessions(), one.files()) == (a.sessions(), a.files()) for one in others)
    assert sorted(text for _, text in a.turns().elements()) == sorted(texts)
    assert {node: cited(a, node) for node in facts} == facts


def test_a_memory_that_both_learned_is_one(machine: NewMachine) -> None:
    a, b = machine("a"), machine("b")
    assert kept(a, "The kiln burns at 1240 degrees.") == kept(b, "The kiln burns at 1240 degrees.")
    all_synced(a, b)
    assert len(a.files()) == 1
    assert a.files() == b.files()


def test_said_again_after_it_was_forgotten_it_lives_everywhere(machine: NewMachine) -> None:
    a, b = machine("a"), machine("b")
    node = kept(a, "The kiln burns at 1240 degrees.")
    all_synced(a, b)
    a.store.forget(node)
    all_synced(a, b)
    kept(b, "The kiln burns at 1240 degrees.")
    all_synced(b, a)
    assert a.files() == b.files()
    assert set(a.files()) == {node}


def test_a_purge_of_others_that_names_nothing_here_changes_nothing(machine: NewMachine) -> None:
    a = machine("a")
    kept(a, "The kiln burns at 1240 degrees.")
    assert a.store.purge(Selection(nodes=("nothing", "monday#7"), if_there=True)).run_id is None
    with pytest.raises(NotFound):
        a.store.purge(Selection(nodes=("nothing",)))
