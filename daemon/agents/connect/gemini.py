"""Gemini CLI: hooks and tools in one `settings.json`. Its timeouts are milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .files import ConfigFile, Item, JsonFile, Member
from .programs import HOOK_TIMEOUT_S, SERVER, Command, Places, Program, is_hook_of

NAME = "gemini"
EVENTS = ("SessionStart", "BeforeAgent", "PreCompress", "AfterAgent", "SessionEnd")


def _folder(places: Places) -> Path:
    return places.home / ".gemini"


def _files(folder: Path, places: Places, command: Command) -> Sequence[ConfigFile]:
    items = [
        Item(
            ("hooks", event),
            {
                "hooks": [
                    {
                        "name": f"dreamd-{event}",
                        "type": "command",
                        "command": command.hook(NAME, event),
                        "timeout": 1000 * HOOK_TIMEOUT_S,
                    }
                ]
            },
        )
        for event in EVENTS
    ]
    server = Member(("mcpServers", SERVER), command.server())
    return (JsonFile(folder / "settings.json", [server], items, is_hook_of(NAME)),)


PROGRAM = Program(NAME, "Gemini CLI", "gemini", _folder, _files)
