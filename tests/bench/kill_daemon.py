"""Kill the whole daemon at random instants and see what is lost: `python tests/bench/kill_daemon.py --kills 60`.

One daemon lives on one folder, round after round: it is written to, imports, dreams or undoes, and is killed in the
middle of it, a dream's application above all. After each restart everything that was ever acknowledged must be there,
every run must be whole (each of its files as the ledger says), and the index must be equal to a rebuilt one.

Nothing may be refused, and nothing is said to be kept where too little was tried: there are floors on promises, on
applications that had begun, and on kills that caught one half way.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import apsw
from dreamd.store.ledger.journal import sha256
from dreamd.store.ledger.ledger import Ledger
from dreamd.store.ledger.records import RecordedAction, Run
from dreamd.store.vault.vault import is_kept

from tests.bench.daemon_under_test import DaemonUnderTest, Refused, Wire, request
from tests.bench.scratch import own_folder

THINGS = "parcel lantern ledger saddle orchard violin harbour meadow tunnel copper walnut ribbon glacier pepper".split()
PLACES = "the mill, the blue cellar, the old harbour, room nine, the greenhouse, the north tower".split(", ")
SENTENCES = (
    "I decided to keep {thing} {mark} in {place}.",
    "My colleague Vera moved {thing} {mark} to {place} on {day} May 2026.",
    "We chose {place} for {thing} {mark} because it is dry.",
    "I prefer {thing} {mark} to everything else in {place}.",
    "{thing} {mark} must never be stored in {place}.",
)
IN_FLIGHT_S = (0.02, 1.2)
MOVING_S = (0.0, 0.05)

WRITING, CHANGING = ("writes", "imports"), ("dream", "undo")
PROMISES_A_ROUND = 1
"""Of a kind of writing, on average over its rounds, at least; hundreds are usual."""
APPLYING_SHARE = 2
HALF_WAY_SHARE, HALF_WAY_FROM = 8, 8
"""Of the dreams one in so many must have begun to be applied when it was killed, and of dreams and undos one in so many
must have been caught half way, from so many on; about every second is."""


@dataclass
class Acknowledged:
    """What the daemon has promised to keep; filled by several threads, whose appends are atomic."""

    memories: list[tuple[str, str]] = field(default_factory=list)
    turns: list[tuple[str, str]] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)

    def count(self) -> int:
        """How many promises."""
        return len(self.memories) + len(self.turns) + len(self.runs)


class Trial:
    """A folder, the daemon on it, and what it owes."""

    def __init__(self, daemon: DaemonUnderTest, seed: int) -> None:
        self.daemon = daemon
        self.rng = random.Random(seed)
        self.owed = Acknowledged()
        self.counter = 0
        self.violations: list[str] = []
        self.killed_in: Counter[str] = Counter()
        self.promised_in: Counter[str] = Counter()
        self.dreams: Counter[str] = Counter()
        self.applications = 0
        self.caught_half_way = 0
        self._dying = threading.Event()
        self._numbering = threading.Lock()

    # ---- work

    def sentence(self) -> str:
        """A text that nobody else has, of a kind that a dream learns from."""
        with self._numbering:
            self.counter += 1
            mark = f"q{self.counter}z"
            words = {"thing": self.rng.choice(THINGS), "place": self.rng.choice(PLACES), "day": self.rng.randint(1, 28)}
            return self.rng.choice(SENTENCES).format(mark=mark, **words)

    def remember(self) -> None:
        """Remember without end."""
        with closing(self.daemon.wire()) as wire:
            while True:
                text = self.sentence()
                self.owed.memories.append((wire.call("remember", text=text)["node_id"], text))

    def observe(self) -> None:
        """Tell of sessions without end."""
        with closing(self.daemon.wire()) as wire:
            while True:
                session = f"s-{mark_of(self.sentence())}"
                for _ in range(4):
                    texts = [self.sentence() for _ in range(3)]
                    turns = [{"role": "user", "text": text, "external_id": mark_of(text)} for text in texts]
                    wire.call("observe", session={"session_id": session, "channel": "kills"}, turns=turns)
                    self.owed.turns += [(session, text) for text in texts]

    def import_files(self) -> None:
        """Import chats without end."""
        folder = self.daemon.folder / "chats"
        folder.mkdir(exist_ok=True)
        with closing(self.daemon.wire()) as wire:
            while True:
                texts = [self.sentence() for _ in range(40)]
                session = f"chat-{self.counter}"
                file = folder / f"{session}.jsonl"
                lines = [
                    {"session_id": session, "role": "user", "content": text, "id": str(number)}
                    for number, text in enumerate(texts)
                ]
                file.write_text("".join(json.dumps(line) + "\n" for line in lines))
                wire.call("import", paths=[str(file)], channel="kills")
                self.owed.turns += [(session, text) for text in texts]

    def dream(self, applying: threading.Event) -> None:
        """Dream, telling when the application begins."""
        with closing(self.daemon.wire()) as wire:
            answer = _dreamt(wire, applying)
        if "error" in answer:
            raise Refused(f"dream: {answer['error']}")
        self.dreams[answer["result"]["state"]] += 1
        if answer["result"]["state"] == "applied":
            applying.set()
            self.owed.runs.append(answer["result"]["run_id"])

    def undo(self) -> None:
        """Undo the latest dream."""
        for run in self.daemon.call("runs", limit=5)["runs"]:
            if run["state"] == "applied":
                self.daemon.call("undo", run_id=run["run_id"])
                return

    # ---- one round

    def round(self, kind: str) -> None:
        """Work, kill, start again, look."""
        applying = threading.Event()
        jobs: dict[str, list[Callable[[], None]]] = {
            "writes": [self.remember, self.remember, self.observe],
            "imports": [self.import_files, self.remember],
            "dream": [lambda: self.dream(applying)],
            "undo": [self.undo],
        }
        promised = self.owed.count()
        self._dying.clear()
        threads = [threading.Thread(target=self._until_killed, args=(job,)) for job in jobs[kind]]
        for thread in threads:
            thread.start()
        if kind == "dream":
            self.applications += self._has_begun(applying, threads[0])
        if kind in CHANGING and self.rng.random() < 0.7:
            self._until_files_move(IN_FLIGHT_S[1])
            time.sleep(self.rng.uniform(*MOVING_S))
        else:
            time.sleep(self.rng.uniform(*IN_FLIGHT_S))
        self._dying.set()
        self.daemon.kill()
        for thread in threads:
            thread.join()
        self.killed_in[kind] += 1
        self.promised_in[kind] += self.owed.count() - promised
        self.caught_half_way += self._is_half_applied()
        self.daemon.start()
        self.daemon.wait_until_it_answers()

    def _until_killed(self, job: Callable[[], None]) -> None:
        """Do a job until the daemon dies under it; whatever else ends it with an error is a violation."""
        try:
            job()
        except Exception as error:
            died = isinstance(error, OSError | ValueError | RuntimeError) and not isinstance(error, Refused)
            if not (died and self._dying.is_set()):
                self.violations.append(f"{type(error).__name__}: {error}"[:500])

    def _has_begun(self, applying: threading.Event, dream: threading.Thread) -> bool:
        """Wait until a dream is being applied, or is over without that."""
        deadline = time.monotonic() + 120
        while dream.is_alive() and not applying.wait(0.01):
            if time.monotonic() > deadline:
                return False
        return applying.is_set()

    def _until_files_move(self, timeout_s: float) -> None:
        """Wait for the first file that a run makes or takes away: from here on its application is half done."""
        facts = self.daemon.folder / "data" / "vault"
        deadline = time.monotonic() + 10 * timeout_s
        before = _count(facts)
        while _count(facts) == before and time.monotonic() < deadline:
            time.sleep(0.0005)

    def _is_half_applied(self) -> bool:
        """Whether the dead daemon had journaled a run and not finished it; a copy is asked, and recovered."""
        data = self.daemon.folder / "data"
        with tempfile.TemporaryDirectory() as folder:
            for file in data.glob("ledger.db*"):
                if not file.name.endswith("-shm"):
                    shutil.copy(file, folder)
            with closing(apsw.Connection(f"{folder}/ledger.db")) as ledger:
                return bool(ledger.execute("SELECT 1 FROM journal WHERE state = '' AND run_id IS NOT NULL").fetchall())

    # ---- the verdict

    def too_little(self) -> list[str]:
        """Name what was tried too seldom for its silence to mean anything."""
        missing = [
            f"{self.promised_in[kind]} promises in {self.killed_in[kind]} rounds of {kind}"
            for kind in WRITING
            if self.promised_in[kind] < PROMISES_A_ROUND * self.killed_in[kind]
        ]
        dreams, changes = self.killed_in["dream"], sum(self.killed_in[kind] for kind in CHANGING)
        if self.applications * APPLYING_SHARE < dreams:
            missing.append(f"{self.applications} of {dreams} dreams began to be applied")
        if changes >= HALF_WAY_FROM and self.caught_half_way * HALF_WAY_SHARE < changes:
            missing.append(f"{self.caught_half_way} of {changes} dreams and undos were caught half way")
        return missing

    def check(self) -> None:
        """Add what was lost, half done or told otherwise to the violations."""
        deadline = time.monotonic() + 120
        while self.daemon.call("status")["journal"]:
            if time.monotonic() > deadline:
                self.violations.append("what was journaled never reaches its files")
                break
            time.sleep(0.02)
        files = dict(self._files())
        self._check_promises(files)
        self._check_runs(files)
        self._check_index()

    def _files(self) -> Iterator[tuple[str, bytes]]:
        vault = self.daemon.folder / "data" / "vault"
        for path in vault.rglob("*.md"):
            yield str(path.relative_to(vault)), path.read_bytes()

    def _check_promises(self, files: dict[str, bytes]) -> None:
        files = {path: data for path, data in files.items() if is_kept(path)}  # a table of contents keeps no promise
        facts = "\n".join(data.decode() for path, data in files.items() if b"level: L1" in data)
        lost = [f"lost memory {node}: {text}" for node, text in self.owed.memories if text not in facts]
        sessions = {
            path.rpartition("/")[2].removesuffix(".md"): Counter(data.decode().splitlines())
            for path, data in files.items()
            if path.startswith("sessions/")
        }
        for session, text in self.owed.turns:
            if (found := sessions.get(session, Counter())[text]) != 1:
                lost.append(f"turn in {session} is there {found} times: {text}")
        self.violations += lost

    def _check_runs(self, files: dict[str, bytes]) -> None:
        """Every file as the last run that touched it left it, and none from a run that is not in the history."""
        ledger = Ledger(self.daemon.folder / "data" / "ledger.db", read_only=True)
        try:
            runs = ledger.runs(100_000)
            expected = left_by([(run, ledger.actions(run.run_id)) for run in runs])
        finally:
            ledger.close()
        for path, (wanted, run_id) in expected.items():
            found = sha256(files[path]) if path in files else None
            if found != wanted:
                self.violations.append(
                    f"{path} is not as run {run_id} left it: {'gone' if found is None else found[:8]}, not "
                    f"{'gone' if wanted is None else wanted[:8]}"
                )
        known = {run.run_id for run in runs}
        self.violations += [
            f"run {run_id} was acknowledged and is not known" for run_id in self.owed.runs if run_id not in known
        ]
        for path, data in files.items():
            made_by = re.search(rb"^run: *\"?([^\s\"]+)", data, re.MULTILINE)
            if made_by and path not in expected:
                self.violations.append(f"{path} is of run {made_by[1].decode()}, which is not in the history")

    def _check_index(self) -> None:
        """The projection, told row by row, before and after it is made anew."""
        self.daemon.wait_until_embedded()
        for node, text in self.owed.memories[-5:]:
            hits = self.daemon.call("recall", query=text, channel="*", limit=10)["hits"]
            if text not in [hit["text"] for hit in hits]:
                self.violations.append(f"memory {node} is kept and not found: {text}")
        before = self._projection()
        self.daemon.call("rebuild")
        self.daemon.wait_until_embedded()
        after = self._projection()
        for table, rows in before.items():
            if different := rows ^ after[table]:
                self.violations.append(
                    f"{table}: {len(different)} rows differ after a rebuild, as {min(different)!r:.300}"
                )

    def _projection(self) -> dict[str, set[tuple[Any, ...]]]:
        connection = apsw.Connection(
            str(self.daemon.folder / "data" / "index" / "index.db"), flags=apsw.SQLITE_OPEN_READONLY
        )
        try:
            return {table: set(connection.execute(f"SELECT {columns} FROM {table}")) for table, columns in PROJECTION}
        finally:
            connection.close()


def left_by(history: Sequence[tuple[Run, Sequence[RecordedAction]]]) -> dict[str, tuple[str | None, str]]:
    """Return the hash that each path was left with (None: no file), and the run that left it so.

    A run takes effect when it is applied, and again when it is undone, which may be after a later run was.
    """
    events = [(run.ended_at or run.started_at, False, run.run_id, actions) for run, actions in history]
    events += [(run.undone_at, True, run.run_id, actions) for run, actions in history if run.undone_at is not None]
    left: dict[str, tuple[str | None, str]] = {}
    for _, is_undo, run_id, actions in sorted(events, key=lambda event: event[:3]):
        first: dict[str, str | None] = {}
        for action in actions:
            first.setdefault(action.path, action.pre_sha256)
            if is_undo and action.state == "undone":
                left[action.path] = first[action.path], run_id
            elif not is_undo and action.state in {"applied", "undone"}:
                left[action.path] = action.post_sha256, run_id
    return left


def _dreamt(wire: Wire, applying: threading.Event) -> dict[str, Any]:
    """Have a dream; return the daemon's answer."""
    wire._socket.sendall(request("dream", kind="daily", wait=True))
    said = b""
    while b'"result"' not in said and b'"error"' not in said:
        data = wire._socket.recv(2**16)
        if not data:
            raise ConnectionResetError("the daemon closed the connection")
        said += data
        if b'"stage":"apply"' in said:
            applying.set()
    return dict(json.loads(said.splitlines()[-1]))


def mark_of(sentence: str) -> str:
    """The word that no other sentence has."""
    found = re.search(r"q\d+z", sentence)
    assert found is not None
    return found[0]


def _count(folder: Path) -> int:
    return sum(len(files) for _, _, files in os.walk(folder))


PROJECTION = (
    ("file", "path, parsed_to, problem"),
    (
        "node",
        "node_id, path, level, kind, title, text, context, channel, live, session_id, ordinal, role, external_id, tags",
    ),
    ("chunk", 'chunk_id, node_id, start, "end", text_hash, embedded'),
    ("link", "source, target, kind, rank"),
)


def main() -> int:
    """Print one JSON object; exit with 1 when anything was lost or refused, or too little tried."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="work in this folder and leave it")
    given = parser.parse_args()
    began = time.monotonic()
    with own_folder("kills") as own:
        daemon = DaemonUnderTest(given.keep or own, {"DREAMD_STORE__EMBEDDING__MODEL": "stub"})
        with daemon:
            trial = Trial(daemon, given.seed)
            # A dream needs something to learn, an undo something to undo.
            kinds = ["imports", "dream", "writes", "dream", "undo", "imports", "dream", "writes"]
            for number in range(given.kills):
                trial.round(kinds[number % len(kinds)])
                trial.check()
                if trial.violations:
                    break
                print(f"kill {number + 1}: {trial.owed.count()} promises kept", file=sys.stderr)
    result = {
        "kills": sum(trial.killed_in.values()),
        "seed": given.seed,
        "killed_in": trial.killed_in,
        "promised_in": trial.promised_in,
        "applications": trial.applications,
        "caught_half_way": trial.caught_half_way,
        "acknowledged": trial.owed.count(),
        "violations": trial.violations[:10],
        "too_little": (too_little := [] if trial.violations else trial.too_little()),
        "seconds": round(time.monotonic() - began, 1),
    }
    print(json.dumps(result, indent=2))
    return 1 if trial.violations or too_little else 0


if __name__ == "__main__":
    sys.exit(main())
