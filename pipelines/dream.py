"""A dream: copy the memory, let the stages plan on the copy, leave changeset and report in the run's folder.

The steps that are switched on run in order, each tried by the gate; a step sees what earlier ones propose.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, get_args

from ..llm import budget
from ..llm.budget import Allowance, asker_for
from ..store.embedding.embedding import Embedder, embedder_for
from ..store.extensions import use
from ..store.ledger.questions import FILLED
from ..store.ledger.records import LINK, Run
from ..store.ledger.work import TOLD_DAYS, told_counts
from ..store.model import Changeset
from ..store.writer.derived import unmarked
from .gate.gate import Gate
from .gate.probes import answered_now
from .gate.shadow_index import ShadowIndex
from .messages import LEARN, SPENT, Done, Progress, RunKind, RunRequest, write_changeset
from .pipe import OnProgress, PauseListener, StepProgress
from .report import digest_text as markdown
from .report import html
from .report.run_report import ModelUse, RunOutcome, RunReport, SinceTheLast, counts_in_words, unfilled
from .settings import COMPACTION, LEARNING, STEPS, Stage
from .stages.lint import LintProposals
from .workspace.memo import CachedEmbedder, Memo, cache_copy
from .workspace.snapshot import Snapshot
from .workspace.view import View

MOST_LEAKS = 100

# The questions in vain that are asked again, the most often asked first.
GAPS_ASKED = 20


def dream(request: RunRequest, on_progress: OnProgress, listener: PauseListener | None = None) -> Done:
    """Plan one dream. Writes only in the request's folder and to its checkpoint.

    `listener` is given the callback that aborts a request to a language model before a pause.
    """
    extensions = use(request.store.extensions)
    extensions.add_own("models", budget)
    embedder = embedder_for(request.store.embedding, request.models)
    snapshot = Snapshot(request.folder, request.vault, request.index, request.ledger)
    with ExitStack() as closing:
        closing.callback(snapshot.close)
        if known := cache_copy(request.embeddings, request.folder, embedder):
            closing.callback(known.close)
        if memo := Memo(request.checkpoint) if request.checkpoint else None:
            closing.callback(memo.close)
        embed = CachedEmbedder(embedder, known, lambda done, total: view.steps.detail("embedding", done, total), memo)
        view = View(snapshot, snapshot.history(), embed, request.run_id, request.pipelines)
        view.memo, view.steps = memo, StepProgress(_with_spending(on_progress, view, request.folder / SPENT))
        view.model, why_not = asker_for(request.llm, _left(request), extensions.table("providers"))
        if view.model is not None:
            closing.callback(view.model.release)
            if listener is not None:
                listener.before_pausing(view.model.abort)
        open_shadow = cache(lambda: closing.enter_context(_shadow(request, view, embedder)))
        gate = Gate(open_shadow, view, request.pipelines.gate, request.now)
        view.learns = request.sessions if request.kind == LEARN else None
        outcome = run_steps(view, request.now, _stages(request), weekly=request.kind == "weekly", gate=gate)
        outcome.model = ModelUse.of(view.model, why_not)
        runs = snapshot.ledger.runs(hidden=(LINK,))
        if view.actions and view.learns is None and (gaps := unfilled(view.history.gaps, runs)[:GAPS_ASKED]):
            outcome.filled = answered_now(open_shadow(), gaps)
        return finish(view, request, outcome, runs, _since_the_last(snapshot, request.now))


def _since_the_last(snapshot: Snapshot, now: datetime) -> SinceTheLast:
    """Count statements linked to earlier ones, and texts handed to agents, since the last dream."""
    dreams = snapshot.ledger.runs(1, kinds=get_args(RunKind), states=("applied",))
    since = dreams[0].started_at if dreams else datetime.fromtimestamp(0, UTC)
    # Older texts are shown no more: what is counted is what `told` lists.
    told = snapshot.ledger.told(max(since, now - timedelta(days=TOLD_DAYS)))
    return SinceTheLast(len(snapshot.ledger.runs_since(since, (LINK,))), told_counts(told))


def _with_spending(on_progress: OnProgress, view: View, file: Path) -> OnProgress:
    """Add the language model's cost so far to every report, and keep it in a file.

    The daemon thus knows the cost of a dream that it ends, or finds ended.
    """

    def report(progress: Progress) -> None:
        if view.model is not None:
            spent = {"calls": view.model.spent.calls, "tokens": view.model.spent.tokens}
            file.write_text(json.dumps(spent))
            progress = progress.model_copy(update=spent | {"model_s": view.model.spent.seconds})
        on_progress(progress)

    return report


def _left(request: RunRequest) -> Allowance:
    """Return the rest of the model's daily allowance after earlier runs."""
    return Allowance(
        calls=max(0, request.llm.calls_per_day - request.calls_spent),
        tokens=max(0, request.llm.tokens_per_day - request.tokens_spent),
    )


def _shadow(request: RunRequest, view: View, embedder: Embedder) -> ShadowIndex:
    """Open a copy of the copied index, in which the gate tries proposals."""
    hidden = {key.removeprefix("turn:") for key in view.history.tombstones if key.startswith("turn:")}
    index = request.folder / "index.db"
    shadow = ShadowIndex(index, request.vault, request.store, embedder, view.vectors, request.now, hidden)
    shadow.trust(view.history.feedback)
    return shadow


def _stages(request: RunRequest) -> dict[Stage, bool]:
    """Return which stages take part in this kind of dream."""
    stages = request.pipelines.stages
    if request.kind != "compaction":
        return stages
    return {stage: stages.get(stage, True) and stage in COMPACTION for stage in Stage}


def finish(
    view: View, request: RunRequest, outcome: RunOutcome, runs: Sequence[Run], since: SinceTheLast | None = None
) -> Done:
    """Write the changeset into the run's folder and return the message for the daemon."""
    changeset = Changeset(run_id=request.run_id, actions=tuple(view.actions), cursors=view.cursors)
    path = request.folder / "changeset.jsonl"
    if changeset.changes_something or changeset.cursors:
        write_changeset(path, changeset)
    report = RunReport.of(view, request, outcome, runs, since)
    written, shown = markdown.path_of(request.local_date), html.path_of(request.local_date)
    text = markdown.render(report, _text(view, written))
    derived = {}
    # A run that changes nothing writes no digest, with two exceptions: refusals of the gate are reported once a day,
    # and pages that were left as a person edited them whenever they would have changed.
    is_refused = outcome.gate and outcome.gate.dropped and view.read(written) is None
    # A person who has a file learned is told at once.
    if view.learns is None and (changeset.changes_something or view.left_alone or is_refused):
        derived = {written: text, shown: html.render(report, _text(view, shown))}
    return Done(
        changeset_path=path if path.exists() else None,
        digest=text,
        derived=derived,
        report=_numbers(view, changeset, outcome),
        checks=outcome.checks,
        turns=tuple(outcome.turns) if view.learns is not None else (),
    )


def _text(view: View, path: str) -> str:
    return unmarked(view.read(path) or b"").decode("utf-8", "replace")


def _numbers(view: View, changeset: Changeset, outcome: RunOutcome) -> dict[str, Any]:
    """Return the summary that `runs` shows: numbers and ids, no texts."""
    return {
        "actions": len(changeset.actions),
        "did_nothing": not changeset.changes_something,
        "stages": outcome.counts,
        "seconds": {name: round(seconds, 3) for name, seconds in outcome.seconds.items()},
        "findings": len(outcome.findings),
        "held": len(view.left_alone),
        FILLED: list(outcome.filled),
        "leaks": [finding.node_id for finding in outcome.findings if finding.check == "secrets"][:MOST_LEAKS],
        "memories": {level.value: n for level, n in Counter(memory.level for memory in view.memories()).items()},
        "notes": outcome.notes,
        "gate": asdict(outcome.gate) if outcome.gate else None,
        "model": outcome.model.name,
        "calls": outcome.model.calls,
        "tokens": outcome.model.tokens,
        "model_seconds": round(outcome.model.seconds, 1),
        "without_model": outcome.model.why_not,
    }


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
    if view.learns is not None:
        steps = [step for step in steps if step.name in LEARNING]
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
        outcome.turns += proposals.turns
        if isinstance(proposals, LintProposals):
            outcome.findings = proposals.findings
        view.steps.at(step.name, done + 1, len(steps), counts_in_words(proposals.counts))
    if gate is not None:
        outcome.gate, outcome.checks = gate.result, gate.checks()
    return outcome
