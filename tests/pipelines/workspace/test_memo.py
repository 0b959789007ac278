"""What a dream that was ended leaves to the next: whole units, each once, and never a wrong one."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from dreamd.pipelines.workspace.memo import Memo, key_of, once
from hypothesis import given
from hypothesis import strategies as st

UNITS = {key_of("unit", str(n)): bytes([n]) * (n * 37 % 200) for n in range(20)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


def filled(path: Path, limit_bytes: int = 2**20) -> None:
    memo = Memo(path, limit_bytes)
    for key, value in UNITS.items():
        memo.put(key, value)
    memo.close()


def test_a_unit_can_be_read_at_once_and_after_a_restart(path: Path) -> None:
    memo = Memo(path)
    memo.put(key_of("a"), b"one")
    other = Memo(path)  # as a dream that begins while the first was killed
    assert other.get(key_of("a")) == b"one"
    other.close()
    memo.close()
    assert path.stat().st_mode & 0o077 == 0


def test_a_torn_end_is_cut_off_and_whole_units_stay(path: Path) -> None:
    filled(path)
    whole = path.read_bytes()
    for size in random.Random(3).sample(range(len(whole)), 60):
        path.write_bytes(whole[:size])
        memo = Memo(path)
        kept = [key for key in UNITS if memo.get(key) is not None]
        assert kept == list(UNITS)[: len(kept)]
        assert all(memo.get(key) == UNITS[key] for key in kept)
        memo.put(key_of("after"), b"the crash")
        memo.close()
        again = Memo(path)
        assert again.get(key_of("after")) == b"the crash"
        assert len(again) == len(kept) + 1
        again.close()


def test_a_damaged_unit_is_absent(path: Path) -> None:
    filled(path)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    memo = Memo(path)
    assert memo.get(list(UNITS)[-1]) is None
    assert memo.get(list(UNITS)[-2]) == list(UNITS.values())[-2]
    memo.close()


def test_a_file_of_another_version_or_no_such_file_at_all_is_begun_anew(path: Path) -> None:
    filled(path)
    path.write_bytes(path.read_bytes().replace(b"checkpoint 1", b"checkpoint 0"))
    memo = Memo(path)
    assert len(memo) == 0
    memo.put(key_of("a"), b"one")
    memo.close()
    assert len(Memo(path)) == 1


def test_the_size_of_the_file_is_bounded(path: Path) -> None:
    filled(path, limit_bytes=500)
    assert path.stat().st_size <= 500
    memo = Memo(path, 500)
    assert 0 < len(memo) < len(UNITS)
    memo.close()


@given(st.lists(st.lists(st.one_of(st.text(), st.binary()), max_size=4), max_size=6))
def test_different_parts_have_different_names(lists: list[list[str | bytes]]) -> None:
    plain = {
        tuple(part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part for part in parts)
        for parts in lists
    }
    assert len({key_of(*parts) for parts in lists}) == len(plain)


def test_a_unit_is_computed_once(path: Path) -> None:
    made: list[int] = []

    def make() -> bytes:
        made.append(1)
        return b"x"

    memo = Memo(path)
    assert [once(memo, ("a",), make), once(memo, ("a",), make), once(memo, ("b",), make)] == [b"x"] * 3
    assert len(made) == 2
    assert once(None, ("a",), make) == b"x"
    memo.close()
