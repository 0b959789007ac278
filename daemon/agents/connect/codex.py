"""Codex: tools in `config.toml`, hooks in `hooks.json`, which it runs only when a person has trusted them.

Trust is bound to a hook's content and to its place, so ours go behind those that are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .files import ConfigFile, Item, JsonFile, TomlFile
from .programs import HOOK_TIMEOUT_S, SERVER, Command, Places, Program, is_hook_of

NAME = "codex"
EVENTS = ("SessionStart", "UserPromptSubmit", "PreCompact", "Stop")


def _folder(places: Places) -> Path:
    return places.folder("CODEX_HOME", ".codex")


def _files(folder: Path, places: Places, command: Command) -> Sequence[ConfigFile]:
    items = [
        Item(
            ("hooks", event),
            {"hooks": [{"type": "command", "command": command.hook(NAME, event), "timeout": HOOK_TIMEOUT_S}]},
        )
        for event in EVENTS
    ]
    return (
        TomlFile(folder / "config.toml", ("mcp_servers", SERVER), command.server()),
        JsonFile(folder / "hooks.json", items=items, is_ours=is_hook_of(NAME), last=True),
    )


PROGRAM = Program(NAME, "Codex", "codex", _folder, _files)
