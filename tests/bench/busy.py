"""A dream that a person waits for on a busy machine: it takes longer, and is done.

Eight loops that want every core, each in a session of its own as eight programs would be, beside `dreamctl dream daily
--wait` of a memory with every vector in it.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from .daemon_under_test import DaemonUnderTest
from .datasets import many_turns, write_chat
from .options import Options
from .scratch import own_folder
from .table import Row, say

LOOPS = 8
SEED = 20261122
TARGET = "done, the number of steps stays the same"


@contextmanager
def busy_loops(number: int) -> Iterator[None]:
    """Let so many processes run that do nothing but want a core; they end with us, whatever ends us."""
    loop = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): sum(range(100_000))"
    command = [sys.executable, "-S", "-c", loop, str(os.getpid())]
    loops = [subprocess.Popen(command, start_new_session=True) for _ in range(number)]
    try:
        yield
    finally:
        for process in loops:
            process.kill()
            process.wait()


def dream_beside_loops(turns: int, options: Options, environ: Mapping[str, str] | None = None) -> Row:
    """Import, embed, begin the loops, dream. `environ` is for who wants to see it fail."""
    rng = random.Random(SEED)
    with own_folder("busy") as scratch, DaemonUnderTest(scratch / "daemon", environ) as daemon:
        say(f"importing and embedding {turns} turns")
        chat = write_chat(scratch / "chat.jsonl", many_turns(turns, options.data, rng))
        daemon.call("import", paths=[str(chat)], format="chat-jsonl", channel="bench")
        daemon.wait_until_embedded()
        say(f"dreaming beside {LOOPS} busy loops")
        began = time.monotonic()
        with busy_loops(LOOPS):
            told = _dream_and_wait(daemon)
        seconds = time.monotonic() - began
        run = daemon.call("runs", limit=1, kind="daily")["runs"][0]
    totals = set(re.findall(r"\d+/(\d+)$", told, re.MULTILINE))
    stood = told.count("waits for the processor")
    return Row(
        f"a dream of {turns} turns asked by hand beside {LOOPS} busy loops",
        f"{run['state']} after {seconds:.0f} s",
        TARGET,
        run["state"] == "applied" and len(totals) == 1,
        f"{os.cpu_count()} cores; totals told: {', '.join(sorted(totals))}; said {stood} times that it waits; "
        f"{run['created']} files made; {run['note']}",
    )


def _dream_and_wait(daemon: DaemonUnderTest) -> str:
    """Return what the command told of its progress."""
    command = [str(Path(sys.executable).with_name("dreamctl")), "dream", "daily", "--wait"]
    ended = subprocess.run(command, env=daemon.environ, cwd=daemon.folder, capture_output=True, text=True, check=False)
    return ended.stderr


def measure(options: Options) -> Iterator[Row]:
    """Take the one row."""
    yield dream_beside_loops(options.of(200, 40), options)
