"""`dreamctl log`: what the daemon wrote, wherever that is."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bench.daemon_under_test import DaemonUnderTest
from tests.system.commands import typed

pytestmark = pytest.mark.system

Make = Callable[..., DaemonUnderTest]


def test_a_file_that_the_settings_name(make: Make, tmp_path: Path) -> None:
    daemon = make(DREAMD_LOG__FILE=str(tmp_path / "logs" / "dreamd.log"))
    daemon.start()
    daemon.wait_until_it_answers()
    done = typed(daemon, "log")
    assert done.returncode == 0
    assert "serves" in done.stdout
    document = json.loads(typed(daemon, "log", "-n", "1", "--json").stdout)
    assert document["source"] == str(tmp_path / "logs" / "dreamd.log")
    assert len(document["lines"]) == 1
    daemon.stop()
    assert "dreamd has stopped" in typed(daemon, "log", "--lines", "1").stdout
    assert typed(daemon, "log", "-n", "-1").returncode == 2


def test_following_shows_what_comes_and_what_comes_after_a_rotation(make: Make, tmp_path: Path) -> None:
    file = tmp_path / "dreamd.log"
    file.write_text("one\ntwo\n\x1b[31mthree\n")
    daemon = make(DREAMD_LOG__FILE=str(file))
    command = [sys.executable, "-P", "-m", "dreamd.daemon.cli.main", "log", "-n", "2", "-f"]
    with subprocess.Popen(command, env=daemon.environ, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        assert [following.stdout.readline() for _ in range(2)] == ["two\n", "three\n"]
        with file.open("a") as log:
            log.write("four\n")
        assert following.stdout.readline() == "four\n"
        file.rename(tmp_path / "dreamd.1.log")
        file.write_text("five\n")
        assert following.stdout.readline() == "five\n"
        following.terminate()


def test_without_any_log_it_says_where_to_look(make: Make) -> None:
    done = typed(make(), "log")
    assert done.returncode == 1
    assert "writes to the terminal" in done.stderr
    assert "DREAMD_LOG__FILE" in done.stderr


def test_an_installed_daemon_writes_to_the_journal(make: Make, tmp_path: Path) -> None:
    daemon = make()
    if sys.platform != "linux":
        pytest.skip("there is no journal")
    units = Path(daemon.environ["XDG_CONFIG_HOME"]) / "systemd" / "user"
    units.mkdir(parents=True)
    (units / "dreamd.service").touch()
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, does in {"systemctl": "exit 0", "journalctl": 'echo "asked for: $*"'}.items():
        (programs / name).write_text(f"#!/bin/sh\n{does}\n")
        (programs / name).chmod(0o755)
    done = typed(daemon, "log", "-n", "7", PATH=f"{programs}:{daemon.environ['PATH']}")
    assert done.returncode == 0
    assert done.stdout.startswith("asked for: --user --unit=dreamd.service --lines=7")
