"""Is the right thing found? LoCoMo and BEAM through the socket, before and after a dream."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TypeVar

from .daemon_under_test import DaemonUnderTest, Wire
from .datasets import Dataset, Question, beam, locomo
from .options import Options
from .scoring import (
    CountTokens,
    ScoredSlot,
    answer_coverage,
    any_found,
    distinct_turns,
    evidence_recall,
    paired_bootstrap,
    recall_in_envelope,
    score_envelope,
    wordpieces,
)
from .table import Row, say, skipped

LOCOMO_RRF = "LoCoMo dev, evidence recall@10, fusion rrf"
BEAM_RRF = "BEAM-100K dev, any@5, fusion rrf"
AFTER_RECALL = "LoCoMo dev after one daily dream, evidence recall@500 tokens"
AFTER_COVERAGE = "LoCoMo dev after one daily dream, answer coverage@500 tokens"
RRF = {"DREAMD_STORE__SEARCH__FUSION": "rrf"}
HITS = 10
BUDGETS = (500, 1000)
SEED = 20261121

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Recalled:
    """One score a question, in the questions' order."""

    recall_5: list[float]
    recall_10: list[float]
    any_5: list[float]
    any_10: list[float]

    def __str__(self) -> str:
        return (
            f"recall@5 {fmean(self.recall_5):.3f}, @10 {fmean(self.recall_10):.3f}; "
            f"any@5 {fmean(self.any_5):.3f}, @10 {fmean(self.any_10):.3f}"
        )


@dataclass(frozen=True, slots=True)
class Enveloped:
    """One score a question for one budget. An answer without content words has no coverage and is left out of it."""

    recall: list[float]
    coverage: list[float]
    over_budget: int
    empty: int
    fill: float

    def __str__(self) -> str:
        return (
            f"recall {fmean(self.recall):.3f}, coverage {fmean(self.coverage):.3f}, "
            f"{self.fill:.0%} of the budget used, {self.over_budget} over it, {self.empty} empty"
        )


def measure(options: Options) -> Iterator[Row]:
    """Take every row whose data is there."""
    scratch = Path(tempfile.mkdtemp(prefix="dreamd-quality-"))
    try:
        file = options.data / "locomo" / "dev.json"
        if file.is_file():
            yield from _locomo_rows(locomo(file, scratch, options.of(10, 1)), scratch / "locomo", options)
        else:
            for name, target in ((LOCOMO_RRF, "≥ .66"), (AFTER_RECALL, "not lower"), (AFTER_COVERAGE, "not lower")):
                yield skipped(name, target, f"no {file}")
        folder = options.data / "beam-100k"
        if folder.is_dir():
            yield from _beam_rows(beam(folder, options.of(20, 1)), scratch / "beam", options)
        else:
            yield skipped(BEAM_RRF, "≥ .62", f"no {folder}")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _locomo_rows(data: Dataset, folder: Path, options: Options) -> Iterator[Row]:
    count = wordpieces()
    with _filled(data, folder, options, RRF) as daemon:
        found = recall_all(daemon, data)
        yield _at_least(LOCOMO_RRF, fmean(found.recall_10), 0.66, f"{_how(data)}; {found}")
        daemon.stop()
    with DaemonUnderTest(folder) as daemon:
        before = recall_all(daemon, data)
        yield Row(
            "LoCoMo dev, evidence recall@10, default fusion", f"{fmean(before.recall_10):.3f}", "", None, str(before)
        )
        contexts = {budget: envelope_all(daemon, data, budget, count) for budget in BUDGETS}
        say(f"{data.name}: a daily dream")
        dream = daemon.call("dream", kind="daily", wait=True)
        daemon.wait_until_embedded()
        after = recall_all(daemon, data)
        dreamt = {budget: envelope_all(daemon, data, budget, count) for budget in BUDGETS}
        daemon.stop()
    how = f"the dream: {dream['state']}, {dream['actions']}, {dream['seconds']:.0f} s"
    first = BUDGETS[0]
    yield _not_lower(AFTER_RECALL, contexts[first].recall, dreamt[first].recall, how)
    yield _not_lower(AFTER_COVERAGE, contexts[first].coverage, dreamt[first].coverage, f"after: {dreamt[first]}")
    for budget in BUDGETS[1:]:
        name = f"LoCoMo dev after one daily dream, {{}}@{budget} tokens"
        yield _compared(name.format("evidence recall"), contexts[budget].recall, dreamt[budget].recall)
        yield _compared(name.format("answer coverage"), contexts[budget].coverage, dreamt[budget].coverage)
    yield _compared("LoCoMo dev after one daily dream, evidence recall@10", before.recall_10, after.recall_10)


def _beam_rows(data: Dataset, folder: Path, options: Options) -> Iterator[Row]:
    with _filled(data, folder, options, RRF) as daemon:
        found = recall_all(daemon, data)
        yield _at_least(BEAM_RRF, fmean(found.any_5), 0.62, f"{_how(data)}; {found}")
        daemon.stop()
    with DaemonUnderTest(folder) as daemon:
        found = recall_all(daemon, data)
        yield Row("BEAM-100K dev, any@5, default fusion", f"{fmean(found.any_5):.3f}", "", None, str(found))
        daemon.stop()


def recall_all(daemon: DaemonUnderTest, data: Dataset) -> Recalled:
    """Ask `recall` every question in its channel."""
    say(f"{data.name}: recall, {len(data.questions)} questions")
    turns = list(_each(daemon, data, _recall))
    gold = [question.gold for question in data.questions]
    pairs = list(zip(turns, gold, strict=True))
    return Recalled(
        [evidence_recall(found, wanted, 5) for found, wanted in pairs],
        [evidence_recall(found, wanted, 10) for found, wanted in pairs],
        [any_found(found, wanted, 5) for found, wanted in pairs],
        [any_found(found, wanted, 10) for found, wanted in pairs],
    )


def envelope_all(daemon: DaemonUnderTest, data: Dataset, budget: int, count: CountTokens) -> Enveloped:
    """Ask `context` every question in its channel."""
    say(f"{data.name}: context of {budget} tokens, {len(data.questions)} questions")

    def ask(wire: Wire, question: Question) -> tuple[str, list[ScoredSlot]]:
        got = wire.call("context", query=question.text, budget_tokens=budget, channel=question.channel)
        return got["text"], [ScoredSlot(slot["text"], _named(slot)) for slot in got["slots"]]

    envelopes = [score_envelope(text, slots, budget, count) for text, slots in _each(daemon, data, ask)]
    coverage = [answer_coverage(e, q.answer) for e, q in zip(envelopes, data.questions, strict=True)]
    return Enveloped(
        [recall_in_envelope(e, q.gold) for e, q in zip(envelopes, data.questions, strict=True)],
        [score for score in coverage if score is not None],
        sum(not envelope.fits for envelope in envelopes),
        sum(not envelope.turns for envelope in envelopes),
        fmean(min(1.0, envelope.tokens / budget) for envelope in envelopes),
    )


def _recall(wire: Wire, question: Question) -> list[str]:
    got = wire.call("recall", query=question.text, limit=HITS, channel=question.channel)
    return distinct_turns([_named(hit) for hit in got["hits"]])


def _named(holder: Mapping[str, list[dict[str, str | None]]]) -> tuple[str, ...]:
    return tuple(turn["external_id"] or f"node {turn['node_id']}" for turn in holder["evidence"])


def _each(daemon: DaemonUnderTest, data: Dataset, ask: Callable[[Wire, Question], T]) -> Iterator[T]:
    wire = daemon.wire()
    try:
        for question in data.questions:
            yield ask(wire, question)
    finally:
        wire.close()


# -- the daemon and what it is filled with


@contextmanager
def _filled(data: Dataset, folder: Path, options: Options, environ: Mapping[str, str]) -> Iterator[DaemonUnderTest]:
    """Run a daemon that has imported the set and embedded it; vectors are kept for the next run, by their texts."""
    kept = options.results / f"embeddings-{data.format}.db"
    daemon = DaemonUnderTest(folder, environ)
    if kept.is_file():
        daemon.embeddings.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(kept, daemon.embeddings)
    with daemon:
        say(f"{data.name}: importing and embedding")
        took = daemon.call("import", paths=[str(path) for path in data.paths], format=data.format)
        if not took["turns_added"]:
            raise RuntimeError(f"nothing was imported: {took}")
        daemon.wait_until_embedded()
        yield daemon
    options.results.mkdir(parents=True, exist_ok=True)
    shutil.copy2(daemon.embeddings, kept)


# -- rows


def _how(data: Dataset) -> str:
    kinds = Counter(question.kind for question in data.questions)
    named = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
    return f"{len(data.questions)} questions ({named}), {HITS} hits"


def _at_least(measure: str, value: float, target: float, how: str) -> Row:
    return Row(measure, f"{value:.3f}", f"≥ {target:.2f}".replace("0.", "."), value >= target, how)


def _not_lower(measure: str, before: list[float], after: list[float], how: str) -> Row:
    row = _compared(measure, before, after)
    return Row(measure, row.measured, "not lower", fmean(after) >= fmean(before), f"{row.how}; {how}")


def _compared(measure: str, before: list[float], after: list[float]) -> Row:
    difference = paired_bootstrap(before, after, random.Random(SEED))
    measured = f"{fmean(before):.3f} → {fmean(after):.3f}"
    return Row(measure, measured, "", None, f"{difference} by paired bootstrap over {len(before)} questions")
