"""Kill a process that writes to a store, again and again: `python tests/bench/kill_store.py --kills 1000`.

A child opens the store in a folder, checks everything that was ever acknowledged there, and goes on remembering,
observing, dreaming and undoing from several threads until the parent kills it at a random instant, start-up and check
included. After some kills on one folder, one child checks in peace, compares the index with a rebuild, and a new
folder begins. The parent imports once and forks, so that a kill costs milliseconds.

What a kill leaves in the system's cache is there afterwards, synced or not; power_loss.py tells what a power cut takes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # no threads in the parent: it forks

import apsw
from dreamd.store import okf
from dreamd.store.embedding.embedding import StubEmbedder
from dreamd.store.index.tombstones import edit_key
from dreamd.store.ledger.journal import sha256
from dreamd.store.ledger.records import Run
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import Action, ActionKind, Changeset, Kind, Level, Memory, NewTurn, SessionHead
from dreamd.store.settings import StoreSettings

NOW = datetime(2026, 11, 21, 9, tzinfo=UTC)
KILLS_PER_FOLDER = 20
WORDS = "river lantern copper meadow violin harbor pepper glacier saddle orchard ribbon walnut tunnel feather".split()
WORKING_SHARE, PROMISES_A_WORKER = 2, 3
HALF_WAY_SHARE, HALF_WAY_FROM = 4, 20
"""At least every second kill must meet a child at work, each of which has promised so much on average, and from so many
kills on one in so many must leave a dream or undo half applied; else too little was tried."""
QUERIES = (*WORDS[:6], "river lantern", "copper meadow violin", "glacier saddle orchard walnut")


def text_of(seed: int) -> str:
    """A text that nobody else has, of a few words or a few hundred."""
    rng = random.Random(seed)
    length = rng.choice((5, 10, 40, 300))
    return f"Number {seed} says " + " ".join(rng.choice(WORDS) for _ in range(length))


@dataclass
class Expected:
    """What has been acknowledged in a folder; of a dream or undo under way, both outcomes."""

    facts: dict[str, int] = field(default_factory=dict)  # node id: seed of its text
    turns: dict[str, list[int]] = field(default_factory=dict)  # session: seeds, in their order
    dreamt: dict[str, str] = field(default_factory=dict)  # path: hash
    under_way: dict[str, str] | None = None
    applied: list[str] = field(default_factory=list)
    next_seed: int = 1

    def take(self, line: dict[str, Any]) -> None:
        """Learn from what a child wrote."""
        match line["op"]:
            case "fact":
                self.facts[line["node_id"]] = line["seed"]
            case "turns":
                self.turns.setdefault(line["session"], []).extend(line["seeds"])
            case "begin":
                self.under_way = line["dreamt"]
            case "end" | "resolved":
                self.dreamt, self.under_way, self.applied = line["dreamt"], None, line["applied"]


class Child:
    """One process: check, then work until killed."""

    def __init__(self, folder: Path, expected: Expected, pipe: int, seed: int) -> None:
        self.expected = expected
        self.pipe = pipe
        self.seed = seed
        paths = StorePaths(
            folder / "vault",
            folder / "ledger.db",
            folder / "index" / "index.db",
            folder / "index" / "embeddings.db",
            folder / "runs",
        )
        self.store = MemoryStore.open(paths, StoreSettings(), StubEmbedder(), lambda: NOW)

    def say(self, op: str, **what: object) -> None:
        """One line into the pipe, whole or not at all; it outlives this process."""
        os.write(self.pipe, json.dumps({"op": op, **what}).encode() + b"\n")

    # ---- checking

    def check(self, *, thorough: bool) -> None:
        """Say what is missing of what was acknowledged; after a kill look at the newest, in the end at all."""
        newest = None if thorough else 200
        for node_id, seed in list(self.expected.facts.items())[-(newest or 0) :]:
            shown = self.store.show(node_id)
            if shown.text.strip() != text_of(seed) or text_of(seed).encode() not in self.store.vault.read(shown.path):
                self.say("lost", what=f"fact {node_id}")
        for session, seeds in self.expected.turns.items():
            for seed in seeds[-(newest or 0) :]:
                self.check_turn(session, seed)
        self.check_dreams()

    def check_turn(self, session: str, seed: int) -> None:
        """A turn is in its session's file, once, and its order among others is that of the acknowledgements."""
        path = self.store.show(session).path
        if self.store.vault.read(path).count(f"Number {seed} says ".encode()) != 1:
            self.say("lost", what=f"turn {session} {seed}")

    def check_dreams(self) -> None:
        """All of a dream or nothing of it."""
        found = {}
        for stamp in self.store.vault.walk():
            if stamp.path.startswith("scenarios/"):
                found[stamp.path] = sha256(self.store.vault.read(stamp.path))
        if found not in (self.expected.dreamt, self.expected.under_way):
            self.say("half", found=len(found), expected=len(self.expected.dreamt))
        runs: Sequence[Run] = self.store.runs(10_000)
        applied = [run.run_id for run in reversed(runs) if run.state == "applied"]
        self.say("resolved", dreamt=found, applied=applied)
        self.expected.take({"op": "resolved", "dreamt": found, "applied": applied})

    def compare_with_rebuild(self) -> None:
        """What is listed and found is the same before and after the index is made anew."""
        before = self.answers()
        self.store.rebuild()
        if before != self.answers():
            self.say("index", what="a rebuilt index answers otherwise")

    def answers(self) -> list[object]:
        """What the index says to fixed questions, embeddings awaited."""
        while self.store.status().pending_embeddings:
            time.sleep(0.01)
        listed = sorted(line.node_id for line in self.store.list(limit=10**6))
        found = [[hit.node_id for hit in self.store.recall(query, limit=20).hits] for query in QUERIES]
        return [listed, found]

    # ---- working

    def work(self) -> None:
        """Write from four threads, for ever."""
        base = self.seed * 1_000_000
        for thread, job in enumerate((self.remember, self.remember, self.observe)):
            threading.Thread(target=self.until_killed, args=(job, base + thread * 100_000), daemon=True).start()
        self.dream(base + 900_000)

    def until_killed(self, job: Callable[[int], None], seed: int) -> None:
        """Do a job that only death may end: a write that is refused is a failure."""
        try:
            job(seed)
        except Exception:
            self.say("failed", what=traceback.format_exc()[-1500:])

    def remember(self, seed: int) -> None:
        """Statement after statement, each acknowledged before the next."""
        while True:
            seed += 1
            node_id = self.store.remember(text_of(seed)).result()
            self.say("fact", node_id=node_id, seed=seed)

    def observe(self, seed: int) -> None:
        """Turns into three sessions, some of them sent twice."""
        rng = random.Random(seed)
        while True:
            head = SessionHead(f"session-{rng.randrange(3)}", "demo", started_at=NOW)
            seeds = list(range(seed + 1, seed + 1 + rng.randint(1, 4)))
            seed = seeds[-1]
            turns = [NewTurn("user", text_of(n), NOW, external_id=str(n)) for n in seeds]
            self.store.observe(head, turns).result()
            self.say("turns", session=head.session_id, seeds=seeds)
            if rng.random() < 0.2:
                self.store.observe(head, turns).result()

    def dream(self, seed: int) -> None:
        """Apply changesets that make, rewrite and delete scenarios; undo some of them, always the latest."""
        rng = random.Random(seed)
        dreamt, applied = dict(self.expected.dreamt), list(self.expected.applied)
        undoable: list[dict[str, str]] = []
        while True:
            seed += 1
            if undoable and rng.random() < 0.4:
                before = undoable.pop()
                self.say("begin", dreamt=before)
                self.store.undo(applied.pop())
                dreamt = before
            else:
                undoable.append(dict(dreamt))
                actions = self.actions(rng, seed, dreamt)
                for action in actions:
                    if action.content is None:
                        del dreamt[action.path]
                    else:
                        dreamt[action.path] = sha256(action.content)
                self.say("begin", dreamt=dreamt)
                run_id = f"run-{seed}"
                self.store.apply(Changeset(run_id=run_id, actions=actions))
                applied.append(run_id)
            self.say("end", dreamt=dreamt, applied=applied)

    def actions(self, rng: random.Random, seed: int, dreamt: dict[str, str]) -> tuple[Action, ...]:
        """A few new scenarios, a few rewritten, a few deleted, but none whose deletion was undone before."""
        forbidden = self.store.ledger.tombstones()
        old = rng.sample(sorted(dreamt), min(len(dreamt), rng.randint(0, 4)))
        actions = [
            _action(
                path,
                dreamt[path],
                None
                if (len(dreamt) > 8 or rng.random() < 0.3) and edit_key(path, b"", None) not in forbidden
                else _scenario(seed, n),
            )
            for n, path in enumerate(old)
        ]
        actions += [_action(f"scenarios/s--{seed}-{n}.md", None, _scenario(seed, 10 + n)) for n in range(3)]
        return tuple(actions)


def _scenario(seed: int, number: int) -> bytes:
    return okf.from_memory(
        Memory(
            node_id=f"scenario-{seed}-{number}",
            level=Level.SCENARIO,
            kind=Kind.SCENARIO,
            title=f"Scenario {seed} {number}",
            text=text_of(seed * 20 + number),
            created_at=NOW,
        )
    )


def _action(path: str, before: str | None, after: bytes | None) -> Action:
    kind = ActionKind.DELETE if after is None else ActionKind.CREATE if before is None else ActionKind.REPLACE
    return Action(kind=kind, path=path, node_id=path, stage="consolidate", reason="", pre_sha256=before, content=after)


# ---- the parent


def _live(folder: Path, expected: Expected, pipe: int, seed: int, *, in_peace: bool) -> NoReturn:
    try:
        child = Child(folder, expected, pipe, seed)
        child.check(thorough=in_peace)
        if in_peace:
            child.compare_with_rebuild()
            child.store.close()
            child.say("done")
        else:
            child.say("working")
            child.work()
    except BaseException:
        os.write(pipe, json.dumps({"op": "failed", "what": traceback.format_exc()[-1500:]}).encode() + b"\n")
    os._exit(0)


def is_half_applied(folder: Path) -> bool:
    """Whether a dead child had journaled a run and not finished it; a copy is asked, and recovered."""
    with tempfile.TemporaryDirectory() as name:
        for file in folder.glob("ledger.db*"):
            if not file.name.endswith("-shm"):
                shutil.copy(file, name)
        if not Path(name, "ledger.db").exists():
            return False
        with closing(apsw.Connection(f"{name}/ledger.db")) as ledger:
            if not ledger.execute("SELECT 1 FROM sqlite_master WHERE name = 'journal'").fetchall():
                return False
            return bool(ledger.execute("SELECT 1 FROM journal WHERE state = '' AND run_id IS NOT NULL").fetchall())


class Round:
    """One child's life, as its parent sees it."""

    def __init__(self, folder: Path, expected: Expected, seed: int, *, in_peace: bool = False) -> None:
        self.expected = expected
        self.began = time.monotonic()
        self.acknowledged = 0
        self.worked = self.finished = False
        self.complaints: list[str] = []
        self._rest = b""
        self._reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._reading)
            _live(folder, expected, writing, seed, in_peace=in_peace)
        os.close(writing)

    def listen(self, until: float) -> bool:
        """Take what the child says; False when it has ended, or at the instant `until`."""
        while (left := until - time.monotonic()) > 0:
            if not select.select([self._reading], [], [], left)[0]:
                return True
            data = os.read(self._reading, 65536)
            if not data:
                return False
            self._take(data)
        return True

    def _take(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in map(json.loads, lines):
            self.expected.take(line)
            self.acknowledged += line["op"] in {"fact", "turns", "end"}
            self.worked |= line["op"] == "working"
            self.finished |= line["op"] == "done"
            if line["op"] in {"lost", "half", "index", "failed"}:
                self.complaints.append(json.dumps(line))

    def kill(self) -> None:
        """The end, and what the child had said until then."""
        os.kill(self.pid, signal.SIGKILL)
        while self.listen(time.monotonic() + 60):
            pass
        self.reap()

    def reap(self) -> None:
        """Let go of it."""
        os.waitpid(self.pid, 0)
        os.close(self._reading)


def _one_kill(folder: Path, expected: Expected, rng: random.Random, seed: int) -> Round:
    child = Round(folder, expected, seed)
    if rng.random() < 0.3:  # anywhere, start-up and check included
        child.listen(child.began + rng.uniform(0.0, 0.3))
    else:
        while not child.worked and child.listen(time.monotonic() + 0.005):
            pass
        child.listen(time.monotonic() + rng.uniform(0.0, 0.25))
    child.kill()
    return child


def too_little(kills: int, working: int, acknowledged: int, half_way: int) -> list[str]:
    """Name what was tried too seldom for its silence to mean anything."""
    missing = []
    if working * WORKING_SHARE < kills:
        missing.append(f"{working} of {kills} kills met a child at work")
    if acknowledged < PROMISES_A_WORKER * max(1, working):
        missing.append(f"{acknowledged} promises of {working} children at work")
    if kills >= HALF_WAY_FROM and half_way * HALF_WAY_SHARE < kills:
        missing.append(f"{half_way} of {kills} kills left a dream or undo half applied")
    return missing


def main() -> int:
    """Print one JSON object; exit with 1 when anything was lost, refused, half done, or too little was tried."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng = random.Random(given.seed)
    began = time.monotonic()
    kills = working = acknowledged = folders = half_way = 0
    complaints: list[str] = []
    while kills < given.kills:
        with tempfile.TemporaryDirectory() as name:
            folder, expected = Path(name), Expected()
            folders += 1
            for _ in range(min(KILLS_PER_FOLDER, given.kills - kills)):
                kills += 1
                child = _one_kill(folder, expected, rng, given.seed + kills)
                working += child.worked
                acknowledged += child.acknowledged
                complaints += child.complaints
                half_way += is_half_applied(folder)
            child = Round(folder, expected, 0, in_peace=True)
            child.listen(time.monotonic() + 600)
            child.reap()
            complaints += child.complaints if child.finished else [*child.complaints, "the last check did not finish"]
    result = {
        "kills": kills,
        "while_writing": working,
        "caught_half_way": half_way,
        "folders": folders,
        "acknowledged": acknowledged,
        "violations": len(complaints),
        "first_violations": complaints[:5],
        "too_little": (missing := [] if complaints else too_little(kills, working, acknowledged, half_way)),
        "seconds": round(time.monotonic() - began, 1),
    }
    print(json.dumps(result, indent=2))
    return 1 if complaints or missing else 0


if __name__ == "__main__":
    sys.exit(main())
