"""The demo is a promise: it runs, within its two minutes, and leaves nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.nightly
@pytest.mark.system
@pytest.mark.timeout(300)
def test_the_demo_runs_and_leaves_nothing() -> None:
    with tempfile.TemporaryDirectory(prefix="demo-") as folder:  # tmp_path is too long for a socket
        run_in(Path(folder))


def run_in(folder: Path) -> None:
    environment = os.environ | {"TMPDIR": str(folder), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "demo.py"],
        env=environment,
        cwd=folder,
        capture_output=True,
        timeout=280,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "byte for byte" in done.stdout
    assert not list(folder.iterdir())
    named = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    assert not [words for words in named if any(str(folder) in word for word in words)]
