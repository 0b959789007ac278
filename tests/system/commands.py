"""A command as a person types it: the real program, its words and its exit code."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
from collections.abc import Sequence
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


def typed_at_a_terminal(daemon: DaemonUnderTest, answers: Sequence[str], *words: str | Path) -> tuple[int, str]:
    """Run dreamctl as a person does who answers its questions; return its exit code and everything that was shown."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "dreamd.daemon.cli.main", *map(str, words)],
        env=daemon.environ | {"COLUMNS": "200", "NO_COLOR": "1"},
        cwd=daemon.folder,
        stdin=follower,
        stdout=follower,
        stderr=follower,
    )
    os.close(follower)
    os.write(leader, "".join(f"{answer}\n" for answer in answers).encode())
    shown = b""
    with contextlib.suppress(OSError):  # the other end is closed, which a terminal says so
        while piece := os.read(leader, 2**16):
            shown += piece
    os.close(leader)
    return process.wait(120), shown.decode("utf-8", "replace").replace("\r", "")
