"""What killed writes leave behind is swept, and nothing that may be a person's."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from dreamd.store.ledger.journal import Entry, sha256
from dreamd.store.upkeep.cleanup import MOST_AT_ONCE, Leftovers
from dreamd.store.vault.disk import Disk
from dreamd.store.vault.vault import Vault
from dreamd.store.writer.placer import Placer

ANOTHER_PID = os.getpid() + 1


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    vault = Vault(tmp_path / "vault", Disk())
    (vault.root / "facts").mkdir(parents=True)
    return vault


def leave(vault: Vault, name: str, content: bytes = b"half", folder: str = "facts") -> Path:
    path = vault.root / folder / name
    path.write_bytes(content)
    return path


def of_another(number: int, suffix: str = ".tmp") -> str:
    return f".dreamd-{ANOTHER_PID}-{number}{suffix}"


def sweep(
    vault: Vault, *, later: float = 0.0, began: float = -3600.0, known: Callable[[bytes], bool] = lambda _: False
) -> tuple[int, tuple[str, ...]]:
    """Sweep so many seconds from now, in a process that began so many seconds from now."""
    now = datetime.now(UTC)
    leftovers = Leftovers(vault, known, now + timedelta(seconds=began))
    return leftovers.sweep(now + timedelta(seconds=later)), leftovers.held


def test_what_is_of_before_this_start_goes(vault: Vault) -> None:
    left = [leave(vault, of_another(1)), leave(vault, of_another(2), folder=".")]
    assert sweep(vault, began=5.0) == (2, ())
    assert not any(path.exists() for path in left)


def test_what_is_in_use_stays_until_it_is_too_old_to_be(vault: Vault) -> None:
    temp = vault.disk.write_temp(vault.root / "facts", b"being written")
    assert sweep(vault, began=5.0) == (0, ())
    assert temp.exists()
    assert sweep(vault, later=61.0) == (1, ())


@pytest.mark.parametrize(
    "name",
    [".dreamd", "a.md", ".dreamd-notes.tmp", ".dreamd-1-2.tmp~", "dreamd-1-2.tmp", ".dreamd-1-2.tmp.md", ".a.swp"],
)
def test_a_persons_file_stays_whatever_its_age(vault: Vault, name: str) -> None:
    path = leave(vault, name)
    assert sweep(vault, later=3600.0, began=5.0) == (0, ())
    assert path.exists()


def test_other_programs_folders_and_links_are_not_entered(vault: Vault, tmp_path: Path) -> None:
    (vault.root / ".git").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (vault.root / "link").symlink_to(tmp_path / "elsewhere")
    left = [leave(vault, of_another(1), folder=".git"), leave(vault, of_another(2), folder="link")]
    (vault.root / of_another(3)).symlink_to(left[1])
    assert sweep(vault, began=5.0) == (0, ())
    assert all(path.exists() for path in left)


def test_what_came_out_of_an_exchange_goes_only_where_its_content_is_known(vault: Vault) -> None:
    saved = leave(vault, of_another(1, ".aside.tmp"), b"what somebody saved at that moment")
    old = leave(vault, of_another(2, ".aside.tmp"), b"what a run replaced")
    same = leave(vault, of_another(3, ".aside.tmp"), b"what lies beside")
    empty = leave(vault, of_another(4, ".aside.tmp"), b"\0\0")
    leave(vault, "a.md", b"what lies beside")
    assert sweep(vault, began=5.0, known=lambda content: content == b"what a run replaced") == (
        3,
        (f"facts/{saved.name}",),
    )
    assert saved.exists()
    assert not any(path.exists() for path in (old, same, empty))


def test_a_sweep_is_bounded_and_ends_when_it_must(vault: Vault) -> None:
    for number in range(MOST_AT_ONCE + 3):
        leave(vault, of_another(number))
    now = datetime.now(UTC)
    leftovers = Leftovers(vault, lambda _: False, now + timedelta(seconds=5))
    assert leftovers.sweep(now, lambda: True) == 0
    assert (leftovers.sweep(now), leftovers.sweep(now), leftovers.sweep(now)) == (MOST_AT_ONCE, 3, 0)


@pytest.fixture
def killed_exchange(vault: Vault) -> Path:
    """A process that is killed between an exchange and the removal of what came out."""

    class Killed(Disk):
        def unlink(self, path: Path) -> None:
            raise KeyboardInterrupt

    leave(vault, "a.md", b"old")
    placer = Placer(Vault(vault.root, Killed()))
    with pytest.raises(KeyboardInterrupt):
        placer.place([Entry(1, "replace", "facts/a.md", b"new", 0, sha256(b"old"), None, None)])
    (left,) = (vault.root / "facts").glob(".dreamd-*")
    return left


def test_what_a_killed_exchange_leaves_holds_the_old_and_says_so_by_its_name(
    vault: Vault, killed_exchange: Path
) -> None:
    assert killed_exchange.read_bytes() == b"old"
    assert sweep(vault, later=61.0) == (0, (f"facts/{killed_exchange.name}",))
    assert sweep(vault, later=61.0, known=lambda content: content == b"old") == (1, ())
