"""The agent programs that can be connected: where their settings lie, and what of ours goes into them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .files import ConfigFile

SERVER = "dreamd"
"""The name of our tools in a program: its model sees `mcp__dreamd__recall`, or the like."""

HOOK_TIMEOUT_S = 2
"""An agent waits so long for a hook that hangs; ours gives up after .15 s."""


@dataclass(frozen=True, slots=True)
class Command:
    """The way an agent starts us: an absolute path, and the variables without which we would not find the daemon."""

    path: str
    variables: Mapping[str, str]

    def hook(self, agent: str, event: str) -> str:
        """Return the line for a shell. It never changes by itself: Codex trusts a hook by the hash of it."""
        named = [f"{name}={shlex.quote(value)}" for name, value in sorted(self.variables.items())]
        return " ".join((*named, shlex.quote(self.path), "hook", agent, event))

    def server(self) -> dict[str, Any]:
        """Return the entry of our tools, as most programs have it."""
        entry: dict[str, Any] = {"command": self.path, "args": ["mcp"]}
        return entry | ({"env": dict(self.variables)} if self.variables else {})


@dataclass(frozen=True, slots=True)
class Places:
    """Where a program may have its settings: the home folder, and the variables that move them."""

    home: Path
    environ: Mapping[str, str]

    def folder(self, variable: str, default: str) -> Path:
        """Return the folder that a variable names, else one in the home folder."""
        named = self.environ.get(variable, "")
        return Path(named) if named else self.home / default


@dataclass(frozen=True, slots=True)
class Program:
    """An agent program. `folder` finds its settings, `files` says what goes into them, `executable` is its command.

    `remarks` are what a person should know once it is connected.
    """

    name: str
    title: str
    executable: str
    folder: Callable[[Places], Path]
    files: Callable[[Path, Places, Command], Sequence[ConfigFile]]
    remarks: Sequence[str] = ()


def is_hook_of(agent: str) -> Callable[[Any], bool]:
    """Make a test for an entry that calls our hook for an agent, wherever dreamctl lies."""
    called = re.compile(rf"dreamctl['\"]? hook {re.escape(agent)} ")

    def is_ours(entry: Any) -> bool:
        if not isinstance(entry, dict):
            return False
        inner = entry.get("hooks")
        entries = inner if isinstance(inner, list) else [entry]
        return any(isinstance(one, dict) and bool(called.search(f"{one.get('command', '')} ")) for one in entries)

    return is_ours
