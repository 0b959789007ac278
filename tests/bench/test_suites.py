"""A quick form of every suite, on the stand-ins: a benchmark that broke is noticed, and so is an outcome that did.

Nothing here is held against a clock: rows of seconds, ratios and bytes must be taken, whatever they come to.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stand_ins import STAND_INS

from . import model_dreams
from .__main__ import SUITES
from .options import Options
from .table import Row

pytestmark = [pytest.mark.nightly, pytest.mark.system, pytest.mark.timeout(600)]

ALL = ("",)
HOLD = {
    "survival": ALL,
    "disk_full": ALL,
    "faults": ALL,
    "nights": ALL,
    "threads": ALL,
    "bundles": ALL,
    "busy": ALL,
    "vault_away": ALL,
    "damage": ALL,
    "redaction": ("secrets gone",),
    "grounding": ("false claims accepted",),  # 42 true claims of the stand-ins are too few for a share
    "quality": ("recall@10, fusion rrf", "any@5, fusion rrf", "by kind"),
}
"""Which rows of a suite must keep their promise, by a part of their name: outcomes, which no load changes."""

GATE = {"harmful": 8, "harmless": 1}
"""Of the ten of each sort that the quick form plants in the stand-ins, at least and at most so many are refused."""


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options(quick=True, results=tmp_path / "results", sets=STAND_INS)


@pytest.mark.parametrize("name", sorted(SUITES.keys() - {"gate", "model_dreams"}))
def test_it_is_taken_and_its_outcomes_hold(name: str, options: Options) -> None:
    rows = list(SUITES[name](options))
    assert rows
    assert not [row for row in rows if "skipped" in row.measured or "failed" in row.measured]
    held = [row for row in rows if any(part in row.measure for part in HOLD.get(name, ()))]
    assert bool(held) is (name in HOLD)
    assert not [row for row in held if not row.ok]


def test_the_gate_tells_harm_from_none(options: Options) -> None:
    rows: dict[str, Row] = {row.measure: row for row in SUITES["gate"](options)}
    refused = {sort: int(row.measured.split()[0]) for sort in GATE for name, row in rows.items() if sort in name}
    assert refused["harmful"] >= GATE["harmful"], rows
    assert refused["harmless"] <= GATE["harmless"], rows


def test_dreams_with_models_say_which_are_missing(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_dreams, "PYTHON", Path("/nowhere/python"))
    rows = list(SUITES["model_dreams"](options))
    assert rows
    assert all("make test-llm" in row.measured for row in rows)
