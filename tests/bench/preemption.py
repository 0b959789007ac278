"""Does nobody wait for a dream? `python -m tests.bench.preemption --trials 100`: the real daemon, the real child.

- how long it takes from an activity until the dream is stopped, every thread of it, and its model left alone;
- recall while a dream runs that does not give way, against without one;
- the first recall that meets a dream, against without one.

What is compared is interleaved in one run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles

from .daemon_under_test import DaemonUnderTest, Wire, request
from .datasets import many_queries, many_turns, write_chat
from .options import Options
from .scratch import own_folder
from .slow_model import SlowModel
from .table import Row, say, skipped

CHANNEL = "bench"
SEED = 20261122
RESUME_S = "0.2"
QUIET = {"DREAMD_PIPELINES__IDLE__RESUME_QUIET_BY_HAND_S": RESUME_S}


def measure(options: Options) -> Iterator[Row]:
    """Take the three rows on one memory."""
    if not Path("/proc/self/task").is_dir():
        yield skipped("preemption", "", "no /proc to see whether a process is stopped")
        return
    rng = random.Random(SEED)
    with own_folder("preemption") as scratch:
        turns = many_turns(options.of(6000, 100), options.data, rng)
        queries = many_queries(options.of(1500, 60), turns, rng)
        store = _store(scratch, turns)
        yield trials(scratch, store, queries, options.of(100, 4), rng)
        yield first_recalls(scratch, store, queries, options.of(200, 4), rng)
        yield recall_beside_a_dream(scratch, store, queries, options, rng)


def _store(scratch: Path, turns: Sequence[str]) -> Path:
    """A memory with every vector in it, to be copied."""
    folder = scratch / "store"
    with DaemonUnderTest(folder) as daemon:
        say(f"importing and embedding {len(turns)} turns")
        chat = write_chat(scratch / "chat.jsonl", turns)
        daemon.call("import", paths=[str(chat)], format="chat-jsonl", channel=CHANNEL)
        daemon.wait_until_embedded()
        daemon.stop()
    return folder / "data"


def _daemon(scratch: Path, store: Path, name: str, environ: Mapping[str, str]) -> DaemonUnderTest:
    folder = scratch / name
    folder.mkdir()
    shutil.copytree(store, folder / "data")
    return DaemonUnderTest(folder, environ)


class Dreaming:
    """A context in which dreams follow one another without end, planned and not applied, so that each has all to do."""

    def __init__(self, daemon: DaemonUnderTest) -> None:
        self._daemon = daemon
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._dream, daemon=True)

    def __enter__(self) -> Dreaming:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        deadline = time.monotonic() + 60
        while self._thread.is_alive() and time.monotonic() < deadline:
            with contextlib.suppress(RuntimeError):
                self._daemon.call("dream_cancel")
            self._thread.join(0.1)

    def _dream(self) -> None:
        while not self._over.is_set():
            (self._daemon.folder / "data" / "checkpoint").unlink(missing_ok=True)  # or the next would have less to do
            with contextlib.suppress(RuntimeError, OSError):
                self._daemon.call("dream", kind="daily", dry_run=True)

    def child(self) -> int:
        """The process of the dream that is under way, once it runs and has a stage."""
        return _until(self._running_child, 60)

    def _running_child(self) -> int:
        dream = self._daemon.call("status")["dream"]
        if not dream or dream["paused"] or dream["stage"] in ("", "start"):
            return 0
        for marked in (self._daemon.folder / "data" / "runs").glob("*/run.json"):
            with contextlib.suppress(OSError, ValueError):
                pid = int(json.loads(marked.read_text())["pid"])
                return pid if not _is_stopped(pid) else 0
        return 0


# ---- preemption


def trials(scratch: Path, store: Path, queries: Sequence[str], number: int, rng: random.Random) -> Row:
    """From the recall's first byte until every thread of the dream is stopped and the model's server knows."""
    took: list[float] = []
    in_flight = 0
    with SlowModel() as model:
        for name, environ, part in (("plain", {}, number // 2), ("model", model.environ(), number - number // 2)):
            with _daemon(scratch, store, f"trials-{name}", QUIET | environ) as daemon, Dreaming(daemon) as dreaming:
                say(f"{part} trials of preemption, {name}")
                for query in rng.sample(queries, part):
                    wants = (lambda: model.generating > 0) if environ else (lambda: True)
                    seconds, flying = _trial(daemon, dreaming, model, query, wants, rng)
                    took.append(seconds)
                    in_flight += flying
    p99 = _quantile(took, 0.99)
    how = (
        f"{number} trials, {in_flight} with a model call in flight; p50 {median(took) * 1e3:.0f} ms, "
        f"slowest {max(took) * 1e3:.0f}; from the first byte of a recall until no thread of the dream may run and the "
        "model's server has seen the connection end"
    )
    return Row("preemption p99", f"{p99 * 1e3:.0f} ms", "≤ 250 ms", p99 <= 0.25 and in_flight * 3 >= number, how)


def _trial(
    daemon: DaemonUnderTest,
    dreaming: Dreaming,
    model: SlowModel,
    query: str,
    wants: Callable[[], bool],
    rng: random.Random,
) -> tuple[float, bool]:
    pid = dreaming.child()
    time.sleep(rng.uniform(0, 0.7))  # anywhere in its work
    _until(wants, 60)
    if _has_ended(pid) or _is_stopped(pid):
        return _trial(daemon, dreaming, model, query, wants, rng)
    wire = daemon.wire()
    line = request("recall", query=query, channel=CHANNEL)
    flying = model.generating > 0
    began = time.monotonic()
    wire._socket.sendall(line)
    while not (_is_stopped(pid) or _has_ended(pid)):
        time.sleep(0.0005)
    stopped = time.monotonic()
    while flying and model.generating and time.monotonic() < began + 5:
        time.sleep(0.0005)
    left = model.left_at if flying and not model.generating else time.monotonic() if flying else stopped
    wire.ask(request("ping"))
    wire.close()
    return max(stopped, left) - began, flying


def _is_stopped(pid: int) -> bool:
    """Whether no thread of a process may run."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        return all((thread / "stat").read_text().rpartition(")")[2].split()[0] in "TtZX" for thread in threads)
    except OSError:
        return False


def _has_ended(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


# ---- the first recall


def first_recalls(scratch: Path, store: Path, queries: Sequence[str], number: int, rng: random.Random) -> Row:
    """Recalls after a second of quiet, those that meet a running dream and those that meet none, in turns of ten."""
    met: list[float] = []
    alone: list[float] = []
    asked = iter(rng.sample(queries, 2 * number))
    with _daemon(scratch, store, "first", QUIET) as daemon:
        _warm_up(daemon, queries[:20])
        say(f"{number} first recalls that meet a dream, and as many that meet none")
        while len(met) < number:
            part = min(10, number - len(met))
            with Dreaming(daemon) as dreaming:
                for _ in range(part):
                    dreaming.child()
                    time.sleep(rng.uniform(0.3, 1.0))
                    dreaming.child()
                    met.append(_timed_recall(daemon, next(asked)))
            for _ in range(part):
                daemon.call("status")
                time.sleep(rng.uniform(0.3, 1.0))
                daemon.call("status")
                alone.append(_timed_recall(daemon, next(asked)))
    ratio = _quantile(met, 0.95) / _quantile(alone, 0.95)
    how = f"{_spread(met)} against {_spread(alone)}; {number} of each, in turns of ten, each after 0.3 to 1 s of quiet"
    return Row("first recall that meets a dream, p95 against without", f"{ratio:.2f} ×", "≤ 1.5 ×", ratio <= 1.5, how)


# ---- beside a dream that does not give way


def recall_beside_a_dream(
    scratch: Path, store: Path, queries: Sequence[str], options: Options, rng: random.Random
) -> Row:
    """Recalls, one after the other, through whole dreams from their start to the end of their application."""
    beside: list[float] = []
    alone: list[float] = []
    off = {"DREAMD_PIPELINES__PREEMPTION__ENABLED": "false"}
    rounds = options.of(6, 1)
    news = many_turns(rounds * options.of(400, 20), options.data, random.Random(SEED + 1))
    asked = _endless(queries, rng)
    with _daemon(scratch, store, "beside", off) as daemon:
        say("the first dream over all there is")
        daemon.call("dream", kind="daily", wait=True)
        daemon.wait_until_embedded()
        _warm_up(daemon, queries[:20])
        for number in range(rounds):
            part = news[number::rounds]
            chat = write_chat(scratch / "news.jsonl", part, prefix=f"r{number}-")
            account = daemon.call("import", paths=[str(chat)], format="chat-jsonl", channel=f"{CHANNEL}-{number}")
            if account["turns_added"] != len(part):
                raise RuntimeError(f"{account['turns_added']} of {len(part)} turns were new")
            daemon.wait_until_embedded()
            dream = threading.Thread(target=daemon.call, args=("dream",), kwargs={"kind": "daily", "wait": True})
            dream.start()
            before = len(beside)
            while dream.is_alive():
                beside.append(_timed_recall(daemon, next(asked)))
                time.sleep(0.02)
            daemon.wait_until_embedded()
            while len(alone) < len(beside):
                alone.append(_timed_recall(daemon, next(asked)))
                time.sleep(0.02)
            say(f"round {number + 1} of {rounds}: {len(beside) - before} recalls beside a dream, and as many without")
    ratio = _quantile(beside, 0.95) / _quantile(alone, 0.95)
    how = (
        f"{_spread(beside)} against {_spread(alone)}; {len(beside)} of each in {rounds} rounds, through whole dreams, "
        "their application too"
    )
    measure = "recall p95 beside a dream, preemption off, against without"
    return Row(measure, f"{ratio:.2f} ×", "≤ 1.25 ×", ratio <= 1.25, how)


def _endless(queries: Sequence[str], rng: random.Random) -> Iterator[str]:
    while True:
        yield from rng.sample(list(queries), len(queries))


def _warm_up(daemon: DaemonUnderTest, queries: Sequence[str]) -> None:
    for query in queries:
        _timed_recall(daemon, query)


def _timed_recall(daemon: DaemonUnderTest, query: str) -> float:
    wire = Wire(daemon.socket_path)
    try:
        line = request("recall", query=query, channel="*")
        began = time.perf_counter()
        answer = wire.ask(line)
        took = time.perf_counter() - began
    finally:
        wire.close()
    if b'"hits"' not in answer:
        raise RuntimeError(f"no recall: {answer[:300]!r}")
    return took


def _until(question: Callable[[], int], timeout_s: float) -> int:
    deadline = time.monotonic() + timeout_s
    while not (answer := question()):
        if time.monotonic() > deadline:
            raise RuntimeError(f"not within {timeout_s:.0f} s")
        time.sleep(0.005)
    return answer


def _quantile(seconds: Sequence[float], q: float) -> float:
    return quantiles(seconds, n=100, method="inclusive")[round(q * 100) - 1]


def _spread(seconds: Sequence[float]) -> str:
    return f"p50 {median(seconds) * 1e3:.2f} ms, p95 {_quantile(seconds, 0.95) * 1e3:.2f}"


def main() -> int:
    """Print the rows; exit with 1 when a promise was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, help="of preemption alone, instead of everything")
    parser.add_argument("--only", choices=("trials", "first", "beside"))
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    options, rng = Options(quick=given.quick), random.Random(SEED)
    if given.trials is None and given.only is None:
        rows = list(measure(options))
    else:
        with own_folder("preemption") as scratch:
            turns = many_turns(options.of(6000, 100), options.data, rng)
            queries = many_queries(options.of(1500, 60), turns, rng)
            store = _store(scratch, turns)
            if given.only == "first":
                rows = [first_recalls(scratch, store, queries, given.trials or options.of(200, 4), rng)]
            elif given.only == "beside":
                rows = [recall_beside_a_dream(scratch, store, queries, options, rng)]
            else:
                rows = [trials(scratch, store, queries, given.trials or 100, rng)]
    for row in rows:
        print(f"{row.verdict:7}{row.measure}: {row.measured} ({row.target})\n       {row.how}")
    return int(any(row.ok is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
