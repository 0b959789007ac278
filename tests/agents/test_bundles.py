"""The bundles as the programs that they are for see them; `make test-agents` installs these."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import pytest
from dreamd.daemon.bundles import Release, build

from tests.agents.programs import INSTALLED, QUIET

pytestmark = [pytest.mark.agents, pytest.mark.timeout(300)]


def validated(command: str, home: Path, *words: str) -> str:
    """Have a program look at a bundle; it must find it valid."""
    executable = INSTALLED / command
    if not executable.exists():
        pytest.skip(f"{executable} is not there; `make test-agents` installs it where npm is")
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), **QUIET}
    done = subprocess.run(
        [str(executable), *words], env=environ, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("version", ["claude-code", "claude-code-2.1.197"])
def test_claude_code_takes_the_plugin(version: str, tmp_path: Path) -> None:
    build(tmp_path / "dist", Release())
    command = f"{version}/node_modules/.bin/claude"
    said = validated(command, tmp_path, "plugin", "validate", str(tmp_path / "dist" / "claude-plugin"))
    assert "Validation passed" in said
    assert "✘" not in said, said


def test_the_mcpb_file_is_one(tmp_path: Path) -> None:
    (archive,) = [path for path in build(tmp_path / "dist", Release()) if path.suffix == ".mcpb"]
    command = "mcpb/node_modules/.bin/mcpb"
    with zipfile.ZipFile(archive) as packed:
        packed.extract("manifest.json", tmp_path)
    assert "validation passes" in validated(command, tmp_path, "validate", str(tmp_path / "manifest.json"))
    unpacked = tmp_path / "unpacked"
    validated(command, tmp_path, "unpack", str(archive), str(unpacked))
    assert os.access(unpacked / "server" / "dreamctl", os.X_OK)
