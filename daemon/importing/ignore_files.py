"""The ignore files of a project, and the tool calls of a session without the contents of the files that they name.

`.gitignore`, `.git/info/exclude`, and `.secretsignore`, which has the same syntax, are read as git reads them: the
innermost that names a path decides, and everything below an ignored folder is ignored. A repository may be hostile, so
its files are opened through no link, and cut in size, in lines, and in wildcards: the time that a pattern takes grows
exponentially with them.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...store import opened
from ...store.channel import repository_of
from .sanitize import first_line, tidy
from .shell_commands import ShellFile, files_of_command
from .tool_calls import (
    LOOKS_ONLY,
    as_known,
    brings_foreign_words,
    is_our_own,
    lines_of_change,
    note_of_call,
    note_of_result,
    unwrapped,
)

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


GIT, SECRET, EXCLUDE = ".gitignore", ".secretsignore", ".git/info/exclude"
# Some 3,000 patterns; the longest collections of templates have 500.
MAX_BYTES = 2**16
MAX_PATTERNS = 2000
MAX_STARS = 3
MAX_PATH_CHARS = 1024
_FOLDERS = 1000
_STARS = re.compile(r"\*+")


class IgnoreFiles:
    """The ignore files of projects. Parsed patterns are cached until an ignore file changes."""

    def __init__(self) -> None:
        self._roots: dict[Path, tuple[Path, Path] | None] = {}

    def naming(self, path: str, folder: str | None) -> tuple[str, str] | None:
        """Return a file's path in its project and the name of the ignore file that matches it, None without one.

        A relative path starts at `folder`. The project is the repository that holds the file, else `folder`. Both the
        path and its target, where a link is on it, are looked up.
        """
        if len(path) > MAX_PATH_CHARS or "\0" in path:
            return None
        try:
            joined = Path(folder or "") / Path(path).expanduser()
            # Of another system, or relative to an unknown folder.
            if not joined.is_absolute():
                return None
            plain = Path(os.path.normpath(joined))
            # An agent may reach an ignored file by a link with another name.
            candidates = dict.fromkeys((plain, plain.resolve()))
            return next((found for one in candidates if (found := self._naming(one, folder))), None)
        except (OSError, ValueError, RuntimeError):  # no path of this system, a loop of links, no such user
            return None

    def _naming(self, path: Path, folder: str | None) -> tuple[str, str] | None:
        project = self._project(path.parent, folder)
        if project is None or len(path.parts) <= len(project[0].parts):
            return None
        root, common_dir = project
        names = path.relative_to(root).parts
        for sources in (_sources(root, names, GIT, common_dir / "info/exclude"), _sources(root, names, SECRET, None)):
            if sources and (source := _decisive(names, sources, is_folder=path.is_dir())):
                return "/".join(names), source
        return None

    def _project(self, folder: Path, session_folder: str | None) -> tuple[Path, Path] | None:
        """Return the top folder and the git common dir of the project that holds a folder."""
        if folder not in self._roots:
            # A cache: emptied when full, since its entries are cheap to find again.
            if len(self._roots) >= _FOLDERS:
                self._roots.clear()
            self._roots[folder] = repository_of(folder)
        found = self._roots[folder]
        if found is None and session_folder and folder.is_relative_to(session_folder):
            return Path(session_folder), Path(session_folder, ".git")
        return found


# Its depth below the top folder, its name, and its patterns.
Source = tuple[int, str, "GitIgnoreSpec"]


def _sources(root: Path, names: tuple[str, ...], name: str, outermost: Path | None) -> list[Source]:
    """Return the ignore files in the folders of a path, the innermost first."""
    sources: list[Source] = []
    if outermost is not None and (spec := _patterns(outermost)):
        sources.append((0, EXCLUDE, spec))
    folder = root
    for depth, below in enumerate(names):
        if spec := _patterns(folder / name):
            sources.append((depth, name, spec))
        folder /= below
        # Git does not look for ignore files behind a link.
        if folder.is_symlink():
            break
    return sources[::-1]


def _decisive(names: tuple[str, ...], sources: list[Source], *, is_folder: bool) -> str | None:
    """Return the name of the source by which a path, or a folder above it, is ignored; None if it is not."""
    # From the outermost folder to the path itself: an ignored folder decides for everything below it.
    for length in range(1, len(names) + 1):
        end = "/" if is_folder or length < len(names) else ""
        for depth, name, spec in sources:
            if depth < length and (match := spec.check_file("/".join(names[depth:length]) + end).include) is not None:
                if match:
                    return name
                break
    return None


def _patterns(path: Path) -> GitIgnoreSpec | None:
    try:
        known = os.lstat(path)
    except (OSError, ValueError):
        return None
    return _read(path, known.st_mtime_ns, known.st_size)


@lru_cache(maxsize=256)
def _read(path: Path, _changed_ns: int, _size: int) -> GitIgnoreSpec | None:
    """Read one ignore file; None where it is empty, or a link, which git does not follow here either."""
    from pathspec import GitIgnoreSpec  # imported only when a repository has an ignore file

    try:
        with opened(path) as file:
            content = file.read(MAX_BYTES + 1)
    except OSError:
        return None
    # Cut at a line break, since half a pattern might match more, or less.
    if len(content) > MAX_BYTES:
        content = content[: content.rfind(b"\n", 0, MAX_BYTES) + 1]
    text = content.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    patterns = list(bounded_patterns(text.splitlines()))[:MAX_PATTERNS]
    return GitIgnoreSpec.from_lines(patterns, backend="simple") if patterns else None


def bounded_patterns(lines: list[str]) -> Iterator[str]:
    """Yield the patterns that git accepts; one with more than `MAX_STARS` wildcards is cut, which makes it wider.

    A wider pattern ignores more, so less is kept. A negation is left out instead: widened it would keep more.
    """
    from pathspec.patterns.gitignore import GitIgnorePatternError
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    for line in lines:
        stars = list(_STARS.finditer(line))
        if len(stars) > MAX_STARS:
            if line.startswith("!"):
                continue
            line = line[: stars[MAX_STARS - 1].end()]
        if not line.strip() or line.startswith("#"):
            continue
        try:
            GitIgnoreSpecPattern(line)
        except (GitIgnorePatternError, re.error):
            continue
        yield line


_PATHS = (
    *("file_path", "notebook_path", "path", "file", "filename", "absolute_path", "relative_path", "target_file"),
    *("paths", "file_paths", "files"),
)
# Tools whose note is their file's path, without its content.
_NAMED_BY_PATH = frozenset({"Edit", "MultiEdit", "NotebookEdit", "Read", "Write"})
_MOST_FILES = 50
_PATH_CHARS = 160


class CallNotes:
    """Notes of tool calls and results, without the contents of ignored files. One instance for each file that is read.

    A call that names an ignored file has a placeholder, which stands for its content.
    """

    def __init__(self) -> None:
        self._ignore_files = IgnoreFiles()
        self._left_out = 0

    def of_call(self, name: str, arguments: object, folder: object) -> tuple[str, str]:
        """Return the note of a call made in `folder`, and the placeholder for its result, "" without one."""
        note = tidy(note_of_call(name, arguments))
        given = arguments if isinstance(arguments, dict) else {}
        placeholder, is_written = self._ignored(name, given, folder if isinstance(folder, str) else None)
        if note and placeholder and is_written and name not in _NAMED_BY_PATH:
            self._left_out += 1
            note = placeholder
        if note and not placeholder and (changed := lines_of_change(name, arguments)):
            note = "\n".join((note.removesuffix("]"), *changed)) + "]"
        return note, placeholder

    def of_result(self, name: str, text: str, placeholder: str, *, is_error: bool) -> str:
        """Return the note of a result, or its placeholder if there is one."""
        return self.or_placeholder(note_of_result(name, text, is_error=is_error), placeholder)

    def or_placeholder(self, text: str, placeholder: str) -> str:
        """Return the placeholder in place of a text, if both are there, and count it."""
        if not text or not placeholder:
            return text
        self._left_out += 1
        return placeholder

    def left_out(self) -> int:
        """Return the number of contents left out since the last call of this method."""
        count, self._left_out = self._left_out, 0
        return count

    def _ignored(self, name: str, given: dict[str, Any], folder: str | None) -> tuple[str, bool]:
        """Return the placeholder for the first ignored file of a call, and whether the call writes one."""
        placeholder, is_written = "", False
        base = given.get("workdir") or given.get("dir_path")
        if isinstance(base, str):
            folder = f"{folder or ''}/{base}" if not base.startswith("/") else base
        for file in islice(_files(name, given), _MOST_FILES):
            if (found := self._ignore_files.naming(file.path, folder)) is not None:
                path, source = found
                shown = first_line(path, _PATH_CHARS)
                placeholder = placeholder or f"[contents of {shown} not kept: named in {source}]"
                is_written = is_written or file.is_written
        return placeholder, is_written


def _files(name: str, given: dict[str, Any]) -> Iterator[ShellFile]:
    """Yield the files that a call names; an unknown tool may write each of them."""
    if name == "Bash":
        if isinstance(command := given.get("command"), str):
            yield from files_of_command(command)
        return
    for key in _PATHS:
        values = given.get(key)
        for value in values if isinstance(values, list) else [values]:
            if isinstance(value, str) and value and "://" not in value:
                yield ShellFile(value, is_written=True)


_OURS = "our own"
# Calls that wait for their result; older ones count as abandoned.
_OPEN_CALLS = 1000


class OpenCalls:
    """The calls of one session in the order of its transcript, and those that wait for their result.

    A call of our own memory, and its result, get no note: they hold known text. Only a shell may do more than that.
    """

    def __init__(self) -> None:
        self.notes = CallNotes()
        self._waiting: OrderedDict[str, tuple[str, str, bool]] = OrderedDict()
        self._is_foreign = False

    def called(self, name: str, arguments: object, call_id: object, folder: object, full_name: str = "") -> str:
        """Return the note of a call made in `folder`, "" without one. `full_name` names the tool's server too."""
        name, arguments = unwrapped(name, arguments)
        known, inputs = as_known(name, arguments)
        ours, foreign = is_our_own(full_name or name, inputs), brings_foreign_words(known, inputs)
        foreign = foreign and not (ours and known != "Bash")
        note, placeholder = self.notes.of_call(known, inputs, folder)
        self._is_foreign = self._is_foreign or foreign
        if ours:
            note = f"[{known}]" if foreign else ""
        if isinstance(call_id, str):
            self._waiting[call_id] = (_OURS if ours else known, placeholder, foreign)
            if len(self._waiting) > _OPEN_CALLS:
                self._waiting.popitem(last=False)
        return "" if (ours or name in LOOKS_ONLY) and not foreign else note

    def answered(self, call_id: object, text: str, *, is_error: bool) -> str:
        """Return the note of a call's result, "" without one."""
        name, placeholder, foreign = self._waiting.pop(str(call_id), ("", "", False))
        self._is_foreign = self._is_foreign or foreign
        return "" if name == _OURS else tidy(self.notes.of_result(name, text, placeholder, is_error=is_error))

    def brought_foreign_words(self) -> bool:
        """Return True if a call or a result since the last call of this method may have."""
        found, self._is_foreign = self._is_foreign, False
        return found

    def ran_a_search(self) -> None:
        """Note a search of the web, whose answer has no result of its own."""
        self._is_foreign = True
