"""A fault of the disk on each file the daemon opens: `python -m tests.bench.faults [--quick] [--only WORD]`.

Reads or writes of one file fail (EIO, ENOSPC, EROFS), or another process holds a database, for three seconds in which
clients remember, observe and recall; and the main databases' disks fail while the daemon starts. Afterwards, without a
hand, the daemon must answer, find everything acknowledged, have set nothing aside, and tell of no problem.
"""

from __future__ import annotations

import argparse
import errno
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from dreamd.ipc.protocol import BUSY

from tests.bench.daemon_under_test import DaemonUnderTest, Refused
from tests.bench.disk_full import (
    KNOWN,
    Account,
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
SOURCE = Path(__file__).with_name("faults.c")
TARGET = "back by itself within 15 s, nothing whole set aside, nothing lost"

FILES = {
    "ledger.db": "*/data/ledger.db",
    "ledger.db-wal": "*/data/ledger.db-wal",
    "ledger.db-shm": "*/data/ledger.db-shm",
    "index.db": "*/index/index*.db",
    "index.db-wal": "*/index/index*.db-wal",
    "index.db-shm": "*/index/index*.db-shm",
    "embeddings.db": "*/index/embeddings.db",
    "embeddings.db-wal": "*/index/embeddings.db-wal",
    "a session": "*/vault/sessions/*",
    "a fact": "*/vault/facts/*",
    "the vault's marker": "*/vault/.dreamd*",
    "a catalogue": "*/vault/*index.md*",
    "purge.json": "*purge.json*",
    "the lock file": "*.lock",
    "the settings": "*/config/dreamd/*",
    "the log": "*/dreamd.log",
}
"""The files by the glob of their paths, their temporary ones and those of their folder too."""

FAULTS = (
    ("read", errno.EIO),
    ("write", errno.EIO),
    ("write", errno.ENOSPC),
    ("write", errno.EROFS),
)
DATABASES = {"ledger.db": "ledger.db", "index.db": "index/index.db", "embeddings.db": "index/embeddings.db"}
LOCKS = {"read": "BEGIN;SELECT * FROM sqlite_schema", "write": "BEGIN IMMEDIATE"}
AT_START = ("ledger.db", "ledger.db-wal", "index.db", "index.db-wal", "embeddings.db")
QUICK = ("ledger.db", "index.db", "a fact")


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

    def fail(self, operation: str, glob: str, number: int) -> None:
        """Fail from now on."""
        self.met.unlink(missing_ok=True)
        fresh = self.faults.with_name("fresh")
        fresh.write_text(f"{operation} {glob} {number}\n")
        fresh.replace(self.faults)

    def mend(self) -> None:
        """Fail no more."""
        self.faults.unlink(missing_ok=True)


class Trial:
    """A daemon, and what one fault after the other does to it."""

    def __init__(self, folder: Path, disk: Disk, seconds: float) -> None:
        self.daemon = DaemonUnderTest(folder, disk.environ())
        self.disk = disk
        self.seconds = seconds
        self.memory = FaultyDaemon(self.daemon)
        self._cells = 0
        self._aside: set[str] = set()

    def begin(self) -> None:
        """Fill it, and note what is there without a fault."""
        settings = self.daemon.folder / "config" / "dreamd" / "config.toml"
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.touch()
        self.daemon.start()
        self.daemon.wait_until_it_answers()
        self.known = seed(self.memory).acknowledged

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
        met = "" if self.disk.met.exists() or "lock" in what else ", no call met it"
        if not verdict:
            how += f"; {'; '.join(account.wrong[1:4])}; logged: {self.daemon.log.read_text()[logged:][-1500:]}"
        return Row(what, f"{verdict}{met}"[len(what) + 2 :], TARGET, bool(verdict), how)

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
        """Start the daemon while its disk fails, and mend the disk while it starts."""
        self.daemon.kill()
        begin()
        mending = threading.Timer(self.seconds, self.disk.mend)
        mending.start()
        self.daemon.start()
        try:
            self.daemon.wait_until_it_answers(60)
        except RuntimeError as error:
            mending.join()
            return Row(what, f"it does not start: {str(error)[-300:]}", TARGET, False, "")
        mending.join()
        return self.cell(what, lambda: None, self.disk.mend, 0.2)


def stir(trial: Trial, text: str) -> None:
    """Have the daemon purge and dream, which write the files that nothing else writes; refused is fine."""
    with suppress(Refused, KeyError, IndexError):
        hits = trial.daemon.call("recall", query=text, channel="*", limit=1)["hits"]
        trial.daemon.call("purge", node_id=hits[0]["node_id"])
    with suppress(Refused):
        trial.daemon.call("dream", kind="daily", wait=False)


def cells(trial: Trial, file: str, quick: bool) -> Iterator[Row]:
    """Every fault on one file."""
    for number, (operation, error) in enumerate(FAULTS[: 2 if quick else None]):
        doomed = sentence(f"doomed{number}")
        trial.memory.remember(doomed)

        def begin(operation: str = operation, error: int = error, doomed: str = doomed) -> None:
            trial.disk.fail(operation, FILES[file], error)
            if file in ("a catalogue", "purge.json"):
                stir(trial, doomed)

        yield trial.cell(f"{file}: {operation} {errno.errorcode[error]}", begin, trial.disk.mend)
    if file in DATABASES:
        for operation in LOCKS:
            yield _locked(trial, file, operation)


def _locked(trial: Trial, file: str, operation: str) -> Row:
    holders: list[subprocess.Popen[bytes]] = []
    path = trial.daemon.folder / "data" / DATABASES[file]

    def end() -> None:
        while holders:
            let_go(holders.pop())

    return trial.cell(f"{file}: {operation} lock", lambda: holders.append(lock_of(path, LOCKS[operation])), end)


def starts(trial: Trial, quick: bool) -> Iterator[Row]:
    """Every fault of the main databases while the daemon starts."""
    for file in AT_START[:: 2 if quick else 1]:
        for operation, error in FAULTS[: 1 if quick else None]:

            def begin(file: str = file, operation: str = operation, error: int = error) -> None:
                trial.disk.fail(operation, FILES[file], error)

            yield trial.at_start(f"{file}, at a start: {operation} {errno.errorcode[error]}", begin)


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
