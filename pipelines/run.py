"""A run: the steps that are switched on, in order, each tried by the gate. A step sees what earlier ones propose."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime

from .gate.gate import Gate
from .registry import STEPS, Stage
from .report.run_report import RunOutcome, counts_in_words
from .stages.lint import LintProposals
from .workspace.view import View


def run_steps(
    view: View,
    now: datetime,
    stages: Mapping[Stage, bool],
    *,
    weekly: bool = False,
    gate: Gate | None = None,
) -> RunOutcome:
    """Run the steps that are switched on, in order; later steps do not see what the gate refuses."""
    outcome = RunOutcome()
    steps = [step for step in STEPS if stages.get(step.switch, True) and (weekly or not step.weekly_only)]
    planners = [step.load() for step in steps]  # before the first step, whose seconds would count the imports
    for done, (step, plan) in enumerate(zip(steps, planners, strict=True)):
        view.steps.at(step.name, done, len(steps))
        began_s = time.monotonic()
        proposals = plan(view, now)
        proposed = proposals.actions = view.allowed(proposals.actions)
        if gate is not None:
            proposals.actions = gate.sift(step.name, proposed)
        if proposed and not proposals.actions:
            # The cursors are not moved either, so the next dream reads and proposes the same again.
            proposals.counts = {"refused": len(proposed)}
        else:
            view.apply(proposals.actions, proposals.cursors)
        outcome.seconds[step.name] = time.monotonic() - began_s
        outcome.counts[step.name] = dict(proposals.counts)
        outcome.notes += proposals.notes
        if isinstance(proposals, LintProposals):
            outcome.findings = proposals.findings
        view.steps.at(step.name, done + 1, len(steps), counts_in_words(proposals.counts))
    if gate is not None:
        outcome.gate, outcome.checks = gate.result, gate.checks()
    return outcome
