"""A command as a person types it: the real program, its words and its exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.bench.daemon_under_test import DaemonUnderTest


def typed(daemon: DaemonUnderTest, *words: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run dreamctl in the daemon's folder, with its environment and `environ`."""
    command = [sys.executable, "-P", "-m", "dreamd.daemon.cli.main", *map(str, words)]
    return subprocess.run(
        command, env=daemon.environ | environ, cwd=daemon.folder, capture_output=True, text=True, timeout=120
    )


def plain(text: str) -> str:
    """Return what was said without the breaks that the width made."""
    return " ".join(text.split())
