"""The ignore files of a project: `.gitignore`, `.git/info/exclude`, and `.secretsignore`, which is of the same syntax.

They are read as git reads them: the innermost that says something of a path decides, and below a folder that is ignored
everything is. A repository may be hostile, so its files are opened through no link, and cut in size, in lines, and in
wildcards: a pattern with many of them takes a time that grows with their power.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ....store import opened
from ....store.channel import repository_of

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

GIT, SECRET, EXCLUDE = ".gitignore", ".secretsignore", ".git/info/exclude"
MAX_BYTES = 2**16  # some 3,000 patterns; the longest collections of templates have 500
MAX_PATTERNS = 2000
MAX_STARS = 3
MAX_PATH_CHARS = 1024
_FOLDERS = 1000
_STARS = re.compile(r"\*+")


class IgnoreFiles:
    """Says which files a project ignores. What was read is kept until the ignore file changes."""

    def __init__(self) -> None:
        self._roots: dict[Path, tuple[Path, Path] | None] = {}

    def naming(self, path: str, folder: str | None) -> tuple[str, str] | None:
        """Return a file's path in its project and the ignore file that names it, None where none does.

        A relative path is taken from `folder`. The project is the repository that the file is in, else `folder`.
        Looked up are the path as it stands and, where a link is on it, the one that it leads to.
        """
        if len(path) > MAX_PATH_CHARS or "\0" in path:
            return None
        try:
            joined = Path(folder or "") / Path(path).expanduser()
            if not joined.is_absolute():  # another system's, or nothing says from where
                return None
            plain = Path(os.path.normpath(joined))
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
        """Return the top and the git common dir of the project that a folder is in."""
        if folder not in self._roots:
            if len(self._roots) >= _FOLDERS:
                self._roots.clear()
            self._roots[folder] = repository_of(folder)
        found = self._roots[folder]
        if found is None and session_folder and folder.is_relative_to(session_folder):
            return Path(session_folder), Path(session_folder, ".git")
        return found


Source = tuple[int, str, "GitIgnoreSpec"]
"""The number of folders below the top at which it lies, its name, and its patterns."""


def _sources(root: Path, names: tuple[str, ...], name: str, outermost: Path | None) -> list[Source]:
    """Return the ignore files on the way to a path, the innermost first."""
    sources: list[Source] = []
    if outermost is not None and (spec := _patterns(outermost)):
        sources.append((0, EXCLUDE, spec))
    folder = root
    for depth, below in enumerate(names):
        if spec := _patterns(folder / name):
            sources.append((depth, name, spec))
        folder /= below
        if folder.is_symlink():
            break
    return sources[::-1]


def _decisive(names: tuple[str, ...], sources: list[Source], *, is_folder: bool) -> str | None:
    """Return the name of the source that has a path ignored: the path itself, or a folder that it is in."""
    for length in range(1, len(names) + 1):
        end = "/" if is_folder or length < len(names) else ""
        for depth, name, spec in sources:
            if depth < length and (said := spec.check_file("/".join(names[depth:length]) + end).include) is not None:
                if said:
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
    """Read one ignore file; None where it says nothing, or is a link, which git does not follow here either."""
    from pathspec import GitIgnoreSpec  # a repository may have none, and then it is never imported

    try:
        with opened(path) as file:
            content = file.read(MAX_BYTES + 1)
    except OSError:
        return None
    if len(content) > MAX_BYTES:
        content = content[: content.rfind(b"\n", 0, MAX_BYTES) + 1]
    text = content.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    patterns = list(bounded_patterns(text.splitlines()))[:MAX_PATTERNS]
    return GitIgnoreSpec.from_lines(patterns, backend="simple") if patterns else None


def bounded_patterns(lines: list[str]) -> Iterator[str]:
    """Yield the patterns that git would take, those with more than `MAX_STARS` wildcards cut to a wider one.

    A wider one keeps less. A negation cannot be made wider without keeping more, and is left out.
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
