"""The relay's process: what it loads, what it takes from its environment, and its two ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from dreamd.ipc.mcp.relay import Outline, main, parties
from hypothesis import given
from hypothesis import strategies as st

from tests.ipc.mcp.messages import asked, initialize

ENTRY = (sys.executable, "-P", "-m", "dreamd.daemon.cli.entry", "mcp")


def environ(folder: Path) -> dict[str, str]:
    return {"DREAMD_SOCKET": str(folder / "s"), "HOME": str(folder)}


def test_it_loads_the_standard_librarys_lightest_parts(socket_folder: Path) -> None:
    code = (
        "import sys; sys.argv[1:] = ['mcp']; from dreamd.daemon.cli.entry import main; code = main();"
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


def test_a_call_longer_than_a_line_is_refused_by_its_id_and_the_others_go_on(socket_folder: Path) -> None:
    """Of two, three and twenty MiB; the id may stand behind the arguments, and the arguments hold ids of their own."""
    texts = ["y" * (2**21), '"id": 9, \\ }{' * (3 * 2**16), "ж" * (20 * 2**20 // len(r"\u0436"))]
    asks = [{"params": {"arguments": {"text": text}}, "method": "tools/call", "id": n} for n, text in enumerate(texts)]
    lines = b"".join(json.dumps(one).encode() + b"\n" for one in (*asks, asked(7, "ping")))
    done = subprocess.run(ENTRY, input=lines, env=environ(socket_folder), capture_output=True, timeout=60, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["id"] for answer in answers] == [0, 1, 2, 7]
    assert ["longer than" in answer.get("error", {}).get("message", "") for answer in answers] == [True] * 3 + [False]


@given(st.dictionaries(st.text(), st.recursive(st.none() | st.text() | st.integers(), st.lists)), st.integers(1, 9))
def test_an_outline_is_the_outer_object_however_it_arrives(message: dict[str, object], step: int) -> None:
    data = json.dumps(message).encode()
    outline = Outline()
    for start in range(0, len(data), step):
        outline.read(data[start : start + step])
    assert outline.message() == {name: None if type(value) is list else value for name, value in message.items()}


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
