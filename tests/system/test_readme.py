"""What the README tells a new user to type does something."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.daemon_under_test import DaemonUnderTest
from tests.system.commands import typed

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]


def test_the_snippet_of_the_wire_returns_something(daemon: DaemonUnderTest) -> None:
    [snippet] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    patient = re.sub(r"deadline_s=[\d.]+", "deadline_s=60", snippet)
    assert patient != snippet
    assert typed(daemon, "import", ROOT / "examples" / "fortnight").returncode == 0
    code = f"{patient}\nprint(memory)"
    ran = subprocess.run(
        [sys.executable, "-P", "-c", code], env=daemon.environ, cwd=daemon.folder, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    assert "deploy" in ran.stdout
