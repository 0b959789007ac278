"""The report of a run: all data of the digest and the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np

from ...llm.budget import Asker
from ...store.changes.decisions import is_reviewed
from ...store.index.projection import Node
from ...store.index.tombstones import pair_key
from ...store.ledger.questions import FILLED, Gap
from ...store.ledger.records import Run
from ...store.model import Action, Level, Memory, NodeId
from ...store.results import ToldCounts
from ..gate.gate import GateResult
from ..messages import Check, ReadTurn, RunRequest
from ..settings import STEPS
from ..stages.lint import LintFinding
from ..workspace.view import View

# Cosine from which two questions count as the same.
SAME_QUESTION = 0.7

# Questions that are compared with each other, the latest.
MOST_GAPS = 300

_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class SinceTheLast:
    """Counts since the last dream: remembered statements that were linked, and texts that agents were handed."""

    linked: int = 0
    told: ToldCounts = field(default_factory=ToldCounts)


@dataclass(frozen=True, slots=True)
class RunReport:
    """Everything that is reported of a run. `at` is the person's local time when it began.

    `model_note` says whether a language model took part, and if not, why; `decisions` are pairs, the older first;
    `waiting` are notes of agents that their person has not accepted; `left_alone` are pages that a person edited;
    `gaps` are questions without an answer, `filled` those that have one now, how often each was asked, and the answer;
    `runs` are the earlier runs, and `since` has the counts since the last of
    them; `used` maps memories to the time of their last recall; `channels` are all that have a memory.
    """

    day: date
    run_id: str
    actions: Sequence[Action]
    counts: Mapping[str, Mapping[str, int]]
    seconds: Mapping[str, float]
    notes: Sequence[str] = ()
    findings: Sequence[LintFinding] = ()
    gaps: Sequence[str] = ()
    filled: Sequence[tuple[str, int, Node]] = ()
    memories: Mapping[Level, int] = field(default_factory=dict)
    kind: str = "daily"
    at: datetime | None = None
    gate: GateResult | None = None
    model_note: str = ""
    tokens: int = 0
    calls: int = 0
    decisions: Sequence[tuple[Memory, Memory]] = ()
    waiting: Sequence[Memory] = ()
    left_alone: Sequence[Memory] = ()
    runs: Sequence[Run] = ()
    since: SinceTheLast = field(default_factory=lambda: SinceTheLast())
    used: Mapping[NodeId, datetime] = field(default_factory=dict)
    channels: Collection[str] = ()

    @property
    def steps(self) -> list[tuple[str, float, str]]:
        """The steps that found something to do: the name, the seconds, and the counts in words of each."""
        found = ((name, seconds, self.counts.get(name)) for name, seconds in self.seconds.items())
        return [(step_name(name), seconds, counts_in_words(counts)) for name, seconds, counts in found if counts]

    @classmethod
    def of(
        cls,
        view: View,
        request: RunRequest,
        outcome: RunOutcome,
        runs: Sequence[Run],
        since: SinceTheLast | None = None,
    ) -> RunReport:
        """Build the report of a planned run."""
        return cls(
            day=request.local_date,
            run_id=request.run_id,
            actions=view.actions,
            counts=outcome.counts,
            seconds=outcome.seconds,
            notes=outcome.notes,
            findings=outcome.findings,
            gaps=_gaps(
                view, [gap for gap in unfilled(view.history.gaps, runs) if gap.question_id not in outcome.filled]
            ),
            filled=_filled(view, outcome.filled),
            memories=Counter(memory.level for memory in view.memories()),
            kind=request.kind,
            at=request.now.astimezone(timezone(timedelta(seconds=request.utc_offset_s))),
            decisions=open_pairs(view),
            waiting=view.waiting(),
            left_alone=[memory for memory in view.memories() if memory.node_id in view.left_alone],
            runs=runs,
            since=since or SinceTheLast(),
            used={node_id: usage.last_at for node_id, usage in view.history.usage.items()},
            channels={memory.channel for memory in view.memories()},
            gate=outcome.gate,
            model_note=outcome.model.note,
            tokens=outcome.model.tokens,
            calls=outcome.model.calls,
        )


def open_pairs(view: View) -> list[tuple[Memory, Memory]]:
    """Return the live pairs that contradict each other and wait for a person, the older of each first."""
    living = {memory.node_id: memory for memory in view.memories()}
    named = {
        tuple(sorted((memory.node_id, other)))
        for memory in living.values()
        for other in memory.contradicts
        if other in living and not view.is_forbidden(pair_key(memory.node_id, other))
    }
    found = []
    for names in sorted(named):
        pair = [view.memory(name) or living[name] for name in names]
        if not all(is_reviewed(memory.extra) for memory in pair):
            older, newer = sorted(pair, key=lambda memory: memory.valid_from or memory.created_at or _NEVER)
            found.append((older, newer))
    return found


def unfilled(gaps: Sequence[Gap], runs: Sequence[Run]) -> list[Gap]:
    """Return the gaps that no earlier run found filled."""
    found = {number for run in runs if run.state == "applied" for number in run.summary.get(FILLED, ())}
    return [gap for gap in gaps if gap.question_id not in found]


def _filled(view: View, answers: Mapping[int, Node]) -> list[tuple[str, int, Node]]:
    """Return the questions that have an answer now, similar ones as one."""
    filled = [gap for gap in view.history.gaps if gap.question_id in answers]
    by_text = {gap.text: answers[gap.question_id] for gap in filled}
    return [(text, times, by_text[text]) for text, times in recurring_gaps(view, filled)]


def _gaps(view: View, gaps: Sequence[Gap]) -> list[str]:
    """Return the questions without an answer, the most frequent first."""
    return [text if times == 1 else f"{text} (asked {times} times)" for text, times in recurring_gaps(view, gaps)]


def recurring_gaps(view: View, gaps: Sequence[Gap]) -> list[tuple[str, int]]:
    """Merge similar gaps: return the latest wording and the number of times of each, the most frequent first."""
    some = sorted(gaps, key=lambda gap: gap.last_at, reverse=True)[:MOST_GAPS]
    if not some:
        return []
    vectors = view.vectors([gap.text for gap in some])
    heads: list[int] = []
    times: dict[int, int] = {}
    for row, gap in enumerate(some):
        cosines = vectors[heads] @ vectors[row] if heads else np.empty(0, np.float32)
        same = heads[int(cosines.argmax())] if len(heads) and float(cosines.max()) >= SAME_QUESTION else row
        if same == row:
            heads.append(row)
        times[same] = times.get(same, 0) + gap.times
    return sorted(((some[row].text, number) for row, number in times.items()), key=lambda gap: (-gap[1], gap[0]))


def step_name(name: str) -> str:
    """Return a step of a dream as a person would call it; the name itself for one of an extension."""
    return next((one.words for one in STEPS if one.name == name and one.words), name.replace("_", " "))


def counts_in_words(counts: Mapping[str, int]) -> str:
    """Write the counts of a step: `1 scenario, 2 profiles changed`; "nothing to do" for none."""
    return ", ".join(f"{number:,} {_noun(what, number)}" for what, number in counts.items()) or "nothing to do"


def _noun(what: str, number: int) -> str:
    """Return a counted noun, given in the plural, for a number; the first word loses its s for one."""
    noun, *rest = what.split(" ")
    return " ".join([noun.removesuffix("s") if number == 1 else noun, *rest])


@dataclass(frozen=True, slots=True)
class ModelUse:
    """The use of a language model in a run. `why_not` says why there was none, wholly or from some point on."""

    name: str = ""
    calls: int = 0
    tokens: int = 0
    seconds: float = 0.0
    why_not: str = ""

    @classmethod
    def of(cls, asker: Asker | None, why_not: str) -> ModelUse:
        """Read the use of a model; without one, `why_not` is the reason, or empty."""
        if asker is None:
            return cls(why_not=why_not)
        spent = asker.spent
        return cls(asker.name, spent.calls, spent.tokens, spent.seconds, asker.why_not)

    @property
    def note(self) -> str:
        """The same in a sentence or two; "" where no model is set."""
        if not self.name:
            return f"It went without a language model: {self.why_not}" if self.why_not else ""
        return f"{self.name} helped{', until ' + self.why_not.rstrip('.') if self.why_not else ''}."


@dataclass(slots=True)
class RunOutcome:
    """The result of every step: its counts, seconds and notes by name; notes hold no person's text.

    `filled` has the answer to questions that found none before, by their number.
    """

    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    findings: tuple[LintFinding, ...] = ()
    gate: GateResult | None = None
    model: ModelUse = field(default_factory=lambda: ModelUse())
    checks: tuple[Check, ...] = ()
    turns: list[ReadTurn] = field(default_factory=list)
    filled: Mapping[int, Node] = field(default_factory=dict)
