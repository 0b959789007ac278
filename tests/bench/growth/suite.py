"""How does it grow? Start, memory, disk, latency, throughput and upkeep of memories of 1,000 to a million.

The memories are made once and kept (`memories.py`); the daemon runs on them in place, and what changes them runs on a
copy. Each row holds one measure at all sizes.
"""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

import psutil
from dreamd.store import embedder_for
from dreamd.store.embedding.embedding import Embedder
from dreamd.store.settings import EmbeddingSettings

from ..daemon_under_test import MIB, DaemonUnderTest, Wire, request
from ..latency import timed
from ..options import Options
from ..scratch import own_folder
from ..table import Row, say
from .clients import per_second
from .memories import CHANNEL, Grown, memory
from .overlap import overlap_at_10
from .sentences import Sentences, questions

KEPT = Path("/var/tmp/dreamd-growth")
SIZES = (1_000, 10_000, 100_000, 1_000_000)
QUICK = (60,)

QUESTIONS, WARMING, CLIENTS = 400, 40, 32
REBUILT_UP_TO, DREAMT_UP_TO = 100_000, 10_000
STARTS = 3
SEED = 20261123


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured, and on what. `idle_s` 0 leaves the idle daemon out, `upkeep` rebuilding and dreaming."""

    sizes: Sequence[int]
    questions: int = QUESTIONS
    idle_s: float = 60.0
    upkeep: bool = True


@dataclass(slots=True)
class Measures:
    """Figures by measure and size; `how` says how one was taken."""

    figures: dict[str, dict[int, float]] = field(default_factory=dict)
    how: dict[str, str] = field(default_factory=dict)

    def add(self, measure: str, size: int, figure: float, how: str = "") -> None:
        """Note a figure."""
        self.figures.setdefault(measure, {})[size] = figure
        if how:
            self.how[measure] = how
        say(f"{size:>9,}: {measure} {figure:.3g} {how}")


TARGETS: Mapping[str, Mapping[int, float]] = {
    "recall p50, ms": {10_000: 8, 100_000: 15, 1_000_000: 40},
    "recall p50 / embedding alone": {10_000: 3, 100_000: 5, 1_000_000: 12},
    "recall p95 / p50": {10_000: 2.5, 100_000: 2.5, 1_000_000: 2.5},
    "resident, MiB": {10_000: 200, 100_000: 300, 1_000_000: 900},
    "ready after exec, s": {10_000: 1.5, 100_000: 2, 1_000_000: 5},
    "idle, % of one core": {10_000: 0.2},
}
AT_LEAST: Mapping[str, Mapping[int, float]] = {
    "top 10, bounded against unbounded work": {1_000_000: 0.9},
    f"throughput, {CLIENTS} clients / one": {100_000: 1.5},
}


def measure(options: Options) -> Iterator[Row]:
    """Take every row."""
    if options.quick:
        with own_folder("growth") as kept:
            yield from rows(Plan(QUICK, questions=10, idle_s=0.5), options.data, kept)
    else:
        yield from rows(Plan(SIZES), options.data, KEPT)


def rows(plan: Plan, data: Path, kept: Path) -> Iterator[Row]:
    """Make the memories that are not there, and take the measures of each."""
    embedder = embedder_for(EmbeddingSettings(threads=1), kept / "models")
    embedder.start()
    embedder.wait()
    sentences = Sentences(data, embedder, kept)
    taken = Measures()
    with own_folder("growth") as scratch:
        for size in plan.sizes:
            grown = memory(size, sentences, embedder, kept)
            asked = questions(4 * plan.questions, data, scratch, sentences, random.Random(SEED))
            _measure_one(grown, plan, asked, embedder, scratch, taken)
    for name, figures in taken.figures.items():
        yield _row(name, figures, taken.how.get(name, ""))


def _measure_one(
    grown: Grown, plan: Plan, asked: Sequence[str], embedder: Embedder, scratch: Path, taken: Measures
) -> None:
    quarter = len(asked) // 4
    add = _adding(taken, grown.size)
    _starts(grown, asked[:STARTS], add)
    with DaemonUnderTest(grown.folder) as daemon:
        _catching_up(daemon, add)
        _latency(daemon, asked[:quarter], embedder, add)
        _steps(daemon, asked[quarter : quarter + quarter // 2], add)
        _throughput(daemon, asked[2 * quarter :], add)
        _idle(daemon, plan.idle_s, add)
        add("resident, MiB", daemon.rss_bytes() / MIB, f"after the questions; peak {daemon.peak_rss_bytes() / MIB:.0f}")
        daemon.stop()
    add("disk, MiB", _bytes_below(grown.folder / "data") / MIB, f"vault {_bytes_below(grown.paths.vault) / MIB:.0f}")
    add(
        "top 10, bounded against unbounded work",
        overlap_at_10(grown.paths.index, embedder, asked[: _compared(grown.size)]),
    )
    if plan.upkeep:
        _upkeep(grown, scratch, add)


def _compared(size: int) -> int:
    """Return how many questions are also answered by unbounded work, which takes seconds each at a million."""
    return max(20, min(100, 10_000_000 // size))


Add = Callable[..., None]


def _adding(taken: Measures, size: int) -> Add:
    return lambda measure, figure, how="": taken.add(measure, size, figure, how)


def _starts(grown: Grown, asked: Sequence[str], add: Add) -> None:
    """Execute the daemon some times: until it answers, and until it answers by vectors."""
    ready, answered = [], []
    for question in asked:
        daemon = DaemonUnderTest(grown.folder)
        began = time.perf_counter()
        daemon.start()
        try:
            wire = _connected(daemon, began + 600)
            wire.call("ping")
            ready.append(time.perf_counter() - began)
            while _notes(wire, question):
                time.sleep(0.01)
            answered.append(time.perf_counter() - began)
            wire.close()
            daemon.stop()
        finally:
            daemon.__exit__()
    add("ready after exec, s", median(ready), f"median of {len(ready)}, files in the page cache")
    add("first answer by vectors after exec, s", median(answered))


def _notes(wire: Wire, question: str) -> bool:
    """Ask; return whether the answer came without vectors."""
    notes = wire.call("recall", query=question, channel=CHANNEL).get("notes", ())
    return any("keyword" in note or "model" in note for note in notes)


def _connected(daemon: DaemonUnderTest, until: float) -> Wire:
    while True:
        try:
            return Wire(daemon.socket_path)
        except OSError:
            if time.perf_counter() > until or daemon.process is None or daemon.process.poll() is not None:
                raise
            time.sleep(0.002)


def _catching_up(daemon: DaemonUnderTest, add: Add) -> None:
    began = time.perf_counter()
    daemon.wait_until_embedded()
    add("vault compared with the index after that, s", time.perf_counter() - began)


def _latency(daemon: DaemonUnderTest, asked: Sequence[str], embedder: Embedder, add: Add) -> None:
    """Recall through the socket, and embedding the same question in this process with one thread, in turns."""
    recalls, embeddings, empty = [], [], 0
    wire, before_s = daemon.wire(), _processor_s(daemon)
    for number, question in enumerate(asked):
        took, answer = timed(wire.ask, request("recall", query=question, channel=CHANNEL))
        alone, _ = timed(embedder.embed_query, question)
        if number >= min(WARMING, len(asked) // 4):
            recalls.append(took)
            embeddings.append(alone)
            empty += not json.loads(answer)["result"]["hits"]
    wire.close()
    used_ms = 1e3 * (_processor_s(daemon) - before_s) / len(asked)
    add("processor time a recall, ms", used_ms, "of all the daemon's threads: what a busy machine changes least")
    p50, p95 = median(recalls), quantiles(recalls, n=20)[-1]
    add("recall p50, ms", p50 * 1e3, f"{len(recalls)} distinct questions, {empty} without a hit")
    add("recall p95 / p50", p95 / p50)
    add("recall p50 / embedding alone", p50 / median(embeddings), f"embedding {median(embeddings) * 1e3:.2f} ms")


def _steps(daemon: DaemonUnderTest, asked: Sequence[str], add: Add) -> None:
    """Note the time of recall's own steps, as it tells them."""
    wire = daemon.wire()
    taken: dict[str, list[float]] = {}
    for question in asked:
        answer = wire.call("recall", query=question, channel=CHANNEL, explain=True)
        for step, took_ms in answer["trace"]["timings_ms"].items():
            taken.setdefault(step, []).append(took_ms)
    wire.close()
    for step, times in taken.items():
        add(f"step {step!r} p50, ms", median(times), f"p95 {quantiles(times, n=20)[-1]:.2f}")


def _throughput(daemon: DaemonUnderTest, asked: Sequence[str], add: Add) -> None:
    lines = [request("recall", query=question, channel=CHANNEL) for question in asked]
    rounds, one, many = 4, [], []
    step = len(lines) // rounds
    for start in range(0, step * rounds, step):
        some = lines[start : start + step]
        one.append(per_second(daemon.socket_path, 1, some[: step // 2]))
        many.append(per_second(daemon.socket_path, CLIENTS, some[step // 2 :]))
    how = f"{median(many):.0f}/s against {median(one):.0f}/s, {rounds} turns each"
    add(f"throughput, {CLIENTS} clients / one", median(many) / median(one), how)


def _idle(daemon: DaemonUnderTest, idle_s: float, add: Add) -> None:
    """Note the processor time of a daemon that nobody asks."""
    if not idle_s or daemon.process is None:
        return
    time.sleep(min(15.0, idle_s))  # what its last questions left to do
    before_s = _processor_s(daemon)
    time.sleep(idle_s)
    used_s = _processor_s(daemon) - before_s
    add("idle, % of one core", max(0.0, 100 * used_s / idle_s), f"over {idle_s:g} s")


def _processor_s(daemon: DaemonUnderTest) -> float:
    """Return the processor time that the daemon has taken so far."""
    assert daemon.process is not None
    times = psutil.Process(daemon.process.pid).cpu_times()
    return float(times.user + times.system)


def _upkeep(grown: Grown, scratch: Path, add: Add) -> None:
    """Rebuild and dream on a copy."""
    if grown.size > REBUILT_UP_TO:
        return
    folder = scratch / f"copy-{grown.size}"
    shutil.copytree(grown.folder, folder, symlinks=True)
    with DaemonUnderTest(folder) as daemon:
        took, _ = timed(daemon.wait_until_embedded)
        add("all files read again, s", took, "a copy: no file is as it was")
        took, _ = timed(daemon.call, "rebuild")
        add("rebuild, s", took)
        if grown.size <= DREAMT_UP_TO:
            took, run = timed(daemon.call, "dream", kind="daily", wait=True)
            add("a first dream, s", took, f"{run['state']}, {run.get('created', '?')} files made")
        daemon.stop()
    shutil.rmtree(folder)


def _bytes_below(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink())


def _row(name: str, figures: Mapping[int, float], how: str) -> Row:
    """Lay a measure out: its figure at each size, and how many times that of the size before it."""
    cells, before = [], None
    for size, figure in figures.items():
        times = f" (×{figure / before:.1f})" if before else ""
        cells.append(f"{short(size)} {figure:.3g}{times}")
        before = figure
    most, least = TARGETS.get(name, {}), AT_LEAST.get(name, {})
    wanted = [f"≤ {most[size]:g} at {short(size)}" for size in most if size in figures]
    wanted += [f"≥ {least[size]:g} at {short(size)}" for size in least if size in figures]
    holds = [figures[size] <= most[size] for size in most if size in figures]
    holds += [figures[size] >= least[size] for size in least if size in figures]
    return Row(f"growth: {name}", ", ".join(cells), ", ".join(wanted), all(holds) if holds else None, how)


def short(size: int) -> str:
    """Return a size in few characters."""
    return f"{size // 10**6}M" if size >= 10**6 else f"{size // 1000}k" if size >= 1000 else str(size)
