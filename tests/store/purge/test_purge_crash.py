from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples import NIGHTLY

BENCH = Path(__file__).resolve().parents[2] / "bench" / "purging.py"


STEPS = 12
NTH = 1 if NIGHTLY else 3


@pytest.mark.system
@pytest.mark.hypothesis  # at every step in the night
def test_a_purge_that_is_killed_at_any_step_is_finished_and_costs_nothing_else() -> None:
    done = subprocess.run([sys.executable, str(BENCH), f"--steps={NTH}"], capture_output=True, text=True, timeout=300)
    account = json.loads(done.stdout)
    assert account["first_violations"] == []
    assert account["killed"] == account["purges"] == STEPS // NTH
    assert account["killed_midway"] >= 8 // NTH
