"""What is a person's stays theirs: bundles of others and folders of notes as the vault, compared byte by byte.

Start, recall, remember, dream, undo, stop, start; after each of them every file that was there holds what it held.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from .daemon_under_test import DaemonUnderTest
from .options import Options
from .scratch import own_folder
from .table import Row, say

MEASURE = "notes and bundles of others as the vault: files changed by start, recall, remember, dream, undo"
TARGET = "0"
QUESTIONS = ("revenue", "what are the tables about?")

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


def write_notes(vault: Path, paths: Iterable[str] = NOTES) -> Path:
    """Write a folder of notes as people keep them, or some of its files."""
    for path in paths:
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_bytes(NOTES[path].encode())
    (vault / "Empty").mkdir()
    return vault


def files_of(vault: Path) -> dict[str, bytes]:
    """Every file under a folder but our marker."""
    found = (path for path in vault.rglob("*") if path.is_file() and not path.is_symlink())
    return {path.relative_to(vault).as_posix(): path.read_bytes() for path in found if path.name != ".dreamd"}


def changed(before: Mapping[str, bytes], now: Mapping[str, bytes]) -> list[str]:
    """The files that are gone or hold something else."""
    return sorted(path for path, data in before.items() if now.get(path) != data)


def live_in(daemon: DaemonUnderTest, questions: Sequence[str]) -> Iterator[str]:
    """Do everything that a person and their agents do; yield the name of each step once it is done."""
    daemon.start()
    daemon.wait_until_it_answers()
    daemon.call("check")
    yield "start"
    for question in questions:
        daemon.call("recall", query=question, channel="*")
        daemon.call("context", query=question, channel="*")
    yield "recall"
    texts = ("I prefer tea to coffee in the morning.", "We decided to deploy on Thursdays, since Fridays went wrong.")
    for text in texts:
        daemon.call("remember", text=text)
    said = (*texts, "My brother Tom is 31.")
    turns = [{"role": "user", "text": text, "external_id": str(place)} for place, text in enumerate(said)]
    daemon.call("observe", session={"session_id": "bundles", "channel": "bundles"}, turns=turns)
    yield "remember"
    run = daemon.call("dream", kind="daily", wait=True)
    daemon.call("list", limit=1)  # what was acknowledged is in its place
    yield f"dream ({run['state']})"
    again = daemon.call("dream", kind="weekly", wait=True)
    yield f"dream weekly ({again['state']})"
    for undone in (again, run):
        daemon.call("undo", run_id=undone["run_id"])
    yield "undo"
    daemon.stop()
    daemon.start()
    daemon.wait_until_it_answers()
    yield "start again"


def measure(options: Options) -> Iterator[Row]:
    """Take the one row."""
    bundles = sorted(folder for folder in (options.data / "okf").glob("*/*") if folder.is_dir())
    found: list[str] = []
    files = 0
    for bundle in [None, *bundles[: options.of(len(bundles), 1)]]:
        name = bundle.name if bundle else "notes"
        say(f"living in {name}")
        with own_folder("bundles") as scratch:
            vault = shutil.copytree(bundle, scratch / "vault") if bundle else write_notes(scratch / "vault")
            before = files_of(vault)
            files += len(before)
            with DaemonUnderTest(scratch / "daemon", {"DREAMD_VAULT_DIR": str(vault)}) as daemon:
                daemon.stop()
                for step in live_in(daemon, QUESTIONS):
                    found += [f"{name}/{path} by {step}" for path in changed(before, files_of(vault))]
    how = f"{files} files of a folder of notes and {len(bundles)} bundles, byte by byte after each step"
    yield Row(MEASURE, str(len(found)), TARGET, not found, "; ".join([how, *found[:5]]))
