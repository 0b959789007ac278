"""A run: the order of the stages, and what came of each. What one stage proposes, the next one sees."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from ..llm.budget import Asker
from ..store.keep.ledger.records import Run
from ..store.model import Changeset, Level
from .gate.gate import Gate, GateResult
from .protocol import Check, Done, RunRequest, write_changeset
from .report import html, markdown
from .report.sections import Night, open_pairs
from .settings import Stage
from .stages import consolidate, decay, drift, lint, profiles, refresh, scenarios, staleness, synthesis
from .stages.lint import Finding, Linted
from .workspace.proposals import Planned
from .workspace.view import View

MOST_LEAKS = 100


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a stage: `plan` looks at the copy and proposes."""

    stage: Stage
    name: str
    plan: Callable[[View, datetime], Planned]
    weekly_only: bool = False


# A new stage goes where the design has it.
STEPS: tuple[Step, ...] = (
    Step(Stage.CONSOLIDATE, consolidate.STAGE, consolidate.plan),
    Step(Stage.DRIFT, drift.STAGE, drift.plan),
    Step(Stage.CONSOLIDATE, scenarios.STAGE, scenarios.plan),
    Step(Stage.CONSOLIDATE, profiles.STAGE, profiles.plan),
    Step(Stage.DRIFT, staleness.STAGE, staleness.plan),
    Step(Stage.DRIFT, refresh.STAGE, refresh.plan),
    Step(Stage.SYNTHESIS, synthesis.STAGE, synthesis.plan, weekly_only=True),
    Step(Stage.LINT, lint.STAGE, lint.plan),
    Step(Stage.DECAY, decay.STAGE, decay.plan),
    Step(Stage.DECAY, "refresh after decay", refresh.plan),
)


@dataclass(frozen=True, slots=True)
class ModelUse:
    """Which language model a dream asked, how much, and why it went without one, wholly or from some point on."""

    name: str = ""
    calls: int = 0
    tokens: int = 0
    seconds: float = 0.0
    why_not: str = ""

    @property
    def way(self) -> str:
        """In a sentence or two."""
        if not self.name:
            return f"It went without a language model: {self.why_not}" if self.why_not else "No language model is set."
        return f"{self.name} helped{', until ' + self.why_not.rstrip('.') if self.why_not else ''}."


@dataclass(slots=True)
class Outcome:
    """What the steps did."""

    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    findings: tuple[Finding, ...] = ()
    gate: GateResult | None = None
    model: ModelUse = field(default_factory=lambda: ModelUse())
    checks: tuple[Check, ...] = ()


def plan(
    view: View,
    now: datetime,
    stages: Mapping[Stage, bool],
    *,
    weekly: bool = False,
    gate: Gate | None = None,
) -> Outcome:
    """Let every step that is switched on propose, in order; what the gate refuses, those after it do not see."""
    outcome = Outcome()
    steps = [step for step in STEPS if stages.get(step.stage, True) and (weekly or not step.weekly_only)]
    for done, step in enumerate(steps):
        view.steps.at(step.name, done, len(steps))
        began_s = time.monotonic()
        planned = step.plan(view, now)
        planned.actions = view.allowed(planned.actions)
        if gate is not None and gate.refuses(step.name, planned.actions):
            planned.counts = {"refused": len(planned.actions)}
        else:
            view.apply(planned.actions, planned.cursors)
        outcome.seconds[step.name] = time.monotonic() - began_s
        outcome.counts[step.name] = dict(planned.counts)
        outcome.notes += planned.notes
        if isinstance(planned, Linted):
            outcome.findings = planned.findings
        view.steps.at(step.name, done + 1, len(steps), _told(planned))
    if gate is not None:
        outcome.gate, outcome.checks = gate.result, gate.checks()
    return outcome


def finish(view: View, request: RunRequest, outcome: Outcome, runs: Sequence[Run], gaps: Sequence[str] = ()) -> Done:
    """Write the changeset and say what the run is: the digest, as text and as a page, and the numbers."""
    changeset = Changeset(run_id=request.run_id, actions=tuple(view.actions), cursors=view.cursors)
    path = request.folder / "changeset.jsonl"
    if changeset.actions or changeset.cursors:
        write_changeset(path, changeset)
    night = _night(view, request, outcome, runs, gaps)
    written = markdown.path_of(request.local_date)
    text = markdown.render(night, _text(view, written))
    derived = {}
    # Who did nothing writes nothing; but what a night left out, and why, is said once a day.
    if changeset.actions or (outcome.gate and outcome.gate.dropped and view.read(written) is None):
        shown = html.path_of(request.local_date)
        derived = {written: text, shown: html.render(night, _text(view, shown))}
    return Done(
        changeset_path=path if path.exists() else None,
        digest=text,
        derived=derived,
        report=_report(view, changeset, outcome),
        checks=outcome.checks,
    )


def _text(view: View, path: str) -> str:
    return (view.read(path) or b"").decode("utf-8", "replace")


def gaps_of(view: View) -> list[str]:
    """What was asked and not found, as the digest says it: what was asked again and again first."""
    told = synthesis.recurring(view, view.history.gaps)
    return [text if times == 1 else f"{text} (asked {times} times)" for text, times in told]


def _night(view: View, request: RunRequest, outcome: Outcome, runs: Sequence[Run], gaps: Sequence[str]) -> Night:
    return Night(
        day=request.local_date,
        run_id=request.run_id,
        actions=view.actions,
        counts=outcome.counts,
        seconds=outcome.seconds,
        notes=outcome.notes,
        findings=outcome.findings,
        gaps=gaps,
        memories=_levels(view),
        kind=request.kind,
        at=request.now.astimezone(timezone(timedelta(seconds=request.utc_offset_s))),
        decisions=open_pairs(view),
        runs=runs,
        used={node_id: usage.last_at for node_id, usage in view.history.usage.items()},
        gate=outcome.gate,
        way=outcome.model.way,
        tokens=outcome.model.tokens,
        calls=outcome.model.calls,
    )


def _levels(view: View) -> dict[Level, int]:
    return dict(Counter(memory.level for memory in view.memories()))


def _report(view: View, changeset: Changeset, outcome: Outcome) -> dict[str, Any]:
    """What `runs` shows: numbers and ids, no texts. A run that did nothing says so."""
    return {
        "actions": len(changeset.actions),
        "did_nothing": not changeset.actions,
        "stages": outcome.counts,
        "seconds": {name: round(seconds, 3) for name, seconds in outcome.seconds.items()},
        "findings": len(outcome.findings),
        "leaks": [finding.node_id for finding in outcome.findings if finding.check == "secrets"][:MOST_LEAKS],
        "memories": {level.value: number for level, number in _levels(view).items()},
        "notes": outcome.notes,
        "gate": asdict(outcome.gate) if outcome.gate else None,
        "model": outcome.model.name,
        "calls": outcome.model.calls,
        "tokens": outcome.model.tokens,
        "model_seconds": round(outcome.model.seconds, 1),
        "without_model": outcome.model.why_not,
    }


def model_use(asker: Asker | None, why_not: str) -> ModelUse:
    """What a dream took of its model; `why_not` says why there was none, or is empty."""
    if asker is None:
        return ModelUse(why_not=why_not)
    spent = asker.spent
    return ModelUse(asker.name, spent.calls, spent.tokens, spent.seconds, asker.why_not)


def _told(planned: Planned) -> str:
    return ", ".join(f"{number} {what}" for what, number in planned.counts.items()) or "nothing to do"
