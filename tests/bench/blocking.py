"""Does an acknowledgement wait for the index? `python -m tests.bench.blocking [--quick]`.

`remember`, one after the other, at rest; then while the index is made anew, while thousands of notes change at once,
and while a file of 30 MB lies in the vault that was not there before. Each is held against the rests of the same run.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from statistics import quantiles

from .daemon_under_test import DaemonUnderTest, request
from .datasets import many_turns, write_chat
from .options import Options
from .scratch import own_folder
from .table import Row, say

TURNS, QUICK_TURNS = 10_000, 300
NOTES, QUICK_NOTES = 10_000, 100
FILE_BYTES, QUICK_FILE_BYTES = 30 * 2**20, 2**20
REST_S, QUICK_REST_S = 60.0, 4.0
LEAST_S, QUICK_LEAST_S = 30.0, 4.0
OVER_WITHIN_S, QUICK_OVER_WITHIN_S = 600.0, 20.0
PAUSES_S = (0.0, 0.25)
"""Between two notes, at random: some come at once, and some leave the daemon the tenth of a second after which it takes
nobody to be asking, and goes on with what waits."""
FEWEST = 10
MOST_TIMES = 3.0
SEED = 20261124
CHANNEL = "bench"


class Writer:
    """A client that remembers without end; what each acknowledgement took, and what was not one."""

    def __init__(self, daemon: DaemonUnderTest) -> None:
        self._daemon = daemon
        self._numbers = itertools.count()
        self.errors: list[str] = []

    def during(self, act: Callable[[], object], least_s: float) -> list[float]:
        """Remember from before `act` until after it, and for so long at least."""
        took: list[float] = []
        over = threading.Event()
        writing = threading.Thread(target=self._write, args=(took, over))
        writing.start()
        began = time.monotonic()
        try:
            act()
            over.wait(max(0.0, began + least_s - time.monotonic()))
        finally:
            over.set()
            writing.join()
        return took

    def _write(self, took: list[float], over: threading.Event) -> None:
        with closing(self._daemon.wire()) as wire:
            while not over.wait(random.uniform(*PAUSES_S)):
                text = f"Note {next(self._numbers)}: the parcel for the harbour weighs {random.random():.12f} kg."
                line = request("remember", text=text, channel="written")
                began = time.perf_counter()
                answer = wire.ask(line)
                took.append(time.perf_counter() - began)
                if b'"node_id"' not in answer:
                    self.errors.append(answer[:200].decode(errors="replace"))


def measure(options: Options) -> Iterator[Row]:
    """Take the three rows on one daemon, with a rest before each of them, when nothing is left to embed."""
    rng = random.Random(SEED)
    turns = many_turns(options.of(TURNS, QUICK_TURNS), options.data, rng)
    notes = options.of(NOTES, QUICK_NOTES)
    rest_s, least_s = (REST_S, LEAST_S) if not options.quick else (QUICK_REST_S, QUICK_LEAST_S)
    over_s = OVER_WITHIN_S if not options.quick else QUICK_OVER_WITHIN_S
    file_bytes = options.of(FILE_BYTES, QUICK_FILE_BYTES)
    with own_folder("blocking") as scratch, DaemonUnderTest(scratch / "daemon") as daemon:
        say(f"importing and embedding {len(turns)} turns, {notes} notes")
        chat = write_chat(scratch / "chat.jsonl", turns)
        daemon.call("import", paths=[str(chat)], format="chat-jsonl", channel=CHANNEL)
        vault = daemon.folder / "data" / "vault"
        _until(lambda: daemon.call("status")["watching"] == "on", 60)
        _write_notes(vault, notes, "blue")
        _until(lambda: _is_found(daemon, notes, "blue"), OVER_WITHIN_S)
        daemon.wait_until_embedded()
        writer = Writer(daemon)
        acts: dict[str, Callable[[], bool]] = {
            f"a {len(turns):,}-turn index is made anew": lambda: bool(daemon.call("rebuild")),
            f"{notes:,} notes change": lambda: _change(daemon, vault, notes, over_s),
            f"a file of {file_bytes / 2**20:g} MiB is dropped into the vault": lambda: _drop(
                daemon, vault, file_bytes, over_s
            ),
        }
        rest: list[float] = []
        ended: list[bool] = []
        meanwhile: dict[str, list[float]] = {}
        for what, act in acts.items():
            daemon.wait_until_embedded()
            rest += writer.during(lambda: None, rest_s)
            say(what)
            meanwhile[what] = writer.during(lambda act=act: ended.append(act()), least_s)  # type: ignore[misc]
        daemon.stop()
    for (what, took), done in zip(meanwhile.items(), ended, strict=True):
        row = _row(what, rest, took, writer.errors)
        yield row if done else replace(row, how=f"{row.how}; it still went on after {over_s:.0f} s")


def _row(what: str, rest: Sequence[float], took: Sequence[float], errors: Sequence[str]) -> Row:
    name = f"remember p99 while {what}, against at rest"
    target = f"≤ {MOST_TIMES:g} ×"
    if min(len(rest), len(took)) < FEWEST:
        return Row(name, f"{len(took)} acknowledged", target, False, f"{FEWEST} are needed; {len(rest)} at rest")
    times = _p99(took) / _p99(rest)
    how = f"{_spread(took)} against {_spread(rest)}; {len(errors)} not acknowledged {list(errors[:2]) or ''}"
    return Row(name, f"{times:.1f} ×", target, times <= MOST_TIMES and not errors, how)


def _p99(seconds: Sequence[float]) -> float:
    return quantiles(seconds, n=100, method="inclusive")[98]


def _spread(seconds: Sequence[float]) -> str:
    return f"p99 {_p99(seconds) * 1e3:.1f} ms, slowest {max(seconds) * 1e3:.0f} ms of {len(seconds)}"


# -- what goes on meanwhile


def _write_notes(vault: Path, count: int, word: str) -> None:
    """Write notes beside each other, each by a rename, as editors do."""
    folder = vault / "notes"
    folder.mkdir(exist_ok=True)
    for number in range(count):
        text = f"The box on shelf {number} is {word}, says label {word}{number}x.\n"
        temporary = folder / f".{number}.tmp"
        temporary.write_text(f"---\ntype: Note\ntitle: Shelf {number}\n---\n\n{text}")
        temporary.replace(folder / f"shelf-{number}.md")


def _change(daemon: DaemonUnderTest, vault: Path, count: int, over_s: float) -> bool:
    _write_notes(vault, count, "yellow")
    return _until(lambda: _is_found(daemon, count, "yellow"), over_s)


def _is_found(daemon: DaemonUnderTest, count: int, word: str) -> bool:
    """Whether the last of the notes, and one in the middle, are found by what they say now."""
    return all(_finds(daemon, f"{word}{number}x") for number in (count - 1, count // 2, 0))


def _drop(daemon: DaemonUnderTest, vault: Path, size_bytes: int, over_s: float) -> bool:
    """Put one long file into the vault, and wait until it is found by what it begins with."""
    lines = itertools.islice(_tides(), size_bytes // 100)
    temporary = vault / "notes" / ".tides.tmp"
    temporary.write_text("---\ntype: Note\ntitle: Tide tables\n---\n\nzztides\n\n" + "\n\n".join(lines))
    temporary.replace(vault / "notes" / "tide-tables.md")
    return _until(lambda: _finds(daemon, "zztides"), over_s)


def _tides() -> Iterator[str]:
    rng = random.Random(SEED)
    for day in itertools.count(1):
        heights = " ".join(f"{rng.uniform(0, 9):.2f}" for _ in range(12))
        yield f"On day {day} the tide at the mole stands at {heights} metres, hour by hour."


def _finds(daemon: DaemonUnderTest, word: str) -> bool:
    hits = daemon.call("recall", query=word, channel="*", limit=5)["hits"]
    return any(word in hit["text"] for hit in hits)


def _until(question: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not question():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def main() -> int:
    """Print the rows; exit with 1 when one was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    rows = list(measure(Options(quick=given.quick)))
    for row in rows:
        print(f"{row.verdict:7}{row.measure}: {row.measured} ({row.target})\n       {row.how}")
    return int(any(row.ok is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
