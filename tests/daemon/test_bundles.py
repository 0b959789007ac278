"""What is published holds together: names, versions, hashes, and the program that each bundle starts."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from dreamd import __version__
from dreamd.daemon.agents.hook_formats import FORMATS
from dreamd.daemon.bundles import LAUNCHER, NAMESPACE, Release, build, main
from dreamd.ipc.mcp.tools import TOOLS

OPENING = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a-program", "version": "1"}}
BIN = Path(sys.executable).parent


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    build(tmp_path, Release("io.github.somebody", "https://example.com/releases/"))
    return tmp_path


def archive(dist: Path) -> Path:
    return dist / f"dreamd-{__version__}.mcpb"


def opened_by(command: list[str], home: Path, path: str) -> dict[str, Any]:
    """Start a server of MCP without a daemon; return its answer to the opening."""
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": OPENING}
    environ = {"PATH": path, "HOME": str(home), "XDG_RUNTIME_DIR": str(home)}
    done = subprocess.run(
        command, input=json.dumps(request) + "\n", env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    answer: dict[str, Any] = json.loads(done.stdout.partition("\n")[0] or "{}")
    return answer | {"code": done.returncode, "said": done.stderr}


def test_the_plugin_has_the_hooks_that_are_answered_and_the_tools(dist: Path) -> None:
    plugin = dist / "claude-plugin"
    assert json.loads((plugin / ".claude-plugin" / "plugin.json").read_text())["version"] == __version__
    hooks = json.loads((plugin / "hooks" / "hooks.json").read_text())["hooks"]
    assert set(hooks) == set(FORMATS["claude-code"].moments)
    for event, entries in hooks.items():
        assert [hook["command"] for one in entries for hook in one["hooks"]] == [f"dreamctl hook claude-code {event}"]
    servers = json.loads((plugin / ".mcp.json").read_text())["mcpServers"]
    assert servers == {"dreamd": {"command": "dreamctl", "args": ["mcp"]}}


def test_the_manifest_names_what_is_in_the_archive(dist: Path) -> None:
    with zipfile.ZipFile(archive(dist)) as packed:
        manifest = json.loads(packed.read("manifest.json"))
        assert packed.getinfo(manifest["server"]["entry_point"]).external_attr >> 16 & 0o111
    assert {"name", "version", "description", "author", "server", "manifest_version"} <= manifest.keys()
    assert manifest["version"] == __version__
    assert manifest["server"]["type"] == "binary"
    assert manifest["server"]["mcp_config"] == {"command": f"${{__dirname}}/{LAUNCHER}", "args": ["mcp"]}
    assert [tool["name"] for tool in manifest["tools"]] == list(TOOLS)


def test_the_same_sources_make_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    build(tmp_path / "again", Release())
    assert archive(dist).read_bytes() == archive(tmp_path / "again").read_bytes()


def test_the_archives_program_starts_the_one_of_this_machine(dist: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(archive(dist)) as packed:
        packed.extract(LAUNCHER, tmp_path)
    launcher = tmp_path / LAUNCHER
    launcher.chmod(0o755)
    answer = opened_by([str(launcher), "mcp"], tmp_path, f"{BIN}:/usr/bin:/bin")
    assert answer["result"]["serverInfo"]["name"] == "dreamd"
    # A program with windows has no such PATH.
    (tmp_path / ".local" / "bin").mkdir(parents=True)
    (tmp_path / ".local" / "bin" / "dreamctl").symlink_to(BIN / "dreamctl")
    assert opened_by([str(launcher), "mcp"], tmp_path, "/usr/bin:/bin")["result"] == answer["result"]
    (tmp_path / ".local" / "bin" / "dreamctl").unlink()
    missing = opened_by([str(launcher), "mcp"], tmp_path, "/usr/bin:/bin")
    assert (missing["code"], "There is no dreamctl here" in missing["said"]) == (127, True)


def test_the_registrys_entry_has_its_required_fields(dist: Path) -> None:
    entry = json.loads((dist / "server.json").read_text())
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert entry["name"] == "io.github.somebody/dreamd"
    assert 1 <= len(entry["description"]) <= 100
    assert entry["$schema"].endswith("/server.schema.json")
    package, file = entry["packages"]
    assert {one["version"] for one in (entry, package, file)} == {__version__}
    assert [one["transport"] for one in (package, file)] == [{"type": "stdio"}] * 2
    assert (package["registryType"], package["identifier"]) == ("pypi", "dreamd")
    assert file["identifier"] == f"https://example.com/releases/{archive(dist).name}"
    assert file["fileSha256"] == hashlib.sha256(archive(dist).read_bytes()).hexdigest()


def test_the_packages_command_with_its_arguments_is_a_server(dist: Path, tmp_path: Path) -> None:
    """A runner of packages starts the command that is named as the package is."""
    package = json.loads((dist / "server.json").read_text())["packages"][0]
    words = [argument["value"] for argument in package["packageArguments"]]
    answer = opened_by([str(BIN / package["identifier"]), *words], tmp_path, "/usr/bin:/bin")
    assert answer["result"]["serverInfo"]["name"] == "dreamd"


def test_a_namespace_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 0
    assert f"server.json is {NAMESPACE}'s" in capsys.readouterr().out
    assert json.loads((tmp_path / "server.json").read_text())["name"] == f"{NAMESPACE}/dreamd"
