"""A walk never leaves its folder, whatever links lie in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from dreamd.daemon.importing.detect import FORMATS, LEADS_OUT, read
from dreamd.daemon.importing.items import UnreadableFile

from tests.daemon.importing.conftest import notes, sessions, skipped, texts

CHAT = '{"role":"user","content":"%s"}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a folder to import, beside one that must not be read."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("the secret")
    (outside / "secret.jsonl").write_text(CHAT % "the secret")
    inside = tmp_path / "inside"
    inside.mkdir()
    return inside


@pytest.mark.parametrize("format_name", [None, *FORMATS])
@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("a.md", "../outside/secret.md"),
        ("a.jsonl", "../outside/secret.jsonl"),
        ("a.md", "/etc/passwd"),
        ("more", "../outside"),
        ("up", ".."),
        ("hop.md", "hop2"),
    ],
)
def test_a_link_that_leads_out_is_named_and_not_followed(
    folder: Path, link: str, target: str, format_name: str | None
) -> None:
    (folder / "hop2").symlink_to("../outside/secret.md")
    (folder / link).symlink_to(target)
    items = list(read(folder, format_name))
    assert not sessions(items)
    assert not notes(items)
    assert [item.path for item in skipped(items) if item.reason == LEADS_OUT] == [folder / link]


def test_a_link_within_the_folder_is_followed_and_no_file_is_taken_twice(folder: Path) -> None:
    (folder / "z").mkdir()
    (folder / "z" / "real.jsonl").write_text(CHAT % "hello")
    (folder / "a.jsonl").symlink_to("z/real.jsonl")
    (folder / "again").symlink_to("z")
    items = list(read(folder))
    assert texts(items) == ["hello"]
    assert not skipped(items)


def test_a_loop_of_links_is_no_file(folder: Path) -> None:
    (folder / "a.md").symlink_to("b.md")
    (folder / "b.md").symlink_to("a.md")
    assert {item.path.name for item in skipped(read(folder))} == {"a.md", "b.md"}
    with pytest.raises(UnreadableFile):
        read(folder / "a.md")


def test_a_link_that_is_named_is_its_target(folder: Path, tmp_path: Path) -> None:
    (folder / "a.md").symlink_to("../outside/secret.md")
    assert [note.text for note in notes(read(folder / "a.md"))] == ["the secret"]
    (tmp_path / "link").symlink_to("outside")
    assert len(notes(read(tmp_path / "link"))) == 1


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_file_that_becomes_a_link_after_the_folder_was_listed_is_not_followed(folder: Path, format_name: str) -> None:
    for name in ("a.md", "b.md"):
        (folder / name).write_text(CHAT % "mine")
    items = read(folder, format_name)
    first = next(items)  # a.md is being read; the folder is listed
    (folder / "b.md").unlink()
    (folder / "b.md").symlink_to("../outside/secret.md")
    assert "secret" not in repr([first, *items]).replace("secret.md", "")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_no_file_and_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe.md")
    for reader in FORMATS.values():
        with pytest.raises(OSError, match="not a regular file"):
            list(reader(folder / "pipe.md"))
