"""Connecting and disconnecting each program in a home of its own: what is written, and that all of it is given back."""

from __future__ import annotations

import json
import os
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from dreamd.daemon.agents.agent_connection import AgentConnection, ConnectError, OriginalContents, make_private
from dreamd.daemon.agents.hook_formats import FORMATS
from dreamd.daemon.agents.programs import (
    HOOK_TIMEOUT_S,
    PROGRAMS,
    Command,
    UserEnvironment,
    is_hook_of,
    plugin_files,
    programs_on_this_machine,
)
from dreamd.ipc.socket_path import default_socket_path

COMMAND = Command("/opt/dreamd/bin/dreamctl", {})
Connect = Callable[..., AgentConnection]

CLAUDE_SETTINGS = """{
  // mine
  "model": "opus",
  "hooks": {
    "Stop": [
      {"hooks": [{"type": "command", "command": "say done"}]}
    ]
  }
}
"""
CODEX_CONFIG = """# mine
model = "gpt"

[mcp_servers.other]
command = "y"  # kept

[mcp_servers.other.env]
A = "b"

# about profiles
[profiles.p]
model = "x"
"""
FILES: dict[str, dict[str, str]] = {
    "claude-code": {".claude/settings.json": CLAUDE_SETTINGS, ".claude.json": '{"numStartups":3,"mcpServers":{}}'},
    "codex": {".codex/config.toml": CODEX_CONFIG, ".codex/hooks.json": '{"hooks": {}}'},
    "gemini": {".gemini/settings.json": '{\n    "security": {"auth": {"selectedType": "gemini-api-key"}}\n}'},
    "opencode": {".config/opencode/opencode.json": '{"$schema": "x", "mcp": {"a": {"type": "local"}}}'},
    "cursor": {".cursor/mcp.json": "{}", ".cursor/hooks.json": '{"version": 1, "hooks": {"stop": []}}'},
}


@pytest.fixture
def connect(tmp_path: Path) -> Connect:
    """Make connections of programs in one home folder."""

    def make(name: str, command: Command = COMMAND, folder: Path | None = None) -> AgentConnection:
        places = UserEnvironment(tmp_path / "home", {})
        program = PROGRAMS[name]
        return AgentConnection(
            program, folder or program.folder(places), places, command, OriginalContents(tmp_path / "records")
        )

    return make


def write(home: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)


def everything(home: Path) -> dict[str, bytes]:
    return {str(file.relative_to(home)): file.read_bytes() for file in sorted(home.rglob("*")) if file.is_file()}


def folders(home: Path) -> list[Path]:
    return sorted(each for each in home.rglob("*") if each.is_dir())


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("there", [True, False])
def test_every_file_is_given_back_byte_for_byte(connect: Connect, tmp_path: Path, name: str, there: bool) -> None:
    home = tmp_path / "home"
    if there:
        write(home, FILES[name])
    before, places = everything(home), folders(home)
    connection = connect(name)
    edits = connection.connecting()
    assert edits
    assert everything(home) == before  # only planned
    connection.apply(edits)
    written = everything(home)
    assert written != before
    assert connection.connecting() == []
    assert connect(name).connecting() == []
    again = connect(name)
    again.apply(again.disconnecting())
    assert (everything(home), folders(home)) == (before, places)
    assert again.disconnecting() == []
    assert not list((tmp_path / "records").iterdir())
    again.apply(again.connecting())
    assert everything(home) == written


def test_of_the_folders_only_those_go_that_were_made_and_are_empty(connect: Connect, tmp_path: Path) -> None:
    kept, used = tmp_path / "home" / ".claude", tmp_path / "home" / ".codex"
    kept.mkdir(parents=True)
    for name in ("claude-code", "codex"):
        connection = connect(name)
        connection.apply(connection.connecting())
    (used / "history.jsonl").touch()
    for name in ("claude-code", "codex"):
        connection = connect(name)
        connection.apply(connection.disconnecting())
    assert folders(tmp_path / "home") == [kept, used]


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_others_write_meanwhile_stays(connect: Connect, tmp_path: Path, name: str) -> None:
    home = tmp_path / "home"
    write(home, FILES[name])
    connection = connect(name)
    connection.apply(connection.connecting())
    for file in home.rglob("*.json"):
        file.write_text(json.dumps({**json.loads(_plain(file.read_text())), "theirs": 1}, indent=2))
    for file in home.rglob("*.toml"):
        file.write_text(file.read_text() + "\n[theirs]\na = 1\n")
    connection.apply(connection.disconnecting())
    left = everything(home)
    assert b"dreamctl" not in b"".join(left.values())
    for path, content in left.items():
        if path.endswith(".json"):
            assert json.loads(content) == {**json.loads(_plain(FILES[name][path])), "theirs": 1} or _was_empty(path)
        else:
            assert content.decode() == FILES[name][path] + "\n[theirs]\na = 1\n"


def _plain(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.strip().startswith("//"))


def _was_empty(path: str) -> bool:
    """Say whether a file held an empty object of the kind that we fill, which goes with what was in it."""
    return path in (".claude.json", ".codex/hooks.json", ".cursor/mcp.json", ".cursor/hooks.json")


def test_claude_code_is_given_the_hooks_that_it_knows(connect: Connect, tmp_path: Path) -> None:
    connection = connect("claude-code")
    connection.apply(connection.connecting())
    settings = json.loads((tmp_path / "home/.claude/settings.json").read_text())
    assert list(settings["hooks"]) == list(FORMATS["claude-code"].moments)
    assert settings["hooks"]["UserPromptSubmit"] == [
        {
            "hooks": [
                {
                    "type": "command",
                    "command": "/opt/dreamd/bin/dreamctl hook claude-code UserPromptSubmit",
                    "timeout": HOOK_TIMEOUT_S,
                }
            ]
        }
    ]
    assert all("async" not in groups[0]["hooks"][0] for groups in settings["hooks"].values())
    state = json.loads((tmp_path / "home/.claude.json").read_text())
    assert state["mcpServers"]["dreamd"] == {"type": "stdio", "command": COMMAND.path, "args": ["mcp"]}


def test_codex_is_given_a_table_and_hooks(connect: Connect, tmp_path: Path) -> None:
    write(tmp_path / "home", FILES["codex"])
    connection = connect("codex", Command("/opt/my bin/dreamctl", {"DREAMD_SOCKET": "/run/x y"}))
    connection.apply(connection.connecting())
    text = (tmp_path / "home/.codex/config.toml").read_text()
    assert text.startswith(CODEX_CONFIG)
    server = tomllib.loads(text)["mcp_servers"]["dreamd"]
    passed_on = ["DREAMD_SOCKET", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"]
    ours = {"command": "/opt/my bin/dreamctl", "args": ["mcp"], "env": {"DREAMD_SOCKET": "/run/x y"}}
    assert server == {**ours, "env_vars": passed_on}
    hooks = json.loads((tmp_path / "home/.codex/hooks.json").read_text())["hooks"]
    assert hooks["Stop"][0]["hooks"][0]["command"] == (
        "DREAMD_SOCKET='/run/x y' '/opt/my bin/dreamctl' hook codex Stop"
    )


def test_the_tools_of_every_program_find_the_socket(connect: Connect) -> None:
    environ = {"HOME": "/h", "PATH": "/bin", "XDG_RUNTIME_DIR": "/run/user/7", "XDG_STATE_HOME": "/s", "OTHER": "x"}
    for program in PROGRAMS.values():
        given = program.environment_of_tools(environ, COMMAND)
        assert default_socket_path(given) == "/run/user/7/dreamd/dreamd.sock"
        assert default_socket_path(program.environment_of_tools({"DREAMD_SOCKET": "/a"}, COMMAND)) == "/a"
        without = {name: value for name, value in environ.items() if name != "XDG_RUNTIME_DIR"}
        assert default_socket_path(program.environment_of_tools(without, COMMAND)) == "/s/dreamd/dreamd.sock"
    assert "OTHER" not in PROGRAMS["codex"].environment_of_tools(environ, COMMAND)


def test_what_an_older_version_wrote_is_renewed(connect: Connect, tmp_path: Path) -> None:
    ours = '\n[mcp_servers.dreamd]\ncommand = "/opt/dreamd/bin/dreamctl"\nargs = ["mcp"]\n'
    called = {"type": "command", "command": "/opt/dreamd/bin/dreamctl hook gemini PreCompress"}
    theirs = {"hooks": [{"type": "command", "command": "theirs"}]}
    settings = json.dumps({"hooks": {"PreCompress": [theirs, {"hooks": [called]}]}})
    write(tmp_path / "home", {".codex/config.toml": CODEX_CONFIG + ours, ".gemini/settings.json": settings})
    for name in ("codex", "gemini"):
        connection = connect(name)
        connection.apply(connection.connecting())
        assert connection.connecting() == []
    config = tomllib.loads((tmp_path / "home/.codex/config.toml").read_text())
    assert "XDG_RUNTIME_DIR" in config["mcp_servers"]["dreamd"]["env_vars"]
    hooks = json.loads((tmp_path / "home/.gemini/settings.json").read_text())["hooks"]
    assert hooks["PreCompress"] == [theirs]
    for name in ("codex", "gemini"):
        connection = connect(name)
        connection.apply(connection.disconnecting())
    assert (tmp_path / "home/.codex/config.toml").read_text() == CODEX_CONFIG
    assert json.loads((tmp_path / "home/.gemini/settings.json").read_text()) == {"hooks": {"PreCompress": [theirs]}}


def test_hooks_of_codex_keep_the_places_that_others_are_trusted_at(connect: Connect, tmp_path: Path) -> None:
    theirs = {"hooks": [{"type": "command", "command": "theirs"}]}
    text = json.dumps({"hooks": {"Stop": [theirs]}}, indent=1)
    write(tmp_path / "home", {".codex/hooks.json": text})
    connection = connect("codex")
    connection.apply(connection.connecting())
    hooks = json.loads((tmp_path / "home/.codex/hooks.json").read_text())["hooks"]["Stop"]
    assert hooks[0] == theirs
    assert len(hooks) == 2
    connection.apply(connection.disconnecting())
    assert (tmp_path / "home/.codex/hooks.json").read_text() == text


def test_what_a_program_was_made_to_write_is_given_back_with_ours(connect: Connect, tmp_path: Path) -> None:
    write(tmp_path / "home", FILES["codex"])
    before = everything(tmp_path / "home")
    connection = connect("codex")
    connection.apply(connection.connecting())
    with connection.letting_it_write(), (tmp_path / "home/.codex/config.toml").open("a") as config:
        config.write('\n[hooks.state."x"]\ntrusted_hash = "y"\n')
    connection.apply(connection.disconnecting())
    assert everything(tmp_path / "home") == before


def test_an_inline_table_is_left_alone_and_named(connect: Connect, tmp_path: Path) -> None:
    write(tmp_path / "home", {".codex/config.toml": 'mcp_servers = { other = { command = "y" } }\n'})
    with pytest.raises(ConnectError, match=r"config\.toml"):
        connect("codex").connecting()


@pytest.mark.parametrize("name", ["claude-code", "codex", "gemini", "cursor"])
def test_every_event_that_is_registered_is_known(connect: Connect, tmp_path: Path, name: str) -> None:
    connection = connect(name)
    connection.apply(connection.connecting())
    hooks = next(
        document["hooks"]
        for file in (tmp_path / "home").rglob("*.json")
        if "hooks" in (document := json.loads(file.read_text()))
    )
    assert set(hooks) <= set(FORMATS[name].moments)


def test_another_installation_takes_the_place_of_the_first(connect: Connect, tmp_path: Path) -> None:
    write(tmp_path / "home", FILES["claude-code"])
    before = everything(tmp_path / "home")
    first, second = connect("claude-code"), connect("claude-code", Command("/elsewhere/dreamctl", {}))
    first.apply(first.connecting())
    second.apply(second.connecting())
    text = (tmp_path / "home/.claude/settings.json").read_text()
    assert "/elsewhere/dreamctl" in text
    assert "/opt/dreamd" not in text
    second.apply(second.disconnecting())
    assert everything(tmp_path / "home") == before


def test_a_linked_file_stays_a_link_and_keeps_its_mode(connect: Connect, tmp_path: Path) -> None:
    dotfiles, home = tmp_path / "dotfiles", tmp_path / "home"
    write(dotfiles, {"claude.json": CLAUDE_SETTINGS})
    (dotfiles / "claude.json").chmod(0o640)
    (home / ".claude").mkdir(parents=True)
    (home / ".claude/settings.json").symlink_to(dotfiles / "claude.json")
    connection = connect("claude-code")
    connection.apply(connection.connecting())
    assert (home / ".claude/settings.json").is_symlink()
    assert "dreamctl" in (dotfiles / "claude.json").read_text()
    assert stat.S_IMODE((dotfiles / "claude.json").stat().st_mode) == 0o640
    connection.apply(connection.disconnecting())
    assert (dotfiles / "claude.json").read_text() == CLAUDE_SETTINGS


def test_several_folders_are_connected_each_for_itself(connect: Connect, tmp_path: Path) -> None:
    for name in ("work", "play"):
        connection = connect("claude-code", folder=tmp_path / name)
        connection.apply(connection.connecting())
        assert "dreamd" in (tmp_path / name / ".claude.json").read_text()
    one = connect("claude-code", folder=tmp_path / "work")
    one.apply(one.disconnecting())
    assert not everything(tmp_path / "work")
    assert everything(tmp_path / "play")


def test_a_file_that_changes_between_plan_and_act_is_left_alone(connect: Connect, tmp_path: Path) -> None:
    write(tmp_path / "home", FILES["claude-code"])
    connection = connect("claude-code")
    edits = connection.connecting()
    (tmp_path / "home/.claude/settings.json").write_text("{}")
    with pytest.raises(ConnectError, match="changed meanwhile"):
        connection.apply(edits)
    assert (tmp_path / "home/.claude/settings.json").read_text() == "{}"


@pytest.mark.parametrize("content", [b"{broken", b"\xff\xfe{}"])
def test_a_file_that_cannot_be_read_is_named_and_kept(connect: Connect, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "home/.gemini/settings.json"
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    with pytest.raises(ConnectError, match=r"settings\.json"):
        connect("gemini").connecting()
    assert file.read_bytes() == content


def test_a_diff_names_the_file_and_adds_lines_only(connect: Connect, tmp_path: Path) -> None:
    write(tmp_path / "home", FILES["gemini"])
    (edit,) = connect("gemini").connecting()
    changed = [line for line in edit.diff().splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    assert changed
    assert all(line.startswith("+") for line in changed)


def test_our_own_hooks_are_recognised_wherever_dreamctl_lies() -> None:
    is_ours = is_hook_of("codex")
    assert is_ours({"hooks": [{"command": "/a/dreamctl hook codex Stop"}]})
    assert is_ours({"command": "X=1 '/a b/dreamctl' hook codex Stop"})
    assert not is_ours({"command": "/a/dreamctl hook claude-code Stop"})
    assert not is_ours({"hooks": [{"command": "echo hook codex"}]})
    assert not is_ours("dreamctl hook codex Stop")


def test_programs_are_found_by_their_command_or_their_folder(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/codex").write_text("#!/bin/sh\n")
    (tmp_path / "bin/codex").chmod(0o755)
    (tmp_path / ".gemini").mkdir()
    found = programs_on_this_machine(UserEnvironment(tmp_path, {"PATH": os.fspath(tmp_path / "bin")}))
    assert [program.name for program in found] == ["codex", "gemini"]


def test_the_plugin_of_claude_code_names_the_same_hooks_and_tools() -> None:
    files = plugin_files(COMMAND)
    assert json.loads(files[".claude-plugin/plugin.json"])["name"] == "dreamd"
    assert set(json.loads(files["hooks/hooks.json"])["hooks"]) == set(FORMATS["claude-code"].moments)
    assert json.loads(files[".mcp.json"])["mcpServers"]["dreamd"]["args"] == ["mcp"]


def test_folders_are_made_for_their_user_alone_whatever_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_private(tmp_path / "program" / "commands")
    finally:
        os.umask(before)
    made = (tmp_path / "program", tmp_path / "program" / "commands")
    assert [folder.stat().st_mode & 0o777 for folder in made] == [0o700, 0o700]
