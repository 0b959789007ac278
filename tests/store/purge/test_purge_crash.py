from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench" / "purging.py"


@pytest.mark.system
def test_a_purge_that_is_killed_at_any_step_is_finished_and_costs_nothing_else() -> None:
    done = subprocess.run([sys.executable, str(BENCH), "--every-step"], capture_output=True, text=True, timeout=300)
    account = json.loads(done.stdout)
    assert account["first_violations"] == []
    assert account["killed"] == account["purges"] == 12
    assert account["killed_midway"] >= 8
