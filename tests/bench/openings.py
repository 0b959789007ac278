"""When does an agent get its tools? While the daemon is down, starts over 100,000 memories, or makes its index anew."""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from .daemon_under_test import DaemonUnderTest
from .datasets import many_turns
from .options import Options
from .relays import RELAY, ask
from .scratch import own_folder
from .table import Row, say

SEED = 20261123
MEMORIES = 100_000
STARTS = 20
MOST_MS = 300
A_FOLDER = 1000
STUB = {"DREAMD_STORE__EMBEDDING__MODEL": "stub"}
"""Vectors would take hours, and no opening asks for one."""

INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}
OPENINGS = {"server/discover": "supportedVersions", "initialize": "protocolVersion"}


def measure(options: Options) -> Iterator[Row]:
    """Open again and again in each state of the daemon."""
    count, starts = options.of(MEMORIES, 500), options.of(STARTS, 3)
    with own_folder("openings") as scratch:
        daemon = DaemonUnderTest(scratch / "daemon", STUB)
        say(f"writing {count:,} memories")
        _write_vault(daemon.folder / "data" / "vault", count, options)
        try:
            yield _row("daemon down", daemon, starts)
            daemon.start()
            yield _row(f"the daemon starts over {count:,} files that it has not seen", daemon, starts)
            say("indexing")
            daemon.wait_until_it_answers(600)
            daemon.wait_until_embedded()
            listed = sum(daemon.call("status")["memories"].values())
            daemon.kill()
            daemon.start()
            yield _row("the daemon starts again over them", daemon, starts, f"{listed:,} memories; killed before")
            daemon.wait_until_it_answers(600)
            daemon.wait_until_embedded()
            yield _rebuilding(daemon, starts)
            daemon.stop()
        finally:
            daemon.__exit__()


def _rebuilding(daemon: DaemonUnderTest, starts: int) -> Row:
    rebuilding = threading.Thread(target=lambda: daemon.call("rebuild"))
    rebuilding.start()
    row = _row("the index is made anew", daemon, starts, lambda: "" if rebuilding.is_alive() else "it was done before!")
    rebuilding.join()
    return row


def _row(state: str, daemon: DaemonUnderTest, starts: int, note: str | Callable[[], str] = "") -> Row:
    """Take the time from a relay's start to its answer to the opening, of either era."""
    took = {method: [_opened(daemon, method) for _ in range(starts)] for method in OPENINGS}
    medians = {method: statistics.median(times) for method, times in took.items()}
    worst = max(max(times) for times in took.values())
    said = note if isinstance(note, str) else note()
    return Row(
        f"from a relay's start to its tools: {state}",
        ", ".join(f"{median:.0f} ms" for median in medians.values()),
        f"≤ {MOST_MS} ms each",
        max(medians.values()) <= MOST_MS and "!" not in said,
        f"{' and '.join(OPENINGS)}, medians of {starts}, worst {worst:.0f}; {said}".rstrip("; "),
    )


def _opened(daemon: DaemonUnderTest, method: str) -> float:
    """Return the milliseconds until a fresh relay has answered the opening."""
    began = time.perf_counter()
    process = subprocess.Popen(
        RELAY, env=daemon.environ, cwd=daemon.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    answer = ask(process, method, INITIALIZE if method == "initialize" else None)
    took = 1e3 * (time.perf_counter() - began)
    assert OPENINGS[method] in answer["result"], answer
    process.communicate()
    return took


def _write_vault(vault: Path, count: int, options: Options) -> None:
    """Write memories as files of a person's own: the words of talks, recombined."""
    for number, text in enumerate(many_turns(count, options.data, random.Random(SEED))):
        folder = vault / "notes" / f"{number // A_FOLDER:03}"
        if number % A_FOLDER == 0:
            folder.mkdir(parents=True)
        head = f"---\ntype: Fact\nnode_id: bench{number:06}\nlevel: L1\nkind: fact\n---\n"
        (folder / f"{number:06}.md").write_text(f"{head}\n{text}\n", encoding="utf-8")


if __name__ == "__main__":
    from .table import report

    sys.exit(report(measure(Options(quick="--quick" in sys.argv))))
