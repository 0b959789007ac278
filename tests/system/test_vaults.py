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

from tests.bench.bundles import changed, files_of, live_in
from tests.bench.daemon_under_test import DaemonUnderTest
from tests.system.conftest import Make
from tests.system.test_memory import chat, settle

pytestmark = pytest.mark.system

NOTES = {
    "index.md": "# My notes\n\nWhere I keep things; written by hand.\n\n* [Kettle](Projects/Kettle.md)\n",
    "log.md": "# Log\n\nTuesday: the kettle leaks again.\n",
    "Projects/Kettle.md": "---\naliases: [boiler]\n---\nA kettle of copper. See [[Decisions|ours]].\n%%secret%%\n",
    "Projects/log.md": "I called the plumber on 3 March.\r\nHe comes on 9 March.\r\n",
    "Projects/index.md": "---\ntags: x\n---\n# Projects\n\n- [[Kettle]]\n![[diagram.png]] ^block1\n",
    "Daily Notes/2026-11-20.md": "## Deploy\n\n- [ ] We moved to Postgres 16.\n- [x] The port is 5432 now.\n",
    "Decisions.md": "# Decisions\n\nWe decided to use Postgres instead of MySQL.\n\nThe port of the service is 8080.\n",
    "facts/index.md": "my own list of facts",
    "facts/tea.md": "---\ntype: Note\ntags: [a, a, ' ']\n---\nI prefer tea. [gone](/nowhere.md)\n",
    "digests/2026-11-22.md": "A digest of my own.\n",
    "digests/reading.md": "Digests of what I read: the heron stands still.\n",
    "broken.md": "---\ntype: [unclosed\n---\nStill a note.\n",
    ".obsidian/app.json": "{}\n",
    "diagram.png": "\x89PNG",
}


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A folder of notes as people keep them."""
    vault = tmp_path / "notes"
    for path, text in NOTES.items():
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_bytes(text.encode())
    (vault / "Empty").mkdir()
    return vault


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
    vault = tmp_path / "notes"
    vault.mkdir()
    for path in ("index.md", "log.md", "Decisions.md"):
        (vault / path).write_bytes(NOTES[path].encode())
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
    """What the format's own linter, which knows v0.1, finds; v0.2 allows the version at the root."""
    findings = lint_bundle(load_bundle(vault))
    return [f"{one.code} {one.path}: {one.message}" for one in findings if (one.code, one.path) != ("E004", "index.md")]


def test_after_a_dream_and_after_its_undo_the_vault_is_a_bundle(daemon: DaemonUnderTest, tmp_path: Path) -> None:
    vault = daemon.folder / "data" / "vault"
    with dreamt(daemon, tmp_path) as run_id:
        assert complaints(vault) == []
        assert len(list((vault / "facts").glob("*.md"))) > 3
        daemon.call("undo", run_id=run_id)
        settle(daemon)
    assert complaints(vault) == []
    assert "undone" in (vault / "log.md").read_text()
    listed = (vault / "facts" / "index.md").read_text()
    assert listed.count("\n* ") == len(list((vault / "facts").glob("*.md"))) - 1 == 2
    assert not [folder for folder in vault.rglob("*") if folder.is_dir() and not any(folder.iterdir())]
    assert "it was undone" in daemon.call("digest")["text"]
