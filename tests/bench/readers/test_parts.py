"""Each part runs in this process, on the stand-ins, and leaves its vectors for the next run."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.stand_ins import STAND_INS

from ..in_process import DaemonInProcess
from .__main__ import PARTS

DATA = STAND_INS / "readers"


def vectors(kept: Path) -> int:
    with closing(sqlite3.connect(kept)) as database:
        (number,) = database.execute("SELECT count(*) FROM embedding").fetchone()
    return int(number)


@pytest.fixture(autouse=True)
def without_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DREAMD_STORE__EMBEDDING__MODEL", "stub")


@pytest.mark.nightly
@pytest.mark.parametrize("part", PARTS)
def test_a_part_takes_its_rows(part: str, tmp_path: Path) -> None:
    with DaemonInProcess(tmp_path / "store", tmp_path / "kept.db") as daemon:
        rows = list(PARTS[part](daemon, DATA, tmp_path / "results"))
    assert rows
    assert all(any(letter.isdigit() for letter in row.measured) or row.ok for row in rows)


def test_vectors_of_two_runs_are_kept_together(tmp_path: Path) -> None:
    kept, counts = tmp_path / "kept.db", []
    for number, text in enumerate(("We run Postgres 16", "Deploys go out on Thursdays", "We run Postgres 16")):
        with DaemonInProcess(tmp_path / str(number), kept) as daemon:
            daemon.call("remember", text=text, channel="one")
            daemon.wait_until_linked()
        counts.append(vectors(kept))
    assert 0 < counts[0] < counts[1] == counts[2]
