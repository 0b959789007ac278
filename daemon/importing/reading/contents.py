"""The contents of files in an agent's calls: those of files that the project ignores are not kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .ignore_files import IgnoreFiles
from .sanitize import first_line, tidy
from .shell_files import ShellFile, files_of_command
from .tool_calls import note_of_call, note_of_result

_PATHS = (
    *("file_path", "notebook_path", "path", "file", "filename", "absolute_path", "relative_path", "target_file"),
    *("paths", "file_paths", "files"),
)
_NAMED_BY_PATH = frozenset({"Edit", "MultiEdit", "NotebookEdit", "Read", "Write"})
"""Tools whose note is their file's path: it holds nothing of the file."""
_MOST_FILES = 50
_PATH_CHARS = 160


class Contents:
    """Notes of calls and results, without what ignored files hold. One for each file that is read."""

    def __init__(self) -> None:
        self._ignore_files = IgnoreFiles()
        self._left_out = 0

    def note_of_call(self, name: str, arguments: object, folder: object) -> tuple[str, str]:
        """Return the note of a call that was made in `folder`, and the line to stand for its result, if any."""
        note = tidy(note_of_call(name, arguments))
        given = arguments if isinstance(arguments, dict) else {}
        line, is_written = self._ignored(name, given, folder if isinstance(folder, str) else None)
        if note and line and is_written and name not in _NAMED_BY_PATH:
            self._left_out += 1
            note = line
        return note, line

    def note_of_result(self, name: str, text: str, line: str, *, is_error: bool) -> str:
        """Return the note of a result: `line` where there is one, and the result would be kept."""
        note = note_of_result(name, text, is_error=is_error)
        return self.instead(note, line)

    def instead(self, text: str, line: str) -> str:
        """Return `line` in place of a text, where both are there."""
        if not text or not line:
            return text
        self._left_out += 1
        return line

    def left_out(self) -> int:
        """Return how many contents were left out since the last call of this."""
        count, self._left_out = self._left_out, 0
        return count

    def _ignored(self, name: str, given: dict[str, Any], folder: str | None) -> tuple[str, bool]:
        """Return the line for the first ignored file of a call, and whether one is written."""
        line, is_written = "", False
        base = given.get("workdir") or given.get("dir_path")
        if isinstance(base, str):
            folder = f"{folder or ''}/{base}" if not base.startswith("/") else base
        for number, file in enumerate(_files(name, given)):
            if number >= _MOST_FILES:
                break
            if (found := self._ignore_files.naming(file.path, folder)) is not None:
                path, source = found
                line = line or f"[contents of {first_line(path, _PATH_CHARS)} not kept: named in {source}]"
                is_written = is_written or file.is_written
        return line, is_written


def _files(name: str, given: dict[str, Any]) -> Iterator[ShellFile]:
    """Yield the files that a call names; of an unknown tool each may be written."""
    if name == "Bash":
        if isinstance(command := given.get("command"), str):
            yield from files_of_command(command)
        return
    for key in _PATHS:
        values = given.get(key)
        for value in values if isinstance(values, list) else [values]:
            if isinstance(value, str) and value and "://" not in value:
                yield ShellFile(value, is_written=True)
