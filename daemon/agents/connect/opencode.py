"""opencode: tools in `opencode.json`, and one plugin file that asks our hook at the moments of a session."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from .files import ConfigFile, JsonFile, Member, OwnFile
from .programs import SERVER, Command, Places, Program

NAME = "opencode"
CONFIGS = ("opencode.jsonc", "opencode.json")


def _folder(places: Places) -> Path:
    return places.folder("XDG_CONFIG_HOME", ".config") / "opencode"


def _files(folder: Path, places: Places, command: Command) -> Sequence[ConfigFile]:
    config = next((folder / name for name in CONFIGS if (folder / name).exists()), folder / CONFIGS[-1])
    server = {"type": "local", "command": [command.path, "mcp"], "enabled": True}
    if command.variables:
        server["environment"] = dict(command.variables)
    return (
        JsonFile(config, [Member(("mcp", SERVER), server)]),
        OwnFile(folder / "plugin" / "dreamd.js", plugin_source(command)),
    )


def plugin_source(command: Command) -> str:
    """Return the plugin, which starts dreamctl by its absolute path."""
    source = resources.files("dreamd").joinpath("daemon", "agents", "connect", "opencode_plugin.js")
    return (
        source.read_text(encoding="utf-8")
        .replace("@COMMAND@", json.dumps(command.path))
        .replace("@VARIABLES@", json.dumps(dict(command.variables)))
    )


PROGRAM = Program(NAME, "opencode", "opencode", _folder, _files)
