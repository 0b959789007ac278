"""The same turns kept and the same questions asked of every side, interleaved: each question goes to all in turn.

Each question is asked once, after some that warm up and are not in the set; so no cache of answers can help anybody.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Protocol

from dreamd.store import Embedder

from ..daemon_under_test import MIB, DaemonUnderTest, Wire
from ..datasets import Dataset
from ..quality.asking import HITS, named
from ..scoring import any_found, distinct_turns, evidence_recall, paired_bootstrap
from ..table import say
from .embedding_server import EmbeddingServer
from .installed import python_of
from .memories import Turn, turns_of
from .process import PeerFailed, PeerProcess
from .roster import Peer

SEED = 20261123
WARM_UP = 10
ADD_TIMEOUT_S = 1800


@dataclass(slots=True)
class Figures:
    """What was measured of one side on one set; `problem` says why there is nothing, or no more."""

    name: str
    problem: str = ""
    turns_per_s: float = 0.0
    resident_mib: float = 0.0
    found: list[list[str]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    embedding_s: list[float] = field(default_factory=list)

    def scores(
        self, data: Dataset, score: Callable[[Sequence[str], frozenset[str], int], float], k: int
    ) -> list[float]:
        """Return one score a question."""
        return [score(found, asked.gold, k) for found, asked in zip(self.found, data.questions, strict=True)]

    def p50_ms(self, with_embedding: bool = True) -> float:
        """Return the median of a search, of its own part if the embedding is taken off."""
        return 1e3 * median(self._taken(with_embedding))

    def p95_ms(self, with_embedding: bool = True) -> float:
        """Return the 95th percentile, likewise."""
        return 1e3 * quantiles(self._taken(with_embedding), n=20)[-1]

    def _taken(self, with_embedding: bool) -> list[float]:
        if with_embedding:
            return self.seconds
        return [whole - part for whole, part in zip(self.seconds, self.embedding_s, strict=True)]


class Side(Protocol):
    """Who is measured."""

    figures: Figures

    def keep(self, turns: Sequence[Turn]) -> None:
        """Keep all turns of the set."""
        ...

    def ask(self, channel: str, query: str) -> tuple[list[str], float, float]:
        """Return the turns found, the seconds that took, and those of them that embedded the question."""
        ...

    def rest(self) -> None:
        """Note the resident memory."""
        ...


class PeerSide:
    """A peer, in its process."""

    def __init__(self, process: PeerProcess, server: EmbeddingServer) -> None:
        self.figures = Figures(process.peer.package)
        self._process, self._server = process, server

    def keep(self, turns: Sequence[Turn]) -> None:
        self._process.open()
        seconds, before = 0.0, self._server.seconds
        for _, of_channel in groupby(turns, key=lambda turn: turn.channel):
            seconds += self._process.add(list(of_channel), ADD_TIMEOUT_S)
        self.figures.turns_per_s = len(turns) / (seconds - (self._server.seconds - before))

    def ask(self, channel: str, query: str) -> tuple[list[str], float, float]:
        before = self._server.seconds
        found, seconds = self._process.search(channel, query, HITS)
        return distinct_turns([[turn] for turn in found]), seconds, self._server.seconds - before

    def rest(self) -> None:
        self.figures.resident_mib = self._process.resident_mib()


class OurSide:
    """The daemon, asked through its socket; its vectors are taken from an earlier run, as the peers' are."""

    def __init__(self, daemon: DaemonUnderTest, data: Dataset, embedder: Embedder) -> None:
        self.figures = Figures("dreamd")
        self._daemon, self._data, self._embedder = daemon, data, embedder
        self._wire: Wire | None = None

    def keep(self, turns: Sequence[Turn]) -> None:
        self._daemon.wait_until_embedded()
        began = time.perf_counter()
        self._data.observed_by(self._daemon)
        self._daemon.wait_until_embedded()
        self.figures.turns_per_s = len(turns) / (time.perf_counter() - began)
        self._daemon.wait_until_linked()
        self._wire = self._daemon.wire()

    def ask(self, channel: str, query: str) -> tuple[list[str], float, float]:
        assert self._wire is not None
        began = time.perf_counter()
        answer = self._wire.call("recall", query=query, limit=HITS, channel=channel)
        seconds = time.perf_counter() - began
        # Its model is inside the daemon, where it cannot be watched: the same question is embedded here, alone.
        began = time.perf_counter()
        self._embedder.embed_query(query)
        embedding = time.perf_counter() - began
        return distinct_turns([named(hit) for hit in answer["hits"]]), seconds, embedding

    def rest(self) -> None:
        self.figures.resident_mib = self._daemon.rss_bytes() / MIB

    def close(self) -> None:
        """Let go of the connection."""
        if self._wire is not None:
            self._wire.close()


def measured(data: Dataset, peers: Sequence[Peer], embedder: Embedder, scratch: Path, kept: Path) -> list[Figures]:
    """Measure ourselves and every peer that is installed on one set."""
    turns = list(turns_of(data))
    with ExitStack() as stack:
        server = stack.enter_context(EmbeddingServer(embedder))
        _warm(data, turns, server, scratch, kept)
        daemon = stack.enter_context(DaemonUnderTest(scratch / f"ours-{data.format}", kept=kept))
        ours = OurSide(daemon, data, embedder)
        stack.callback(ours.close)
        sides: list[Side] = [ours]
        for peer in peers:
            folder = scratch / f"{peer.package}-{data.format}"
            process = PeerProcess(peer, python_of(peer), folder, server.url, server.model, embedder.dimension)
            sides.append(PeerSide(stack.enter_context(process), server))
        for side in sides:
            say(f"{data.name}: {side.figures.name} keeps {len(turns)} turns")
            _attempt(side, lambda side=side: side.keep(turns))  # type: ignore[misc]
        server.keeps = False
        _ask_all(data, turns, sides)
        for side in sides:
            _attempt(side, side.rest)
        if server.refused:
            say(f"{data.name}: {len(server.refused)} requests for something else than embeddings were refused")
        daemon.stop()
    return [side.figures for side in sides]


def _warm(data: Dataset, turns: Sequence[Turn], server: EmbeddingServer, scratch: Path, kept: Path) -> None:
    """Embed every turn once, for the peers and for us, so that keeping them is not a measure of the model."""
    say(f"{data.name}: embedding {len(turns)} turns that were not embedded before")
    for start in range(0, len(turns), 64):
        server.embed([turn.said for turn in turns[start : start + 64]])
    if not kept.is_file():
        with DaemonUnderTest(scratch / f"first-{data.format}", kept=kept) as daemon:
            data.observed_by(daemon)
            daemon.wait_until_embedded()
            daemon.stop()


def _ask_all(data: Dataset, turns: Sequence[Turn], sides: Sequence[Side]) -> None:
    """Ask each question of each side, a different one first each time."""
    for number, query in enumerate(_warm_up_queries(turns)):
        for side in _rotated(sides, number):
            _attempt(side, lambda side=side, query=query: side.ask(turns[0].channel, query))  # type: ignore[misc]
    say(f"{data.name}: {len(data.questions)} questions to {len(sides)} sides")
    for number, question in enumerate(data.questions):
        for side in _rotated(sides, number):
            if not side.figures.problem:
                _attempt(side, lambda side=side, question=question: _ask(side, question.channel, question.text))  # type: ignore[misc]


def _ask(side: Side, channel: str, query: str) -> None:
    found, seconds, embedding = side.ask(channel, query)
    side.figures.found.append(found)
    side.figures.seconds.append(seconds)
    side.figures.embedding_s.append(embedding)


def _rotated(sides: Sequence[Side], number: int) -> list[Side]:
    first = number % len(sides)
    return [*sides[first:], *sides[:first]]


def _attempt(side: Side, act: Callable[[], object]) -> None:
    """Do something with a side; one that failed has its reason in the table and is asked nothing more."""
    if side.figures.problem:
        return
    try:
        act()
    except PeerFailed as error:
        side.figures.problem = str(error)


def _warm_up_queries(turns: Sequence[Turn]) -> Iterator[str]:
    rng = random.Random(SEED)
    for turn in rng.sample(list(turns), WARM_UP):
        yield f"What about {' '.join(re.findall(r'[A-Za-z]{4,}', turn.text)[:5])}?"


def difference(ours: Figures, theirs: Figures, data: Dataset) -> str:
    """Say how much better we find, by paired bootstrap over the questions: recall@10, or any@10 for BEAM."""
    score = any_found if data.format == "beam" else evidence_recall
    return str(paired_bootstrap(theirs.scores(data, score, 10), ours.scores(data, score, 10), random.Random(SEED)))


def mean_scores(figures: Figures, data: Dataset) -> tuple[float, float, float, float]:
    """Return evidence recall@5 and @10, any@5 and @10."""
    pairs = ((evidence_recall, 5), (evidence_recall, 10), (any_found, 5), (any_found, 10))
    a, b, c, d = (fmean(figures.scores(data, score, k)) for score, k in pairs)
    return a, b, c, d
