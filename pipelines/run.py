"""A run: the order of the stages, and what came of each. What one stage proposes, the next one sees."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from . import registry
from .gate.gate import Gate
from .registry import Stage
from .report.outcome import Outcome, counts_in_words
from .stages.lint import Linted
from .workspace.proposals import Planned
from .workspace.view import View


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a stage: `plan` reads the copy and proposes actions."""

    stage: Stage
    name: str
    plan: Callable[[View, datetime], Planned]
    weekly_only: bool = False


STEPS: tuple[Step, ...] = tuple(Step(step.switch, step.name, step.plan(), step.weekly_only) for step in registry.STEPS)


def plan(
    view: View,
    now: datetime,
    stages: Mapping[Stage, bool],
    *,
    weekly: bool = False,
    gate: Gate | None = None,
) -> Outcome:
    """Run the steps that are switched on, in order; later steps do not see what the gate refuses."""
    outcome = Outcome()
    steps = [step for step in STEPS if stages.get(step.stage, True) and (weekly or not step.weekly_only)]
    for done, step in enumerate(steps):
        view.steps.at(step.name, done, len(steps))
        began_s = time.monotonic()
        planned = step.plan(view, now)
        proposed = planned.actions = view.allowed(planned.actions)
        if gate is not None:
            planned.actions = gate.sift(step.name, proposed)
        if proposed and not planned.actions:
            planned.counts = {"refused": len(proposed)}
        else:
            view.apply(planned.actions, planned.cursors)
        outcome.seconds[step.name] = time.monotonic() - began_s
        outcome.counts[step.name] = dict(planned.counts)
        outcome.notes += planned.notes
        if isinstance(planned, Linted):
            outcome.findings = planned.findings
        view.steps.at(step.name, done + 1, len(steps), counts_in_words(planned.counts))
    if gate is not None:
        outcome.gate, outcome.checks = gate.result, gate.checks()
    return outcome
