"""The end of a run: its changeset in a file, the day's digest as text and as a page, its numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ...store.ledger.records import Run
from ...store.model import Changeset
from ...store.writer.derived import unmarked
from ..changeset_file import write_changeset
from ..protocol import Done, RunRequest
from ..workspace.view import View
from . import html, markdown
from .outcome import Outcome
from .run_report import RunReport

MOST_LEAKS = 100


def finish(view: View, request: RunRequest, outcome: Outcome, runs: Sequence[Run], linked: int = 0) -> Done:
    """Write the changeset into the run's folder and return what the daemon is to know of the run."""
    changeset = Changeset(
        run_id=request.run_id, actions=tuple(view.actions), cursors=view.cursors, ranking=view.ranking
    )
    path = request.folder / "changeset.jsonl"
    if changeset.changes_something or changeset.cursors:
        write_changeset(path, changeset)
    report = RunReport.of(view, request, outcome, runs, linked)
    written, shown = markdown.path_of(request.local_date), html.path_of(request.local_date)
    text = markdown.render(report, _text(view, written))
    derived = {}
    # A run that changes nothing writes nothing; but what the gate left out, and why, is said once a day, and which
    # pages its person has edited, whenever they would have changed.
    is_refused = outcome.gate and outcome.gate.dropped and view.read(written) is None
    if changeset.changes_something or view.held or is_refused:
        derived = {written: text, shown: html.render(report, _text(view, shown))}
    return Done(
        changeset_path=path if path.exists() else None,
        digest=text,
        derived=derived,
        report=_numbers(view, changeset, outcome),
        checks=outcome.checks,
    )


def _text(view: View, path: str) -> str:
    return unmarked(view.read(path) or b"").decode("utf-8", "replace")


def _numbers(view: View, changeset: Changeset, outcome: Outcome) -> dict[str, Any]:
    """Return what `runs` shows: numbers and ids, no texts. A run that did nothing says so."""
    return {
        "actions": len(changeset.actions),
        "did_nothing": not changeset.changes_something,
        "stages": outcome.counts,
        "seconds": {name: round(seconds, 3) for name, seconds in outcome.seconds.items()},
        "findings": len(outcome.findings),
        "held": len(view.held),
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
