"""A fault of the disk on each file the daemon opens: `python -m tests.bench.faults [--quick] [--only WORD]`.

Reads or writes of one file fail (EIO, ENOSPC, EROFS), or another process holds a database, for three seconds in which
clients remember, observe and recall, and in which the daemon is made to read or write that file; and the same while it
starts. Afterwards, without a hand (but the unit's, which starts it again), the daemon must answer, find everything
acknowledged, have set nothing aside, and tell of no problem. A fault that no call met is missed.
"""

from __future__ import annotations

import argparse
import errno
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from dreamd.ipc.protocol import BUSY

from tests.bench.daemon_under_test import DaemonUnderTest, Refused
from tests.bench.disk_full import (
    KNOWN,
    Account,
    Busy,
    Daemon,
    Verdict,
    let_go,
    lock_of,
    seed,
    sentence,
    texts_of,
    through,
    until,
)
from tests.bench.options import Options
from tests.bench.scratch import own_folder
from tests.bench.table import Row, report, say, skipped

SECONDS, QUICK_SECONDS = 3.0, 1.0
WELL_WITHIN_S = 15.0
STARTED_WITHIN_S, RESTARTED_AFTER_S = 60.0, 1.0
SOURCE = Path(__file__).with_name("faults.c")
TARGET = "back by itself within 15 s, nothing whole set aside, nothing lost"

FAULTS = (
    ("read", errno.EIO),
    ("write", errno.EIO),
    ("write", errno.ENOSPC),
    ("write", errno.EROFS),
)
DATABASES = {"ledger.db": "ledger.db", "index.db": "index/index.db", "embeddings.db": "index/embeddings.db"}
LOCKS = {"read": "BEGIN;SELECT * FROM sqlite_schema", "write": "BEGIN IMMEDIATE"}
QUICK = ("ledger.db", "index.db", "a fact")
QUICK_STARTS = ("ledger.db", "ledger.db-shm", "the settings", "purge.json")
MET_WITHIN_S = 30.0
MAPPED = "it is mapped, never read or written by a call; a page that a disk cannot read ends any process (SIGBUS)"
NEVER_WRITTEN = "the daemon never writes it"
AT_START = "only a start reads or writes it: see there"
FOR_GOOD = frozenset({65, 75, 78})
"""The exit codes after which the unit does not start it again."""


class FaultyDaemon(Daemon):
    """A daemon whose recall may say that it is to be asked again; a client does that, and asks for the runs too."""

    def observe(self, session: str, text: str, external_id: str) -> None:
        """Keep a turn; ask for what only the ledger's file holds."""
        super().observe(session, text, external_id)
        with suppress(Refused):
            self.daemon.call("runs")

    def finds(self, text: str) -> bool:
        """Ask for it everywhere, until it is answered."""
        answered = threading.Event()
        for _ in range(100):
            try:
                return super().finds(text)
            except Refused as refused:
                if f"'code': {BUSY}" not in str(refused):
                    raise
                answered.wait(0.1)
        raise TimeoutError("a recall was refused for ten seconds and more")


@dataclass(frozen=True, slots=True)
class Disk:
    """The file that tells the shim what fails, and the library."""

    faults: Path
    library: Path

    def environ(self) -> dict[str, str]:
        """Return what a daemon is started with."""
        return {
            "DREAMD_STORE__EMBEDDING__MODEL": "stub",
            "LD_PRELOAD": str(self.library),
            "FAULTS": str(self.faults),
        }

    @property
    def met(self) -> Path:
        """The file that is there once a call was failed."""
        return self.faults.with_name(f"{self.faults.name}.met")

    def fail(self, operation: str, globs: Sequence[str], number: int) -> None:
        """Fail from now on."""
        self.met.unlink(missing_ok=True)
        fresh = self.faults.with_name("fresh")
        fresh.write_text("".join(f"{operation} {glob} {number}\n" for glob in globs))
        fresh.replace(self.faults)

    def mend(self) -> None:
        """Fail no more."""
        self.faults.unlink(missing_ok=True)


class Trial:
    """A daemon, and what one fault after the other does to it."""

    def __init__(self, folder: Path, disk: Disk, seconds: float) -> None:
        self.daemon = DaemonUnderTest(folder, disk.environ() | {"DREAMD_LOG__FILE": str(folder / "own.log")})
        settings = folder / "config" / "dreamd" / "dreamd.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text('log.level = "INFO"\n')
        self.disk = disk
        self.seconds = seconds
        self.memory = FaultyDaemon(self.daemon)
        self._cells = 0
        self._aside: set[str] = set()

    def begin(self) -> None:
        """Fill it, let it dream once, and note what is there without a fault."""
        self.daemon.start()
        self.daemon.wait_until_it_answers()
        self.known = seed(self.memory).acknowledged
        self.daemon.call("dream", kind="daily", wait=True)

    def cell(self, what: str, begin: Callable[[], None], end: Callable[[], None], seconds: float | None = None) -> Row:
        """Let clients work through one fault, and judge what is there after it."""
        self._cells += 1
        logged = self.daemon.log.stat().st_size
        account = Account(acknowledged=list(self.known[:KNOWN]))
        vault = self.daemon.folder / "data" / "vault"
        prefix = f"cell{self._cells}"
        took = self.seconds if seconds is None else seconds
        try:
            verdict = through(self.memory, account, what, begin, end, took, lambda: texts_of(vault), prefix)
            self._judge(account)
        except Exception as error:  # the boundary of a cell
            account.complain("the cell", error)
            verdict = Verdict(what, account, [], None)
        finally:
            end()
        how = f"{len(account.acknowledged)} acknowledged, {account.busy} busy, {account.recalls} recalls"
        if not self.disk.met.exists() and not what.endswith(" lock"):
            account.wrong.insert(0, "no call met it")
        if not verdict:
            how += f"; {'; '.join(account.wrong[1:4])}; logged: {self.daemon.log.read_text()[logged:][-1500:]}"
        return Row(what, f"{verdict}"[len(what) + 2 :], TARGET, bool(verdict), how)

    def _judge(self, account: Account) -> None:
        """Complain of what is not found, was set aside, or is still called a problem."""
        if not until(lambda: not self.daemon.call("status")["problems"], WELL_WITHIN_S):
            account.wrong.append(f"still said: {self.daemon.call('status')['problems'][0]}")
        missing = [text for text in account.acknowledged if not self.memory.finds(text)]
        if missing:
            account.wrong.append(f"{len(missing)} kept and not found: {missing[0]}")
        data = self.daemon.folder / "data"
        aside = {path.name for word in ("damaged", "set-aside", "salvaged") for path in data.rglob(f"*{word}*.db")}
        if new := aside - self._aside:
            account.wrong.append(f"set aside: {', '.join(sorted(new))}")
        self._aside = aside

    def at_start(self, what: str, begin: Callable[[], None]) -> Row:
        """Start the daemon while its disk fails, and mend the disk a while later."""
        self.daemon.kill()
        begin()
        mending = threading.Thread(target=self._mend_after_it_was_met)
        mending.start()
        try:
            self._start_as_the_unit_does()
        except RuntimeError as error:
            return Row(what, f"it does not start: {str(error)[-300:]}", TARGET, False, "")
        finally:
            mending.join()
        self.known = self.known or seed(self.memory).acknowledged
        return self.cell(what, lambda: None, self.disk.mend, 0.2)

    def _mend_after_it_was_met(self) -> None:
        until(self.disk.met.exists, MET_WITHIN_S)
        threading.Event().wait(self.seconds)
        self.disk.mend()

    def _start_as_the_unit_does(self) -> None:
        deadline = time.monotonic() + STARTED_WITHIN_S
        while True:
            self.daemon.start()
            try:
                self.daemon.wait_until_it_answers(STARTED_WITHIN_S)
                return
            except RuntimeError:
                assert self.daemon.process is not None
                if self.daemon.process.poll() in {None, *FOR_GOOD} or time.monotonic() > deadline:
                    raise
            threading.Event().wait(RESTARTED_AFTER_S)


# ---- what makes the daemon read and write a file


def nothing(trial: Trial, operation: str) -> None:
    """Let the clients work."""
    threading.Event().wait(0.05)


def beside(database: str) -> Callable[[Trial, str], None]:
    """Write to a database as another program may, so that the daemon reads it again, or copies its log into it."""

    def stir(trial: Trial, operation: str) -> None:
        connection = sqlite3.connect(trial.daemon.folder / "data" / database, timeout=1, isolation_level=None)
        with suppress(sqlite3.Error):
            connection.executescript(_BESIDE[operation])
        connection.close()
        with suppress(Busy):
            trial.memory.remember(sentence(f"beside{time.monotonic_ns()}"))

    return stir


_BESIDE = {
    "read": "PRAGMA wal_autocheckpoint = 0; CREATE TABLE beside (x); DROP TABLE beside;PRAGMA wal_checkpoint(TRUNCATE)",
    "write": "PRAGMA wal_autocheckpoint = 0; CREATE TABLE beside (x); INSERT INTO beside VALUES (zeroblob(6000000));"
    "DROP TABLE beside",
}
"""What is done by operation: after the first the database is read anew, after the second its log is copied into it."""


def touch_marker(trial: Trial, operation: str) -> None:
    """Have the vault looked at closely."""
    os.utime(trial.daemon.folder / "data" / "vault" / ".dreamd")


def purge(trial: Trial, operation: str) -> None:
    """Have it purge, and write the catalogue anew."""
    with suppress(Refused):
        trial.daemon.call("purge", nodes=[doomed(trial)])


def doomed(trial: Trial) -> str:
    """Remember what is to be purged, and return its id."""
    node_id: str = trial.daemon.call("remember", text=sentence(f"doomed{time.monotonic_ns()}"))["node_id"]
    return node_id


def take_in(trial: Trial, operation: str) -> None:
    """Have it log a line."""
    note = trial.daemon.folder / "note.md"
    note.write_text("Beans are soaked overnight.\n")
    with suppress(Refused):
        trial.daemon.call("import", paths=[str(note)])


# ---- what is done before a start


def leave_purge(trial: Trial) -> None:
    """Leave a purge under way: its files cannot be written until the daemon is killed."""
    node_id = doomed(trial)
    until(lambda: not trial.memory.waiting(), MET_WITHIN_S)
    written = trial.daemon.folder / "data" / "purge.json"
    trial.disk.fail("write", ("*/vault/general/*",), errno.EIO)
    asking = threading.Thread(
        target=lambda: suppressed(lambda: trial.daemon.call("purge", nodes=[node_id])), daemon=True
    )
    asking.start()
    until(written.exists, MET_WITHIN_S)
    trial.daemon.kill()
    asking.join(MET_WITHIN_S)


def suppressed(call: Callable[[], object]) -> None:
    """Call it; what becomes of it is not asked."""
    with suppress(Exception):
        call()


def forget_vault(trial: Trial) -> None:
    """Take away all that is kept, so that the start makes it."""
    trial.daemon.kill()
    shutil.rmtree(trial.daemon.folder / "data")
    trial.known = []


# ---- the files


@dataclass(frozen=True, slots=True)
class File:
    """A file that the daemon opens, by globs of its path and of the temporary files that become it.

    `stir` is done until a call was failed. `without`: why no call can be, by operation.
    """

    globs: tuple[str, ...]
    stir: Callable[[Trial, str], None] = nothing
    without: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Start:
    """What of a file is failed at a start, and what is done before it."""

    operations: tuple[str, ...] = ("read", "write")
    before: Callable[[Trial], None] = lambda trial: None


def _of_database(path: str, glob: str) -> dict[str, File]:
    name = path.rpartition("/")[2]
    return {
        name: File((glob,), beside(path)),
        f"{name}-wal": File((f"{glob}-wal",), beside(path)),
        f"{name}-shm": File((f"{glob}-shm",), without={"read": MAPPED, "write": AT_START}),
    }


FILES = {
    **_of_database("ledger.db", "*/data/ledger.db"),
    **_of_database("index/index.db", "*/index/index*.db"),
    **_of_database("index/embeddings.db", "*/index/embeddings.db"),
    "a session": File(("*/vault/sessions/*",)),
    "a fact": File(("*/vault/general/*",)),
    "the vault's marker": File(("*/vault/.dreamd*",), touch_marker, {"write": AT_START}),
    "a catalogue": File(("*/vault/*index.md", "*/vault/.dreamd-*"), purge),
    "purge.json": File(("*/data/purge.json", "*/data/.dreamd-*"), purge, {"read": AT_START}),
    "the lock file": File(("*.lock",), without={"read": "only a second daemon reads it", "write": AT_START}),
    "the settings": File(("*/config/dreamd/*",), without={"read": AT_START, "write": NEVER_WRITTEN}),
    "the log": File(("*/own.log",), take_in, {"read": "`dreamctl log` reads it, the daemon never does"}),
}
STARTS = {
    **{f"{name}{end}": Start() for name in DATABASES for end in ("", "-wal")},
    **{f"{name}-shm": Start(("write",)) for name in DATABASES},
    "the vault's marker": Start(("read",)),
    "purge.json": Start(("read",), leave_purge),
    "the lock file": Start(("write",)),
    "the settings": Start(("read",)),
    "the log": Start(("write",)),
    "a new vault's marker": Start(("write",), forget_vault),
}


def stirred(trial: Trial, file: File, operation: str) -> bool:
    """Have the file read or written once more; True when a call was failed."""
    file.stir(trial, operation)
    return trial.disk.met.exists()


def cells(trial: Trial, name: str, quick: bool) -> Iterator[Row]:
    """Every fault on one file."""
    file = FILES[name]
    for operation, error in FAULTS[: 2 if quick else None]:
        what = f"{name}: {operation} {errno.errorcode[error]}"
        if reason := file.without.get(operation):
            yield Row(what, f"not applicable: {reason}", "", None, "")
            continue

        def begin(operation: str = operation, error: int = error) -> None:
            trial.disk.fail(operation, file.globs, error)
            until(lambda: stirred(trial, file, operation), MET_WITHIN_S)

        yield trial.cell(what, begin, trial.disk.mend)
    if name in DATABASES:
        for operation in LOCKS:
            yield _locked(trial, name, operation)


def _locked(trial: Trial, file: str, operation: str) -> Row:
    holders: list[subprocess.Popen[bytes]] = []
    path = trial.daemon.folder / "data" / DATABASES[file]

    def end() -> None:
        while holders:
            let_go(holders.pop())

    return trial.cell(f"{file}: {operation} lock", lambda: holders.append(lock_of(path, LOCKS[operation])), end)


def starts(trial: Trial, quick: bool) -> Iterator[Row]:
    """Every fault of what is read or written while the daemon starts."""
    for name, start in STARTS.items():
        if quick and name not in QUICK_STARTS:
            continue
        file = FILES[name.replace("a new vault's", "the vault's")]
        faults = [fault for fault in FAULTS if fault[0] in start.operations]
        for operation, error in faults[-1:] if quick else faults:
            start.before(trial)

            def begin(file: File = file, operation: str = operation, error: int = error) -> None:
                trial.disk.fail(operation, file.globs, error)

            yield trial.at_start(f"{name}, at a start: {operation} {errno.errorcode[error]}", begin)


def measure(options: Options, only: str = "") -> Iterator[Row]:
    """One row a cell."""
    compiler = shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        yield skipped("faults of the disk on each file", TARGET, "needs Linux and gcc")
        return
    seconds = QUICK_SECONDS if options.quick else SECONDS
    with own_folder("faults") as folder:
        disk = Disk(folder / "faults", folder / "faults.so")
        command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(disk.library), str(SOURCE), "-ldl"]
        subprocess.run(command, check=True)
        parts: dict[str, Callable[[Trial], Iterator[Row]]] = {
            file: lambda trial, file=file: cells(trial, file, options.quick)  # type: ignore[misc]
            for file in (QUICK if options.quick else FILES)
        }
        parts["start"] = lambda trial: starts(trial, options.quick)
        for number, (part, rows) in enumerate(parts.items()):
            if only and only not in part:
                continue
            trial, began = Trial(folder / str(number), disk, seconds), time.monotonic()
            try:
                trial.begin()
                yield from rows(trial)
            finally:
                disk.mend()
                trial.daemon.__exit__()
            say(f"{part} took {time.monotonic() - began:.0f} s")


def main() -> int:
    """Print a row a cell; exit with 1 when one is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", metavar="WORD", help="the files whose name holds it, or `start`")
    given = parser.parse_args()
    return report(measure(Options(quick=given.quick), given.only))


if __name__ == "__main__":
    sys.exit(main())
