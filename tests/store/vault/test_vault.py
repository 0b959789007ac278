"""The vault: no way out of it, and nothing seen in it that is not a memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from dreamd.store.model import InvalidInput, NotFound
from dreamd.store.vault.disk import Disk
from dreamd.store.vault.vault import MARKER, Vault, is_derived, is_kept


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    root = tmp_path / "vault"
    root.mkdir()
    return Vault(root, Disk())


def put(vault: Vault, path: str, data: bytes = b"x") -> Path:
    full = vault.root / path
    full.parent.mkdir(parents=True, exist_ok=True)
    full.write_bytes(data)
    return full


OUTSIDE = [
    "",
    "/",
    "/etc/passwd",
    "..",
    "../x.md",
    "a/../../x.md",
    "a//b.md",
    "a/./b.md",
    ".hidden/x.md",
    "a/.x.md",
    "a\0.md",
    "a/",
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_path_leads_out_of_the_vault(vault: Vault, path: str) -> None:
    for method in (vault.resolve, vault.read, vault.exists, vault.stamp):
        with pytest.raises(InvalidInput):
            method(path)


def test_a_link_that_leads_out_is_neither_followed_nor_seen(vault: Vault, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "x.md").write_bytes(b"secret")
    (vault.root / "out").symlink_to(secret)
    (vault.root / "file.md").symlink_to(secret / "x.md")
    with pytest.raises(InvalidInput):
        vault.read("out/x.md")
    with pytest.raises(InvalidInput):
        vault.resolve("out/new/x.md")
    with pytest.raises(NotFound):
        vault.read("file.md")
    assert not vault.exists("file.md")
    assert list(vault.walk()) == []


def test_a_root_that_is_itself_a_link_is_fine(vault: Vault, tmp_path: Path) -> None:
    put(vault, "facts/a.md", b"hello")
    (tmp_path / "link").symlink_to(vault.root)
    linked = Vault(tmp_path / "link", Disk())
    assert linked.read("facts/a.md") == b"hello"
    assert [stamp.path for stamp in linked.walk()] == ["facts/a.md"]


def test_what_is_not_there_is_said_so(vault: Vault) -> None:
    put(vault, "facts/a.md")
    (vault.root / "folder.md").mkdir()
    for path in ("b.md", "no/such/folder/b.md", "facts/a.md/b.md", "folder.md"):
        with pytest.raises(NotFound):
            vault.read(path)
        assert not vault.exists(path)
        assert vault.stamp(path) is None


def test_the_walk_sees_memories_and_sessions_and_nothing_else(vault: Vault) -> None:
    kept = ["a.md", "facts/b.md", "facts/café.md", "scenarios/deep/er/c.md", "sessions/2026/11/21/s.md"]
    for path in kept:
        put(vault, path)
    for path in ("index.md", "log.md", "facts/index.md", "facts/log.md", "digests/2026-11-21.md", "x.txt", "x.md~"):
        put(vault, path)
    for path in (MARKER, ".obsidian/x.md", "facts/.b.md.swp.md", ".git/a.md", ".dreamd-1-1.tmp"):
        put(vault, path)
    os.mkfifo(vault.root / "pipe.md")
    assert sorted(stamp.path for stamp in vault.walk()) == sorted(kept)
    for stamp in vault.walk():
        assert vault.stamp(stamp.path) == stamp
        assert is_kept(stamp.path)


def test_a_name_that_is_not_utf8_is_passed_over(vault: Vault) -> None:
    try:
        Path(os.fsdecode(os.fsencode(vault.root) + b"/caf\xe9.md")).write_bytes(b"x")
    except OSError:
        pytest.skip("this file system holds only UTF-8 names")
    put(vault, "a.md")
    assert [stamp.path for stamp in vault.walk()] == ["a.md"]


def test_a_stamp_tells_a_change(vault: Vault) -> None:
    put(vault, "a.md", b"one")
    before = vault.stamp("a.md")
    vault.disk.write_temp_then_rename(vault.resolve("a.md"), b"two")
    after = vault.stamp("a.md")
    assert before is not None
    assert after is not None
    assert before != after
    assert before.inode != after.inode


@pytest.mark.parametrize(
    ("path", "derived"),
    [
        ("index.md", True),
        ("log.md", True),
        ("facts/index.md", True),
        ("digests/2026-11-21.md", True),
        ("digests/index.md", True),
        ("digests/2026-11-21 my own.md", False),
        ("facts/my-index.md", False),
        ("facts/digests/x.md", False),
        ("facts/a.md", False),
    ],
)
def test_what_is_derived(vault: Vault, path: str, derived: bool) -> None:
    assert is_derived(path) is derived
    assert is_kept(path) is not derived


def test_derived_names_are_found_whoever_wrote_them(vault: Vault) -> None:
    for path in (
        "index.md",
        "Projects/log.md",
        "digests/2026-11-21.html",
        "digests/mine.md",
        "facts/a.md",
        ".git/log.md",
    ):
        (vault.root / path).parent.mkdir(parents=True, exist_ok=True)
        (vault.root / path).write_text("x")
    assert list(vault.derived()) == ["Projects/log.md", "digests/2026-11-21.html", "index.md"]
    assert [stamp.path for stamp in vault.walk()] == ["digests/mine.md", "facts/a.md"]


def test_empty_folders_go_and_those_with_anything_in_them_stay(vault: Vault) -> None:
    (vault.root / "facts/2026/11").mkdir(parents=True)
    (vault.root / "mine/empty").mkdir(parents=True)
    (vault.root / "mine/note.md").write_text("x")
    vault.remove_empty_folders(["facts/2026/11/index.md", "mine/empty/gone.md", "nowhere/x.md", "../x.md", "top.md"])
    assert sorted(path.name for path in vault.root.iterdir()) == ["mine"]
    assert [path.name for path in (vault.root / "mine").iterdir()] == ["note.md"]


def test_the_marker_is_made_once_with_the_vault(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "data" / "vault", Disk())
    assert not vault.has_marker()
    vault.mark("0" * 16)
    assert vault.has_marker()
    written = vault.marker.stat().st_ino
    vault.mark("0" * 16)
    assert vault.marker.stat().st_ino == written
    assert list(vault.walk()) == []


def test_paths_of_the_system_become_the_vaults_own(vault: Vault, tmp_path: Path) -> None:
    assert vault.relative(vault.root / "facts" / "a.md") == "facts/a.md"
    assert vault.relative(tmp_path / "elsewhere.md") is None
    assert vault.relative(tmp_path / "vault2" / "a.md") is None
