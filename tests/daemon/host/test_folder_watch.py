"""The vault watched: editors, floods, and a vault that goes away and comes back."""

from __future__ import annotations

import contextlib
import queue
import shutil
import time
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from dreamd.daemon.host import folder_watch
from dreamd.daemon.settings import WatchSettings

DEADLINE_S = 10.0


class Watched:
    """A watcher whose news are put into queues."""

    def __init__(self, vault: Path) -> None:
        self.vault = vault
        self.news: queue.Queue[str] = queue.Queue()
        self.losses: queue.Queue[float] = queue.Queue()
        self.watcher = folder_watch.VaultWatch(vault, WatchSettings(debounce_s=0.05), self._changed, self._lost)
        self.watcher.start()

    def _changed(self, paths: Collection[str]) -> None:
        for path in paths:
            self.news.put(path)

    def _lost(self) -> None:
        self.losses.put(time.monotonic())

    def wait_until_on(self) -> None:
        self.losses.get(timeout=DEADLINE_S)

    def wait_for(self, path: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while self.news.get(timeout=max(0.01, deadline - time.monotonic())) != path:
            pass

    def write_and_wait(self, path: str) -> None:
        """Write a file; told of by its name, or by a look at everything that began after it was there."""
        (self.vault / path).write_text("x")
        written, deadline = time.monotonic(), time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            with contextlib.suppress(queue.Empty):
                if self.news.get(timeout=0.01) == path:
                    return
            with contextlib.suppress(queue.Empty):
                if self.losses.get(timeout=0.01) > written:
                    return
        raise AssertionError(f"nobody told of {path}")


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_watch, "LOOK_AGAIN_S", 0.1)


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    vault = tmp_path / "vault"
    (vault / "facts").mkdir(parents=True)
    watched = Watched(vault)
    watched.wait_until_on()
    yield watched
    watched.watcher.stop()


def test_a_file_written_in_place(watched: Watched) -> None:
    (watched.vault / "facts" / "a.md").write_text("one")
    watched.wait_for("facts/a.md")


def test_watching_begins_with_a_comparison_of_the_whole_vault(watched: Watched) -> None:
    assert watched.watcher.state == "on"  # the fixture has waited for it: what changed before is not missed


def test_temp_and_rename_as_editors_do(watched: Watched) -> None:
    temp = watched.vault / "facts" / ".a.md.swp"
    temp.write_text("two")
    temp.rename(watched.vault / "facts" / "a.md")
    watched.wait_for("facts/a.md")
    assert watched.news.empty()


def test_a_folder_that_is_new(watched: Watched) -> None:
    folder = watched.vault / "profiles" / "x"
    folder.mkdir(parents=True)
    watched.losses.get(timeout=DEADLINE_S)
    (folder / "b.md").write_text("three")
    watched.wait_for("profiles/x/b.md")


def test_a_folder_moved_in_or_out_has_the_whole_vault_compared(watched: Watched, tmp_path: Path) -> None:
    staged = tmp_path / "staged"
    staged.mkdir()
    (staged / "a.md").write_text("x")
    staged.rename(watched.vault / "notes")
    watched.losses.get(timeout=DEADLINE_S)
    (watched.vault / "notes").rename(tmp_path / "out")
    watched.losses.get(timeout=DEADLINE_S)


def test_derived_and_hidden_files_are_not_reported(watched: Watched) -> None:
    (watched.vault / "digests").mkdir()
    for path in ("index.md", "log.md", "digests/2026-11-21.md", ".hidden.md", "facts/LICENSE", "facts/picture.png"):
        (watched.vault / path).write_text("x")
    (watched.vault / "facts" / "last.md").write_text("x")
    watched.wait_for("facts/last.md")
    assert watched.news.empty()


def test_a_deleted_file(watched: Watched) -> None:
    file = watched.vault / "facts" / "c.md"
    file.write_text("x")
    watched.wait_for("facts/c.md")
    file.unlink()
    watched.wait_for("facts/c.md")


def test_after_a_flood_the_whole_vault_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_watch, "LOOK_AGAIN_S", 1.0)  # on a busy machine a flood has pauses
    (tmp_path / "vault").mkdir()
    watched = Watched(tmp_path / "vault")
    watched.wait_until_on()
    note = tmp_path / "note.md"
    note.write_text("x")
    for number in range(10_000):
        (watched.vault / f"{number}.md").hardlink_to(note)
    watched.losses.get(timeout=DEADLINE_S)
    (watched.vault / "after.md").write_text("still there")
    watched.wait_for("after.md")
    watched.watcher.stop()


def test_a_vault_that_vanishes_and_comes_back(watched: Watched) -> None:
    shutil.rmtree(watched.vault)
    watched.vault.mkdir()
    watched.write_and_wait("d.md")


def test_a_vault_that_is_replaced_by_another(watched: Watched, tmp_path: Path) -> None:
    watched.vault.rename(tmp_path / "old")
    watched.vault.mkdir()
    watched.write_and_wait("e.md")


def test_a_reader_that_fails_once_is_not_the_end(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    vault.mkdir()
    watched = Watched(vault)
    watched.wait_until_on()
    calls: list[str] = []

    def fail_once(paths: Collection[str]) -> None:
        calls.extend(paths)
        if len(calls) == 1:
            raise OSError("disk")
        watched._changed(paths)

    watched.watcher._changed = fail_once
    (vault / "a.md").write_text("1")
    watched.losses.get(timeout=DEADLINE_S)
    (vault / "b.md").write_text("2")
    watched.wait_for("b.md")
    watched.watcher.stop()


def test_a_link_to_the_vault(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "vault").symlink_to(real)
    watched = Watched(tmp_path / "vault")
    watched.wait_until_on()
    (real / "a.md").write_text("x")
    watched.wait_for("a.md")
    watched.watcher.stop()


def test_stopping_does_not_wait_for_a_change(watched: Watched) -> None:
    began = time.monotonic()
    watched.watcher.stop()
    assert time.monotonic() - began < 3
    assert not watched.watcher._thread.is_alive()


def test_a_link_to_another_folder_is_not_watched_and_new_folders_are(tmp_path: Path) -> None:
    vault, elsewhere = tmp_path / "vault", tmp_path / "elsewhere"
    for folder in (vault, elsewhere):
        folder.mkdir()
    (vault / "link").symlink_to(elsewhere)
    watched = Watched(vault)
    watched.wait_until_on()
    (elsewhere / "theirs.md").write_text("x")
    watched.write_and_wait("a.md")
    (vault / "new").mkdir()
    watched.wait_until_on()
    watched.write_and_wait("new/b.md")
    watched.watcher.stop()
    assert "link/theirs.md" not in watched.news.queue
