"""The files of other programs: found by recall, overtaken by a statement, changed by review and changed back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bench.daemon_under_test import DaemonUnderTest
from tests.system.waiting import until

pytestmark = pytest.mark.system

RULES = b"# Shop\r\n\r\n- Bookings are kept in SQLite.\r\n- We deploy on Thursdays.\r\n"
MARCH_1 = 1_772_323_200


def type_in(daemon: DaemonUnderTest, *words: str) -> str:
    """Run one command in the project; what it printed."""
    command = [sys.executable, "-P", "-m", "dreamd.daemon.cli.main", *words]
    folder = daemon.folder / "shop"
    done = subprocess.run(command, env=daemon.environ, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def rules(daemon: DaemonUnderTest) -> Path:
    """Give a project's file of rules, which is older than all that is said."""
    git = daemon.folder / "shop" / ".git"
    git.mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    file = git.parent / "CLAUDE.md"
    file.write_bytes(RULES)
    os.utime(file, (MARCH_1, MARCH_1))
    return file


def test_a_line_is_overtaken_changed_and_changed_back(daemon: DaemonUnderTest, rules: Path) -> None:
    folder = str(rules.parent)
    start: dict[str, Any] = {"session_id": "s1", "cwd": folder, "source": "startup"}
    daemon.call("hook", agent="claude-code", event="SessionStart", given=start, cwd=folder)

    def found(agent: str) -> list[str]:
        hits = daemon.call("recall", query="Where are bookings kept?", cwd=folder, agent_id=agent)["hits"]
        return [hit["speaker"] for hit in hits]

    until(lambda: found("codex") == ["CLAUDE.md"])
    assert found("claude-code") == []

    type_in(daemon, "remember", "We deploy on Tuesdays now, not Thursdays.")
    type_in(daemon, "dream", "daily", "--wait")
    (proposal,) = json.loads(type_in(daemon, "review", "--list", "--json"))["files"]
    shown = type_in(daemon, "review", proposal["proposal_id"])
    for line in (
        "-- We deploy on Thursdays.",
        "+- We deploy on Tuesdays.",
        "“We deploy on Tuesdays now, not Thursdays.”",
    ):
        assert line in shown

    changed = json.loads(type_in(daemon, "review", proposal["proposal_id"], "--accept", "--json"))
    assert rules.read_bytes() == RULES.replace(b"Thursdays", b"Tuesdays")
    assert "No decision waits." in type_in(daemon, "review", "--list")
    type_in(daemon, "undo", changed["run_id"])
    assert rules.read_bytes() == RULES
    assert "The file stays" in type_in(daemon, "review", proposal["proposal_id"], "--reject")
    type_in(daemon, "dream", "daily", "--wait")
    assert "No decision waits." in type_in(daemon, "review", "--list")
