from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "bench" / "kill_store.py"


def test_a_killed_store_loses_nothing_and_leaves_nothing_half_done() -> None:
    """Ten kills in a process of its own, since it forks; the script makes a thousand."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--kills", "10"], capture_output=True, text=True, timeout=240, check=False
    )
    result = json.loads(done.stdout)
    assert result["first_violations"] == []
    assert result["kills"] == 10
    assert result["too_little"] == []
    assert done.returncode == 0
