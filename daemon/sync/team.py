"""The team of a project: a segment of each author in the project's own git repository, in plain text.

`refs/dreamd/team/AUTHOR` is written by its author alone. A commit's tree holds one file, `entries`, with every line
that its author shares, so `git show REF:entries` reads it. What was withdrawn leaves a line without its text, and the
segment begins anew, so that no commit of it has the text. Objects and refs are all that is written: no work tree, no
index, no configuration. To which places its author released each entry stands beside it, in
`refs/dreamd/released/AUTHOR`, which stays here; a place gets no entry that was not released to it.

The segments of all lie on a `TeamRemote`, of which those of colleagues are brought into refs here:

| it is | an entry is | brought to | its author is |
|---|---|---|---|
| a remote of the repository | a line of `entries` | `refs/dreamd/colleagues/AUTHOR` | anyone who may push there |
| a Postgres | a row of the table `dreamd.team` | `refs/dreamd/signed-in/LOGIN/AUTHOR` | who signed in as LOGIN |

Of a Postgres no login adds or removes rows of another: policies of the table compare them with `session_user`. Names
and addresses are what git is told, and so what anyone says of themselves: they tell apart those who share a login.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import quote, unquote

from ...store import postgres_reason, read_dsn
from ...store.channel import project_of_remote
from ...store.model import StoreError
from .entries import SyncEntry, read_lines
from .segments import (
    OF_TEAMS,
    Contended,
    RemoteAway,
    Repository,
    SyncError,
    is_folder_of_remote,
    without_credentials,
)

if TYPE_CHECKING:
    import psycopg

FETCHED: Final = "refs/dreamd/colleagues/"
SIGNED_IN: Final = "refs/dreamd/signed-in/"
RELEASED: Final = "refs/dreamd/released/"

SETTING: Final = "dreamd.team"
"""The setting of git, of one clone or of all, that names the team's remote or the file with its DSN."""

PATHS: Final = ("/", "./", "../", "~")
"""The beginnings of such a file's path; no remote has one, so that no file of a clone passes for a remote."""

MOST_AUTHORS, MOST_BYTES = 100, 4 * 2**20
"""The segments of a project that are read, and the largest file of one."""

_NOT_IN_A_REF: Final = re.compile(r"[^a-z0-9]+")
_NAME_CHARS: Final = 40

_SENT, _RELEASED = "sent", "released"

_NOT_OF_AN_AUTHOR: Final = re.compile(r"[<>\x00-\x1f\x7f]")
_STRIPPED: Final = " .,:;\"'\\"
"""Characters that git takes out of an author, and those at the ends of one."""


@dataclass(frozen=True, slots=True)
class Author:
    """A person by their name and address in git, and the login by which a server knows them, "" where there is none.

    `key` is the last part of their segment's ref.
    """

    name: str
    email: str
    login: str = ""

    @classmethod
    def cleaned(cls, name: str, email: str, login: str = "") -> Author:
        """Return an author without the characters that git takes out, "" where nothing else is left."""
        name, email = (_NOT_OF_AN_AUTHOR.sub("", one).strip(_STRIPPED) for one in (name, email))
        return cls(name, email, login)

    @property
    def key(self) -> str:
        """The name that a ref can have, and digits of the address, which tell two of one name apart."""
        name = _NOT_IN_A_REF.sub("-", self.name.casefold()).strip("-")[:_NAME_CHARS] or "author"
        return f"{name}-{hashlib.sha256(self.email.strip().casefold().encode()).hexdigest()[:6]}"

    @property
    def ref(self) -> str:
        """The segment that they alone write."""
        return f"{OF_TEAMS}{_part_of_a_ref(self.login)}/{self.key}" if self.login else f"{OF_TEAMS}{self.key}"

    @property
    def title(self) -> str:
        """The name; where a server knows a login by another, that first, since it alone is sure."""
        login = _NOT_OF_AN_AUTHOR.sub("", self.login)
        return self.name if login.casefold() in ("", self.name.casefold()) else f"{login} as {self.name}"

    def __str__(self) -> str:
        return f"{self.title} <{self.email}>"


def _part_of_a_ref(login: str) -> str:
    """Return a login as one part of a ref, from which `unquote` has it again."""
    return quote(login, safe="").replace(".", "%2E").replace("~", "%7E")


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
        author = Author.cleaned(*(self._git.configured(self._top, key) for key in ("user.name", "user.email")))
        if not author.name or not author.email:
            raise SyncError("This repository does not say who you are.", "`git config user.name` and `user.email` do.")
        return author

    # ---- one's own

    def own(self) -> list[SyncEntry]:
        """Return all that its author shares from here."""
        tip = self._git.tips(self.author.ref).get(self.author.ref)
        return [] if tip is None else list(self._read(self.author.ref, tip).entries)

    def keep(self, entries: Iterable[SyncEntry], now: datetime, *, anew: bool = False) -> None:
        """Write one's own segment with these entries; `anew`: no commit before it stays a part of it."""
        ref = self.author.ref
        tip = None if anew else self._git.tips(ref).get(ref)
        lines = _lines(replace(entry, at=entry.at or now.isoformat()) for entry in entries)
        if len(lines) > MOST_BYTES:
            raise SyncError(f"What you share has more than {MOST_BYTES // 2**20} MiB.", "Withdraw some of it.")
        self._git.point(ref, self._append(tip, lines))

    def _append(self, parent: str | None, lines: bytes) -> str:
        return self._git.append(parent, lines, (self.author.name, self.author.email))

    # ---- the places of one's own

    def places(self) -> dict[str, dict[str, bool]]:
        """Return the places to which each entry was released, and True for those that are known to have it."""
        found: dict[str, dict[str, bool]] = {}
        for line in self._kept_places().decode("utf-8", "replace").splitlines():
            entry_id, _, rest = line.partition(" ")
            state, _, place = rest.partition(" ")
            found.setdefault(entry_id, {})[place] = state == _SENT
        return found

    def _kept_places(self) -> bytes:
        tip = self._git.tips(self._released).get(self._released)
        return (self._git.batch(tip).sealed or b"") if tip else b""

    def release(self, entry_ids: Iterable[str], place: str, *, is_there: bool = False) -> None:
        """Note that its author releases entries to a place, or that it has them."""
        places = self.places()
        for one in entry_ids:
            of = places.setdefault(one, {})
            of[place] = is_there or of.get(place, False)
        self._keep_places(places)

    def take_back(self, entry_id: str) -> None:
        """Forget to which places an entry was released."""
        self._keep_places({name: of for name, of in self.places().items() if name != entry_id})

    def _keep_places(self, places: Mapping[str, Mapping[str, bool]]) -> None:
        shared = {one.entry_id for one in self.own()}  # what another machine withdrew is released nowhere
        lines = sorted(
            f"{name} {_SENT if is_there else _RELEASED} {place}\n"
            for name in places.keys() & shared
            for place, is_there in places[name].items()
        )
        written = "".join(lines).encode()
        if written != self._kept_places():
            self._git.point(self._released, self._append(None, written))

    @property
    def _released(self) -> str:
        return f"{RELEASED}{self.author.key}"

    def unreleased(self, place: str) -> list[SyncEntry]:
        """Return one's own entries that were not released to a place."""
        places = self.places()
        return [one for one in self.own() if one.kind == "shared" and place not in places.get(one.entry_id, {})]

    # ---- the remote

    def remote(self, named: str | None) -> TeamRemote:
        """Return where the segments of all lie: the remote, or the Postgres of a DSN file, that is named.

        Unless one is `named`, that of the setting `dreamd.team`, else `origin`, else the only remote.
        """
        names = self._git.remotes()
        usual = "origin" if "origin" in names else names[0] if len(names) == 1 else ""
        wanted = named or self._git.configured(self._top, SETTING) or usual
        if wanted.startswith(PATHS):
            file = self._top / os.path.expanduser(wanted)  # noqa: PTH111  (an unknown user's home is no error)
            return PostgresRemote(self._git, file, project_of_remote(self._address_of(usual)) if usual else "")
        if wanted not in names:
            hint = f"A file that says where a Postgres is begins with {', '.join(PATHS)}." if wanted else ""
            raise SyncError(
                f"There is no remote {wanted!r} here." if wanted else "This repository has no remote.", hint
            )
        return GitRemote(self._git, self._address_of(wanted))

    def _address_of(self, name: str) -> str:
        url = self._git.address_of(name)
        return str((self._top / Path(url).expanduser()).resolve()) if is_folder_of_remote(url) else url

    def next_remote(self) -> str:
        """Return the name of the remote of the next sync for people, "" while there is none."""
        try:
            return str(self.remote(None))
        except (SyncError, StoreError):  # the sync says why; to share is no matter of the remote's yet
            return ""

    def fetch(self, remote: TeamRemote) -> Sequence[str]:
        """Bring the segments that a remote has; those that it lacks by now go from here. Raises RemoteAway.

        Returns why some of them are left there.
        """
        return remote.fetch(self.author)

    def push(self, remote: TeamRemote) -> bool:
        """Push the released entries of one's own segment, if the remote has the segment that was fetched.

        False where it has the same. Raises RemoteAway, and Contended.
        """
        tip = self._git.tips(self.author.ref).get(self.author.ref)
        there = self._git.tips(FETCHED).get(f"{FETCHED}{self.author.key}")
        if tip is not None and (left := {one.entry_id for one in self.unreleased(str(remote))}):
            lines = _lines(one for one in self.own() if one.entry_id not in left)
            is_same = (self._git.batch(there).sealed if there else b"") == lines
            tip = there if is_same else self._append(None, lines)
        if tip is None or tip == there:
            return False
        remote.push(self.author, tip, there)
        self._git.point(f"{FETCHED}{self.author.key}", tip)
        self.note_there(remote)
        return True

    def note_there(self, remote: TeamRemote) -> None:
        """Note the entries that the remote has, as it was last fetched: these have left for it."""
        self.release([one.entry_id for one in self._there() if one.kind == "shared"], str(remote), is_there=True)

    def unknown(self) -> list[SyncEntry]:
        """Return entries that the remote has under this author's name, and that were not written here.

        A segment that is no author's of this name is pushed over.
        """
        own = self.own()
        known = {one.entry_id for one in own} | {str(one.body.get("of")) for one in own}
        return [one for one in self._there() if one.entry_id not in known]

    def _there(self) -> Sequence[SyncEntry]:
        ref = f"{FETCHED}{self.author.key}"
        tip = self._git.tips(ref).get(ref)
        try:
            return self._read(self.author.ref, tip).entries if tip else ()
        except SyncError:
            return ()

    # ---- colleagues

    def colleagues(self) -> tuple[list[TeamSegment], list[str]]:
        """Return the segments of all others, and why some are left out."""
        found, refused = list[TeamSegment](), list[str]()
        tips = sorted((self._git.tips(FETCHED) | self._git.tips(SIGNED_IN)).items())
        tips = [(ref, tip) for ref, tip in tips if ref != f"{FETCHED}{self.author.key}"]
        if len(tips) > MOST_AUTHORS:
            refused.append(_too_many(len(tips) - MOST_AUTHORS))
        for ref, tip in tips[:MOST_AUTHORS]:
            login, _, key = ref.removeprefix(SIGNED_IN).rpartition("/") if ref.startswith(SIGNED_IN) else ("", "", "")
            name = f"{login}/{key}" if login else ref.removeprefix(FETCHED)
            try:
                segment = self._read(f"{OF_TEAMS}{name}", tip, unquote(login))
            except SyncError as error:
                refused.append(f"{name}: {error}")
                continue
            found.append(segment)
            refused += [f"{segment.author.title}: {reason}" for reason in segment.broken[:3]]
        return found, refused

    def _read(self, ref: str, tip: str, login: str = "") -> TeamSegment:
        """Read a segment. Raises SyncError for one that is too large, or not of the author whose name it has."""
        author = Author(*self._git.author_of(tip), login)
        if author.ref != ref:
            raise SyncError("its last commit is by another author than its name says")
        if (size := self._git.size_of(tip)) > MOST_BYTES:
            raise SyncError(f"it has {size:,} bytes, and {MOST_BYTES:,} are the most")
        read = list(read_lines(self._git.batch(tip).sealed or b""))
        entries = {one.entry_id: one for one in read if isinstance(one, SyncEntry)}
        broken = [one for one in read if isinstance(one, str)]
        broken += [f"entry {one.entry_id[:8]} claims a path" for one in entries.values() if one.path is not None]
        return TeamSegment(ref, author, [one for one in entries.values() if one.path is None], broken)


class TeamRemote(Protocol):
    """The place where the segments of all authors of a project lie.

    `str` names it, for people and for good: entries are released to that name. No way to sign in is in it.
    """

    def fetch(self, own: Author) -> Sequence[str]:
        """Bring the segments of all into refs here, one's own to FETCHED; those that are gone there go here.

        Returns why some are left there. Raises RemoteAway.
        """
        ...

    def push(self, own: Author, tip: str, there: str | None) -> None:
        """Replace one's own segment by the commit `tip` if it is as that of `there`, as it was fetched (None: none).

        Raises RemoteAway, and Contended where it is something else.
        """
        ...


class GitRemote:
    """A remote of the project's repository: a ref for each author."""

    def __init__(self, git: Repository, url: str) -> None:
        self._git = git
        self._git.remote = url

    def __str__(self) -> str:
        return without_credentials(self._git.remote)

    def fetch(self, own: Author) -> Sequence[str]:
        """Fetch the refs of all; a Postgres of before has no part in it."""
        self._git.fetch_refs(OF_TEAMS, FETCHED)
        for ref in self._git.tips(SIGNED_IN):
            self._git.point(ref, None)
        return ()

    def push(self, own: Author, tip: str, there: str | None) -> None:
        """Push the commit with a lease."""
        self._git.push({own.ref: (tip, there)})


CONNECT_S: Final = 10
STATEMENT_S, WITHIN_S = 30.0, 60.0
"""The longest wait for a Postgres' first answer, in whole seconds; a statement is ended by the server after the second,
and a connection, with a server that hangs, by us after the third."""

TABLE: Final = """
    CREATE SCHEMA IF NOT EXISTS dreamd;
    CREATE TABLE dreamd.team(
        project text NOT NULL, login name NOT NULL DEFAULT session_user,
        author bytea NOT NULL CHECK(octet_length(author) <= 1000), number bigint GENERATED ALWAYS AS IDENTITY,
        line bytea NOT NULL CHECK(octet_length(line) <= 131072), PRIMARY KEY(project, login, author, number));
    ALTER TABLE dreamd.team ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
    CREATE POLICY all_read ON dreamd.team FOR SELECT USING(true);
    CREATE POLICY authors_add ON dreamd.team FOR INSERT WITH CHECK(login = session_user);
    CREATE POLICY authors_withdraw ON dreamd.team FOR DELETE USING(login = session_user)
"""
"""No policy lets a row be changed. `author` and `line` are bytes, since a server may hold texts that are none of UTF-8;
4,000 characters and three quotes, escaped, are 70 kB at most."""

# In order: the author, the project, the limit. A login with many authors does not crowd out the others.
AUTHORS: Final = """
    SELECT login::text, author, login = session_user AND author = %s AS is_own, count(*) OVER () FROM dreamd.team
    WHERE project = %s GROUP BY login, author
    ORDER BY is_own DESC, row_number() OVER (PARTITION BY login ORDER BY author), login LIMIT %s
"""

# In order: the project, the login (None: one's own), the author, the most bytes, after which one line more is read.
LINES: Final = """
    SELECT line FROM (
        SELECT number, line, sum(octet_length(line) + 1) OVER (ORDER BY number) - octet_length(line) AS upto
        FROM dreamd.team WHERE project = %s AND login = coalesce(%s::name, session_user) AND author = %s) AS each
    WHERE upto <= %s ORDER BY number
"""


class PostgresRemote:
    """A table of a Postgres, `dreamd.team`: a row for each entry, of the login that wrote it.

    `file` has the DSN. Rows are added, and removed where what is in them was withdrawn.
    """

    def __init__(self, git: Repository, file: Path, project: str) -> None:
        if not project:
            hint = "`git remote add origin ADDRESS` says it; nothing is fetched from there."
            raise SyncError("A server cannot tell which project this is: the repository has no remote.", hint)
        self._git, self._project = git, project
        self._dsn = read_dsn(file)
        self._name = _name_of(self._dsn)

    def __str__(self) -> str:
        return f"the Postgres {self._name}"

    def fetch(self, own: Author) -> Sequence[str]:
        """Make a commit of each segment that is another than it was here."""
        here, seen = self._git.tips(FETCHED) | self._git.tips(SIGNED_IN), set[str]()
        with self._connected() as connection:
            values = (_written(own), self._project, MOST_AUTHORS + 1)
            rows = connection.execute(AUTHORS, values).fetchall() if _has_table(connection) else []
            is_there, every = rows[0][2:] if rows else (False, 0)
            rows = rows[: MOST_AUTHORS + is_there]
            for login, written, is_own, _ in rows:
                author = own if is_own else _author_of(written, login)
                ref = f"{FETCHED if is_own else f'{SIGNED_IN}{_part_of_a_ref(login)}/'}{author.key}"
                lines = self._lines(connection, login, written)
                # One's own, if it is as it is here, is the same commit.
                known = [*self._git.tips(own.ref).values()] if is_own else []
                known += [here[ref]] if ref in here else []
                same = next((commit for commit in known if self._git.batch(commit).sealed == lines), None)
                self._git.point(ref, same or self._git.append(None, lines, (author.name, author.email)))
                seen.add(ref)
        for ref in here.keys() - seen:
            self._git.point(ref, None)
        return [_too_many(every - len(rows))] if every > len(rows) else []

    def push(self, own: Author, tip: str, there: str | None) -> None:
        """Add the rows that are new; where others went, all of one's own are written anew, and the table's file."""
        author, lines = _written(own), self._git.batch(tip).sealed or b""
        before = (self._git.batch(there).sealed or b"") if there else b""
        is_more = lines.startswith(before)
        new = lines[len(before) :] if is_more else lines
        with self._connected() as connection:
            # Two daemons of one author, or the first two of a team, would both find what only one of them may change.
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('dreamd'))")
            if not _has_table(connection):
                connection.execute(TABLE)
            if self._lines(connection, None, author) != before:
                raise Contended("Another machine wrote at the same moment.", "The next sync sees it.")
            if not is_more:
                sql = "DELETE FROM dreamd.team WHERE project = %s AND login = session_user AND author = %s"
                connection.execute(sql, (self._project, author))
            sql = "INSERT INTO dreamd.team(project, author, line) VALUES(%s, %s, %s)"
            connection.cursor().executemany(sql, [(self._project, author, line) for line in new.splitlines()])
        if not is_more:
            with self._connected(autocommit=True) as connection:
                connection.execute("VACUUM FULL dreamd.team")  # nothing happens unless the table is of this login

    def _lines(self, connection: psycopg.Connection[Any], login: str | None, author: bytes) -> bytes:
        found = connection.execute(LINES, (self._project, login, author, MOST_BYTES)).fetchall()
        return b"".join(bytes(line) + b"\n" for (line,) in found)

    @contextmanager
    def _connected(self, *, autocommit: bool = False) -> Iterator[psycopg.Connection[Any]]:
        """Open a connection for one transaction, which is cut off after a while. Raises RemoteAway, and SyncError."""
        import psycopg

        is_connected = False
        try:
            with (
                psycopg.connect(
                    self._dsn,
                    connect_timeout=CONNECT_S,
                    application_name="dreamd",
                    options=f"-c statement_timeout={int(STATEMENT_S * 1000)}",
                    prepare_threshold=None,
                    autocommit=autocommit,
                ) as connection,
                socket.socket(fileno=os.dup(connection.fileno())) as way,
            ):
                is_connected = True
                end = threading.Timer(WITHIN_S, _cut, [way])
                end.start()
                try:
                    yield connection
                finally:
                    end.cancel()
        except psycopg.OperationalError as error:
            why = postgres_reason(error, is_connected=is_connected)
            raise RemoteAway(f"The Postgres cannot be used now: {why}.", "It is tried again.") from None
        except psycopg.Error as error:
            hint = "docs/sync.md lists the rights that a team's logins need."
            why = postgres_reason(error, is_connected=is_connected)
            raise SyncError(f"The Postgres refuses it: {why}.", hint) from None


def _name_of(dsn: str) -> str:
    """Return the host, the port and the database of a Postgres. Raises SyncError."""
    try:
        from psycopg import ProgrammingError, conninfo
    except ImportError as error:
        hint = "`pipx inject dreamd 'psycopg[binary]'` installs it."
        raise SyncError("psycopg is not installed, by which a Postgres is reached.", hint) from error
    try:
        said = conninfo.conninfo_to_dict(dsn)
    except ProgrammingError:  # its message may hold how to sign in
        raise SyncError("The file's line is no address of a Postgres.", "docs/sync.md shows one.") from None
    host = str(said.get("host") or said.get("hostaddr") or said.get("service") or "localhost")
    port = f":{said['port']}" if said.get("port") else ""
    # After an @ of a password that was written as it is, its rest would pass for the host.
    return f"{host.rpartition('@')[2]}{port}/{said.get('dbname') or said.get('user') or ''}"


def _cut(way: socket.socket) -> None:
    """Shut a connection's socket: a call that waits for an answer ends at once."""
    with suppress(OSError):  # its end came at the same moment
        way.shutdown(socket.SHUT_RDWR)


def _has_table(connection: psycopg.Connection[Any]) -> bool:
    return connection.execute("SELECT to_regclass('dreamd.team')").fetchone() != (None,)


def _lines(entries: Iterable[SyncEntry]) -> bytes:
    return b"".join(entry.line(number, entry.at) for number, entry in enumerate(entries, 1))


def _written(author: Author) -> bytes:
    return f"{author.name} <{author.email}>".encode()


def _author_of(written: bytes, login: str) -> Author:
    """Return the author that a row names, of whatever bytes."""
    name, _, email = written.decode("utf-8", "replace").partition("<")
    author = Author.cleaned(name, email, login)
    return Author(author.name or "unknown", author.email or "unknown", login)


def _too_many(left: int) -> str:
    return f"{left} segments more than {MOST_AUTHORS} are not read"


def without(entries: Collection[SyncEntry], entry_id: str) -> list[SyncEntry]:
    """Return the entries of a segment with one of them withdrawn: in its place a line that says so."""
    gone = SyncEntry({"kind": "withdrawn", "of": entry_id})
    return [*(one for one in entries if one.entry_id != entry_id), gone]


def united(own: Sequence[SyncEntry], others: Sequence[SyncEntry]) -> list[SyncEntry]:
    """Return the entries of one author on two machines, without the withdrawn ones of either."""
    every: Mapping[str, SyncEntry] = {one.entry_id: one for one in (*own, *others)}
    gone: set[Any] = {one.body.get("of") for one in every.values()}
    return [one for name, one in every.items() if name not in gone]
