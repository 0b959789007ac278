"""Damage every page of the databases in turn: `python tests/bench/damage.py --pages 20`; 0 is every page.

A small store is filled once. For each page the daemon starts on a copy in which that page is noise; and the pages of a
running daemon's index are damaged one after the other. Each time recall must answer within five seconds, by what it
knows or with a note, without a hand; and in the end everything acknowledged must be there.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import apsw

from tests.bench.daemon_under_test import DaemonUnderTest, Wire
from tests.bench.options import Options
from tests.bench.scratch import own_folder
from tests.bench.table import Row, say

PAGE_BYTES = 4096
ANSWERED_S = 5.0
WHOLE_S = 60.0
MEMORIES, SESSIONS, TURNS = 48, 5, 20
TAKEN_BACK = 48
RUNNING_PAGES = 40
LEDGER_PAGES = 60
NOTICED_SHARE = 0.2
"""Of the damaged pages of the index, at least so many must have been noticed: else the noise hit nothing."""

TARGET = "recall answers within 5 s, no hand needed, nothing lost"
PLACES = {"index": "index/index.db", "embeddings": "index/embeddings.db", "ledger": "ledger.db"}


@dataclass
class Account:
    """What came of one database's pages."""

    database: str
    pages: int = 0
    recalls: int = 0
    noticed: int = 0
    slowest_s: float = 0.0
    violations: list[str] = field(default_factory=list)
    too_little: list[str] = field(default_factory=list)

    def judge(self, wanted: int) -> None:
        """Say what was tried too little to prove anything."""
        if self.pages < wanted:
            self.too_little.append(f"{self.pages} pages of {wanted}")
        if self.recalls < 3 * self.pages:
            self.too_little.append(f"{self.recalls} recalls of {self.pages} pages")
        if self.database != "embeddings" and self.noticed < NOTICED_SHARE * self.pages:
            self.too_little.append(f"{self.noticed} of {self.pages} damaged pages were noticed")


class Store:
    """A store that is filled once, and what it owes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pristine = folder / "pristine"
        self.memories: dict[str, str] = {}
        self.sessions: dict[str, list[str]] = {}
        with DaemonUnderTest(folder / "life", _environ()) as daemon:
            self._fill(daemon)
            daemon.stop()
            (folder / "life" / "data").rename(self.pristine)
        for place in PLACES.values():
            into_one_file(self.pristine / place)

    def _fill(self, daemon: DaemonUnderTest) -> None:
        with closing(daemon.wire()) as wire:
            for number in range(MEMORIES):
                text = f"Vera keeps lantern m{number}z in room {number % 7}."
                self.memories[wire.call("remember", text=text)["node_id"]] = text
            for session in range(SESSIONS):
                texts = [
                    f"Parcel q{session}x{turn}z is beside the mill. {'It is heavy. ' * 500 * (turn == 3)}".strip()
                    for turn in range(TURNS)
                ]
                turns = [{"role": "user", "text": text, "external_id": str(n)} for n, text in enumerate(texts)]
                wire.call("observe", session={"session_id": f"s{session}", "channel": "_global"}, turns=turns)
                self.sessions[f"s{session}"] = texts
            for node_id in list(self.memories)[:TAKEN_BACK]:  # runs with their pre-images: what a ledger is full of
                wire.call("undo", run_id=wire.call("forget", node_id=node_id)["run_id"])
        daemon.wait_until_embedded()
        daemon.call("rebuild")  # every row in the database, few in its write-ahead log
        daemon.wait_until_embedded()

    def pages(self, database: str) -> int:
        """How many pages a database has."""
        return Path(os.path.realpath(self.pristine / PLACES[database])).stat().st_size // PAGE_BYTES

    def damaged(self, database: str, page: int) -> DaemonUnderTest:
        """Make a daemon, not started yet, on a copy in which a page is noise."""
        life = self.folder / "life"
        shutil.rmtree(life, ignore_errors=True)
        life.mkdir()
        shutil.copytree(self.pristine, life / "data", symlinks=True)
        noise_over(life / "data" / PLACES[database], page)
        return DaemonUnderTest(life, _environ())


def into_one_file(path: Path) -> None:
    """Bring what lies in a database's write-ahead log into the database."""
    with closing(apsw.Connection(os.path.realpath(path))) as connection:
        connection.set_busy_timeout(2000)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def noise_over(path: Path, page: int) -> None:
    """Write noise over one page; what lies in the write-ahead log is brought into the file first."""
    with suppress(apsw.Error):
        into_one_file(path)
    with path.open("r+b") as file:
        file.seek(page * PAGE_BYTES)
        file.write(random.Random(page).randbytes(PAGE_BYTES))


class Trial:
    """One damaged page, and the daemon that lives with it."""

    def __init__(self, store: Store, daemon: DaemonUnderTest, account: Account, name: str) -> None:
        self.store, self.daemon, self.account, self.name = store, daemon, account, name

    def complain(self, what: str) -> None:
        """Note a promise that was broken."""
        self.account.violations.append(f"{self.name}: {what}")

    def ask_at_once(self) -> None:
        """Recall three things that are known: each by an answer that holds it, or notes why not, in time."""
        for text in (*list(self.store.memories.values())[:2], self.store.sessions["s1"][7]):
            began = time.monotonic()
            try:
                with closing(Wire(self.daemon.socket_path, ANSWERED_S + 1)) as wire:
                    found = wire.call("recall", query=text, channel="*")
            except (OSError, RuntimeError) as error:
                self.complain(f"recall failed: {error}")
                continue
            took_s = time.monotonic() - began
            self.account.recalls += 1
            self.account.slowest_s = max(self.account.slowest_s, took_s)
            if not _holds(found, text) and not found["notes"]:
                self.complain(f"recall neither found {text[:30]!r} nor said why")
            if took_s > ANSWERED_S:
                self.complain(f"recall took {took_s:.1f} s")

    def remember(self, text: str) -> None:
        """Have something kept now."""
        self.store.memories[self.daemon.call("remember", text=text)["node_id"]] = text

    def wait_until_whole(self) -> None:
        """Wait until the daemon says that the index is read; without a hand."""
        deadline = time.monotonic() + WHOLE_S
        while any("made again" in problem for problem in self.daemon.call("status")["problems"]):
            if time.monotonic() > deadline:
                self.complain("the index was not made again by itself")
                return
            time.sleep(0.05)

    def check_all(self) -> None:
        """Everything acknowledged is there, and found."""
        with closing(self.daemon.wire()) as wire:
            for node_id, text in self.store.memories.items():
                self._expect(wire, node_id, [text])
            for session_id, texts in self.store.sessions.items():
                self._expect(wire, session_id, texts)
            for text in random.Random(self.name).sample(sorted(self.store.memories.values()), 3):
                self.account.recalls += 1
                if not _holds(found := wire.call("recall", query=text, channel="*"), text):
                    self.complain(f"{text!r} is kept and not found; {found['notes']}")

    def _expect(self, wire: Wire, node_id: str, texts: Sequence[str]) -> None:
        try:
            shown = wire.call("show", node_id=node_id)["text"]
        except RuntimeError as error:
            self.complain(f"{node_id} is lost: {error}")
            return
        if missing := [text for text in texts if text not in shown]:
            self.complain(f"{node_id} lacks {missing[0][:40]!r} and {len(missing) - 1} more")


def at_the_start(store: Store, database: str, pages: Sequence[int]) -> Account:
    """Damage each page of a copy, and start a daemon on that."""
    account = Account(database)
    for page in pages:
        kept = dict(store.memories)
        daemon = store.damaged(database, page)
        trial = Trial(store, daemon, account, f"{database} page {page}")
        try:
            with daemon:
                trial.ask_at_once()
                trial.remember(f"Anton keeps kettle n{page}z in the shed.")
                trial.wait_until_whole()
                trial.check_all()
                daemon.stop()
            account.noticed += bool(list((store.folder / "life" / "data").rglob("*.set-aside.db")))
            if database == "ledger":
                _salvage(trial, daemon)
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            trial.complain(f"{type(error).__name__}: {error}"[:1500])
        account.pages += 1
        store.memories = kept
        print(f"{trial.name}: {account.noticed} noticed, {len(account.violations)} broken", file=sys.stderr)
    return account


def _salvage(trial: Trial, daemon: DaemonUnderTest) -> None:
    """Do what the daemon names where the ledger was set aside, and see that everything is there after it."""
    data = daemon.folder / "data"
    if not list(data.glob("ledger.damaged-*.db")):
        return
    trial.account.noticed += 1
    command = [sys.executable, "-P", "-m", "dreamd.daemon.cli.main", "salvage"]
    done = subprocess.run(command, env=daemon.environ, cwd=daemon.folder, capture_output=True, text=True, timeout=120)
    if done.returncode:
        trial.complain(f"salvage ended with {done.returncode}: {done.stderr[-300:]}")
    with DaemonUnderTest(daemon.folder, _environ()) as again:
        trial.daemon = again
        trial.wait_until_whole()
        trial.check_all()
        if again.call("dream", kind="daily", dry_run=True, wait=True)["state"] not in {"planned", "preempted"}:
            trial.complain("no dream can be had after the salvage")
        again.stop()


def while_running(store: Store, pages: int) -> Account:
    """Damage pages of the index of one daemon that runs, each in the file that is in use then."""
    account = Account("index, running")
    rng = random.Random(0)
    kept = dict(store.memories)
    shutil.rmtree(store.folder / "life", ignore_errors=True)
    shutil.copytree(store.pristine, store.folder / "life" / "data", symlinks=True)
    with DaemonUnderTest(store.folder / "life", _environ()) as daemon:
        index = daemon.folder / "data" / PLACES["index"]
        for number in range(pages):
            before = os.path.realpath(index)
            page = rng.randrange(Path(before).stat().st_size // PAGE_BYTES)
            trial = Trial(store, daemon, account, f"running, {number}: page {page}")
            noise_over(index, page)
            try:
                trial.ask_at_once()
                trial.remember(f"Anton keeps kettle r{number}z in the shed.")
                daemon.call("check")  # finds what nobody has met
                trial.wait_until_whole()
                trial.check_all()
            except (RuntimeError, OSError) as error:
                trial.complain(f"{type(error).__name__}: {error}"[:1500])
                break
            account.noticed += os.path.realpath(index) != before
            account.pages += 1
        daemon.stop()
    store.memories = kept
    return account


def _holds(found: dict[str, Any], text: str) -> bool:
    return any(text[:60] in hit["text"] or hit["text"] in text for hit in found["hits"])


def _environ() -> dict[str, str]:
    return {"DREAMD_STORE__EMBEDDING__MODEL": "stub"}


def _spread(count: int, most: int) -> list[int]:
    """Every page, or so many of them, spread over the file; the first ones hold the schema."""
    return list(range(count)) if most <= 0 or most >= count else sorted({count * n // most for n in range(most)})


def accounts(folder: Path, pages: int) -> Iterator[Account]:
    """Take every account; `pages` of each database, 0: every one (of the ledger LEDGER_PAGES)."""
    store = Store(folder)
    for database in PLACES:
        most = LEDGER_PAGES if database == "ledger" and not pages else pages
        chosen = _spread(store.pages(database), most)
        account = at_the_start(store, database, chosen)
        account.judge(len(chosen))
        yield account
    account = while_running(store, pages or RUNNING_PAGES)
    account.judge(pages or RUNNING_PAGES)
    yield account


def measure(options: Options) -> Iterator[Row]:
    """One row a database."""
    with own_folder("damage") as folder:
        for account in accounts(folder, options.of(0, 4)):
            say(f"{account.database}: {account.pages} pages")
            bad = [*account.violations, *account.too_little]
            how = (
                f"noise over one page at a time; {account.noticed} noticed, {account.recalls} recalls, the slowest "
                f"{account.slowest_s:.2f} s" + (f"; {'; '.join(bad)[:1000]}" if bad else "")
            )
            measured = f"{account.pages} pages, {len(account.violations)} promises broken"
            yield Row(f"a damaged page of the {account.database}", measured, TARGET, not bad, how)


def main() -> int:
    """Print one JSON object; exit with 1 when a promise was broken, or too little tried."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=0, help="of each database; 0: every one")
    parser.add_argument("--keep", type=Path, help="work in this folder and leave it")
    given = parser.parse_args()
    began = time.monotonic()
    with own_folder("damage") as own:
        found = list(accounts(given.keep or own, given.pages))
    result = {"accounts": [asdict(one) for one in found], "seconds": round(time.monotonic() - began, 1)}
    print(json.dumps(result, indent=2))
    return int(any(one.violations or one.too_little for one in found))


if __name__ == "__main__":
    sys.exit(main())
