"""A disk that is full for a while: `python -m tests.bench.disk_full [--quick]`.

- in this process, a store whose disk has no room at one write site after the other, of the vault and of each database,
  found by noting where the same work comes by; then at all of them;
- a daemon whose data lies on a small file system that is filled up, and has room again;
- a daemon whose ledger another process holds locked;
- a daemon that is started on a disk that is full, or may not be written.

Meanwhile clients remember, observe and recall. What is acknowledged must be there in the end, what is refused must be
refused as something to try again, recalls must be answered throughout, and remembering must work again by itself.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from dreamd.ipc.protocol import BUSY
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import NewTurn, SessionHead, StoreBusy
from dreamd.store.settings import StoreSettings
from dreamd.store.vault.disk import Disk

from tests.bench.daemon_under_test import DaemonUnderTest, Refused
from tests.bench.options import ROOT, Options
from tests.bench.scratch import own_folder
from tests.bench.table import Row, say, skipped
from tests.store.disks.full_disk import FullDisk, FullVFS, Room

FULL_S, QUICK_FULL_S = 30.0, 1.0
LOCKED_S, QUICK_LOCKED_S = 10.0, 6.0
BACK_WITHIN_S = 60.0
ANSWERED_WITHIN_S = 5.0
STARTED_S = 3.0
LOOKING_S, MET_WITHIN_S = 5.0, 30.0
"""How long the work is watched for the sites it comes by, and until it must come by one again: a checkpoint's, say."""
PAUSE_S = 0.02
MET_SHARE = 1.5
"""A checkpoint syncs few files one by one and many at once, so a site may not be met again; two in three must be."""
SIZE_MIB = 48
KNOWN = 20
NOW = datetime(2026, 11, 21, 9, tzinfo=UTC)
HELD = "0 lost, 0 refused for good, recalls answered, back by itself"


class Busy(Exception):
    """A write was refused as something to try again."""


class Memory(Protocol):
    """What the clients write to and ask: a store in this process, or a daemon."""

    def remember(self, text: str) -> None:
        """Keep a text. Raises Busy."""
        ...

    def observe(self, session: str, text: str, external_id: str) -> None:
        """Keep a turn. Raises Busy."""
        ...

    def finds(self, text: str) -> bool:
        """Whether a recall of its words tells this text."""
        ...

    def waiting(self) -> int:
        """How many acknowledged changes are not known to be in their files."""
        ...


# ---- the clients


@dataclass
class Account:
    """What was promised, refused and answered; filled by several threads, whose appends are atomic."""

    acknowledged: list[str] = field(default_factory=list)
    busy: int = 0
    wrong: list[str] = field(default_factory=list)
    recalls: int = 0
    slowest_s: float = 0.0
    is_met: bool = True

    def complain(self, of: str, error: BaseException) -> None:
        """Note what should not have happened."""
        self.wrong.append(f"{of}: {type(error).__name__}: {error}"[:300])


class Clients:
    """A context in which two write and one asks, without a pause that matters."""

    def __init__(self, memory: Memory, account: Account, known: Sequence[str], prefix: str) -> None:
        self._memory = memory
        self._account = account
        self._known = known
        self._prefix = prefix
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=job, daemon=True) for job in (self._remember, self._observe, self._ask)
        ]

    def __enter__(self) -> Clients:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)
            if thread.is_alive():
                self._account.wrong.append("a client was not answered within a minute")

    def _remember(self) -> None:
        self._write("note", self._memory.remember)

    def _observe(self) -> None:
        self._write("turn", lambda text: self._memory.observe(f"{self._prefix}-session", text, text.split()[0]))

    def _write(self, what: str, keep: Callable[[str], None]) -> None:
        number = 0
        while not self._over.wait(PAUSE_S):
            number += 1
            text = sentence(f"{self._prefix}{what}{number}")
            try:
                keep(text)
            except Busy:
                self._account.busy += 1
            except Exception as error:
                self._account.complain(what, error)
            else:
                self._account.acknowledged.append(text)

    def _ask(self) -> None:
        number = 0
        while not self._over.wait(PAUSE_S):
            number += 1
            text = self._known[number % len(self._known)]
            began = time.monotonic()
            try:
                if not self._memory.finds(text):
                    self._account.wrong.append(f"recall does not find {text!r}")
            except Exception as error:
                self._account.complain("recall", error)
            self._account.recalls += 1
            self._account.slowest_s = max(self._account.slowest_s, time.monotonic() - began)


def sentence(mark: str) -> str:
    """A text that nobody else has, with its mark first."""
    rng = random.Random(mark)
    return f"{mark} says {rng.getrandbits(40):x} {rng.getrandbits(40):x} of {rng.choice(('lamps', 'ropes', 'maps'))}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one fault."""

    what: str
    account: Account
    lost: list[str]
    back_s: float | None

    def __bool__(self) -> bool:
        return not (self.lost or self.account.wrong or self.back_s is None or self.is_idle)

    @property
    def is_idle(self) -> bool:
        """Whether too little was tried for its silence to mean anything."""
        return not self.account.acknowledged or not self.account.recalls

    def __str__(self) -> str:
        account = self.account
        parts = [f"{len(self.lost)} lost"] if self.lost else []
        parts += [] if account.is_met else ["not come by while it was full"]
        parts += ["too little tried"] if self.is_idle else []
        parts += ["not back by itself"] if self.back_s is None else []
        parts += [f"{len(account.wrong)} × wrong, first: {account.wrong[0]}"] if account.wrong else []
        return f"{self.what}: {'; '.join(parts) or 'held'}"


def seed(memory: Memory) -> Account:
    """Let the memory keep what recalls are to find, and wait until they do."""
    account = Account()
    for number in range(KNOWN):
        memory.remember(sentence(f"known{number}"))
        account.acknowledged.append(sentence(f"known{number}"))
    until(lambda: memory.finds(account.acknowledged[-1]) and not memory.waiting(), BACK_WITHIN_S)
    return account


def through(
    memory: Memory,
    account: Account,
    what: str,
    begin: Callable[[], None],
    end: Callable[[], None],
    seconds: float,
    files: Callable[[], str],
    prefix: str = "during",
) -> Verdict:
    """Let clients work through a fault and out of it; look for everything acknowledged in the files afterwards."""
    known = account.acknowledged[:KNOWN]
    with Clients(memory, account, known, prefix):
        begin()
        threading.Event().wait(seconds)
        end()
        room_at = time.monotonic()
        is_back = until(lambda: _accepts(memory, account), BACK_WITHIN_S)
        back_s = time.monotonic() - room_at if is_back else None
    if is_back and not until(lambda: not memory.waiting(), BACK_WITHIN_S):
        account.wrong.append("what was acknowledged does not reach its files")
    for text in account.acknowledged[-3:]:
        if is_back and not until(lambda text=text: memory.finds(text), BACK_WITHIN_S):  # type: ignore[misc]
            account.wrong.append(f"kept and not found: {text}")
    if account.slowest_s > ANSWERED_WITHIN_S:
        account.wrong.append(f"a recall took {account.slowest_s:.1f} s")
    held = files()
    return Verdict(what, account, [text for text in account.acknowledged if text not in held], back_s)


def _accepts(memory: Memory, account: Account) -> bool:
    text = sentence(f"after{len(account.acknowledged)}-{time.monotonic_ns()}")
    try:
        memory.remember(text)
    except Busy:
        return False
    except Exception as error:
        account.complain("remember, with room again", error)
        return False
    account.acknowledged.append(text)
    return True


def until(question: Callable[[], Any], timeout_s: float) -> bool:
    """Wait until it is answered with yes; False when that takes longer."""
    deadline = time.monotonic() + timeout_s
    while not question():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def texts_of(vault: Path) -> str:
    """Return the text of every file."""
    return "\n".join(path.read_text() for path in vault.rglob("*.md"))


# ---- every site of a store in this process


class StoreInProcess:
    """A store as its clients see it."""

    def __init__(self, paths: StorePaths, disk: Disk) -> None:
        self.store = MemoryStore(paths, StoreSettings(), StubEmbedder(), lambda: datetime.now(UTC), disk)

    def remember(self, text: str) -> None:
        """Keep a text."""
        _kept(lambda: self.store.remember(text))

    def observe(self, session: str, text: str, external_id: str) -> None:
        """Keep a turn."""
        head, turn = SessionHead(session, "full", started_at=NOW), NewTurn("user", text, NOW, external_id=external_id)
        _kept(lambda: self.store.observe(head, [turn]))

    def finds(self, text: str) -> bool:
        """Ask for it everywhere."""
        return text in [hit.text.strip() for hit in self.store.recall(text, channel="*", limit=10).hits]

    def waiting(self) -> int:
        """Ask the store."""
        return int(self.store.status().journal)


def _kept(submit: Callable[[], Future[Any]]) -> None:
    try:
        submit().result(60)
    except StoreBusy as busy:
        raise Busy(str(busy)) from busy


def sites(folder: Path, seconds: float, quick: bool) -> list[Verdict]:
    """Fill the disk at every site that the clients' work comes by, one at a time, then at all of them."""
    room = Room()
    databases = FullVFS(room)
    verdicts = [_trial(folder / "first", room, (), LOOKING_S, "room everywhere")]
    names = sorted(site for site in room.seen if not site.startswith("temporary"))
    say(f"{len(names)} sites: {', '.join(names)}")
    chosen = names[:: 4 if quick else 1]
    for number, site in enumerate(chosen):
        verdicts.append(_trial(folder / str(number), room, (site,), seconds, site))
    verdicts.append(_trial(folder / "all", room, names, seconds, "everywhere"))
    databases.unregister()
    return verdicts


def _trial(folder: Path, room: Room, full_at: Sequence[str], seconds: float, what: str) -> Verdict:
    folder.mkdir(parents=True)
    paths = StorePaths(
        folder / "vault", folder / "ledger.db", folder / "index" / "index.db", folder / "index" / "embeddings.db",
        folder / "runs",
    )  # fmt: skip
    memory = StoreInProcess(paths, FullDisk(room))
    room.refused.clear()

    def files() -> str:
        memory.store.close()
        again = StoreInProcess(paths, Disk())  # what only the ledger holds comes into its file
        until(lambda: not again.waiting(), BACK_WITHIN_S)
        again.store.close()
        return texts_of(paths.vault)

    def fill() -> None:
        room.fill(full_at)
        room.is_watched = True  # what comes by only when a store is opened or closed is another part's
        if full_at:
            until(lambda: room.refused, MET_WITHIN_S)

    def make() -> None:
        room.is_watched = False
        room.fill(())

    verdict = through(memory, seed(memory), what, fill, make, seconds, files)
    verdict.account.is_met = bool(room.refused) or not full_at
    say(f"{verdict}; {len(verdict.account.acknowledged)} acknowledged, {verdict.account.busy} busy")
    return verdict


# ---- a daemon


class Daemon:
    """A daemon as its clients see it; each thread has a connection of its own."""

    def __init__(self, daemon: DaemonUnderTest) -> None:
        self.daemon = daemon

    def remember(self, text: str) -> None:
        """Keep a text."""
        self._write("remember", text=text)

    def observe(self, session: str, text: str, external_id: str) -> None:
        """Keep a turn."""
        turn = {"role": "user", "text": text, "external_id": external_id}
        self._write("observe", session={"session_id": session, "channel": "full"}, turns=[turn])

    def _write(self, method: str, **params: Any) -> None:
        try:
            self.daemon.call(method, **params)
        except Refused as refused:
            if f"'code': {BUSY}" in str(refused):
                raise Busy(str(refused)) from refused
            raise

    def finds(self, text: str) -> bool:
        """Ask for it everywhere."""
        hits = self.daemon.call("recall", query=text, channel="*", limit=10)["hits"]
        return text in [hit["text"].strip() for hit in hits]

    def waiting(self) -> int:
        """Ask its status."""
        return int(self.daemon.call("status")["journal"])


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of its own, which only this process and its children see."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m", "none", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill_up(folder: Path) -> None:
    """Leave no byte."""
    with suppress(OSError), (folder / "filling").open("wb", buffering=0) as out:
        for size in (2**20, 2**12, 1):
            with suppress(OSError):
                while True:
                    out.write(bytes(size))


def make_room(folder: Path) -> None:
    """Take away what filled it."""
    (folder / "filling").unlink()


def daemons(folder: Path, seconds: float, locked_s: float) -> list[Verdict]:
    """Each fault on a daemon of its own."""
    return [
        _with_daemon(folder / "full", "file system full", seconds, fill_up, make_room),
        _locked(folder / "locked", locked_s),
        _started(folder / "started-full", "started on a full disk", fill_up, make_room),
        _started(folder / "started-read-only", "started on a read-only disk", _read_only, _read_write),
    ]


def _with_daemon(
    folder: Path, what: str, seconds: float, begin: Callable[[Path], None], end: Callable[[Path], None]
) -> Verdict:
    with small_disk(folder) as disk, _daemon(disk) as daemon:
        account = seed(Daemon(daemon))
        return _judged(daemon, account, disk, what, lambda: begin(disk), lambda: end(disk), seconds)


def _daemon(disk: Path) -> DaemonUnderTest:
    environ = {"DREAMD_STORE__EMBEDDING__MODEL": "stub", "DREAMD_DATA_DIR": str(disk / "data")}
    return DaemonUnderTest(disk.with_name(f"{disk.name}-home"), environ)


def _judged(
    daemon: DaemonUnderTest,
    account: Account,
    disk: Path,
    what: str,
    begin: Callable[[], None],
    end: Callable[[], None],
    seconds: float,
) -> Verdict:
    memory = Daemon(daemon)

    def files() -> str:
        daemon.kill()
        daemon.start()
        daemon.wait_until_it_answers()
        until(lambda: not memory.waiting(), BACK_WITHIN_S)
        return texts_of(disk / "data" / "vault")

    verdict = through(memory, account, what, begin, end, seconds, files)
    say(f"{verdict}; {len(verdict.account.acknowledged)} acknowledged, {verdict.account.busy} busy")
    return verdict


def _locked(folder: Path, seconds: float) -> Verdict:
    """Let another process hold the ledger's write lock."""
    holder: list[subprocess.Popen[bytes]] = []
    with small_disk(folder) as disk, _daemon(disk) as daemon:

        def begin() -> None:
            holder.append(lock_of(disk / "data" / "ledger.db", "BEGIN IMMEDIATE"))

        account = seed(Daemon(daemon))
        return _judged(daemon, account, disk, "ledger locked", begin, lambda: let_go(holder[0]), seconds)


def lock_of(database: Path, sql: str) -> subprocess.Popen[bytes]:
    """Have another process hold what this statement takes of a database, until `let_go`."""
    holding = (
        "import apsw, sys; ledger = apsw.Connection(sys.argv[1]); ledger.set_busy_timeout(60000); "
        "[ledger.execute(sql).fetchall() for sql in sys.argv[2].split(';')]; "
        "print(flush=True); sys.stdin.read(); ledger.execute('ROLLBACK')"
    )
    command = [sys.executable, "-c", holding, str(database), sql]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    return holder


def let_go(holder: subprocess.Popen[bytes]) -> None:
    """End it."""
    holder.communicate()


def _started(folder: Path, what: str, begin: Callable[[Path], None], end: Callable[[Path], None]) -> Verdict:
    """Start a daemon on a disk that nothing can be written to; then let it be written."""
    with small_disk(folder) as disk, _daemon(disk) as daemon:
        account = seed(Daemon(daemon))
        daemon.stop()
        begin(disk)
        try:
            daemon.start()
            daemon.wait_until_it_answers()
        except RuntimeError as error:
            account.complain("start", error)
            return Verdict(what, account, [], None)
        return _judged(daemon, account, disk, what, lambda: None, lambda: end(disk), STARTED_S)


def _read_only(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)


def _read_write(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)


# ---- rows


def measure(options: Options) -> Iterator[Row]:
    """Run both parts as programs of their own: one bends SQLite for its whole process, one has own file systems."""
    seconds = FULL_S if not options.quick else QUICK_FULL_S
    yield _row(f"disk full for {seconds:g} s at every write site, then room", "sites", options)
    measure = f"a daemon's disk full for {seconds:g} s, its ledger locked, started on a full or read-only disk"
    if os.geteuid() == 0:
        yield _row(measure, "daemons", options)
    else:
        yield skipped(measure, HELD, "a file system of one's own needs root")


def _row(measure: str, part: str, options: Options) -> Row:
    say(measure)
    command = ["unshare", "--mount", "--propagation", "private"] if part == "daemons" else []
    command += [sys.executable, "-m", "tests.bench.disk_full", "--part", part, *(["--quick"] if options.quick else [])]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    told = json.loads(done.stdout or "{}")
    if not told:
        return Row(measure, "did not finish", HELD, False, f"it ended with {done.returncode}")
    how = "; ".join([*told["wrong"], *(f"{name} {told[name]}" for name in ("met", "acknowledged", "busy", "recalls"))])
    return Row(measure, f"{told['held']} of {told['faults']} held", HELD, not told["wrong"], how[:2000])


def main() -> int:
    """Print one JSON object; exit with 1 when anything was lost, refused for good, unanswered, or stayed away."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=("sites", "daemons"))
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    if given.part is None:
        rows = list(measure(Options(quick=given.quick)))
        for row in rows:
            print(f"{row.verdict:7}{row.measure}: {row.measured}\n       {row.how}")
        return int(any(row.ok is False for row in rows))
    seconds = QUICK_FULL_S if given.quick else FULL_S
    with own_folder("full") as folder:
        if given.part == "sites":
            verdicts = sites(folder, seconds, given.quick)
        else:
            verdicts = daemons(folder, seconds, QUICK_LOCKED_S if given.quick else LOCKED_S)
    told = _told(verdicts)
    print(json.dumps(told))
    return int(bool(told["wrong"]))


def _told(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    wrong = [str(verdict) for verdict in verdicts if not verdict]
    met = sum(verdict.account.is_met for verdict in verdicts)
    if met * MET_SHARE < len(verdicts):
        wrong.append(f"the work came by {met} of {len(verdicts)} faults")
    return {
        "faults": len(verdicts),
        "met": met,
        "held": sum(map(bool, verdicts)),
        "wrong": wrong,
        "acknowledged": sum(len(verdict.account.acknowledged) for verdict in verdicts),
        "busy": sum(verdict.account.busy for verdict in verdicts),
        "recalls": sum(verdict.account.recalls for verdict in verdicts),
    }


if __name__ == "__main__":
    sys.exit(main())
