"""Claude Code: hooks in `settings.json`, tools in `.claude.json`; or both as a plugin's folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .... import __version__
from .files import ConfigFile, Item, JsonFile, Member
from .programs import HOOK_TIMEOUT_S, SERVER, Command, Places, Program, is_hook_of

NAME = "claude-code"
EVENTS = ("SessionStart", "UserPromptSubmit", "PreCompact", "Stop", "SessionEnd")

PLUGIN_README = """# dreamd

Gives Claude Code the long-term memory that dreamd keeps on this machine, shared with your other agents. A session
starts with what holds in its project; a prompt brings along the few lines that surely answer it; what is said is
remembered when Claude has answered. The model also gets tools to recall, remember and correct memories.

It needs a running dreamd (`dreamctl install`). Nothing leaves your machine. `DREAMD_NO_HOOKS=1` switches the hooks off.
"""


def hook_entry(command: Command, event: str) -> dict[str, Any]:
    """Return one event's entry; without a matcher it is called for all sources of the event.

    None has `async`: 2.1.197, asked one prompt, ends without such a hook, and without those of SessionEnd after it.
    At the end of a turn or a session the hook waits for no answer, so it costs no more than a process.
    """
    return {"hooks": [{"type": "command", "command": command.hook(NAME, event), "timeout": HOOK_TIMEOUT_S}]}


def plugin_files(command: Command) -> dict[str, str]:
    """Return the files of a plugin, for `claude --plugin-dir`, by their paths in it."""
    manifest = {
        "name": SERVER,
        "version": __version__,
        "description": "One long-term memory for all your agents, on your own machine",
        "author": {"name": "dreamd"},
        "license": "Apache-2.0",
    }
    hooks = {"hooks": {event: [hook_entry(command, event)] for event in EVENTS}}
    servers = {"mcpServers": {SERVER: command.server()}}
    documents = {".claude-plugin/plugin.json": manifest, "hooks/hooks.json": hooks, ".mcp.json": servers}
    files = {name: json.dumps(document, indent=2) + "\n" for name, document in documents.items()}
    return files | {"README.md": PLUGIN_README}


def _folder(places: Places) -> Path:
    return places.folder("CLAUDE_CONFIG_DIR", ".claude")


def _files(folder: Path, places: Places, command: Command) -> Sequence[ConfigFile]:
    """Return both files. The state file lies beside the default folder, and in any other."""
    state = places.home / ".claude.json" if folder == places.home / ".claude" else folder / ".claude.json"
    items = [Item(("hooks", event), hook_entry(command, event)) for event in EVENTS]
    server = {"type": "stdio", **command.server()}
    return (
        JsonFile(folder / "settings.json", items=items, is_ours=is_hook_of(NAME)),
        JsonFile(state, members=[Member(("mcpServers", SERVER), server)]),
    )


PROGRAM = Program(NAME, "Claude Code", "claude", _folder, _files)
