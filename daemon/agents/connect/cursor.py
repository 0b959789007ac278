"""Cursor: tools in `mcp.json`, hooks in `hooks.json`, version 1. The format is tested, the program itself is not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .files import ConfigFile, Item, JsonFile, Member
from .programs import SERVER, Command, Places, Program, is_hook_of

NAME = "cursor"
EVENTS = ("sessionStart", "beforeSubmitPrompt", "afterAgentResponse", "preCompact", "sessionEnd")
VERSION = 1


def _folder(places: Places) -> Path:
    return places.home / ".cursor"


def _files(folder: Path, places: Places, command: Command) -> Sequence[ConfigFile]:
    items = [Item(("hooks", event), {"command": command.hook(NAME, event)}) for event in EVENTS]
    return (
        JsonFile(folder / "mcp.json", [Member(("mcpServers", SERVER), command.server())]),
        JsonFile(folder / "hooks.json", items=items, is_ours=is_hook_of(NAME), required={"version": VERSION}),
    )


PROGRAM = Program(
    NAME,
    "Cursor",
    "cursor",
    _folder,
    _files,
    ("Cursor takes no text at a prompt: there its model asks by the tool `recall`.",),
)
