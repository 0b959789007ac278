"""The short version of `tests/bench/kill_daemon.py`: three kills, a dream's application among them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.system


def test_three_kills_lose_nothing() -> None:
    script = Path(__file__).resolve().parents[1] / "bench" / "kill_daemon.py"
    done = subprocess.run([sys.executable, str(script), "--kills", "3"], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["killed_in"] == {"imports": 1, "dream": 1, "writes": 1}
