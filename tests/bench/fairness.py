"""What one client may cost another: its recalls beside a flood, and alone, in turns of one run."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles

from .daemon_under_test import DaemonUnderTest, Wire, request
from .datasets import many_queries, many_turns, write_chat
from .flooding import Counts, flooding
from .latency import CHANNEL, spread, timed
from .options import Options
from .scratch import own_folder
from .table import Row, say

TURNS = 5_000
ROUNDS = 6
RECALLS = 100
"""In each round, alone and beside the flood."""

MOST = 3.0
SEED = 20261122

FLOODS = {
    "list": "20 clients that flood `list` and read nothing",
    "marks": "3 clients that ask pages of 64 KB of punctuation",
    "logs": "3 clients that ask pages of 64 KB of a log",
    "ping": "one client that floods `ping`",
}
LEAST_SENT = {"list": 1_000, "marks": 100, "logs": 20, "ping": 2_000}
"""Requests of a flood in all rounds: with fewer it was none, and the row says nothing."""


@dataclass(slots=True)
class Taken:
    """The seconds of each recall, alone and beside a flood, what was answered wrongly, and what the floods came to."""

    alone: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)
    wrong: int = 0
    floods: Counts = field(default_factory=Counts)


def measure(options: Options) -> Iterator[Row]:
    """Take a row for each flood."""
    rng = random.Random(SEED)
    rounds, recalls = options.of(ROUNDS, 2), options.of(RECALLS, 20)
    with own_folder("fairness") as scratch:
        turns = many_turns(options.of(TURNS, 300), options.data, rng)
        chat = write_chat(scratch / "chat.jsonl", turns)
        with DaemonUnderTest(scratch / "daemon") as daemon:
            say(f"importing and embedding {len(turns)} turns")
            daemon.call("import", paths=[str(chat)], format="chat-jsonl", channel=CHANNEL)
            daemon.call("list")
            daemon.wait_until_embedded()
            for name in FLOODS:
                queries = many_queries(2 * rounds * recalls + recalls, turns, rng)
                yield row_of(name, beside_a_flood(daemon, name, queries, recalls), rounds * recalls)
            daemon.stop()


def beside_a_flood(daemon: DaemonUnderTest, name: str, queries: Sequence[str], recalls: int) -> Taken:
    """Ask so many questions alone, then so many beside the flood, and again until all are asked; the first warm up."""
    taken = Taken()
    wire = daemon.wire()
    try:
        _ask(wire, queries[:recalls], [], taken)
        for start in range(recalls, len(queries) - recalls, 2 * recalls):
            middle = start + recalls
            _ask(wire, queries[start:middle], taken.alone, taken)
            with flooding(daemon.socket_path, name) as counts:
                _ask(wire, queries[middle : middle + recalls], taken.beside, taken)
            _add(taken.floods, counts)
            daemon.call("status")  # which comes after what the flood had asked
    finally:
        wire.close()
    return taken


def row_of(name: str, taken: Taken, recalls: int) -> Row:
    """Compare the two, and say what it rests on; too few recalls, or a flood that was none, is a miss."""
    ratio = _p95(taken.beside) / _p95(taken.alone)
    floods = taken.floods
    is_whole = len(taken.alone) >= recalls and len(taken.beside) >= recalls and not taken.wrong
    is_flood = floods.sent >= LEAST_SENT[name]
    how = (
        f"beside {spread(taken.beside)}, alone {spread(taken.alone)}; {len(taken.beside)} recalls each, in turns, "
        f"{taken.wrong} without a hit; the flood: {floods.sent:,} requests (at least {LEAST_SENT[name]:,}), "
        f"{floods.answered:,} answers read, {floods.errors:,} of them errors, {floods.connections:,} connections"
    )
    measure = f"another's recall p95 beside {FLOODS[name]}"
    return Row(measure, f"{ratio:.2f} ×", f"≤ {MOST:g} ×", ratio <= MOST and is_whole and is_flood, how)


def _ask(wire: Wire, queries: Sequence[str], seconds: list[float], taken: Taken) -> None:
    for query in queries:
        took, answer = timed(wire.ask, request("recall", query=query, channel=CHANNEL))
        seconds.append(took)
        taken.wrong += not json.loads(answer).get("result", {}).get("hits")


def _add(total: Counts, more: Counts) -> None:
    total.sent += more.sent
    total.answered += more.answered
    total.errors += more.errors
    total.connections += more.connections


def _p95(seconds: Sequence[float]) -> float:
    return quantiles(seconds, n=20)[-1] if len(seconds) > 1 else median(seconds)
