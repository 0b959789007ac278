"""Schedules of chance on three machines: in the end all have the same, and nothing is lost or back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.daemon.sync.machines import Schedule


@pytest.mark.parametrize("races", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_three_machines_agree_in_the_end(tmp_path: Path, seed: int, races: bool) -> None:
    schedule = Schedule(tmp_path, 1000 + seed, races=races)
    try:
        schedule.run(20)
        schedule.settle()
        assert schedule.problems() == [], schedule.log
    finally:
        schedule.close()
