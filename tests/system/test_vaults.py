"""A folder of a person's own as the vault: whatever the daemon does in it, every file that was there stays as it was.

And a vault of ours, as an independent reader of the format sees it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from okft.bundle import load_bundle
from okft.lint import lint_bundle

from tests.bench.bundles import changed, files_of, live_in, write_notes
from tests.bench.daemon_under_test import DaemonUnderTest
from tests.memories import facts_in
from tests.system.conftest import Make
from tests.system.test_memory import chat, settle

pytestmark = pytest.mark.system


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """Make a folder of notes as people keep them."""
    return write_notes(tmp_path / "notes")


def test_a_folder_of_notes_stays_as_it_is_whatever_is_done_in_it(make: Make, notes: Path) -> None:
    before = files_of(notes)
    daemon = make(DREAMD_VAULT_DIR=str(notes))
    for step in live_in(daemon, ["kettle", "Postgres"]):
        assert changed(before, files_of(notes)) == [], step
    assert (notes / "Empty").is_dir()
    heron = daemon.call("recall", query="heron", channel="*")["hits"]
    assert "heron" in heron[0]["text"]
    told = {problem["path"]: problem for problem in daemon.call("check")["problems"] if problem["severity"] == "note"}
    assert {"index.md", "log.md", "Projects/log.md", "digests/2026-11-22.md"} <= told.keys()
    daemon.stop()


def test_a_dream_with_nothing_to_do_leaves_no_trace(make: Make, tmp_path: Path) -> None:
    vault = write_notes(tmp_path / "notes", ("index.md", "log.md", "Decisions.md"))
    daemon = make(DREAMD_VAULT_DIR=str(vault))
    daemon.start()
    daemon.wait_until_it_answers()
    before = files_of(vault)
    run = daemon.call("dream", kind="daily", wait=True)
    assert run["state"] == "nothing"
    assert files_of(vault) == before
    assert daemon.call("undo", run_id=run["run_id"])["restored"] == 0
    assert files_of(vault) == before


@contextmanager
def dreamt(daemon: DaemonUnderTest, tmp_path: Path) -> Iterator[str]:
    """Import, remember, dream; the run."""
    (tmp_path / "s1").mkdir()
    daemon.call("import", paths=[str(chat(tmp_path / "s1" / "chat.jsonl"))])
    daemon.call("remember", text="The deploy key lies in the green safe [behind the door].")
    daemon.call("remember", text="We never deploy on Fridays.", channel="shop")
    settle(daemon)
    run = daemon.call("dream", kind="daily", wait=True)
    assert run["state"] == "applied"
    settle(daemon)
    yield run["run_id"]


def complaints(vault: Path) -> list[str]:
    """Return the findings of the format's own linter, which knows v0.1; v0.2 allows the version at the root."""
    findings = lint_bundle(load_bundle(vault))
    return [f"{one.code} {one.path}: {one.message}" for one in findings if (one.code, one.path) != ("E004", "index.md")]


def test_after_a_dream_and_after_its_undo_the_vault_is_a_bundle(daemon: DaemonUnderTest, tmp_path: Path) -> None:
    vault = daemon.folder / "data" / "vault"
    with dreamt(daemon, tmp_path) as run_id:
        assert complaints(vault) == []
        assert len(facts_in(vault)) > 3
        daemon.call("undo", run_id=run_id)
        settle(daemon)
    assert complaints(vault) == []
    assert "undone" in (vault / "log.md").read_text()
    listed = [(vault / place / "notes/index.md").read_text() for place in ("general", "projects/shop")]
    assert [page.count("\n* ") for page in listed] == [1, 1]
    assert len(facts_in(vault)) == 2
    assert not [folder for folder in vault.rglob("*") if folder.is_dir() and not any(folder.iterdir())]
    assert "This dream was undone" in daemon.call("digest")["text"]
