"""Backups: the same memory elsewhere, of one moment while many write; torn, altered or half ones are named."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import apsw
import pytest
from dreamd.store import make_backup, read_archive, restore_backup
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import Corrupt, InvalidInput, NewTurn, SessionHead, StoreBusy
from dreamd.store.settings import StoreSettings

from tests.store.conftest import NOW, OpenStore

SAID = ("We deploy on Thursdays.", "The port of the orders service is 8443.", "No ORM please, I prefer plain SQL.")
TABLES = ("run", "action", "tombstone", "cursor", "usage", "feedback", "reinforcement", "question", "goal", "anchor")
WRITERS = 32


def places(data_dir: Path, vault: Path | None = None) -> StorePaths:
    index = data_dir / "index"
    return StorePaths(
        vault or data_dir / "vault", data_dir / "ledger.db", index / "index.db", index / "emb.db", data_dir / "runs"
    )


@contextmanager
def opened(paths: StorePaths) -> Iterator[MemoryStore]:
    store = MemoryStore.open(paths, StoreSettings(), StubEmbedder(), lambda: NOW)
    try:
        assert store.wait_until_caught_up(20)
        yield store
    finally:
        store.close()


def lived_in(store: MemoryStore) -> str:
    """Use a store as people do; return a run that can be undone."""
    first, second, third = (store.remember(text, channel="orders").result() for text in SAID)
    turns = [NewTurn("user", f"Turn {number} of the talk", NOW, f"t{number}") for number in range(5)]
    store.observe(SessionHead("talk", channel="orders"), turns).result()
    store.settle()
    store.link(second, first, "RelatesTo")
    store.tag(third, ["sql"])
    store.feedback(third, "useful")
    (store.vault.root / "picture.bin").write_bytes(bytes(range(256)))
    store.settle_links()
    run = store.forget(first, "no longer").run_id
    assert run is not None
    store.remember(SAID[1], channel="orders").result()  # said again: a counter
    store.settle()
    return run


def rows(ledger: Path) -> dict[str, list[Any]]:
    connection = apsw.Connection(str(ledger), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return {table: sorted(connection.execute(f"SELECT * FROM {table}").fetchall(), key=str) for table in TABLES}
    finally:
        connection.close()


def known(store: MemoryStore) -> dict[str, Any]:
    """Return all that a person sees: every node, its links, its evidence."""
    nodes = store.list(limit=1000)
    return {one.node_id: store.show(one.node_id) for one in nodes}


@pytest.fixture
def safe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder apart from the memory."""
    return tmp_path_factory.mktemp("safe")


def test_what_is_restored_elsewhere_is_the_same_memory(store: MemoryStore, safe: Path) -> None:
    run = lived_in(store)
    done = store.exports.backup(safe / "b.tar.gz", "1", b"[log]\n")
    there, here = rows(store.paths.ledger), known(store)
    assert stat.S_IMODE(Path(done.path).stat().st_mode) == 0o600

    paths = places(safe / "elsewhere")
    restore_backup(Path(done.path), safe / "elsewhere", paths)
    assert rows(paths.ledger) == there
    for file in (path for path in store.paths.vault.rglob("*") if path.is_file()):
        copy = paths.vault / file.relative_to(store.paths.vault)
        assert copy.read_bytes() == file.read_bytes()
        assert copy.stat().st_mtime_ns == file.stat().st_mtime_ns
        assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert (safe / "elsewhere" / "settings.toml").read_bytes() == b"[log]\n"
    with opened(paths) as restored:
        assert known(restored) == here
        assert restored.undo(run).restored == 1
        assert SAID[0] in {one.text for one in known(restored).values()}


def test_a_restored_session_has_every_turn_under_its_id(store: MemoryStore, safe: Path) -> None:
    # Ids as language models give them, and a text whose hash is printable in hexadecimal: none of them is a secret.
    head = SessionHead("thread_P5kXdWhC0jsBO" + "K7eln41akDi", channel="orders")
    turns = [NewTurn("user", "13 says 316", NOW, f"call_WogX1ubX5BHVucrFPDegJN{number:02}") for number in range(4)]
    store.observe(head, turns).result()
    store.settle()
    listed = store.catalog.turns(head.session_id)
    done = store.exports.backup(safe / "b.tar.gz", "1", None)
    paths = places(safe / "elsewhere")
    restore_backup(Path(done.path), safe / "elsewhere", paths)
    with opened(paths) as restored:
        assert restored.catalog.turns(head.session_id) == listed
        assert len(listed) == 4
        assert restored.observe(head, turns).result().known == 4
        assert restored.check() == []


def test_a_backup_under_32_writers_is_of_one_moment(store: MemoryStore, safe: Path) -> None:
    lived_in(store)
    stop, acknowledged = threading.Event(), [0] * WRITERS

    def write(number: int) -> None:
        for turn in itertools.count():
            said = [NewTurn("user", f"{number} says {turn}", NOW, f"t{turn}")]
            store.observe(SessionHead(f"w{number}", channel="orders"), said).result()
            acknowledged[number] = turn + 1
            if stop.is_set():
                return

    threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    while min(acknowledged) < 3:
        threads[0].join(0.001)
    before = list(acknowledged)
    done = store.exports.backup(safe / "b.tar.gz", "1", None)
    stop.set()
    for thread in threads:
        thread.join()

    paths = places(safe / "elsewhere")
    restore_backup(Path(done.path), safe / "elsewhere", paths)
    with opened(paths) as restored:
        restored.settle()
        for number in range(WRITERS):
            turns = [turn.text for turn in restored.catalog.turns(f"w{number}") if turn.kind == "turn"]
            assert before[number] <= len(turns) <= acknowledged[number]
            assert turns == [f"{number} says {turn}" for turn in range(len(turns))]
        assert restored.check() == []


def test_a_living_memory_is_not_written_over(store: MemoryStore, safe: Path) -> None:
    lived_in(store)
    done = store.exports.backup(safe, "1", None)
    paths = places(safe / "other")
    with opened(paths) as other:
        other.remember("This one stays.").result()
    before = sorted(path.name for path in (safe / "other").rglob("*"))
    with pytest.raises(InvalidInput, match="holds memories"):
        restore_backup(Path(done.path), safe / "other", paths)
    shutil.rmtree(paths.vault)
    with pytest.raises(InvalidInput, match="holds the history"):
        restore_backup(Path(done.path), safe / "other", paths)
    assert {path.name for path in (safe / "other").rglob("*")} <= set(before)
    assert not list(safe.glob(".*"))
    with pytest.raises(InvalidInput, match="is there already"):
        store.exports.backup(Path(done.path), "1", None)
    with pytest.raises(InvalidInput, match="in the memory itself"):
        store.exports.backup(store.paths.vault, "1", None)


def test_a_new_memory_in_which_nothing_was_kept_gives_way(store: MemoryStore, safe: Path) -> None:
    lived_in(store)
    done = store.exports.backup(safe, "1", None)
    paths = places(safe / "fresh")
    with opened(paths):
        pass
    (safe / "fresh" / "connected").mkdir()
    (safe / "fresh" / "connected" / "claude-code.json").write_text("{}")
    restore_backup(Path(done.path), safe / "fresh", paths)
    assert (safe / "fresh" / "connected" / "claude-code.json").exists()
    with opened(paths) as restored:
        assert known(restored) == known(store)


@pytest.fixture
def archive(store: MemoryStore, safe: Path) -> Path:
    """Give a whole backup."""
    lived_in(store)
    return Path(store.exports.backup(safe, "1", None).path)


def test_a_torn_or_altered_one_is_named_and_nothing_is_restored(archive: Path, safe: Path) -> None:
    whole = archive.read_bytes()
    half, last, word, other = (safe / name for name in ("half", "last", "word", "other"))
    half.write_bytes(whole[: len(whole) // 2])
    last.write_bytes(whole[:-4])
    word.write_bytes(gzip.compress(gzip.decompress(whole).replace(b"Turn 3 of", b"Turn 4 of")))
    other.write_bytes(gzip.compress(b"something else" * 99))
    for broken in (half, last, word, other):
        with pytest.raises(Corrupt, match=str(broken)):
            read_archive(broken)
        with pytest.raises(Corrupt):
            restore_backup(broken, safe / "d", places(safe / "d"))
    assert not (safe / "d").exists()
    assert not (safe / ".d.restoring").exists()


@pytest.mark.parametrize("name", ["../outside", "/outside", "vault/../../outside", "vault/link"])
def test_a_path_that_leads_out_is_refused(archive: Path, safe: Path, name: str) -> None:
    evil = safe / "evil.tar.gz"
    manifest = {"format": 1, "dreamd": "1", "made_at": "2026", "vault_id": None, "left_out": []}
    manifest["files"] = [{"path": name, "size": 0, "sha256": "", "mtime_ns": 0}]
    with tarfile.open(evil, "w:gz") as tar:
        for entry_name, content in (("manifest.json", json.dumps(manifest).encode()), (name, b"")):
            entry = tarfile.TarInfo(entry_name)
            entry.size = len(content)
            if entry_name == "vault/link":
                entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(entry, BytesIO(content))
    with pytest.raises(Corrupt):
        restore_backup(evil, safe / "d", places(safe / "d"))
    assert not (safe / "outside").exists()


def test_no_backup_is_made_of_a_memory_that_is_not_whole(store: MemoryStore, safe: Path) -> None:
    store.paths.purge.write_text("{}")
    with pytest.raises(StoreBusy, match="purge"):
        make_backup(store.paths, safe, now=NOW, version="1")
    store.paths.purge.unlink()
    away = replace(store.paths, vault=safe / "away")
    with pytest.raises(StoreBusy, match="not there"):
        make_backup(away, safe, now=NOW, version="1")
    assert not list(safe.glob("*.tar.gz")) + list(safe.glob(".dreamd-backup-*"))


DIES = """
import os, sys
from datetime import datetime, UTC
from pathlib import Path
from dreamd.store import make_backup, restore_backup, read_archive, StorePaths
from dreamd.store.upkeep import backup
folder = Path(sys.argv[1])
def places(data, vault):
    index = data / "index"
    return StorePaths(vault, data / "ledger.db", index / "index.db", index / "e.db", data / "runs")
here = places(folder, folder / "vault")
archive, data, vault = folder.parent / "b.tar.gz", folder.parent / "r" / "data", folder.parent / "r" / "apart"
def until(number):
    left = number
    def hook(event, _):
        nonlocal left
        if event in ("open", "os.link", "os.rename", "os.mkdir", "os.rmdir", "os.remove", "shutil.rmtree", "os.utime"):
            left -= 1
            if not left:
                os._exit(9)
    sys.addaudithook(hook)
def dies_at(number, work):
    pid = os.fork()
    if not pid:
        try:
            until(number)
            work()
        except BaseException as error:
            os._exit(3 if "holds" in str(error) or "there already" in str(error) else 4)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
def make():
    make_backup(here, archive, now=datetime.now(UTC), version="1")
def bring():
    restore_backup(archive, data, places(data, vault))
number = 1
while (code := dies_at(number, make)) == 9:
    if archive.exists():
        read_archive(archive)
        archive.unlink()
    number += 1
assert code == 0, code
print("made", number)
assert [one.name for one in archive.parent.glob(".dreamd-backup-*")] == []
number, halves = 1, 0
while (code := dies_at(number, bring)) == 9:
    halves += data.exists() and not vault.exists()
    assert not (vault.exists() and not data.exists())
    if vault.exists():  # whole: it ended in the cleaning up
        assert (data / "ledger.db").exists() and (vault / ".dreamd").exists()
        import shutil; shutil.rmtree(folder.parent / "r")
    elif data.exists():  # the next try ends it
        bring()
        assert (vault / ".dreamd").exists()
        import shutil; shutil.rmtree(folder.parent / "r")
    number += 1
assert code == 0, code
print("restored", number, halves)
"""


def test_a_death_at_any_moment_leaves_no_half_backup_and_no_half_memory(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store()
    store.remember(SAID[0]).result()
    store.close()
    here = tmp_path / "inner"
    here.mkdir()
    for part in ("vault", "ledger.db"):
        shutil.move(tmp_path / part, here / part)
    done = subprocess.run(
        [sys.executable, "-c", DIES, str(here)], capture_output=True, text=True, env=dict(os.environ), check=False
    )
    assert done.returncode == 0, done.stderr
    made, restored = (line.split() for line in done.stdout.splitlines())
    assert int(made[1]) > 10
    assert int(restored[2]) > 0
