"""Completion in shells, and the man page: made of the parsers themselves, so that they cannot be behind them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from dreamd.daemon.cli import main
from dreamd.daemon.cli.service_commands import SHELLS, man_page

from tests.daemon.cli.test_commands import STATUS, Run, run, socket_path
from tests.stand_in_daemon import StandIn

__all__ = ["run", "socket_path"]

TYPED = """
source {script}
COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_shtab_dreamctl 2>/dev/null
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def completed(script: Path, words: str, folder: Path) -> list[str]:
    """Return what bash offers for the last word."""
    typed = TYPED.format(script=script, words=words)
    path = f"{folder}:/usr/bin:/bin"
    done = subprocess.run(["bash", "-c", typed], capture_output=True, text=True, check=True, env={"PATH": path})
    return done.stdout.split()


def test_bash_completes_commands_options_choices_and_channels(run: Run, tmp_path: Path) -> None:
    script = tmp_path / "dreamctl.bash"
    script.write_text(run("completion", "bash")[1])
    answering = tmp_path / "dreamctl"
    answering.write_text("#!/bin/sh\necho shop-1a2b3c kitchen\n")
    answering.chmod(0o755)
    assert {"recall", "remember", "review", "redo"} <= {*completed(script, "dreamctl re", tmp_path)}
    assert completed(script, "dreamctl recall --ch", tmp_path) == ["--channel"]
    assert completed(script, "dreamctl undo --it", tmp_path) == ["--item"]
    assert completed(script, "dreamctl dream week", tmp_path) == ["weekly"]
    assert completed(script, "dreamctl recall --channel kit", tmp_path) == ["kitchen"]


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_gets_every_command(run: Run, shell: str) -> None:
    code, script, _ = run("completion", shell)
    assert code == 0
    assert [name for name in main.COMMANDS if name not in script] == []
    assert "dreamctl completion channels" in script


def test_the_channels_are_named_and_a_daemon_that_is_away_costs_nothing(run: Run, socket_path: Path) -> None:
    assert run("completion", "channels") == (0, "\n", "")
    daemon = StandIn(
        socket_path,
        {
            "hello": {"version": "0", "pid": 1, "protocol": 1},
            "status": {**STATUS, "channels": {"shop-1a2b3c": 3, "_global": 1}},
        },
    )
    try:
        assert run("completion", "channels")[1].split() == ["_global", "shop-1a2b3c"]
    finally:
        daemon.close()


def test_the_man_page_has_every_command_and_no_request_by_accident(run: Run) -> None:
    page = man_page()
    assert {f'.SS "{name}"' for name in main.COMMANDS} <= {*page}
    requests = {line.split()[0] for line in page if line.startswith((".", "'"))}
    assert requests == {".TH", ".SH", ".SS", ".PP", ".TP"}
    assert any(line == r"\fB\-\-why\-not NODE\fR" for line in page)
    assert run("--man")[1].startswith(".TH DREAMCTL 1")
