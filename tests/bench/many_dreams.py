"""Night after night: `python -m tests.bench.many_dreams --dreams 200`, with kills, and nothing may be lost.

Before each dream a little is said and kept; then the dream is had, and of some the child or the daemon is killed at a
random moment. Everything acknowledged must be there after every dream, and no process or file of a dead one; every so
often the vault, the ledger and the index are held against each other, and a day without news is dreamt again.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import psutil

from .daemon_under_test import DaemonUnderTest
from .kill_daemon import Trial
from .options import Options
from .scratch import own_folder
from .table import Row, say

KILL_CHILD, KILL_DAEMON = 0.2, 0.2
KILL_WITHIN_S = 6.0
LOOK_CLOSELY_EVERY, DREAM_AGAIN_EVERY = 20, 10
APPLIED_SHARE, KILLED_SHARE, KILLED_FROM = 3, 10, 20
"""Of the dreams one in three must have been applied at least, and from twenty on one in ten have met a kill; about two
in three are, and four in ten do."""
BOUND_BYTES, BOUND_BYTES_A_TURN = 32 * 2**20, 48 * 2**10
"""What the whole data folder may take: a start, and so much for every turn and memory that was kept, with its vectors,
what was made of it, and the history that undoes it."""


class Nights:
    """A daemon, what it owes, and what was found wrong."""

    def __init__(self, daemon: DaemonUnderTest, seed: int) -> None:
        self.daemon = daemon
        self.rng = random.Random(seed)
        self.trial = Trial(daemon, seed)
        self.states: Counter[str] = Counter()
        self.killed: Counter[str] = Counter()
        self.again = 0
        self.size_bytes = 0
        self.violations = self.trial.violations  # the same list

    def night(self, number: int) -> None:
        """Say something, dream, and look."""
        self._speak(number)
        chance = self.rng.random()
        victim = "child" if chance < KILL_CHILD else "daemon" if chance < KILL_CHILD + KILL_DAEMON else ""
        state = self._dream(victim)
        self.states[state] += 1
        self._look()
        if state in ("applied", "nothing") and number % DREAM_AGAIN_EVERY == 0:
            self._dream_again()
        if number % LOOK_CLOSELY_EVERY == 0:
            self.trial.check()

    def _speak(self, number: int) -> None:
        wire = self.daemon.wire()
        session = f"night-{number}"
        texts = [self.trial.sentence() for _ in range(self.rng.randint(2, 5))]
        turns = [{"role": "user", "text": text, "external_id": str(place)} for place, text in enumerate(texts)]
        wire.call("observe", session={"session_id": session, "channel": "nights"}, turns=turns)
        self.trial.owed.turns += [(session, text) for text in texts]
        text = self.trial.sentence()
        self.trial.owed.memories.append((wire.call("remember", text=text)["node_id"], text))
        wire.close()

    def _dream(self, victim: str) -> str:
        """Have one; the state it ended in, of one whose daemon was killed as its history has it."""
        answers: list[dict[str, Any]] = []

        def dream() -> None:
            try:
                answers.append(self.daemon.call("dream", kind="daily", wait=True))
            except (RuntimeError, OSError) as error:
                if not victim:
                    self.violations.append(f"a dream that nobody touched: {error}"[:500])

        dreaming = Thread(target=dream)
        dreaming.start()
        if victim:
            time.sleep(self.rng.uniform(0, KILL_WITHIN_S))
            child = self._child()
            if victim == "daemon":
                self.daemon.kill()
                self.killed["daemon"] += 1
            elif child is not None:
                with suppress(psutil.Error):
                    child.kill()
                    self.killed["child"] += 1
        dreaming.join()
        if victim == "daemon":
            self._expect_no_orphan(child)
            self.daemon.start()
            self.daemon.wait_until_it_answers()
        if answers:
            self.trial.owed.runs += [answers[0]["run_id"]] if answers[0]["state"] == "applied" else []
            return str(answers[0]["state"])
        return str(self.daemon.call("runs", limit=1)["runs"][0]["state"])

    def _child(self) -> psutil.Process | None:
        assert self.daemon.process is not None
        with suppress(psutil.Error):
            for child in psutil.Process(self.daemon.process.pid).children():
                if "dreamd.pipelines" in child.cmdline():
                    return child
        return None

    def _expect_no_orphan(self, child: psutil.Process | None) -> None:
        if child is not None:
            with suppress(psutil.TimeoutExpired, psutil.NoSuchProcess):
                child.wait(5)
            if child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
                self.violations.append(f"a dream outlived its daemon (pid {child.pid})")

    def _look(self) -> None:
        """Whatever was promised is there, and nothing is left of what was killed."""
        deadline = time.monotonic() + 60
        while self.daemon.call("status")["journal"] and time.monotonic() < deadline:
            time.sleep(0.02)
        self.trial._check_promises(dict(self.trial._files()))
        data = self.daemon.folder / "data"
        self.violations += [f"{left.name} is left of a dream" for left in (data / "runs").glob("*")]
        self.size_bytes = sum(file.stat().st_size for file in data.rglob("*") if file.is_file())
        if self.size_bytes > BOUND_BYTES + BOUND_BYTES_A_TURN * self.trial.owed.count():
            self.violations.append(f"{self.size_bytes} bytes for {self.trial.owed.count()} turns and memories")

    def _dream_again(self) -> None:
        """An unchanged day: no action, and every file that is kept as it was."""
        before = dict(self.trial._files())
        state = self._dream("")
        self.again += 1
        if state != "nothing":
            self.violations.append(f"a second dream of an unchanged day was {state}")
        after = dict(self.trial._files())
        self.violations += [f"{path} changed on an unchanged day" for path in before if before[path] != after.get(path)]
        self.violations += [f"{path} came on an unchanged day" for path in after.keys() - before.keys()]

    def too_little(self) -> list[str]:
        """Name what was tried too seldom for its silence to mean anything."""
        dreams, killed = sum(self.states.values()), sum(self.killed.values())
        missing = []
        if self.states["applied"] * APPLIED_SHARE < dreams:
            missing.append(f"{self.states['applied']} of {dreams} dreams were applied")
        if dreams >= KILLED_FROM and killed * KILLED_SHARE < dreams:
            missing.append(f"{killed} of {dreams} dreams met a kill")
        return missing


def nights(dreams: int, seed: int, folder: Path) -> dict[str, Any]:
    """Have so many, stop at the first that breaks a promise; what to say of them."""
    began = time.monotonic()
    with DaemonUnderTest(folder, {"DREAMD_STORE__EMBEDDING__MODEL": "stub"}) as daemon:
        them = Nights(daemon, seed)
        for number in range(1, dreams + 1):
            them.night(number)
            if them.violations:
                break
            if number % LOOK_CLOSELY_EVERY == 0:
                say(f"dream {number}: {them.trial.owed.count()} promises kept, {them.size_bytes / 2**20:.1f} MiB")
        else:
            them.trial.check()
    promises = them.trial.owed.count()
    return {
        "dreams": sum(them.states.values()) + them.again,
        "seed": seed,
        "states": dict(them.states),
        "killed": dict(them.killed),
        "second_runs": them.again,
        "acknowledged": promises,
        "size_mib": round(them.size_bytes / 2**20, 1),
        "bound_mib": round((BOUND_BYTES + BOUND_BYTES_A_TURN * promises) / 2**20, 1),
        "violations": them.violations[:10],
        "too_little": [] if them.violations else them.too_little(),
        "seconds": round(time.monotonic() - began, 1),
    }


def measure(options: Options) -> Iterator[Row]:
    """Take the one row."""
    dreams = options.of(200, 3)
    say(f"{dreams} dreams in a row")
    with own_folder("nights") as folder:
        told = nights(dreams, 0, folder)
    kept = not told["violations"] and not told["too_little"]
    yield Row(
        f"{dreams} dreams in a row, kill -9 of child and daemon in between",
        "nothing lost" if kept else "BROKEN",
        "nothing lost, size bounded, an unchanged day changes nothing",
        kept,
        json.dumps(told),
    )


def main() -> int:
    """Print one JSON object; exit with 1 when a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dreams", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="work in this folder and leave it")
    given = parser.parse_args()
    with own_folder("nights") as own:
        told = nights(given.dreams, given.seed, given.keep or own)
    print(json.dumps(told, indent=2))
    return 1 if told["violations"] or told["too_little"] else 0


if __name__ == "__main__":
    sys.exit(main())
