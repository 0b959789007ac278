"""The files of instructions that an agent program reads by itself: a briefing does not repeat their statements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...store import beginning

# Their names in a project's folders, and in the person's own.
_IN_PROJECT: Mapping[str, tuple[str, ...]] = {
    "claude-code": ("CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md"),
    "codex": ("AGENTS.md",),
    "gemini": ("GEMINI.md",),
    "opencode": ("AGENTS.md", "CLAUDE.md"),
    "cursor": ("AGENTS.md", ".cursorrules"),
}
_AT_HOME: Mapping[str, tuple[str, ...]] = {
    "claude-code": (".claude/CLAUDE.md",),
    "codex": (".codex/AGENTS.md",),
    "gemini": (".gemini/GEMINI.md",),
    "opencode": (".config/opencode/AGENTS.md",),
}
MEMORY_OF_CLAUDE = ".claude/projects/{}/memory/MEMORY.md"

# A start waits for these reads. What stands further down in a file is long, and seldom a rule.
READ_BYTES = 32_768
MOST_FOLDERS = 6

# Share of a statement's words that one paragraph must hold to say the same, and the fewest that tell anything.
SAID_FROM = 0.75
FEWEST_WORDS = 2
_WORD = re.compile(r"\w*\d\w*|\w{4,}")


@dataclass(frozen=True, slots=True)
class InstructionFiles:
    """The paragraphs of the files that a program reads at a start in a folder, as sets of their words."""

    paragraphs: tuple[frozenset[str], ...]

    @classmethod
    def read(cls, agent: str, folder: Path, home: Path) -> InstructionFiles:
        """Read the files; one that is missing, no file or unreadable is left out."""
        return cls(tuple(_words(one) for text in _texts(agent, folder, home) for one in re.split(r"\n\s*\n", text)))

    def say(self, statement: str) -> bool:
        """Check that one paragraph holds most words of a statement."""
        words = _words(statement)
        if len(words) < FEWEST_WORDS:
            return False
        return any(len(words & paragraph) >= SAID_FROM * len(words) for paragraph in self.paragraphs)


def _texts(agent: str, folder: Path, home: Path) -> Iterator[str]:
    paths = [one / name for one in _folders(folder, home) for name in _IN_PROJECT.get(agent, ())]
    paths += [home / name for name in _AT_HOME.get(agent, ())]
    if agent == "claude-code":
        paths.append(home / MEMORY_OF_CLAUDE.format(re.sub(r"[^A-Za-z0-9]", "-", str(folder))))
    for path in paths:
        with suppress(OSError):
            yield beginning(path.resolve(), READ_BYTES).decode("utf-8", "replace")


def _folders(folder: Path, home: Path) -> Iterator[Path]:
    """Yield a folder and those above it, up to its repository's, the person's own or MOST_FOLDERS."""
    for one in (folder, *folder.parents)[:MOST_FOLDERS]:
        if one == home:
            return
        yield one
        if (one / ".git").exists():
            return


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))
