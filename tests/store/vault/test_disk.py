"""The disk: whole files or none, names that swap, syncs that reach the right descriptors."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from pathlib import Path

import pytest
from dreamd.store.vault import disk as disk_module
from dreamd.store.vault.disk import Disk, is_temp, replace_file


@pytest.fixture
def disk() -> Disk:
    return Disk()


def test_a_file_is_written_whole_private_and_with_its_folders(disk: Disk, tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "c.md"
    disk.write_temp_then_rename(path, b"one")
    disk.write_temp_then_rename(path, b"two\0\xff")
    assert disk.read(path) == b"two\0\xff"
    assert disk.read(path, 3) == b"\0\xff"
    assert [entry.name for entry in path.parent.iterdir()] == ["c.md"]
    assert stat.S_IMODE(path.stat().st_mode) == disk_module.FILE_MODE


def test_a_reader_keeps_the_old_content_while_the_new_takes_its_name(disk: Disk, tmp_path: Path) -> None:
    path = tmp_path / "c.md"
    disk.write_temp_then_rename(path, b"old")
    with path.open("rb") as reader:
        disk.write_temp_then_rename(path, b"new content")
        assert reader.read() == b"old"


def test_a_write_that_fails_leaves_the_old_file_and_no_other(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c.md"
    disk.write_temp_then_rename(path, b"old")

    def full(fd: int, data: object) -> int:
        raise OSError(errno.ENOSPC, "no space left")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(OSError, match="no space"):
            disk.write_temp_then_rename(path, b"new")
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(OSError, match="directory"):
        disk.write_temp_then_rename(folder, b"new")
    assert disk.read(path) == b"old"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["c.md", "folder"]


def test_short_writes_are_continued(disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    really_write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: really_write(fd, bytes(data)[:3]))
    disk.write_temp_then_rename(tmp_path / "c.md", b"0123456789")
    disk.append(tmp_path / "c.md", b"abcdef")
    monkeypatch.undo()
    assert disk.read(tmp_path / "c.md") == b"0123456789abcdef"


def test_an_append_goes_to_the_end_or_to_where_it_went_before(disk: Disk, tmp_path: Path) -> None:
    path = tmp_path / "s.md"
    with pytest.raises(FileNotFoundError):
        disk.append(path, b"x")
    disk.write_temp_then_rename(path, b"head")
    disk.append(path, b" one")
    disk.append(path, b" two")
    disk.append(path, b" one two three", offset=4)
    assert disk.read(path) == b"head one two three"


def test_two_names_are_exchanged(disk: Disk, tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_bytes(b"A")
    b.write_bytes(b"B")
    disk.exchange(a, b)
    assert (a.read_bytes(), b.read_bytes()) == (b"B", b"A")
    a.unlink()
    with pytest.raises(FileNotFoundError):
        disk.exchange(a, b)
    assert b.read_bytes() == b"A"


@pytest.mark.parametrize("code", sorted({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}))
def test_where_names_cannot_be_exchanged_renames_do(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    class Libc:
        @staticmethod
        def renameat2(*args: object) -> int:
            ctypes.set_errno(code)
            return -1

        renamex_np = renameat2

    monkeypatch.setattr(disk_module, "_libc", Libc)
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_bytes(b"A")
    b.write_bytes(b"B")
    assert disk.exchange(a, b) is False
    assert (a.read_bytes(), b.read_bytes()) == (b"B", b"A")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a", "b"]


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths whose descriptors were synced, in order."""
    paths: list[str] = []

    def note(fd: int) -> None:
        status = os.fstat(fd)
        paths.append("folder" if stat.S_ISDIR(status.st_mode) else f"{status.st_size} bytes")

    monkeypatch.setattr(disk_module, "sync_descriptor", note)
    return paths


def test_a_sync_is_of_the_file_or_of_the_folder(disk: Disk, tmp_path: Path, synced: list[str]) -> None:
    disk.write_temp_then_rename(tmp_path / "c.md", b"12345")
    assert synced == []
    disk.fsync(tmp_path / "c.md")
    disk.fsync_dir(tmp_path)
    assert synced == ["5 bytes", "folder"]
    with pytest.raises(FileNotFoundError):
        disk.fsync(tmp_path / "missing")
    with pytest.raises(NotADirectoryError):
        disk.fsync_dir(tmp_path / "c.md")


def test_a_file_system_without_a_sync_of_its_own_syncs_what_is_named(
    disk: Disk, tmp_path: Path, synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_module, "_libc", object())
    (tmp_path / "c.md").write_bytes(b"123")
    disk.sync_filesystem(tmp_path, files=[tmp_path / "c.md", tmp_path / "gone"], folders=[tmp_path])
    assert synced == ["3 bytes", "folder"]


def test_a_failed_sync_of_the_file_system_is_told(disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Libc:
        @staticmethod
        def syncfs(fd: int) -> int:
            ctypes.set_errno(errno.EIO)
            return -1

    disk.sync_filesystem(tmp_path)  # the real one
    monkeypatch.setattr(disk_module, "_libc", Libc)
    with pytest.raises(OSError, match=str(tmp_path)) as failed:
        disk.sync_filesystem(tmp_path)
    assert failed.value.errno == errno.EIO


def test_a_failed_fsync_is_told(disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(fd: int) -> None:
        raise OSError(errno.EIO, "bad block")

    (tmp_path / "c.md").write_bytes(b"x")
    monkeypatch.setattr(disk_module, "sync_descriptor", fail)
    with pytest.raises(OSError, match="bad block"):
        disk.fsync(tmp_path / "c.md")


def test_what_an_interrupted_write_leaves_is_told_by_its_name(disk: Disk, tmp_path: Path) -> None:
    assert is_temp(disk.write_temp(tmp_path, b"x").name)
    assert not is_temp(".dreamd")
    assert not is_temp("a.md")


def test_a_file_is_replaced_whole_with_its_permissions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "settings.json"
    replace_file(path, b"old", 0o640)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"old", 0o640)

    def fails(disk: Disk, path: Path) -> None:
        raise OSError(errno.EIO, "it cannot be synced")

    monkeypatch.setattr(Disk, "fsync", fails)
    with pytest.raises(OSError, match="synced"):
        replace_file(path, b"new")
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"old"]
