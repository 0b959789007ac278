"""Segments in git: batches of entries as commits of our own bare repository, and their way to the remote and back.

A batch is a commit whose tree holds one file, `entries`, and whose parent is the batch before. A segment is the ref
`refs/dreamd/MACHINE/CHANNEL`; those of others are fetched to `refs/from/…`. No work tree takes part, and no repository
of a person's. A ref moves last: a crash before that leaves an object that nothing names.

The program `git` does all that: with it come the person's own ssh, proxies and helpers for passwords. A Python library
in its place would know none of these.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import re
import shutil
import subprocess
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from .. import HintedError

OURS: Final = "refs/dreamd/"
OF_TEAMS: Final = "refs/dreamd/team/"
"""Segments of another kind, which a remote may have beside those of machines."""

THEIRS: Final = "refs/from/"
FILE: Final = "entries"

LOCAL_WITHIN_S: Final = 120.0
REMOTE_WITHIN_S: Final = 300.0

LOCK_OLD_S: Final = 60.0
"""The age from which a lock file is one of a git that was killed: git holds them for milliseconds."""

LOCKS_HELD: Final = 3
"""The most locks that one git holds: that of a ref, of the packed refs, and their new file."""

LARGEST_BATCH: Final = 256 * 2**20
"""A larger file of a remote is not read."""

_HASH = re.compile(r"[0-9a-f]{40,64}")
_LOCK = re.compile(r"Unable to create '([^'\n]+\.lock)': File exists")
_DAMAGED = re.compile(r"corrupt|loose object|header for|bad object|inflate|missing (?:blob|tree|commit)|unable to read")
_CREDENTIALS = re.compile(r"(://)[^/@\s]+@")


class SyncError(HintedError):
    """The sync cannot go on; the message is a sentence."""


class RemoteAway(SyncError):
    """The remote does not answer, or not as one; that passes."""


class Contended(SyncError):
    """Another machine wrote a ref at the same moment; the next sync sees it."""


def _age() -> Any:
    """Return the module of age, which has no types; it is loaded when it is needed."""
    import pyrage

    return pyrage


class Sealer:
    """Packs batches, and encrypts them with an age key where there is one."""

    def __init__(self, key: str | None) -> None:
        self._key = key

    @staticmethod
    def new_key() -> str:
        """Return a new secret key."""
        return str(_age().x25519.Identity.generate())

    @staticmethod
    def checked(text: str) -> str:
        """Return the key in a file's text. Raises SyncError where there is none."""
        age = _age()
        for line in map(str.strip, text.splitlines()):
            if line.startswith("AGE-SECRET-KEY-"):
                try:
                    return str(age.x25519.Identity.from_str(line))
                except age.IdentityError as error:
                    raise SyncError("That key is not whole.", "Copy the whole line AGE-SECRET-KEY-…") from error
        raise SyncError("There is no key in that file.", "It is one line, AGE-SECRET-KEY-…")

    @property
    def is_encrypting(self) -> bool:
        """True where all that leaves the machine is encrypted."""
        return self._key is not None

    def seal(self, lines: bytes) -> bytes:
        """Return the file of a batch."""
        if self._key is None:
            return lines
        age = _age()
        return bytes(age.encrypt(zlib.compress(lines, 6), [age.x25519.Identity.from_str(self._key).to_public()]))

    def open(self, sealed: bytes) -> bytes:
        """Return the lines of a batch. Raises SyncError for one that is not of this key, or is damaged."""
        if self._key is None:
            if sealed.startswith(b"age-encryption.org/"):
                raise SyncError("it is encrypted, and there is no key here")
            return sealed
        age = _age()
        try:
            return zlib.decompress(age.decrypt(sealed, [age.x25519.Identity.from_str(self._key)]))
        except (age.DecryptError, zlib.error, ValueError) as error:
            raise SyncError("it cannot be decrypted with the key that is here") from error

    def name_of(self, channel: str) -> str:
        """Return the last part of a segment's ref: with a key, nothing that tells the channel."""
        if self._key is not None:
            return hmac.new(self._key.encode(), channel.encode(), hashlib.sha256).hexdigest()[:16]
        safe = re.sub(r"[^A-Za-z0-9_-]+", "-", channel)[:60]
        return safe if safe == channel else f"{safe}-{hashlib.sha256(channel.encode()).hexdigest()[:8]}"


class Batch(NamedTuple):
    """One commit of a segment, and its file; None for one without."""

    commit: str
    sealed: bytes | None


class Repository:
    """The daemon's own bare repository, and its remote; or, not `is_ours`, that of a project. One thread at a time."""

    def __init__(self, folder: Path, remote: str, *, is_ours: bool = True) -> None:
        self._folder = folder
        self._is_ours = is_ours
        self._refs: dict[str, str] | None = None
        self.remote = remote

    # ---- here

    def prepare(self) -> None:
        """Make the repository, where there is none."""
        if shutil.which("git") is None:
            raise SyncError("git is not installed.", "Install git; the sync goes through it.")
        if not (self._folder / "HEAD").exists():
            self._make(self._folder)

    def _make(self, folder: Path) -> None:
        """Make a repository beside its place first: one whose making was killed halfway would be none for ever."""
        beside = folder.with_name(f"{folder.name}.new")
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True, mode=0o700)
        self._git("init", "--bare", "--quiet", str(beside))
        beside.rename(folder)
        self._refs = None

    def tips(self, prefix: str) -> dict[str, str]:
        """Return the refs below a prefix with their commits. Those of our own repository change through this alone."""
        if not self._is_ours:
            return _pairs(self._git("for-each-ref", "--format=%(refname) %(objectname)", prefix).decode())
        if self._refs is None:
            self._refs = _pairs(self._git("for-each-ref", "--format=%(refname) %(objectname)").decode())
        return {ref: commit for ref, commit in self._refs.items() if ref.startswith(prefix)}

    def times(self, prefix: str) -> dict[str, str]:
        """Return the refs below a prefix with the times of their last batches."""
        found = self._git("for-each-ref", "--format=%(refname) %(committerdate:iso-strict)", prefix).decode()
        return _pairs(found)

    def append(self, parent: str | None, sealed: bytes, author: tuple[str, str] | None = None) -> str:
        """Write a batch after another, by an author with their address, and return its commit; no ref names it yet."""
        blob = self._git("hash-object", "-w", "--stdin", given=sealed).decode().strip()
        tree = self._git("mktree", given=f"100644 blob {blob}\t{FILE}\n".encode()).decode().strip()
        parents = ("-p", parent) if parent else ()
        written = _call((*self._here, "commit-tree", tree, *parents, "-m", FILE), b"", LOCAL_WITHIN_S, author)
        return _checked(written).decode().strip()

    def point(self, ref: str, commit: str | None) -> None:
        """Have a ref name a commit; None: remove it."""
        self._refs = None
        self._git("update-ref", *((ref, commit) if commit else ("-d", ref)))

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Return True if a commit is another, or lies before it; False also where it is not there."""
        return self._ask("merge-base", "--is-ancestor", older, newer).returncode == 0

    def batches(self, tip: str, after: str | None) -> Iterator[Batch]:
        """Yield the batches of a segment up to `tip`, the oldest first, from the one that follows `after`."""
        wanted = (tip, f"^{after}") if after else (tip,)
        commits = self._git("rev-list", "--reverse", *wanted).decode().split()
        for start in range(0, len(commits), 64):
            some = commits[start : start + 64]
            yield from map(Batch, some, self._files(some))

    def batch(self, commit: str) -> Batch:
        """Return one batch; without a file where it is not there."""
        return Batch(commit, next(iter(self._files([commit]))))

    def _files(self, commits: Sequence[str]) -> Iterator[bytes | None]:
        asked = "".join(f"{commit}:{FILE}\n" for commit in commits).encode()
        out, position = self._git("cat-file", "--batch", given=asked), 0
        for _ in commits:
            end = out.index(b"\n", position)
            head = out[position:end].split()
            position = end + 1
            if len(head) != 3 or head[1] != b"blob":
                yield None
                continue
            size = int(head[2])
            yield out[position : position + size] if size <= LARGEST_BATCH else None
            position += size + 1

    def size_of(self, commit: str) -> int:
        """Return the bytes of a batch's file, 0 for one without, before it is read."""
        asked = self._ask("cat-file", "-s", f"{commit}:{FILE}")
        return int(asked.stdout) if asked.returncode == 0 else 0

    def author_of(self, commit: str) -> tuple[str, str]:
        """Return the name and the address of a batch's author."""
        found = self._git("log", "-1", "--no-show-signature", "--format=%an%x00%ae", commit)
        name, _, email = found.decode("utf-8", "replace").rstrip("\n").partition("\0")
        return name, email

    def configured(self, folder: Path, key: str) -> str:
        """Return a setting of git as it holds in a folder of this repository, "" without one."""
        asked = _call(("-C", str(folder), "config", "--get", key), b"", LOCAL_WITHIN_S)
        return asked.stdout.decode("utf-8", "replace").strip()

    def remotes(self) -> list[str]:
        """Return the names of the repository's own remotes."""
        return self._git("remote").decode("utf-8", "replace").split()

    def address_of(self, name: str) -> str:
        """Return the address of one of them."""
        return self._git("remote", "get-url", name).decode("utf-8", "replace").strip()

    def prune(self) -> None:
        """Remove every object that no ref leads to."""
        _prune(self._git)

    # ---- there

    def make_folder(self) -> None:
        """Make the remote, where it is a folder on a disk that is not there yet."""
        folder = self._remote_folder()
        if folder is not None and not folder.exists() and folder.parent.is_dir():
            self._make(folder)

    def _remote_folder(self) -> Path | None:
        return Path(self.remote).expanduser() if is_folder_of_remote(self.remote) else None

    def remote_tips(self) -> dict[str, str]:
        """Return the refs of all machines as the remote has them now. Raises RemoteAway."""
        found = self._there("ls-remote", "--quiet", self._url(), f"{OURS}*").decode()
        tips = {ref: commit for commit, ref in (line.split("\t", 1) for line in found.splitlines())}
        return {ref: commit for ref, commit in tips.items() if not ref.startswith(OF_TEAMS)}

    def fetch(self) -> None:
        """Fetch the segments of all machines; refs that the remote lacks stay as they were. Raises RemoteAway."""
        self._refs, refs = None, (f"+{OURS}*:{THEIRS}*", f"^{OF_TEAMS}*")
        self._there("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", self._url(), *refs)

    def fetch_refs(self, prefix: str, to: str) -> None:
        """Fetch the refs below a prefix, and drop those that the remote has no more. Raises RemoteAway."""
        names = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--prune")
        self._there("fetch", *names, self._url(), f"+{prefix}*:{to}*")

    def push(self, wanted: Mapping[str, tuple[str, str | None]]) -> None:
        """Push commits to refs, each only if the remote has the expected one there (None: none).

        Raises RemoteAway, and Contended where the remote has something else.
        """
        leases = [f"--force-with-lease={ref}:{expected or ''}" for ref, (_, expected) in wanted.items()]
        refs = [f"{commit}:{ref}" for ref, (commit, _) in wanted.items()]
        if refs:
            self._there("push", "--quiet", "--no-verify", *leases, self._url(), *refs)

    def prune_remote(self) -> bool:
        """Remove unnamed objects from a remote that is a folder of segments alone; False for any other."""
        folder = self._remote_folder()
        if folder is None:
            return False

        def run(*arguments: str) -> bytes:
            return _checked(_call(("--git-dir", str(folder), *arguments), b"", LOCAL_WITHIN_S))

        others = [
            ref for ref in run("for-each-ref", "--format=%(refname)").decode().split() if not ref.startswith(OURS)
        ]
        if not others:
            _prune(run)
        return not others

    def _url(self) -> str:
        folder = self._remote_folder()
        return str(folder.absolute()) if folder is not None else self.remote

    def _there(self, *arguments: str) -> bytes:
        try:
            done = self._ask(*arguments, within_s=REMOTE_WITHIN_S)
        except subprocess.TimeoutExpired as error:
            raise RemoteAway(f"The remote did not answer within {REMOTE_WITHIN_S:.0f} s.") from error
        if done.returncode:
            said = without_credentials(done.stderr.decode("utf-8", "replace")).strip()
            if "stale info" in said or "fetch first" in said or "cannot lock ref" in said:
                raise Contended("Another machine wrote at the same moment.", "The next sync sees it.")
            raise RemoteAway(f"The remote cannot be used: {_reason(said)}.{self._advice(said)}", "It is tried again.")
        return done.stdout

    def _advice(self, said: str) -> str:
        """Return what a person can do about a folder that is no repository any more, or a damaged one."""
        folder = self._remote_folder()
        if folder is None or not (folder.exists() or folder.parent.is_dir()):
            return " Plug its disk in." if folder is not None else ""
        again = f"`git init --bare {folder}` makes an empty one, which the machines fill again."
        if not (folder / "HEAD").exists():
            return f" If it is on another disk, plug that in; if it is lost, {again}"
        return f" It is damaged: move it away; {again}" if _DAMAGED.search(said) else ""

    # ---- the program

    @property
    def _here(self) -> tuple[str, str]:
        return "--git-dir", str(self._folder)

    def _ask(
        self, *arguments: str, given: bytes = b"", within_s: float = LOCAL_WITHIN_S
    ) -> subprocess.CompletedProcess[bytes]:
        """Call git; again where a lock was in its way that a killed git has left, which may have held several."""
        done = _call((*self._here, *arguments), given, within_s)
        for _ in range(LOCKS_HELD):
            if not done.returncode or not self._remove_old_locks(done.stderr.decode("utf-8", "replace")):
                break
            done = _call((*self._here, *arguments), given, within_s)
        return done

    def _remove_old_locks(self, said: str) -> bool:
        """Remove the locks of a killed git that git has named, in our repository or a folder that is the remote."""
        ours, is_removed = [one for one in (self._folder, self._remote_folder()) if one is not None], False
        if not self._is_ours:  # a lock of a person's repository is one of their own git
            return False
        for path in map(Path, _LOCK.findall(said)):
            if any(one.resolve() in path.resolve().parents for one in ours):
                with contextlib.suppress(FileNotFoundError):
                    if time.time() - path.stat().st_mtime >= LOCK_OLD_S:
                        path.unlink()
                is_removed = is_removed or not path.exists()
        return is_removed

    def _git(self, *arguments: str, given: bytes = b"") -> bytes:
        return _checked(self._ask(*arguments, given=given))


def without_credentials(text: str) -> str:
    """Return a text, or the address of a remote, without the name and the password in it."""
    return _CREDENTIALS.sub(r"\1", text)


def is_folder_of_remote(remote: str) -> bool:
    """Return True for a remote that is a folder on a disk."""
    return "://" not in remote and not re.match(r"^[^/]+:", remote)


def _pairs(lines: str) -> dict[str, str]:
    return {ref: value for ref, _, value in (line.partition(" ") for line in lines.splitlines())}


def machine_of(ref: str) -> str:
    """Return the machine whose segment a ref is."""
    return ref.removeprefix(OURS).removeprefix(THEIRS).partition("/")[0]


def _reason(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    told = next((line for line in lines if not line.startswith(("warning:", "hint:", "remote:"))), "git says no more")
    return told.removeprefix("fatal: ").removeprefix("error: ").rstrip(".")[:300]


def _prune(run: Callable[..., bytes]) -> None:
    run("reflog", "expire", "--expire=now", "--all")
    run("repack", "-a", "-d", "--quiet")
    run("prune", "--expire=now")


def _call(
    arguments: Collection[str], given: bytes, within_s: float, author: tuple[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    name, email = author or ("dreamd", "dreamd@localhost")
    own = {"GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": os.environ.get("GIT_CONFIG_NOSYSTEM", "0"), "LC_ALL": "C"}
    own |= {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": email}
    own |= {"GIT_COMMITTER_NAME": name, "GIT_COMMITTER_EMAIL": email}
    own |= {"GIT_SSH_COMMAND": os.environ.get("GIT_SSH_COMMAND", "ssh -o BatchMode=yes -o ConnectTimeout=10")}
    # The daemon may have been started inside a hook of git, whose repository these would name.
    rest = {key: value for key, value in os.environ.items() if key not in _OF_A_REPOSITORY}
    settings = ("-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", "-c", "maintenance.auto=false")
    command = ("git", *settings, *arguments)
    return subprocess.run(command, input=given, capture_output=True, timeout=within_s, env=rest | own, check=False)


_OF_A_REPOSITORY: Final = frozenset(
    {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX"}
)


def _checked(done: subprocess.CompletedProcess[bytes]) -> bytes:
    if done.returncode:
        said = without_credentials(done.stderr.decode("utf-8", "replace"))
        raise SyncError(f"git did not do its part: {_reason(said)}.")
    return done.stdout
