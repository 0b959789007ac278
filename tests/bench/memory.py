"""What does it weigh? Resident memory while 10,000 turns come in, and after."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from .daemon_under_test import MIB, DaemonUnderTest
from .datasets import many_turns, write_chat
from .options import Options
from .scratch import own_folder
from .table import Row, say

TURNS = 10_000
LONG_EVERY = 50  # one turn in fifty is as long as an assistant's: several chunks of the longest kind
LONG_FROM = 40
REST_S = 15
SEED = 20261121


def measure(options: Options) -> Iterator[Row]:
    """Import, embed all of it, rest; the peak is of all three."""
    with own_folder("memory") as scratch:
        rng = random.Random(SEED)
        turns = many_turns(options.of(TURNS, 200), options.data, rng)
        for number in range(0, len(turns), LONG_EVERY):
            turns[number] = "\n".join([turns[number], *rng.sample(turns, LONG_FROM)])
        chat = write_chat(scratch / "chat.jsonl", turns)
        with DaemonUnderTest(scratch / "daemon") as daemon:
            say(f"importing and embedding {len(turns)} turns")
            empty = daemon.rss_bytes() / MIB
            began = time.perf_counter()
            daemon.call("import", paths=[str(chat)], format="chat-jsonl", channel="bench")
            imported = time.perf_counter() - began
            chunks = daemon.wait_until_embedded()["chunks"]
            embedded = time.perf_counter() - began
            time.sleep(options.of(REST_S, 2))
            rest, peak = daemon.rss_bytes() / MIB, daemon.peak_rss_bytes() / MIB
            daemon.stop()
    how = (
        f"{len(turns)} turns, {chunks} chunks, one turn in {LONG_EVERY} of {LONG_FROM} others; {empty:.0f} MiB before; "
        f"imported in {imported:.1f} s, embedded after {embedded:.0f} s"
    )
    yield Row("peak resident memory, import of 10,000 turns", f"{peak:.0f} MiB", "≤ 450 MiB", peak <= 450, how)
    yield Row("resident memory at rest after it", f"{rest:.0f} MiB", "≤ 350 MiB", rest <= 350, f"{REST_S} s later")
