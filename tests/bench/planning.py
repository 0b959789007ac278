"""How long does a night take over a year's memory? The child of a daily dream, as the daemon runs it.

The memory is made in bulk: sessions as files, one long dream of them laid beside. Its vectors are a stand-in, or it
would be embedded for hours: of each word the model's own vector, of a text their mean. Tonight's are the model's own.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import psutil
from dreamd.daemon.dreaming.child import CHILD, Child, DreamError
from dreamd.pipelines.dream import run_steps
from dreamd.pipelines.messages import Done, Progress, RunRequest
from dreamd.pipelines.pipe import StepProgress
from dreamd.pipelines.settings import Stage
from dreamd.pipelines.workspace.memo import Vectors
from dreamd.pipelines.workspace.snapshot import Snapshot
from dreamd.pipelines.workspace.view import View
from dreamd.store.embedding.embedding import Embedder, embedder_for
from dreamd.store.engine.interface import Vector
from dreamd.store.ledger import records
from dreamd.store.memory import MemoryStore, StorePaths
from dreamd.store.model import NewTurn, SessionHead
from dreamd.store.okf import session
from dreamd.store.results import StoreStatus
from dreamd.store.settings import StoreSettings

from .datasets import many_turns
from .options import Options
from .scratch import own_folder
from .table import Row, say

CHUNKS, NEW_TURNS = 100_000, 1_000
CHUNKS_A_TURN = 1.34
"""A turn is one chunk, and leaves a third of a fact and a part of a page."""

SESSION_TURNS = 40
CHANNELS = ("kettle", "kettle", "kettle", "bakery", "bakery", "garden", "choir", "archive")
MOST_S, MOST_MIB = 300, 1024
INDEXED_S = 3600.0
MIB = 2**20
SEED = 20261122
NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
_WORD = re.compile(r"[a-z']+|\d+")


def measure(options: Options) -> Iterator[Row]:
    """Make the memory, say something new, have one dream planned."""
    chunks, new = options.of(CHUNKS, 1_000), options.of(NEW_TURNS, 100)
    with own_folder("planning") as scratch:
        name = f"planning a daily dream at {chunks:,} chunks with {new:,} new turns"
        target = f"≤ {MOST_S} s, child ≤ {MOST_MIB} MiB"
        paths, held = _memory(scratch, options, int(chunks / CHUNKS_A_TURN), new)
        began = time.monotonic()
        try:
            done, peak, cpu_s = asyncio.run(_planned(_request(paths, "tonight")))
        except DreamError as error:
            yield Row(name, f"failed: {error}", target, False, f"after {time.monotonic() - began:.0f} s")
            return
        took = time.monotonic() - began
    seconds = ", ".join(f"{step} {s:.0f}" for step, s in done.report["seconds"].items() if s >= 0.5)
    how = (
        f"{held.chunks:,} chunks: {held.turns:,} turns, "
        f"{held.memories['L1']:,} facts, {held.memories['L2']:,} pages; "
        f"{done.report['actions']} actions; {cpu_s:.0f} s of processor; seconds: {seconds}"
    )
    enough = held.chunks >= 0.9 * chunks and bool(held.memories["L1"]) and bool(done.report["actions"])
    within = took <= MOST_S and peak <= MOST_MIB * MIB
    yield Row(name, f"{took:.0f} s, {peak / MIB:.0f} MiB", f"{target}, of a memory so large", within and enough, how)


async def _planned(request: RunRequest) -> tuple[Done, int, float]:
    """Have it planned by a child; the most that it held, and the processor's time that it took."""
    peak, cpu_s = 0, 0.0
    child = await Child.start(CHILD, request, request.pipelines.limits)
    assert child.pid is not None
    process = psutil.Process(child.pid)

    async def watch() -> None:
        nonlocal peak, cpu_s
        while True:
            peak = max(peak, process.memory_info().rss)
            times = process.cpu_times()
            cpu_s = times.user + times.system
            await asyncio.sleep(0.05)

    last = ""

    def tell(progress: Progress) -> None:
        nonlocal last
        if (at := f"{progress.stage} {progress.note}".strip()) != last:
            last = at
            say(f"{at}: {peak / MIB:.0f} MiB, {cpu_s:.0f} s")

    watching = asyncio.ensure_future(watch())
    try:
        return await child.plan(request, tell), peak, cpu_s
    finally:
        watching.cancel()


# -- the memory


def _memory(scratch: Path, options: Options, old: int, new: int) -> tuple[StorePaths, StoreStatus]:
    """A memory that a dream has gone through, and new turns that none has."""
    paths = StorePaths(
        scratch / "vault", scratch / "ledger.db", scratch / "index.db", scratch / "vectors.db", scratch / "runs"
    )
    turns = many_turns(old + new, options.data, random.Random(SEED))
    say(f"learning the words of {len(turns)} turns")
    embedder = StandIn(embedder_for(StoreSettings().embedding, scratch / "models"), turns)
    _write_sessions(paths.vault, turns[:old], NOW - timedelta(days=365), "old")
    _open(paths, embedder).close()
    _dream_in_bulk(paths, embedder)
    _write_sessions(paths.vault, turns[old:], NOW - timedelta(hours=20), "new")
    store = _open(paths, embedder)
    held = store.status()
    store.close()
    return paths, held


def _open(paths: StorePaths, embedder: Embedder) -> MemoryStore:
    """Open the store on what was laid in its vault, and wait until all of it is embedded."""
    paths.vault.mkdir(parents=True, exist_ok=True)
    (paths.vault / ".dreamd").touch()
    store = MemoryStore.open(paths, StoreSettings(), embedder, lambda: NOW)
    say("reading the vault")
    store.wait_until_caught_up(INDEXED_S)
    say(f"embedding {store.status().pending_embeddings} chunks")
    while store.status().pending_embeddings:
        time.sleep(0.2)
    return store


def _write_sessions(vault: Path, turns: Sequence[str], first: datetime, prefix: str) -> None:
    spread = (NOW - first) / max(1, len(turns))
    for number, start in enumerate(range(0, len(turns), SESSION_TURNS)):
        began = first + start * spread
        head = SessionHead(f"{prefix}-{number}", CHANNELS[number % len(CHANNELS)], started_at=began)
        said = [
            NewTurn(("user", "assistant")[n % 2], text, began + timedelta(seconds=20 * n), f"m{n}")
            for n, text in enumerate(turns[start : start + SESSION_TURNS])
        ]
        file = vault / session.path_of(head)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(session.open_file(head) + session.encode_turns(said, 1))


def _dream_in_bulk(paths: StorePaths, embedder: Embedder) -> None:
    """Lay a dream's files in the vault and its cursors in the ledger; the daemon would sync each of 50,000 files."""
    request = _request(paths, "long-ago")
    snapshot = Snapshot(request.folder, request.vault, request.index, request.ledger)
    view = View(snapshot, snapshot.history(), lambda texts: _stacked(embedder, texts), "long-ago")
    view.steps = StepProgress(lambda at: say(at.stage))
    run_steps(view, NOW - timedelta(hours=20), _STAGES)
    snapshot.close()
    for action in view.actions:
        file = paths.vault / action.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(action.content or b"")
    store = MemoryStore.open(paths, StoreSettings(), embedder, lambda: NOW)
    moved = [records.move_cursor(stage, key, ordinal) for (stage, key), ordinal in view.cursors.items()]
    store.core.writer.write(*moved).result()
    store.close()


def _stacked(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """One row a text; none of no text, which a stage may ask for."""
    rows = embedder.embed_passages(texts)
    return np.stack(rows) if rows else np.empty((0, embedder.dimension), np.float32)


_STAGES = {stage: stage in {Stage.CONSOLIDATE, Stage.DRIFT} for stage in Stage}


def _request(paths: StorePaths, run_id: str) -> RunRequest:
    request = RunRequest.of(paths, run_id, NOW)
    request.folder.mkdir(parents=True)
    return request


class StandIn:
    """A model of words for a model of texts: quick, and near enough that like texts are near."""

    ready = True

    def __init__(self, model: Embedder, texts: Sequence[str]) -> None:
        self.model_id = self.made_by = model.model_id
        self.dimension = model.dimension
        counts = Counter(word for text in texts for word in set(_WORD.findall(text.lower())))
        known = [word for word, _ in counts.most_common(12_000)]
        vectors = np.stack(model.embed_passages(known))
        weights = np.log((1 + len(texts)) / np.array([counts[word] for word in known]))
        self._rows = dict(zip(known, (vectors - vectors.mean(axis=0)) * weights[:, None], strict=True))
        self._none = vectors.mean(axis=0)

    def start(self) -> None:
        """It is there."""

    def wait(self, timeout_s: float | None = None) -> bool:
        """It is there."""
        return True

    def embed_query(self, text: str) -> Vector:
        """The mean of its words."""
        rows = [self._rows[word] for word in _WORD.findall(text.lower()) if word in self._rows]
        mean = np.mean(rows, axis=0) if rows else self._none
        return np.asarray(mean / np.linalg.norm(mean), np.float32)

    def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        """Each text's vector."""
        return [self.embed_query(text) for text in texts]
