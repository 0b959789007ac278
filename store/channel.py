"""The channel of a folder: its git repository where there is one, else the folder itself."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from functools import lru_cache
from pathlib import Path, PureWindowsPath

from .redaction import redact
from .vault.regular_files import beginning

# Of a file of git: a path, or the configuration of a repository.
_HASH_DIGITS = 6
_MAX_NAME = 60  # as long as a slug, so that a channel can be part of a file name
_NAMES_IN_MIND = 1024
MOST_BYTES = 2**16

_WORKTREE = re.compile(r"^[ \t]*worktree[ \t]*=[ \t]*(\S.*)$", re.MULTILINE)
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def channel_of_folder(path: Path) -> str:
    """Name the channel of a working directory, `NAME-` and 6 hex digits.

    Within a git repository that exists: the repository's name and the hash of its git common dir, so that all its
    subfolders and worktrees share one channel. Elsewhere, and for a folder that is not on this machine: the folder's
    name and the hash of its path. Reads the file system, starts no process.
    """
    if not path.is_absolute():  # another system's path, from a transcript: not relative to this folder
        return _channel(PureWindowsPath(path).name, path)
    try:
        folder = path.resolve()
    except (OSError, ValueError, RuntimeError):  # a NUL in it, a loop of links
        return _channel(path.name, path)
    found = repository_of(folder)
    if found is None:
        return _channel(folder.name, folder)
    _, common_dir = found
    named = common_dir.parent if common_dir.name == ".git" else common_dir
    return _channel(named.name.removesuffix(".git"), common_dir)


def is_in_repository(path: Path) -> bool:
    """Return True for a folder of this machine within a git repository."""
    try:
        return path.is_absolute() and repository_of(path.resolve()) is not None
    except (OSError, ValueError, RuntimeError):  # a NUL in it, a loop of links
        return False


def project_root(folder: Path) -> Path:
    """Return the top of the git repository or worktree of a working directory, else the directory itself."""
    folder = folder.resolve()
    found = repository_of(folder)
    return folder if found is None else found[0]


def checkouts(folder: Path) -> tuple[Path, Path]:
    """Return the top of the worktree of a working directory, and that of its repository's main one, if there is one."""
    folder = folder.resolve()
    found = repository_of(folder)
    if found is None:
        return folder, folder
    root, common_dir = found
    main = common_dir.parent
    return root, main if common_dir.name == ".git" and main.is_dir() else root


def repository_of(folder: Path) -> tuple[Path, Path] | None:
    """Return the top of the git repository or worktree of an absolute folder, and its git common dir."""
    for candidate in (folder, *folder.parents):
        try:
            git_dir = _git_dir(candidate / ".git")
        except (OSError, ValueError):
            continue  # unreadable or nonsense: git would not find a repository here either
        if git_dir is not None:
            return candidate, git_dir
    return None


def _channel(name: str, identity: Path) -> str:
    readable = _UNSAFE.sub("-", _without_secrets(name))[:_MAX_NAME].strip("-.") or "root"
    digest = hashlib.sha256(str(identity).encode("utf-8", "backslashreplace")).hexdigest()
    return f"{readable}-{digest[:_HASH_DIGITS]}"


@lru_cache(maxsize=_NAMES_IN_MIND)
def _without_secrets(name: str) -> str:
    """Return a folder's name with anything like a secret replaced; the hash of its path keeps it apart from others."""
    return redact(name).text


def _git_dir(entry: Path) -> Path | None:
    """Return the common dir of a `.git` entry: itself, or that of a worktree or submodule by the files that name it.

    A `.git` file came with its folder, which may be anybody's. So it is believed only where the repository that it
    names knows of it: a worktree is named in that repository's `worktrees/*/gitdir`, and a submodule in the `worktree`
    of its own configuration.
    """
    if not stat.S_ISREG(os.lstat(entry).st_mode):
        return _common_dir(entry) if (entry / "HEAD").is_file() else None
    word, _, target = _small_text(entry).partition(": ")
    if word != "gitdir":
        return None
    git_dir = (entry.parent / target).resolve()
    if not (git_dir / "HEAD").is_file() or entry.resolve() not in _named_back(git_dir):
        return None
    return _common_dir(git_dir)


def _common_dir(git_dir: Path) -> Path:
    """Return the git dir that a worktree shares with its repository; a repository is its own."""
    shared = git_dir / "commondir"
    if not shared.is_file():
        return git_dir
    common = (git_dir / _small_text(shared)).resolve()
    return common if git_dir.resolve().parent == common / "worktrees" else git_dir


def _named_back(git_dir: Path) -> list[Path]:
    """Return the `.git` files that a git dir says are its own."""
    names = []
    if (named := git_dir / "gitdir").is_file():  # of a worktree
        names.append(git_dir / _small_text(named))
    if (config := git_dir / "config").is_file() and (found := _WORKTREE.search(_small_text(config))):
        names.append(git_dir / found[1].strip().strip('"') / ".git")
    return [name.resolve() for name in names]


def _small_text(path: Path) -> str:
    """Return the text of a small regular file, or its beginning."""
    return beginning(path.resolve(), MOST_BYTES).decode("utf-8").strip()
