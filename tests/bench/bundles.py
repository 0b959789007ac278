"""What is a person's stays theirs: bundles of others and folders of notes as the vault, compared byte by byte.

Start, recall, remember, dream, undo, stop, start; after each of them every file that was there holds what it held.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from .daemon_under_test import DaemonUnderTest
from .options import Options
from .scratch import own_folder
from .table import Row, say, skipped

MEASURE = "bundles of others as the vault: files changed by start, recall, remember, dream, undo"
TARGET = "0"
QUESTIONS = ("revenue", "what are the tables about?")


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
    if not bundles:
        yield skipped(MEASURE, TARGET, f"no bundles in {options.data}")
        return
    found: list[str] = []
    files = 0
    for bundle in bundles[: options.of(len(bundles), 1)]:
        say(f"living in {bundle.name}")
        with own_folder("bundles") as scratch:
            vault = scratch / "vault"
            shutil.copytree(bundle, vault)
            before = files_of(vault)
            files += len(before)
            with DaemonUnderTest(scratch / "daemon", {"DREAMD_VAULT_DIR": str(vault)}) as daemon:
                daemon.stop()
                for step in live_in(daemon, QUESTIONS):
                    found += [f"{bundle.name}/{path} by {step}" for path in changed(before, files_of(vault))]
    yield Row(
        MEASURE,
        str(len(found)),
        TARGET,
        not found and files > 0,
        f"{files} files; {', '.join(found[:5])}" if found else f"{files} files, byte by byte after each step",
    )
