"""Does nobody wait? Recall, remember, the shell and a cold start, each beside what it is to be compared with.

What is compared is interleaved in one run, so that a busy moment of the machine hits both sides.
`python -m tests.bench.latency [--turns N]` takes the rows of recall alone, before and after a dream.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import ParamSpec, TypeVar

from .daemon_under_test import DaemonUnderTest, Wire, request
from .datasets import many_queries, many_turns, write_chat
from .options import Options
from .scratch import own_folder
from .table import Row, report, say

CHUNKS = 10_000
CHANNEL = "bench"
SEED = 20261121
CLIENTS = 32
BUDGET = 500
MOST_TIMES = 2.5
"""How long recall may take, in times of embedding its question."""

P = ParamSpec("P")
T = TypeVar("T")


def measure(options: Options) -> Iterator[Row]:
    """Take every row: first those that need a full memory, then those that need an empty one."""
    rng = random.Random(SEED)
    with own_folder("latency") as scratch:
        yield from _with_a_full_memory(scratch, options, rng, options.of(CHUNKS, 200))
        with DaemonUnderTest(scratch / "empty") as daemon:
            daemon.wait_until_embedded()
            yield remember_against_fsync(daemon, options.of(1000, 100), rng)
            yield many_writers_against_one(daemon, options.of(6400, 640), rng)
            yield status_against_nothing(daemon, options.of(40, 8))
            daemon.stop()


def _with_a_full_memory(scratch: Path, options: Options, rng: random.Random, size: int) -> Iterator[Row]:
    turns = many_turns(size, options.data, rng)
    queries = many_queries(options.of(1200, 120), turns, rng)
    kept = options.results / "embeddings-latency.db"
    with DaemonUnderTest(scratch / "full", kept=kept) as daemon:
        yield from _of_recall(daemon, turns, queries)
        chunks = daemon.call("status")["chunks"]
        daemon.stop()
    yield first_recall(scratch / "full", queries, chunks, options.of(5, 2))


def _of_recall(daemon: DaemonUnderTest, turns: Sequence[str], queries: Sequence[str]) -> Iterator[Row]:
    say(f"importing and embedding {len(turns)} turns")
    chat = write_chat(daemon.folder / "chat.jsonl", turns)
    daemon.call("import", paths=[str(chat)], format="chat-jsonl", channel=CHANNEL)
    daemon.wait_until_embedded()
    half = len(queries) // 2
    third = half // 3
    yield from recall_against_embedding(daemon, queries[third:half], "before a dream")
    yield many_askers_against_one(daemon, queries[:third])
    say("a daily dream")
    run = daemon.call("dream", kind="daily", wait=True)
    daemon.wait_until_embedded()
    yield from recall_against_embedding(daemon, queries[half:], f"after a dream ({run['state']})")


def recall_against_embedding(daemon: DaemonUnderTest, queries: Sequence[str], when: str) -> Iterator[Row]:
    """Recall and context through the socket, and embedding the query in this process with one thread.

    One right after the other, of two queries in turns: no query is asked twice.
    """
    from dreamd.store.embedding.embedding import FastembedEmbedder
    from dreamd.store.settings import EmbeddingSettings

    embedder = FastembedEmbedder(EmbeddingSettings(threads=1), daemon.folder)
    embedder.start()
    embedder.wait()
    wire, chunks = daemon.wire(), daemon.call("status")["chunks"]
    took: dict[str, list[float]] = {"recall": [], "context": [], "embedding": []}
    empty = 0
    try:
        pairs = list(zip(queries[::2], queries[1::2], strict=True))
        for number, (query, other) in enumerate(pairs):
            recall, answer = timed(wire.ask, request("recall", query=query, channel=CHANNEL))
            alone, _ = timed(embedder.embed_query, query)
            context, _ = timed(wire.ask, request("context", query=other, budget_tokens=BUDGET, channel=CHANNEL))
            if number >= len(pairs) // 10:  # the first ones warm up
                for name, seconds in (("recall", recall), ("context", context), ("embedding", alone)):
                    took[name].append(seconds)
                empty += not json.loads(answer)["result"]["hits"]
    finally:
        wire.close()
    for name, most in (("recall", MOST_TIMES), ("context", None)):
        ratio = median(took[name]) / median(took["embedding"])
        of = f"{chunks} chunks, {len(pairs)} queries, {empty} without a hit"
        how = f"{spread(took[name])} against {spread(took['embedding'])}; {of}"
        target, ok = ("", None) if most is None else (f"≤ {most} ×", ratio <= most)
        yield Row(f"{name} p50 against embedding the query alone, {when}", f"{ratio:.2f} ×", target, ok, how)


def remember_against_fsync(daemon: DaemonUnderTest, writes: int, rng: random.Random) -> Row:
    """Remember through the socket, and append + fsync of the same bytes on the same file system."""
    bare = os.open(daemon.folder / "bare", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    wire = daemon.wire()
    kept, written = [], []

    def write_bare(data: bytes) -> None:
        os.write(bare, data)
        os.fsync(bare)

    try:
        for number, text in enumerate(_texts(writes, rng, "alone")):
            line, data = request("remember", text=text), text.encode()
            took, answer = timed(wire.ask, line)
            alone, _ = timed(write_bare, data)
            json.loads(answer)["result"]["node_id"]
            if number >= writes // 10:
                kept.append(took)
                written.append(alone)
    finally:
        wire.close()
        os.close(bare)
    ratio = median(kept) / median(written)
    how = f"{spread(kept)} against {spread(written)}; {len(kept)} writes, interleaved"
    return Row("remember p50 against a bare write + fsync", f"{ratio:.2f} ×", "≤ 4 ×", ratio <= 4, how)


def many_writers_against_one(daemon: DaemonUnderTest, writes: int, rng: random.Random) -> Row:
    """Compare acknowledged writes a second of 32 connections and of one, in turns of the same length."""
    rounds = 4
    one, many = [], []
    for turn in range(rounds):
        one.append(_throughput(daemon, 1, _writes(writes // CLIENTS, rng, f"one {turn}")))
        many.append(_throughput(daemon, CLIENTS, _writes(writes // rounds, rng, f"many {turn}")))
    ratio = median(many) / median(one)
    how = f"{median(many):.0f}/s against {median(one):.0f}/s, {rounds} turns each; raw non-blocking sockets in one loop"
    return Row(f"remember: {CLIENTS} writers against one, throughput", f"{ratio:.2f} ×", "≥ 5 ×", ratio >= 5, how)


def many_askers_against_one(daemon: DaemonUnderTest, queries: Sequence[str]) -> Row:
    """Compare recalls answered a second of 32 connections and of one, in turns, each query asked once."""
    rounds = 4
    lines = [request("recall", query=query, channel=CHANNEL) for query in queries]
    size = len(lines) // (2 * rounds)
    turns = [lines[start : start + size] for start in range(0, 2 * rounds * size, size)]
    one = [_throughput(daemon, 1, turn) for turn in turns[::2]]
    many = [_throughput(daemon, CLIENTS, turn) for turn in turns[1::2]]
    ratio = median(many) / median(one)
    how = f"{median(many):.0f}/s against {median(one):.0f}/s, {rounds} turns of {size} queries each"
    return Row(f"recall: {CLIENTS} clients against one, throughput", f"{ratio:.2f} ×", "≥ 1.3 ×", ratio >= 1.3, how)


def _writes(count: int, rng: random.Random, subject: str) -> list[bytes]:
    return [request("remember", text=text) for text in _texts(count, rng, subject)]


def _throughput(daemon: DaemonUnderTest, connections: int, lines: Sequence[bytes]) -> float:
    """Send each connection's next line as soon as its last is answered; return the answers a second."""
    sockets = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(connections)]
    try:
        with selectors.DefaultSelector() as ready:
            for connection in sockets:
                connection.connect(daemon.socket_path)
                connection.setblocking(False)
                ready.register(connection, selectors.EVENT_READ)
            return len(lines) / _drive(ready, sockets, iter(lines), len(lines))
    finally:
        for connection in sockets:
            connection.close()


def _drive(
    ready: selectors.BaseSelector, sockets: Sequence[socket.socket], lines: Iterator[bytes], waiting: int
) -> float:
    """Drive every connection until each line is answered; return the seconds that took."""
    began = time.perf_counter()
    received: dict[socket.socket, bytes] = {}
    for first in sockets:
        first.send(next(lines))  # a line is smaller than the socket's buffer
    while waiting:
        for key, _ in ready.select():
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            answer = received.pop(connection, b"") + connection.recv(2**20)
            if not answer.endswith(b"\n"):
                received[connection] = answer
                continue
            if b'"result"' not in answer:
                raise RuntimeError(f"a request was not answered: {answer[:500]!r}")
            waiting -= 1
            if line := next(lines, None):
                connection.send(line)
    return time.perf_counter() - began


def status_against_nothing(daemon: DaemonUnderTest, runs: int) -> Row:
    """Compare `dreamctl status` with the smallest Python program, both as a shell starts them."""
    dreamctl = [str(Path(sys.executable).with_name("dreamctl")), "status"]
    nothing = [sys.executable, "-c", "pass"]
    asked, passed = [], []
    for run in range(runs + 2):
        took = timed(_run, dreamctl, daemon)[0]
        alone = timed(_run, nothing, daemon)[0]
        if run >= 2:  # the first compile what they import
            asked.append(took)
            passed.append(alone)
    ratio = median(asked) / median(passed)
    how = f"{spread(asked)} against {spread(passed)}; {runs} runs, interleaved"
    return Row("dreamctl status against python -c pass, wall", f"{ratio:.2f} ×", "≤ 4 ×", ratio <= 4, how)


def _run(command: Sequence[str], daemon: DaemonUnderTest) -> None:
    subprocess.run(command, env=daemon.environ, check=True, stdout=subprocess.DEVNULL)


def first_recall(folder: Path, queries: Sequence[str], chunks: int, starts: int) -> Row:
    """Execute the daemon on a full memory and ask until it answers; say whether that answer knew meanings."""
    took, with_vectors = [], 0
    for query in queries[:starts]:
        daemon = DaemonUnderTest(folder)
        line = request("recall", query=query, channel=CHANNEL, explain=True)
        began = time.perf_counter()
        daemon.start()
        try:
            wire = _connected(daemon.socket_path, began + 60)
            answer = json.loads(wire.ask(line))["result"]
            took.append(time.perf_counter() - began)
            wire.close()
            if not answer["hits"]:
                raise RuntimeError("the first recall found nothing")
            with_vectors += not any("keyword" in note or "model" in note for note in answer.get("notes", ()))
            daemon.stop()
        finally:
            daemon.__exit__()
    slowest = max(took)
    how = (
        f"median {median(took):.2f} s, slowest of {starts} starts counts, files in the page cache; {chunks} chunks; "
        f"{with_vectors} of {starts} first answers used vectors"
    )
    return Row("from exec to the first recall answered", f"{slowest:.2f} s", "≤ 2.5 s", slowest <= 2.5, how)


def _connected(path: str, deadline: float) -> Wire:
    while True:
        try:
            return Wire(path)
        except OSError:
            if time.perf_counter() > deadline:
                raise
            time.sleep(0.002)


def _texts(count: int, rng: random.Random, what: str) -> list[str]:
    """Make notes of about 120 bytes, no two alike."""
    return [
        f"Note {number} of {what}: the service {rng.getrandbits(32):08x} moved to port {rng.randint(1024, 65535)} "
        f"because of ticket {rng.randint(1, 10**6)}, as agreed."
        for number in range(count)
    ]


def timed(act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> tuple[float, T]:
    """Call, and return the seconds that it took and what it returned."""
    began = time.perf_counter()
    result = act(*args, **kwargs)
    return time.perf_counter() - began, result


def spread(seconds: Sequence[float]) -> str:
    """Say the middle and the slow end of many measures."""
    p95 = quantiles(seconds, n=20)[-1] if len(seconds) > 1 else seconds[0]
    return f"p50 {median(seconds) * 1e3:.2f} ms, p95 {p95 * 1e3:.2f}"


def main() -> int:
    """Take the rows of recall alone; exit with 1 when one is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.latency", description=__doc__)
    parser.add_argument("--turns", type=int, default=CHUNKS, help="how many are in the memory")
    size = parser.parse_args().turns
    with own_folder("latency") as scratch:
        return report(_with_a_full_memory(scratch, Options(), random.Random(SEED), size))


if __name__ == "__main__":
    sys.exit(main())
