"""A vault belongs to one ledger, by an id; one that is not there is waited for and never made anew in silence."""

from __future__ import annotations

import errno
import re
from pathlib import Path

import pytest
from dreamd.store.model import StoreBusy
from dreamd.store.vault.disk import Disk
from dreamd.store.vault.presence import Presence
from dreamd.store.vault.vault import MARKER, MARKER_CONTENT, Vault


def presence(
    folder: Path, known: str | None, *, is_new: bool = False, claims: bool = True
) -> tuple[Presence, list[str]]:
    bound: list[str] = []
    vault = Vault(folder, Disk())
    return Presence(vault, known, bound.append, is_new=is_new, claim=lambda: claims), bound


def id_in(folder: Path) -> str | None:
    return Vault(folder, Disk()).marker_id()


def test_a_new_ledger_makes_its_vault_and_knows_it_again(tmp_path: Path) -> None:
    first, bound = presence(tmp_path / "deep" / "vault", None, is_new=True)
    assert first.look() is None
    assert bound == [first.vault_id] == [id_in(tmp_path / "deep" / "vault")]
    again, bound = presence(tmp_path / "deep" / "vault", first.vault_id)
    assert again.look() is None
    assert bound == []


def test_a_ledger_that_knows_memories_never_makes_a_vault(tmp_path: Path) -> None:
    for known in (None, "0" * 16):
        waiting, bound = presence(tmp_path / "vault", known)
        absence = waiting.look()
        assert absence is not None
        assert "is not there" in absence.reason
        assert "check --accept" in absence.hint
        assert bound == []
        assert not (tmp_path / "vault").exists()


def test_a_folder_without_marker_and_another_vault_are_waited_out(tmp_path: Path) -> None:
    root = tmp_path / "vault"
    one, _ = presence(root, None, is_new=True)
    assert one.look() is None
    marker = (root / ".dreamd").read_bytes()
    (root / ".dreamd").unlink()
    absence = one.look()
    assert absence is not None
    assert "not marked" in absence.reason
    (root / ".dreamd").write_bytes(re.sub(rb"id: \w+", b"id: " + b"f" * 16, marker))
    absence = one.look()
    assert absence is not None
    assert "another vault" in absence.reason
    (root / ".dreamd").write_bytes(marker)
    assert one.look() is None


def test_a_vault_that_was_marked_before_there_were_ids_gets_one(tmp_path: Path) -> None:
    (tmp_path / "vault").mkdir()
    (tmp_path / "vault" / ".dreamd").write_bytes(MARKER_CONTENT)
    old, bound = presence(tmp_path / "vault", None)
    assert old.look() is None
    assert bound == [id_in(tmp_path / "vault")]


def test_a_ledger_that_lost_its_memory_takes_the_id_of_the_vault_that_is_there(tmp_path: Path) -> None:
    first, _ = presence(tmp_path / "vault", None, is_new=True)
    assert first.look() is None
    second, bound = presence(tmp_path / "vault", None, is_new=True)
    assert second.look() is None
    assert bound == [first.vault_id]


def test_accepting_takes_another_vault_a_bare_folder_or_a_new_one(tmp_path: Path) -> None:
    mine, bound = presence(tmp_path / "vault", "0" * 16)
    mine.accept()
    assert mine.look() is None
    assert bound == [mine.vault_id] != ["0" * 16]  # a new vault: the old one, when it comes back, is another
    (tmp_path / "vault" / ".dreamd").unlink()
    kept = mine.vault_id
    mine.accept()
    assert (mine.look(), mine.vault_id) == (None, kept)
    (tmp_path / "vault" / ".dreamd").write_bytes(MARKER_CONTENT + b"id: " + b"e" * 16 + b"\n")
    assert mine.look() is not None
    mine.accept()
    assert (mine.look(), mine.vault_id) == (None, "e" * 16)


def test_a_vault_that_another_daemon_serves_is_left_alone(tmp_path: Path) -> None:
    Vault(tmp_path / "vault", Disk()).mark("a" * 16)
    other, _ = presence(tmp_path / "vault", "a" * 16, claims=False)
    absence = other.look()
    assert absence is not None
    assert "another dreamd" in absence.reason


def test_no_folder_is_made_in_a_vault_that_is_gone(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "vault", Disk())
    Presence(vault, None, lambda _: None, is_new=True).look()
    (tmp_path / "vault").rename(tmp_path / "away")
    for path in ("facts/a.md", "b.md"):
        try:
            vault.disk.write_temp_then_rename(vault.resolve(path), b"x")
        except FileNotFoundError:
            continue
        raise AssertionError(path)
    assert not (tmp_path / "vault").exists()


class UnreadableMarker(Disk):
    """A disk that cannot read the marker while `fails` is set."""

    fails = False

    def read(self, path: Path, from_offset: int = 0, most_bytes: int = -1) -> bytes:
        if self.fails and path.name == MARKER:
            raise OSError(errno.EIO, "Input/output error", str(path))
        return super().read(path, from_offset, most_bytes)


@pytest.mark.parametrize("is_new", [True, False])
def test_the_marker_of_another_vault_that_cannot_be_read_is_not_written_anew(tmp_path: Path, is_new: bool) -> None:
    theirs, _ = presence(tmp_path / "vault", None, is_new=True)
    assert theirs.look() is None
    disk = UnreadableMarker()
    ours = Presence(Vault(tmp_path / "vault", disk), None if is_new else "f" * 16, lambda known: None, is_new=is_new)
    disk.fails = True
    absence = ours.look()
    assert absence is not None
    assert "Input/output error" in absence.reason
    with pytest.raises(StoreBusy):
        ours.accept()
    assert id_in(tmp_path / "vault") == theirs.vault_id
    disk.fails = False
    assert (ours.look() is None) is is_new
    assert id_in(tmp_path / "vault") == theirs.vault_id
