"""The relay's process: what it loads, what it takes from its environment, and its two ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from dreamd.ipc.mcp.relay import main, parties

from tests.ipc.mcp.messages import asked, initialize

ENTRY = (sys.executable, "-P", "-m", "dreamd.daemon.cli.agents.entry", "mcp")


def environ(folder: Path) -> dict[str, str]:
    return {"DREAMD_SOCKET": str(folder / "s"), "HOME": str(folder)}


def test_it_loads_the_standard_librarys_lightest_parts(socket_folder: Path) -> None:
    code = (
        "import sys; sys.argv[1:] = ['mcp']; from dreamd.daemon.cli.agents.entry import main; code = main();"
        "print(*sys.modules, file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        (sys.executable, "-P", "-c", code), input=b"", env=environ(socket_folder), capture_output=True, timeout=60
    )
    assert done.returncode == 0
    loaded = {name.partition(".")[0] for name in done.stderr.decode().split()}
    heavy = {
        "argparse",
        "asyncio",
        "ctypes",
        "dataclasses",
        "hashlib",
        "inspect",
        "logging",
        "mcp",
        "pathlib",
        "pydantic",
    }
    assert not loaded & (heavy - preloaded())


def preloaded() -> set[str]:
    """Modules that an interpreter of this environment has before a line of ours."""
    code = "import sys; print(*sys.modules)"
    done = subprocess.run((sys.executable, "-P", "-c", code), capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_one_that_asks_and_leaves_is_answered(socket_folder: Path) -> None:
    asks = [initialize(0, "2025-11-25"), asked(1, "tools/list")]
    given = b"".join(json.dumps(one).encode() + b"\n" for one in asks)
    done = subprocess.run(ENTRY, input=given, env=environ(socket_folder), capture_output=True, timeout=60, check=True)
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [0, 1]
    assert done.stderr == b""


def test_a_line_without_an_end_ends_it(socket_folder: Path) -> None:
    done = subprocess.run(ENTRY, input=b"x" * (3 * 2**20), env=environ(socket_folder), capture_output=True, timeout=60)
    assert done.returncode == 1


def test_it_says_how_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "usage: dreamctl mcp" in capsys.readouterr().out
    assert main(["--agents"]) == 2
    assert "usage: dreamctl mcp" in capsys.readouterr().err


def test_the_parties_are_what_the_environment_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    told = parties({"CLAUDE_CODE_SESSION_ID": "s1", "CLAUDE_PROJECT_DIR": "/work/shop"}, "")
    relay = told.pop("relay")
    assert told == {"cwd": "/work/shop", "agent": "claude-code", "session": "s1"}
    other = parties({}, "codex")
    assert other.pop("relay") != relay
    assert other == {"cwd": str(tmp_path), "agent": "codex"}
    assert "session" not in parties({"CLAUDE_CODE_SESSION_ID": "no\nname"}, "")
