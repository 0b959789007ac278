"""Anthropic's memory tool over the daemon: the files under /memories are documents. Needs `dreamd[anthropic]`."""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from anthropic.lib.tools import (
    BetaAbstractMemoryTool,
    BetaAsyncAbstractMemoryTool,
    BetaFunctionToolResultType,
    ToolError,
)
from anthropic.types.beta import (
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)

from ..client import Client, DaemonError
from ..protocol import INVALID_PARAMS, NOT_FOUND, Json
from .space import NOTHING, TRIES, Space, changing

SPACE: Final = ("anthropic", "memory")
ROOT: Final = "/memories"

MOST_LINES: Final = 999_999
NUMBER_WIDTH: Final = 6
"""The bounds that the tool documents: lines of a file, and the width of their numbers."""

LONGEST_PATH: Final = 1000
"""The characters of a path; a document's key, and a prefix of keys, may have a few more."""

LEVELS: Final = 2
"""The levels of a folder that a view shows."""

AROUND: Final = 2
"""The lines shown on either side of a replacement."""


class DreamdMemoryTool(BetaAbstractMemoryTool):
    """Claude's memory tool, whose files the daemon keeps: they survive it, and recall finds them.

    `space` keeps several memories apart, `user_id` those of several users; `channel` is that of the working folder
    unless it is named. A daemon that is away raises `dreamd.ipc.client.Unreachable` from every command.
    """

    def __init__(
        self,
        client: Client | None = None,
        *,
        space: Sequence[str] = SPACE,
        channel: str | None = None,
        user_id: str | None = None,
    ) -> None:
        super().__init__()
        self._files = Space(client or Client(name="anthropic-memory"), space, channel, user_id)

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Show a file with numbered lines, or list a folder."""
        path = _checked(command.path)
        if (file := self._get(path)) is not None:
            return _numbered(command.path, _text(file), command.view_range)
        if (listing := _listing(command.path, path, list(self._files.all(f"{path}/")))) is not None:
            return listing
        raise ToolError(f"The path {command.path} does not exist. Please provide a valid path.")

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Create a file; one that is there stays as it is."""
        path = _checked(command.path)
        # Documents have no folders, only keys with slashes: the rules of a file system are kept by these checks.
        self._refuse_below_a_file(command.path, path)
        if self._is_folder(path) or not self._put(path, command.file_text, NOTHING):
            raise ToolError(f"File {command.path} already exists")
        return f"File created successfully at: {command.path}"

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text that occurs once in a file."""
        return self._edit(command.path, lambda text: _replaced(command.path, text, command.old_str, command.new_str))

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert lines into a file after the line of a number, 0 for its beginning."""
        return self._edit(command.path, lambda text: _inserted(command, text))

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Delete a file, or a folder with all that is in it."""
        path = _checked(command.path)
        if path == ROOT:
            raise ToolError("Cannot delete the /memories directory itself")
        if not self._files.delete(path):
            raise ToolError(f"The path {command.path} does not exist")
        return f"Successfully deleted {command.path}"

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Rename or move a file, or a folder with all that is in it, at once."""
        old, new = _checked(command.old_path), _checked(command.new_path)
        if old == ROOT:
            raise ToolError("Cannot rename the /memories directory itself")
        if self._is_there(new):
            raise ToolError(f"The destination {command.new_path} already exists")
        self._refuse_below_a_file(command.new_path, new)
        try:
            if not self._files.rename(old, new):
                raise ToolError(f"The destination {command.new_path} already exists")
        except DaemonError as error:
            if error.code == NOT_FOUND:
                raise ToolError(f"The path {command.old_path} does not exist") from None
            raise _refused(error) from None
        return f"Successfully renamed {command.old_path} to {command.new_path}"

    def clear_all_memory(self) -> str:
        """Delete every file."""
        self._files.delete()
        return "All memory cleared"

    def _edit(self, named: str, edited: Callable[[str], tuple[str, str]]) -> str:
        """Change a file by a function of its text, begun again where another change came first."""
        path = _checked(named)
        for _ in range(TRIES):
            if (file := self._get(path)) is None:
                if self._is_folder(path):
                    raise ToolError(f"The path {named} is not a file.")
                raise ToolError(f"The path {named} does not exist. Please provide a valid path.")
            text, result = edited(_text(file))
            if self._put(path, text, file["version"]):
                return result
        raise changing(named)

    def _get(self, path: str) -> Json | None:
        return None if path == ROOT else self._files.get(path)

    def _put(self, path: str, text: str, version: str) -> bool:
        try:
            return self._files.put(path, text, if_version=version)
        except DaemonError as error:
            raise _refused(error) from None

    def _is_folder(self, path: str) -> bool:
        return path == ROOT or any(True for _ in self._files.all(f"{path}/"))

    def _is_there(self, path: str) -> bool:
        return self._is_folder(path) or self._get(path) is not None

    def _refuse_below_a_file(self, named: str, path: str) -> None:
        folder = posixpath.dirname(path)
        while len(folder) > len(ROOT):
            if self._get(folder) is not None:
                raise ToolError(f"The path {named} lies below {folder}, which is not a directory")
            folder = posixpath.dirname(folder)


class AsyncDreamdMemoryTool(BetaAsyncAbstractMemoryTool):
    """The same for asyncio: each command runs in a thread, one at a time."""

    def __init__(
        self,
        client: Client | None = None,
        *,
        space: Sequence[str] = SPACE,
        channel: str | None = None,
        user_id: str | None = None,
    ) -> None:
        super().__init__()
        self._tool = DreamdMemoryTool(client, space=space, channel=channel, user_id=user_id)

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> BetaFunctionToolResultType:
        """Show a file with numbered lines, or list a folder."""
        return await asyncio.to_thread(self._tool.view, command)

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> BetaFunctionToolResultType:
        """Create a file; one that is there stays as it is."""
        return await asyncio.to_thread(self._tool.create, command)

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> BetaFunctionToolResultType:
        """Replace a text that occurs once in a file."""
        return await asyncio.to_thread(self._tool.str_replace, command)

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> BetaFunctionToolResultType:
        """Insert lines into a file after the line of a number, 0 for its beginning."""
        return await asyncio.to_thread(self._tool.insert, command)

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> BetaFunctionToolResultType:
        """Delete a file, or a folder with all that is in it."""
        return await asyncio.to_thread(self._tool.delete, command)

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> BetaFunctionToolResultType:
        """Rename or move a file, or a folder with all that is in it, at once."""
        return await asyncio.to_thread(self._tool.rename, command)

    async def clear_all_memory(self) -> BetaFunctionToolResultType:
        """Delete every file."""
        return await asyncio.to_thread(self._tool.clear_all_memory)


def _checked(named: str) -> str:
    """Return a path in its shortest form. Raises ToolError for one outside of /memories, and for one too long."""
    if not named.startswith(ROOT):
        raise ToolError(f"Path must start with /memories, got: {named}")
    # Normalised before the check, so that `/memories/../etc` cannot pass it.
    path = posixpath.normpath(posixpath.join(ROOT, named[len(ROOT) :].lstrip("/")))
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise ToolError(f"Path {named} would escape /memories directory")
    if len(path) > LONGEST_PATH:
        raise ToolError(f"The path has {len(path):,} characters, more than {LONGEST_PATH:,}. Choose a shorter one.")
    return path


def _text(file: Json) -> str:
    return str(file["value"])


def _refused(error: DaemonError) -> Exception:
    """Return the model's error for an input that cannot be kept; any other error unchanged."""
    return ToolError(f"{error}. {error.hint}".strip()) if error.code == INVALID_PARAMS else error


def _line(number: int, text: str) -> str:
    return f"{number:>{NUMBER_WIDTH}}\t{text}"


def _numbered(named: str, text: str, view_range: Sequence[int] | None) -> str:
    lines = text.split("\n")
    if len(lines) > MOST_LINES:
        raise ToolError(f"File {named} exceeds maximum line limit of 999,999 lines.")
    first, last = (view_range[0], view_range[1]) if view_range and len(view_range) == 2 else (1, -1)
    first = max(1, first)
    shown = lines[first - 1 : len(lines) if last == -1 else last]
    numbered = (_line(number, line) for number, line in enumerate(shown, first))
    return f"Here's the content of {named} with line numbers:\n" + "\n".join(numbered)


def _replaced(named: str, text: str, old: str, new: str) -> tuple[str, str]:
    """Return a text with its one occurrence of `old` replaced, and the lines around it."""
    if old not in text:
        raise ToolError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {named}.")
    if text.count(old) > 1:
        lines = ", ".join(str(text.count("\n", 0, place) + 1) for place in _places(text, old))
        raise ToolError(
            f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}."
            " Please ensure it is unique"
        )
    changed = text.replace(old, new)
    at = text.count("\n", 0, text.index(old))
    lines_now = changed.split("\n")
    shown = range(max(0, at - AROUND), min(len(lines_now), at + AROUND + 1))
    snippet = "\n".join(_line(number + 1, lines_now[number]) for number in shown)
    return (
        changed,
        f"The memory file has been edited. Here is the snippet showing the change (with line numbers):\n{snippet}",
    )


def _places(text: str, old: str) -> Iterator[int]:
    """Yield every place at which a text occurs, also where it overlaps itself."""
    place = text.find(old)
    while place != -1:
        yield place
        place = text.find(old, place + 1)


def _inserted(command: BetaMemoryTool20250818InsertCommand, text: str) -> tuple[str, str]:
    """Return a text with lines inserted, ended by a newline."""
    lines = text.removesuffix("\n").split("\n") if text else []
    if not 0 <= command.insert_line <= len(lines):
        raise ToolError(
            f"Invalid `insert_line` parameter: {command.insert_line}. It should be within the range [0, {len(lines)}]."
        )
    lines.insert(command.insert_line, command.insert_text.rstrip("\n"))
    joined = "\n".join(lines)
    return joined if joined.endswith("\n") else f"{joined}\n", f"The file {command.path} has been edited."


def _listing(named: str, path: str, files: Sequence[Json]) -> str | None:
    """Return the listing of a folder: two levels, without hidden files; None for an unknown folder."""
    if not files and path != ROOT:
        return None
    sizes: dict[tuple[str, ...], int] = {}
    folders: set[tuple[str, ...]] = set()
    for file in files:
        parts = tuple(file["key"].removeprefix(f"{path}/").split("/"))
        shown = parts[:LEVELS]
        folders.update(parts[:depth] for depth in range(1, len(parts)))
        for depth in range(1, len(shown) + 1):
            sizes[parts[:depth]] = sizes.get(parts[:depth], 0) + file["size_bytes"]
    lines = [f"{_size(sum(file['size_bytes'] for file in files))}\t{named}"]
    for parts in sorted(sizes):
        if not any(part.startswith(".") for part in parts):
            slash = "/" if parts in folders else ""
            lines.append(f"{_size(sizes[parts])}\t{named}/{'/'.join(parts)}{slash}")
    head = f"Here're the files and directories up to 2 levels deep in {named}, excluding hidden items:"
    return "\n".join((head, *lines))


def _size(size_bytes: int) -> str:
    """Format a size as `du -h` does: in the largest unit of 1,024 that it fills."""
    size, unit = float(size_bytes), "B"
    for unit in "BKMG":
        if size < 1024 or unit == "G":
            break
        size /= 1024
    return f"{int(size)}{unit}" if size == int(size) else f"{size:.1f}{unit}"
