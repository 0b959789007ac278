"""The channel of a folder: its project where it is in a git repository, else the folder itself.

Clones of one remote are one project, on this machine and on others of its person: the channel of the first clone that
something was kept in is that of the others, if they have no memories of their own yet. A clone that has some keeps them
in its own channel, and each of the two channels is read with the other.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path, PureWindowsPath

from .model import ALL_CHANNELS, GLOBAL_CHANNEL, NotFound
from .redaction import redact
from .vault.disk import beginning

# Of a file of git: a path, or the configuration of a repository.
_HASH_DIGITS = 6
_MAX_NAME = 60  # as long as a slug, so that a channel can be part of a file name
_NAMES_IN_MIND = 1024
MOST_BYTES = 2**16

_WORKTREE = re.compile(r"^[ \t]*worktree[ \t]*=[ \t]*(\S.*)$", re.MULTILINE)
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_SECTION = re.compile(r"\[(?P<name>[^\]]*)\]")
_URL = re.compile(r"(?:(?P<scheme>[a-z+]+)://)?(?:[^@/\s]*@)?(?P<place>[^\s?#]+)")
# Where programs put the worktrees of a repository, within it.
_WORKTREES = frozenset({".worktrees", "worktrees"})


_HASH = re.compile(rf"-[0-9a-f]{{{_HASH_DIGITS}}}\Z")
_OF_REPOSITORY = re.compile(rf"[A-Za-z0-9._-]+-[0-9a-f]{{{_HASH_DIGITS}}}")
_REMOTE_DIGITS = 32
_REMOTE = re.compile(rf"[0-9a-f]{{{_REMOTE_DIGITS}}}")


def project_name(channel: str, among: Collection[str] = ()) -> str:
    """Return the name of a channel's project; with the digits of its git folder, if one of the others has that name."""
    name = _HASH.sub("", channel)
    return channel if any(other != channel and _HASH.sub("", other) == name for other in among) else name


class Projects:
    """The channels of known projects. A process has one set of them, since folders are named in all its parts."""

    def __init__(self) -> None:
        self.of_remotes: Mapping[str, Sequence[str]] = {}
        """The channels of each remote, by its hash: first that of clones without memories of their own."""
        self.remote_of: dict[str, str] = {}
        """The remote of each repository that was named here, by its channel; "" for one without."""
        self.apart: frozenset[Path] = frozenset()
        """The tops of worktrees and clones that are projects of their own."""
        self._named: frozenset[str] = frozenset()

    def know(
        self, of_remotes: Mapping[str, Sequence[str]], named: Collection[str], apart: Collection[Path] = ()
    ) -> None:
        """Take over the channels of an opened store: of remotes, and all that have memories."""
        self.of_remotes = of_remotes
        self.remote_of = {}
        self._named = frozenset(named)
        self.apart = frozenset(path.expanduser().resolve() for path in apart)

    def channel_of(self, own: str, common_dir: Path) -> str:
        """Return the channel of a repository: its own if that has memories, else the first of its remote."""
        remote = _remote_of(common_dir)
        known = self.of_remotes.get(remote, ())
        channel = known[0] if known and own not in self._named else own
        self.remote_of[channel] = remote
        return channel

    def clones_of(self, channel: str) -> Sequence[str]:
        """Return the other channels of the remotes of a repository's channel."""
        own = self.remote_of.get(channel)
        of_each = (some for remote, some in self.of_remotes.items() if remote == own or channel in some)
        return [other for other in dict.fromkeys(chain.from_iterable(of_each)) if other != channel]

    def own_of(self, channels: Collection[str]) -> str | None:
        """Return this machine's own of the channels of one remote: that which was linked first; None for others."""
        of_one = next((some for some in self.of_remotes.values() if some and {*channels} <= {*some}), ())
        return next((channel for channel in of_one if channel in channels), None)


_PROJECTS = Projects()


def know_projects(
    of_remotes: Mapping[str, Sequence[str]], named: Collection[str], apart: Collection[Path] = ()
) -> None:
    """Name folders from now on by the channels of an opened store."""
    _PROJECTS.know(of_remotes, named, apart)


def know_clones(of_remotes: Mapping[str, Sequence[str]]) -> None:
    """Name the clones of remotes from now on by these channels."""
    _PROJECTS.of_remotes = of_remotes


def remote_of_channel(channel: str, folder: Path | None = None) -> str:
    """Return the hash of the remote of a repository's channel, "" for none; `folder` may be one of the repository."""
    if folder is not None and channel not in _PROJECTS.remote_of:
        channel_of_folder(folder)
    return _PROJECTS.remote_of.get(channel, "")


def clones_of(channel: str) -> Sequence[str]:
    """Return the channels of other clones of a repository's remote, on this machine or another."""
    return _PROJECTS.clones_of(channel)


def own_of_clones(channels: Collection[str]) -> str | None:
    """Return this machine's own of the channels that are known to be one project; None for those of several."""
    return _PROJECTS.own_of(channels)


def is_link(remote: str, channel: str) -> bool:
    """Return True for a possible hash of a remote and channel of a repository."""
    return bool(_REMOTE.fullmatch(remote) and _OF_REPOSITORY.fullmatch(channel))


def channel_of_folder(path: Path) -> str:
    """Name the channel of a working directory, `NAME-` and 6 hex digits.

    Within a git repository that exists: the repository's name and the hash of its git common dir, so that all its
    subfolders and worktrees share one channel, or the channel of another clone of its remote. Elsewhere, and for a
    folder that is not on this machine: the folder's name and the hash of its path, without a worktree's part of it.
    Reads the file system, starts no process.
    """
    if not path.is_absolute():  # another system's path, from a transcript: not relative to this folder
        return _channel(PureWindowsPath(path).name, path)
    try:
        folder = path.resolve()
    except (OSError, ValueError, RuntimeError):  # a NUL in it, a loop of links
        return _channel(path.name, path)
    found = repository_of(folder)
    if found is None:
        # The worktree of a transcript from another machine, or one that was removed.
        folder = folder if os.access(folder, os.F_OK) else _without_worktree(folder)
        return _channel(folder.name, folder)
    top, common_dir = found
    if top in _PROJECTS.apart:
        return channel_apart(top)
    named = common_dir.parent if common_dir.name == ".git" else common_dir
    return _PROJECTS.channel_of(_channel(named.name.removesuffix(".git"), common_dir), common_dir)


def channel_apart(top: Path) -> str:
    """Return the channel of a worktree or clone that is a project of its own."""
    return _channel(top.name, top)


def _remote_of(common_dir: Path) -> str:
    """Return the hash by which the remote of a repository is known, "" without one."""
    try:
        lines = _small_text(common_dir / "config").splitlines()
    except (OSError, ValueError):
        return ""
    section = ""
    for line in map(str.strip, lines):
        if match := _SECTION.match(line):
            section = match["name"]
        key, _, value = line.partition("=")
        if section == 'remote "origin"' and key.strip() == "url":
            return _hash_of_remote(value.strip().strip('"'))
    return ""


def _hash_of_remote(url: str) -> str:
    """Hash the project of a remote, "" for none."""
    project = project_of_remote(url)
    return hashlib.sha256(project.encode("utf-8", "backslashreplace")).hexdigest()[:_REMOTE_DIGITS] if project else ""


def project_of_remote(url: str) -> str:
    """Return a remote's address without its scheme and user: `git@host:a/b.git` and `https://host/a/b` are one.

    "" for one that means another place on another machine.
    """
    match = _URL.fullmatch(url)
    if match is None or url.startswith("."):
        return ""
    place = match["place"].removesuffix("/").removesuffix(".git")
    if match["scheme"] is None and not place.startswith("/"):
        place = place.replace(":", "/", 1)
    return place.lower()


def _without_worktree(folder: Path) -> Path:
    """Return the repository's folder for a path within its worktrees: `cli/.worktrees/2`, `cli/.claude/worktrees/x`."""
    for place, part in enumerate(folder.parts[2:], 2):
        if part in _WORKTREES and (part != "worktrees" or folder.parts[place - 1].startswith(".")):
            parts = folder.parts[: place if part != "worktrees" else place - 1]
            return Path(*parts)
    return folder


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


# ---- namespaces: parts of a channel, and channels that are read alone

WITHIN, ALONE, OF_USER, OF_SESSION = "/", "=", "@", "~"
_LONGEST_SESSION, _SESSION_DIGITS = 64, 16

TEAM = f"{WITHIN}+team"
"""The end of the channel in which the words of a project's colleagues wait: nothing reads it unasked."""


def team_of(channel: str) -> str:
    """Return the channel in which a project's colleagues wait; "" for one that is of no project."""
    project = channel.partition(WITHIN)[0]
    return "" if channel.startswith((GLOBAL_CHANNEL, ALONE)) or project == ALL_CHANNELS else f"{project}{TEAM}"


def channels_in_reach(channel: str, session: str | None = None) -> tuple[str, ...]:
    """Return the channels that are read from one: itself, those that it lies within, and the global one.

    `shop/spike` reads what `shop` has, and what is kept there is not `shop`'s. `shop/@ana` is a user's part of it, from
    which their part of the global channel is read too; `shop/~S` is a session's part, which that `session` reads alone.
    A name that begins with `=` is read alone. Where other clones of a project have channels of their own, the same
    parts of these are read too.
    """
    within = enclosing(channel)
    clones = [other for one in within for other in of_one_project(one)[1:]]
    own = [f"{GLOBAL_CHANNEL}{WITHIN}{part}" for part in channel.split(WITHIN)[1:] if part.startswith(OF_USER)]
    reach = within if channel.startswith(ALONE) else tuple(dict.fromkeys((*within, *clones, *own, GLOBAL_CHANNEL)))
    return reach if session is None else (*(channel_of_session(one, session) for one in reach), *reach)


def of_one_project(channel: str) -> tuple[str, ...]:
    """Return a channel, and the same part of its project in other clones, each with memories of all of them."""
    project, within, part = channel.partition(WITHIN)
    return channel, *(f"{clone}{within}{part}" for clone in clones_of(project))


def enclosing(channel: str) -> tuple[str, ...]:
    """Return a channel and those that it lies within, the widest last."""
    parts = channel.split(WITHIN)
    return tuple(WITHIN.join(parts[:end]) for end in range(len(parts), 0, -1))


def channel_of_session(channel: str, session: str) -> str:
    """Return a session's part of a channel; the channel itself where it is in that part already."""
    name = session.replace("%", "%25").replace(WITHIN, "%2F")
    if len(name) > _LONGEST_SESSION:
        name = hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:_SESSION_DIGITS]
    part = OF_SESSION + name
    return channel if part in channel.split(WITHIN)[1:] else f"{channel}{WITHIN}{part}"


def is_of_session(channel: str) -> bool:
    """Return True for a session's part of a channel, which ends with it."""
    return any(part.startswith(OF_SESSION) for part in channel.split(WITHIN)[1:])


def is_of_channel(channel: str, named: str) -> bool:
    """Return True for a channel itself and for the parts of its sessions."""
    return channel == named or (is_of_session(channel) and channel.rpartition(f"{WITHIN}{OF_SESSION}")[0] == named)


def channel_of_user(channel: str, user: str) -> str:
    """Return a user's part of a channel; the channel itself where it is in that part already."""
    part = part_of_user(user)
    return channel if part in channel.split(WITHIN)[1:] else f"{channel}{WITHIN}{part}"


def part_of_user(user: str) -> str:
    """Return the name of a user's part of any channel, or space of documents: Ana and ana are one user."""
    return OF_USER + user.casefold().replace("%", "%25").replace(WITHIN, "%2F")


def user_part(channel: str) -> str:
    """Return the part of a channel's name that is a user's, "" for a channel of all."""
    return next((part for part in channel.split(WITHIN)[1:] if part.startswith(OF_USER)), "")


def is_of_user(user: str, channel: str) -> bool:
    """Return True for a channel in a user's own part: shared ones are the owner's to change."""
    return bool(user_part(channel)) and may_read(user, channel)


def may_read(user: str, channel: str) -> bool:
    """Return True unless a channel is, or lies in, another user's part."""
    return all(part == part_of_user(user) for part in channel.split(WITHIN)[1:] if part.startswith(OF_USER))


def not_this_users(session: str) -> NotFound:
    """Return the error for a session in another user's part, in the words for an unknown one."""
    return NotFound(f"there is no session {session!r} of this user's", hint="Give it another id.")
