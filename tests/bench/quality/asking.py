"""What recall and context answer to every question of a set, and how each answer is scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from ..datasets import Dataset, Question
from ..in_process import AnyDaemon
from ..readers.reading import usable_share
from ..readers.to_read import write
from ..scoring import (
    CountTokens,
    ScoredEnvelope,
    ScoredSlot,
    answer_coverage,
    any_found,
    carried_in_envelope,
    distinct_turns,
    evidence_recall,
    recall_in_envelope,
    score_envelope,
)
from ..table import say

HITS = 10
MEASURES = ("recall", "carried", "coverage", "usable")


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
    """One envelope a question, in the questions' order, all of one budget."""

    questions: Sequence[Question]
    envelopes: Sequence[ScoredEnvelope]
    budget: int

    def scores(self, measure: str) -> list[float | None]:
        """Return one score a question; None where there is nothing to score.

        "carried": an answer has no word that its question has not; "coverage": none at all; "usable": no envelope.
        """
        return [self._score(measure, *one) for one in zip(self.questions, self.envelopes, strict=True)]

    def mean(self, measure: str) -> float:
        """Return the mean over the questions that have a score."""
        return fmean([score for score in self.scores(measure) if score is not None] or [0.0])

    def write(self, file: Path) -> None:
        """Write every envelope for a person to read, by kind."""
        pairs = sorted(zip(self.questions, self.envelopes, strict=True), key=lambda pair: pair[0].kind)
        texts = [f"{q.kind}, {q.channel}: {q.text}\nanswer: {q.answer}\n\n{one.text}" for q, one in pairs]
        write(file, texts, "\n" + "-" * 100 + "\n")

    @staticmethod
    def _score(measure: str, question: Question, envelope: ScoredEnvelope) -> float | None:
        match measure:
            case "recall":
                return recall_in_envelope(envelope, question.gold)
            case "carried":
                return carried_in_envelope(envelope, question.gold, question.text, question.answer)
            case "coverage":
                return answer_coverage(envelope, question.answer)
        return usable_share([envelope.text]) if envelope.text.strip() else None

    def __str__(self) -> str:
        measures = ", ".join(f"{measure} {self.mean(measure):.3f}" for measure in MEASURES)
        fill = fmean(min(1.0, one.tokens / self.budget) for one in self.envelopes)
        over, empty = (
            sum(state) for state in zip(*((not one.fits, not one.turns) for one in self.envelopes), strict=True)
        )
        return f"{measures}; {fill:.0%} of the budget used, {over} over it, {empty} empty"


def recall_all(daemon: AnyDaemon, data: Dataset) -> Recalled:
    """Ask `recall` every question in its channel."""
    say(f"{data.name}: recall, {len(data.questions)} questions")
    pairs = []
    for question in data.questions:
        got = daemon.call("recall", query=question.text, limit=HITS, channel=question.channel)
        pairs.append((distinct_turns([named(hit) for hit in got["hits"]]), question.gold))
    return Recalled(
        [evidence_recall(found, wanted, 5) for found, wanted in pairs],
        [evidence_recall(found, wanted, 10) for found, wanted in pairs],
        [any_found(found, wanted, 5) for found, wanted in pairs],
        [any_found(found, wanted, 10) for found, wanted in pairs],
    )


def envelope_all(daemon: AnyDaemon, data: Dataset, budget: int, count: CountTokens) -> Enveloped:
    """Ask `context` every question in its channel."""
    say(f"{data.name}: context of {budget} tokens, {len(data.questions)} questions")

    envelopes = []
    for question in data.questions:
        got = daemon.call("context", query=question.text, budget_tokens=budget, channel=question.channel)
        slots = [ScoredSlot(slot["text"], named(slot)) for slot in got["slots"]]
        envelopes.append(score_envelope(got["text"], slots, budget, count))
    return Enveloped(data.questions, envelopes, budget)


def named(holder: Mapping[str, list[dict[str, str | None]]]) -> tuple[str, ...]:
    """Return the turns that a hit or a slot names, as the set names them."""
    return tuple(turn["external_id"] or f"node {turn['node_id']}" for turn in holder["evidence"])
