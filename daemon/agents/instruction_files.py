"""The files of instructions and notes that agent programs read by themselves: where they are, and who reads which.

A briefing does not repeat their statements. `FileKeeper` has them copied into the memory, so that one program finds
the rules in the file of another: at the start and the end of a session, and before a dream.
"""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from loguru import logger

from ...ipc.channels import channel_of
from ...store import beginning, checkouts
from ...store.model import GLOBAL_CHANNEL
from ...store.results import ProgramFile
from ...store.roles import Role

if TYPE_CHECKING:
    from ...store import MemoryStore

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
# The notes that programs write themselves, by the folder: of a project, and of all of them. The first is in the
# program's context, the others it opens when it wants them.
_NOTES_OF_CLAUDE, _NOTES_OF_CODEX = ".claude/projects/{}/memory", ".codex/memories"
MEMORY_OF_CLAUDE = f"{_NOTES_OF_CLAUDE}/MEMORY.md"
_IN_CONTEXT: Mapping[str, str] = {"MEMORY.md": "claude-code", "memory_summary.md": "codex"}

PLACE_FOR_RULES = "AGENTS.md"
"""The file for rules that every program is to see: most programs read it, and others import it."""

# A start waits for these reads. What stands further down in a file is long, and seldom a rule.
READ_BYTES = 32_768
MOST_FOLDERS, MOST_NOTES = 6, 30

# Share of a statement's words that one paragraph must hold to say the same, and the fewest that tell anything.
SAID_FROM = 0.75
FEWEST_WORDS = 2
_WORD = re.compile(r"\w*\d\w*|\w{4,}")
_IMPORT = re.compile(r"^[ \t]*@(\S+)[ \t]*$", re.MULTILINE)


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


# ---- all programs' files of a place


def files_of_project(folder: Path, home: Path) -> list[ProgramFile]:
    """Return the files of all programs for work in a folder, the place for rules first.

    Of a repository's worktrees the main one's file counts. A link out of the project is not followed.
    """
    root, main = checkouts(folder)
    if root in (home, Path(root.anchor)) or not root.is_dir():
        return []
    read_by = _programs(_IN_PROJECT)
    found = []
    for one in _folders(folder.resolve(), home):
        below = one.relative_to(root) if one.is_relative_to(root) else None
        for name in read_by if below is not None else ():
            place = next((top for top in (main, root) if _is_within(top / (below or "") / name, top)), None)
            if place is not None:
                key = (below / name).as_posix() if below else name
                found.append(ProgramFile(key, str(place / key), str(place), read_by[name], Path(name).name))
    slugs = dict.fromkeys(re.sub(r"[^A-Za-z0-9]", "-", str(one)) for one in (main, root, folder))
    for slug in slugs:
        found += _notes(home / _NOTES_OF_CLAUDE.format(slug), home)
    return _with_imports(found)


def files_of_person(home: Path) -> list[ProgramFile]:
    """Return the files that programs read wherever their person works; these may be links to a folder of dotfiles."""
    found = [
        ProgramFile(f"~/{name}", str(home / name), str(home), programs, Path(name).name)
        for name, programs in _programs(_AT_HOME).items()
        if (home / name).is_file()
    ]
    return [*found, *_notes(home / _NOTES_OF_CODEX, home)]


def _programs(table: Mapping[str, tuple[str, ...]]) -> dict[str, frozenset[str]]:
    """Return the programs that read each name, the place for rules first."""
    names = dict.fromkeys((PLACE_FOR_RULES, *(name for some in table.values() for name in some)))
    read_by = {name: frozenset(program for program, some in table.items() if name in some) for name in names}
    return {name: programs for name, programs in read_by.items() if programs}


def _notes(folder: Path, home: Path) -> Iterator[ProgramFile]:
    """Yield the files of a program's own notes: its words, not the person's."""
    with suppress(OSError):
        for file in islice(sorted(folder.glob("*.md")), MOST_NOTES):
            if file.is_file() and not file.is_symlink():
                read_by = frozenset(filter(None, [_IN_CONTEXT.get(file.name)]))
                key = f"~/{file.relative_to(home).as_posix()}"
                yield ProgramFile(key, str(file), str(home), read_by, Role.ASSISTANT.value)


def _is_within(file: Path, root: Path) -> bool:
    """Check for a file that really lies in a project: a clone is anybody's, and its links may lead anywhere."""
    try:
        return file.is_file() and file.resolve().is_relative_to(root.resolve())
    except OSError:
        return False


def _with_imports(files: list[ProgramFile]) -> list[ProgramFile]:
    """Give a file the readers of those that import it, or are links to it; leave these links out."""
    real = {one.path: str(Path(one.path).resolve()) for one in files}
    by_real: dict[str, ProgramFile] = {}
    for one in files:
        known = by_real.get(real[one.path])
        by_real[real[one.path]] = replace(known, read_by=known.read_by | one.read_by) if known else one
    for place, one in list(by_real.items()):
        with suppress(OSError):
            text = beginning(Path(place), READ_BYTES).decode("utf-8", "replace")
            for name in _IMPORT.findall(text):
                imported = str((Path(place).parent / name).resolve())
                if imported in by_real:
                    known = by_real[imported]
                    by_real[imported] = replace(known, read_by=known.read_by | one.read_by)
    return list(by_real.values())


class FileKeeper:
    """Has the files of the folders that agents work in copied, in a thread. Every method may be called from any."""

    def __init__(self, store: MemoryStore, home: Path, *, enabled: bool = True) -> None:
        self._store = store
        self._home = home
        self._folders: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._waiting: set[str] = set()
        self._enabled = enabled
        self._thread = threading.Thread(target=self._run, name="program-files", daemon=True)

    def start(self) -> None:
        """Copy the person's own files, and from now on those of the folders that are named; or drop all copies."""
        if self._enabled:
            self.look("")
            self._thread.start()
        else:
            self._store.drop_files()

    def stop(self) -> None:
        """Stop after the folder that is being read."""
        self._folders.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def look(self, folder: str) -> None:
        """Copy the files for work in a folder soon; of no folder the person's own."""
        if self._enabled and folder not in self._waiting:
            self._waiting.add(folder)
            self._folders.put(folder)

    def before_dream(self) -> None:
        """Copy the files of the folders of the newest sessions now, and those that were copied before."""
        if self._enabled:
            for folder in ("", *self._store.folders_of_sessions()):
                self._try(folder)
            self._store.refresh_files()

    def _run(self) -> None:
        while (folder := self._folders.get()) is not None:
            self._waiting.discard(folder)
            self._try(folder)

    def _try(self, folder: str) -> None:
        try:
            if folder:
                self._store.keep_files(channel_of(None, folder), files_of_project(Path(folder), self._home))
            else:
                self._store.keep_files(GLOBAL_CHANNEL, files_of_person(self._home))
        except Exception as error:  # a job's boundary: the next session looks again
            logger.warning("the files of programs could not be read ({})", type(error).__name__)
