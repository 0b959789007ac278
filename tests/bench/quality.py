"""Is the right thing found? LoCoMo and BEAM through the socket, before and after a dream."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
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
    content_words,
    distinct_turns,
    evidence_recall,
    paired_bootstrap,
    recall_in_envelope,
    score_envelope,
    wordpieces,
)
from .scratch import own_folder
from .table import Row, say, skipped

LOCOMO_RRF = "LoCoMo dev, evidence recall@10, fusion rrf"
BEAM_RRF = "BEAM-100K dev, any@5, fusion rrf"
AFTER = "{} dev after one daily dream, {}@500 tokens"
UPDATED = "BEAM-100K dev knowledge_update: the updated turn above the original's"
FLAGGED = "BEAM-100K dev contradiction_resolution: both sides in context, flagged"
TWO_SIDED = ("knowledge_update", "contradiction_resolution")
GAIN = 0.015
UPDATED_SHARE, FLAGGED_SHARE = 0.8, 0.7
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
    with own_folder("quality") as scratch:
        file = options.data / "locomo" / "dev.json"
        if file.is_file():
            yield from _locomo_rows(locomo(file, scratch, options.of(10, 1)), scratch / "locomo", options)
        else:
            for name in (AFTER.format("LoCoMo", what) for what in ("recall", "coverage")):
                yield skipped(name, "gain ≥ .015", f"no {file}")
            yield skipped(LOCOMO_RRF, "≥ .66", f"no {file}")
        folder = options.data / "beam-100k"
        if folder.is_dir():
            yield from _beam_rows(beam(folder, options.of(20, 1)), scratch / "beam", options)
        else:
            yield skipped(BEAM_RRF, "≥ .62", f"no {folder}")


def _locomo_rows(data: Dataset, folder: Path, options: Options) -> Iterator[Row]:
    with _filled(data, folder, options, RRF) as daemon:
        found = recall_all(daemon, data)
        yield _at_least(LOCOMO_RRF, fmean(found.recall_10), 0.66, f"{_how(data)}; {found}")
        daemon.stop()
    with DaemonUnderTest(folder) as daemon:
        before = recall_all(daemon, data)
        yield Row(
            "LoCoMo dev, evidence recall@10, default fusion", f"{fmean(before.recall_10):.3f}", "", None, str(before)
        )
        yield from _dream_rows(daemon, data)
        after = recall_all(daemon, data)
        daemon.stop()
    yield _compared("LoCoMo dev after one daily dream, evidence recall@10", before.recall_10, after.recall_10)


def _beam_rows(data: Dataset, folder: Path, options: Options) -> Iterator[Row]:
    with _filled(data, folder, options, RRF) as daemon:
        found = recall_all(daemon, data)
        yield _at_least(BEAM_RRF, fmean(found.any_5), 0.62, f"{_how(data)}; {found}")
        daemon.stop()
    with DaemonUnderTest(folder) as daemon:
        found = recall_all(daemon, data)
        yield Row("BEAM-100K dev, any@5, default fusion", f"{fmean(found.any_5):.3f}", "", None, str(found))
        yield from _dream_rows(daemon, data)
        yield from _two_sided_rows(daemon, data)
        daemon.stop()


def _dream_rows(daemon: DaemonUnderTest, data: Dataset) -> Iterator[Row]:
    """Envelopes before a daily dream without a model, and after it, all in all and by kind of question."""
    count = wordpieces()
    before = {budget: envelope_all(daemon, data, budget, count) for budget in BUDGETS}
    say(f"{data.name}: a daily dream")
    dream = daemon.call("dream", kind="daily", wait=True)
    after = {budget: envelope_all(daemon, data, budget, count) for budget in BUDGETS}
    how = f"the dream: {dream['state']}, {dream['actions']}, {dream['seconds']:.0f} s"
    for budget in BUDGETS:
        for what in ("recall", "coverage"):
            old, new = getattr(before[budget], what), getattr(after[budget], what)
            name = f"{data.name} dev after one daily dream, {what}@{budget} tokens"
            yield _gained(name, old, new, f"{how}; after: {after[budget]}", GAIN if budget == BUDGETS[0] else None)
            kinds = [q.kind for q in data.questions if what == "recall" or content_words(q.answer)]
            yield _by_kind(f"{name}, by kind", kinds, old, new)


def _two_sided_rows(daemon: DaemonUnderTest, data: Dataset) -> Iterator[Row]:
    """Of what was updated the newer above the older; of what contradicts itself both sides in one envelope, flagged."""
    asked = {kind: [q for q in data.questions if q.kind == kind and q.sides] for kind in TWO_SIDED}
    wire = daemon.wire()
    try:
        newer = [_is_newer_first(wire, question) for question in asked["knowledge_update"]]
        flagged = [_is_flagged(wire, question) for question in asked["contradiction_resolution"]]
    finally:
        wire.close()
    updated = sum(place is not None for place in newer)
    tied = sum(place is False for place in newer)
    yield _share(UPDATED, updated, len(newer), UPDATED_SHARE, f"{tied} of them name one turn for both")
    yield _share(FLAGGED, sum(flagged), len(flagged), FLAGGED_SHARE, "context of 1000 tokens")


def _is_newer_first(wire: Wire, question: Question) -> bool | None:
    """True if the updated turn is above the original's, False if they are one turn that is found, None else."""
    assert question.sides is not None
    got = wire.call("recall", query=question.text, limit=50, channel=question.channel)
    turns = distinct_turns([_named(hit) for hit in got["hits"]])
    old, new = (min((turns.index(t) for t in side if t in turns), default=len(turns)) for side in question.sides)
    if new < old:
        return True
    return False if question.sides[0] == question.sides[1] and new < len(turns) else None


def _is_flagged(wire: Wire, question: Question) -> bool:
    assert question.sides is not None
    got = wire.call("context", query=question.text, budget_tokens=1000, channel=question.channel)
    flagged = {turn for slot in got["slots"] if slot["contradicts"] for turn in _named(slot)}
    return all(side & flagged for side in question.sides)


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


def _share(measure: str, count: int, total: int, share: float, how: str) -> Row:
    least = ceil(share * total)
    return Row(measure, f"{count} of {total}", f"≥ {least} of {total}", count >= least, how)


def _gained(measure: str, before: list[float], after: list[float], how: str, target: float | None) -> Row:
    difference = paired_bootstrap(before, after, random.Random(SEED))
    row = _compared(measure, before, after)
    if target is None:
        return Row(measure, row.measured, "", None, f"{row.how}; {how}")
    enough = difference.mean >= target and difference.low > 0
    return Row(measure, row.measured, "gain ≥ .015, above 0", enough, f"{row.how}; {how}")


def _by_kind(measure: str, kinds: list[str], before: list[float], after: list[float]) -> Row:
    """Every kind of question by itself; none may lie wholly below 0."""
    differences = {}
    for kind in sorted(set(kinds)):
        rows = [i for i, one in enumerate(kinds) if one == kind]
        differences[kind] = paired_bootstrap([before[i] for i in rows], [after[i] for i in rows], random.Random(SEED))
    below = [kind for kind, difference in differences.items() if difference.high < 0]
    told = "; ".join(f"{kind} {difference}" for kind, difference in differences.items())
    return Row(measure, f"{len(below)} below 0", "none", not below, told)


def _compared(measure: str, before: list[float], after: list[float]) -> Row:
    difference = paired_bootstrap(before, after, random.Random(SEED))
    measured = f"{fmean(before):.3f} → {fmean(after):.3f}"
    return Row(measure, measured, "", None, f"{difference} by paired bootstrap over {len(before)} questions")
