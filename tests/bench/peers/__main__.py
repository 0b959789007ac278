"""Peers, side by side: `make bench-peers`, or `python -m tests.bench.peers [--only NAME] [--set locomo|beam]`.

Each peer is installed in an environment of its own under PEERS_INSTALLED (.peers), runs in a process of its own without
a language model, and gets the vectors of our model from a server on loopback. It keeps the same turns, one memory a
turn, and is asked the same questions. The table goes to bench-results/peers.md.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import dreamd
from dreamd.store import Embedder, embedder_for
from dreamd.store.settings import EmbeddingSettings

from ..datasets import Dataset, beam, locomo
from ..options import Options
from ..scratch import own_folder
from ..table import about_this_machine
from .installed import installed_mib, our_installed_mib, python_of, version_of
from .measuring import SEED, Figures, difference, mean_scores, measured
from .roster import PEERS, Peer

HEAD = (
    "| | version | MB installed | turns/s | recall@5 | @10 | any@5 | @10 | p50 ms | p95 ms | p50 without embedding "
    "| MiB resident | we find more @10 |"
)


def _set(name: str, options: Options, scratch: Path, chats: int | None, questions: int | None) -> Dataset:
    if name == "locomo":
        data = locomo(options.data / "locomo" / "dev.json", scratch, chats)
    else:
        data = beam(options.data / "beam-100k", chats)
    if questions is None or questions >= len(data.questions):
        return data
    return replace(data, questions=tuple(random.Random(SEED).sample(data.questions, questions)))


def table(data: Dataset, figures: Sequence[Figures], peers: dict[str, Peer]) -> Iterator[str]:
    """Yield the lines of a set's table; ours is first, who has no figures has the reason in place of them."""
    conversations = len({question.channel for question in data.questions})
    yield f"**{data.name} dev**, {conversations} conversations, {len(data.questions)} questions"
    yield ""
    yield HEAD
    yield "|---|---|" + "--:|" * (HEAD.count("|") - 3)
    ours = figures[0]
    for one in figures:
        peer = peers.get(one.name)
        version = version_of(peer) if peer else dreamd.__version__
        if one.problem:
            yield f"| {one.name} | {version} | skipped: {one.problem} |" + " |" * (HEAD.count("|") - 4)
            continue
        size = installed_mib(peer) if peer else our_installed_mib()
        scores = " | ".join(f"{score:.3f}" for score in mean_scores(one, data))
        times = f"{one.p50_ms():.1f} | {one.p95_ms():.1f} | {one.p50_ms(with_embedding=False):.1f}"
        better = difference(ours, one, data) if peer else ""
        yield (
            f"| {one.name} | {version} | {size:.0f} | {one.turns_per_s:.0f} | {scores} | {times} "
            f"| {one.resident_mib:.0f} | {better} |"
        )


def notes(peers: Sequence[Peer]) -> Iterator[str]:
    """Yield a line a peer: what of it is asked, and what of it could not be had."""
    yield from (f"- {peer.package}: {peer.retrieval}" for peer in peers)


def _loaded(folder: Path) -> Embedder:
    embedder = embedder_for(EmbeddingSettings(threads=1), folder)
    embedder.start()
    if not embedder.wait():
        raise RuntimeError("the embedding model cannot be loaded")
    return embedder


def main() -> int:
    """Measure, print the table and write it."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=[peer.package for peer in PEERS], help="this peer (again)")
    parser.add_argument("--set", action="append", choices=("locomo", "beam"), help="this set (may be given again)")
    parser.add_argument("--chats", type=int, help="only so many conversations")
    parser.add_argument("--questions", type=int, help="only so many questions, drawn by lot")
    parser.add_argument("--results", type=Path, default=Options().results, help="where the table goes")
    given = parser.parse_args()
    options = Options(results=given.results)
    chosen = [peer for peer in PEERS if peer.package in (given.only or [peer.package])]
    there = [peer for peer in chosen if python_of(peer).exists()]
    lines = [f"- {name}: {value}" for name, value in about_this_machine().items()]
    with own_folder("peers") as scratch:
        embedder = _loaded(scratch / "models")
        for name in given.set or ("locomo", "beam"):
            data = _set(name, options, scratch, given.chats, given.questions)
            kept = options.results / f"embeddings-peers-{name}{given.chats or ''}.db"
            figures = measured(data, there, embedder, scratch, kept)
            absent = [Figures(peer.package, "not installed: make bench-peers") for peer in chosen if peer not in there]
            rows = list(table(data, [*figures, *absent], {peer.package: peer for peer in PEERS}))
            print("\n".join(rows), flush=True)
            lines += ["", *rows]
            given.results.mkdir(parents=True, exist_ok=True)
            (given.results / "peers.md").write_text("\n".join([*lines, "", *notes(chosen)]) + "\n")
    print(f"written to {given.results / 'peers.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
