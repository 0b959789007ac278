"""Envelopes of 500 and of 300 tokens: what was asked is told, as it holds now, and what nobody said is not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from statistics import fmean
from typing import Any

from ..in_process import AnyDaemon
from ..table import Row, say
from .reading import holds_now, is_told, tokens_of, usable_share
from .to_read import write

ANSWERED = {500: (0.88, 0.90), 300: (0.84, 0.86)}
"""By the envelope's budget in tokens: the answerable questions that are to be told, before and after a dream."""

CURRENT, WITH_STALE = 0.85, ("current_value", "correction")
UNASKED_FOR = ("unanswerable", "other_project")
ABSTAINED, WRONGLY_ABSTAINED = 0.75, 0.03
MOST_TOKENS, USABLE = 350, 0.97
_TAG = re.compile(r'<dreamd-memory id="[0-9a-f]{6}">|</dreamd-memory>')


@dataclass(frozen=True, slots=True)
class Answer:
    """One question, and the envelope that answered it."""

    question: dict[str, Any]
    text: str
    abstained: bool

    @property
    def kind(self) -> str:
        """The kind of the question."""
        return str(self.question["kind"])

    @property
    def words(self) -> str:
        """The envelope without its tag, whose id may hold a short value ("b2") by chance."""
        return _TAG.sub("", self.text)

    @property
    def right(self) -> bool:
        """Whether a reader of the envelope knows what was asked for; of what cannot be answered, that it cannot."""
        match self.kind:
            case "unanswerable":
                return self.abstained
            case "other_project":
                return self.abstained or not is_told(self.words, self.question["gold"])
            case "current_value" | "correction":
                return holds_now(self.words, self.question["gold"], self.question.get("stale", ()))
        return is_told(self.words, self.question["gold"])

    def __str__(self) -> str:
        verdict = "right" if self.right else "WRONG"
        wanted = {key: self.question[key] for key in ("gold", "stale") if self.question.get(key)}
        return f"{verdict} {self.kind} {self.question['id']}: {self.question['question']}\n{wanted}\n\n{self.text}\n"


@dataclass(frozen=True, slots=True)
class Answers:
    """What the envelopes of one budget told."""

    all: Sequence[Answer]

    def of(self, *kinds: str) -> list[Answer]:
        """Return the answers to these kinds of questions; to all that can be answered without a kind."""
        return [one for one in self.all if (one.kind in kinds if kinds else one.kind not in UNASKED_FOR)]

    def told(self, *kinds: str) -> float:
        """Return the share of these kinds' questions that were answered right."""
        return _mean([one.right for one in self.of(*kinds)])

    def abstained(self, *kinds: str) -> float:
        """Return the share of these kinds' questions that were not answered."""
        return _mean([one.abstained for one in self.of(*kinds)])

    @property
    def usable(self) -> float:
        """The mean share of usable lines."""
        return usable_share(one.text for one in self.all)

    @property
    def tokens(self) -> float:
        """The mean length of an envelope."""
        return fmean(tokens_of(one.text) for one in self.all)

    def __str__(self) -> str:
        groups: dict[str, list[bool]] = {}
        for name in (lambda one: one.kind, lambda one: f"in {one.question.get('lang', 'en')}"):
            for one in sorted(self.all, key=name):
                groups.setdefault(name(one), []).append(one.right)
        told = ", ".join(f"{name} {sum(right)}/{len(right)}" for name, right in groups.items())
        return f"{told}; {self.tokens:.0f} tokens an envelope, {self.usable:.3f} of its lines usable"


def import_sessions(daemon: AnyDaemon, data: Path) -> int:
    """Import the sessions; return how many turns they have."""
    say("readers: importing")
    turns: int = daemon.call("import", paths=[str((data / "sessions").absolute())], format="claude-code")["turns_added"]
    daemon.wait_until_embedded()
    return turns


def before(daemon: AnyDaemon, data: Path, results: Path) -> Iterator[Row]:
    """Ask before any dream."""
    yield from _rows(daemon, data, results, "before a dream", 0)


def after(daemon: AnyDaemon, data: Path, results: Path) -> Iterator[Row]:
    """Have one dream, and ask after it."""
    say("readers: dreaming")
    run = daemon.call("dream", kind="daily", wait=True)
    daemon.wait_until_embedded()
    did = ", ".join(f"{stage} {number}" for stage, number in run["actions"].items())
    yield Row(
        "readers, the dream", run["state"], "applied", run["state"] == "applied", f"{run['seconds']:.0f} s; {did}"
    )
    yield from _rows(daemon, data, results, "after one", 1)


def _rows(daemon: AnyDaemon, data: Path, results: Path, when: str, place: int) -> Iterator[Row]:
    questions = json.loads((data / "questions.json").read_text())
    asked = {budget: _ask(daemon, questions, budget) for budget in ANSWERED}
    for budget, answers in asked.items():
        wrong_first = sorted(answers.all, key=lambda one: (one.right, one.kind, one.question["id"]))
        write(results / f"envelopes, {when}, {budget}.txt", list(map(str, wrong_first)), "\n" + "-" * 100 + "\n")
        told, least = answers.told(), ANSWERED[budget][place]
        name = f"readers, {budget} tokens, {when}: answerable told"
        yield Row(name, f"{told:.3f}", f"≥ {least}", told >= least, str(answers))
    yield from _of_whole_envelopes(asked[max(ANSWERED)], f"readers, {when}")


def _of_whole_envelopes(answers: Answers, name: str) -> Iterator[Row]:
    now = [answers.told(kind) for kind in WITH_STALE]
    measured = " / ".join(f"{share:.2f}" for share in now)
    how = f"both together {answers.told(*WITH_STALE):.3f}"
    yield Row(f"{name}: current values / corrections right", measured, f"≥ {CURRENT} each", min(now) >= CURRENT, how)
    other, leaked = answers.abstained("other_project"), sum(not one.right for one in answers.of("other_project"))
    unanswerable = f"unanswerable ones {answers.abstained('unanswerable'):.2f} of {len(answers.of('unanswerable'))}"
    yield Row(
        f"{name}: another project's questions abstained; its answers told",
        f"{other:.2f}; {leaked}",
        f"≥ {ABSTAINED}; 0",
        other >= ABSTAINED and not leaked,
        unanswerable,
    )
    wrongly = answers.abstained()
    target = f"≤ {WRONGLY_ABSTAINED}"
    yield Row(f"{name}: answerable abstained", f"{wrongly:.3f}", target, wrongly <= WRONGLY_ABSTAINED, "")
    yield Row(
        f"{name}: usable lines; tokens an envelope",
        f"{answers.usable:.3f}; {answers.tokens:.0f}",
        f"≥ {USABLE}; ≤ {MOST_TOKENS}",
        answers.usable >= USABLE and answers.tokens <= MOST_TOKENS,
        "lines of five words and no heading; characters / 4",
    )


def _ask(daemon: AnyDaemon, questions: Sequence[dict[str, Any]], budget: int) -> Answers:
    channels = daemon.call("status")["channels"]
    answers = []
    for question in questions:
        channel = channel_of(question["project"], channels)
        got = daemon.call("context", query=question["question"], budget_tokens=budget, channel=channel)
        answers.append(Answer(question, got["text"], got["abstained"]))
    return Answers(answers)


def channel_of(project: str, channels: Sequence[str]) -> str:
    """Return the channel that a project's folder became: its name, and six characters that tell it from its like."""
    name = PurePosixPath(project).name.lower()
    return next((one for one in channels if one.lower().rpartition("-")[0] == name), name)


def _mean(values: Sequence[bool]) -> float:
    return fmean(values) if values else 0.0
