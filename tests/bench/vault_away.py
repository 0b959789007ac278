"""Is anything lost while the vault comes and goes? Random schedules against the real daemon, with kill -9 among them.

A schedule remembers, observes, takes the vault's folder away (as a volume that is not mounted), brings it back, kills
and starts the daemon again, in any order. At its end the vault is brought back, and everything that was ever
acknowledged must be in its files: each memory once, each turn exactly once.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from dreamd.store.okf import session
from dreamd.store.okf.file import parse

from tests.memories import facts_in

from .daemon_under_test import DaemonUnderTest, Refused
from .options import Options
from .scratch import own_folder
from .table import Row, say

SEED = 20261122
SCHEDULES, QUICK_SCHEDULES = 200, 3
STEPS = 14
SCHEDULES_A_FOLDER = 25
BACK_WITHIN_S = 60.0
MOVES = ("remember", "remember", "observe", "observe", "move", "move_amid_writes", "kill")
WRITES = 20
TARGET = "0 acknowledged lost or doubled"


class Life:
    """A daemon on a vault that comes and goes, and what it owes."""

    def __init__(self, daemon: DaemonUnderTest, rng: random.Random) -> None:
        self.daemon = daemon
        self.rng = rng
        self.vault = daemon.folder / "data" / "vault"
        self.aside = daemon.folder / "unmounted"
        self.memories: list[str] = []
        self.turns: dict[str, list[str]] = {}
        self.counts: Counter[str] = Counter()
        self._number = 0

    @property
    def is_away(self) -> bool:
        """Whether the vault's folder is elsewhere now."""
        return self.aside.exists()

    def schedule(self) -> list[str]:
        """Live through some random steps, bring the vault back, and say what is wrong then."""
        for _ in range(STEPS):
            step = self.rng.choice(MOVES)
            getattr(self, step)()
            self.counts[step] += 1
        if self.is_away:
            self.move()
        return self.wrong()

    def remember(self) -> None:
        """Remember one statement, sometimes one that is known."""
        if self.memories and self.rng.random() < 0.2:
            self.daemon.call("remember", text=self.rng.choice(self.memories), channel="away")
            return
        text = f"Locker {self._next()} holds a {self.rng.choice('lamp kettle saddle violin'.split())}"
        self.daemon.call("remember", text=text, channel="away")
        self.memories.append(text)
        self.counts["while away"] += self.is_away

    def observe(self) -> None:
        """Tell of some turns of one of three sessions, some without an id."""
        name = self.rng.choice(("one", "two", "three"))
        texts = [f"turn {self._next()} of {name}" for _ in range(self.rng.randint(1, 3))]
        turns = [{"role": "user", "text": text, "at": "2026-11-01T09:00:00+00:00"} for text in texts]
        for turn in turns:
            if self.rng.random() < 0.5:
                turn["external_id"] = turn["text"]
        about = {"session_id": name, "channel": "away", "started_at": "2026-11-01T09:00:00+00:00"}
        self.daemon.call("observe", session=about, turns=turns)
        self.turns.setdefault(name, []).extend(texts)
        self.counts["while away"] += self.is_away

    def move(self) -> None:
        """Take the vault away, or bring it back."""
        source, target = (self.aside, self.vault) if self.is_away else (self.vault, self.aside)
        if target.exists():
            raise RuntimeError(f"{target} was made while the vault was away")
        source.rename(target)

    def move_amid_writes(self) -> None:
        """Take the vault away, or bring it back, while somebody remembers."""
        numbers = [self._next() for _ in range(WRITES)]
        writer = threading.Thread(target=self._write, args=(numbers,))
        writer.start()
        time.sleep(self.rng.uniform(0.0, 0.05))
        self.move()
        writer.join()

    def _write(self, numbers: Sequence[int]) -> None:
        with closing(self.daemon.wire()) as wire:
            for number in numbers:
                try:
                    wire.call("remember", text=f"Shelf {number} holds a lantern", channel="away")
                except Refused:
                    self.counts["refused"] += 1
                else:
                    self.memories.append(f"Shelf {number} holds a lantern")

    def kill(self) -> None:
        """Kill the daemon and start it again."""
        self.daemon.kill()
        self.daemon.start()
        self.daemon.wait_until_it_answers()

    def wrong(self) -> list[str]:
        """Wait until all is placed, and compare the files with what was acknowledged."""
        if why := self._waits():
            return [why]
        kept = Counter(parse(path.read_bytes()).body.strip() for path in facts_in(self.vault))
        found = [f"{kept[text]} × {text!r}" for text in self.memories if kept[text] != 1]
        for name, texts in self.turns.items():
            (path,) = (self.vault / "sessions").rglob(f"{name}.md")
            told = Counter(turn.text for turn in session.parse(path.read_bytes()).turns)
            found += [f"{told[text]} × {text!r}" for text in texts if told[text] != 1]
        return found

    def _waits(self) -> str:
        until = time.monotonic() + BACK_WITHIN_S
        while time.monotonic() < until:
            status = self.daemon.call("status")
            if not status["problems"] and not status["catching_up"] and not self._lag():
                return ""
            time.sleep(0.02)
        return f"not back after {BACK_WITHIN_S:.0f} s: {status['problems']}, {status['journal']} in the journal"

    def _lag(self) -> bool:
        """Whether the last statement is not shown yet: entries are placed in order."""
        self.remember()
        return not any(self.memories[-1] in path.read_text() for path in facts_in(self.vault))

    def _next(self) -> int:
        self._number += 1
        return self._number


def measure(options: Options) -> Iterator[Row]:
    """Run the schedules, some on one folder."""
    schedules = options.of(SCHEDULES, QUICK_SCHEDULES)
    rng = random.Random(SEED)
    wrong: list[str] = []
    counts: Counter[str] = Counter()
    acknowledged = done = 0
    with own_folder("vault-away") as scratch:
        while done < schedules and not wrong:
            life, at_once = _life(scratch / str(done), rng), min(SCHEDULES_A_FOLDER, schedules - done)
            try:
                for _ in range(at_once):
                    wrong += life.schedule()
                    done += 1
                    if wrong:
                        break
            finally:
                life.daemon.__exit__()
            counts += life.counts
            acknowledged += len(life.memories) + sum(map(len, life.turns.values()))
            say(f"{done} of {schedules} schedules, {acknowledged} acknowledged")
    tried = counts["while away"] >= schedules and counts["kill"] >= schedules and counts["move"] >= schedules
    yield Row(
        "vault away and back, with kill -9",
        f"{done} schedules, {len(wrong)} of {acknowledged} lost or doubled" + ("" if tried else ", too little tried"),
        TARGET,
        not wrong and tried and done == schedules,
        "; ".join([f"{name} {number}" for name, number in sorted(counts.items())] + wrong[:5]),
    )


def _life(folder: Path, rng: random.Random) -> Life:
    daemon = DaemonUnderTest(folder)
    daemon.start()
    daemon.wait_until_it_answers()
    return Life(daemon, rng)
