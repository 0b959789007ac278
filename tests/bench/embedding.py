"""How fast are texts embedded, and how near is the prepared model to the one of the package that it is made of?"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from dreamd.store.embedding.embedding import BATCH_TOKENS, batches_by_length
from dreamd.store.embedding.fastembed_loading import Minilm, load_minilm, load_packaged
from numpy.typing import NDArray

from .daemon_under_test import DaemonUnderTest
from .datasets import Question, locomo, locomo_turns, many_turns, write_chat
from .options import Options
from .scratch import own_folder
from .table import Row, say

QUESTIONS, TURNS, ROUNDS = 60, 240, 3
IMPORTED = 10_000
K = 10
SEED = 20261123

Vectors = NDArray[np.float32]
Embed = Callable[[list[str]], Vectors]


@dataclass
class Took:
    """Seconds of the wall and of the CPU, a measure each."""

    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    def time(self, embed: Embed, texts: list[str]) -> None:
        """Add one call."""
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        embed(texts)
        self.wall_s.append(time.perf_counter() - wall_s)
        self.cpu_s.append(time.process_time() - cpu_s)


def measure(options: Options) -> Iterator[Row]:
    """Embed the same texts by both models in turn, then import many into a daemon."""
    with own_folder("embedding") as scratch:
        packaged, prepared = load_packaged(scratch, 1), load_minilm(scratch, 1)
        if prepared.problem is not None:
            yield Row("prepared embedding model", "not there", "is used", False, prepared.problem)
            return
        before, after = _as_fastembed_does(packaged), prepared.embed
        turns = many_turns(options.of(TURNS, 24), options.data, random.Random(SEED))
        asked = [question.text for question in _questions(options, scratch)[: options.of(QUESTIONS, 6)]]
        yield _speed("embedding one question", before, after, [[text] for text in asked], options, 3)
        batches = [[turns[place] for place in batch] for batch in batches_by_length(turns, BATCH_TOKENS)]
        yield _speed(f"embedding in bulk, {len(turns)} turns", before, after, batches, options, 4)
        yield from _nearness(options, scratch, before, after)
        yield _import(options, scratch)


def _as_fastembed_does(model: Minilm) -> Embed:
    return lambda texts: np.array(list(model.model.embed(texts, batch_size=len(texts))), np.float32)


def _speed(
    measure: str, before: Embed, after: Embed, batches: Sequence[list[str]], options: Options, least: float
) -> Row:
    """Compare both in turn, batch for batch, so that what else the machine does is the same for both."""
    old, new = Took(), Took()
    for _ in range(options.of(ROUNDS, 1)):
        for batch in batches:
            old.time(before, batch)
            new.time(after, batch)
    cpu = statistics.fmean(old.cpu_s) / statistics.fmean(new.cpu_s)
    texts = sum(map(len, batches)) / len(batches)
    rates = [f"{texts / statistics.fmean(took):,.0f}" for took in (old.cpu_s, new.cpu_s, old.wall_s, new.wall_s)]
    how = (
        f"one thread; texts a second of CPU {rates[0]} before, {rates[1]} after, of the wall {rates[2]}, {rates[3]}; "
        f"median of a call {1e3 * statistics.median(old.wall_s):.1f} and {1e3 * statistics.median(new.wall_s):.1f} ms"
    )
    return Row(measure, f"{cpu:.1f} x faster", f">= {least:.0f} x", cpu >= least, how)


def _questions(options: Options, scratch: Path) -> Sequence[Question]:
    return locomo(options.data / "locomo" / "dev.json", scratch, options.of(5, 1)).questions


def _nearness(options: Options, scratch: Path, before: Embed, after: Embed) -> Iterator[Row]:
    """Search the turns by cosine with the vectors of either model, and of both mixed."""
    say("embedding LoCoMo with both models")
    turns = locomo_turns(options.data / "locomo" / "dev.json", options.of(5, 1))
    asked = _questions(options, scratch)[:: options.of(1, 10)]
    old, new = (_embed_all(embed, list(turns.values())) for embed in (before, after))
    old_asked, new_asked = (_embed_all(embed, [question.text for question in asked]) for embed in (before, after))
    mixed = np.where(np.random.default_rng(SEED).random(len(turns))[:, None] < 0.5, old, new)
    found = [
        _recall(list(turns), rows, asked, questions)
        for rows, questions in ((old, old_asked), (new, new_asked), (mixed, new_asked), (old, new_asked))
    ]
    cosines = (old * new).sum(axis=1)
    how = (
        f"LoCoMo, {len(asked)} questions, {len(turns)} turns; questions by the prepared model over mixed vectors "
        f"{found[2]:.3f}, over the package's {found[3]:.3f}; cosine of both models' vectors {cosines.mean():.4f}, "
        f"least {cosines.min():.4f}"
    )
    measured = f"{found[1]:.3f}, of the package's model {found[0]:.3f}"
    yield Row(f"recall@{K} by cosine alone", measured, ">= the package's - .01", found[1] >= found[0] - 0.01, how)


def _embed_all(embed: Embed, texts: list[str]) -> Vectors:
    rows = np.empty((len(texts), 384), np.float32)
    for batch in batches_by_length(texts, BATCH_TOKENS):
        rows[batch] = embed([texts[place] for place in batch])
    return rows


def _recall(ids: list[str], rows: Vectors, asked: Sequence[Question], questions: Vectors) -> float:
    """Return the mean fraction of a question's evidence among the K nearest turns of its own conversation."""
    fractions = []
    for question, vector in zip(asked, questions, strict=True):
        own = [place for place, name in enumerate(ids) if name.startswith(f"{question.channel}/")]
        nearest = np.argsort(-(rows[own] @ vector), kind="stable")[:K]
        named = {ids[own[place]].split("/", 1)[1] for place in nearest}
        fractions.append(len(named & question.gold) / len(question.gold))
    return statistics.fmean(fractions)


def _import(options: Options, scratch: Path) -> Row:
    turns = many_turns(options.of(IMPORTED, 100), options.data, random.Random(SEED))
    chat = write_chat(scratch / "chat.jsonl", turns)
    with DaemonUnderTest(scratch / "daemon") as daemon:
        say(f"importing and embedding {len(turns)} turns")
        began = time.perf_counter()
        daemon.call("import", paths=[str(chat)], format="chat-jsonl", channel="bench")
        imported_s = time.perf_counter() - began
        daemon.wait_until_embedded()
        embedded_s = time.perf_counter() - began
        daemon.stop()
    how = f"kept after {imported_s:.1f} s; two batches at once when quiet"
    measure = f"import of {len(turns):,} turns until the last vector"
    return Row(measure, f"{embedded_s:.0f} s", "<= 60 s", embedded_s <= 60, how)
