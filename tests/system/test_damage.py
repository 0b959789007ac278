"""The short version of `tests/bench/damage.py`: two pages of each database, and two of a running daemon's index."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.nightly, pytest.mark.system]


def test_damaged_pages_cost_no_answer_and_no_memory() -> None:
    script = Path(__file__).resolve().parents[1] / "bench" / "damage.py"
    done = subprocess.run([sys.executable, str(script), "--pages", "2"], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [account["pages"] for account in json.loads(done.stdout)["accounts"]] == [2, 2, 2, 2]
