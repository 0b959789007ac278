"""The project of a channel: checks that files and commands that facts name exist. Reads its folder; runs nothing."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from ...store import beginning
from ...store.channel import project_root

MOST_LOOKS = 20_000
"""Files looked up in one project in a run; those beyond count as existing."""

MOST_SUBFOLDERS = 64
LARGEST_LIST_BYTES = 1 << 20
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_TARGET = re.compile(r"^([A-Za-z0-9_./ \t-]{1,1000}?)::?(?!=)", re.MULTILINE)
_UNKNOWABLE = re.compile(r"^[^\S\n]*(?:-?include|sinclude|define)\b|^[^\t#\n=]*[%$][^\n=]*:(?!=)", re.MULTILINE)
_SEGMENT = r"[\w@+-][\w.@+-]*|\.[A-Za-z][\w.-]*"
_PATH = re.compile(rf"/?(?:(?:{_SEGMENT})/)+(?:{_SEGMENT})?")
_ENDS_AS_FILE = re.compile(r"[\w)-]\.[A-Za-z][A-Za-z0-9]{0,5}$")
_QUOTED = re.compile(r"`([^`\n]{2,200})`")
_BARE = re.compile(r"(?<![\w/:.@~`$%\\-])(/?(?:[\w@+.-]+/)+[\w@+.-]*\.[A-Za-z][A-Za-z0-9]{0,5})(?![\w/*`{<])")
_MAKE = re.compile(
    r"`(?:\$ )?make ([a-z][\w.-]{1,40})(?=`| )"
    r"|\b(?:[Rr]un|[Uu]se|[Uu]sing|[Rr]unning|with|via) make (?!sure\b)([a-z][\w-]{1,40})\b"
)
_SCRIPT = re.compile(r"\b(?:npm|pnpm|yarn|bun) run ([a-z][\w:-]{0,40})(?![\w/])")


class Project:
    """One channel's project on this disk, as it is now."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """`folders` are the existing ones in which its sessions ran."""
        self._root = project_root(folders[0])
        within = (real for folder in folders if (real := folder.resolve()).is_relative_to(self._root))
        self._bases = list(dict.fromkeys([self._root, *within]))
        self._looks = 0

    @cached_property
    def is_there(self) -> bool:
        """True if the folder holds anything: an empty one is not mounted, or not checked out."""
        return self._root != Path(self._root.anchor) and any(name != ".git" for name in self._names(self._root))

    def missing(self, text: str) -> tuple[str, ...]:
        """Return the files and commands that a text names and the project does not have, as the text names them."""
        gone = [name for name in paths_in(text) if not self._has_path(name)]
        gone += [f"make {n}" for n in _named(_MAKE, text) if self._targets is not None and n not in self._targets]
        gone += [f"npm run {n}" for n in _named(_SCRIPT, text) if self._scripts is not None and n not in self._scripts]
        return tuple(dict.fromkeys(gone))

    def _has_path(self, name: str) -> bool:
        """Return True if a path exists, or cannot be checked: outside the folder, behind a link, after MOST_LOOKS."""
        parts = self._relative(name)
        if parts is None:
            return True
        return any(self._is_below(base, parts) for base in (*self._bases, *self._subfolders))

    def _relative(self, name: str) -> tuple[str, ...] | None:
        if not name.startswith("/"):
            return tuple(part for part in name.split("/") if part)
        full = Path(name)
        return full.relative_to(self._root).parts or None if full.is_relative_to(self._root) else None

    def _is_below(self, base: Path, parts: Sequence[str]) -> bool:
        place = str(base)
        for part in parts:
            self._looks += 1
            place = f"{place}/{part}"
            if self._looks > MOST_LOOKS:
                return True
            try:
                mode = os.lstat(place).st_mode
            except (FileNotFoundError, NotADirectoryError):
                return False
            except (OSError, ValueError):
                return True
            if stat.S_ISLNK(mode):
                return True
        return True

    @cached_property
    def _subfolders(self) -> list[Path]:
        """The folders within the project: a person who works in one names files from there."""
        return [folder for name in self._names(self._root) if not (folder := self._root / name).is_symlink()]

    def _names(self, folder: Path) -> list[str]:
        try:
            with os.scandir(folder) as scan:
                return sorted(entry.name for entry, _ in zip(scan, range(MOST_SUBFOLDERS), strict=False))
        except OSError:
            return []

    @cached_property
    def _targets(self) -> set[str] | None:
        """The targets that the makefiles name; None without one, or if targets may come from elsewhere."""
        texts = [text for base in self._bases for name in _MAKEFILES if (text := _read(base / name)) is not None]
        if not texts or any(_UNKNOWABLE.search(text) for text in texts):
            return None
        return {target for text in texts for names in _TARGET.findall(text) for target in names.split()}

    @cached_property
    def _scripts(self) -> set[str] | None:
        found: set[str] = set()
        lists = [text for base in self._bases if (text := _read(base / "package.json")) is not None]
        for text in lists:
            try:
                scripts = json.loads(text).get("scripts", {})
            except (ValueError, AttributeError, RecursionError):
                return None
            found |= set(scripts) if isinstance(scripts, dict) else set()
        return found if lists else None


def paths_in(text: str) -> list[str]:
    """Return the files and folders that a text names with their folder or in backticks, so that they can be checked."""
    found = [name for name in _QUOTED.findall(text) if _PATH.fullmatch(name)]
    found = [name for name in found if name.endswith("/") or name.startswith("/") or _ENDS_AS_FILE.search(name)]
    found += [name for name in _BARE.findall(text) if _PATH.fullmatch(name)]
    return [name for name in dict.fromkeys(found) if not {".", ".."} & set(name.split("/"))]


def _named(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """Yield every group that matched, of every match of a pattern."""
    for match in pattern.finditer(text):
        yield from (name for name in match.groups() if name)


def _read(path: Path) -> str | None:
    """Read a small regular file that is no symbolic link; None for anything else."""
    try:
        data = beginning(path, LARGEST_LIST_BYTES + 1)
    except OSError:
        return None
    return data.decode("utf-8", "replace") if len(data) <= LARGEST_LIST_BYTES else None
