"""Derived files are ours while they hold what we wrote last; whatever else is there is a person's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.ledger import records
from dreamd.store.ledger.journal import sha256
from dreamd.store.ledger.ledger import Ledger
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import InvalidInput
from dreamd.store.okf.memory_file import body_hash
from dreamd.store.settings import StoreSettings
from dreamd.store.vault.disk import Disk
from dreamd.store.vault.vault import Vault
from dreamd.store.writer.derived import FLAG, DerivedFiles, is_as_marked, is_catalogue, unmarked
from dreamd.store.writer.writer import Planned

from tests.pipelines.fakes import NOW
from tests.store.disks.simulation import PumpedWriter


@pytest.fixture
def paths(tmp_path: Path) -> StorePaths:
    return StorePaths(tmp_path / "vault", tmp_path / "l.db", tmp_path / "i.db", tmp_path / "e.db", tmp_path / "runs")


def opened(paths: StorePaths) -> MemoryStore:
    return MemoryStore.open(paths, StoreSettings(), StubEmbedder(), lambda: NOW)


@pytest.fixture
def store(paths: StorePaths) -> Iterator[MemoryStore]:
    one = opened(paths)
    yield one
    one.close()


def text_of(path: Path) -> str:
    """Return a derived file's text, and see that it bears its mark."""
    data = path.read_bytes()
    assert is_as_marked(data)
    return unmarked(data).decode()


def notes(store: MemoryStore) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for problem in store.check():
        if problem.severity == "note":
            found.setdefault(problem.path, []).append(problem.problem)
    return found


def test_what_we_wrote_is_written_again_also_after_a_restart(store: MemoryStore, paths: StorePaths) -> None:
    assert store.write_derived({"index.md": "# One\n", "facts/index.md": "# Facts\n"}) == ()
    assert store.write_derived({"index.md": "# Two\n"}) == ()
    store.settle()
    assert text_of(paths.vault / "index.md") == "# Two\n"
    store.close()
    again = opened(paths)
    assert again.write_derived({"index.md": "# Three\n", "facts/index.md": None}) == ()
    again.settle()
    assert text_of(paths.vault / "index.md") == "# Three\n"
    assert not (paths.vault / "facts").exists()
    assert notes(again) == {}
    again.close()


@pytest.mark.parametrize("theirs", ["# Mine\n", "# One\n\nMine too.\n", ""])
def test_what_a_person_wrote_there_first_or_since_stays(store: MemoryStore, paths: StorePaths, theirs: str) -> None:
    (paths.vault / "log.md").write_text(theirs)
    store.write_derived({"index.md": "# One\n"})
    store.settle()
    (paths.vault / "index.md").write_text(theirs)
    assert store.write_derived({"index.md": "# Two\n", "log.md": "# Log\n"}) == ("index.md", "log.md")
    assert store.write_derived({"index.md": None, "log.md": None}) == ("index.md", "log.md")
    store.settle()
    assert (paths.vault / "index.md").read_text() == (paths.vault / "log.md").read_text() == theirs
    assert store.status().problems == []
    assert "it is yours, 1 more of such names (log.md), or" in notes(store)["index.md"][0]


@pytest.mark.parametrize("change", ["# Mine\n{}", "{}\nMine.\n", "{}\n", " {}"])
def test_what_we_wrote_is_known_without_the_ledger_unless_it_was_changed(
    store: MemoryStore, paths: StorePaths, change: str
) -> None:
    store.write_derived({"index.md": "# One\n", "log.md": "# Log\n", "digests/2026-11-21.html": "<!doctype html>\n"})
    store.settle()
    store.close()
    theirs = change.format((paths.vault / "log.md").read_text())
    (paths.vault / "log.md").write_text(theirs)
    for end in ("", "-wal", "-shm"):
        paths.ledger.with_name(paths.ledger.name + end).unlink(missing_ok=True)
    again = opened(paths)
    assert again.operations.pages.derived.ours() >= {"index.md", "digests/2026-11-21.html"}
    assert again.write_derived({"index.md": "# Two\n", "log.md": "# Log 2\n", "digests/2026-11-21.html": None}) == (
        "log.md",
    )
    again.settle()
    assert text_of(paths.vault / "index.md") == "# Two\n"
    assert (paths.vault / "log.md").read_text() == theirs
    assert notes(again).keys() == {"log.md"}
    again.close()


def test_what_a_version_without_marks_wrote_is_written_again_and_marked(store: MemoryStore, paths: StorePaths) -> None:
    (paths.vault / "index.md").write_text("# One\n")
    old = Planned(None, (), [records.set_flag(f"{FLAG}index.md", sha256(b"# One\n"))])
    store.core.writer.submit(lambda files: old).result()
    assert notes(store) == {}
    assert store.write_derived({"index.md": "# Two\n"}) == ()
    store.settle()
    assert text_of(paths.vault / "index.md") == "# Two\n"
    assert store.ledger.flags(FLAG) == {}


def test_a_file_equal_to_ours_that_we_did_not_write_is_not_ours(store: MemoryStore, paths: StorePaths) -> None:
    (paths.vault / "index.md").write_text("# One\n")
    assert store.write_derived({"index.md": "# One\n"}) == ("index.md",)
    assert store.write_derived({"index.md": "# Two\n"}) == ("index.md",)
    store.settle()
    assert (paths.vault / "index.md").read_text() == "# One\n"


def test_one_that_was_deleted_is_written_again(store: MemoryStore, paths: StorePaths) -> None:
    store.write_derived({"index.md": "# One\n"})
    store.settle()
    (paths.vault / "index.md").unlink()
    assert store.write_derived({"index.md": "# Two\n"}) == ()
    store.settle()
    assert text_of(paths.vault / "index.md") == "# Two\n"


def test_something_else_of_that_name_stays(store: MemoryStore, paths: StorePaths, tmp_path: Path) -> None:
    (paths.vault / "index.md").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (paths.vault / "digests").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "mine.md").write_text("# Mine\n")
    (paths.vault / "log.md").symlink_to(tmp_path / "mine.md")
    pages = {"index.md": "# One\n", "log.md": "# Log\n", "digests/2026-11-21.md": "# D\n"}
    assert store.write_derived(pages) == tuple(pages)
    store.settle()
    assert (tmp_path / "mine.md").read_text() == "# Mine\n"
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert store.operations.pages.derived.is_ours("index.md") is False


def test_derived_files_are_no_memories(store: MemoryStore) -> None:
    store.write_derived({"index.md": "# Zephyrine\n", "digests/2026-11-21.md": "# Zephyrine\n"})
    store.settle()
    assert store.catalog.contents() == []
    with pytest.raises(InvalidInput):
        store.write_derived({"facts/a.md": "# A\n"})


def test_a_save_while_it_is_written_wins_and_is_a_persons(
    store: MemoryStore, paths: StorePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between our look at it and the exchange; what gave way is made anew another time, so nothing waits for it."""
    store.write_derived({"index.md": "# One\n"})
    store.settle()
    look = store.core.writer._placer._read

    def save_after_the_look(full: Path) -> bytes | None:
        found = look(full)
        full.write_text("# Mine\n")
        return found

    monkeypatch.setattr(store.core.writer._placer, "_read", save_after_the_look)
    store.write_derived({"index.md": "# Two\n"})
    store.settle()
    monkeypatch.undo()
    assert (paths.vault / "index.md").read_text() == "# Mine\n"
    assert store.write_derived({"index.md": "# Three\n"}) == ("index.md",)
    assert store.ledger.counts()["conflicts"] == 0


@pytest.mark.parametrize("theirs", [None, "# Mine\n"])
def test_after_a_crash_before_its_file_a_page_is_written_and_is_ours_unless_a_person_was_there(
    tmp_path: Path, theirs: str | None
) -> None:
    vault, ledger = Vault(tmp_path / "vault", Disk()), Ledger(tmp_path / "l.db")
    vault.mark("0" * 16)
    before = PumpedWriter(vault, ledger)
    DerivedFiles(vault, ledger, before).write({"index.md": "# One\n"})
    before.barrier(1)
    DerivedFiles(vault, ledger, before).write({"index.md": "# Two\n"})  # acknowledged, and then nothing more
    assert unmarked(vault.read("index.md")) == b"# One\n"
    if theirs:
        (vault.root / "index.md").write_text(theirs)
    after = PumpedWriter(vault, ledger)
    after.replay()
    assert unmarked(vault.read("index.md")) == (theirs or "# Two\n").encode()
    derived = DerivedFiles(vault, ledger, after)
    assert derived.is_ours("index.md") is (theirs is None)
    assert derived.write({"index.md": "# Three\n"}) == (("index.md",) if theirs else ())
    ledger.close()


def test_what_recall_leaves_out_is_told_unless_it_is_a_table_of_contents(store: MemoryStore, paths: StorePaths) -> None:
    (paths.vault / "Projects").mkdir()
    (paths.vault / "Projects/index.md").write_text("# Projects\n\n* [Kettle](kettle.md) - boils\n")
    (paths.vault / "Projects/log.md").write_text("# Log\n\nTuesday: the kettle leaks.\n")
    (paths.vault / "log.md").write_text("# Log\n\n## 2026-11-20\n\n* **Creation**: begun\n")
    found = notes(store)
    assert found.keys() == {"log.md", "Projects/log.md"}
    assert "it is yours, 2 more of such names (Projects/index.md, Projects/log.md), or" in found["log.md"][0]
    assert "by another name it is found" in found["Projects/log.md"][0]


@pytest.mark.parametrize(
    ("path", "text", "catalogue"),
    [
        ("index.md", "---\nokf_version: '0.2'\n---\n# A\n\n* [a](a.md) - one\n", True),
        ("a/index.md", "# A\n\nSome words.\n\n- [a](a.md)\n- [[b]]\n", True),
        ("index.md", "# My ideas\n\nOne.\n\nTwo.\n- [a](a.md)\n", False),
        ("log.md", "# Log\n\n## 2026-07-01\n\n- **Verified** it\n", True),
        ("log.md", "- one\n- two\n", False),
    ],
)
def test_a_table_of_contents_is_told_from_a_note(path: str, text: str, catalogue: bool) -> None:
    assert is_catalogue(path, text.encode()) is catalogue


def test_a_dreams_page_that_a_person_edited_is_noted_until_it_is_as_it_was(
    store: MemoryStore, paths: StorePaths
) -> None:
    page = paths.vault / "profiles" / "shop" / "what-holds-now.md"
    page.parent.mkdir(parents=True)
    head = f'---\ntype: Profile\nnode_id: k2m4k2m4k2m4k\nlevel: L3\nbody_sha256: "{body_hash("One.")}"\n---\n\n'
    page.write_text(f"{head}One.\n")
    assert "profiles/shop/what-holds-now.md" not in notes(store)
    page.write_text(f"{head}One.\nMine.\n")
    (note,) = notes(store)["profiles/shop/what-holds-now.md"]
    assert "delete the file" in note
    page.write_text(f"{head}One.\n")
    assert "profiles/shop/what-holds-now.md" not in notes(store)
