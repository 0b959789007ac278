"""The agent programs that can be connected: the folders of their settings, and our entries in them.

To add one: a function that finds its folder, one that returns its files, and an entry in `PROGRAMS`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from ... import __version__
from ...ipc.socket_path import SOCKET_VARIABLES
from .config_files import ConfigEntry, ConfigFile, JsonFile, OwnFile, TomlFile
from .hook_formats import FORMATS

# The name of our tools in a program: its model sees `mcp__dreamd__recall` or the like.
SERVER = "dreamd"
DESCRIPTION = "One long-term memory for all your agents, on your own machine"
LICENSE = "Apache-2.0"

# An agent's timeout for a hook. Ours ends after .15 s, at a session's start after 1.5 s, both from its own start: on a
# busy machine a shell and an interpreter take most of a second before and after that.
HOOK_TIMEOUT_S = 5
CODEX_END_TIMEOUT_S = 3


@dataclass(frozen=True, slots=True)
class Command:
    """The command by which an agent starts us: an absolute path, and the variables that name the daemon's socket."""

    path: str
    variables: Mapping[str, str]

    def hook(self, agent: str, event: str) -> str:
        """Return the shell line of a hook. It is always the same text: Codex trusts a hook by its hash."""
        named = [f"{name}={shlex.quote(value)}" for name, value in sorted(self.variables.items())]
        return " ".join((*named, shlex.quote(self.path), "hook", agent, event))

    def server(self) -> dict[str, Any]:
        """Return the entry of our tools, in the form of most programs."""
        entry: dict[str, Any] = {"command": self.path, "args": ["mcp"]}
        return entry | ({"env": dict(self.variables)} if self.variables else {})


@dataclass(frozen=True, slots=True)
class UserEnvironment:
    """The home folder, and the environment, whose variables may move a program's settings."""

    home: Path
    environ: Mapping[str, str]

    def folder(self, variable: str, default: str) -> Path:
        """Return the folder that a variable names, else one in the home folder."""
        named = self.environ.get(variable, "")
        return Path(named) if named else self.home / default


@dataclass(frozen=True, slots=True)
class Program:
    """An agent program. `folder` finds its settings, `files` returns our entries in them, `executable` is its command.

    `remarks` are printed once it is connected. `passes_on` are the variables of its own environment that the process of
    our tools gets; None: all that matter to us, as was seen of Claude Code 2.1.332 and opencode 1.18.33 by a server
    that wrote its environment down. Cursor's is not known.
    """

    name: str
    title: str
    executable: str
    folder: Callable[[UserEnvironment], Path]
    files: Callable[[Path, UserEnvironment, Command], Sequence[ConfigFile]]
    remarks: Sequence[str] = ()
    passes_on: frozenset[str] | None = None

    def environment_of_tools(self, environ: Mapping[str, str], command: Command) -> dict[str, str]:
        """Return the environment in which it starts our tools, where it has `environ` itself."""
        passed = {name: one for name, one in environ.items() if self.passes_on is None or name in self.passes_on}
        return passed | dict(command.variables)


def is_hook_of(agent: str) -> Callable[[Any], bool]:
    """Return a predicate for entries that call our hook for an agent, wherever dreamctl is installed."""
    called = re.compile(rf"dreamctl['\"]? hook {re.escape(agent)} ")

    def is_ours(entry: Any) -> bool:
        if not isinstance(entry, dict):
            return False
        inner = entry.get("hooks")
        entries = inner if isinstance(inner, list) else [entry]
        return any(isinstance(one, dict) and bool(called.search(f"{one.get('command', '')} ")) for one in entries)

    return is_ours


def hook_entries(agent: str, item: Callable[[str], Any]) -> list[ConfigEntry]:
    """Return an agent's hooks as entries: one item for each event that is answered."""
    return [ConfigEntry(("hooks", event), item(event), is_item=True) for event in FORMATS[agent].moments]


# The tools for whose calls a hook is started: an edit, and a command that failed.
MATCHERS: Mapping[str, str] = {
    "PreToolUse": "Edit|MultiEdit|Write|NotebookEdit|apply_patch",
    "PostToolUse": "Bash|shell|exec_command",
    "PostToolUseFailure": "Bash",
    "AfterTool": "run_shell_command|read_file|replace|write_file",
}


# -- Claude Code: hooks in `settings.json`, tools in `.claude.json`; or both as a plugin's folder.

PLUGIN_README = """# dreamd

Gives Claude Code the long-term memory that dreamd keeps on this machine, shared with your other agents. A session
starts with what holds in its project; a prompt brings along the few lines that surely answer it; what is said is
remembered when Claude has answered. The model also gets tools to recall, remember and correct memories.

It needs a running dreamd (`dreamctl install`). Nothing leaves your machine. `DREAMD_NO_HOOKS=1` switches the hooks off.
"""


def hook_entry(command: Command, event: str, agent: str = "claude-code") -> dict[str, Any]:
    """Return one event's entry; without a matcher it is called for all sources of the event.

    None has `async`: version 2.1.197, asked one prompt, ends without calling such a hook, or those of SessionEnd after
    it. At the end of a turn or a session the hook waits for no answer, so it costs no more than a process.
    """
    # Codex warns of a longer one at this event, at each start.
    is_last = (agent, event) == ("codex", "SessionEnd")
    timeout_s = CODEX_END_TIMEOUT_S if is_last else HOOK_TIMEOUT_S
    called = {"hooks": [{"type": "command", "command": command.hook(agent, event), "timeout": timeout_s}]}
    return ({"matcher": MATCHERS[event]} if event in MATCHERS else {}) | called


def plugin_files(command: Command) -> dict[str, str]:
    """Return the files of a plugin, for `claude --plugin-dir`, by their paths in it."""
    manifest = {
        "name": SERVER,
        "version": __version__,
        "description": DESCRIPTION,
        "author": {"name": "dreamd"},
        "license": LICENSE,
    }
    hooks = {"hooks": {event: [hook_entry(command, event)] for event in FORMATS["claude-code"].moments}}
    servers = {"mcpServers": {SERVER: command.server()}}
    documents = {".claude-plugin/plugin.json": manifest, "hooks/hooks.json": hooks, ".mcp.json": servers}
    files = {name: json.dumps(document, indent=2) + "\n" for name, document in documents.items()}
    return files | {"README.md": PLUGIN_README}


def _claude_code_files(folder: Path, places: UserEnvironment, command: Command) -> Sequence[ConfigFile]:
    """Return both files. The state file lies beside the default folder, but inside any other."""
    # `~/.claude.json` is the one file that is not in the folder of settings.
    state = places.home / ".claude.json" if folder == places.home / ".claude" else folder / ".claude.json"
    hooks = hook_entries("claude-code", lambda event: hook_entry(command, event))
    server = {"type": "stdio", **command.server()}
    return (
        JsonFile(folder / "settings.json", hooks, is_hook_of("claude-code")),
        JsonFile(state, [ConfigEntry(("mcpServers", SERVER), server)]),
    )


_CLAUDE_CODE = Program(
    "claude-code",
    "Claude Code",
    "claude",
    lambda places: places.folder("CLAUDE_CONFIG_DIR", ".claude"),
    _claude_code_files,
)


# -- Codex: tools in `config.toml`, hooks in `hooks.json`, which it runs only after a person has trusted them.
# Trust is bound to a hook's content and to its position, so ours go behind the existing ones.

# `DEFAULT_ENV_VARS` of its `rmcp-client`; seen with 0.169.0 by a server that wrote its environment down. Others are
# passed on if an entry's `env_vars` name them. Its hooks get its whole environment.
CODEX_PASSES_ON = (
    "HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER", "__CF_USER_TEXT_ENCODING",
)  # fmt: skip


def _codex_files(folder: Path, places: UserEnvironment, command: Command) -> Sequence[ConfigFile]:
    hooks = hook_entries("codex", lambda event: hook_entry(command, event, "codex"))
    server = {**command.server(), "env_vars": list(SOCKET_VARIABLES)}
    return (
        TomlFile(folder / "config.toml", ("mcp_servers", SERVER), server),
        JsonFile(folder / "hooks.json", hooks, is_hook_of("codex"), last=True),
    )


_CODEX = Program(
    "codex",
    "Codex",
    "codex",
    lambda places: places.folder("CODEX_HOME", ".codex"),
    _codex_files,
    passes_on=frozenset((*CODEX_PASSES_ON, *SOCKET_VARIABLES)),
)


# -- Gemini CLI: hooks and tools in one `settings.json`. Its timeouts are milliseconds. Its tools get its environment
# without what looks like a secret (`sanitizeEnvironment` in the bundle of 0.61.0), and its hooks all of it.


def _gemini_files(folder: Path, places: UserEnvironment, command: Command) -> Sequence[ConfigFile]:
    def hook(event: str) -> dict[str, Any]:
        called = {"name": f"dreamd-{event}", "type": "command", "command": command.hook("gemini", event)}
        matched = {"matcher": MATCHERS[event]} if event in MATCHERS else {}
        return matched | {"hooks": [called | {"timeout": 1000 * HOOK_TIMEOUT_S}]}

    server = ConfigEntry(("mcpServers", SERVER), command.server())
    return (JsonFile(folder / "settings.json", [server, *hook_entries("gemini", hook)], is_hook_of("gemini")),)


_GEMINI = Program("gemini", "Gemini CLI", "gemini", lambda places: places.home / ".gemini", _gemini_files)


# -- opencode: tools in `opencode.json`, and one plugin file that calls our hook.

OPENCODE_CONFIGS = ("opencode.jsonc", "opencode.json")


def _opencode_files(folder: Path, places: UserEnvironment, command: Command) -> Sequence[ConfigFile]:
    config = next(
        (folder / name for name in OPENCODE_CONFIGS if (folder / name).exists()), folder / OPENCODE_CONFIGS[-1]
    )
    server = {"type": "local", "command": [command.path, "mcp"], "enabled": True}
    if command.variables:
        server["environment"] = dict(command.variables)
    return (
        JsonFile(config, [ConfigEntry(("mcp", SERVER), server)]),
        OwnFile(folder / "plugin" / "dreamd.js", plugin_source(command)),
    )


def plugin_source(command: Command) -> str:
    """Return the plugin's source, which starts dreamctl by its absolute path."""
    source = resources.files("dreamd").joinpath("daemon", "agents", "opencode_plugin.js")
    return (
        source.read_text(encoding="utf-8")
        .replace("@COMMAND@", json.dumps(command.path))
        .replace("@VARIABLES@", json.dumps(dict(command.variables)))
    )


_OPENCODE = Program(
    "opencode",
    "opencode",
    "opencode",
    lambda places: places.folder("XDG_CONFIG_HOME", ".config") / "opencode",
    _opencode_files,
)


# -- Cursor: tools in `mcp.json`, hooks in `hooks.json`, version 1. The format is tested, the program itself is not.

CURSOR_VERSION = 1


def _cursor_files(folder: Path, places: UserEnvironment, command: Command) -> Sequence[ConfigFile]:
    hooks = hook_entries("cursor", lambda event: {"command": command.hook("cursor", event)})
    return (
        JsonFile(folder / "mcp.json", [ConfigEntry(("mcpServers", SERVER), command.server())]),
        JsonFile(folder / "hooks.json", hooks, is_hook_of("cursor"), {"version": CURSOR_VERSION}),
    )


_CURSOR = Program(
    "cursor",
    "Cursor",
    "cursor",
    lambda places: places.home / ".cursor",
    _cursor_files,
    ("Cursor takes no text at a prompt: there its model asks by the tool `recall`.",),
)


# -- All of them, by their names on the command line.

PROGRAMS: Mapping[str, Program] = {
    program.name: program for program in (_CLAUDE_CODE, _CODEX, _GEMINI, _OPENCODE, _CURSOR)
}
GENERIC = "generic"


def own_command(environ: Mapping[str, str] = os.environ) -> Command:
    """Return the command that starts this installation from any folder, without a shell's profile."""
    beside = Path(sys.executable).with_name("dreamctl")
    found = str(beside) if beside.exists() else shutil.which("dreamctl", path=environ.get("PATH"))
    named = environ.get("DREAMD_SOCKET")
    return Command(found or str(beside), {"DREAMD_SOCKET": named} if named else {})


def programs_on_this_machine(places: UserEnvironment) -> Iterator[Program]:
    """Yield the programs on this machine: installed, or with a folder of settings."""
    for program in PROGRAMS.values():
        if shutil.which(program.executable, path=places.environ.get("PATH")) or program.folder(places).is_dir():
            yield program
