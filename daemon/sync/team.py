"""The team of a project: a segment of each author in the project's own git repository, in plain text.

`refs/dreamd/team/AUTHOR` is written by its author alone; those of a remote are fetched to `refs/dreamd/colleagues/…`.
A commit's tree holds one file, `entries`, with every line that its author shares, so `git show REF:entries` reads it.
What was withdrawn leaves a line without its text, and the segment begins anew, so that no commit of it has the text.

Objects and refs are all that is written: no work tree, no index, no configuration. An author is as sure as git is: who
may push to the project's remote can write there as anyone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from .entries import SyncEntry, read_lines
from .segments import OF_TEAMS, Repository, SyncError, is_folder_of_remote

FETCHED: Final = "refs/dreamd/colleagues/"

MOST_AUTHORS, MOST_BYTES = 100, 4 * 2**20
"""The segments of a project that are read, and the largest file of one."""

_NOT_IN_A_REF: Final = re.compile(r"[^a-z0-9]+")
_NAME_CHARS: Final = 40

_NOT_OF_AN_AUTHOR: Final = re.compile(r"[<>\x00-\x1f\x7f]")
_STRIPPED: Final = " .,:;\"'\\"
"""Characters that git takes out of an author, and those at the ends of one."""


@dataclass(frozen=True, slots=True)
class Author:
    """A person by their name and address in git. `key` is the last part of their segment's ref."""

    name: str
    email: str

    @property
    def key(self) -> str:
        """The name that a ref can have, and digits of the address, which tell two of one name apart."""
        name = _NOT_IN_A_REF.sub("-", self.name.casefold()).strip("-")[:_NAME_CHARS] or "author"
        return f"{name}-{hashlib.sha256(self.email.strip().casefold().encode()).hexdigest()[:6]}"

    @property
    def ref(self) -> str:
        """The segment that they alone write."""
        return f"{OF_TEAMS}{self.key}"

    def __str__(self) -> str:
        return f"{self.name} <{self.email}>"


@dataclass(frozen=True, slots=True)
class TeamSegment:
    """The entries of one author, and why others of it are left out."""

    ref: str
    author: Author
    entries: Sequence[SyncEntry]
    broken: Sequence[str] = ()


class TeamRepository:
    """The team's segments in the repository of a project, which lies at `top`. One thread at a time."""

    def __init__(self, top: Path, common_dir: Path) -> None:
        self._top = top
        self._git = Repository(common_dir, "", is_ours=False)
        self.author = self._read_author()

    def _read_author(self) -> Author:
        told = (self._git.configured(self._top, key) for key in ("user.name", "user.email"))
        name, email = (_NOT_OF_AN_AUTHOR.sub("", one).strip(_STRIPPED) for one in told)
        if not name or not email:
            raise SyncError("This repository does not say who you are.", "`git config user.name` and `user.email` do.")
        return Author(name, email)

    # ---- one's own

    def own(self) -> list[SyncEntry]:
        """Return all that its author shares from here."""
        tip = self._git.tips(self.author.ref).get(self.author.ref)
        return [] if tip is None else list(self._read(self.author.ref, tip).entries)

    def keep(self, entries: Iterable[SyncEntry], now: datetime, *, anew: bool = False) -> None:
        """Write one's own segment with these entries; `anew`: no commit before it stays a part of it."""
        ref = self.author.ref
        tip = None if anew else self._git.tips(ref).get(ref)
        lines = b"".join(entry.line(number, entry.at or now.isoformat()) for number, entry in enumerate(entries, 1))
        if len(lines) > MOST_BYTES:
            raise SyncError(f"What you share has more than {MOST_BYTES // 2**20} MiB.", "Withdraw some of it.")
        self._git.point(ref, self._git.append(tip, lines, (self.author.name, self.author.email)))

    # ---- the remote

    def remote(self, named: str | None) -> str:
        """Return the address of a remote of the project: the one named, else `origin`, else the only one."""
        names = self._git.remotes()
        wanted = named or ("origin" if "origin" in names else names[0] if len(names) == 1 else "")
        if wanted not in names:
            raise SyncError(f"There is no remote {wanted!r} here." if wanted else "This repository has no remote.", "")
        url = self._git.address_of(wanted)
        return str(self._top / Path(url).expanduser()) if is_folder_of_remote(url) else url

    def fetch(self, url: str) -> None:
        """Fetch the segments that the remote has; those that it lacks by now go from here. Raises RemoteAway."""
        self._git.remote = url
        self._git.fetch_refs(OF_TEAMS, FETCHED)

    def push(self) -> bool:
        """Push one's own segment, if the remote has the one that was fetched; False where it has the same.

        Raises RemoteAway, and Contended.
        """
        tip = self._git.tips(self.author.ref).get(self.author.ref)
        there = self._git.tips(FETCHED).get(f"{FETCHED}{self.author.key}")
        if tip is None or tip == there:
            return False
        self._git.push({self.author.ref: (tip, there)})
        self._git.point(f"{FETCHED}{self.author.key}", tip)
        return True

    def unknown(self) -> list[SyncEntry]:
        """Return entries that the remote has under this author's name, and that were not written here.

        A segment that is no author's of this name is pushed over.
        """
        ref = f"{FETCHED}{self.author.key}"
        tip = self._git.tips(ref).get(ref)
        if tip is None:
            return []
        own = self.own()
        known = {one.entry_id for one in own} | {str(one.body.get("of")) for one in own}
        try:
            return [one for one in self._read(self.author.ref, tip).entries if one.entry_id not in known]
        except SyncError:
            return []

    # ---- colleagues

    def colleagues(self) -> tuple[list[TeamSegment], list[str]]:
        """Return the segments of all others, and why some are left out."""
        found, refused = list[TeamSegment](), list[str]()
        tips = {
            ref: tip for ref, tip in sorted(self._git.tips(FETCHED).items()) if ref != f"{FETCHED}{self.author.key}"
        }
        for number, (ref, tip) in enumerate(tips.items()):
            if number >= MOST_AUTHORS:
                refused.append(f"{len(tips) - MOST_AUTHORS} segments more than {MOST_AUTHORS} are not read")
                break
            try:
                segment = self._read(f"{OF_TEAMS}{ref.removeprefix(FETCHED)}", tip)
            except SyncError as error:
                refused.append(f"{ref.removeprefix(FETCHED)}: {error}")
                continue
            found.append(segment)
            refused += [f"{segment.author.name}: {reason}" for reason in segment.broken[:3]]
        return found, refused

    def _read(self, ref: str, tip: str) -> TeamSegment:
        """Read a segment. Raises SyncError for one that is too large, or not of the author whose name it has."""
        author = Author(*self._git.author_of(tip))
        if author.ref != ref:
            raise SyncError("its last commit is by another author than its name says")
        if (size := self._git.size_of(tip)) > MOST_BYTES:
            raise SyncError(f"it has {size:,} bytes, and {MOST_BYTES:,} are the most")
        read = list(read_lines(self._git.batch(tip).sealed or b""))
        entries = {one.entry_id: one for one in read if isinstance(one, SyncEntry)}
        broken = [one for one in read if isinstance(one, str)]
        broken += [f"entry {one.entry_id[:8]} claims a path" for one in entries.values() if one.path is not None]
        return TeamSegment(ref, author, [one for one in entries.values() if one.path is None], broken)


def without(entries: Collection[SyncEntry], entry_id: str) -> list[SyncEntry]:
    """Return the entries of a segment with one of them withdrawn: in its place a line that says so."""
    gone = SyncEntry({"kind": "withdrawn", "of": entry_id})
    return [*(one for one in entries if one.entry_id != entry_id), gone]


def united(own: Sequence[SyncEntry], others: Sequence[SyncEntry]) -> list[SyncEntry]:
    """Return the entries of one author on two machines, without the withdrawn ones of either."""
    every: Mapping[str, SyncEntry] = {one.entry_id: one for one in (*own, *others)}
    gone: set[Any] = {one.body.get("of") for one in every.values()}
    return [one for name, one in every.items() if name not in gone]
