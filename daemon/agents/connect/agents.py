"""The agents that can be connected, by the name that one types."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from . import claude_code, codex, cursor, gemini, opencode
from .programs import Command, Places, Program

PROGRAMS: Mapping[str, Program] = {
    program.name: program
    for program in (claude_code.PROGRAM, codex.PROGRAM, gemini.PROGRAM, opencode.PROGRAM, cursor.PROGRAM)
}
GENERIC = "generic"


def own_command(environ: Mapping[str, str] = os.environ) -> Command:
    """Return how this very installation is started, from any folder and without a shell's profile."""
    beside = Path(sys.executable).with_name("dreamctl")
    found = str(beside) if beside.exists() else shutil.which("dreamctl", path=environ.get("PATH"))
    named = environ.get("DREAMD_SOCKET")
    return Command(found or str(beside), {"DREAMD_SOCKET": named} if named else {})


def found_here(places: Places) -> Iterator[Program]:
    """Yield the programs that are on this machine: installed, or with a folder of settings."""
    for program in PROGRAMS.values():
        if shutil.which(program.executable, path=places.environ.get("PATH")) or program.folder(places).is_dir():
            yield program
